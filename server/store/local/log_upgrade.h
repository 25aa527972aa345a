#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// Rewrites the log's files of version 1 (formats up to 3 of the store) as files of this version
// that belong to the store: the same batches with the same ids. One file at a time, durable before
// the next one; files that were rewritten before are left alone, so an upgrade that was
// interrupted goes on. Before LogFiles::Open. Reads every old file twice.
//
// first_log_id: of the oldest segment; older ones are left alone.
//
// Errors: those of LogFiles. A full disk leaves the log as it is. An incomplete frame at the end of
// the log is left out, as it was never acknowledged; other damage is DataLoss.
[[nodiscard]] absl::Status UpgradeSegments(const std::string& folder, const StoreId& store_id,
                                           std::int64_t first_log_id);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_
