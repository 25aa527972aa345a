#ifndef CALIBD_CORE_SRC_LOSS_ENERGY_PAIRS_H_
#define CALIBD_CORE_SRC_LOSS_ENERGY_PAIRS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "calibd/core/forecast.h"

namespace calibd {

struct EnergyPairRow;

// The terms of EnergyKernel for Normal forecasts, for a row of pairs (i, first), (i, first + 1),
// ... at once:
//   A_ij = (E|Y'_i - y_j| + E|Y'_j - y_i| - E|Y'_i - Y'_j| - |y_i - y_j|) / 2,
//   E|N(m, s^2)| = |m| + s r(|m| / s),  r(a) = 2 (phi(a) - a Phi(-a)).
// r is computed with an error of at most 4e-16. Highway selects the instructions at run time; the
// last bits differ between CPUs.
class EnergyForecasts {
 public:
  // batch: valid Normal forecasts. Squares of differences of their values, and the products of such
  // squares with condition_gamma, must be finite.
  EnergyForecasts(const ForecastBatch& batch, double condition_gamma);

  // Sets products to exp(-condition_gamma ((mu_i - mu_j)^2 + (sd_i - sd_j)^2)) A_ij, and returns
  // their sum.
  double ComputeProducts(std::size_t i, std::size_t first,
                         std::span<double> products) const noexcept;

 private:
  double condition_gamma_;
  // n values each, and some more that are read and not used.
  std::vector<double> means_;
  std::vector<double> deviations_;
  std::vector<double> outcomes_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_ENERGY_PAIRS_H_
