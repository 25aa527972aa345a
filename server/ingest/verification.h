#ifndef CALIBD_SERVER_INGEST_VERIFICATION_H_
#define CALIBD_SERVER_INGEST_VERIFICATION_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/v1/store_service.pb.h"

namespace calibd::server {

// Reads all of a database as it is at one moment, also while it is written, and says what it
// holds and what does not fit. progress: told the fraction of the log that is read; false stops
// this. Memory: O(models + producers).
// Errors: Cancelled; Unavailable when it cannot be read. Damage is no error but a problem.
[[nodiscard]] absl::StatusOr<v1::Verification> VerifyDatabase(
    const std::string& path, const std::function<bool(double)>& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_VERIFICATION_H_
