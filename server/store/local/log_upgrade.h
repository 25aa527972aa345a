#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// Rewrites the log files of version 1 (store formats up to 3) as files of the current version that
// belong to the store, with the same batches and ids. Each file is durable before the next one is
// rewritten, and rewritten files are skipped, so an interrupted upgrade can be continued. Call it
// before LogFiles::Open. Reads every old file twice.
//
// first_log_id: of the oldest segment; older files are left unchanged.
//
// Errors: those of LogFiles. On a full disk, the log stays unchanged. An incomplete frame at the
// end of the log is left out, because it was never acknowledged; other damage is DataLoss.
[[nodiscard]] absl::Status UpgradeSegments(const std::string& folder, const StoreId& store_id,
                                           std::int64_t first_log_id);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_UPGRADE_H_
