#ifndef CALIBD_SERVER_INGEST_VERIFICATION_H_
#define CALIBD_SERVER_INGEST_VERIFICATION_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/v1/store_service.pb.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Reads all of a store as it is at one moment, also while it is written, and says what it
// holds and what does not fit. path: of its database. progress: told the fraction of the log that
// is read; false stops this. Memory: O(models + producers). No file of the log goes meanwhile.
// Errors: Cancelled; DataLoss if a file was replaced; Unavailable. Other damage is a problem.
[[nodiscard]] absl::StatusOr<v1::Verification> VerifyStore(
    const std::string& path, CommitQueue& commits, const std::function<bool(double)>& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_VERIFICATION_H_
