#ifndef CALIBD_CORE_BOOTSTRAP_H_
#define CALIBD_CORE_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"
#include "calibd/core/skce.h"

namespace calibd {

struct BootstrapTestResult : ResamplingResult {
  QuadraticSkce skce;
  // BootstrapStatistic(skce), or the LabelSkce of the labels with kForecast.
  double statistic = 0;
};

// n/(n-1) SKCE_uq - SKCE_b.
[[nodiscard]] double BootstrapStatistic(const QuadraticSkce& skce) noexcept;

// The asymptotic quadratic test by the bootstrap of the degenerate U-statistic (Arcones & Gine):
// Widmann, Lindsten & Zachariah, NeurIPS 2019, Sec. 6 and App. G. For replicate r draw n indices
// with replacement, C_i = the number of times i was drawn, H = (h_ij), R_i = sum_j h_ij:
//   T = n^-2 [ n/(n-1) (C'HC - sum_i C_i h_ii) - 2 sum_i C_i R_i ].
//
// batch: valid, n >= 2. options.null: kForm.
// Errors: InvalidArgument (replicates, null); FailedPrecondition if n < 2; Cancelled.
// Cost: O(n^2 (m + replicates) / 2) time; memory n x min(replicates, 1024) x 4
// bytes and tiles, see BootstrapMemory; never n^2.
// Accuracy: the statistic is in double; the replicates use H in float32, with an error below 1e-3
// of their standard deviation (tests/unit/core/bootstrap_test.cc).
[[nodiscard]] absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                                const Kernel& kernel,
                                                                const BootstrapOptions& options,
                                                                const RunControl& control = {});

// The test after reduction by a lens. All parts share the draws of each replicate. Two-class
// parts with an exponential kernel cost O(n (log n + replicates)). precision: that of the
// statistic.
[[nodiscard]] absl::StatusOr<BootstrapTestResult> BootstrapTest(
    const LensBatch& batch, const Kernel& kernel, const BootstrapOptions& options,
    const RunControl& control = {}, Precision precision = Precision::kFloat64);

// The test for a matrix-valued kernel. Errors: also InvalidArgument unless batch.class_count is
// that of the kernel.
[[nodiscard]] absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                                const MatrixKernel& kernel,
                                                                const BootstrapOptions& options,
                                                                const RunControl& control = {});

// The number of times that BootstrapTest computes H: once for every 1024 replicates, rounded up.
[[nodiscard]] std::int32_t BootstrapPasses(std::int32_t replicates) noexcept;

// Bytes that BootstrapTest allocates in addition to its input, for resource limits.
[[nodiscard]] std::size_t BootstrapMemory(std::size_t n, std::size_t class_count,
                                          std::int32_t replicates, std::size_t threads) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_BOOTSTRAP_H_
