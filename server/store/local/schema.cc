#include "server/store/local/schema.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/store/local/database_state.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// "cali", see the magic numbers of SQLite's file format.
constexpr std::int64_t kApplicationId = 0x63616c69;

// Returns DataLoss unless the statements that created the tables are exactly those of this version.
absl::Status CheckTables(const Database& database) {
  CALIBD_ASSIGN_OR_RETURN(
      Statement tables,
      Statement::Prepare(database,
                         "SELECT name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_*'"));
  std::size_t found = 0;
  absl::StatusOr<bool> row = tables.Next();
  for (; row.ok() && *row; row = tables.Next()) {
    bool known = false;
    for (std::size_t i = 0; i < kTableCount && !known; ++i) {
      const TableInfo& info = InfoOf(static_cast<Table>(i));
      known = tables.Text(0) == info.name && tables.Text(1) == info.create;
    }
    if (!known) {
      return DatabaseDamage(
          absl::StrCat("has an unknown or altered table, ", Quoted(tables.Text(0))));
    }
    ++found;
  }
  if (row.ok() && found != kTableCount) {
    return DatabaseDamage(absl::StrCat("has ", found, " tables, expected ", kTableCount));
  }
  return row.status();
}

// Makes the tables of an empty database, which is then complete and has its own id.
absl::Status MakeTables(Database& database) {
  for (std::size_t i = 0; i < kTableCount; ++i) {
    CALIBD_RETURN_IF_ERROR(database.Execute(InfoOf(static_cast<Table>(i)).create));
  }
  DatabaseState state;
  state.id = StoreId::Random();
  state.complete = true;
  state.commit_number = 1;
  CALIBD_ASSIGN_OR_RETURN(StateWriter writer, StateWriter::Prepare(database));
  CALIBD_RETURN_IF_ERROR(writer.WriteAll(state));
  return database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                       "; PRAGMA user_version = ", kFormatVersion)
                              .c_str());
}

}  // namespace

absl::Status FolderError(const std::string& folder, std::string_view reason) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                   absl::StrCat("data-dir ", Quoted(folder, 300), " ", std::string(reason)));
}

absl::StatusOr<std::int64_t> CheckFormat(Database& database, const std::string& folder) {
  CALIBD_ASSIGN_OR_RETURN(const std::int64_t application,
                          database.QueryInteger("PRAGMA application_id"));
  CALIBD_ASSIGN_OR_RETURN(const std::int64_t version, database.QueryInteger("PRAGMA user_version"));
  CALIBD_ASSIGN_OR_RETURN(const std::int64_t tables,
                          database.QueryInteger("SELECT count(*) FROM sqlite_master"));
  CALIBD_ASSIGN_OR_RETURN(
      const std::int64_t own,
      database.QueryInteger("SELECT count(*) FROM sqlite_master WHERE name = 'store'"));
  // Auto-vacuum moves pages; calibd never turns it on.
  CALIBD_ASSIGN_OR_RETURN(const std::int64_t vacuum, database.QueryInteger("PRAGMA auto_vacuum"));
  if (application != kApplicationId && own == 0 &&
      !(application == 0 && version == 0 && tables == 0)) {
    return FolderError(folder, "holds the database of another program");
  }
  if (version > kFormatVersion) {
    return FolderError(folder, absl::StrCat("was written by a newer calibd (format ", version,
                                            ", this one knows up to ", kFormatVersion,
                                            "), or its calibd.db is damaged; start the newer "
                                            "calibd, or restore a backup into an empty folder"));
  }
  const bool is_new = tables == 0 && application == 0;
  if (application != (is_new ? 0 : kApplicationId) || vacuum != 0 || (version > 0) != (own == 1) ||
      (version <= 0) != is_new) {
    return DatabaseDamage(absl::StrCat("has a damaged header: application_id ", application,
                                       ", user_version ", version, ", auto_vacuum ", vacuum));
  }
  if (version > 0) CALIBD_RETURN_IF_ERROR(CheckTables(database));
  return version;
}

absl::Status CreateDatabase(Database& database) {
  absl::Status status = database.Execute("BEGIN IMMEDIATE");
  Failpoint("first_start");
  if (status.ok()) status = MakeTables(database);
  if (status.ok()) {
    Failpoint("first_start");
    status = database.Execute("COMMIT");
    Failpoint("first_start");
  }
  if (!status.ok() && database.in_transaction()) static_cast<void>(database.Execute("ROLLBACK"));
  return status;
}

}  // namespace calibd::server
