#include "calibd/core/confidence_sequence.h"

#include <cmath>

namespace calibd {

std::optional<double> LowerConfidenceSequence(const RunningMoments& projections,
                                              double alpha) noexcept {
  if (projections.count < kConfidenceBurnIn) return std::nullopt;
  const auto t = static_cast<double>(projections.count);
  const double log_2_alpha = std::log(2 * alpha);
  const double rho2 = (-2 * log_2_alpha + std::log(1 - 2 * log_2_alpha)) / kConfidenceOptimum;
  const double spread = t * rho2 + 1;
  const double width =
      std::sqrt(2 * spread / (t * t * rho2) * std::log1p(std::sqrt(spread) / (2 * alpha)));
  return projections.mean - std::sqrt(projections.Variance()) * width;
}

std::optional<NormalTest> TestProjections(const RunningMoments& projections,
                                          double projection_variance) noexcept {
  if (projections.count == 0) return std::nullopt;
  NormalTest test;
  test.standard_deviation = std::sqrt(projection_variance);
  const double sum = projections.mean * static_cast<double>(projections.count);
  if (test.standard_deviation > 0) {
    test.z = sum / test.standard_deviation;
    test.p_value = NormalUpperTail(*test.z);
  } else {
    test.p_value = sum > 0 ? 0 : 1;
  }
  return test;
}

}  // namespace calibd
