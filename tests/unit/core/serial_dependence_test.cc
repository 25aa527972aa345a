#include "calibd/core/serial_dependence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/multilabel.h"

namespace calibd {
namespace {

// Half of the e-value of 10^7.339178 that 40 pairs of neighbours give, and of 1 without runs.
TEST(SerialDependenceTest, AgreesWithTheWorkedExample) {
  SerialDependence::State state;
  state.sums = {40, 0};
  state.squares = {40, 0};
  EXPECT_NEAR(SerialDependence(state).LogEValue() / std::numbers::ln10, 7.038148, 5e-7);
  EXPECT_EQ(SerialDependence().LogEValue(), 0);
}

// The e-value of a whole stream of two classes, by the definition.
double LogEValueOf(const std::vector<std::vector<double>>& g, const std::vector<std::int32_t>& y) {
  const std::vector<double> rates = {.05, .1, .2, .4, .8};
  std::vector<double> neighbours(10, 1.0);
  const auto x = [&](std::size_t t) {
    const std::size_t predicted = g[t][1] > .5 ? 1 : 0;
    return g[t][predicted] - (y[t] == static_cast<std::int32_t>(predicted) ? 1 : 0);
  };
  for (std::size_t b = 38; b < y.size(); b += 3) {
    const std::size_t a = b - 1;
    const std::size_t c = b - 38;
    const auto excess = [&](std::size_t t) {
      return (y[b] == y[t] ? 1 : 0) - g[b][static_cast<std::size_t>(y[t])];
    };
    const double z[] = {excess(a) - excess(c), 4 * x(b) * (x(a) - x(c))};
    for (std::size_t j = 0; j < 10; ++j) {
      const double rate = rates[j % 5];
      neighbours[j] *= std::exp(rate * z[j / 5] - rate * rate * z[j / 5] * z[j / 5] / 2);
    }
  }
  double runs = 0;
  for (const double d : {.5, .1}) {
    double products[] = {1, 1};
    for (std::size_t t = 1; t < y.size(); ++t) {
      const auto before = static_cast<std::size_t>(y[t - 1]);
      const double q = .2 * (1 - g[t][before]);
      products[before] *= y[t] == y[t - 1] ? (1 - d * q) / (1 - q) : d;
    }
    runs += std::min(products[0], products[1]) / 2;
  }
  double sum = 0;
  for (const double product : neighbours) sum += product / 10;
  return std::log((sum + runs) / 2);
}

TEST(SerialDependenceTest, AgreesWithTheDefinition) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> uniform;
  SerialDependence series;
  std::vector<std::vector<double>> g;
  std::vector<std::int32_t> y;
  std::int64_t reached_at = 0;
  for (int t = 0; t < 3000; ++t) {
    const double p = uniform(rng);
    g.push_back({1 - p, p});
    // Labels in runs of 50.
    y.push_back(t / 50 % 2 == 0 || uniform(rng) < p ? 1 : 0);
    series.Add(g.back(), y.back(), p > .5 ? 1 : 0);
    if (t % 3 != 2) continue;
    const double expected = LogEValueOf(g, y);
    ASSERT_NEAR(series.LogEValue(), expected, 1e-6) << t;
    if (reached_at == 0 && expected >= std::log(1000)) reached_at = t + 1;
    ASSERT_EQ(series.reached_at(), reached_at);
  }
  EXPECT_GT(reached_at, 0);
  SerialDependence restored(series.state());
  const std::vector<double> even = {.5, .5};
  for (int t = 0; t < 6; ++t) {
    restored.Add(even, 1, 0);
    series.Add(even, 1, 0);
  }
  EXPECT_EQ(restored.state(), series.state());
}

// Tails that give no evidence of an order.
constexpr SerialDependence::Tails kUnknown;

// The e-value of a whole stream of Normal forecasts, by the definition. The neighbours and the runs
// are those of a series that does not know the order.
TEST(SerialDependenceTest, OrderAgreesWithTheDefinition) {
  std::mt19937_64 rng(8);
  std::normal_distribution<double> normal;
  const auto cdf = [](double t) { return std::erfc(-t / std::numbers::sqrt2) / 2; };
  SerialDependence series;
  SerialDependence without;
  std::vector<double> mean;
  std::vector<double> y;
  for (std::size_t t = 0; t < 60; ++t) {
    mean.push_back(normal(rng));
    // Outcomes that rise, fall, and are equal.
    y.push_back(t % 7 == 3 ? y.back() : mean[t] + normal(rng) + .8 * static_cast<double>(t));
    const double x = .5 - cdf(y[t] - mean[t]);
    const double before = series.pair_outcome().value_or(0);
    series.AddForecast(x, y[t], {cdf(before - mean[t]), cdf(mean[t] - before)});
    without.AddForecast(x, y[t], kUnknown);
  }
  double order = 0;
  for (const double d : {.5, .1}) {
    double rises = 1;
    double falls = 1;
    for (std::size_t b = 1; b < y.size(); b += 2) {
      const double below = cdf(y[b - 1] - mean[b]);
      const double up = std::min(.5, below);
      const double down = std::min(.5, 1 - below);
      rises *= y[b] > y[b - 1] ? (1 - d * up) / (1 - up) : d;
      falls *= y[b] < y[b - 1] ? (1 - d * down) / (1 - down) : d;
    }
    order += (rises + falls) / 4;
  }
  const double others = std::exp(without.LogEValue());
  double order_without = 0;
  for (const double product : without.state().order) order_without += product / 4;
  EXPECT_NEAR(series.LogEValue(), std::log(others + (order - order_without) / 3), 1e-9);
  EXPECT_GT(std::abs(order - order_without), 1e-6);
}

// A calibrated forecast, and rows of one distribution, multiply a product by at most 1 on average:
// by the sum over all places of the outcome among the draws.
TEST(SerialDependenceTest, TailsOfDrawsAreValid) {
  constexpr std::size_t kDraws = 4;
  for (const double d : SerialDependence::kRunRates) {
    // j of the draws and the outcome are at most the number before.
    for (std::size_t j = 0; j <= kDraws + 1; ++j) {
      double mean = 0;
      for (std::size_t place = 0; place <= kDraws; ++place) {
        std::vector<double> draws;
        double outcome = 0;
        for (std::size_t i = 0; i <= kDraws; ++i) {
          const double value = i < j ? -1 - static_cast<double>(i) : 1 + static_cast<double>(i);
          if (i == place) outcome = value;
          if (i != place) draws.push_back(value);
        }
        const double q =
            std::min(.5, ForecastTails(SampleForecasts{.draws = kDraws}, draws, 0).at_most);
        mean += (outcome > 0 ? (1 - d * q) / (1 - q) : d) / (kDraws + 1);
      }
      EXPECT_LE(mean, 1 + 1e-12) << j;
    }
  }
}

TEST(ForecastTailsTest, AgreeWithClosedForms) {
  const std::vector<double> normal = {10, 2};
  const auto tails = ForecastTails(NormalForecasts{}, normal, 12);
  EXPECT_NEAR(tails.at_most, .8413447460685429, 1e-15);
  EXPECT_NEAR(tails.at_least, .15865525393145707, 1e-15);
  const auto far = ForecastTails(NormalForecasts{}, std::vector<double>{0, 1e-300}, 1e300);
  EXPECT_EQ(far.at_most, 1);
  EXPECT_GE(far.at_least, 0);
  // Equal quantiles: P(y < 0) <= .1, P(y <= 0) >= .5, P(y < 4) <= .9 <= P(y <= 4).
  const NumberForecastKind kind = QuantileForecasts{.levels = {.1, .5, .9}};
  const std::vector<double> quantiles = {0, 0, 4};
  const auto at = [&](double number) { return ForecastTails(kind, quantiles, number); };
  EXPECT_EQ(at(-1).at_most, 0);
  EXPECT_EQ(at(-1).at_least, .9);
  EXPECT_EQ(at(0).at_most, .5);
  EXPECT_EQ(at(0).at_least, .9);
  EXPECT_EQ(at(1).at_most, .5);
  EXPECT_NEAR(at(1).at_least, .1, 1e-15);
  EXPECT_EQ(at(5).at_most, .9);
  EXPECT_EQ(at(5).at_least, 0);
  const auto draws = ForecastTails(SampleForecasts{.draws = 4}, std::vector<double>{3, 1, 2, 2}, 2);
  EXPECT_EQ(draws.at_most, 3. / 5);
  EXPECT_EQ(draws.at_least, 3. / 5);
}

// What a model that becomes wrong at once does at most: every scored row gives all it can.
TEST(SerialDependenceTest, OneSuddenChangeIsNotEnough) {
  for (const double gap : {.3, .6, .9, 1.0}) {
    SerialDependence series;
    for (int t = 0; t < 999; ++t) series.AddForecast(t % 2 == 0 ? 1e-3 : -1e-3, 0, kUnknown);
    for (int t = 0; t < 999; ++t) series.AddForecast(gap, 0, kUnknown);
    EXPECT_EQ(series.reached_at(), 0) << gap;
  }
}

TEST(SerialDependenceTest, OneClassGivesNoEvidence) {
  SerialDependence series;
  const std::vector<double> g = {.5, .5};
  for (int t = 0; t < 20000; ++t) series.Add(g, 0, 0);
  EXPECT_NEAR(series.LogEValue(), 0, 1e-12);
  EXPECT_EQ(series.reached_at(), 0);
}

TEST(SerialDependenceTest, EachSequenceOfLabelsHasRuns) {
  const std::vector<double> g = {.5, .5, .5};
  SerialDependence sorted;
  SerialDependence unknown;
  for (int t = 0; t < 600; ++t) {
    const std::int8_t last = t < 300 ? 0 : 1;
    const std::int8_t truths[] = {static_cast<std::int8_t>(t % 2), 1, last};
    sorted.AddLabels(0, g, truths);
    const std::int8_t hidden[] = {truths[0], 1, kMissingTruth};
    unknown.AddLabels(0, g, hidden);
  }
  EXPECT_GT(sorted.reached_at(), 300);
  EXPECT_EQ(unknown.reached_at(), 0);
  EXPECT_EQ(unknown.state().newest, (std::vector<std::int32_t>{1, 1, -1}));
  // The third one alone is enough.
  EXPECT_EQ(sorted.WorstSequence(), 2U);
  EXPECT_FALSE(unknown.WorstSequence().has_value());
  EXPECT_FALSE(SerialDependence().WorstSequence().has_value());
}

// Half of the e-value is the mean over three sequences and two rates.
TEST(SerialDependenceTest, ASequenceIsNamedIfItsRunsAloneReachTheThreshold) {
  SerialDependence::State state;
  state.newest = {0, 0, 0};
  state.runs.resize(6);
  const double enough = std::log(2 * 6 * SerialDependence::kThreshold);
  // The larger one of two products is left out.
  state.runs[2] = {enough + 1e-9, 0};
  state.runs[3] = {enough + 1e-9, 0};
  const auto named = [&](double log) {
    state.runs[2][0] = log;
    return SerialDependence(state).WorstSequence();
  };
  EXPECT_EQ(named(enough + 1e-9), 1U);
  EXPECT_GE(SerialDependence(state).LogEValue(), std::log(SerialDependence::kThreshold));
  EXPECT_FALSE(named(enough - 1e-6).has_value());
}

// Classes beyond the 64th share products.
TEST(SerialDependenceTest, ManyClassesNeedNoMoreMemory) {
  SerialDependence series;
  const std::vector<double> g(1000, 1e-3);
  for (int t = 0; t < 3000; ++t) series.Add(g, t / 30 * 10 % 1000, 0);
  EXPECT_EQ(series.state().runs.size(), SerialDependence::kMostClasses);
  EXPECT_GT(series.reached_at(), 0);
}

TEST(SerialDependenceTest, DeviationsOfRowsOfOtherKinds) {
  // The weights are 1 and phi - 1, with the signs + and -.
  const std::vector<double> g = {0.5, 0.25, 0.75, 0.5};
  const std::vector<std::int8_t> truths = {1, 0, kMissingTruth, 1};
  const MultilabelBatch batch{g, truths, 2};
  const double second = std::numbers::phi - 1;
  EXPECT_NEAR(RowDeviation(batch, 0), (-0.5 - second * 0.25) / std::sqrt(2), 1e-15);
  EXPECT_NEAR(RowDeviation(batch, 1), second * 0.5, 1e-15);
  const std::vector<std::int8_t> unknown = {kMissingTruth};
  EXPECT_EQ(RowDeviation({std::span(g).first(1), unknown, 1}, 0), 0);
  // The middle of the cells between the levels .1, .5 and .9.
  const std::vector<double> edges = {.1, .5, .9};
  EXPECT_NEAR(RowDeviation(ForecastRow{.cell = 0}, edges), .45, 1e-15);
  EXPECT_NEAR(RowDeviation(ForecastRow{.cell = 3}, edges), -.45, 1e-15);
  EXPECT_NEAR(RowDeviation(ForecastRow{.cell = 0, .ties = 2}, edges), .05, 1e-15);
}

}  // namespace
}  // namespace calibd
