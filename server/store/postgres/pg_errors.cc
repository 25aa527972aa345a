#include "server/store/postgres/pg_errors.h"

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {

absl::Status PgError(absl::StatusCode code, const std::string& message) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
      return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
    case absl::StatusCode::kDataLoss:
      return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED", message);
    case absl::StatusCode::kFailedPrecondition:
      return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE", message);
    default:
      return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
  }
}

absl::Status PgDamage(std::string_view what) {
  return PgError(absl::StatusCode::kDataLoss,
                 absl::StrCat("the store of the database ", std::string(what)));
}

absl::Status PgFenced() {
  return absl::AbortedError(
      "another calibd has taken the store of the database, so this one writes nothing more to it");
}

absl::Status PgUnknownFormat() {
  return PgError(absl::StatusCode::kFailedPrecondition,
                 "the store of the database has a format that this calibd does not know; use the "
                 "calibd that wrote it, or a newer one");
}

}  // namespace calibd::server
