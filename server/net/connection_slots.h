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

// Decides which connections may exist, so that a peer that holds many of them keeps nobody else
// out. Does no I/O. Thread-safe.
//
// A connection gets a regular slot while the total and the limit of its address allow it. Otherwise
// an idle connection is evicted for it: the longest idle one of its own address when that is at its
// limit, else the longest idle one of the address with the most idle connections. If no such
// connection is idle, it gets a restricted slot, in which only health checks are served; if all of
// these are taken, the oldest restricted connection is evicted. So health checks always get in.
class ConnectionSlots {
 public:
  struct Limits {
    // Regular slots, of all addresses and of one. At least 1.
    std::size_t total = 1;
    std::size_t per_address = 1;
    // Restricted slots.
    std::size_t reserve = 0;
  };

  // The place of one connection; destroyed when the connection is closed. Its functions may run
  // on any thread, one at a time.
  class Slot {
   public:
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    // Sets whether the connection serves no call. A connection is idle when it is admitted.
    void SetIdle(bool idle);
    // Whether only health checks may be served. A restricted connection asks for a regular slot
    // again here, as a new one does; so call it when a request comes that is no health check.
    // Eviction does not change the answer: calls may come until `close` has had its effect.
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
    // Where it is in the list of restricted slots, or, if it is regular and idle, in that of its
    // address.
    std::list<Slot*>::iterator position_;
  };

  explicit ConnectionSlots(const Limits& limits) : limits_(limits) {}
  ConnectionSlots(const ConnectionSlots&) = delete;
  ConnectionSlots& operator=(const ConnectionSlots&) = delete;

  // address: what connections are counted by. close: has the connection closed soon, when it is
  // evicted. It is called at most once, without a lock, on the thread that calls Admit or
  // restricted for another connection, possibly just after this slot was destroyed.
  //
  // Returns null if the connection must be closed at once: there are no restricted slots, or as
  // many evicted connections as regular slots are still to be closed. So at most
  // 2 * total + reserve connections exist at a time. Cost: the number of addresses at most.
  [[nodiscard]] std::unique_ptr<Slot> Admit(std::string address, std::function<void()> close);

 private:
  // The regular connections of one address.
  struct Peer {
    std::size_t connections = 0;
    // The longest idle one first.
    std::list<Slot*> idle;
  };

  // The callback of the connection that was evicted, to be called once the mutex is released.
  using Evicted = std::function<void()>;

  // The mutex is held while these run.
  bool TakeRegularSlot(Slot& slot, Evicted& evicted);
  bool TakeRestrictedSlot(Slot& slot, Evicted& evicted);
  bool Evict(Slot* slot, Evicted& evicted);
  Slot* LongestIdleOfMostIdle();
  void Release(Slot& slot);
  void EnterIdle(Slot& slot, Peer& peer);

  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<std::string, Peer> peers_;
  std::size_t regular_ = 0;
  // The oldest first.
  std::list<Slot*> restricted_;
  // Evicted, but not closed yet.
  std::size_t evicted_ = 0;
  std::uint64_t idle_count_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_CONNECTION_SLOTS_H_
