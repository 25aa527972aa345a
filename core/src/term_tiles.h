#ifndef CALIBD_CORE_SRC_TERM_TILES_H_
#define CALIBD_CORE_SRC_TERM_TILES_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Rows and columns of a full tile.
inline constexpr std::size_t kTileSize = 256;

// The tiles of the upper triangle are dealt out to this many groups, whatever the
// threads: each group visits its tiles in a fixed order and sums on its own, so
// that no result depends on the threads.
inline constexpr std::size_t kTileGroups = 32;

// A rectangle of a symmetric n x n matrix, on or above its diagonal. A tile on the
// diagonal holds both of its triangles.
struct Tile {
  std::size_t row_begin = 0;
  std::size_t row_count = 0;
  std::size_t column_begin = 0;
  std::size_t column_count = 0;
  // Row-major, kTileSize values from one row to the next.
  const double* values = nullptr;

  [[nodiscard]] bool on_diagonal() const noexcept { return row_begin == column_begin; }
  [[nodiscard]] const double* row(std::size_t i) const noexcept { return values + i * kTileSize; }
};

// Fills `row` with entries (i, column_begin) .. (i, column_begin + column_count - 1).
using FillTileRow = std::function<void(std::size_t i, std::size_t column_begin,
                                       std::size_t column_count, double* row)>;
// Takes a tile of a group; called from one thread at a time for each group, rows of
// tiles ascending, and in each row the tile on the diagonal first.
using VisitTile = std::function<void(std::size_t group, const Tile& tile)>;

// Visits every tile of the upper triangle of the n x n matrix once. Reports
// progress in [progress_begin, progress_end]. Errors: Cancelled.
[[nodiscard]] absl::Status ForEachTile(std::size_t n, const FillTileRow& fill,
                                       const VisitTile& visit, const RunControl& control,
                                       double progress_begin = 0, double progress_end = 1);

// The rows of H = (h_ij) of a batch. The batch must outlive it.
[[nodiscard]] FillTileRow TermRows(const PredictionBatch& batch, const Kernel& kernel);

// Runs body(0..count-1) as control says.
void ParallelFor(const RunControl& control, std::size_t count,
                 const std::function<void(std::size_t)>& body);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_TERM_TILES_H_
