#include "calibd/core/forecast_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/confidence_sequence.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

struct Forecasts {
  NumberForecastKind kind = NormalForecasts{};
  std::vector<double> forecasts;
  std::vector<double> outcomes;

  [[nodiscard]] KindForecasts view() const { return {kind, {forecasts, outcomes}}; }
};

// n outcomes from N(0, 1), and forecasts N(0, sd) of them.
Forecasts Normal(std::size_t n, double sd, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Forecasts drawn;
  for (std::size_t i = 0; i < n; ++i) {
    drawn.forecasts.insert(drawn.forecasts.end(), {0, sd});
    drawn.outcomes.push_back(normal(random));
  }
  return drawn;
}

double Crps(double y, double sd) {
  const double t = y / sd;
  return sd * (t * std::erf(t / std::sqrt(2)) + std::sqrt(2 / M_PI) * std::exp(-t * t / 2) -
               1 / std::sqrt(M_PI));
}

TEST(ForecastComparisonTest, PairedDifferencesAreThoseOfTheScores) {
  const Forecasts model = Normal(400, 1);
  const Forecasts baseline = Normal(400, 2);
  const auto result = CompareForecastsPaired(model.view(), baseline.view());
  ASSERT_TRUE(result.ok()) << result.status();
  RunningMoments crps;
  RunningMoments log_score;
  for (const double y : model.outcomes) {
    crps.Add(Crps(y, 1) - Crps(y, 2));
    log_score.Add(y * y / 2 - std::log(2) - y * y / 8);
  }
  EXPECT_NEAR(result->crps.difference, crps.mean, 1e-12);
  EXPECT_NEAR(result->crps.model - result->crps.baseline, crps.mean, 1e-12);
  ASSERT_TRUE(result->log_score.has_value());
  EXPECT_NEAR(result->log_score->difference, log_score.mean, 1e-12);
  // For n = 400, the square of the radius is 0.0243950 of the variance.
  EXPECT_NEAR(result->crps.upper - result->crps.difference,
              std::sqrt(crps.Variance() * 0.0243949896), 1e-9);
  EXPECT_NEAR(result->crps.difference - result->crps.lower, *AsymptoticConfidenceRadius(crps, 0.05),
              1e-12);
  EXPECT_TRUE(result->crps.better());
  EXPECT_TRUE(result->log_score->better());
  const auto reversed = CompareForecastsPaired(baseline.view(), model.view());
  EXPECT_TRUE(reversed->crps.worse());
}

TEST(ForecastComparisonTest, ThePairedIntervalIsNarrower) {
  const Forecasts model = Normal(2000, 1);
  const Forecasts baseline = Normal(2000, 1.3);
  const auto paired = CompareForecastsPaired(model.view(), baseline.view());
  const auto unpaired = CompareForecastsUnpaired(model.view(), baseline.view());
  ASSERT_TRUE(unpaired.ok()) << unpaired.status();
  EXPECT_NEAR(unpaired->crps.difference, paired->crps.difference, 1e-12);
  EXPECT_LT(paired->crps.upper - paired->crps.lower,
            0.5 * (unpaired->crps.upper - unpaired->crps.lower));
  // Other observations, and another number of them.
  const auto other = CompareForecastsUnpaired(model.view(), Normal(500, 3, 2).view());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->crps.better());
}

TEST(ForecastComparisonTest, AModelEqualsItself) {
  const Forecasts model = Normal(100, 1);
  const auto result = CompareForecastsPaired(model.view(), model.view());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->crps.difference, 0);
  EXPECT_EQ(result->crps.lower, 0);
  EXPECT_EQ(result->crps.upper, 0);
  EXPECT_FALSE(result->crps.better() || result->crps.worse());
}

TEST(ForecastComparisonTest, SamplesAndNormalForecastsHaveTheSameScore) {
  const Forecasts model = Normal(20000, 1);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  Forecasts samples{.kind = SampleForecasts{4}, .forecasts = {}, .outcomes = model.outcomes};
  for (std::size_t i = 0; i < 4 * model.outcomes.size(); ++i) {
    samples.forecasts.push_back(normal(random));
  }
  const auto result = CompareForecastsPaired(model.view(), samples.view());
  ASSERT_TRUE(result.ok()) << result.status();
  // The estimate from four draws is unbiased: its standard deviation is some 0.4.
  EXPECT_NEAR(result->crps.difference, 0, 5 * 0.5 / std::sqrt(20000));
  EXPECT_FALSE(result->log_score.has_value());
}

TEST(ForecastComparisonTest, QuantilesNeedTheSameLevels) {
  const NumberForecastKind quantiles = QuantileForecasts{{0.1, 0.9}};
  EXPECT_TRUE(CheckComparable(quantiles, QuantileForecasts{{0.1, 0.9}}).ok());
  EXPECT_TRUE(CheckComparable(SampleForecasts{2}, SampleForecasts{7}).ok());
  EXPECT_THAT(std::string(CheckComparable(quantiles, QuantileForecasts{{0.2, 0.9}}).message()),
              HasSubstr("has quantiles at 0.2, 0.9 and the model has quantiles at 0.1, 0.9"));
  EXPECT_THAT(std::string(CheckComparable(NormalForecasts{}, quantiles).message()),
              HasSubstr("has quantiles at 0.1, 0.9 and the model has Normal forecasts"));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckComparable(quantiles, SampleForecasts{2})));
}

TEST(ForecastComparisonTest, RefusesWhatCannotBeCompared) {
  const Forecasts few = Normal(99, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(CompareForecastsPaired(few.view(), few.view()).status()));
  const Forecasts model = Normal(100, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      CompareForecastsPaired(model.view(), Normal(100, 1, 2).view()).status()));
  Forecasts extreme = model;
  extreme.outcomes[7] = 1e200;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CompareForecastsUnpaired(model.view(), extreme.view()).status()));
}

}  // namespace
}  // namespace calibd
