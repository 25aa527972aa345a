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
inline constexpr std::int64_t kFormatVersion = 4;

// Returns the version of the database's format; 0 for a database without tables. Writes nothing.
// Errors: those of sqlite.h; FailedPrecondition when the database is another program's, or a newer
// calibd wrote it; DataLoss when the tables are not those of the version. folder: for errors.
[[nodiscard]] absl::StatusOr<std::int64_t> CheckFormat(Database& database,
                                                       const std::string& folder);

// Brings a database of an older version to this one, in one transaction. id: of the store, if there
// are segments of the log beside the database; otherwise the database gets an id of its own, and is
// complete. Errors: those of sqlite.h; then nothing has changed.
// Cost: all rows are written anew.
[[nodiscard]] absl::Status Upgrade(Database& database, std::int64_t version,
                                   const std::optional<StoreId>& id);

// FailedPrecondition: the folder cannot be used. reason: what it "is" or "has".
[[nodiscard]] absl::Status FolderError(const std::string& folder, std::string_view reason);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_SCHEMA_H_
