#include "server/store/local/database_state.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::server {
namespace {

// Id of the single row of `store`.
constexpr std::int64_t kStoreRow = 1;

Table SummedTable(std::size_t index) { return static_cast<Table>(index); }

// tables_sum: the checksum sum of the rows of `tables`, as stored in the row of `store`.
absl::Status ReadStore(const Database& database, DatabaseState& state, std::uint64_t& tables_sum) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows rows, CheckedRows::Select(database, Table::kStore, ""));
  CALIBD_ASSIGN_OR_RETURN(const bool row, rows.Next());
  if (!row || rows.Blob(1).size() != state.id.bytes.size()) {
    return DatabaseDamage("lacks the row of table store");
  }
  std::copy_n(rows.Blob(1).data(), state.id.bytes.size(), state.id.bytes.data());
  state.commit_number = rows.Integer(2);
  state.next_model_id = rows.Integer(3);
  state.first_log_id = rows.Integer(4);
  state.complete = rows.Integer(5) != 0;
  tables_sum = static_cast<std::uint64_t>(rows.Integer(6));
  return absl::OkStatus();
}

// Returns the row of `tables` for a table.
std::array<ColumnValue, 3> RowOf(Table table, const TableSum& sum) {
  return {std::string_view(InfoOf(table).name), sum.rows, static_cast<std::int64_t>(sum.sum)};
}

absl::Status ReadSums(const Database& database, DatabaseState& state, std::uint64_t tables_sum) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows rows,
                          CheckedRows::Select(database, Table::kTables, "WHERE name = ?1"));
  for (std::size_t i = 0; i < kSummedTables; ++i) {
    const std::string_view name = InfoOf(SummedTable(i)).name;
    rows.statement().BindBlob(1, name);
    CALIBD_ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) {
      return DatabaseDamage(absl::StrCat("lacks the row of table tables for ", std::string(name)));
    }
    state.sums[i] = {.rows = rows.Integer(1), .sum = static_cast<std::uint64_t>(rows.Integer(2))};
    rows.statement().Reset();
  }
  return CheckSum(Table::kTables, {.rows = kSummedTables, .sum = tables_sum}, rows.sum());
}

std::uint64_t SumOfTables(const DatabaseState& state) {
  TableSum sum;
  for (std::size_t i = 0; i < kSummedTables; ++i) {
    sum.Add(RowChecksum(Table::kTables, RowOf(SummedTable(i), state.sums[i])));
  }
  return sum.sum;
}

}  // namespace

absl::StatusOr<DatabaseState> ReadState(const Database& database) {
  DatabaseState state;
  std::uint64_t tables_sum = 0;
  CALIBD_RETURN_IF_ERROR(ReadStore(database, state, tables_sum));
  CALIBD_RETURN_IF_ERROR(ReadSums(database, state, tables_sum));
  return state;
}

absl::StatusOr<StateWriter> StateWriter::Prepare(const Database& database) {
  // These two tables have a fixed number of rows, and no sum.
  CALIBD_ASSIGN_OR_RETURN(TableWriter store,
                          TableWriter::Prepare(database, Table::kStore, nullptr));
  CALIBD_ASSIGN_OR_RETURN(TableWriter tables,
                          TableWriter::Prepare(database, Table::kTables, nullptr));
  return StateWriter(std::move(store), std::move(tables));
}

absl::Status StateWriter::Write(const DatabaseState& state, const DatabaseState& committed) {
  CALIBD_RETURN_IF_ERROR(WriteStore(state));
  for (std::size_t i = 0; i < kSummedTables; ++i) {
    if (state.sums[i] == committed.sums[i]) continue;
    CALIBD_RETURN_IF_ERROR(WriteSum(SummedTable(i), state.sums[i]));
  }
  return absl::OkStatus();
}

absl::Status StateWriter::WriteAll(const DatabaseState& state) {
  CALIBD_RETURN_IF_ERROR(WriteStore(state));
  for (std::size_t i = 0; i < kSummedTables; ++i) {
    CALIBD_RETURN_IF_ERROR(WriteSum(SummedTable(i), state.sums[i]));
  }
  return absl::OkStatus();
}

absl::Status StateWriter::WriteStore(const DatabaseState& state) {
  return store_.Put({kStoreRow, state.id.view(), state.commit_number, state.next_model_id,
                     state.first_log_id, std::int64_t{state.complete},
                     static_cast<std::int64_t>(SumOfTables(state))});
}

absl::Status StateWriter::WriteSum(Table table, const TableSum& sum) {
  return tables_.Put(RowOf(table, sum));
}

}  // namespace calibd::server
