#ifndef CALIBD_SERVER_STORE_POSTGRES_CONNECTION_H_
#define CALIBD_SERVER_STORE_POSTGRES_CONNECTION_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct pg_conn;
struct pg_result;

namespace calibd::server {

// A statement of the program, which each connection prepares when it first needs it.
struct PgQuery {
  // Unique among all queries.
  std::string name;
  std::string text;
};

// The values of the parameters $1, $2, ... in the binary format of PostgreSQL.
class PgValues {
 public:
  PgValues& Int4(std::int32_t value);
  PgValues& Int8(std::int64_t value);
  // A bytea, a text, or a uuid of 16 bytes.
  PgValues& Bytes(std::string_view value);
  PgValues& Int8Array(std::span<const std::int64_t> values);
  PgValues& BytesArray(std::span<const std::string_view> values);

  [[nodiscard]] const std::vector<std::string>& values() const noexcept { return values_; }

 private:
  std::vector<std::string> values_;
};

struct PgStatement {
  // Must outlive the statement.
  const PgQuery* query = nullptr;
  PgValues values{};
};

// A row of a result. It is valid until the result is destroyed.
class PgRow {
 public:
  PgRow(const pg_result* result, int row) : result_(result), row_(row) {}

  [[nodiscard]] bool IsNull(int column) const;
  // Requires a column of type int4; 0 if it is NULL.
  [[nodiscard]] std::int32_t Int4(int column) const;
  // Requires a column of type int8; 0 if it is NULL.
  [[nodiscard]] std::int64_t Int8(int column) const;
  // Empty if it is NULL.
  [[nodiscard]] std::string_view Bytes(int column) const;

 private:
  const pg_result* result_;
  int row_;
};

class PgResult {
 public:
  explicit PgResult(pg_result* result);

  [[nodiscard]] int rows() const;
  [[nodiscard]] PgRow row(int index) const { return {result_.get(), index}; }

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

// The longest wait for an answer that needs no standby.
inline constexpr std::chrono::seconds kPgAnswerTime{60};

// A session with the primary server. It waits with deadlines of its own, as the server's do not
// bound the wait for a standby.
//
// Errors of all functions: Unavailable when the statements may be run again on a new connection,
// and may have been executed or not; ResourceExhausted when the disk of the server is full, so that
// the transaction was rolled back; DataLoss when a constraint does not hold, or data of the server
// are damaged; FailedPrecondition when statements like these can never succeed. After Unavailable
// the connection must not be used.
class PgConnection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects to the host of `text` (see connection_string.h) that accepts writes. A host that
  // is neither a socket nor a loopback address must prove its name by TLS, unless the connection
  // string, the environment or the service file sets another sslmode.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PgConnection>> Open(const std::string& text);
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  // While the flag is true, a wait for an answer lasts at most a second. It must outlive the
  // connection.
  void StopWaitingAt(const std::atomic<bool>& flag) { stops_waiting_ = &flag; }

  // Runs the statements in order, in one round trip. Without BEGIN and COMMIT among them, they are
  // one transaction. After an error, the later statements are not run, and a transaction that BEGIN
  // opened must be rolled back. A warning of the server is Unavailable: a commit may then not be on
  // the standby.
  [[nodiscard]] absl::StatusOr<std::vector<PgResult>> Run(std::span<const PgStatement> statements,
                                                          Deadline deadline);
  // Runs one statement of one row.
  [[nodiscard]] absl::StatusOr<PgResult> RunOne(const PgStatement& statement, Deadline deadline);
  // Runs a script of several statements as one transaction.
  [[nodiscard]] absl::Status RunScript(const std::string& script, Deadline deadline);

  // An error that it returns ends the reading.
  using Visit = std::function<absl::Status(const PgRow&)>;
  // Visits the rows one by one as they arrive. row_timeout: the longest wait for one. An error of
  // visit is in `visited`, and the reading then succeeds, but the connection must not be used.
  [[nodiscard]] absl::Status Read(const PgStatement& statement,
                                  std::chrono::milliseconds row_timeout, const Visit& visit,
                                  absl::Status& visited);

 private:
  explicit PgConnection(pg_conn* connection);

  [[nodiscard]] absl::Status Prepare();
  // Sends the statement, and its preparation if it needs one. Adds to `expected` the results that
  // come: null for a statement, the query for a preparation.
  [[nodiscard]] absl::Status Send(const PgStatement& statement,
                                  std::vector<const PgQuery*>& expected);
  // Waits until a result can be taken without waiting.
  [[nodiscard]] absl::Status Await(Deadline deadline);
  [[nodiscard]] absl::Status Failed(std::string_view what) const;
  // The error of the result, if it is one.
  [[nodiscard]] absl::Status ErrorOf(const pg_result* result) const;

  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  const std::unique_ptr<pg_conn, Finish> connection_;
  std::set<std::string, std::less<>> prepared_;
  // The text of the newest warning of the server; empty if there was none.
  std::string warning_;
  const std::atomic<bool>* stops_waiting_ = nullptr;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_CONNECTION_H_
