#include "server/store/postgres/pg_errors.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kRetryDelay{250};

}  // namespace

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

absl::Status PgNotOwner(const std::string& address, std::int64_t epoch) {
  return NotOwnerError(
      absl::StrCat("this calibd stands by: the one at ", address, " has the store"),
      {{"owner", address}, {"epoch", absl::StrCat(epoch)}});
}

absl::Status PgTakingOver() {
  return WithRetryDelay(MakeError(absl::StatusCode::kUnavailable, "TAKING_OVER",
                                  "calibd takes the store over and recovers its models"),
                        kRetryDelay);
}

absl::Status PgLeaseLost() {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kUnavailable, "LEASE_LOST",
                "this calibd does not reach the database, so another one may have the store now"),
      kRetryDelay);
}

absl::Status PgUnknownFormat() {
  return PgError(absl::StatusCode::kFailedPrecondition,
                 "the store of the database has a format that this calibd does not know; use the "
                 "calibd that wrote it, or a newer one");
}

}  // namespace calibd::server
