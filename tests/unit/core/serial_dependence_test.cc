#include "calibd/core/serial_dependence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/multilabel.h"

namespace calibd {
namespace {

TEST(SerialDependenceTest, AgreesWithTheWorkedExample) {
  SerialDependence::State state;
  state.sums = {40, 0};
  state.squares = {40, 0};
  EXPECT_NEAR(SerialDependence(state).LogEValue() / std::numbers::ln10, 7.339178, 5e-7);
  EXPECT_EQ(SerialDependence().LogEValue(), 0);
}

// A stream of rows, and the products by the definition.
TEST(SerialDependenceTest, AgreesWithTheDefinition) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> uniform;
  SerialDependence series;
  std::vector<double> products(10, 1.0);
  double x_a = 0;
  std::int32_t y_a = 0;
  SerialDependence::Row candidate;
  for (int t = 0; t < 9000; ++t) {
    const double p = uniform(rng);
    const std::vector<double> g = {1 - p, p};
    // Labels in runs of 50.
    const std::int32_t y = t / 50 % 2 == 0 || uniform(rng) < p ? 1 : 0;
    const std::size_t predicted = p > .5 ? 1 : 0;
    const double x = g[predicted] - (y == static_cast<std::int32_t>(predicted) ? 1 : 0);
    const SerialDependence::State before = series.state();
    series.Add(g, y, predicted);
    const std::vector<SerialDependence::Row>& pool = series.state().pool;
    ASSERT_LE(pool.size(), SerialDependence::kMostPool);
    if (t % 3 == 0) candidate = {y, x};
    if (t % 3 == 1) x_a = x;
    if (t % 3 == 1) y_a = y;
    if (t % 3 != 2 || pool.size() > before.pool.size()) continue;
    // The candidate has replaced one row at most.
    std::size_t replaced = 0;
    int differences = 0;
    for (std::size_t k = 0; k < pool.size(); ++k) {
      if (pool[k] == before.pool[k]) continue;
      EXPECT_EQ(pool[k], candidate);
      replaced = k;
      ++differences;
    }
    ASSERT_EQ(differences, 1);
    const SerialDependence::Row& c = before.pool[replaced];
    const auto index = [](std::int32_t label) { return static_cast<std::size_t>(label); };
    const double z[] = {((y == y_a) - g[index(y_a)]) - ((y == c.label) - g[index(c.label)]),
                        4 * x * (x_a - c.x)};
    for (std::size_t j = 0; j < 10; ++j) {
      const double rate = std::vector{.05, .1, .2, .4, .8}[j % 5];
      products[j] *= std::exp(rate * z[j / 5] - rate * rate * z[j / 5] * z[j / 5] / 2);
    }
    double sum = 0;
    for (const double product : products) sum += product;
    ASSERT_NEAR(series.LogEValue(), std::log(sum / 10), 1e-6);
  }
  EXPECT_GT(series.reached_at(), 0);
  EXPECT_EQ(series.state().reached_at % 3, 0);
  SerialDependence restored(series.state());
  const std::vector<double> g = {.5, .5};
  for (int t = 0; t < 6; ++t) {
    restored.Add(g, 1, 0);
    series.Add(g, 1, 0);
  }
  EXPECT_EQ(restored.state(), series.state());
}

TEST(SerialDependenceTest, OneClassGivesNoEvidence) {
  SerialDependence series;
  const std::vector<double> g = {.5, .5};
  for (int t = 0; t < 20000; ++t) series.Add(g, 0, 0);
  EXPECT_EQ(series.LogEValue(), 0);
  EXPECT_EQ(series.reached_at(), 0);
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
