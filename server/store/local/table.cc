#include "server/store/local/table.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/xxh3.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

// Checksums include the bytes of numbers in memory.
static_assert(std::endian::native == std::endian::little);

// The tables in the order of the enum Table. A change of column names is a change of the format.
constexpr std::array<TableInfo, kTableCount> kTables{{
    {.name = "models",
     .columns = "id, declaration",
     .column_count = 2,
     .key = "id = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE models (
  id INTEGER PRIMARY KEY,
  declaration BLOB NOT NULL,
  checksum INTEGER NOT NULL
))sql"},
    {.name = "cursors",
     .columns = "model_id, producer_id, epoch, last_sequence, contents",
     .column_count = 5,
     .key = "model_id = ?1 AND producer_id = ?2",
     .key_columns = 2,
     .create = R"sql(CREATE TABLE cursors (
  model_id INTEGER NOT NULL,
  producer_id BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  contents BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (model_id, producer_id)
) WITHOUT ROWID)sql"},
    {.name = "maturity",
     .columns = "model_id, log_id",
     .column_count = 2,
     .key = "model_id = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE maturity (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL,
  checksum INTEGER NOT NULL
))sql"},
    {.name = "snapshots",
     .columns = "model_id, log_id, first_log_id, data",
     .column_count = 4,
     .key = "model_id = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE snapshots (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL,
  first_log_id INTEGER NOT NULL,
  data BLOB NOT NULL,
  checksum INTEGER NOT NULL
))sql"},
    {.name = "log",
     .columns = "id, model_id, time_us, data",
     .column_count = 4,
     .key = "id = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  model_id INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  data BLOB NOT NULL,
  checksum INTEGER NOT NULL
))sql"},
    {.name = "history_spans",
     .columns = "model_id, resolution, oldest_s, newest_s, row_count, row_sum",
     .column_count = 6,
     .key = "model_id = ?1 AND resolution = ?2",
     .key_columns = 2,
     .create = R"sql(CREATE TABLE history_spans (
  model_id INTEGER NOT NULL,
  resolution INTEGER NOT NULL,
  oldest_s INTEGER NOT NULL,
  newest_s INTEGER NOT NULL,
  row_count INTEGER NOT NULL,
  row_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (model_id, resolution)
) WITHOUT ROWID)sql"},
    {.name = "history",
     .columns = "model_id, resolution, start_s, previous_s, data",
     .column_count = 5,
     .key = "model_id = ?1 AND resolution = ?2 AND start_s = ?3",
     .key_columns = 3,
     .create = R"sql(CREATE TABLE history (
  model_id INTEGER NOT NULL,
  resolution INTEGER NOT NULL,
  start_s INTEGER NOT NULL,
  previous_s INTEGER NOT NULL,
  data BLOB NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (model_id, resolution, start_s)
) WITHOUT ROWID)sql"},
    {.name = "tables",
     .columns = "name, row_count, row_sum",
     .column_count = 3,
     .key = "name = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE tables (
  name BLOB NOT NULL PRIMARY KEY,
  row_count INTEGER NOT NULL,
  row_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) WITHOUT ROWID)sql"},
    {.name = "store",
     .columns = "id, store_id, commit_number, next_model_id, first_log_id, complete, tables_sum",
     .column_count = 7,
     .key = "id = ?1",
     .key_columns = 1,
     .create = R"sql(CREATE TABLE store (
  id INTEGER PRIMARY KEY,
  store_id BLOB NOT NULL,
  commit_number INTEGER NOT NULL,
  next_model_id INTEGER NOT NULL,
  first_log_id INTEGER NOT NULL,
  complete INTEGER NOT NULL,
  tables_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL
))sql"},
}};

// Describes the values of the key columns: "model_id = 3, producer_id = 'p'".
std::string DescribeKey(const TableInfo& info, const Statement& row) {
  std::string text;
  const std::vector<std::string> names = absl::StrSplit(info.columns, ", ");
  for (std::size_t i = 0; i < info.key_columns; ++i) {
    const int column = static_cast<int>(i);
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i], " = ",
                    row.type(column) == SQLITE_INTEGER ? absl::StrCat(row.Integer(column))
                                                       : Quoted(row.Blob(column)));
  }
  return text;
}

// True if the columns match the checksum that follows them.
bool IsValid(Table table, const Statement& row) {
  const std::size_t count = InfoOf(table).column_count;
  std::array<ColumnValue, 8> values;
  for (std::size_t i = 0; i <= count; ++i) {
    const int column = static_cast<int>(i);
    if (row.type(column) == SQLITE_INTEGER) {
      values[i] = row.Integer(column);
    } else if (row.type(column) == SQLITE_BLOB) {
      values[i] = row.Blob(column);
    } else {
      return false;
    }
  }
  const auto* const checksum = std::get_if<std::int64_t>(&values[count]);
  return checksum != nullptr && static_cast<std::uint64_t>(*checksum) ==
                                    RowChecksum(table, std::span(values).first(count));
}

// A statement that fails for lack of memory or room may end its transaction. Whatever is written
// after it would be durable at once, and not match the sums of the tables.
absl::Status CheckTransaction(const Statement& statement) {
  if (statement.in_transaction()) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kUnavailable, "STORE_FAILED",
      "the store cannot write calibd.db: a failed statement has ended the transaction");
}

}  // namespace

