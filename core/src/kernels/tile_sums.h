#ifndef CALIBD_CORE_SRC_KERNELS_TILE_SUMS_H_
#define CALIBD_CORE_SRC_KERNELS_TILE_SUMS_H_

#include <array>
#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "calibd/core/run_control.h"
#include "kernels/tile_walk.h"

namespace calibd {

// Sums of h_ij over i < j and over i = j.
struct TermSums {
  double above_diagonal = 0;
  double diagonal = 0;
};

// Engine: TileEngine or MatrixTileEngine. Errors: Cancelled.
template <typename Engine>
absl::StatusOr<TermSums> SumTiles(const Engine& engine, const RunControl& control,
                                  double progress_begin = 0, double progress_end = 1) {
  // On its own cache line, because groups add at the same time.
  struct alignas(64) GroupSum {
    double above_diagonal = 0;
  };
  std::array<GroupSum, kTileGroups> sums;
  const absl::Status status = ForEachTileGroup(
      engine.size(), control,
      [&](std::size_t group, TileWalk& walk) {
        typename Engine::Scratch scratch;
        while (const std::optional<Tile> tile = walk.Next()) {
          sums[group].above_diagonal += engine.SumTerms(*tile, scratch, walk.cancelled());
        }
      },
      progress_begin, progress_end);
  if (!status.ok()) return status;
  TermSums total;
  for (const GroupSum& sum : sums) total.above_diagonal += sum.above_diagonal;
  for (const double term : engine.diagonal()) total.diagonal += term;
  return total;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_TILE_SUMS_H_
