#ifndef CALIBD_SERVER_STORE_POSTGRES_NODE_H_
#define CALIBD_SERVER_STORE_POSTGRES_NODE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/store/postgres/connection.h"

namespace calibd::server {

// How long nodes and owners live without a heartbeat.
struct PgNodeTimes {
  std::chrono::milliseconds heartbeat = std::chrono::milliseconds(1500);
  // A node has expired so long after its newest heartbeat, by the clock of the database. Others may
  // then take what it owns. 0: at once.
  std::chrono::milliseconds expiry = std::chrono::seconds(7);
  // An owner answers no reads so long after its newest heartbeat was sent, by its own clock. It is
  // shorter than `expiry` by more than two clocks differ in such a time.
  std::chrono::milliseconds lease = std::chrono::seconds(6);
  // A node takes nothing if its clock and that of the database differ by more.
  std::chrono::milliseconds clock_difference = std::chrono::seconds(10);
};

// A process in the table of the nodes. Its thread sends heartbeats, on a connection of its own, and
// keeps the lease of the owner. A heartbeat locks the cell as a transaction of the owner does, so
// it either ends before a takeover, which then finds the node alive, or finds the new owner.
// Thread-safe.
class PgNode {
 public:
  // connection: see PgConnection::Open. id: 16 bytes.
  PgNode(std::string connection, std::string id, std::int32_t cell, PgNodeTimes times);
  // Calls Stop().
  ~PgNode();
  PgNode(const PgNode&) = delete;
  PgNode& operator=(const PgNode&) = delete;

  // Starts the heartbeats. address: where clients reach this process.
  void Start(std::string address);
  // From now on, the node is the owner of this epoch, until a heartbeat finds another one.
  void Own(std::int64_t epoch);
  // Removes the node from the table, if the database answers at once, and joins.
  void Stop();

  // Whether heartbeats have shown that no other process can be the owner now. While the process or
  // its machine is stopped, the clock goes on.
  [[nodiscard]] bool holds_lease() const;
  // Whether a heartbeat has found another owner.
  [[nodiscard]] bool was_fenced() const { return fenced_; }
  // Whether the clocks of this machine and of the database differ so much that the node should take
  // nothing. Also true before the first heartbeat.
  [[nodiscard]] bool is_clock_off() const { return clock_off_; }
  // Whether the server waits for a standby before it says that it has committed, as the newest
  // heartbeat has found; nothing before the first one.
  [[nodiscard]] std::optional<bool> synchronous() const {
    return lease_end_ == 0 ? std::nullopt : std::optional<bool>(synchronous_);
  }

 private:
  void Run();
  [[nodiscard]] absl::Status Beat();
  void CheckDurability(bool synchronous);
  void CheckClock(std::int64_t database_us, std::chrono::system_clock::time_point sent);

  const std::string text_;
  const std::string id_;
  const std::int32_t cell_;
  const PgNodeTimes times_;
  std::string address_;

  std::atomic<std::int64_t> epoch_ = -1;
  // The end of the lease, in ns of the clock.
  std::atomic<std::int64_t> lease_end_ = 0;
  std::atomic<bool> fenced_ = false;
  std::atomic<bool> clock_off_ = true;
  std::atomic<bool> synchronous_ = true;
  // Used only by the thread: whether it has logged that the clock is off or the database is away.
  bool logged_clock_ = false;
  bool logged_failure_ = false;
  std::unique_ptr<PgConnection> connection_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Changed with mutex_. From then on, the connection does not wait for long.
  std::atomic<bool> stopping_ = false;
  bool hastens_ = false;  // guarded by mutex_: the next heartbeat is due at once
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_NODE_H_
