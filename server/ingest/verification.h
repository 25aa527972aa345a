#ifndef CALIBD_SERVER_INGEST_VERIFICATION_H_
#define CALIBD_SERVER_INGEST_VERIFICATION_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/v1/store_service.pb.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Reads a whole store as it is at one moment, even while it is written, and returns counts of its
// contents and the problems found. path: of its database. progress: receives the fraction of the
// log that was read; returning false stops the verification. Memory: O(models + producers). No file
// of the log is removed meanwhile. Errors: Cancelled; DataLoss if a file was replaced; Unavailable.
// Other damage is reported as a problem.
[[nodiscard]] absl::StatusOr<v1::Verification> VerifyStore(
    const std::string& path, CommitQueue& commits, const std::function<bool(double)>& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_VERIFICATION_H_
