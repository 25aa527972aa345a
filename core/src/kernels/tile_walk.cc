#include "kernels/tile_walk.h"

#include <algorithm>

namespace calibd {

void ProgressMeter::Advance() {
  const std::size_t done = done_.fetch_add(1) + 1;
  if (!control_.progress) return;
  const std::lock_guard lock(mutex_);
  const std::size_t step = 200 * done / total_;
  if (step <= reported_) return;
  reported_ = step;
  control_.progress(begin_ +
                    (end_ - begin_) * static_cast<double>(done) / static_cast<double>(total_));
}

std::optional<Tile> TileWalk::Next() {
  if (started_) meter_.Advance();
  if (control_.IsCancelled()) return std::nullopt;
  if (started_) {
    next_column_ += kTileSize;
    if (next_column_ >= n_) {
      next_row_ += kTileGroups * kTileSize;
      next_column_ = next_row_;
    }
  } else {
    next_column_ = next_row_;
    started_ = true;
  }
  if (next_row_ >= n_) return std::nullopt;
  return Tile{next_row_, std::min(kTileSize, n_ - next_row_), next_column_,
              std::min(kTileSize, n_ - next_column_)};
}

absl::Status ForEachTileGroup(std::size_t n, const RunControl& control,
                              const std::function<void(std::size_t group, TileWalk& walk)>& body,
                              double progress_begin, double progress_end) {
  const std::size_t tile_rows = (n + kTileSize - 1) / kTileSize;
  ProgressMeter meter(control, tile_rows * (tile_rows + 1) / 2, progress_begin, progress_end);
  ParallelFor(control, std::min(kTileGroups, tile_rows), [&](std::size_t group) {
    TileWalk walk(n, group, control, meter);
    body(group, walk);
  });
  return control.CheckCancelled();
}

}  // namespace calibd
