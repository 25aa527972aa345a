#ifndef CALIBD_CORE_SRC_TERM_SUMS_H_
#define CALIBD_CORE_SRC_TERM_SUMS_H_

#include <array>
#include <cstddef>

#include "calibd/core/skce.h"
#include "term_tiles.h"

namespace calibd {

// Sums of H over the tiles that ForEachTile visits, for the quadratic estimators.
class TermSums {
 public:
  // Safe for different groups at once.
  void Add(std::size_t group, const Tile& tile) noexcept;
  // With n = 1 `unbiased` stays 0.
  [[nodiscard]] QuadraticSkce Estimate(std::size_t n) const noexcept;

 private:
  // On a cache line of its own, since groups add at the same time.
  struct alignas(64) Part {
    double above_diagonal = 0;
    double diagonal = 0;
  };
  std::array<Part, kTileGroups> parts_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_TERM_SUMS_H_
