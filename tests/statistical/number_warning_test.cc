// Warnings about rows of calibrated forecasts of a number, with outcomes that are rounded, often 0,
// or drawn from few different forecasts; and rows that are counted twice. The seeds are fixed. The
// rule for duplicates reports data without duplicates with a probability of at most 1e-4 for each
// of the 270 streams. Of the other warnings, each row gives a reason with a probability of at most
// 0.01, so that the probability of 0.05 n reasons among n >= 500 is below 1e-12.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

using Random = std::mt19937_64;

double Gaussian(Random& random) { return std::normal_distribution<double>()(random); }

struct Stream {
  std::string name;
  NumberForecastKind kind;
  // Appends the forecast of row i, and returns its outcome.
  std::function<double(std::size_t i, Random& random, std::vector<double>& forecasts)> draw;
};

// Appends a Normal forecast, and returns an outcome drawn from it and rounded to multiples of unit.
double Normal(double mean, double sd, double unit, Random& random, std::vector<double>& forecasts) {
  forecasts.insert(forecasts.end(), {mean, sd});
  const double outcome = mean + sd * Gaussian(random);
  return unit == 0 ? outcome : unit * std::round(outcome / unit);
}

double Rounded(double value, double unit) { return unit * std::round(value / unit); }

const std::vector<Stream>& Streams() {
  static const std::vector<Stream> streams{
      {"distinct forecasts", NormalForecasts{},
       [](std::size_t, Random& random, std::vector<double>& out) {
         return Normal(10 * Gaussian(random), 1, 0, random, out);
       }},
      {"one forecast", NormalForecasts{},
       [](std::size_t, Random& random, std::vector<double>& out) {
         return Normal(5, 2, 0, random, out);
       }},
      {"one forecast of a rounded number", NormalForecasts{},
       [](std::size_t, Random& random, std::vector<double>& out) {
         return Normal(21, 0.7, 0.1, random, out);
       }},
      {"rounded forecasts of a rounded number", NormalForecasts{},
       [](std::size_t, Random& random, std::vector<double>& out) {
         const double mean = Rounded(20 + 5 * Gaussian(random), 0.5);
         return Normal(mean, 0.8, 0.1, random, out);
       }},
      {"prices in hundreds", NormalForecasts{},
       [](std::size_t, Random& random, std::vector<double>& out) {
         const double mean = Rounded(20000 + 3000 * Gaussian(random), 100);
         return Normal(mean, 400, 100, random, out);
       }},
      {"the forecast of each hour", NormalForecasts{},
       [](std::size_t i, Random& random, std::vector<double>& out) {
         return Normal(10 + 5 * std::sin(static_cast<double>(i % 24) / 24 * 2 * M_PI), 2, 0.1,
                       random, out);
       }},
      {"power that is 0 at night", NormalForecasts{},
       [](std::size_t i, Random& random, std::vector<double>& out) {
         const std::size_t hour = i % 24;
         if (hour < 6 || hour > 18) {
           out.insert(out.end(), {0.001 * static_cast<double>(hour), 0.01});
           return 0.0;
         }
         return Normal(100 + 50 * Gaussian(random), 10, 0, random, out);
       }},
      {"demand that is mostly 0", SampleForecasts{20},
       [](std::size_t, Random& random, std::vector<double>& out) {
         const double mean = 0.05 * std::round(20 * std::exp(Gaussian(random) - 2));
         std::poisson_distribution<int> poisson(std::max(mean, 0.01));
         for (int k = 0; k < 20; ++k) out.push_back(poisson(random));
         return static_cast<double>(poisson(random));
       }},
      {"quantiles of a rounded number", QuantileForecasts{{0.1, 0.5, 0.9}},
       [](std::size_t, Random& random, std::vector<double>& out) {
         const double mean = std::round(50 + 3 * Gaussian(random));
         for (const double z : {-1.2815515655446004, 0.0, 1.2815515655446004}) {
           out.push_back(mean + 4 * z);
         }
         return std::round(mean + 4 * Gaussian(random));
       }},
  };
  return streams;
}

struct Rows {
  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

Rows Sample(const Stream& stream, std::size_t n, Random& random) {
  Rows rows;
  for (std::size_t i = 0; i < n; ++i) {
    rows.outcomes.push_back(stream.draw(i, random, rows.forecasts));
  }
  return rows;
}

RowScreen::Counts Screen(const Stream& stream, const Rows& rows,
                         const std::vector<std::size_t>& order) {
  const std::size_t width = ForecastWidth(stream.kind);
  RowScreen screen(order.size());
  for (const std::size_t i : order) {
    screen.Add(stream.kind, {.forecasts = std::span(rows.forecasts).subspan(i * width, width),
                             .outcomes = std::span(rows.outcomes).subspan(i, 1)});
  }
  return screen.counts();
}

double Share(std::int64_t count, std::int64_t rows) {
  return static_cast<double>(count) / static_cast<double>(rows);
}

std::vector<std::size_t> InOrder(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

TEST(NumberWarningTest, CalibratedForecastsGiveNone) {
  Random random(31);
  for (const Stream& stream : Streams()) {
    for (const std::size_t n : {500U, 2000U, 8000U}) {
      for (int repetition = 0; repetition < 10; ++repetition) {
        const Rows rows = Sample(stream, n, random);
        const RowScreen::Counts counts = Screen(stream, rows, InOrder(n));
        EXPECT_LT(Share(counts.Duplicates(1), counts.rows), 0.01) << stream.name << ", n = " << n;
        EXPECT_LT(Share(counts.outcomes_as_forecast, counts.digit_rows), 0.05) << stream.name;
        EXPECT_LT(Share(counts.outcomes_as_before, counts.digit_rows), 0.05) << stream.name;
      }
    }
  }
}

TEST(NumberWarningTest, DoubleDeliveryOfFivePercentIsReported) {
  Random random(32);
  const Stream& stream = Streams().front();
  for (const std::size_t n : {1000U, 8000U}) {
    const Rows rows = Sample(stream, n, random);
    // The last batch is sent twice.
    std::vector<std::size_t> order = InOrder(n);
    for (std::size_t i = n - n / 20; i < n; ++i) order.push_back(i);
    const RowScreen::Counts counts = Screen(stream, rows, order);
    EXPECT_GE(Share(counts.Duplicates(1), counts.rows), 0.03) << n;
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_GE(Share(Screen(stream, rows, order).Duplicates(1), counts.rows), 0.03) << n;
    // Every twentieth row is sent twice, at once.
    std::vector<std::size_t> at_once;
    for (std::size_t i = 0; i < n; ++i) at_once.insert(at_once.end(), i % 20 == 0 ? 2 : 1, i);
    EXPECT_GE(Share(Screen(stream, rows, at_once).Duplicates(1), counts.rows), 0.03) << n;
  }
}

}  // namespace
}  // namespace calibd::server
