// The noise floor compared with simulations that draw new labels from fixed predictions.
#include "calibd/core/noise_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/lens.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

struct Simulated {
  std::vector<double> values;

  [[nodiscard]] double Mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  [[nodiscard]] double StandardDeviation() const {
    RunningMoments moments;
    for (const double value : values) moments.Add(value);
    return std::sqrt(moments.Variance());
  }
  // Share of values above a bound.
  [[nodiscard]] double ShareAbove(double bound) const {
    const auto above = std::count_if(values.begin(), values.end(),
                                     [bound](double value) { return value > bound; });
    return static_cast<double>(above) / static_cast<double>(values.size());
  }
};

// 2000 draws: the share above a 95 % quantile has a standard error of .0049. The Gamma
// approximation may deviate by another .01.
TEST(NoiseFloorTest, MatchesACalibratedModel) {
  constexpr int kDraws = 2000;
  constexpr std::size_t kN = 300;
  std::mt19937_64 rng(7);
  for (const double alpha : {0.1, 1.0}) {
    for (const bool top_label : {false, true}) {
      PredictionSet set;
      Generator::Create({std::vector<double>(5, alpha), 0, std::vector<double>(5, 0.2)}, 3)
          ->Draw(kN, set);
      const Lens lens = top_label ? Lens::TopLabel() : Lens::Canonical();
      const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
      const LensBatch seen = *ApplyLens(set.view(), lens);
      const auto moments = EstimateNullMoments(seen, kernel);
      ASSERT_TRUE(moments.ok());
      Simulated biased;
      Simulated unbiased;
      for (int draw = 0; draw < kDraws; ++draw) {
        for (std::size_t i = 0; i < kN; ++i) {
          const auto g = set.view().row(i);
          set.labels[i] = std::discrete_distribution<std::int32_t>(g.begin(), g.end())(rng);
        }
        const auto estimate = EstimateQuadraticSkce(*ApplyLens(set.view(), lens), kernel);
        biased.values.push_back(estimate->biased);
        unbiased.values.push_back(estimate->unbiased);
      }
      const NoiseFloor floor_uq = moments->Unbiased();
      const NoiseFloor floor_b = moments->Biased();
      const double five_errors = 5 * floor_uq.standard_deviation / std::sqrt(kDraws);
      EXPECT_NEAR(unbiased.Mean(), 0, five_errors);
      EXPECT_NEAR(biased.Mean(), floor_b.mean, five_errors);
      // The standard error of a standard deviation is below .05 for these tails.
      EXPECT_NEAR(unbiased.StandardDeviation() / floor_uq.standard_deviation, 1, 0.15);
      EXPECT_NEAR(unbiased.ShareAbove(floor_uq.upper_quantile), 0.05, 5 * 0.0049 + 0.01);
      EXPECT_NEAR(biased.ShareAbove(floor_b.upper_quantile), 0.05, 5 * 0.0049 + 0.01);
    }
  }
}

TEST(NoiseFloorTest, BlockFloorIsTheSpreadOfTheBlockEstimator) {
  std::mt19937_64 rng(8);
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(4), 3)->Draw(400, set);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const NoiseFloor floor =
      EstimateNullMoments(set.view(), kernel)->Block(/*block_count=*/40, /*block_size=*/10);
  Simulated blocks;
  for (int draw = 0; draw < 1000; ++draw) {
    PredictionSet fresh;
    Generator::Create(GeneratorSpec::M1(4), rng())->Draw(400, fresh);
    auto running = RunningBlockSkce::Create(10, 4, kernel);
    for (std::size_t i = 0; i < 400; ++i) running->Add(fresh.view().row(i), fresh.labels[i]);
    blocks.values.push_back(running->moments().mean);
  }
  // New predictions are drawn too: the floor of one sample varies by a few percent.
  EXPECT_NEAR(blocks.StandardDeviation() / floor.standard_deviation, 1, 0.2);
}

}  // namespace
}  // namespace calibd
