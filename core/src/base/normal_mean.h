#ifndef CALIBD_CORE_SRC_BASE_NORMAL_MEAN_H_
#define CALIBD_CORE_SRC_BASE_NORMAL_MEAN_H_

#include <cmath>
#include <numbers>

namespace calibd {

// The standard normal distribution, without cancellation in the lower tail, and its density.
[[nodiscard]] inline double NormalCdf(double t) noexcept {
  return 0.5 * std::erfc(-t / std::numbers::sqrt2);
}
[[nodiscard]] inline double NormalDensity(double t) noexcept {
  return std::exp(-0.5 * t * t) / std::sqrt(2 * std::numbers::pi);
}

// An expectation with its derivatives with respect to the mean and the standard deviation.
struct NormalMean {
  double value = 0;
  double d_mean = 0;
  double d_deviation = 0;
};

// E tanh(X) for X normal. deviation: > 0. Absolute error below 1e-14 for every mean and deviation;
// the derivatives are those of the returned value. Cost: about 160 exponentials.
[[nodiscard]] NormalMean MeanTanh(double mean, double deviation) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_NORMAL_MEAN_H_
