#ifndef CALIBD_SERVER_ARCHIVE_ARCHIVE_STATE_H_
#define CALIBD_SERVER_ARCHIVE_ARCHIVE_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "calibd/store/v1/archive.pb.h"

namespace calibd::server {

// Reads what is known of the archive of the store with this id. Returns an empty state if nothing
// is known, the file cannot be read, or it belongs to another store: then the archive begins with a
// new base.
[[nodiscard]] store::v1::ArchiveState ReadArchiveState(const std::string& path,
                                                       const std::string& store_id);

// Replaces the file; on return it is durable. Errors: Unavailable.
[[nodiscard]] absl::Status WriteArchiveState(const std::string& path,
                                             const store::v1::ArchiveState& state);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ARCHIVE_ARCHIVE_STATE_H_
