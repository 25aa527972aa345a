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

// The files of a store that belong together.
struct StoreParts {
  Database database;
  DatabaseState state;
  StoreFile file;
  std::unique_ptr<LogFiles> log;
  // What may be the end of a write that was cut short, or damage; one sentence each.
  std::vector<std::string> warnings;
};

// Opens the files of a store in a folder that this process holds, and checks that all of them are
// there and are of one store. Creates them in a folder without any; makes the other files of a
// database that is complete by itself; upgrades older formats. Errors: those of Store::Open.
[[nodiscard]] absl::StatusOr<StoreParts> OpenStore(const std::string& folder,
                                                   std::uint64_t segment_bytes);

// The path of the database in the folder.
[[nodiscard]] std::string DatabasePath(const std::string& folder);
// Whether the database has a write-ahead log with anything in it.
[[nodiscard]] bool HasWal(const std::string& database_path);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_OPEN_STORE_H_
