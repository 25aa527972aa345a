#include "integration/engine/postgres_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "support/postgres_cluster.h"

namespace calibd::testing {
namespace {

class NeedsPostgres final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
  }
};
const ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new NeedsPostgres);

}  // namespace

absl::StatusOr<std::unique_ptr<server::PostgresStore>> OpenPostgresFolder(
    const std::string& folder, std::uint64_t generation_bytes) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  static std::map<std::string, std::string> databases;
  std::string& database = databases[folder];
  if (database.empty()) database = cluster.NewStore();
  auto store =
      server::PostgresStore::Open({.connection = cluster.Connection(database),
                                   .generation_bytes = static_cast<std::int64_t>(generation_bytes),
                                   .free_time = std::chrono::milliseconds(0),
                                   .times = {.expiry = std::chrono::milliseconds(0)}});
  if (store.ok()) {
    const std::atomic<bool> stop = false;
    if (absl::Status owned = (*store)->Own("", stop); !owned.ok()) return owned;
  }
  return store;
}

}  // namespace calibd::testing
