#include "server/store/postgres/rotation.h"

#include <chrono>
#include <memory>
#include <vector>

#include "calibd/core/status_macros.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/log_tables.h"
#include "server/store/postgres/pg_errors.h"
#include "server/store/postgres/queries.h"

namespace calibd::server {
namespace {

// To remove the files of a large table takes a second on a slow disk.
constexpr std::chrono::seconds kRotationTime{60};

}  // namespace

absl::StatusOr<std::int64_t> RotateLog(const std::string& connection, std::int64_t newest) {
  CALIBD_ASSIGN_OR_RETURN(const std::unique_ptr<PgConnection> opened,
                          PgConnection::Open(connection));
  const auto deadline = std::chrono::steady_clock::now() + kRotationTime;
  const std::vector<PgStatement> check{{.query = &queries::kBeginTransaction},
                                       {.query = &queries::kLimitWait},
                                       {.query = &queries::kLockGeneration},
                                       {.query = &queries::kLowestFirst}};
  CALIBD_ASSIGN_OR_RETURN(const std::vector<PgResult> found, opened->Run(check, deadline));
  if (found[2].rows() != 1 || found[3].rows() != 1) return PgDamage("has no state");
  // The end of the connection rolls the transaction back.
  const std::int64_t now = found[2].row(0).Int8(0);
  const std::int64_t next = newest + 1;
  if (now != newest || found[3].row(0).Int8(0) <= next - LogTables::kTables) return now;
  const std::int64_t table = LogTables::TableOf(next);
  const std::vector<PgStatement> rotate{
      {.query = &queries::EmptyTable(table)},
      {.query = &queries::MarkTable(table), .values = PgValues().Int8(next)},
      {.query = &queries::kSetGeneration, .values = PgValues().Int8(next)},
      {.query = &queries::kCommitTransaction}};
  CALIBD_RETURN_IF_ERROR(opened->Run(rotate, deadline).status());
  return next;
}

}  // namespace calibd::server
