#ifndef CALIBD_SERVER_STORE_LOCAL_HISTORY_TABLE_H_
#define CALIBD_SERVER_STORE_LOCAL_HISTORY_TABLE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalog.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/table.h"

namespace calibd::server {

// Each row of a HistorySeries names the start of the row before it. A row of `history_spans` stores
// the first and the last start of the series, and the sum of its rows. A reader of any part of a
// series therefore detects lost rows.

// The row of `history_spans` for a series with at least one row.
struct HistorySpan {
  // Starts of the first and the last row, in seconds since 1970.
  std::int64_t oldest_s = 0;
  std::int64_t newest_s = 0;
  TableSum sum{};
};

// The start before the first row of a series.
inline constexpr std::int64_t kNoRow = std::numeric_limits<std::int64_t>::min();

// Checks that the rows of a series, read in order from any start, are complete. Errors: DataLoss.
class HistoryChain {
 public:
  // span: unset if the series has none. from_s: the rows are read from this start on.
  HistoryChain(HistorySeries series, std::optional<HistorySpan> span, std::int64_t from_s) noexcept
      : series_(series), span_(span), last_s_(kNoRow), from_s_(from_s) {}

  [[nodiscard]] absl::Status Add(std::int64_t start_s, std::int64_t previous_s);
  // Call it after the last row.
  [[nodiscard]] absl::Status End() const;

 private:
  [[nodiscard]] absl::Status Missing(std::string_view what) const;

  HistorySeries series_;
  std::optional<HistorySpan> span_;
  // Start of the row that was added last; kNoRow before the first one.
  std::int64_t last_s_;
  std::int64_t from_s_;
};

// Visits the rows of a series that start in the range, in order. The caller must hold a read
// transaction. Errors: those of sqlite.h; DataLoss if a row is damaged or missing, or if all rows
// are read and do not match their sum; those of visit.
[[nodiscard]] absl::Status ReadHistory(const Database& database, const HistorySeries& series,
                                       const HistoryRange& range, const VisitHistory& visit);
// Returns the series that follows `after` in the order of model ids and resolutions; unset if
// `after` is the last one. Errors: those of ReadHistory.
[[nodiscard]] absl::StatusOr<std::optional<HistorySeries>> NextSeries(const Database& database,
                                                                      const HistorySeries& after);

// Writes both tables within the caller's transactions. Errors: those of sqlite.h, and DataLoss.
class HistoryTable {
 public:
  // spans_sum: the sum of `history_spans`; must outlive this object.
  [[nodiscard]] static absl::StatusOr<HistoryTable> Prepare(const Database& database,
                                                            TableSum& spans_sum);
  ~HistoryTable();
  HistoryTable(HistoryTable&& other) noexcept;
  HistoryTable& operator=(HistoryTable&& other) noexcept;

  // Replaces the row with the same start, if there is one.
  [[nodiscard]] absl::Status Put(const HistorySeries& series, std::int64_t start_s,
                                 std::string_view data);
  // Deletes the rows that start before this time.
  [[nodiscard]] absl::Status DeleteBefore(const HistorySeries& series, std::int64_t before_s);
  [[nodiscard]] absl::Status DeleteModel(std::int64_t model_id);

 private:
  struct Statements;
  explicit HistoryTable(std::unique_ptr<Statements> statements);

  // Updates the link in the row after this one, so that it names this row as its predecessor.
  [[nodiscard]] absl::Status LinkNext(const HistorySeries& series, std::int64_t start_s);
  [[nodiscard]] absl::Status PutSpan(const HistorySeries& series, const HistorySpan& span);

  std::unique_ptr<Statements> statements_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_HISTORY_TABLE_H_
