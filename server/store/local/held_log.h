#ifndef CALIBD_SERVER_STORE_LOCAL_HELD_LOG_H_
#define CALIBD_SERVER_STORE_LOCAL_HELD_LOG_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Holds the files of the log while somebody beside the storage thread reads them: see
// Store::HoldLog. Its functions wait for the storage thread.
class HeldLog {
 public:
  // Errors: DataLoss if a file was removed or replaced; Unavailable if the store failed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HeldLog>> Hold(CommitQueue& commits);
  ~HeldLog();
  HeldLog(const HeldLog&) = delete;
  HeldLog& operator=(const HeldLog&) = delete;

  // Extents of the log that are committed now. Errors: as Hold.
  [[nodiscard]] absl::StatusOr<std::vector<LogFiles::Extent>> extents() const;
  // Store::CheckMark. Errors also: as Hold.
  [[nodiscard]] absl::Status CheckMark() const;

 private:
  explicit HeldLog(CommitQueue& commits) : commits_(commits) {}

  CommitQueue& commits_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_HELD_LOG_H_
