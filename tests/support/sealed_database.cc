#include "support/sealed_database.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/store/local/database_state.h"
#include "server/store/local/history_table.h"
#include "server/store/local/table.h"

namespace calibd::testing {
namespace {

using server::ColumnValue;
using server::Database;
using server::DatabaseState;
using server::Statement;
using server::Table;
using server::TableSum;

using Cell = std::variant<std::int64_t, std::string>;

// Returns all rows without their checksums.
absl::StatusOr<std::vector<std::vector<Cell>>> ReadRows(const Database& database, Table table) {
  const server::TableInfo& info = server::InfoOf(table);
  absl::StatusOr<Statement> statement = Statement::Prepare(
      database, absl::StrCat("SELECT ", info.columns, " FROM ", info.name).c_str());
  if (!statement.ok()) return statement.status();
  std::vector<std::vector<Cell>> rows;
  absl::StatusOr<bool> row = statement->Next();
  for (; row.ok() && *row; row = statement->Next()) {
    std::vector<Cell>& cells = rows.emplace_back();
    for (int column = 0; column < static_cast<int>(info.column_count); ++column) {
      if (statement->type(column) == SQLITE_INTEGER) {
        cells.emplace_back(statement->Integer(column));
      } else {
        cells.emplace_back(std::string(statement->Blob(column)));
      }
    }
  }
  if (!row.ok()) return row.status();
  return rows;
}

std::vector<ColumnValue> Views(const std::vector<Cell>& cells) {
  std::vector<ColumnValue> values;
  for (const Cell& cell : cells) {
    if (const auto* const integer = std::get_if<std::int64_t>(&cell)) {
      values.emplace_back(*integer);
    } else {
      values.emplace_back(std::string_view(std::get<std::string>(cell)));
    }
  }
  return values;
}

// Rewrites the rows of a table with correct checksums.
absl::Status Seal(Database& database, Table table, DatabaseState& state) {
  const server::TableInfo& info = server::InfoOf(table);
  const auto rows = ReadRows(database, table);
  absl::Status status = rows.status();
  status.Update(database.Execute(absl::StrCat("DELETE FROM ", info.name).c_str()));
  state.sum(table) = {};
  std::string parameters = "?1";
  for (std::size_t i = 2; i <= info.column_count + 1; ++i) absl::StrAppend(&parameters, ", ?", i);
  auto insert = Statement::Prepare(
      database, absl::StrCat("INSERT INTO ", info.name, " VALUES (", parameters, ")").c_str());
  status.Update(insert.status());
  if (!status.ok()) return status;
  for (const std::vector<Cell>& cells : *rows) {
    const std::vector<ColumnValue> values = Views(cells);
    const std::uint64_t checksum = server::RowChecksum(table, values);
    int index = 0;
    for (const ColumnValue& value : values) insert->Bind(++index, value);
    status.Update(insert->Bind(++index, static_cast<std::int64_t>(checksum)).Run());
    state.sum(table).Add(checksum);
  }
  return status;
}

absl::Status SealHistory(Database& database, DatabaseState& state) {
  const auto rows = ReadRows(database, Table::kHistory);
  absl::Status status = rows.status();
  status.Update(database.Execute("DELETE FROM history; DELETE FROM history_spans"));
  state.sum(Table::kHistorySpans) = {};
  auto history = server::HistoryTable::Prepare(database, state.sum(Table::kHistorySpans));
  status.Update(history.status());
  if (!status.ok()) return status;
  for (const std::vector<Cell>& cells : *rows) {
    status.Update(history->Put({.model_id = std::get<std::int64_t>(cells[0]),
                                .resolution = std::get<std::int64_t>(cells[1])},
                               std::get<std::int64_t>(cells[2]), std::get<std::string>(cells[4])));
  }
  return status;
}

}  // namespace

absl::Status ChangeDatabase(const std::string& path, const std::vector<std::string>& statements) {
  auto database = Database::Open(path);
  if (!database.ok()) return database.status();
  absl::Status status = database->Execute("BEGIN IMMEDIATE");
  absl::StatusOr<DatabaseState> state = server::ReadState(*database);
  status.Update(state.status());
  for (const std::string& statement : statements) {
    if (status.ok()) status = database->Execute(statement.c_str());
  }
  for (const Table table :
       {Table::kModels, Table::kCursors, Table::kMaturity, Table::kSnapshots, Table::kLog}) {
    if (status.ok()) status = Seal(*database, table, *state);
  }
  if (status.ok()) status = SealHistory(*database, *state);
  auto writer = server::StateWriter::Prepare(*database);
  status.Update(writer.status());
  if (status.ok()) status = writer->WriteAll(*state);
  if (status.ok()) status = database->Execute("COMMIT");
  return status;
}

}  // namespace calibd::testing
