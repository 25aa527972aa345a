#ifndef CALIBD_SERVER_MIGRATE_H_
#define CALIBD_SERVER_MIGRATE_H_

#include <string>

namespace calibd::server {

// Runs `calibd migrate`: see MigratePostgres. Prints what it did, or the error. Returns the exit
// code.
[[nodiscard]] int RunMigrate(const std::string& connection, const std::string& serving_role);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MIGRATE_H_
