#include "server/migrate.h"

#include <iostream>

#include "server/store/postgres/migrate.h"

namespace calibd::server {

int RunMigrate(const std::string& connection, const std::string& serving_role) {
  const absl::StatusOr<bool> is_new = MigratePostgres(connection, serving_role);
  if (!is_new.ok()) {
    std::cerr << "calibd: " << std::string(is_new.status().message()) << '\n';
    return 1;
  }
  std::cout << (*is_new ? "The database has a new, empty store of format "
                        : "The database has a store of format ")
            << kPostgresFormat << ".\n";
  if (!serving_role.empty()) std::cout << serving_role << " may serve from it.\n";
  return 0;
}

}  // namespace calibd::server
