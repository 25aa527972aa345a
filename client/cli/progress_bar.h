#ifndef CALIBD_CLI_PROGRESS_BAR_H_
#define CALIBD_CLI_PROGRESS_BAR_H_

#include <chrono>
#include <string>

namespace calibd::cli {

// A line on standard error that tells how far the work is, how fast and how much
// longer. Silent when standard error is not a terminal. Not thread-safe.
class ProgressBar {
 public:
  // label: what is done. unit: what total counts, e.g. "rows"; empty when the
  // count means nothing to a reader. total > 0.
  ProgressBar(std::string label, std::string unit, double total);
  // Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // done: of total, so far. Draws ten times a second at most.
  void Update(double done);

 private:
  using Clock = std::chrono::steady_clock;

  void Draw(double done, Clock::time_point now);

  const std::string label_;
  const std::string unit_;
  const double total_;
  const bool visible_;
  const Clock::time_point started_;
  Clock::time_point drawn_;
  double done_ = 0;
};

// The text of such a line: "sending  [#####.....]  50%  5000 rows  1000 rows/s  ETA 5 s".
[[nodiscard]] std::string ProgressLine(const std::string& label, const std::string& unit,
                                       double done, double total, double elapsed_seconds);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_PROGRESS_BAR_H_
