// How often calibrated forecasts of a number are called miscalibrated by the real server, which is
// looked at after every batch and killed on the way. Seeds and the places of kills are fixed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "integration/server/level_streams.h"

namespace calibd::testing {
namespace {

constexpr int kStreams = 800;
constexpr int kBatches = 6;
constexpr int kRowsPerBatch = 400;
constexpr int kKillAfter = 2;
constexpr int kDraws = 5;

// The kinds of forecasts take turns: two of Normal, one of quantiles, one of samples.
v1::Model LevelModel(int stream) {
  v1::Model model;
  model.set_name("models/stream-" + std::to_string(stream));
  model.set_window(500);
  v1::Forecast& forecast = *model.mutable_forecast();
  if (stream % 4 == 2) {
    for (const double level : {0.05, 0.25, 0.5, 0.75, 0.95}) {
      forecast.mutable_quantiles()->add_levels(level);
    }
  } else if (stream % 4 == 3) {
    forecast.mutable_samples()->set_draws(kDraws);
  } else {
    forecast.mutable_normal();
  }
  return model;
}

v1::ObserveRequest NextBatch(int stream, std::mt19937_64& random) {
  // The quantiles of the standard normal distribution at the levels of LevelModel.
  constexpr double kQuantiles[] = {-1.6448536269514722, -0.6744897501960817, 0, 0.6744897501960817,
                                   1.6448536269514722};
  std::normal_distribution<double> normal;
  v1::ObserveRequest request;
  request.set_model(LevelModel(stream).name());
  v1::Observations& observations = *request.mutable_observations();
  auto& values = *observations.mutable_forecasts()->mutable_values();
  for (int i = 0; i < kRowsPerBatch; ++i) {
    const double mean = normal(random);
    const double sd = std::exp(0.35 * normal(random));
    if (stream % 4 == 2) {
      for (const double quantile : kQuantiles) values.Add(mean + sd * quantile);
    } else if (stream % 4 == 3) {
      for (int k = 0; k < kDraws; ++k) values.Add(mean + sd * normal(random));
    } else {
      values.Add(mean);
      values.Add(sd);
    }
    observations.add_outcomes(mean + sd * normal(random));
  }
  return request;
}

TEST(ForecastLevelTest, CalibratedStreamsAreSeldomRejected) {
  LevelCounts counts;
  ASSERT_NO_FATAL_FAILURE(SendLevelStreams({.count = kStreams,
                                            .batches = kBatches,
                                            .rows = kRowsPerBatch,
                                            .killed_after = kKillAfter,
                                            .model = LevelModel,
                                            .next = NextBatch,
                                            .is_over_limit =
                                                [](const v1::GetCalibrationResponse& answer) {
                                                  return answer.verdict().limit_status() ==
                                                         v1::CalibrationError::OVER_LIMIT;
                                                }},
                                           counts));
  // P(ever E >= 20) <= 0.05 in each stream. The mixture over experts has a rate of about 0.035, so
  // that the bound holds without an allowance for chance in this number of streams.
  EXPECT_LE(counts.rejected, 0.05 * kStreams);
  // The coverage of calibrated forecasts is exact, so an error above 0.05 contradicts its interval,
  // which has half of the significance level.
  EXPECT_LE(counts.over_limit, 0.025 * kStreams + 4 * std::sqrt(0.025 * 0.975 * kStreams));
}

}  // namespace
}  // namespace calibd::testing
