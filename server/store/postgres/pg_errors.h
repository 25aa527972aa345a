#ifndef CALIBD_SERVER_STORE_POSTGRES_PG_ERRORS_H_
#define CALIBD_SERVER_STORE_POSTGRES_PG_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace calibd::server {

// An error of a store in a database, with the reason that belongs to its code: ResourceExhausted,
// DataLoss, FailedPrecondition, or else Unavailable.
[[nodiscard]] absl::Status PgError(absl::StatusCode code, const std::string& message);
// DataLoss. what: what is wrong with "the store of the database".
[[nodiscard]] absl::Status PgDamage(std::string_view what);
// Aborted: another owner has the store.
[[nodiscard]] absl::Status PgFenced();
// While this process may not answer, calls end with one of these errors, which have a retry delay.
// Another process, at this address, is the owner.
[[nodiscard]] absl::Status PgNotOwner(const std::string& address, std::int64_t epoch);
// Nobody is the owner, or this process is and recovers the models.
[[nodiscard]] absl::Status PgTakingOver();
// This process may no longer be the owner.
[[nodiscard]] absl::Status PgLeaseLost();
// FailedPrecondition: the store has another format.
[[nodiscard]] absl::Status PgUnknownFormat();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_PG_ERRORS_H_
