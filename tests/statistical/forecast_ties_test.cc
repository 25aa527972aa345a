// What the evidence of quantiles promises where outcomes equal them: exact quantiles of counts and
// of rain are not rejected, wrong ones are. Seeds are fixed. With S simulations a count at rate p
// is Binomial(S, p); bounds are 5 standard deviations away.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/forecast_coverage.h"
#include "calibd/core/forecast_evidence.h"
#include "level_bound.h"

namespace calibd {
namespace {

using testing::kLevel;
using testing::Margin;

using Engine = std::mt19937_64;

constexpr std::int64_t kRows = 3000;
constexpr std::int64_t kNever = kRows + 1;

std::vector<double> NineLevels() {
  std::vector<double> levels;
  for (int k = 1; k < 10; ++k) levels.push_back(k / 10.0);
  return levels;
}

double Uniform(Engine& engine) { return std::uniform_real_distribution<double>()(engine); }

// Fills the quantiles of a forecast, and returns an outcome.
using RowOf = std::function<double(Engine& engine, std::span<double> quantiles)>;

// The smallest count whose cumulated probability is at least the level.
void PoissonQuantiles(double mean, const std::vector<double>& levels, std::span<double> quantiles) {
  double mass = std::exp(-mean);
  double below = mass;
  double count = 0;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    while (below < levels[k]) {
      ++count;
      mass *= mean / count;
      below += mass;
    }
    quantiles[k] = count;
  }
}

// Outcomes have `factor` times the mean of the forecast, which varies if `varying`.
RowOf Poisson(bool varying, double factor) {
  return [=](Engine& engine, std::span<double> quantiles) {
    const double mean = varying ? std::exp(std::normal_distribution<double>(1, .6)(engine)) : 2.5;
    PoissonQuantiles(mean, NineLevels(), quantiles);
    return static_cast<double>(std::poisson_distribution<int>(factor * mean)(engine));
  };
}

// Rain: dry with a probability of 40 to 80 %, else an exponential amount. Outcomes have `dry` times
// this probability and `amount` times the amount of the forecast.
RowOf Rain(double dry, double amount) {
  return [=](Engine& engine, std::span<double> quantiles) {
    const double stated = .4 + .4 * Uniform(engine);
    const double mean = 1 + 4 * Uniform(engine);
    const std::vector<double> levels = NineLevels();
    for (std::size_t k = 0; k < levels.size(); ++k) {
      quantiles[k] =
          levels[k] <= stated ? 0 : -mean * std::log1p(-(levels[k] - stated) / (1 - stated));
    }
    if (Uniform(engine) < dry * stated) return 0.0;
    return amount * mean * std::exponential_distribution<double>()(engine);
  };
}

// The number of rows until E >= 20, or kNever.
std::int64_t DelayOf(const RowOf& row, std::uint64_t seed) {
  const std::vector<double> levels = NineLevels();
  Engine engine(seed);
  std::vector<double> forecasts(kRows * levels.size());
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < kRows; ++i) {
    outcomes.push_back(row(engine, std::span(forecasts).subspan(i * levels.size(), levels.size())));
  }
  const NumberForecastKind kind = QuantileForecasts{levels};
  const auto cells = *ForecastCells::Create(
      kind, StrataOfForecasts(kind, std::span(forecasts).first(500 * levels.size())), 1,
      kDefaultTolerance);
  ForecastEvidence evidence(cells, {.log_e = -std::log(kLevel)});
  evidence.Add({.forecasts = forecasts, .outcomes = outcomes}, 1);
  const std::int64_t reached = evidence.Read().evidence_reached_at;
  return reached > 0 ? reached : kNever;
}

std::vector<std::int64_t> DelaysOf(const RowOf& row, int streams) {
  std::vector<std::int64_t> delays;
  for (int i = 0; i < streams; ++i)
    delays.push_back(DelayOf(row, 700 + static_cast<std::uint64_t>(i)));
  std::ranges::sort(delays);
  return delays;
}

