#ifndef CALIBD_SERVER_STORE_POSTGRES_SESSION_H_
#define CALIBD_SERVER_STORE_POSTGRES_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/store/postgres/connection.h"

namespace calibd::server {

// A connection that is replaced when it fails, so that the outcome of a transaction never stays
// unknown: what may have been executed or not is run again, and must therefore have the same effect
// when it was executed before.
class PgSession {
 public:
  // Run on each new connection. Its errors are those of Run, and Unavailable makes Run connect
  // again.
  using Check = std::function<absl::Status(PgConnection&)>;
  using Attempt = std::function<absl::Status(PgConnection&, PgConnection::Deadline deadline)>;

  // connection: see PgConnection::Open.
  PgSession(std::string connection, Check check)
      : text_(std::move(connection)), check_(std::move(check)) {}

  // Uses this connection, which is not checked, until it fails.
  void Begin(std::unique_ptr<PgConnection> connection) {
    connection_ = std::move(connection);
    connection_->StopWaitingAt(stops_waiting_);
  }

  // Runs `attempt` on new connections until it does not end with Unavailable, however long the
  // server is away. Returns its status, or another error of a check.
  [[nodiscard]] absl::Status Run(const Attempt& attempt);
  // Runs `attempt` once, on the present connection or a new one.
  [[nodiscard]] absl::Status TryOnce(const Attempt& attempt) { return RunOnce(attempt, 0); }
  // From now on, Run returns Unavailable when an attempt has failed, or has waited for a second.
  // Thread-safe.
  void StopWaiting() { stops_waiting_ = true; }
  // Ends the connection.
  void Drop() { connection_.reset(); }

 private:
  [[nodiscard]] absl::Status RunOnce(const Attempt& attempt, int attempts);

  const std::string text_;
  const Check check_;
  std::atomic<bool> stops_waiting_ = false;
  std::unique_ptr<PgConnection> connection_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_SESSION_H_
