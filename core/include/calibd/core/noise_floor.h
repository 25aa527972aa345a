#ifndef CALIBD_CORE_NOISE_FLOOR_H_
#define CALIBD_CORE_NOISE_FLOOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// What an estimate would be if the model were calibrated and made these very
// predictions: labels drawn from the predictions, y_i ~ g_i.
struct NoiseFloor {
  double mean = 0;
  double standard_deviation = 0;
  // The 95 % quantile: a calibrated model is above it one time in twenty.
  double upper_quantile = 0;
};

// The moments of h_ij under labels drawn from the predictions. With S_i = diag(g_i) -
// g_i g_i' the covariance of a residual: E h_ii = 1 - |g_i|^2, E h_ij = 0, E h_ij^2 =
// k(g_i, g_j)^2 tr(S_i S_j), and different pairs are uncorrelated.
struct NullMoments {
  std::size_t n = 0;
  // mean_i E h_ii.
  double mean_diagonal = 0;
  // Mean over i < j of E h_ij^2.
  double mean_square = 0;

  // Of SKCE_uq and SKCE_b. Mean and standard deviation are exact for SKCE_uq; those of
  // SKCE_b leave out the variation of its diagonal, of order n^-3/2. The quantiles are
  // those of the Gamma distribution with the mean and variance of SKCE_b, which is a
  // weighted sum of chi-squares in the limit (tests/statistical/noise_floor_test.cc
  // holds them to simulation).
  [[nodiscard]] NoiseFloor Unbiased() const;
  [[nodiscard]] NoiseFloor Biased() const;
  // Of the block estimator; the quantile is normal. block_count >= 1, block_size >= 2.
  [[nodiscard]] NoiseFloor Block(std::int64_t block_count, std::size_t block_size) const;
};

// Labels play no part. batch: valid, n >= 2. weight: of the lens.
// Errors: FailedPrecondition if n < 2; Cancelled.
// Cost: O(n^2 m) time, memory as for the quadratic estimators.
[[nodiscard]] absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch,
                                                              const Kernel& kernel,
                                                              const RunControl& control = {},
                                                              double weight = 1);

}  // namespace calibd

#endif  // CALIBD_CORE_NOISE_FLOOR_H_
