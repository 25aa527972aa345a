#ifndef CALIBD_SERVER_STORE_LOCAL_OPEN_STORE_H_
#define CALIBD_SERVER_STORE_LOCAL_OPEN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/local/database_state.h"
#include "server/store/local/file.h"
#include "server/store/local/log_files.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// Locks a folder for this process until the returned descriptor is closed. Creates the folder if it
// does not exist. Errors: FailedPrecondition if another process has locked it, or if it cannot be
// created or locked.
[[nodiscard]] absl::StatusOr<File> LockFolder(const std::string& folder);

// The files of one store.
struct StoreParts {
  Database database;
  DatabaseState state;
  StoreFile file;
  std::unique_ptr<LogFiles> log;
  // Findings that may be an interrupted write or damage, one sentence each.
  std::vector<std::string> warnings;
};

// Opens the files of a store in a folder that this process has locked, and checks that all of them
// exist and belong to one store. Creates the files in an empty folder, and the missing files of a
// complete database. Errors: those of Store::Open.
[[nodiscard]] absl::StatusOr<StoreParts> OpenStore(const std::string& folder,
                                                   std::uint64_t segment_bytes);

// Returns the path of the database in the folder.
[[nodiscard]] std::string DatabasePath(const std::string& folder);
// Whether the database has a non-empty write-ahead log.
[[nodiscard]] bool HasWal(const std::string& database_path);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_OPEN_STORE_H_
