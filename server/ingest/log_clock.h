#ifndef CALIBD_SERVER_INGEST_LOG_CLOCK_H_
#define CALIBD_SERVER_INGEST_LOG_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace calibd::server {

// The sources of time. Tests replace them.
struct Clock {
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
};

// The times in the rows of the log. The wall clock is for display and for the history. The age of
// predictions is measured by a clock that never goes back: within a process it follows the steady
// clock, and from one process to the next it advances by the elapsed wall-clock time. Thread-safe.
class LogClock {
 public:
  // A step of the wall clock by more than this may be a mistake. The new time is accepted after it
  // has lasted this long.
  static constexpr std::chrono::hours kStep{1};

  explicit LogClock(Clock clock = {})
      : clock_(std::move(clock)), begin_(clock_.steady()), told_at_(begin_), told_(clock_.wall()) {}

  // start: the time of the newest row of the log plus the time that has elapsed since. Call it
  // before the clock is read.
  void Begin(std::chrono::microseconds start) {
    start_ = start;
    begin_ = clock_.steady();
  }

  [[nodiscard]] std::chrono::steady_clock::time_point steady() const { return clock_.steady(); }
  [[nodiscard]] std::chrono::microseconds elapsed() const {
    return start_ + std::chrono::duration_cast<std::chrono::microseconds>(clock_.steady() - begin_);
  }
  // Microseconds since 1970 by the wall clock. For some time after a step of the wall clock, the
  // time before the step plus the steady clock. Otherwise a time far in the future would delete
  // older buckets of the history, and all observations until that time would be counted in its
  // minute.
  [[nodiscard]] std::int64_t wall_us() const {
    const std::lock_guard lock(mutex_);
    const auto now = clock_.steady();
    const auto wall = clock_.wall();
    const auto expected =
        told_ + std::chrono::duration_cast<std::chrono::system_clock::duration>(now - told_at_);
    const bool stepped = wall > expected + kStep || wall < expected - kStep;
    if (!stepped) {
      stepped_at_.reset();
    } else if (!stepped_at_.has_value()) {
      stepped_at_ = now;
    }
    const bool believed = !stepped || now - *stepped_at_ >= kStep;
    if (believed) {
      stepped_at_.reset();
      told_at_ = now;
      told_ = wall;
    }
    return std::chrono::duration_cast<std::chrono::microseconds>(
               (believed ? wall : expected).time_since_epoch())
        .count();
  }

 private:
  const Clock clock_;
  std::chrono::microseconds start_{};
  std::chrono::steady_clock::time_point begin_;

  mutable std::mutex mutex_;
  // The last accepted wall-clock time, and the time since which a different one has not been
  // accepted. Guarded by mutex_.
  mutable std::chrono::steady_clock::time_point told_at_;
  mutable std::chrono::system_clock::time_point told_;
  mutable std::optional<std::chrono::steady_clock::time_point> stepped_at_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOG_CLOCK_H_
