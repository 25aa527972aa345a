#include "calibd/core/confidence_sequence.h"

#include <cmath>

namespace calibd {
namespace {

// How far the bound is from the mean; see the header's formula.
double Width(const RunningMoments& values, double alpha) noexcept {
  const auto t = static_cast<double>(values.count);
  const double log_2_alpha = std::log(2 * alpha);
  const double rho2 = (-2 * log_2_alpha + std::log(1 - 2 * log_2_alpha)) / kConfidenceOptimum;
  const double spread = t * rho2 + 1;
  return std::sqrt(values.Variance()) *
         std::sqrt(2 * spread / (t * t * rho2) * std::log1p(std::sqrt(spread) / (2 * alpha)));
}

}  // namespace

std::optional<double> LowerConfidenceSequence(const RunningMoments& projections,
                                              double alpha) noexcept {
  if (projections.count < kConfidenceBurnIn) return std::nullopt;
  return projections.mean - Width(projections, alpha);
}

std::optional<double> UpperConfidenceSequence(const RunningMoments& values, double alpha) noexcept {
  if (values.count < kConfidenceBurnIn) return std::nullopt;
  return values.mean + Width(values, alpha);
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
