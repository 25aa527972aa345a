#ifndef CALIBD_CORE_OUTCOME_KERNEL_H_
#define CALIBD_CORE_OUTCOME_KERNEL_H_

#include <optional>
#include <variant>
#include <vector>

namespace calibd {

// Kernels k_y(y, y') of outcomes on the line. Source: Marx, Zalouk & Ermon, "Calibration by
// Distribution Matching", NeurIPS 2023, Table 1 and Examples 1 and 2.

// exp(-gamma (y - y')^2). gamma: finite and > 0. If unset: 1 / (2 l^2) with l the median over pairs
// of forecasts of sqrt((mu - mu')^2 + sd^2 + sd'^2). For classes: of one-hot vectors, and gamma
// must be set.
struct RbfKernel {
  std::optional<double> gamma;
};
// -|y - y'| / 2: all thresholds at once. The diagonal term is the CRPS. Unbounded.
struct EnergyKernel {};
// Matches the mean and the second moment of (y - center) / scale. scale: finite and > 0. Unbounded.
struct MomentsKernel {
  double center = 0;
  double scale = 1;
};
// sign(y - threshold), with sign(0) = 1: decisions that depend on whether y exceeds it.
struct ThresholdKernel {
  double threshold = 0;
};
// Its smooth form, tanh((y - threshold) / width). width: finite and > 0.
struct TanhKernel {
  double threshold = 0;
  double width = 1;
};
// Kernels of the probability integral transform u of Normal forecasts, which compare it with the
// uniform distribution: exp(-gamma (u - u')^2), gamma finite and > 0; or min(u, u'), the Cramer-von
// Mises statistic.
struct PitRbfKernel {
  double gamma = 2;
};
struct PitMinKernel {};
// For quantiles, and no other kernel is: the mean over the levels of the product of ([y <=
// quantile]
// - level). levels: those of the quantiles, increasing, in (0, 1).
struct LevelsKernel {
  std::vector<double> levels;
};

using OutcomeKernel = std::variant<RbfKernel, EnergyKernel, MomentsKernel, ThresholdKernel,
                                   TanhKernel, PitRbfKernel, PitMinKernel, LevelsKernel>;

}  // namespace calibd

#endif  // CALIBD_CORE_OUTCOME_KERNEL_H_
