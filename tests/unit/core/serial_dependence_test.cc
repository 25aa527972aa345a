#include "calibd/core/serial_dependence.h"

#include <gtest/gtest.h>

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

// What a model that becomes wrong at once does at most: every scored row gives all it can.
TEST(SerialDependenceTest, OneSuddenChangeIsNotEnough) {
  for (const double gap : {.3, .6, .9, 1.0}) {
    SerialDependence series;
    for (int t = 0; t < 999; ++t) series.AddForecast(t % 2 == 0 ? 1e-3 : -1e-3);
    for (int t = 0; t < 999; ++t) series.AddForecast(gap);
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
