#ifndef CALIBD_TESTS_INTEGRATION_ENGINE_POSTGRES_FOLDER_H_
#define CALIBD_TESTS_INTEGRATION_ENGINE_POSTGRES_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/postgres/postgres_store.h"

namespace calibd::testing {

// Opens the store in the database that belongs to the folder, which stays empty. A test without
// PostgreSQL is skipped before.
absl::StatusOr<std::unique_ptr<server::PostgresStore>> OpenPostgresFolder(
    const std::string& folder, std::uint64_t generation_bytes);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_ENGINE_POSTGRES_FOLDER_H_
