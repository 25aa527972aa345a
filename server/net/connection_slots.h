#ifndef CALIBD_SERVER_NET_CONNECTION_SLOTS_H_
#define CALIBD_SERVER_NET_CONNECTION_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace calibd::server {

// Decides which connections may exist, so that a peer with many connections does not lock out
// others. Does no I/O. Thread-safe.
//
// A connection gets a regular slot while the total and its address are below their limits.
// Otherwise it replaces an idle connection: the longest idle one of its own address if that is at
// its limit, else the longest idle one of the address with the most idle connections. If no such
// connection is idle, it gets a restricted slot, in which only health checks are served. If all
// restricted slots are taken, the oldest restricted connection is evicted. Health checks are
// therefore always possible.
class ConnectionSlots {
 public:
  struct Limits {
    // Number of regular slots in total and per address. At least 1.
    std::size_t total = 1;
    std::size_t per_address = 1;
    // Number of restricted slots.
    std::size_t reserve = 0;
  };

  // The slot of one connection; destroyed when the connection is closed. Its functions may run on
  // any thread, one at a time.
  class Slot {
   public:
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    // Sets whether the connection serves no call. A new connection is idle.
    void SetIdle(bool idle);
    // True if only health checks may be served. Call it for each request that is not a health
    // check: a restricted connection then asks for a regular slot again, as a new connection would.
    // Eviction does not change the result: calls may arrive until `close` has taken effect.
    [[nodiscard]] bool restricted();

   private:
    friend class ConnectionSlots;
    enum class State { kNone, kRegular, kRestricted, kEvicted };

    Slot(ConnectionSlots& slots, std::string address, std::function<void()> close)
        : slots_(slots), address_(std::move(address)), close_(std::move(close)) {}

    ConnectionSlots& slots_;
    const std::string address_;
    const std::function<void()> close_;
    // Guarded by the mutex of slots_.
    State state_ = State::kNone;
    bool admits_health_checks_only_ = false;
    bool idle_ = true;
    std::uint64_t idle_since_ = 0;
    // One element, which is in the list of restricted slots, or, for a regular idle slot, in the
    // list of its address. Otherwise it is in place_. So no move between lists needs memory.
    std::list<Slot*> place_{this};
    const std::list<Slot*>::iterator position_ = place_.begin();
  };

  explicit ConnectionSlots(const Limits& limits) : limits_(limits) {}
  ConnectionSlots(const ConnectionSlots&) = delete;
  ConnectionSlots& operator=(const ConnectionSlots&) = delete;

  // address: the address by which connections are counted. close: closes the connection soon;
  // called when the connection is evicted. It is called at most once, without a lock, on a thread
  // that calls Admit or restricted for another connection, possibly just after this slot was
  // destroyed.
  //
  // Returns null if the connection must be closed at once: there are no restricted slots, or the
  // number of evicted connections that are not closed yet has reached the number of regular slots.
  // At most 2 * total + reserve connections therefore exist at a time. Cost: linear in the number
  // of addresses.
  [[nodiscard]] std::unique_ptr<Slot> Admit(std::string address, std::function<void()> close);

 private:
  // The regular connections of one address.
  struct Peer {
    std::size_t connections = 0;
    // The longest idle slot first.
    std::list<Slot*> idle;
  };

  // The callback of the evicted connection, to be called after the mutex is released.
  using Evicted = std::function<void()>;

  // The mutex is held while these functions run.
  bool TakeRegularSlot(Slot& slot, Evicted& evicted);
  bool TakeRestrictedSlot(Slot& slot, Evicted& evicted);
  bool Evict(Slot* slot, Evicted& evicted);
  Slot* LongestIdleOfMostIdle();
  void Release(Slot& slot);
  static void Leave(Slot& slot, std::list<Slot*>& list) noexcept;
  void EnterIdle(Slot& slot, Peer& peer) noexcept;

  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<std::string, Peer> peers_;
  std::size_t regular_ = 0;
  // The oldest slot first.
  std::list<Slot*> restricted_;
  // Number of evicted connections that are not closed yet.
  std::size_t evicted_ = 0;
  std::uint64_t idle_count_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_CONNECTION_SLOTS_H_
