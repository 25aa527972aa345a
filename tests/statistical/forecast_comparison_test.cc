// The intervals of compared forecasts of a number hold the true differences at all looks from the
// hundredth observation on, for Normal forecasts that are off in different ways, with scales that
// differ much and with forecasts that depend on the past.
#include "calibd/core/forecast_comparison.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "error_streams.h"

namespace calibd {
namespace {

using testing::ErrorBound;

constexpr int kForecastStreams = 200;
constexpr std::array<std::size_t, 10> kLooks{100, 120, 150, 200, 280, 400, 560, 800, 1150, 1600};

struct NormalLaw {
  double mean;
  double sd;
};

struct Compared {
  NormalLaw truth;
  NormalLaw model;
  NormalLaw baseline;
};

enum class ForecastPair { kOppositeBias, kTooSharp, kWideScales, kFollowsThePast };
constexpr std::array kForecastPairs{ForecastPair::kOppositeBias, ForecastPair::kTooSharp,
                                    ForecastPair::kWideScales, ForecastPair::kFollowsThePast};

Compared StatedBy(ForecastPair pair, double z, double newest) {
  const NormalLaw truth{.mean = z, .sd = 1};
  switch (pair) {
    case ForecastPair::kOppositeBias:
      return {truth, {z + 0.3, 1}, {z - 0.3, 1}};
    case ForecastPair::kTooSharp:
      return {truth, {z, 0.5}, {z, 1.2}};
    case ForecastPair::kWideScales: {
      const double sd = std::exp(0.8 * z);
      return {{z, sd}, {z + 0.5 * sd, sd}, {z, 0.7 * sd}};
    }
    case ForecastPair::kFollowsThePast:
      return {truth, {z, newest > 0 ? 0.7 : 1.4}, {z + 0.2 * std::tanh(newest), 1}};
  }
  return {};
}

// E |N(mean, sd^2)|.
double MeanSize(double mean, double sd) {
  const double t = mean / sd;
  return sd * (std::sqrt(2 / M_PI) * std::exp(-t * t / 2) + t * std::erf(t / std::sqrt(2)));
}

double ExpectedCrps(const NormalLaw& forecast, const NormalLaw& truth) {
  return MeanSize(forecast.mean - truth.mean, std::hypot(forecast.sd, truth.sd)) -
         forecast.sd / std::sqrt(M_PI);
}

double ExpectedLogScore(const NormalLaw& forecast, const NormalLaw& truth) {
  const double bias = forecast.mean - truth.mean;
  return std::log(forecast.sd) +
         (truth.sd * truth.sd + bias * bias) / (2 * forecast.sd * forecast.sd);
}

struct Misses {
  bool crps = false;
  bool log_score = false;
  bool unpaired = false;
  bool decided = false;
};

Misses Compare(ForecastPair pair, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> model;
  std::vector<double> baseline;
  std::vector<double> outcomes;
  double crps = 0;
  double log_score = 0;
  double newest = 0;
  Misses misses;
  for (const std::size_t n : kLooks) {
    while (outcomes.size() < n) {
      const Compared row = StatedBy(pair, normal(random), newest);
      newest = normal(random);
      outcomes.push_back(row.truth.mean + row.truth.sd * newest);
      model.insert(model.end(), {row.model.mean, row.model.sd});
      baseline.insert(baseline.end(), {row.baseline.mean, row.baseline.sd});
      crps += ExpectedCrps(row.model, row.truth) - ExpectedCrps(row.baseline, row.truth);
      log_score +=
          ExpectedLogScore(row.model, row.truth) - ExpectedLogScore(row.baseline, row.truth);
    }
    const KindForecasts of_model{NormalForecasts{}, {model, outcomes}};
    const KindForecasts of_baseline{NormalForecasts{}, {baseline, outcomes}};
    const auto missed = [n](const ScoreDifference& score, double sum) {
      const double truth = sum / static_cast<double>(n);
      return truth < score.lower || truth > score.upper;
    };
    const ForecastComparison paired = *CompareForecastsPaired(of_model, of_baseline);
    misses.crps |= missed(paired.crps, crps);
    misses.log_score |= missed(*paired.log_score, log_score);
    misses.unpaired |= missed(CompareForecastsUnpaired(of_model, of_baseline)->crps, crps);
    misses.decided = paired.crps.better() || paired.crps.worse();
  }
  return misses;
}

TEST(ForecastComparisonLevelTest, IntervalsHoldTheTrueDifferencesAtAllLooks) {
  const double most = ErrorBound(kComparisonLevel, kForecastStreams) * kForecastStreams;
  int decided = 0;
  for (const ForecastPair pair : kForecastPairs) {
    SCOPED_TRACE(static_cast<int>(pair));
    int crps = 0;
    int log_score = 0;
    int unpaired = 0;
    for (int stream = 0; stream < kForecastStreams; ++stream) {
      const Misses misses = Compare(pair, static_cast<std::uint64_t>(stream));
      crps += misses.crps ? 1 : 0;
      log_score += misses.log_score ? 1 : 0;
      unpaired += misses.unpaired ? 1 : 0;
      decided += misses.decided ? 1 : 0;
    }
    EXPECT_LE(crps, most);
    EXPECT_LE(log_score, most);
    EXPECT_LE(unpaired, most);
  }
  // Two of the differences are large enough to be seen, so the intervals are not too wide to miss.
  EXPECT_GE(decided, 2 * kForecastStreams);
}

}  // namespace
}  // namespace calibd
