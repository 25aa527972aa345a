#ifndef CALIBD_SERVER_NET_ENDING_CALLS_H_
#define CALIBD_SERVER_NET_ENDING_CALLS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace calibd::server {

// Counts the calls that have ended for the relay, but not for gRPC. Most of them were cancelled:
// gRPC keeps about 25 KB for each until one of its threads has ended it, and a busy machine may end
// fewer than clients cancel. Thread-safe.
class EndingCalls {
 public:
  // So many are an excess of cancelled calls.
  static constexpr std::int64_t kMany = 1000;

  // Calls that gRPC knows have ended for the relay.
  void Left(std::size_t calls = 1) noexcept { calls_ += static_cast<std::int64_t>(calls); }
  // A call has ended for gRPC, which may be before it has for the relay.
  void Ended() noexcept { --calls_; }
  // Forgets this many at most. gRPC refuses some calls before they can be counted: they would never
  // end here.
  void Forget(std::int64_t most) noexcept {
    std::int64_t calls = calls_;
    while (calls > 0 && !calls_.compare_exchange_weak(calls, calls - std::min(calls, most))) {
    }
  }

  [[nodiscard]] bool many() const noexcept { return calls_ >= kMany; }

 private:
  std::atomic<std::int64_t> calls_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_ENDING_CALLS_H_
