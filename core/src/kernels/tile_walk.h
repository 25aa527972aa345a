#ifndef CALIBD_CORE_SRC_KERNELS_TILE_WALK_H_
#define CALIBD_CORE_SRC_KERNELS_TILE_WALK_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "calibd/core/run_control.h"
#include "kernels/tile_engine.h"

namespace calibd {

// The tiles of the upper triangle of an n x n matrix are distributed over this many groups,
// regardless of the number of threads: each group visits its tiles in a fixed order and sums on its
// own, so that no result depends on the threads.
inline constexpr std::size_t kTileGroups = 32;

// Reports the progress of `total` equal parts within [begin, end] in steps of 1/200. Thread-safe.
class ProgressMeter {
 public:
  ProgressMeter(const RunControl& control, std::size_t total, double begin, double end)
      : control_(control), total_(total), begin_(begin), end_(end) {}

  // A part is done.
  void Advance();

 private:
  const RunControl& control_;
  const std::size_t total_;
  const double begin_;
  const double end_;
  std::atomic<std::size_t> done_ = 0;
  std::mutex mutex_;
  std::size_t reported_ = 0;
};

// The tiles of one group: rows of tiles ascending, and in each row the tile on the
// diagonal first.
class TileWalk {
 public:
  TileWalk(std::size_t n, std::size_t group, const RunControl& control, ProgressMeter& meter)
      : n_(n), next_row_(group * kTileSize), control_(control), meter_(meter) {}

  // Returns nothing after the last tile, or if the computation is cancelled.
  std::optional<Tile> Next();

  // Ends the walk early; for long work on one tile.
  [[nodiscard]] const std::function<bool()>& cancelled() const noexcept {
    return control_.cancelled;
  }

 private:
  const std::size_t n_;
  std::size_t next_row_;
  // The next column in the current row of tiles; 0 before its first tile.
  std::size_t next_column_ = 0;
  bool started_ = false;
  const RunControl& control_;
  ProgressMeter& meter_;
};

// Calls body(group, walk) for each group that has tiles, in parallel on the threads of control, and
// reports progress within [progress_begin, progress_end]. The body keeps its scratch on its stack,
// so there is one per thread. Errors: Cancelled.
[[nodiscard]] absl::Status ForEachTileGroup(
    std::size_t n, const RunControl& control,
    const std::function<void(std::size_t group, TileWalk& walk)>& body, double progress_begin = 0,
    double progress_end = 1);

// Runs body(0 .. count-1) on the threads of control.
inline void ParallelFor(const RunControl& control, std::size_t count,
                        const std::function<void(std::size_t)>& body) {
  RunLoop(control.parallel_for, count, body);
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_TILE_WALK_H_
