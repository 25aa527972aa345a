#ifndef CALIBD_CLIENT_SRC_BACKOFF_H_
#define CALIBD_CLIENT_SRC_BACKOFF_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace calibd::client {

// Delays between attempts: the ceiling doubles from 100 ms to 5 s, and each delay is drawn from the
// upper half below it, so that clients that were disconnected together do not reconnect together.
class Backoff {
 public:
  explicit Backoff(std::uint64_t seed) : random_(seed) {}

  // at_least: the delay that the server asked for; the jitter is added to it.
  std::chrono::milliseconds Next(std::optional<std::chrono::milliseconds> at_least = {}) {
    std::uniform_int_distribution<std::int64_t> jitter(ceiling_.count() / 2, ceiling_.count());
    const std::chrono::milliseconds delay(jitter(random_));
    // A server that names a delay is reachable, so the ceiling need not grow.
    if (!at_least.has_value()) ceiling_ = std::min(2 * ceiling_, kMax);
    return at_least.value_or(std::chrono::milliseconds(0)) + delay;
  }

  // Call it after progress: the next delay is short again.
  void Reset() { ceiling_ = kInitial; }

 private:
  static constexpr std::chrono::milliseconds kInitial{100};
  static constexpr std::chrono::milliseconds kMax{5000};

  std::mt19937_64 random_;
  std::chrono::milliseconds ceiling_ = kInitial;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_BACKOFF_H_
