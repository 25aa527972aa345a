#ifndef CALIBD_SERVER_STORE_LOCAL_BACKUP_H_
#define CALIBD_SERVER_STORE_LOCAL_BACKUP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Copies a store that is written meanwhile, as it is when this begins or a little later, into a
// new database: with what is needed of the log, so that it is a store by itself. progress: told
// the fraction done; false stops the copy. Commits go on, but the write-ahead log is not begun
// anew and no file of the log goes before this ends.
// Errors: those of Store, and Cancelled; then there is no new file.
[[nodiscard]] absl::Status CopyStore(const std::string& path, CommitQueue& commits,
                                     const std::string& copy,
                                     const std::function<bool(double)>& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_BACKUP_H_
