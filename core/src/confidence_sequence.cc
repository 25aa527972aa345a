#include "calibd/core/confidence_sequence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace calibd {
namespace {

constexpr std::size_t kRates = 32;
constexpr double kLargestRate = 0.75;
constexpr int kMostSteps = 100;

// How far the bound is from the mean; see the header's formula.
double Width(const RunningMoments& values, double bound, double alpha) noexcept {
  const auto t = static_cast<double>(values.count);
  const double squares = (values.m2 + t * values.mean * values.mean) / (bound * bound);
  // The logarithm of each summand is rate x + offset, where x = t width / b is sought.
  std::array<double, kRates> rates;
  std::array<double, kRates> offsets;
  double rate = kLargestRate;
  double x = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < kRates; ++j, rate /= 2) {
    const auto place = static_cast<double>(j);
    rates[j] = rate;
    // log1p loses what is left of it for a small rate.
    const double psi = rate < 1e-4 ? rate * rate * (0.5 + rate / 3) : -std::log1p(-rate) - rate;
    offsets[j] = -std::log((place + 1) * (place + 2)) - psi * squares;
    x = std::min(x, (-std::log(alpha) - offsets[j]) / rate);
  }
  // One summand alone is enough there. The logarithm of the sum is convex and ascends, so that
  // Newton's steps come down to the solution and never pass it.
  for (int step = 0; step < kMostSteps; ++step) {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < kRates; ++j) most = std::max(most, rates[j] * x + offsets[j]);
    double sum = 0;
    double slope = 0;
    for (std::size_t j = 0; j < kRates; ++j) {
      const double summand = std::exp(rates[j] * x + offsets[j] - most);
      sum += summand;
      slope += rates[j] * summand;
    }
    const double down = (most + std::log(sum) + std::log(alpha)) * sum / slope;
    if (!(down > 1e-12 * x)) break;
    x -= down;
  }
  return x * bound / t;
}

}  // namespace

std::optional<double> UpperConfidenceSequence(const RunningMoments& values, double bound,
                                              double alpha) noexcept {
  if (values.count == 0) return std::nullopt;
  return std::min(bound, values.mean + Width(values, bound, alpha));
}

std::optional<double> LowerConfidenceSequence(const RunningMoments& values, double bound,
                                              double alpha) noexcept {
  if (values.count == 0) return std::nullopt;
  return std::max(-bound, values.mean - Width(values, bound, alpha));
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
