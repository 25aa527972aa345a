#ifndef CALIBD_SERVER_STORE_LOCAL_ARCHIVE_RESTORE_H_
#define CALIBD_SERVER_STORE_LOCAL_ARCHIVE_RESTORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/local/local_store.h"

namespace calibd::server {

// A store that was made from an archive.
struct RestoredStore {
  std::unique_ptr<LocalStore> store;
  // Name of the base, and number of log files and of their batches after it.
  std::string base;
  std::int64_t log_files = 0;
  std::int64_t batches = 0;
  // Microseconds since 1970: all that was acknowledged by then is restored. 0 if unknown.
  std::int64_t until_us = 0;
  struct NewestBatch {
    std::int64_t log_id = 0;
    // Microseconds since 1970.
    std::int64_t time_us = 0;
  };
  // The newest batch of each model by id. A model without batches after the base may be missing.
  std::map<std::int64_t, NewestBatch> newest;
  // Files that are damaged or cannot be used, one sentence each.
  std::vector<std::string> problems;
};

// Makes a store in an empty or new folder from the files of an archive in another folder. The store
// gets an id of its own. Until all is done, CheckRestoreFinished returns an error. store_id: the
// id, in hexadecimal digits, of the store that wrote the archive; it may be empty if only one did.
// Reads each needed file twice.
//
// Errors: NotFound if there is no base; InvalidArgument if store_id is needed or unknown, or the
// folder is not empty; DataLoss if no base is intact; otherwise those of LocalStore::Open.
[[nodiscard]] absl::StatusOr<RestoredStore> RestoreArchive(const std::string& archive,
                                                           const std::string& folder,
                                                           const std::string& store_id);

// FailedPrecondition if RestoreArchive was interrupted or has failed in this folder: a store that
// is there may lack batches, or have models that were deleted.
[[nodiscard]] absl::Status CheckRestoreFinished(const std::string& folder);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_ARCHIVE_RESTORE_H_
