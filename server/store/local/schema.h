#ifndef CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_
#define CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// The version of the format that FORMAT.md describes.
inline constexpr std::int64_t kFormatVersion = 7;

// Returns the version of the database's format; 0 for a database without tables. Writes nothing.
// Errors: those of sqlite.h; FailedPrecondition if the database belongs to another program, or a
// newer calibd wrote it; DataLoss if the tables are not those of the version. folder: for errors.
[[nodiscard]] absl::StatusOr<std::int64_t> CheckFormat(Database& database,
                                                       const std::string& folder);

// The oldest version with the tables of this one.
inline constexpr std::int64_t kOldestWithTables = 4;

// Creates the tables in a new database, or upgrades a database of a version below
// kOldestWithTables to that version, in one transaction. id: of the store, if there are segments of
// the log beside the database; otherwise the database gets its own id, and is complete.
// Errors: those of sqlite.h; then nothing has changed. Cost: all rows are written again.
[[nodiscard]] absl::Status Upgrade(Database& database, std::int64_t version,
                                   const std::optional<StoreId>& id);

// Returns FailedPrecondition: the folder cannot be used. reason: what it "is" or "has".
[[nodiscard]] absl::Status FolderError(const std::string& folder, std::string_view reason);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_
