#ifndef CALIBD_SERVER_INGEST_LOG_CLOCK_H_
#define CALIBD_SERVER_INGEST_LOG_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace calibd::server {

// What time it is; tests bring their own.
struct Clock {
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
};

// The times that the log carries. The wall clock is for showing; it may jump. The age of
// predictions is told by a clock that never goes back: it runs on with the steady clock, and
// from one process to the next by what the wall clock says has passed. Thread-safe.
class LogClock {
 public:
  explicit LogClock(Clock clock = {}) : clock_(std::move(clock)), begin_(clock_.steady()) {}

  // start: of the newest row of the log, and what passed since. Before anyone asks.
  void Begin(std::chrono::microseconds start) {
    start_ = start;
    begin_ = clock_.steady();
  }

  [[nodiscard]] std::chrono::microseconds elapsed() const {
    return start_ + std::chrono::duration_cast<std::chrono::microseconds>(clock_.steady() - begin_);
  }
  // Microseconds since 1970.
  [[nodiscard]] std::int64_t wall_us() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(clock_.wall().time_since_epoch())
        .count();
  }

 private:
  const Clock clock_;
  std::chrono::microseconds start_{};
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOG_CLOCK_H_
