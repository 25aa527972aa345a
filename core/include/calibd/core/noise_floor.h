#ifndef CALIBD_CORE_NOISE_FLOOR_H_
#define CALIBD_CORE_NOISE_FLOOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The distribution of an estimate under the null hypothesis, given the predictions: labels are
// drawn from the predictions, y_i ~ g_i.
struct NoiseFloor {
  double mean = 0;
  double standard_deviation = 0;
  // The 95 % quantile: the estimate of a calibrated model exceeds it with probability 5 %.
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
  // Mean over i < j < k of E h_ij h_jk h_ki, if it was estimated.
  std::optional<double> mean_cube = {};

  // The moments of weight h_ij.
  [[nodiscard]] NullMoments Scaled(double weight) const;
  // Noise floors of SKCE_uq and SKCE_b. Mean and standard deviation are exact for SKCE_uq; for
  // SKCE_b they omit the variance of its diagonal, of order n^-3/2. SKCE_b is a weighted sum of
  // chi-squares in the limit; the quantiles are those of a Gamma distribution with its mean and
  // variance. With mean_cube, the quantile of SKCE_uq is that of a shifted Gamma distribution with
  // its mean, variance and skewness, which omits the terms E h_ij^3, of order 1 / n
  // (tests/statistical/noise_floor_test.cc compares the quantiles with simulations).
  [[nodiscard]] NoiseFloor Unbiased() const;
  [[nodiscard]] NoiseFloor Biased() const;
  // P(SKCE_uq >= skce_unbiased) by the Pearson curve of type III (shifted Gamma distribution) with
  // mean, variance and skewness as for Unbiased, in (0, 1], for ONE look. mean_cube: set.
  // Source: Widmann, Lindsten & Zachariah, NeurIPS 2019, App. G, which names Pearson curves; the
  // third moment is (2 / (n (n - 1)))^3 n (n - 1) (n - 2) mean_cube without the terms E h_ij^3.
  // Accuracy: tests/statistical/pearson_level_test.cc.
  [[nodiscard]] double PearsonPValue(double skce_unbiased) const;
  // Noise floor of the block estimator; the quantile is normal. block_count >= 1, block_size >= 2.
  [[nodiscard]] NoiseFloor Block(std::int64_t block_count, std::size_t block_size) const;
};

// The labels are not used. batch: valid, n >= 2. Errors: FailedPrecondition if n < 2; Cancelled.
// Cost: O(n^2 m) time, memory as for the quadratic estimators; O(n log n) for m = 2 with an
// exponential kernel.
[[nodiscard]] absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch,
                                                              const Kernel& kernel,
                                                              const RunControl& control = {});

// The moments after reduction by a lens. The terms of a lens with several parts are correlated: if
// there are more than kNullPairWork / m pairs, mean_square is then the mean over pairs drawn with a
// fixed seed, which is accurate to about one percent.
[[nodiscard]] absl::StatusOr<NullMoments> EstimateNullMoments(const LensBatch& batch,
                                                              const Kernel& kernel,
                                                              const RunControl& control = {});

// The moments for a matrix-valued kernel: E h_ij^2 = tr(S_i K S_j K) with K = k(g_i, g_j), over all
// pairs, or over about kNullPairWork / m^2 random pairs, at least 1000.
[[nodiscard]] absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch,
                                                              const MatrixKernel& kernel,
                                                              const RunControl& control = {});

// The mean of E h_ij h_jk h_ki over i < j < k after reduction by a lens, for
// NullMoments::mean_cube: over all triples, or over about kNullPairWork / (3 m parts) triples drawn
// with a fixed seed, at least 1000; 0 with two observations. The labels are not used.
// Errors: FailedPrecondition if n < 2; Cancelled. Cost: O(triples x parts x classes).
[[nodiscard]] absl::StatusOr<double> EstimateNullCube(const LensBatch& batch, const Kernel& kernel,
                                                      const RunControl& control = {});

// Work limit for random pairs, in visited matrix entries.
inline constexpr double kNullPairWork = 2e7;

// E h_ij^2 of one pair after reduction by a lens: each side has `parts` consecutive predictions.
// Source: as NullMoments; for several two-class parts from Cov(r_k, r_l) =
// g_k [k = l] - g_k g_l. Cost: O(parts x classes).
[[nodiscard]] double NullSquare(std::span<const double> g_i, std::span<const double> g_j,
                                std::size_t parts, double weight, const Kernel& kernel) noexcept;

// E h_ij h_jk h_ki of three predictions, as NullSquare: tr(S_i A_ij S_j A_jk S_k A_ki), where A is
// the diagonal matrix of kernel values. Cost: O(parts x classes).
[[nodiscard]] double NullCube(std::span<const double> g_i, std::span<const double> g_j,
                              std::span<const double> g_k, std::size_t parts, double weight,
                              const Kernel& kernel) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_NOISE_FLOOR_H_
