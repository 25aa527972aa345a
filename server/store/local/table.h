#ifndef CALIBD_SERVER_STORE_LOCAL_TABLE_H_
#define CALIBD_SERVER_STORE_LOCAL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/sqlite.h"

namespace calibd::server {

// The tables of calibd.db, see FORMAT.md. Every row has a checksum of its table and its columns.
enum class Table {
  kModels,
  kCursors,
  kMaturity,
  kSnapshots,
  kLog,
  kHistorySpans,
  // The row counts and sums of the tables above are in `tables`.
  kHistory,  // the sums of its rows are in `history_spans`
  kTables,
  kStore,
};
inline constexpr std::size_t kSummedTables = 6;
inline constexpr std::size_t kTableCount = 9;

struct TableInfo {
  const char* name;
  // All columns except the checksum, which is the last one; the key columns come first.
  const char* columns;
  std::size_t column_count;
  // A condition on the key columns, which are its parameters.
  const char* key;
  std::size_t key_columns;
  // The statement that creates the table, as in sqlite_master.
  const char* create;
};
[[nodiscard]] const TableInfo& InfoOf(Table table) noexcept;

// The number of rows of a table and the sum of their checksums, which does not depend on the order.
// It reveals rows that were lost, duplicated, or replaced by older ones.
struct TableSum {
  std::int64_t rows = 0;
  // Modulo 2^64.
  std::uint64_t sum = 0;

  void Add(std::uint64_t checksum) noexcept;
  void Subtract(std::uint64_t checksum) noexcept;
  friend bool operator==(const TableSum&, const TableSum&) = default;
};

// An integer or a blob.
using ColumnValue = std::variant<std::int64_t, std::string_view>;
// values: all columns except the checksum.
[[nodiscard]] std::uint64_t RowChecksum(Table table, std::span<const ColumnValue> values);

// Returns DataLoss: the database has invalid content. reason: what calibd.db "has" or "is".
[[nodiscard]] absl::Status DatabaseDamage(std::string_view reason);
// Returns DataLoss if the sums differ.
[[nodiscard]] absl::Status CheckSum(Table table, const TableSum& expected, const TableSum& read);

// Reads rows of a table and checks each of them.
class CheckedRows {
 public:
  // rest: the part of the statement after the name of the table, such as "WHERE id = ?1". The
  // columns are those of TableInfo.
  [[nodiscard]] static absl::StatusOr<CheckedRows> Select(const Database& database, Table table,
                                                          std::string_view rest);
  [[nodiscard]] Statement& statement() noexcept { return statement_; }

  // Moves to the next row; returns false after the last one. Errors: DataLoss if the row does not
  // match its checksum; then at_row() is true, and Next may be called again. Otherwise those of
  // sqlite.h.
  [[nodiscard]] absl::StatusOr<bool> Next();
  [[nodiscard]] bool at_row() const noexcept { return at_row_; }
  // Columns of the row. Views are valid until Next.
  [[nodiscard]] std::int64_t Integer(int column) const noexcept {
    return statement_.Integer(column);
  }
  [[nodiscard]] std::string_view Blob(int column) const noexcept { return statement_.Blob(column); }

  // Row count and checksum sum of the rows read so far.
  [[nodiscard]] const TableSum& sum() const noexcept { return sum_; }

 private:
  CheckedRows(Table table, Statement statement) : table_(table), statement_(std::move(statement)) {}

  Table table_;
  Statement statement_;
  TableSum sum_;
  bool at_row_ = false;
};

// Writes rows of a table with their checksums, and updates the sum of the table.
class TableWriter {
 public:
  // sum: must outlive this object; null if it is not needed. All functions below write within a
  // transaction; outside of one, they fail with Unavailable.
  [[nodiscard]] static absl::StatusOr<TableWriter> Prepare(const Database& database, Table table,
                                                           TableSum* sum);
  // values: all columns except the checksum. Errors: also Unavailable if the key exists.
  [[nodiscard]] absl::Status Insert(std::span<const ColumnValue> values);
  [[nodiscard]] absl::Status Insert(std::initializer_list<ColumnValue> values) {
    return Insert(std::span(values.begin(), values.size()));
  }
  // Replaces the row with the same key, if there is one.
  [[nodiscard]] absl::Status Put(std::span<const ColumnValue> values);
  [[nodiscard]] absl::Status Put(std::initializer_list<ColumnValue> values) {
    return Put(std::span(values.begin(), values.size()));
  }
  [[nodiscard]] absl::Status Delete(std::initializer_list<ColumnValue> key);
  // Runs a statement "DELETE FROM table ... RETURNING checksum".
  [[nodiscard]] absl::Status RunDelete(Statement& statement);

 private:
  TableWriter(Table table, TableSum* sum, Statement insert, Statement remove)
      : table_(table), sum_(sum), insert_(std::move(insert)), remove_(std::move(remove)) {}

  Table table_;
  TableSum* sum_;
  Statement insert_;
  Statement remove_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_TABLE_H_
