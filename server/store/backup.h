#ifndef CALIBD_SERVER_STORE_BACKUP_H_
#define CALIBD_SERVER_STORE_BACKUP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Copies a database that may be written meanwhile, as it is when this begins, into a new file.
// progress: told the fraction done; false stops the copy. Commits go on, but the write-ahead
// log is not begun anew before this ends.
// Errors: those of sqlite.h, and Cancelled; then there is no new file.
[[nodiscard]] absl::Status CopyDatabase(const std::string& path, const std::string& copy,
                                        const std::function<bool(double)>& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_BACKUP_H_
