#include "calibd/core/serial_dependence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/forecast_cells.h"

// The seeds are fixed. A stream of independent rows is warned of with a probability of at most
// .001. A set of 120 such streams has more than 2 warnings with a probability below 3e-4.
namespace calibd::testing {
namespace {

constexpr int kStreams = 40;
constexpr std::size_t kMostFalse = 2;

using Random = std::mt19937_64;
// The error of row i: how much the probability is too high.
using ErrorAt = std::function<double(std::size_t i)>;

double Uniform(Random& random) { return std::uniform_real_distribution<double>()(random); }

double Beta(double a, double b, Random& random) {
  const double x = std::gamma_distribution<double>(a)(random);
  return x / (x + std::gamma_distribution<double>(b)(random));
}

struct Stream {
  std::size_t class_count = 0;
  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;

  [[nodiscard]] std::span<const double> row(std::size_t i) const {
    return std::span(probabilities).subspan(i * class_count, class_count);
  }
  // In the order of `rows`. Returns the row of the warning; 0 without one.
  [[nodiscard]] std::int64_t WarnedAt(const std::vector<std::size_t>& rows) const {
    SerialDependence series;
    for (const std::size_t i : rows) {
      const std::span<const double> g = row(i);
      series.Add(g, labels[i], static_cast<std::size_t>(std::ranges::max_element(g) - g.begin()));
    }
    return series.reached_at();
  }
  [[nodiscard]] std::vector<std::size_t> InOrder() const {
    std::vector<std::size_t> rows(labels.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
  }
  [[nodiscard]] std::vector<std::size_t> SortedByLabel() const {
    std::vector<std::size_t> rows = InOrder();
    std::ranges::stable_sort(rows, {}, [this](std::size_t i) { return labels[i]; });
    return rows;
  }
};

// Softmax of Normal scores, whose labels are drawn with the scores divided by the temperature.
Stream Draw(std::size_t class_count, double temperature, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, 2);
  std::uniform_real_distribution<double> uniform;
  Stream stream{class_count, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> stated(class_count);
    std::vector<double> truth(class_count);
    double sum = 0;
    double true_sum = 0;
    for (std::size_t k = 0; k < class_count; ++k) {
      const double score = normal(rng);
      sum += stated[k] = std::exp(score);
      true_sum += truth[k] = std::exp(score / temperature);
    }
    double rest = uniform(rng) * true_sum;
    std::int32_t label = 0;
    while (label + 1 < static_cast<std::int32_t>(class_count) &&
           rest >= truth[static_cast<std::size_t>(label)]) {
      rest -= truth[static_cast<std::size_t>(label++)];
    }
    for (const double value : stated) stream.probabilities.push_back(value / sum);
    stream.labels.push_back(label);
  }
  return stream;
}

// How rows follow each other.
struct Order {
  // Number of rows in succession that share the luck of being right.
  std::size_t block = 1;
  // After a wrong row, the probability of being right is less by this share.
  double feedback = 0;
};

// The top label has a probability from Beta(a, 1), and is right less often by the error.
Stream DrawTop(std::size_t class_count, double a, std::size_t n, Random& random,
               const ErrorAt& error, Order order = {}) {
  Stream stream{class_count, {}, {}};
  const auto m = static_cast<double>(class_count);
  double luck = 0;
  bool was_wrong = false;
  for (std::size_t i = 0; i < n; ++i) {
    const double c = std::max(Beta(a, 1, random), 1 / m + 1e-3);
    const std::size_t top = random() % class_count;
    for (std::size_t k = 0; k < class_count; ++k) {
      stream.probabilities.push_back(k == top ? c : (1 - c) / (m - 1));
    }
    if (i % order.block == 0) luck = Uniform(random);
    const double right =
        c - error(i) + order.feedback * (was_wrong ? -c : (order.feedback > 0 ? 1 - c : 0));
    was_wrong = luck >= right;
    const std::size_t other = (top + 1 + random() % (class_count - 1)) % class_count;
    stream.labels.push_back(static_cast<std::int32_t>(was_wrong ? other : top));
  }
  return stream;
}

// Two classes. P(class 1) is from Beta(a, b), and too low by the error.
Stream DrawTwo(double a, double b, std::size_t n, Random& random, const ErrorAt& error) {
  Stream stream{2, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const double p = Beta(a, b, random);
    stream.probabilities.insert(stream.probabilities.end(), {1 - p, p});
    stream.labels.push_back(Uniform(random) < p + error(i) ? 1 : 0);
  }
  return stream;
}

ErrorAt None() {
  return [](std::size_t /*i*/) { return 0.0; };
}

// The error jumps from 0 to `size` at a row from 300 to 5299.
ErrorAt Jump(double size, Random& random) {
  const std::size_t at = 300 + random() % 5000;
  return [=](std::size_t i) { return i >= at ? size : 0; };
}

// How many of the streams are warned of.
std::size_t Warned(int streams, const std::function<std::int64_t(Random&)>& warned_at) {
  std::size_t warned = 0;
  for (int s = 0; s < streams; ++s) {
    Random random(static_cast<std::uint64_t>(1000 + s));
    if (warned_at(random) > 0) ++warned;
  }
  return warned;
}

// A forecast of a number, with its outcome.
struct Forecast {
  std::vector<double> values;
  double outcome = 0;
};

// The row of the warning; 0 without one.
std::int64_t WarnedAt(const NumberForecastKind& kind, const std::vector<Forecast>& forecasts) {
  std::vector<double> values;
  std::vector<double> outcomes;
  for (const Forecast& forecast : forecasts) {
    values.insert(values.end(), forecast.values.begin(), forecast.values.end());
    outcomes.push_back(forecast.outcome);
  }
  const auto cells = ForecastCells::Create(kind, StrataOfForecasts(kind, values), 1, .001);
  std::vector<ForecastRow> described(outcomes.size());
  (*cells)->Describe({values, outcomes}, 1, described);
  SerialDependence series;
  AddToSeries(**cells, {values, outcomes}, described, series);
  return series.reached_at();
}

// Standard Normal forecasts with these outcomes.
std::int64_t WarnedAt(const std::vector<double>& outcomes) {
  std::vector<Forecast> forecasts;
  forecasts.reserve(outcomes.size());
  for (const double outcome : outcomes) forecasts.push_back({{0, 1}, outcome});
  return WarnedAt(NormalForecasts{}, forecasts);
}

// One forecast of the distribution with mean `mean` and standard deviation `sd`.
std::vector<double> ValuesOf(const NumberForecastKind& kind, double mean, double sd,
                             Random& random) {
  if (std::holds_alternative<NormalForecasts>(kind)) return {mean, sd};
  if (std::holds_alternative<QuantileForecasts>(kind)) {
    return {mean - 1.2815515655446004 * sd, mean, mean + 1.2815515655446004 * sd};
  }
  std::normal_distribution<double> normal(mean, sd);
  std::vector<double> draws(std::get<SampleForecasts>(kind).draws);
  for (double& draw : draws) draw = normal(random);
  return draws;
}

const std::vector<NumberForecastKind>& ForecastKinds() {
  static const std::vector<NumberForecastKind> kinds = {
      NormalForecasts{}, QuantileForecasts{.levels = {.1, .5, .9}}, SampleForecasts{.draws = 20}};
  return kinds;
}

// Forecasts whose outcomes are Normal with the stated mean plus `shift` and the stated standard
// deviation times `scale`. Of the variance of the outcomes, the share `explained` is that of the
// stated means.
std::vector<Forecast> DrawForecasts(const NumberForecastKind& kind, double explained, double shift,
                                    double scale, std::size_t n, Random& random) {
  std::normal_distribution<double> normal;
  std::vector<Forecast> forecasts;
  const double sd = std::sqrt(1 - explained);
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = std::sqrt(explained) * normal(random);
    forecasts.push_back(
        {ValuesOf(kind, mean, sd, random), mean + sd * (shift + scale * normal(random))});
  }
  return forecasts;
}

void SortByOutcome(std::vector<Forecast>& forecasts) {
  std::ranges::sort(forecasts, {}, &Forecast::outcome);
}

TEST(SerialDependenceTest, IndependentRowsAreNotWarnedOf) {
  std::size_t warned = 0;
  for (int s = 0; s < kStreams; ++s) {
    const auto seed = static_cast<std::uint64_t>(s);
    for (const double temperature : {1.0, 2.5, .4}) {
      const Stream stream = Draw(s % 2 == 0 ? 10 : 2, temperature, 6000, seed);
      if (stream.WarnedAt(stream.InOrder()) > 0) ++warned;
    }
  }
  EXPECT_LE(warned, kMostFalse);
}

// Rows that stay independent.
TEST(SerialDependenceTest, AModelThatBecomesWrongAtOnceIsNotWarnedOf) {
  for (const double size : {.1, .2, .4, .6, .9}) {
    std::size_t warned = 0;
    for (const double a : {20.0, 6.0, 2.0}) {
      warned += Warned(kStreams, [&](Random& random) {
        const std::size_t classes = random() % 2 == 0 ? 10 : 2;
        const Stream stream = DrawTop(classes, a, 6000, random, Jump(size, random));
        return stream.WarnedAt(stream.InOrder());
      });
    }
    EXPECT_LE(warned, kMostFalse) << "top label, " << size;
    warned = 0;
    for (const auto& [a, b] : {std::pair(1.0, 4.0), std::pair(2.0, 2.0), std::pair(1.0, 20.0)}) {
      warned += Warned(kStreams, [&, a = a, b = b](Random& random) {
        const double sign = random() % 2 == 0 ? 1 : -1;
        const Stream stream = DrawTwo(a, b, 6000, random, Jump(sign * size, random));
        return stream.WarnedAt(stream.InOrder());
      });
    }
    EXPECT_LE(warned, kMostFalse) << "P(class 1), " << size;
    // Several labels have a deviation of the same kind; a number is off by up to 4.5 deviations.
    warned = Warned(3 * kStreams, [&](Random& random) {
      std::normal_distribution<double> normal;
      const ErrorAt error = Jump(5 * size, random);
      std::vector<double> outcomes;
      for (std::size_t i = 0; i < 6000; ++i) outcomes.push_back(normal(random) + error(i));
      return WarnedAt(outcomes);
    });
    EXPECT_LE(warned, kMostFalse) << "numbers, " << size;
    warned = Warned(3 * kStreams, [&](Random& random) {
      const ErrorAt error = Jump(size, random);
      SerialDependence series;
      for (std::size_t i = 0; i < 6000; ++i) {
        const double g[] = {Uniform(random), Uniform(random)};
        const std::int8_t truths[] = {
            Uniform(random) < g[0] - error(i) ? std::int8_t{1} : std::int8_t{0},
            Uniform(random) < g[1] + error(i) ? std::int8_t{1} : std::int8_t{0}};
        series.AddLabels(((g[0] - truths[0]) - .6 * (g[1] - truths[1])) / std::sqrt(2), g, truths);
      }
      return series.reached_at();
    });
    EXPECT_LE(warned, kMostFalse) << "labels, " << size;
  }
}

TEST(SerialDependenceTest, SortedAndRepeatedRowsAreWarnedOf) {
  for (int s = 0; s < kStreams / 4; ++s) {
    const Stream stream = Draw(s % 2 == 0 ? 10 : 2, 1, 8000, static_cast<std::uint64_t>(900 + s));
    EXPECT_GT(stream.WarnedAt(stream.SortedByLabel()), 0) << s;
    std::vector<std::size_t> twice;
    for (std::size_t i = 0; i < stream.labels.size() / 2; ++i) twice.insert(twice.end(), 2, i);
    EXPECT_GT(stream.WarnedAt(twice), 0) << s;
  }
  // Sharp predictions, which say nearly the same as the order.
  for (const std::size_t classes : {2U, 10U, 100U}) {
    EXPECT_EQ(Warned(10,
                     [&](Random& random) {
                       const Stream stream = DrawTop(classes, 20, 8000, random, None());
                       return stream.WarnedAt(stream.SortedByLabel());
                     }),
              10)
        << classes;
  }
}

// Weak and sharp forecasts, exact and wrong ones.
TEST(SerialDependenceTest, ForecastsSortedByTheOutcomeAreWarnedOf) {
  for (const NumberForecastKind& kind : ForecastKinds()) {
    for (const double explained : {0.0, .5, .9, .99}) {
      for (const bool falls : {false, true}) {
        EXPECT_EQ(Warned(10,
                         [&](Random& random) {
                           auto forecasts = DrawForecasts(kind, explained, 0, 1, 1000, random);
                           SortByOutcome(forecasts);
                           if (falls) std::ranges::reverse(forecasts);
                           return WarnedAt(kind, forecasts);
                         }),
                  10)
            << kind.index() << ", " << explained;
      }
    }
  }
}

TEST(SerialDependenceTest, IndependentForecastsAreNotWarnedOf) {
  std::size_t warned = 0;
  for (const NumberForecastKind& kind : ForecastKinds()) {
    for (const auto& [shift, scale] :
         {std::pair(0.0, 1.0), std::pair(1.0, 1.0), std::pair(-2.0, .5), std::pair(0.0, 3.0)}) {
      warned += Warned(kStreams / 4, [&, shift = shift, scale = scale](Random& random) {
        return WarnedAt(kind, DrawForecasts(kind, .7, shift, scale, 6000, random));
      });
    }
  }
  EXPECT_LE(warned, kMostFalse);
}

// A number that grows by more than its uncertainty, whose forecasts say so.
TEST(SerialDependenceTest, CalibratedForecastsOfAGrowingNumberAreNotWarnedOf) {
  for (const NumberForecastKind& kind : ForecastKinds()) {
    for (const double growth : {.1, 1.0, 10.0}) {
      EXPECT_LE(Warned(kStreams,
                       [&](Random& random) {
                         std::normal_distribution<double> normal;
                         std::vector<Forecast> forecasts;
                         double number = 0;
                         for (std::size_t i = 0; i < 3000; ++i) {
                           const double mean = number + growth;
                           number = mean + normal(random);
                           forecasts.push_back({ValuesOf(kind, mean, 1, random), number});
                         }
                         return WarnedAt(kind, forecasts);
                       }),
                kMostFalse)
          << kind.index() << ", " << growth;
    }
  }
}

// Rows of one user, and outcomes that follow the row before.
TEST(SerialDependenceTest, BlocksAndFeedbackAreWarnedOf) {
  for (const double a : {20.0, 6.0, 2.0}) {
    for (const Order order : {Order{.block = 20}, Order{.feedback = .3}}) {
      EXPECT_EQ(Warned(20,
                       [&](Random& random) {
                         const Stream stream = DrawTop(10, a, 10000, random, None(), order);
                         return stream.WarnedAt(stream.InOrder());
                       }),
                20)
          << a << ", " << order.block;
    }
  }
  const std::size_t numbers = Warned(20, [](Random& random) {
    std::normal_distribution<double> normal;
    std::vector<double> outcomes;
    double common = 0;
    for (std::size_t i = 0; i < 10000; ++i) {
      if (i % 20 == 0) common = normal(random);
      outcomes.push_back(.5 * common + std::sqrt(.75) * normal(random));
    }
    return WarnedAt(outcomes);
  });
  EXPECT_EQ(numbers, 20);
}

}  // namespace
}  // namespace calibd::testing
