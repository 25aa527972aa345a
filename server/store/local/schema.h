#ifndef CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_
#define CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/sqlite.h"

namespace calibd::server {

// The version of the format that FORMAT.md describes.
inline constexpr std::int64_t kFormatVersion = 1;

// Returns the version of the database's format; 0 for a database without tables. Writes nothing.
// Errors: those of sqlite.h; FailedPrecondition if the database belongs to another program, or a
// newer calibd wrote it; DataLoss if the tables are not those of the version. folder: for errors.
[[nodiscard]] absl::StatusOr<std::int64_t> CheckFormat(Database& database,
                                                       const std::string& folder);

// Creates the tables in a new database, in one transaction. The database gets an id of its own, and
// is complete. Errors: those of sqlite.h; then nothing has changed.
[[nodiscard]] absl::Status CreateDatabase(Database& database);

// Returns FailedPrecondition: the folder cannot be used. reason: what it "is" or "has".
[[nodiscard]] absl::Status FolderError(const std::string& folder, std::string_view reason);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_
