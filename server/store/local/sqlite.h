#ifndef CALIBD_SERVER_STORE_LOCAL_SQLITE_H_
#define CALIBD_SERVER_STORE_LOCAL_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::server {

// How long a statement waits for another connection.
inline constexpr int kBusyTimeoutMs = 10000;

// A connection to an SQLite database. Not thread-safe.
//
// Errors of this file: ResourceExhausted if the disk is full; DataLoss if the file is damaged or
// not a database; Unavailable if it cannot be read, written or locked. Messages name the failed
// action, the file, and the reasons of SQLite and of the system, but contain no statement.
class Database {
 public:
  // Has no connection; only for later assignment.
  Database() = default;
  // Creates the file if it does not exist.
  [[nodiscard]] static absl::StatusOr<Database> Open(const std::string& path);
  // Opens an existing file; a missing file is an error.
  [[nodiscard]] static absl::StatusOr<Database> OpenExisting(const std::string& path);

  // Executes statements without parameters and results.
  [[nodiscard]] absl::Status Execute(const char* sql);
  // Returns the integer that a statement yields, such as a PRAGMA.
  [[nodiscard]] absl::StatusOr<std::int64_t> QueryInteger(const char* sql);
  // DataLoss if the file or its write-ahead log was removed or replaced. Not within a transaction.
  [[nodiscard]] absl::Status CheckInPlace() const;
  // Moves the write-ahead log into the database, as far as `mode` (SQLITE_CHECKPOINT_...) says and
  // other connections permit.
  [[nodiscard]] absl::Status Checkpoint(int mode);
  // False if an error has ended the transaction.
  [[nodiscard]] bool in_transaction() const noexcept;

  [[nodiscard]] sqlite3* handle() const noexcept { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  static absl::StatusOr<Database> OpenWith(const std::string& path, int flags);
  explicit Database(sqlite3* handle) : handle_(handle) {}

  std::unique_ptr<sqlite3, Close> handle_;
};

// Converts a result code to an error. handle: the connection, if any. action: what failed.
[[nodiscard]] absl::Status SqliteError(sqlite3* handle, int code, std::string_view action);

// A prepared statement that can be executed repeatedly. Bound text and blobs are not copied: they
// must stay valid until the execution has ended.
class Statement {
 public:
  [[nodiscard]] static absl::StatusOr<Statement> Prepare(const Database& database, const char* sql);

  // Sets a parameter; indices start at 1.
  Statement& Bind(int index, std::int64_t value) noexcept;
  Statement& Bind(int index, const std::variant<std::int64_t, std::string_view>& value) noexcept;
  Statement& BindBlob(int index, std::string_view blob) noexcept;

  // False if the statement would be a transaction of its own.
  [[nodiscard]] bool in_transaction() const noexcept {
    return sqlite3_get_autocommit(sqlite3_db_handle(statement_.get())) == 0;
  }

  // Executes the statement to its end and ignores its rows.
  [[nodiscard]] absl::Status Run();
  // Moves to the next row; returns false after the last one, when it may be executed again.
  [[nodiscard]] absl::StatusOr<bool> Next();
  // Ends the execution before the last row, so that the statement may be executed again.
  void Reset() noexcept { sqlite3_reset(statement_.get()); }

  // Columns of the row, from 0; views are valid until Next. type: SQLITE_INTEGER, SQLITE_BLOB, ...
  [[nodiscard]] int type(int column) const noexcept;
  [[nodiscard]] std::int64_t Integer(int column) const noexcept;
  [[nodiscard]] std::string_view Text(int column) const noexcept;
  [[nodiscard]] std::string_view Blob(int column) const noexcept;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = SQLITE_OK;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_SQLITE_H_
