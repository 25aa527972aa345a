#include "server/store/local/sqlite.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

// Returns true if the newest errors of the files mean an exceeded quota or file size limit.
// (sqlite3_system_errno may not have the error any more.)
bool NoRoomIsWhatFailed(sqlite3* handle) {
  bool no_room = false;
  for (const int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER}) {
    sqlite3_file* file = nullptr;
    int error = 0;
    if (sqlite3_file_control(handle, "main", which, &file) == SQLITE_OK && file != nullptr &&
        file->pMethods != nullptr) {
      file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
    }
    if (error != 0 && error != EDQUOT && error != EFBIG) return false;
    no_room = no_room || error != 0;
  }
  return no_room;
}

// Returns SQLite's reason, with that of the system if there is one.
std::string ReasonOf(sqlite3* handle, int code) {
  const int error = handle == nullptr ? 0 : sqlite3_system_errno(handle);
  const bool has_error =
      error != 0 && ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN ||
                     (code & 0xff) == SQLITE_FULL);
  // A backup step does not report its error to its connections.
  const bool is_told = handle != nullptr && sqlite3_extended_errcode(handle) == code;
  return absl::StrCat(is_told ? sqlite3_errmsg(handle) : sqlite3_errstr(code),
                      has_error ? absl::StrCat(", ", std::strerror(error)) : "", " (SQLite ", code,
                      ")");
}

// Describes the action of a statement and its database in words for an operator.
std::string ActionOf(sqlite3* handle, std::string_view sql) {
  const char* const path = handle == nullptr ? nullptr : sqlite3_db_filename(handle, "main");
  const bool reads = sql.starts_with("SELECT") ||
                     (sql.starts_with("PRAGMA") && sql.find('=') == std::string_view::npos);
  return absl::StrCat(reads ? "read " : "write ", path == nullptr ? "the database" : path);
}

}  // namespace

absl::Status SqliteError(sqlite3* handle, int code, std::string_view action) {
  const std::string reason = ReasonOf(handle, code);
  const std::string message = absl::StrCat("the store cannot ", std::string(action), ": ", reason);
  // SQLite does not report these errors as a full disk.
  const bool full = (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
                    (code == SQLITE_IOERR_WRITE && handle != nullptr && NoRoomIsWhatFailed(handle));
  // SQLite reports these errors only for a damaged file.
  const bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB ||
                       (code & 0xff) == SQLITE_TOOBIG || code == SQLITE_IOERR_SHORT_READ ||
                       (code == SQLITE_ERROR && handle != nullptr &&
                        std::string_view(sqlite3_errmsg(handle)) == "unsupported file format");
  if (full) return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
  return damaged ? DamageError("calibd.db", absl::StrCat("cannot be read: ", reason))
                 : MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
}

absl::StatusOr<Database> Database::Open(const std::string& path) {
  return OpenWith(path, SQLITE_OPEN_CREATE);
}

absl::StatusOr<Database> Database::OpenExisting(const std::string& path) {
  return OpenWith(path, 0);
}

absl::StatusOr<Database> Database::OpenWith(const std::string& path, int flags) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | flags, nullptr);
  Database database(handle);
  if (code != SQLITE_OK) return SqliteError(handle, code, absl::StrCat("open ", path));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return database;
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : SqliteError(handle(), code, ActionOf(handle(), sql));
}

absl::StatusOr<std::int64_t> Database::QueryInteger(const char* sql) {
  CALIBD_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(*this, sql));
  CALIBD_ASSIGN_OR_RETURN(const bool row, statement.Next());
  return row ? statement.Integer(0) : 0;
}

absl::Status Database::Checkpoint(int mode) {
  const int code = sqlite3_wal_checkpoint_v2(handle(), nullptr, mode, nullptr, nullptr);
  return code == SQLITE_OK || (code & 0xff) == SQLITE_BUSY
             ? absl::OkStatus()
             : SqliteError(handle(), code, "make a checkpoint");
}

absl::Status Database::CheckInPlace() const {
  constexpr char kReason[] = "was removed or replaced while calibd ran";
  const char* const path = sqlite3_db_filename(handle(), "main");
  int moved = 0;
  sqlite3_file_control(handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0) return DamageError(path, kReason, kPutFileBack);
  // SQLite does not report that the write-ahead log was replaced, but it reports the size of the
  // open file. A connection opens the file when it first reads.
  sqlite3_file* wal = nullptr;
  sqlite3_int64 size = 0;
  sqlite3_file_control(handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (wal == nullptr || wal->pMethods == nullptr ||
      wal->pMethods->xFileSize(wal, &size) != SQLITE_OK || size == 0) {
    return absl::OkStatus();
  }
  const char* const wal_path = sqlite3_filename_wal(path);
  std::error_code error;
  return std::filesystem::file_size(wal_path, error) == static_cast<std::uintmax_t>(size)
             ? absl::OkStatus()
             : DamageError(wal_path, kReason, kPutFileBack);
}

bool Database::in_transaction() const noexcept { return sqlite3_get_autocommit(handle()) == 0; }

absl::StatusOr<Statement> Statement::Prepare(const Database& database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  Statement prepared(statement);
  if (code != SQLITE_OK) {
    return SqliteError(database.handle(), code, ActionOf(database.handle(), sql));
  }
  return prepared;
}

Statement& Statement::Bind(int index, std::int64_t value) noexcept {
  bind_error_ |= sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index,
                           const std::variant<std::int64_t, std::string_view>& value) noexcept {
  const auto* const integer = std::get_if<std::int64_t>(&value);
  return integer != nullptr ? Bind(index, *integer)
                            : BindBlob(index, *std::get_if<std::string_view>(&value));
}

Statement& Statement::BindBlob(int index, std::string_view blob) noexcept {
  // A null pointer would bind NULL, not an empty blob.
  bind_error_ |= sqlite3_bind_blob64(statement_.get(), index, blob.empty() ? "" : blob.data(),
                                     blob.size(), SQLITE_STATIC);
  return *this;
}

absl::Status Statement::Run() {
  absl::StatusOr<bool> row = true;
  while (row.ok() && *row) row = Next();
  return row.status();
}

absl::StatusOr<bool> Statement::Next() {
  if (bind_error_ != SQLITE_OK) {
    return SqliteError(
        nullptr, bind_error_,
        ActionOf(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get())));
  }
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  absl::Status status;
  if (code != SQLITE_DONE) {
    sqlite3* const handle = sqlite3_db_handle(statement_.get());
    status = SqliteError(handle, code, ActionOf(handle, sqlite3_sql(statement_.get())));
  }
  sqlite3_reset(statement_.get());
  if (!status.ok()) return status;
  return false;
}

int Statement::type(int column) const noexcept {
  return sqlite3_column_type(statement_.get(), column);
}

std::int64_t Statement::Integer(int column) const noexcept {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::Text(int column) const noexcept { return Blob(column); }

std::string_view Statement::Blob(int column) const noexcept {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

}  // namespace calibd::server