TEST(ForecastTiesLevelTest, ExactQuantilesAreNotRejected) {
  constexpr int kStreams = 60;
  int all = 0;
  for (const RowOf& row : {Poisson(true, 1), Poisson(false, 1), Rain(1, 1)}) {
    for (const std::int64_t delay : DelaysOf(row, kStreams)) all += delay < kNever ? 1 : 0;
  }
  RecordProperty("rejected", std::to_string(all));
  EXPECT_LE(all, 3 * kStreams * (kLevel + Margin(kLevel, 3 * kStreams)));
}

// Rain with the stated probability of a dry day, of which `dry` times as many are dry. The interval
// of the coverage error, looked at every 50 rows, against the error from the probabilities.
bool IsEverMissed(double dry, std::uint64_t seed) {
  const std::vector<double> levels = NineLevels();
  const auto cells = *ForecastCells::Create(QuantileForecasts{levels}, {}, 1, kDefaultTolerance);
  Engine engine(seed);
  std::vector<double> quantiles(levels.size());
  // Sums over the rows of P(y < q) and of P(y <= q).
  std::vector<double> below(levels.size());
  std::vector<double> at_most(levels.size());
  ForecastCounts counts(cells->cell_count());
  for (int n = 1; n <= kRows; ++n) {
    const double stated = .4 + .4 * Uniform(engine);
    const double mean = 1 + 4 * Uniform(engine);
    const double actual = dry * stated;
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const double wet = std::max(0.0, (levels[k] - stated) / (1 - stated));
      quantiles[k] = wet > 0 ? -mean * std::log1p(-wet) : 0;
      at_most[k] += actual + (1 - actual) * wet;
      below[k] += wet > 0 ? actual + (1 - actual) * wet : 0;
    }
    const double outcome =
        Uniform(engine) < actual ? 0 : mean * std::exponential_distribution<double>()(engine);
    ForecastRow row;
    cells->Describe({.forecasts = quantiles, .outcomes = std::span(&outcome, 1)}, n,
                    std::span(&row, 1));
    counts.Add(row);
    if (n % 50 != 0) continue;
    double error = 0;
    for (std::size_t k = 0; k < levels.size(); ++k) {
      error = std::max({error, below[k] / n - levels[k], levels[k] - at_most[k] / n});
    }
    const CoverageError measured = CoverageOf(*cells, counts, {})->error;
    // For exact quantiles `error` is 0 up to rounding errors.
    if (measured.lower > error + 1e-12 || measured.upper < error - 1e-12) return true;
  }
  return false;
}

TEST(ForecastTiesLevelTest, IntervalsOfTheErrorOfLevelsHold) {
  constexpr int kStreams = 200;
  for (const double dry : {1.0, .8}) {
    int missed = 0;
    for (int i = 0; i < kStreams; ++i) {
      missed += IsEverMissed(dry, 900 + static_cast<std::uint64_t>(i)) ? 1 : 0;
    }
    RecordProperty("missed", std::to_string(missed));
    EXPECT_LE(missed, kStreams * (.025 + Margin(.025, kStreams)));
  }
}

TEST(ForecastTiesDelayTest, WrongQuantilesAreRejected) {
  constexpr int kStreams = 25;
  struct Scenario {
    const char* name;
    RowOf row;
    // The median delay at most. Measured: 772, 357, 147.
    std::int64_t most;
  };
  for (const Scenario& scenario :
       {Scenario{"poisson_mean", Poisson(true, 1.25), 1200}, Scenario{"dry_days", Rain(.8, 1), 700},
        Scenario{"amounts", Rain(1, 2), 300}}) {
    const std::vector<std::int64_t> delays = DelaysOf(scenario.row, kStreams);
    RecordProperty(scenario.name, std::to_string(delays[kStreams / 2]));
    EXPECT_LE(delays[kStreams / 2], scenario.most) << scenario.name;
    EXPECT_GE(delays[kStreams / 2], 20) << scenario.name;
    EXPECT_LT(delays[kStreams * 9 / 10], kNever) << scenario.name;
  }
}

}  // namespace
}  // namespace calibd
