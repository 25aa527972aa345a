#ifndef CALIBD_SERVER_INGEST_LOG_CLOCK_H_
#define CALIBD_SERVER_INGEST_LOG_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace calibd::server {

// Sources of the time; tests use their own.
struct Clock {
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
};

// The times that the log carries. The wall clock is for showing and for the history. The age of
// predictions is told by a clock that never goes back: it runs on with the steady clock, and
// from one process to the next by what the wall clock says has passed. Thread-safe.
class LogClock {
 public:
  // The wall clock may be set by more than this by mistake: what it says then is believed when it
  // has lasted as long.
  static constexpr std::chrono::hours kStep{1};

  explicit LogClock(Clock clock = {})
      : clock_(std::move(clock)), begin_(clock_.steady()), told_at_(begin_), told_(clock_.wall()) {}

  // start: of the newest row of the log, and what passed since. Before anyone asks.
  void Begin(std::chrono::microseconds start) {
    start_ = start;
    begin_ = clock_.steady();
  }

  [[nodiscard]] std::chrono::steady_clock::time_point steady() const { return clock_.steady(); }
  [[nodiscard]] std::chrono::microseconds elapsed() const {
    return start_ + std::chrono::duration_cast<std::chrono::microseconds>(clock_.steady() - begin_);
  }
  // Microseconds since 1970, by the wall clock. For some time after a step of it, by the time
  // before and the steady clock: in the history a minute that is far ahead would end the retention
  // of all before it, and take all that comes until it is over.
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
  // The wall clock when it was last believed, and since when it is not. Guarded by mutex_.
  mutable std::chrono::steady_clock::time_point told_at_;
  mutable std::chrono::system_clock::time_point told_;
  mutable std::optional<std::chrono::steady_clock::time_point> stepped_at_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOG_CLOCK_H_
