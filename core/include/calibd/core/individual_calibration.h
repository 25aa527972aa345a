#ifndef CALIBD_CORE_INDIVIDUAL_CALIBRATION_H_
#define CALIBD_CORE_INDIVIDUAL_CALIBRATION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Are predictions of classes calibrated among similar cases? The squared maximum mean discrepancy
// of the residuals r_i = e_{y_i} - q_i given features x_i of the cases,
//   h_ij = <r_i, r_j> exp(-gamma |x_i - x_j|^2),
// each feature divided by its standard deviation. Errors that cancel over all cases, or over all
// with a similar prediction, do not cancel here. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Table
// 1, individual calibration.
struct IndividualTestResult : ResamplingResult {
  // Over all pairs i != j, unbiased and signed; and over all n^2 pairs, biased.
  double mmd_squared = 0;
  double biased_mmd_squared = 0;
  // What is compared with the replicates: mmd_squared of the kernel that 64 Fourier frequencies
  // approximate, a statistic of its own.
  double statistic = 0;
  // 1 / (2 l^2) with l the median distance of the first kParameterRows cases.
  double gamma = 0;
};

// batch: valid, n >= 2. features: n x feature_count, row-major, finite. Replicates have labels that
// are drawn from the predictions, which is exact for every n; resampling.null is not used. The
// result does not depend on the threads. Errors: InvalidArgument (features, replicates);
// FailedPrecondition if n < 2; Cancelled. Cost: O(n^2 (m + feature_count)) for the discrepancy, and
// O(n R) for each replicate with R = 128; memory O(n R).
[[nodiscard]] absl::StatusOr<IndividualTestResult> TestIndividual(
    const PredictionBatch& batch, std::span<const double> features, std::size_t feature_count,
    const BootstrapOptions& resampling, const RunControl& control = {});

// Bytes that TestIndividual allocates for n rows of m classes in addition to its input, and the
// approximate number of multiplications.
[[nodiscard]] double IndividualTestMemory(std::size_t n, std::size_t m, std::size_t feature_count,
                                          std::size_t threads) noexcept;
[[nodiscard]] double IndividualTestOperations(std::size_t n, std::size_t m,
                                              std::size_t feature_count,
                                              std::int32_t replicates) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_INDIVIDUAL_CALIBRATION_H_
