#include "calibd/core/forecast_recalibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

MATCHER_P(IsNear, tolerance, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) <=
         tolerance * std::max(1.0, std::abs(std::get<1>(arg)));
}

struct Rows {
  std::vector<double> forecasts;
  std::vector<double> outcomes;

  [[nodiscard]] NumberForecastBatch view() const { return {forecasts, outcomes}; }
};

// Standard normal quantiles of .1, .25, .5, .75 and .9.
const std::vector<double> kFiveScores = {-1.2815515655446004, -0.6744897501960817, 0,
                                         0.6744897501960817, 1.2815515655446004};
const std::vector<double> kFiveLevels = {.1, .25, .5, .75, .9};

// Forecasts with the standard deviation 1 of outcomes with `deviation`, around means that differ.
Rows NarrowForecasts(const NumberForecastKind& kind, std::size_t n, double deviation,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Rows rows;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = 10 * normal(random);
    if (std::holds_alternative<NormalForecasts>(kind)) {
      rows.forecasts.insert(rows.forecasts.end(), {mean, 1});
    } else if (const auto* const samples = std::get_if<SampleForecasts>(&kind)) {
      for (std::size_t j = 0; j < samples->draws; ++j) {
        rows.forecasts.push_back(mean + normal(random));
      }
    } else {
      for (const double score : kFiveScores) rows.forecasts.push_back(mean + score);
    }
    rows.outcomes.push_back(mean + deviation * normal(random));
  }
  return rows;
}

// NumPy and SciPy computed the levels: numpy.interp of the sorted scipy.stats.norm.cdf of the
// outcomes, at shares of i / 41.
TEST(LevelCurveTest, AgreesWithAnIndependentComputation) {
  Rows rows;
  for (int i = 0; i < 40; ++i) {
    const double mean = (i * 7 % 11) * .5;
    const double deviation = 1 + .1 * (i % 3);
    const double z = 1.8 * ((29 * i % 41 + .5) / 41 * 4 - 2);
    rows.forecasts.insert(rows.forecasts.end(), {mean, deviation});
    rows.outcomes.push_back(mean + deviation * z);
  }
  const LevelCurve curve = FitLevelCurve(NormalForecasts(), rows.view());
  EXPECT_EQ(curve.levels.size(), 40U);
  EXPECT_TRUE(CheckLevelCurve(curve).ok());
  const std::vector<double> forecast = {2, 1.5};
  const std::vector<double> levels = {.05, .1, .5, .9};
  EXPECT_THAT(RepairForecasts(curve, NormalForecasts(), forecast, levels),
              Pointwise(IsNear(1e-9), {-2.9874186216321954, -2.444745738590046, 2.131200587662288,
                                       6.444745738590063}));
}

TEST(RepairForecastsTest, QuantilesOfANormalForecastBecomeThoseOfItsRepair) {
  const LevelCurve curve{.levels = {.01, .3, .8, .99}, .shares = {.1, .4, .7, .9}};
  std::vector<double> quantiles;
  for (const double score : kFiveScores) quantiles.push_back(7 + 3 * score);
  const std::vector<double> normal = {7, 3};
  EXPECT_THAT(
      RepairForecasts(curve, QuantileForecasts{kFiveLevels}, quantiles, kFiveLevels),
      Pointwise(IsNear(1e-12), RepairForecasts(curve, NormalForecasts(), normal, kFiveLevels)));
  // Without a curve, they stay as they are.
  EXPECT_EQ(RepairForecasts(std::nullopt, QuantileForecasts{kFiveLevels}, quantiles, kFiveLevels),
            quantiles);
}

TEST(RepairForecastsTest, DrawsAreTheQuantilesOfTheirRanks) {
  const std::vector<double> draws = {4, 1, 3, 2};
  const std::vector<double> levels = RepairedLevels(SampleForecasts{4});
  EXPECT_THAT(levels, Pointwise(IsNear(1e-15), {.2, .4, .6, .8}));
  EXPECT_THAT(RepairForecasts(std::nullopt, SampleForecasts{4}, draws, levels),
              ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(RepairedLevels(NormalForecasts()).size(), 19U);
}

TEST(RepairForecastsTest, EqualAndExtremeValuesStayFiniteAndInOrder) {
  const LevelCurve curve{.levels = {1e-12, 1 - 1e-12}, .shares = {.2, .8}};
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const std::vector<double>& row :
       {std::vector<double>{0, 0, 0, 0, 0}, {-kMost, -kMost, 0, kMost, kMost}, {0, 0, 0, 1, 2}}) {
    const std::vector<double> repaired =
        RepairForecasts(curve, QuantileForecasts{kFiveLevels}, row, kFiveLevels);
    EXPECT_TRUE(std::ranges::is_sorted(repaired));
    EXPECT_TRUE(std::ranges::all_of(repaired, [](double value) { return std::isfinite(value); }));
    const LevelCurve fitted =
        FitLevelCurve(QuantileForecasts{kFiveLevels}, {row, std::vector<double>{row[2]}});
    EXPECT_TRUE(CheckLevelCurve(fitted).ok());
  }
}