const TableInfo& InfoOf(Table table) noexcept { return kTables[static_cast<std::size_t>(table)]; }

void TableSum::Add(std::uint64_t checksum) noexcept {
  ++rows;
  sum += checksum;
}

void TableSum::Subtract(std::uint64_t checksum) noexcept {
  --rows;
  sum -= checksum;
}

std::uint64_t RowChecksum(Table table, std::span<const ColumnValue> values) {
  const std::string_view name = InfoOf(table).name;
  // Each hash is the seed of the next one. Lengths and types are hashed too, so that no bytes can
  // move from one column to another.
  std::uint64_t hash = XXH3_64bits(name.data(), name.size());
  for (const ColumnValue& value : values) {
    std::array<std::uint64_t, 2> head{value.index()};
    if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
      head[1] = static_cast<std::uint64_t>(*integer);
      hash = XXH3_64bits_withSeed(head.data(), sizeof(head), hash);
    } else {
      const std::string_view blob = std::get<std::string_view>(value);
      head[1] = blob.size();
      hash = XXH3_64bits_withSeed(head.data(), sizeof(head), hash);
      hash = XXH3_64bits_withSeed(blob.data(), blob.size(), hash);
    }
  }
  return hash;
}

absl::Status DatabaseDamage(std::string_view reason) { return DamageError("calibd.db", reason); }

absl::Status CheckSum(Table table, const TableSum& expected, const TableSum& read) {
  if (read == expected) return absl::OkStatus();
  const auto name = InfoOf(table).name;
  return DatabaseDamage(
      read.rows == expected.rows
          ? absl::StrCat("has rows in table ", name, " that do not match the checksum of the table")
          : absl::StrCat("has ", read.rows, " rows in table ", name, ", expected ", expected.rows));
}

absl::StatusOr<CheckedRows> CheckedRows::Select(const Database& database, Table table,
                                                std::string_view rest) {
  const TableInfo& info = InfoOf(table);
  CALIBD_ASSIGN_OR_RETURN(
      Statement statement,
      Statement::Prepare(database, absl::StrCat("SELECT ", info.columns, ", checksum FROM ",
                                                info.name, " ", std::string(rest))
                                       .c_str()));
  return CheckedRows(table, std::move(statement));
}

absl::StatusOr<bool> CheckedRows::Next() {
  at_row_ = false;
  absl::StatusOr<bool> row = statement_.Next();
  if (!row.ok() || !*row) return row;
  at_row_ = true;
  const TableInfo& info = InfoOf(table_);
  sum_.Add(static_cast<std::uint64_t>(statement_.Integer(static_cast<int>(info.column_count))));
  if (!IsValid(table_, statement_)) {
    return DatabaseDamage(absl::StrCat("has a damaged row in table ", info.name, ", with ",
                                       DescribeKey(info, statement_),
                                       ": it does not match its checksum"));
  }
  return true;
}

absl::StatusOr<TableWriter> TableWriter::Prepare(const Database& database, Table table,
                                                 TableSum* sum) {
  const TableInfo& info = InfoOf(table);
  std::string parameters = "?1";
  for (std::size_t i = 2; i <= info.column_count + 1; ++i) absl::StrAppend(&parameters, ", ?", i);
  CALIBD_ASSIGN_OR_RETURN(
      Statement insert,
      Statement::Prepare(database, absl::StrCat("INSERT INTO ", info.name, " (", info.columns,
                                                ", checksum) VALUES (", parameters, ")")
                                       .c_str()));
  CALIBD_ASSIGN_OR_RETURN(
      Statement remove,
      Statement::Prepare(database, absl::StrCat("DELETE FROM ", info.name, " WHERE ", info.key,
                                                " RETURNING checksum")
                                       .c_str()));
  return TableWriter(table, sum, std::move(insert), std::move(remove));
}

absl::Status TableWriter::Insert(std::span<const ColumnValue> values) {
  CALIBD_RETURN_IF_ERROR(CheckTransaction(insert_));
  const std::uint64_t checksum = RowChecksum(table_, values);
  int index = 0;
  for (const ColumnValue& value : values) insert_.Bind(++index, value);
  CALIBD_RETURN_IF_ERROR(insert_.Bind(++index, static_cast<std::int64_t>(checksum)).Run());
  if (sum_ != nullptr) sum_->Add(checksum);
  return absl::OkStatus();
}

absl::Status TableWriter::Put(std::span<const ColumnValue> values) {
  int index = 0;
  for (const ColumnValue& value : values.first(InfoOf(table_).key_columns)) {
    remove_.Bind(++index, value);
  }
  CALIBD_RETURN_IF_ERROR(RunDelete(remove_));
  return Insert(values);
}

absl::Status TableWriter::Delete(std::initializer_list<ColumnValue> key) {
  int index = 0;
  for (const ColumnValue& value : key) remove_.Bind(++index, value);
  return RunDelete(remove_);
}

absl::Status TableWriter::RunDelete(Statement& statement) {
  CALIBD_RETURN_IF_ERROR(CheckTransaction(statement));
  absl::StatusOr<bool> row = statement.Next();
  for (; row.ok() && *row; row = statement.Next()) {
    if (sum_ != nullptr) sum_->Subtract(static_cast<std::uint64_t>(statement.Integer(0)));
  }
  return row.status();
}

}  // namespace calibd::server
