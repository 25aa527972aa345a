#ifndef CALIBD_SERVER_STORE_LOCAL_DATABASE_STATE_H_
#define CALIBD_SERVER_STORE_LOCAL_DATABASE_STATE_H_

#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/store_file.h"
#include "server/store/local/table.h"

namespace calibd::server {

// The database's record of its own state: the row of `store` and the rows of `tables`.
struct DatabaseState {
  StoreId id;
  // Increases by one with each transaction.
  std::int64_t commit_number = 0;
  // Greater than all model ids so far.
  std::int64_t next_model_id = 1;
  // The id of the first batch of the oldest segment; batches below it are in `log`.
  std::int64_t first_log_id = 1;
  // True for a new database or a backup, whose other files do not exist yet.
  bool complete = false;
  // Indexed by Table.
  std::array<TableSum, kSummedTables> sums{};

  [[nodiscard]] TableSum& sum(Table table) noexcept {
    return sums[static_cast<std::size_t>(table)];
  }
  [[nodiscard]] const TableSum& sum(Table table) const noexcept {
    return sums[static_cast<std::size_t>(table)];
  }
};

// Errors: those of sqlite.h; DataLoss if a row is damaged or missing.
[[nodiscard]] absl::StatusOr<DatabaseState> ReadState(const Database& database);

// Writes the state within the caller's transactions. Errors: those of sqlite.h.
class StateWriter {
 public:
  [[nodiscard]] static absl::StatusOr<StateWriter> Prepare(const Database& database);
  // committed: the state that the database holds; unchanged sums are not written.
  [[nodiscard]] absl::Status Write(const DatabaseState& state, const DatabaseState& committed);
  // Writes the complete state.
  [[nodiscard]] absl::Status WriteAll(const DatabaseState& state);

 private:
  StateWriter(TableWriter store, TableWriter tables)
      : store_(std::move(store)), tables_(std::move(tables)) {}

  [[nodiscard]] absl::Status WriteStore(const DatabaseState& state);
  [[nodiscard]] absl::Status WriteSum(Table table, const TableSum& sum);

  TableWriter store_;
  TableWriter tables_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_DATABASE_STATE_H_
