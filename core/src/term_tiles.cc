#include "term_tiles.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "calibd/core/skce.h"

namespace calibd {
namespace {

// Tells progress in steps of 1/200, one thread at a time.
class ProgressMeter {
 public:
  ProgressMeter(const RunControl& control, std::size_t total, double begin, double end)
      : control_(control), total_(total), begin_(begin), end_(end) {}

  void Advance() {
    const std::size_t done = done_.fetch_add(1) + 1;
    if (!control_.progress) return;
    const std::lock_guard lock(mutex_);
    const std::size_t step = 200 * done / total_;
    if (step <= told_) return;
    told_ = step;
    control_.progress(begin_ +
                      (end_ - begin_) * static_cast<double>(done) / static_cast<double>(total_));
  }

 private:
  const RunControl& control_;
  const std::size_t total_;
  const double begin_;
  const double end_;
  std::atomic<std::size_t> done_ = 0;
  std::mutex mutex_;
  std::size_t told_ = 0;
};

}  // namespace

void ParallelFor(const RunControl& control, std::size_t count,
                 const std::function<void(std::size_t)>& body) {
  if (control.parallel_for) {
    control.parallel_for(count, body);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) body(i);
}

absl::Status ForEachTile(std::size_t n, const FillTileRow& fill, const VisitTile& visit,
                         const RunControl& control, double progress_begin, double progress_end) {
  const std::size_t tile_rows = (n + kTileSize - 1) / kTileSize;
  ProgressMeter meter(control, tile_rows * (tile_rows + 1) / 2, progress_begin, progress_end);
  std::atomic<bool> cancelled = false;

  const auto run_group = [&](std::size_t group) {
    std::vector<double> values(kTileSize * kTileSize);
    for (std::size_t tile_row = group; tile_row < tile_rows; tile_row += kTileGroups) {
      for (std::size_t tile_column = tile_row; tile_column < tile_rows; ++tile_column) {
        Tile tile;
        tile.row_begin = tile_row * kTileSize;
        tile.row_count = std::min(kTileSize, n - tile.row_begin);
        tile.column_begin = tile_column * kTileSize;
        tile.column_count = std::min(kTileSize, n - tile.column_begin);
        tile.values = values.data();
        for (std::size_t i = 0; i < tile.row_count; ++i) {
          if (cancelled.load(std::memory_order_relaxed)) return;
          // A row of many classes takes milliseconds.
          if (control.cancelled && control.cancelled()) {
            cancelled = true;
            return;
          }
          fill(tile.row_begin + i, tile.column_begin, tile.column_count, &values[i * kTileSize]);
        }
        visit(group, tile);
        meter.Advance();
      }
    }
  };
  ParallelFor(control, std::min(kTileGroups, tile_rows), run_group);
  if (cancelled) return absl::CancelledError("the computation was cancelled");
  return absl::OkStatus();
}

FillTileRow TermRows(const PredictionBatch& batch, const Kernel& kernel) {
  return [batch, kernel](std::size_t i, std::size_t column_begin, std::size_t column_count,
                         double* row) {
    const std::span<const double> g_i = batch.row(i);
    const std::int32_t y_i = batch.labels[i];
    for (std::size_t j = 0; j < column_count; ++j) {
      row[j] =
          SkceTerm(g_i, y_i, batch.row(column_begin + j), batch.labels[column_begin + j], kernel);
    }
  };
}

}  // namespace calibd
