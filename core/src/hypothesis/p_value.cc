#include "calibd/core/p_value.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <limits>
#include <numbers>

namespace calibd {
namespace {

// exp(-pairs skce^2 / (2 B^2)) for a positive estimate (Theorems H.3, H.4).
double HoeffdingBound(double skce, double pairs, double bound) noexcept {
  if (skce <= 0) return 1;
  const double scaled = skce / bound;
  return std::exp(-pairs * scaled * scaled / 2);
}

}  // namespace

double BiasedPValueUpperBound(double skce_biased, std::size_t n, double bound) noexcept {
  const double excess =
      std::max(0.0, std::sqrt(static_cast<double>(n) * std::max(0.0, skce_biased) / bound) - 1);
  return std::exp(-excess * excess / 2);
}

double UnbiasedPValueUpperBound(double skce, std::size_t n, double bound) noexcept {
  const std::size_t pairs = n / 2;
  return HoeffdingBound(skce, static_cast<double>(pairs), bound);
}

double BlockPValueUpperBound(double skce, std::int64_t block_count, std::size_t block_size,
                             double bound) noexcept {
  const std::int64_t pairs = block_count * static_cast<std::int64_t>(block_size / 2);
  return HoeffdingBound(skce, static_cast<double>(pairs), bound);
}

double KceDeviation(std::size_t n, double bound, double level) noexcept {
  const auto size = static_cast<double>(n);
  return 2 * std::sqrt(bound / size) + std::sqrt(-2 * bound * std::log1p(-level) / size);
}

double NormalUpperTail(double z) noexcept {
  return std::max(std::numeric_limits<double>::min(), 0.5 * std::erfc(z / std::numbers::sqrt2));
}

std::optional<NormalTest> TestMeanIsPositive(const RunningMoments& moments) noexcept {
  if (moments.count < 2) return std::nullopt;
  NormalTest test;
  test.standard_deviation = std::sqrt(moments.Variance());
  if (test.standard_deviation == 0) return std::nullopt;
  test.z = std::sqrt(static_cast<double>(moments.count)) * moments.mean / test.standard_deviation;
  test.p_value = NormalUpperTail(test.z);
  return test;
}

std::optional<double> LowerConfidenceBound(const RunningMoments& moments, double level) {
  if (moments.count < 2) return std::nullopt;
  const double quantile = std::numbers::sqrt2 * boost::math::erf_inv(2 * level - 1);
  return moments.mean -
         quantile * std::sqrt(moments.Variance() / static_cast<double>(moments.count));
}

std::optional<BlockTest> TestBlocks(const RunningMoments& moments) {
  constexpr double kLevel = 0.95;
  if (moments.count < kMinTestedBlocks) return std::nullopt;
  const std::optional<NormalTest> test = TestMeanIsPositive(moments);
  if (!test.has_value()) return std::nullopt;
  return BlockTest{.z = test->z,
                   .p_value = test->p_value,
                   .skce_lower_bound = *LowerConfidenceBound(moments, kLevel)};
}

}  // namespace calibd
