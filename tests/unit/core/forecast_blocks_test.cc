#include "calibd/core/forecast_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "calibd/core/p_value.h"

namespace calibd {
namespace {

// n forecasts of outcomes that are `scale` times as far from the mean.
struct BlockRows {
  BlockRows(std::size_t n, double scale, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = 20 + normal(rng);
      const double deviation = std::exp(0.3 * normal(rng));
      forecasts.insert(forecasts.end(), {mean, deviation});
      outcomes.push_back(mean + scale * deviation * normal(rng));
    }
  }
  [[nodiscard]] NumberForecastBatch rows(std::size_t first, std::size_t count) const {
    return {std::span(forecasts).subspan(2 * first, 2 * count),
            std::span(outcomes).subspan(first, count)};
  }

  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

constexpr DiscrepancyKernel kBlockKernel{
    .outcome_length = 1.5, .forecast_length = 0.8, .center = 20};

TEST(ForecastBlocksTest, IsTheMeanOfTheLossOfEachBlock) {
  const BlockRows data(175, 1.5, 1);
  for (const double length : {0.8, 0.0}) {
    DiscrepancyKernel kernel = kBlockKernel;
    kernel.forecast_length = length;
    ForecastBlocks blocks(NormalForecasts{}, kernel);
    blocks.Add(data.rows(0, 175));
    ASSERT_EQ(blocks.moments().count, 3);
    EXPECT_EQ(blocks.state().outcomes.size(), 25U);
    double sum = 0;
    for (std::size_t block = 0; block < 3; ++block) {
      const NumberForecastBatch rows = data.rows(50 * block, 50);
      LossOptions loss;
      loss.outcome_kernel = RbfKernel{0.5 / 1.5 / 1.5};
      loss.gradient = false;
      if (length > 0) {
        ForecastCondition condition;
        condition.gamma = 0.5 / 0.8 / 0.8;
        loss.condition = condition;
      } else {
        loss.condition = NoCondition();
      }
      sum += ComputeLoss({ForecastKind::kNormal, rows.forecasts, 2, {}, rows.outcomes}, loss)
                 ->penalty_value;
    }
    EXPECT_NEAR(blocks.moments().mean, sum / 3, 1e-12);
  }
}

// Quantiles with outcomes on them, which are counted as at most the quantile.
TEST(ForecastBlocksTest, QuantilesHaveTheLossOfEachBlock) {
  const QuantileForecasts kind{{0.1, 0.5, 0.8}};
  std::mt19937_64 rng(3);
  std::uniform_int_distribution<int> step(0, 3);
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (int i = 0; i < 100; ++i) {
    double quantile = 0.1 * step(rng);
    for (int k = 0; k < 3; ++k) forecasts.push_back(quantile += 0.1 * step(rng));
    outcomes.push_back(forecasts[forecasts.size() - 2] + 0.1 * (step(rng) - 1));
  }
  for (const double length : {0.3, 0.0}) {
    ForecastBlocks blocks(kind, {.outcome_length = 1, .forecast_length = length, .center = 1e9});
    blocks.Add({forecasts, outcomes});
    ASSERT_EQ(blocks.moments().count, 2);
    double sum = 0;
    for (std::size_t block = 0; block < 2; ++block) {
      for (std::size_t i = 50 * block; i < 50 * block + 50; ++i) {
        for (std::size_t j = 50 * block; j < 50 * block + 50; ++j) {
          double product = 0;
          double square = 0;
          for (std::size_t k = 0; k < 3; ++k) {
            const double a = forecasts[3 * i + k];
            const double b = forecasts[3 * j + k];
            product += ((outcomes[i] <= a ? 1 : 0) - kind.levels[k]) *
                       ((outcomes[j] <= b ? 1 : 0) - kind.levels[k]) / 3;
            square += (a - b) * (a - b) / 3;
          }
          const double similarity = length > 0 ? std::exp(-square / (2 * length * length)) : 1;
          if (i != j) sum += product * similarity / (50 * 49);
        }
      }
    }
    EXPECT_NEAR(blocks.moments().mean, sum / 2, 1e-12);
  }
}

TEST(ForecastBlocksTest, DoesNotDependOnTheDivisionOrOnARestart) {
  const BlockRows data(512, 1.2, 2);
  ForecastBlocks whole(NormalForecasts{}, kBlockKernel);
  whole.Add(data.rows(0, 512));
  ForecastBlocks parts(NormalForecasts{}, kBlockKernel);
  std::size_t first = 0;
  for (std::size_t count = 1; first < 512;
       first += count, count = std::min(2 * count, 512 - first)) {
    parts.Add(data.rows(first, count));
    ForecastBlocks restored(NormalForecasts{}, kBlockKernel);
    ASSERT_TRUE(restored.Restore(parts.state()).ok());
    parts = restored;
  }
  EXPECT_EQ(parts.state(), whole.state());
}

TEST(ForecastBlocksTest, CalibratedForecastsPassAndTooNarrowOnesFail) {
  // P(p <= .05) of 300 calibrated streams of 60 blocks, with four standard errors and the .01 by
  // which the Normal approximation may be off.
  int rejected = 0;
  for (std::uint64_t stream = 0; stream < 300; ++stream) {
    const BlockRows data(3000, 1, 100 + stream);
    ForecastBlocks blocks(NormalForecasts{}, kBlockKernel);
    blocks.Add(data.rows(0, 3000));
    rejected += TestBlocks(blocks.moments())->p_value <= 0.05 ? 1 : 0;
  }
  EXPECT_LE(rejected, 300 * 0.06 + 4 * std::sqrt(300 * 0.05 * 0.95));
  const BlockRows narrow(3000, 1.5, 1);
  ForecastBlocks blocks(NormalForecasts{}, kBlockKernel);
  blocks.Add(narrow.rows(0, 3000));
  EXPECT_LT(TestBlocks(blocks.moments())->p_value, 1e-6);
}

TEST(ForecastBlocksTest, ExtremeValuesStayFinite) {
  constexpr double kMost = std::numeric_limits<double>::max();
  ForecastBlocks blocks(NormalForecasts{}, kBlockKernel);
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (int i = 0; i < 100; ++i) {
    const double scale = i % 2 == 0 ? kMost / 4 : -std::pow(10.0, i * 3);
    forecasts.insert(forecasts.end(), {scale, i % 3 == 0 ? 1e-300 : kMost / 8});
    outcomes.push_back(-scale);
  }
  blocks.Add({forecasts, outcomes});
  ASSERT_EQ(blocks.moments().count, 2);
  EXPECT_LE(std::abs(blocks.moments().mean), 4);
}

// Differences from the center exceed the range of double, and what is saved must be restored.
TEST(ForecastBlocksTest, ABlockOfExtremeValuesIsRestored) {
  DiscrepancyKernel kernel = kBlockKernel;
  kernel.center = -8.9e307;
  ForecastBlocks blocks(NormalForecasts{}, kernel);
  const std::vector<double> forecasts = {1e308, 1, -8.9e307, 1};
  const std::vector<double> outcomes = {1e308, -8.9e307};
  blocks.Add({forecasts, outcomes});
  ForecastBlocks restored(NormalForecasts{}, kernel);
  ASSERT_TRUE(restored.Restore(blocks.state()).ok());
  EXPECT_EQ(restored.state(), blocks.state());
}

TEST(ForecastBlocksTest, AnImpossibleStateIsRefused) {
  ForecastBlocks blocks(NormalForecasts{}, kBlockKernel);
  const auto refused = [&blocks](const auto& damage) {
    ForecastBlocks::State state{
        .blocks = {.count = 2, .mean = 0.1, .m2 = 0.01}, .forecasts = {0, 1}, .outcomes = {0.5}};
    damage(state);
    return !blocks.Restore(state).ok();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& state) { state.forecasts.pop_back(); }));
  EXPECT_TRUE(refused([](auto& state) { state.blocks.mean = 5; }));
  EXPECT_TRUE(refused([](auto& state) { state.blocks.m2 = -1; }));
  EXPECT_TRUE(refused([](auto& state) { state.outcomes[0] = std::nan(""); }));
  EXPECT_TRUE(refused([](auto& state) {
    state.forecasts.resize(100);
    state.outcomes.resize(50);
  }));
}

TEST(ForecastBlocksTest, AnImpossibleStateOfSamplesIsRefused) {
  ForecastBlocks blocks(SampleForecasts{3}, kBlockKernel);
  const auto refused = [&blocks](const auto& damage) {
    ForecastBlocks::State state{.blocks = {.count = 2, .mean = 0.1, .m2 = 0.01},
                                .forecasts = {},
                                .outcomes = {},
                                .residuals = 49,
                                .sums = std::vector<double>(128, 0.5),
                                .square_sum = 40};
    damage(state);
    return !blocks.Restore(state).ok();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& state) { state.residuals = 50; }));
  EXPECT_TRUE(refused([](auto& state) { state.residuals = 0; }));
  EXPECT_TRUE(refused([](auto& state) { state.sums.clear(); }));
  EXPECT_TRUE(refused([](auto& state) { state.sums[1] = std::nan(""); }));
  EXPECT_TRUE(refused([](auto& state) { state.square_sum = -1; }));
  EXPECT_TRUE(refused([](auto& state) {
    state.forecasts = {1, 2, 3};
    state.outcomes = {1};
  }));
}

}  // namespace
}  // namespace calibd
