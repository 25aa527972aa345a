// The screen of rows of forecasts of a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "server/watch/outcome_probability.h"
#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

const NumberForecastKind kNormal = NormalForecasts{};

struct Forecasts {
  std::vector<double> forecasts;
  std::vector<double> outcomes;

  void Add(double mean, double sd, double outcome) {
    forecasts.insert(forecasts.end(), {mean, sd});
    outcomes.push_back(outcome);
  }
  [[nodiscard]] NumberForecastBatch view() const { return {forecasts, outcomes}; }
};

Forecasts Drawn(std::size_t n, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Forecasts drawn;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = 10 * normal(random);
    drawn.Add(mean, 1, mean + normal(random));
  }
  return drawn;
}

TEST(NumberScreenTest, UnitsOfNumbers) {
  for (const auto& [value, unit] : std::vector<std::pair<double, double>>{{2.5, 0.1},
                                                                          {1200, 100},
                                                                          {-37, 1},
                                                                          {4.99, 0.01},
                                                                          {0.1F, 0.1},
                                                                          {3e-9, 1e-9},
                                                                          {7e250, 1e250}}) {
    EXPECT_NEAR(DecimalUnit(value), unit, 1e-12 * unit) << value;
  }
  EXPECT_EQ(DecimalUnit(0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(DecimalUnit(1.2345678), 0);
  EXPECT_EQ(DecimalUnit(std::numeric_limits<double>::denorm_min()), 0);
}

TEST(NumberScreenTest, ProbabilitiesOfRoundedOutcomes) {
  const std::vector<double> normal{5, 2};
  // P(6.5 < Y < 7.5) for N(5, 2^2).
  EXPECT_NEAR(ProbabilityOfOutcome(kNormal, normal, 7), 0.12097757, 1e-8);
  EXPECT_EQ(ProbabilityOfOutcome(kNormal, normal, 0), 1);
  EXPECT_EQ(ProbabilityOfOutcome(kNormal, normal, std::sqrt(2.0)), 0);
  const NumberForecastKind quantiles = QuantileForecasts{{0.1, 0.5, 0.9}};
  const std::vector<double> row{0, 10, 30};
  EXPECT_NEAR(ProbabilityOfOutcome(quantiles, row, 7), 0.04, 1e-12);
  EXPECT_NEAR(ProbabilityOfOutcome(quantiles, row, 17), 0.02, 1e-12);
  EXPECT_NEAR(ProbabilityOfOutcome(quantiles, row, -7), 0.1, 1e-12);
  EXPECT_NEAR(ProbabilityOfOutcome(quantiles, row, 31), 0.1, 1e-12);
  // Equal quantiles have all that is between their levels.
  const std::vector<double> atom{3, 3, 3};
  EXPECT_EQ(ProbabilityOfOutcome(quantiles, atom, 3), 1);
  const NumberForecastKind samples = SampleForecasts{4};
  const std::vector<double> draws{1, 2, 2, 8};
  EXPECT_EQ(ProbabilityOfOutcome(samples, draws, 2), 0.6);
  EXPECT_EQ(ProbabilityOfOutcome(samples, draws, 7), 0.2);
}

TEST(NumberScreenTest, RowsThatAreSentTwiceAreDuplicates) {
  for (const std::size_t window : {999U, 1000U, 5000U}) {
    RowScreen screen(window);
    const Forecasts sent = Drawn(1000);
    screen.Add(kNormal, sent.view());
    EXPECT_EQ(screen.counts().repeats.rows, 0);
    screen.Add(kNormal, sent.view());
    EXPECT_EQ(screen.counts().Duplicates(1), window == 999 ? 0 : 1000) << window;
    EXPECT_EQ(screen.counts().repeats.differing, 0);
    EXPECT_EQ(screen.counts().outcomes_as_before, 0);
  }
}

TEST(NumberScreenTest, EqualForecastsWithTheirOwnOutcomesAreNoDuplicates) {
  Forecasts sent = Drawn(1000);
  RowScreen screen(5000);
  screen.Add(kNormal, sent.view());
  for (double& outcome : sent.outcomes) outcome += 0.123456789;
  screen.Add(kNormal, sent.view());
  EXPECT_EQ(screen.counts().repeats.rows, 1000);
  EXPECT_EQ(screen.counts().repeats.differing, 1000);
  EXPECT_EQ(screen.counts().Duplicates(1), 0);
}

TEST(NumberScreenTest, OutcomesThatAreExpectedToBeEqualAreNoDuplicates) {
  // The solar power of each hour: no forecast says more than 0 at night.
  RowScreen screen(5000);
  Forecasts nights;
  for (int day = 0; day < 12; ++day) {
    for (int hour = 0; hour < 10; ++hour) nights.Add(0.001 * hour, 0.01, 0);
  }
  screen.Add(kNormal, nights.view());
  EXPECT_EQ(screen.counts().repeats.rows, 110);
  EXPECT_EQ(screen.counts().repeats.differing, 0);
  EXPECT_EQ(screen.counts().Duplicates(1), 0);
  EXPECT_EQ(screen.counts().outcomes_as_before, 0);
}

TEST(NumberScreenTest, CountsOutcomesThatRepeat) {
  Forecasts sent = Drawn(3000);
  const auto counted = [&sent] {
    RowScreen screen(5000);
    for (std::size_t i = 0; i < sent.outcomes.size(); ++i) {
      screen.Add(kNormal, {.forecasts = std::span(sent.forecasts).subspan(2 * i, 2),
                           .outcomes = std::span(sent.outcomes).subspan(i, 1)});
    }
    return std::pair(screen.counts().outcomes_as_forecast, screen.counts().outcomes_as_before);
  };
  EXPECT_EQ(counted(), std::pair(std::int64_t{0}, std::int64_t{0}));
  // Only the newest kMostDigitRows rows count.
  const std::int64_t quarter = RowScreen::kMostDigitRows / 4;
  for (std::size_t i = 0; i < 3000; i += 4) sent.outcomes[i] = sent.forecasts[2 * i];
  EXPECT_EQ(counted(), std::pair(quarter, std::int64_t{0}));
  for (std::size_t i = 1; i < 3000; i += 4) sent.outcomes[i] = sent.outcomes[i - 1];
  EXPECT_EQ(counted(), std::pair(quarter, quarter));
  // An outcome that its forecast expects is no surprise.
  Forecasts likely;
  for (int i = 1; i <= 20; ++i) likely.Add(4, i, 4);
  RowScreen screen(5000);
  screen.Add(kNormal, likely.view());
  EXPECT_EQ(screen.counts().outcomes_as_forecast, 0);
  EXPECT_EQ(screen.counts().outcomes_as_before, 0);
}

}  // namespace
}  // namespace calibd::server
