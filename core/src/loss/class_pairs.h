#ifndef CALIBD_CORE_SRC_LOSS_CLASS_PAIRS_H_
#define CALIBD_CORE_SRC_LOSS_CLASS_PAIRS_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "loss/distribution_matching.h"

namespace calibd {

// The pairs h_ij = k_z(q_i, q_j) scale <r_i, r_j> of predictions q of classes with the residuals
// r_i = e_{y_i} - q_i, and their gradient with respect to the predictions. This is the canonical
// case of SumPairsWithGradient on the engine of SIMD tiles. The sums have the same bits for any
// number of threads.
//
// biased: the gradient is that of the mean over all n^2 pairs, else of the n (n - 1) pairs i != j.
// gradient: n x m, set; empty: not computed. Errors: Cancelled. Time: O(n^2 m).
[[nodiscard]] absl::StatusOr<PairSums> SumClassPairs(const PredictionBatch& batch,
                                                     const Kernel& kernel, double scale,
                                                     bool biased, std::span<double> gradient,
                                                     const RunControl& control);

// An upper bound on the bytes of the buffers of SumClassPairs, on at most 64 threads.
[[nodiscard]] double ClassGradientMemory(std::size_t n, std::size_t class_count) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_CLASS_PAIRS_H_
