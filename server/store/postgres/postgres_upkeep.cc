// The retention of the log of a store in a database.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/store/postgres/pg_errors.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/queries.h"
#include "server/store/postgres/rotation.h"

namespace calibd::server {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kRotationInterval{5};
constexpr std::chrono::seconds kCountInterval{30};

}  // namespace

absl::StatusOr<std::unique_ptr<StoreView>> PostgresStore::OpenView() {
  return MakeError(
      absl::StatusCode::kUnimplemented, "STORE_WITHOUT_BACKUP",
      "the store is a PostgreSQL database: back it up and restore it with the tools of "
      "PostgreSQL, such as pg_basebackup with an archive of its log for point-in-time "
      "recovery");
}

absl::StatusOr<bool> PostgresStore::Maintain(bool refused) {
  const auto now = steady_clock::now();
  // A new generation may free space.
  if (refused) rotates_at_ = std::min(rotates_at_, now);
  // A rotation must not fall behind the writes; a generation of twice the size waits for it.
  const bool waits = tables_.fill() >= 2;
  if (rotation_.valid() &&
      (waits || rotation_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
    FinishRotation();
  }
  if (!rotation_.valid() && tables_.IsRotationDue() && now >= rotates_at_) BeginRotation();
  if (now >= counts_catalog_at_) {
    counts_catalog_at_ = now + kCountInterval;
    CALIBD_RETURN_IF_ERROR(
        session_.Run([this](PgConnection& connection, auto deadline) -> absl::Status {
          CALIBD_ASSIGN_OR_RETURN(const PgResult bytes,
                                  connection.RunOne({.query = &queries::kCatalogBytes}, deadline));
          catalog_bytes_ = bytes.row(0).Int8(0);
          return absl::OkStatus();
        }));
  }
  return tables_.IsCopyDue() ? CopyOld() : false;
}

void PostgresStore::BeginRotation() {
  const auto now = steady_clock::now();
  const auto next_table = static_cast<std::size_t>(LogTables::TableOf(tables_.newest() + 1));
  if (!tables_.IsNextFree() || now - freed_at_[next_table] < settings_.free_time) return;
  rotates_at_ = now + kRotationInterval;
  rotation_ = std::async(std::launch::async,
                         [connection = settings_.connection, newest = tables_.newest()] {
                           return RotateLog(connection, newest);
                         });
}

void PostgresStore::FinishRotation() {
  const absl::StatusOr<std::int64_t> newest = rotation_.get();
  if (!newest.ok()) {
    // A pg_dump reads the table, for example. The newest generation grows on meanwhile.
    spdlog::warn("the log of the store grows on, because no new generation could begin: {}",
                 std::string(newest.status().message()));
  } else if (*newest > tables_.newest()) {
    tables_.Rotate(*newest);
    rotates_at_ = {};
    CountBytes();
  }
}

absl::StatusOr<bool> PostgresStore::CopyOld() {
  const std::vector<std::int64_t> log_ids = tables_.NextToCopy(kCopyBytes);
  PgStatement statement;
  if (log_ids.empty()) {
    statement = Fenced(queries::kRaiseFirst);
    statement.values.Int8(tables_.first() + 1).Int8(last_log_id_);
  } else {
    statement = Fenced(queries::CopyBatches(LogTables::TableOf(tables_.first()),
                                            LogTables::TableOf(tables_.newest())));
    statement.values.Int8Array(log_ids);
  }
  CALIBD_RETURN_IF_ERROR(session_.Run([&](PgConnection& connection, auto deadline) -> absl::Status {
    CALIBD_ASSIGN_OR_RETURN(const PgResult result, connection.RunOne(statement, deadline));
    if (log_ids.empty()) return result.rows() == 1 ? absl::OkStatus() : PgFenced();
    if (result.row(0).Int8(0) == 0) return PgFenced();
    return static_cast<std::size_t>(result.row(0).Int8(1)) == log_ids.size()
               ? absl::OkStatus()
               : PgDamage("lacks batches of the log");
  }));
  if (log_ids.empty()) {
    freed_at_[static_cast<std::size_t>(LogTables::TableOf(tables_.first()))] = steady_clock::now();
    tables_.RaiseFirst();
    Failpoint("raised_generation");
  } else {
    tables_.MoveToNewest(log_ids);
    Failpoint("copied_generation");
  }
  CountBytes();
  return tables_.IsCopyDue();
}

}  // namespace calibd::server
