#ifndef CALIBD_SERVER_NET_PEER_LIMITS_H_
#define CALIBD_SERVER_NET_PEER_LIMITS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/net/byte_budget.h"
#include "server/net/token_bucket.h"

namespace calibd::server {

// Limits that all connections of one peer address share. Thread-safe.
class PeerLimits {
 public:
  // message_bytes: the maximum for incomplete and unread requests of this peer.
  PeerLimits(std::string address, std::size_t message_bytes)
      : address_(std::move(address)), messages_(message_bytes) {}

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] ByteBudget& messages() noexcept { return messages_; }

  // Returns false if the peer resets calls too fast.
  [[nodiscard]] bool TakeReset(TokenBucket::Time now) {
    const std::lock_guard lock(mutex_);
    // Threads read the clock before they acquire the lock, so their times may be out of order.
    last_ = std::max(last_, now);
    return resets_.Take(last_);
  }
  // True if a new object would be in the same state.
  [[nodiscard]] bool fresh(TokenBucket::Time now) {
    const std::lock_guard lock(mutex_);
    return resets_.full(std::max(last_, now));
  }

 private:
  static constexpr double kResetRate = 4000;
  static constexpr double kResetBurst = 8000;

  const std::string address_;
  ByteBudget messages_;
  std::mutex mutex_;
  TokenBucket resets_{kResetRate, kResetBurst};
  TokenBucket::Time last_;
};

// The peers that are connected, or were connected a moment ago. Thread-safe.
class PeerTable {
 public:
  explicit PeerTable(std::size_t message_bytes) : message_bytes_(message_bytes) {}

  [[nodiscard]] std::shared_ptr<PeerLimits> Find(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (peers_.size() >= cleanup_size_) {
      const auto now = std::chrono::steady_clock::now();
      // A peer without a connection stays here until its limits have recovered.
      std::erase_if(peers_, [now](const auto& entry) {
        return entry.second.use_count() == 1 && entry.second->fresh(now);
      });
      cleanup_size_ = std::max(kMinCleanupSize, 2 * peers_.size());
    }
    std::shared_ptr<PeerLimits>& peer = peers_[address];
    if (peer == nullptr) peer = std::make_shared<PeerLimits>(address, message_bytes_);
    return peer;
  }

 private:
  static constexpr std::size_t kMinCleanupSize = 64;

  const std::size_t message_bytes_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<PeerLimits>> peers_;
  std::size_t cleanup_size_ = kMinCleanupSize;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_PEER_LIMITS_H_
