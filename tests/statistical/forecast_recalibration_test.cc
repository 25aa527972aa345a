#include "calibd/core/forecast_recalibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

namespace calibd::testing {
namespace {

struct ForecastStream {
  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

// Normal forecasts with the standard deviation 1, and outcomes whose distance from the mean is
// Normal with these parameters.
ForecastStream MakeStream(std::size_t n, double shift, double scale, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ForecastStream stream;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = 5 * normal(random);
    stream.forecasts.insert(stream.forecasts.end(), {mean, 1});
    stream.outcomes.push_back(mean + shift + scale * normal(random));
  }
  return stream;
}

// The exact coverage error of repaired forecasts of such a stream.
double ExactCoverageError(const ForecastRecalibrationAdvice& advice, double shift, double scale) {
  const std::vector<double> levels = RepairedLevels(NormalForecasts());
  const std::vector<double> forecast = {0, 1};
  const std::vector<double> quantiles =
      RepairForecasts(advice.curve, NormalForecasts(), forecast, levels);
  double error = 0;
  double stated = 0;
  double truth = 0;
  for (std::size_t k = 0; k <= levels.size(); ++k) {
    const bool is_last = k == levels.size();
    const double next_stated = is_last ? 1 : levels[k];
    const double next_truth =
        is_last ? 1 : std::erfc((shift - quantiles[k]) / scale / std::numbers::sqrt2) / 2;
    error += std::abs(next_stated - stated - (next_truth - truth)) / 2;
    stated = next_stated;
    truth = next_truth;
  }
  return error;
}

TEST(ForecastRecalibrationLevelTest, ThePromisedIntervalHoldsTheExactError) {
  constexpr int kStreams = 300;
  int wrong = 0;
  int helpful = 0;
  for (int s = 0; s < kStreams; ++s) {
    const ForecastStream stream = MakeStream(1000, .3, 1.6, static_cast<std::uint64_t>(s));
    const auto advice = AdviseForecastRecalibration(
        NormalForecasts(), {stream.forecasts, stream.outcomes}, RecalibrationSplit::kHalves);
    ASSERT_TRUE(advice.ok());
    const double exact = ExactCoverageError(*advice, .3, 1.6);
    const CoverageError& promised = advice->coverage_after.error;
    wrong += exact < promised.lower || exact > promised.upper ? 1 : 0;
    helpful += advice->helps() ? 1 : 0;
  }
  RecordProperty("wrong", wrong);
  // The interval is that of a bound of Hoeffding, which is wrong with a probability below .05.
  EXPECT_LE(wrong, .05 * kStreams);
  EXPECT_GE(helpful, .95 * kStreams);
}

TEST(ForecastRecalibrationLevelTest, CalibratedForecastsAreRarelyToldThatAMapHelps) {
  constexpr int kStreams = 300;
  int helpful = 0;
  for (int s = 0; s < kStreams; ++s) {
    const ForecastStream stream = MakeStream(600, 0, 1, 1000 + static_cast<std::uint64_t>(s));
    const auto advice = AdviseForecastRecalibration(
        NormalForecasts(), {stream.forecasts, stream.outcomes}, RecalibrationSplit::kHalves);
    ASSERT_TRUE(advice.ok());
    helpful += advice->helps() ? 1 : 0;
  }
  RecordProperty("helpful", helpful);
  // A useless map would help with a probability of .025. This is three binomial standard errors
  // above it.
  EXPECT_LE(helpful, .025 * kStreams + 3 * std::sqrt(.025 * .975 * kStreams));
}

}  // namespace
}  // namespace calibd::testing
