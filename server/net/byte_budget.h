#ifndef CALIBD_SERVER_NET_BYTE_BUDGET_H_
#define CALIBD_SERVER_NET_BYTE_BUDGET_H_

#include <atomic>
#include <cstddef>

namespace calibd::server {

// The memory that the messages of all calls together may occupy, in both directions. A request
// occupies it from the moment its length is declared, a response until the client has taken it.
// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) noexcept : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Returns false, and reserves nothing, if the limit would be exceeded.
  [[nodiscard]] bool TryReserve(std::size_t bytes) noexcept {
    std::size_t reserved = reserved_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ || reserved > limit_ - bytes) return false;
    } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes));
    return true;
  }
  // bytes: at most the reserved ones.
  void Release(std::size_t bytes) noexcept { reserved_.fetch_sub(bytes); }

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t reserved() const noexcept { return reserved_.load(); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> reserved_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_BYTE_BUDGET_H_
