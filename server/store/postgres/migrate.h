#ifndef CALIBD_SERVER_STORE_POSTGRES_MIGRATE_H_
#define CALIBD_SERVER_STORE_POSTGRES_MIGRATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace calibd::server {

// The format of a store that this program reads and writes.
inline constexpr std::int32_t kPostgresFormat = 1;

// Makes the schema `calibd` with an empty store, unless the database has one, and lets a role use
// it: that role may read and write rows and empty the tables of the log, but change no table.
// connection: the connection string of a role that may create a schema; the schema belongs to it.
// serving_role: the role of calibd; empty to grant nothing. Returns whether the store is new.
// Errors: those of PgConnection; FailedPrecondition also if the store has a newer format.
[[nodiscard]] absl::StatusOr<bool> MigratePostgres(const std::string& connection,
                                                   const std::string& serving_role);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_MIGRATE_H_
