#ifndef CALIBD_CORE_SRC_LOSS_GAUSSIAN_PAIRS_H_
#define CALIBD_CORE_SRC_LOSS_GAUSSIAN_PAIRS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "calibd/core/forecast.h"

namespace calibd {

struct ForecastPairRow;

// Gaussian kernels for a row of pairs (i, first), (i, first + 1), ... at once. Highway selects the
// instructions at run time; the last bits differ between CPUs.

// exp(-gamma |x_i - x_j|^2) of n points.
class GaussianPoints {
 public:
  // values: n x width, row-major, finite; n and width >= 1. gamma: finite and > 0.
  GaussianPoints(std::span<const double> values, std::size_t width, double gamma);

  // Cost: O(width) for each pair.
  void Compute(std::size_t i, std::size_t first, std::span<double> kernel) const noexcept;
  // Adds factor * sum_j weights[j] (x_i - x_j) to `sums`, `width` values.
  void AddDifferences(std::size_t i, std::size_t first, std::span<const double> weights,
                      double factor, std::span<double> sums) const noexcept;
  [[nodiscard]] double gamma() const noexcept { return gamma_; }

 private:
  std::size_t width_;
  std::size_t stride_;
  double gamma_;
  // width x stride: each coordinate of all points.
  std::vector<double> columns_;
};

// The terms of RbfKernel for Normal forecasts. With kappa(a, b; s2) = E exp(-gamma (X - b)^2) for X
// normal with mean a and variance s2,
//   A_ij = kappa(y_i, y_j; 0) + kappa(mu_i, mu_j; v_i + v_j) - kappa(mu_i, y_j; v_i)
//          - kappa(mu_j, y_i; v_j).
class GaussianForecasts {
 public:
  // batch: valid Normal forecasts. gamma: finite and > 0. condition_gamma: of ComputeProducts.
  GaussianForecasts(const ForecastBatch& batch, double gamma, double condition_gamma = 0);

  void Compute(std::size_t i, std::size_t first, std::span<double> terms) const noexcept;
  // Computes the terms, and adds sum_j weights[j] dA_ij / d(mu_i, sd_i) to the two values of
  // `gradient`.
  void Compute(std::size_t i, std::size_t first, std::span<const double> weights,
               std::span<double> terms, std::span<double> gradient) const noexcept;
  // Sets products to exp(-condition_gamma ((mu_i - mu_j)^2 + (sd_i - sd_j)^2)) A_ij, and returns
  // their sum. Squares of differences, and their products with a gamma, must be finite.
  double ComputeProducts(std::size_t i, std::size_t first,
                         std::span<double> products) const noexcept;

 private:
  [[nodiscard]] ForecastPairRow Row(std::size_t i, std::size_t first) const noexcept;

  double gamma_;
  double condition_gamma_;
  // n values each, and some more that are read and not used.
  std::vector<double> means_;
  std::vector<double> deviations_;
  std::vector<double> outcomes_;
  // 2 gamma v, 1 / (1 + 2 gamma v) and its root.
  std::vector<double> spreads_;
  std::vector<double> inverses_;
  std::vector<double> roots_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_GAUSSIAN_PAIRS_H_