TEST(LevelCurveTest, AnInvalidOneIsRefused) {
  for (const LevelCurve& curve :
       {LevelCurve{}, LevelCurve{{.5}, {}}, LevelCurve{{.5, .5}, {.1, .2}},
        LevelCurve{{.1, .5}, {.2, .1}}, LevelCurve{{0, .5}, {.1, .2}}, LevelCurve{{.5}, {1}},
        LevelCurve{{std::nan("")}, {.5}}}) {
    EXPECT_THAT(std::string(CheckLevelCurve(curve).message()), HasSubstr("level_curve has "));
  }
}

TEST(AdviseForecastRecalibrationTest, NarrowForecastsOfEachKindAreRepaired) {
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts()), NumberForecastKind(QuantileForecasts{kFiveLevels}),
        NumberForecastKind(SampleForecasts{20})}) {
    const Rows rows = NarrowForecasts(kind, 4000, 2, 5);
    const auto advice = AdviseForecastRecalibration(kind, rows.view(), RecalibrationSplit::kHalves);
    ASSERT_TRUE(advice.ok()) << advice.status();
    EXPECT_EQ(advice->fit_observations, 2000U);
    EXPECT_EQ(advice->test_observations, 2000U);
    EXPECT_TRUE(advice->helps());
    EXPECT_LT(advice->pinball_loss_after, advice->pinball_loss_before);
    EXPECT_LT(advice->coverage_after.error.upper, advice->coverage_before.error.lower);
  }
}

TEST(AdviseForecastRecalibrationTest, TheScoreIsThatOfTheRepairedQuantiles) {
  const Rows rows = NarrowForecasts(NormalForecasts(), 400, 2, 6);
  const auto advice =
      AdviseForecastRecalibration(NormalForecasts(), rows.view(), RecalibrationSplit::kAlternating);
  ASSERT_TRUE(advice.ok());
  const std::vector<double> levels = RepairedLevels(NormalForecasts());
  const std::vector<double> quantiles =
      RepairForecasts(advice->curve, NormalForecasts(), rows.forecasts, levels);
  double sum = 0;
  for (std::size_t i = 1; i < rows.outcomes.size(); i += 2) {
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const double difference = rows.outcomes[i] - quantiles[i * levels.size() + k];
      sum += 2 * std::max(levels[k] * difference, (levels[k] - 1) * difference);
    }
  }
  EXPECT_NEAR(advice->pinball_loss_after, sum / (200 * 19), 1e-12);
}

TEST(AdviseForecastRecalibrationTest, RowsThatDependOnEachOtherHaveNoMap) {
  Rows rows = NarrowForecasts(NormalForecasts(), 2000, 2, 7);
  std::vector<double> sorted = rows.outcomes;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) rows.forecasts[2 * i] = 0;
  rows.outcomes = sorted;
  const auto advice =
      AdviseForecastRecalibration(NormalForecasts(), rows.view(), RecalibrationSplit::kHalves);
  ASSERT_TRUE(advice.ok());
  EXPECT_EQ(advice->obstacle, MapObstacle::kDependentRows);
  EXPECT_FALSE(advice->curve.has_value());
  EXPECT_FALSE(advice->helps());
}

TEST(AdviseForecastRecalibrationTest, TooFewRowsAndOneLevelAreRefused) {
  const Rows few = NarrowForecasts(NormalForecasts(), 99, 2, 8);
  EXPECT_THAT(std::string(AdviseForecastRecalibration(NormalForecasts(), few.view(),
                                                      RecalibrationSplit::kHalves)
                              .status()
                              .message()),
              HasSubstr("99, at least 100 are needed"));
  const std::vector<double> values(200);
  EXPECT_THAT(std::string(AdviseForecastRecalibration(QuantileForecasts{{.5}}, {values, values},
                                                      RecalibrationSplit::kHalves)
                              .status()
                              .message()),
              HasSubstr("expected two or more levels"));
}

TEST(ForecastDeviationsTest, AChangeOfTheCoverageIsDated) {
  Rows rows = NarrowForecasts(NormalForecasts(), 3000, 1, 9);
  const Rows later = NarrowForecasts(NormalForecasts(), 3000, 2.5, 10);
  rows.forecasts.insert(rows.forecasts.end(), later.forecasts.begin(), later.forecasts.end());
  rows.outcomes.insert(rows.outcomes.end(), later.outcomes.begin(), later.outcomes.end());
  const std::vector<CentralDeviations> events = DeviationsOf(NormalForecasts(), rows.view());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_NEAR(events[0].promised, .5, 1e-12);
  std::vector<DeviationBlocks> blocks;
  for (const CentralDeviations& event : events) blocks.push_back(event.blocks);
  const auto change = FindChangeBeforeMap(blocks, 1);
  ASSERT_TRUE(change.ok() && change->has_value());
  EXPECT_NEAR(static_cast<double>((*change)->change.from), 3000, 400);
}

}  // namespace
}  // namespace calibd
