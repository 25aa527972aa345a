#ifndef CALIBD_CORE_FORECAST_METRICS_H_
#define CALIBD_CORE_FORECAST_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibd/core/forecast.h"

namespace calibd {

// Metrics of the probability integral transforms (PIT) u_i of forecasts of a number. They are
// independent and uniform on (0, 1) if the forecasts are calibrated. Source of all: Marx, Zalouk &
// Ermon, "Calibration by Distribution Matching", NeurIPS 2023, Sec. 6.

// u_i is Phi((y - mean) / sd) for Normal forecasts, and for samples (#{S < y} + V (#{S = y} + 1)) /
// (r + 1) with V uniform, a function of the seed and i, which makes u_i exactly uniform. batch:
// valid. Cost: O(n width).
[[nodiscard]] std::vector<double> ProbabilityIntegralTransforms(const ForecastBatch& batch,
                                                                std::uint64_t seed);

// The quantile calibration error 1/2 sum_b |n_b / n - 1/20| over 20 equal bins of the PIT, in
// [0, 0.95]. Biased upwards: 0.1 for calibrated forecasts at n = 300. pit: in [0, 1], n >= 1.
// Cost: O(n).
[[nodiscard]] double QuantileCalibrationError(std::span<const double> pit) noexcept;

// The mean over the levels i / 20, i = 1 .. 19, of (share of u_i at most the level - level)^2, in
// [0, 1/3]. Cost: O(n).
[[nodiscard]] double QuantileLevelError(std::span<const double> pit) noexcept;

// The Cramer-von Mises statistic, integral of (F_n(t) - t)^2 dt with the empirical distribution
// function F_n of the PIT: 1 / (12 n^2) + mean_i (u_(i) - (2 i - 1) / (2 n))^2. It is the biased
// MMD^2 of the kernel min(u, u'). Cost: O(n log n).
[[nodiscard]] double CramerVonMises(std::span<const double> pit);

// The local calibration error at the point x (Sec. 6.4): the mean over the levels i / 20, i = 1 ..
// 19, of (share of u_i at most the level - level)^2, where row i has the weight exp(-gamma
// |x - x_i|^2). features: n x width, row-major. x: `width` values. Unset if all weights underflow.
// Cost: O(n width).
[[nodiscard]] std::optional<double> LocalCalibrationError(std::span<const double> pit,
                                                          std::span<const double> features,
                                                          std::span<const double> x, double gamma);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_METRICS_H_
