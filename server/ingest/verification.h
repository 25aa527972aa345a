#ifndef CALIBD_SERVER_INGEST_VERIFICATION_H_
#define CALIBD_SERVER_INGEST_VERIFICATION_H_

#include "absl/status/statusor.h"
#include "calibd/v1/store_service.pb.h"
#include "server/ingest/commit_queue.h"

namespace calibd::server {

// Reads a whole store as it is at one moment, even while it is written, and returns counts of its
// contents and the problems found. progress: receives the fraction of the log that was read.
// Memory: O(models + producers).
// Errors: those of CommitQueue::OpenView and StoreView::Verify. Damage is reported as a problem.
[[nodiscard]] absl::StatusOr<v1::Verification> VerifyStore(CommitQueue& commits,
                                                           const OnProgress& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_VERIFICATION_H_
