#ifndef CALIBD_CORE_DISCREPANCY_KERNEL_H_
#define CALIBD_CORE_DISCREPANCY_KERNEL_H_

#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/forecast_cells.h"

namespace calibd {

// The kernel of ForecastDiscrepancy and ForecastBlocks: a kernel of the outcomes times exp(-gamma_z
// W^2) of the forecasts, with gamma = 1 / (2 length^2).
// - Normal forecasts and samples: exp(-gamma_y (y - y')^2), and W^2 = (m - m')^2 + (s - s')^2 of
//   the means m and standard deviations s; those of samples are of the draws and the outcome
//   together, see ForecastStrata.
// - Quantiles: LevelsKernel, and W^2 is the mean square of the differences of the quantiles.
struct DiscrepancyKernel {
  // Finite and > 0. Quantiles: not used.
  double outcome_length = 1;
  // Finite and >= 0. 0: forecasts are not compared, and the second factor is 1.
  double forecast_length = 0;
  // Subtracted from outcomes, means and quantiles, which changes rounding only. Finite.
  double center = 0;

  friend bool operator==(const DiscrepancyKernel&, const DiscrepancyKernel&) = default;
};

// Chooses the lengths from forecasts, such as those of a warm-up; outcomes take no part. Both are
// medians over the pairs of forecasts: outcome_length of sqrt((m - m')^2 + s^2 + s'^2), and
// forecast_length of W, with the moments of the draws alone; it is 0 if all forecasts are equal.
// forecasts: n x ForecastWidth, valid, n >= 2. Errors: FailedPrecondition if n < 2, or a median is
// not finite, or outcome_length is 0. Cost: O(n^2).
[[nodiscard]] absl::StatusOr<DiscrepancyKernel> ChooseDiscrepancyKernel(
    const NumberForecastKind& kind, std::span<const double> forecasts);

}  // namespace calibd

#endif  // CALIBD_CORE_DISCREPANCY_KERNEL_H_
