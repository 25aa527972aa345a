#include "server/store/local/schema.h"

#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/store/local/database_state.h"
#include "server/store/local/history_table.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// "cali", see the magic numbers of SQLite's file format.
constexpr std::int64_t kApplicationId = 0x63616c69;

// Step N makes version N + 1 from version N, up to version 3. They must never be changed.
constexpr std::array kOldSteps{R"sql(
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  declaration BLOB NOT NULL
);
CREATE TABLE cursors (
  model_id INTEGER NOT NULL,
  producer_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  contents BLOB NOT NULL,
  PRIMARY KEY (model_id, producer_id)
) WITHOUT ROWID;
CREATE TABLE log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE TABLE snapshots (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL,
  data BLOB NOT NULL
);
)sql",
                               R"sql(
CREATE TABLE maturity (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL
);
)sql",
                               R"sql(
ALTER TABLE snapshots ADD COLUMN first_log_id INTEGER NOT NULL DEFAULT 0;
CREATE TABLE log_files (
  first_log_id INTEGER NOT NULL
);
INSERT INTO log_files (first_log_id) VALUES (0);
CREATE TABLE history (
  model_id INTEGER NOT NULL,
  resolution INTEGER NOT NULL,
  start_s INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (model_id, resolution, start_s)
) WITHOUT ROWID;
)sql"};

// Makes the tables of version 4 and later, whose rows have checksums and sums.
class RowUpgrade {
 public:
  RowUpgrade(Database& database, const std::optional<StoreId>& id) : database_(database) {
    state_.id = id.value_or(StoreId::Random());
    state_.complete = !id.has_value();
    state_.commit_number = 1;
  }

  // Requires an empty database.
  absl::Status Create() {
    CALIBD_RETURN_IF_ERROR(CreateTables());
    return WriteState();
  }

  // Copies the rows of version 3.
  absl::Status Copy() {
    CALIBD_RETURN_IF_ERROR(ReadNumbers());
    for (const char* table : kTablesOf3) {
      CALIBD_RETURN_IF_ERROR(
          database_.Execute(absl::StrCat("ALTER TABLE ", table, " RENAME TO old_", table).c_str()));
    }
    CALIBD_RETURN_IF_ERROR(CreateTables());
    CALIBD_RETURN_IF_ERROR(CopyModels());
    CALIBD_RETURN_IF_ERROR(CopyLog());
    CALIBD_RETURN_IF_ERROR(CopyHistory());
    for (const char* table : kTablesOf3) {
      CALIBD_RETURN_IF_ERROR(database_.Execute(absl::StrCat("DROP TABLE old_", table).c_str()));
    }
    return WriteState();
  }

 private:
  static constexpr std::array kTablesOf3{"models",   "cursors",   "log",    "snapshots",
                                         "maturity", "log_files", "history"};

  absl::Status CreateTables() {
    for (std::size_t i = 0; i < kTableCount; ++i) {
      CALIBD_RETURN_IF_ERROR(database_.Execute(InfoOf(static_cast<Table>(i)).create));
    }
    return absl::OkStatus();
  }

  absl::Status ReadNumbers() {
    CALIBD_ASSIGN_OR_RETURN(
        const std::int64_t model,
        database_.QueryInteger("SELECT seq FROM sqlite_sequence WHERE name = 'models'"));
    CALIBD_ASSIGN_OR_RETURN(
        const std::int64_t log,
        database_.QueryInteger("SELECT seq FROM sqlite_sequence WHERE name = 'log'"));
    CALIBD_ASSIGN_OR_RETURN(const std::int64_t first,
                            database_.QueryInteger("SELECT first_log_id FROM log_files"));
    state_.next_model_id = model + 1;
    // 0: there were no segments, or only the first one, and the log continues after the table.
    state_.first_log_id = first == 0 ? log + 1 : first;
    return absl::OkStatus();
  }

  // Calls insert with each row of a query.
  absl::Status CopyRows(const char* query, Table table,
                        const std::function<absl::Status(TableWriter&, const Statement&)>& insert) {
    CALIBD_ASSIGN_OR_RETURN(TableWriter writer,
                            TableWriter::Prepare(database_, table, &state_.sum(table)));
    return Visit(query, [&](const Statement& row) { return insert(writer, row); });
  }

