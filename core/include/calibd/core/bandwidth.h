#ifndef CALIBD_CORE_BANDWIDTH_H_
#define CALIBD_CORE_BANDWIDTH_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The median heuristic as Widmann, Lindsten & Zachariah, NeurIPS 2019, App.
// J.1.2 computed it: the median of ALL n^2 pairwise distances,
// the n zero diagonal entries and both triangles included. With an even n^2 it
// is the mean of the two middle values.
//
// predictions: n x m, row-major, n >= 2. Exact: the distances are recomputed
// rather than held, in O(n) + 16 MiB of memory beside the input.
// control.progress is not told.
// Errors: FailedPrecondition if n < 2, or if the median is 0 (more than half of
// the distances are zero); Cancelled.
// Cost: O(n^2 m), one pass over the pairs as a rule and seven at worst.
[[nodiscard]] absl::StatusOr<double> MedianBandwidth(std::span<const double> predictions,
                                                     std::size_t class_count,
                                                     const RunControl& control = {},
                                                     Distance distance = Distance::kTotalVariation);

// The median of the n (n - 1) / 2 distances of different observations, as most other
// code has it. Else as MedianBandwidth.
[[nodiscard]] absl::StatusOr<double> MedianOffDiagonalBandwidth(
    std::span<const double> predictions, std::size_t class_count, const RunControl& control = {},
    Distance distance = Distance::kTotalVariation);

}  // namespace calibd

#endif  // CALIBD_CORE_BANDWIDTH_H_
