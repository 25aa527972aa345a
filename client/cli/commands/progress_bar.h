#ifndef CALIBD_CLIENT_CLI_COMMANDS_PROGRESS_BAR_H_
#define CALIBD_CLIENT_CLI_COMMANDS_PROGRESS_BAR_H_

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

namespace calibd::cli {

// Shows progress, speed and remaining time of a task on standard error: in one line of a terminal,
// and elsewhere in a line every 30 seconds, the first after 10, also while a task tells nothing.
// Not thread-safe.
class ProgressBar {
 public:
  // label: the task. unit: what total counts, e.g. "rows"; empty if the count means nothing to the
  // user. total: > 0.
  ProgressBar(std::string label, std::string unit, double total);
  // Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // done: the completed part of total. Redraws a terminal at most ten times a second.
  void Update(double done);

 private:
  using Clock = std::chrono::steady_clock;

  void Draw(Clock::time_point now);
  void WriteLines(const std::stop_token& stop);

  const std::string label_;
  const std::string unit_;
  const double total_;
  const bool terminal_;
  const Clock::time_point started_;
  Clock::time_point drawn_;
  std::atomic<double> done_ = 0;
  // Writes the lines, unless this is a terminal.
  std::jthread writer_;
};

// Returns the text of the line: "sending [#####.....] 50% 5000 rows 1000 rows/s ETA 5 s".
[[nodiscard]] std::string ProgressLine(const std::string& label, const std::string& unit,
                                       double done, double total, double elapsed_seconds);

// Returns the text of a line elsewhere: "sending: 50 % after 10 s".
[[nodiscard]] std::string ProgressNote(const std::string& label, double done, double total,
                                       double elapsed_seconds);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_PROGRESS_BAR_H_
