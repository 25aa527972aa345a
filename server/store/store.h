#ifndef CALIBD_SERVER_STORE_STORE_H_
#define CALIBD_SERVER_STORE_STORE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/store/catalog.h"
#include "server/store/log.h"
#include "server/store/maintenance.h"

namespace calibd::server {

// The outcome of a transaction.
enum class Outcome {
  // Its writes are durable.
  kCommitted,
  // There was no room. It was rolled back, and later transactions may be committed.
  kRefused,
  // Another owner has the store. Nothing more may be written or acknowledged: close the store.
  kFenced,
  // Its writes may be durable or not. Nothing more may be written or acknowledged: only a new start
  // finds out.
  kUnknown,
};

// Returns the outcome of a transaction that ended with this status, which is that of CommitLog or
// Commit, or the first error of a write in it. After any error the transaction must be rolled back.
[[nodiscard]] inline Outcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kCommitted;
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kRefused;
    case absl::StatusCode::kAborted:
      return Outcome::kFenced;
    default:
      return Outcome::kUnknown;
  }
}

// Keeps what must survive the end of the process. A transaction writes either batches of the log
// (CommitLog) or the catalog (Begin, Commit). No transaction is durable before an earlier one is.
// A process may open several stores; one thread at a time may use each of them, except for the
// functions that say otherwise.
//
// Errors of all functions: ResourceExhausted when there is no room; Aborted when another owner has
// the store; DataLoss when something is damaged or missing; Unavailable otherwise. The message says
// what to do.
class Store : public StoreLog, public StoreCatalog, public StoreMaintenance {
 public:
  // ---- Ownership. By default, the store was taken when it was opened, and nobody else can take
  // it.

  // Waits until no other process owns the store, and takes it. Call it once, before the functions
  // that read or write. address: where clients reach this process. Errors: also Cancelled after a
  // stop.
  [[nodiscard]] virtual absl::Status Own(const std::string& /*address*/,
                                         const std::atomic<bool>& /*stop*/) {
    return absl::OkStatus();
  }
  // Another process that owns the store.
  struct Owner {
    // Where clients reach it.
    std::string address;
    std::int64_t epoch = 0;
    // Names it. Only who may read the store knows it.
    std::string id;
  };
  // The owner of the store as this process has last seen it; nothing if it owns the store itself,
  // or nobody does. Thread-safe.
  [[nodiscard]] virtual std::optional<Owner> other_owner() const { return std::nullopt; }
  // The id of this process as an owner; empty if nobody else can own the store. Thread-safe.
  [[nodiscard]] virtual std::string owner_id() const { return {}; }
  // Whether this process owns the store, so that what it knows is the newest state. Otherwise
  // returns what calls end with. Thread-safe.
  [[nodiscard]] virtual absl::Status CheckOwned() const { return absl::OkStatus(); }
  // From now on, functions return Unavailable instead of waiting for long. Thread-safe.
  virtual void StopWaiting() {}
  // Whether commits wait until a second machine has them; nothing if the store does not know.
  // Thread-safe.
  [[nodiscard]] virtual std::optional<bool> synchronous() const { return std::nullopt; }

  // Undoes the writes of the current transaction. Must follow any error in it.
  virtual void Rollback() = 0;
  // Ends the use of the store properly: the next start expects exactly the current state. Call it
  // between transactions, after FinishRecovery, and only if nothing failed. Only the destructor may
  // be called afterwards.
  [[nodiscard]] virtual absl::Status Close() = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_STORE_H_
