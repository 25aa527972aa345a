#include "server/store/postgres/migrate.h"

#include <chrono>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/core/status_macros.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/pg_errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::seconds kMigrationTime{60};

// The tables of format 1; server/store/postgres/FORMAT.md describes them. IF NOT EXISTS is of use
// when the operator has made the schema itself.
constexpr char kTables[] = R"(
CREATE SCHEMA IF NOT EXISTS calibd;
CREATE TABLE calibd.meta (
  one int PRIMARY KEY CHECK (one = 1), format int NOT NULL, cells int NOT NULL,
  store_id uuid NOT NULL, generation bigint NOT NULL);
CREATE TABLE calibd.nodes (
  node uuid PRIMARY KEY, address text NOT NULL, version text NOT NULL,
  expires_at timestamptz NOT NULL);
CREATE TABLE calibd.cells (
  cell int PRIMARY KEY, epoch bigint NOT NULL, owner uuid, next_model_id bigint NOT NULL,
  first_generation bigint NOT NULL, newest_log_id bigint NOT NULL);
CREATE TABLE calibd.models (
  cell int, model_id bigint, name text NOT NULL, declaration bytea NOT NULL,
  PRIMARY KEY (cell, model_id), UNIQUE (cell, name));
CREATE TABLE calibd.cursors (
  cell int, model_id bigint, producer_id bytea, epoch bigint NOT NULL,
  last_sequence bigint NOT NULL, contents bytea NOT NULL,
  PRIMARY KEY (cell, model_id, producer_id));
CREATE TABLE calibd.snapshots (
  cell int, model_id bigint, log_id bigint NOT NULL, first_log_id bigint NOT NULL,
  matured_log_id bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (cell, model_id));
ALTER TABLE calibd.snapshots ALTER data SET STORAGE EXTERNAL;
CREATE TABLE calibd.history (
  cell int, model_id bigint, resolution bigint, start_s bigint, data bytea NOT NULL,
  PRIMARY KEY (cell, model_id, resolution, start_s));
)";
// Doubles do not compress. An autovacuum would find nothing to free, and hold up a TRUNCATE.
constexpr char kLogTable[] = R"(
CREATE TABLE calibd.log_$N (
  cell int, log_id bigint, model_id bigint NOT NULL, time_us bigint NOT NULL, data bytea NOT NULL,
  PRIMARY KEY (cell, log_id))
  WITH (toast_tuple_target = 8160, autovacuum_enabled = off, toast.autovacuum_enabled = off);
ALTER TABLE calibd.log_$N ALTER data SET STORAGE EXTERNAL;
)";
// The first generation of the log is 0, in log_0, which has its marker.
constexpr char kRows[] = R"(
INSERT INTO calibd.meta VALUES (1, $F, 1, gen_random_uuid(), 0);
INSERT INTO calibd.cells VALUES (0, 0, NULL, 1, 0, 0);
INSERT INTO calibd.log_0 VALUES (-1, 0, 0, 0, '');
)";

constexpr char kGrants[] = R"(
GRANT USAGE ON SCHEMA calibd TO $R;
GRANT SELECT, UPDATE ON calibd.meta, calibd.cells TO $R;
GRANT SELECT, INSERT, UPDATE, DELETE
  ON calibd.nodes, calibd.models, calibd.cursors, calibd.snapshots, calibd.history TO $R;
GRANT SELECT, INSERT, TRUNCATE
  ON calibd.log_0, calibd.log_1, calibd.log_2, calibd.log_3 TO $R;
)";

// An identifier for a script.
std::string QuotedName(const std::string& name) {
  return absl::StrCat("\"", absl::StrReplaceAll(name, {{"\"", "\"\""}}), "\"");
}

const PgQuery kExists{"store_exists", "SELECT 1 WHERE to_regclass('calibd.meta') IS NOT NULL"};
const PgQuery kFormat{"store_format", "SELECT format FROM calibd.meta"};

}  // namespace

absl::StatusOr<bool> MigratePostgres(const std::string& connection,
                                     const std::string& serving_role) {
  CALIBD_ASSIGN_OR_RETURN(const std::unique_ptr<PgConnection> opened,
                          PgConnection::Open(connection));
  const auto deadline = std::chrono::steady_clock::now() + kMigrationTime;
  CALIBD_ASSIGN_OR_RETURN(const PgResult exists, opened->RunOne({.query = &kExists}, deadline));
  std::string script;
  const bool is_new = exists.rows() == 0;
  if (is_new) {
    script = kTables;
    for (const char* const number : {"0", "1", "2", "3"}) {
      absl::StrAppend(&script, absl::StrReplaceAll(kLogTable, {{"$N", number}}));
    }
    absl::StrAppend(&script, absl::StrReplaceAll(kRows, {{"$F", absl::StrCat(kPostgresFormat)}}));
  } else {
    CALIBD_ASSIGN_OR_RETURN(const PgResult format, opened->RunOne({.query = &kFormat}, deadline));
    if (format.rows() != 1 || format.row(0).Int4(0) != kPostgresFormat) return PgUnknownFormat();
  }
  if (!serving_role.empty()) {
    absl::StrAppend(&script, absl::StrReplaceAll(kGrants, {{"$R", QuotedName(serving_role)}}));
  }
  if (script.empty()) return is_new;
  const absl::Status status = opened->RunScript(script, deadline);
  if (absl::IsFailedPrecondition(status)) {
    return PgError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("nothing was changed: ", std::string(status.message()),
                                "; use a role that may create a schema, or the one that owns it, "
                                "and grant to a role that exists"));
  }
  CALIBD_RETURN_IF_ERROR(status);
  return is_new;
}

}  // namespace calibd::server
