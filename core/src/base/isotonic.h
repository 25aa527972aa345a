#ifndef CALIBD_CORE_SRC_BASE_ISOTONIC_H_
#define CALIBD_CORE_SRC_BASE_ISOTONIC_H_

#include <cstddef>
#include <span>
#include <vector>

#include "calibd/core/binary_predictions.h"

namespace calibd {

// Binary predictions in order of their probability. Equal probabilities are pooled, because
// isotonic regression assigns the same value to them.
struct SortedPredictions {
  // Distinct, ascending.
  std::vector<double> probabilities;
  // The number of predictions with each probability, and the number of events among them.
  std::vector<double> counts;
  std::vector<double> successes;

  // Cost: O(n log n).
  explicit SortedPredictions(const BinaryPredictions& predictions);
};

// Consecutive groups to which isotonic regression assigns the same value, their mean.
struct IsotonicBlock {
  std::size_t begin = 0;
  std::size_t end = 0;
  double count = 0;
  double successes = 0;

  [[nodiscard]] double mean() const noexcept { return successes / count; }
};

// Isotonic (nondecreasing) least-squares regression of successes / counts with
// weights counts, by pooling adjacent violators (Ayer et al., Ann. Math. Stat. 26,
// 1955). counts > 0, both integers. Blocks' means are strictly increasing. `blocks`
// is overwritten. Cost: O(groups).
void FitIsotonic(std::span<const double> counts, std::span<const double> successes,
                 std::vector<IsotonicBlock>& blocks);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_ISOTONIC_H_