  absl::Status Visit(const char* query,
                     const std::function<absl::Status(const Statement&)>& visit) {
    CALIBD_ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(database_, query));
    absl::StatusOr<bool> row = rows.Next();
    for (; row.ok() && *row; row = rows.Next()) CALIBD_RETURN_IF_ERROR(visit(rows));
    return row.status();
  }

  absl::Status CopyModels() {
    CALIBD_RETURN_IF_ERROR(CopyRows("SELECT id, declaration FROM old_models ORDER BY id",
                                    Table::kModels, [](TableWriter& models, const Statement& row) {
                                      return models.Insert({row.Integer(0), row.Blob(1)});
                                    }));
    CALIBD_RETURN_IF_ERROR(
        CopyRows("SELECT model_id, producer_id, epoch, last_sequence, contents FROM old_cursors "
                 "ORDER BY model_id, producer_id",
                 Table::kCursors, [](TableWriter& cursors, const Statement& row) {
                   return cursors.Insert(
                       {row.Integer(0), row.Blob(1), row.Integer(2), row.Integer(3), row.Blob(4)});
                 }));
    CALIBD_RETURN_IF_ERROR(CopyRows("SELECT model_id, log_id FROM old_maturity ORDER BY model_id",
                                    Table::kMaturity,
                                    [](TableWriter& maturity, const Statement& row) {
                                      return maturity.Insert({row.Integer(0), row.Integer(1)});
                                    }));
    return CopyRows(
        "SELECT model_id, log_id, first_log_id, data FROM old_snapshots ORDER BY model_id",
        Table::kSnapshots, [](TableWriter& snapshots, const Statement& row) {
          return snapshots.Insert({row.Integer(0), row.Integer(1), row.Integer(2), row.Blob(3)});
        });
  }

  absl::Status CopyLog() {
    // Leaves out rows that a segment still holds: an interrupted retirement copied them.
    return CopyRows(
        absl::StrCat("SELECT id, model_id, time_us, data FROM old_log WHERE id < ",
                     state_.first_log_id, " ORDER BY id")
            .c_str(),
        Table::kLog, [](TableWriter& log, const Statement& row) {
          return log.Insert({row.Integer(0), row.Integer(1), row.Integer(2), row.Blob(3)});
        });
  }

  absl::Status CopyHistory() {
    CALIBD_ASSIGN_OR_RETURN(HistoryTable history,
                            HistoryTable::Prepare(database_, state_.sum(Table::kHistorySpans)));
    return Visit(
        "SELECT model_id, resolution, start_s, data FROM old_history "
        "ORDER BY model_id, resolution, start_s",
        [&](const Statement& row) {
          return history.Put({.model_id = row.Integer(0), .resolution = row.Integer(1)},
                             row.Integer(2), row.Blob(3));
        });
  }

  absl::Status WriteState() {
    CALIBD_ASSIGN_OR_RETURN(StateWriter writer, StateWriter::Prepare(database_));
    return writer.WriteAll(state_);
  }

  Database& database_;
  DatabaseState state_;
};

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

absl::Status ApplyStep(Database& database, std::int64_t version, const std::optional<StoreId>& id) {
  const auto step = static_cast<std::size_t>(version);
  return step < kOldSteps.size() ? database.Execute(kOldSteps[step])
                                 : RowUpgrade(database, id).Copy();
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
  // The table `store` exists since that version.
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
  if (application != (is_new ? 0 : kApplicationId) || vacuum != 0 ||
      (version >= kOldestWithTables) != (own == 1) || (version <= 0) != is_new) {
    return DatabaseDamage(absl::StrCat("has a damaged header: application_id ", application,
                                       ", user_version ", version, ", auto_vacuum ", vacuum));
  }
  if (version >= kOldestWithTables) CALIBD_RETURN_IF_ERROR(CheckTables(database));
  return version;
}

absl::Status Upgrade(Database& database, std::int64_t version, const std::optional<StoreId>& id) {
  absl::Status status = database.Execute("BEGIN IMMEDIATE");
  if (status.ok() && version == 0) {
    Failpoint("migration");
    status = RowUpgrade(database, id).Create();
    version = kFormatVersion;
  }
  for (; status.ok() && version < kOldestWithTables; ++version) {
    Failpoint("migration");
    status = ApplyStep(database, version, id);
  }
  if (status.ok()) {
    status = database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                           "; PRAGMA user_version = ", version)
                                  .c_str());
  }
  if (status.ok()) {
    Failpoint("migration");
    status = database.Execute("COMMIT");
    Failpoint("migration");
  }
  if (!status.ok() && database.in_transaction()) static_cast<void>(database.Execute("ROLLBACK"));
  return status;
}

}  // namespace calibd::server
