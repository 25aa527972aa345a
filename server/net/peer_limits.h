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

#include "server/base/token_bucket.h"
#include "server/net/byte_budget.h"

namespace calibd::server {

// Limits that all connections of one peer address share. Thread-safe.
//
// An address that exceeds a rate is refused for a while: a second at first, and twice as long each
// time, up to a minute. After a minute without an excess, it begins with a second again. A refusal
// goes on while gRPC has many cancelled calls to end, for a minute at most.
class PeerLimits {
 public:
  using Time = TokenBucket::Time;

  // Cancelled calls, refused calls, and calls that were open when their connection ended.
  static constexpr double kResetRate = 1000;
  static constexpr double kResetBurst = 2000;
  static constexpr std::chrono::seconds kLeastRefusal{1};
  static constexpr std::chrono::seconds kMostRefusal{60};

  // message_bytes: the maximum for incomplete and unread requests of this peer. refusable: whether
  // the address may be refused. That of a proxy should not be: one of its clients would shut out
  // the others.
  PeerLimits(std::string address, std::size_t message_bytes, bool refusable = true)
      : address_(std::move(address)), messages_(message_bytes), refusable_(refusable) {}

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] ByteBudget& messages() noexcept { return messages_; }

  // Counts this many resets, at most kResetBurst. Returns false if the peer resets calls too fast;
  // then it is refused for a while, and every further reset has the same result. many_end: whether
  // gRPC has many cancelled calls to end.
  [[nodiscard]] bool TakeResets(std::size_t resets, Time now, bool many_end = false) {
    const std::lock_guard lock(mutex_);
    Advance(now);
    if (RefusedLocked(last_, many_end)) return false;
    if (resets_.Take(last_, static_cast<double>(resets))) return true;
    RefuseLocked();
    return false;
  }
  // Refuses the address for a while, because a connection of it exceeded a rate.
  void Refuse(Time now) {
    const std::lock_guard lock(mutex_);
    Advance(now);
    if (last_ >= refused_until_) RefuseLocked();
  }
  // True while new connections of the address must be closed. many_end: see TakeResets.
  [[nodiscard]] bool refused(Time now, bool many_end = false) {
    const std::lock_guard lock(mutex_);
    return RefusedLocked(std::max(last_, now), many_end);
  }
  // True if a new object would be in the same state.
  [[nodiscard]] bool fresh(Time now) {
    const std::lock_guard lock(mutex_);
    Advance(now);
    return resets_.full(last_) && last_ >= refused_until_ + kMostRefusal;
  }

 private:
  // Threads read the clock before they acquire the lock, so their times may be out of order.
  void Advance(Time now) { last_ = std::max(last_, now); }
  [[nodiscard]] bool WasRefusedLocked(Time now) const {
    return refused_until_ != Time() && now < refused_until_ + kMostRefusal;
  }
  [[nodiscard]] bool RefusedLocked(Time now, bool many_end) const {
    return now < refused_until_ || (many_end && WasRefusedLocked(now));
  }
  void RefuseLocked() {
    if (!refusable_) return;
    const bool again = WasRefusedLocked(last_);
    refusal_ = again ? std::min(2 * refusal_, kMostRefusal) : kLeastRefusal;
    refused_until_ = last_ + refusal_;
  }

  const std::string address_;
  ByteBudget messages_;
  const bool refusable_;
  std::mutex mutex_;
  // Everything below is guarded by mutex_.
  TokenBucket resets_{kResetRate, kResetBurst};
  Time last_;
  // The newest refusal: its length and its end.
  std::chrono::seconds refusal_{0};
  Time refused_until_;
};

// The peers that are connected, or were connected a moment ago. Thread-safe.
class PeerTable {
 public:
  // message_bytes, refusable: see PeerLimits.
  PeerTable(std::size_t message_bytes, bool refusable)
      : message_bytes_(message_bytes), refusable_(refusable) {}

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
    if (peer == nullptr) peer = std::make_shared<PeerLimits>(address, message_bytes_, refusable_);
    return peer;
  }

 private:
  static constexpr std::size_t kMinCleanupSize = 64;

  const std::size_t message_bytes_;
  const bool refusable_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<PeerLimits>> peers_;
  std::size_t cleanup_size_ = kMinCleanupSize;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_PEER_LIMITS_H_
