#ifndef CALIBD_CORE_SRC_BASE_SAMPLE_MOMENTS_H_
#define CALIBD_CORE_SRC_BASE_SAMPLE_MOMENTS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "calibd/core/forecast.h"

namespace calibd {

// The mean of finite values, finite.
[[nodiscard]] inline double SampleMean(std::span<const double> values) noexcept {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  if (std::isfinite(sum)) return sum / count;
  sum = 0;
  for (const double value : values) sum += value / count;
  return std::clamp(sum, -kLargest, kLargest);
}

// The standard deviation of two or more finite values, with the divisor size - 1. Squares do not
// overflow; a result beyond the largest double becomes it.
[[nodiscard]] inline double SampleDeviation(std::span<const double> values, double mean) noexcept {
  constexpr double kLargest = std::numeric_limits<double>::max();
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value - mean));
  if (most == 0 || !std::isfinite(most)) return std::min(most, kLargest);
  double sum = 0;
  for (const double value : values) {
    const double relative = (value - mean) / most;
    sum += relative * relative;
  }
  return std::min(most * std::sqrt(sum / static_cast<double>(values.size() - 1)), kLargest);
}

struct MeanAndDeviation {
  double mean;
  double deviation;
};
// The moments of the draws of a forecast and its outcome together, see ForecastStrata. draws: at
// most kMaxDraws.
[[nodiscard]] inline MeanAndDeviation PooledMoments(std::span<const double> draws,
                                                    double outcome) noexcept {
  std::array<double, kMaxDraws + 1> buffer;
  std::copy(draws.begin(), draws.end(), buffer.begin());
  buffer[draws.size()] = outcome;
  const auto pooled = std::span<const double>(buffer).first(draws.size() + 1);
  const double mean = SampleMean(pooled);
  return {.mean = mean, .deviation = SampleDeviation(pooled, mean)};
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_SAMPLE_MOMENTS_H_
