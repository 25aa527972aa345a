#include "calibd/core/running_skce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/skce.h"
#include "support/draw.h"

namespace calibd {
namespace {

void AddAll(const PredictionBatch& batch, RunningBlockSkce& running) {
  for (std::size_t i = 0; i < batch.size(); ++i) running.Add(batch.row(i), batch.labels[i]);
}

TEST(RunningMomentsTest, EqualsTwoPassAndMergesLikeTheWhole) {
  std::mt19937_64 rng(5);
  std::normal_distribution<double> normal(1e6,
                                          1);  // a large mean causes cancellation in naive sums
  std::vector<double> values(1001);
  double mean = 0;
  for (double& value : values) mean += (value = normal(rng)) / 1001;
  double m2 = 0;
  for (const double value : values) m2 += (value - mean) * (value - mean);

  RunningMoments whole;
  for (const double value : values) whole.Add(value);
  EXPECT_NEAR(whole.mean, mean, 1e-8);
  EXPECT_NEAR(whole.m2 / m2, 1, 1e-9);

  for (const std::size_t cut : {0u, 1u, 500u, 1000u, 1001u}) {
    RunningMoments left;
    RunningMoments right;
    for (std::size_t i = 0; i < values.size(); ++i) (i < cut ? left : right).Add(values[i]);
    left.Merge(right);
    EXPECT_EQ(left.count, 1001);
    EXPECT_NEAR(left.mean, whole.mean, 1e-9);
    EXPECT_NEAR(left.m2 / whole.m2, 1, 1e-10);
  }
}

TEST(RunningBlockSkceTest, EqualsTheMeanOfUnbiasedBlockEstimates) {
  const PredictionSet set = Draw(GeneratorSpec::M3(4), 1007, 9);
  for (const std::size_t b : {2u, 3u, 10u, 100u, 1000u}) {
    auto running = RunningBlockSkce::Create(b, 4, MakeKernel(0.3));
    ASSERT_TRUE(running.ok());
    AddAll(set.view(), *running);
    RunningMoments expected;
    for (std::size_t block = 0; block + b <= 1007; block += b) {
      expected.Add(EstimateQuadraticSkce(set.view().rows(block, b), MakeKernel(0.3))->unbiased);
    }
    EXPECT_EQ(running->moments().count, expected.count);
    EXPECT_NEAR(running->moments().mean, expected.mean, 1e-15);
    EXPECT_NEAR(running->moments().m2, expected.m2, 1e-13 * expected.m2);
    EXPECT_EQ(running->pending(), 1007 % b);
  }
}

// The value of a block must depend on its rows only: not on calls, and not on a restart within it.
TEST(RunningBlockSkceTest, HasEqualBitsForAnyDivisionAndAfterARestore) {
  for (const std::size_t parts : {1u, 3u}) {
    for (const std::size_t b : {2u, 7u, 8u, 100u}) {
      const PredictionSet set = Draw(GeneratorSpec::M3(4), 450 * parts, 9);
      const auto make = [&] {
        return *RunningBlockSkce::Create(b, 4, MakeKernel(0.3), parts, 1.0 / 3);
      };
      const auto rows = [&](std::size_t first, std::size_t count) {
        return set.view().rows(first * parts, count * parts);
      };
      RunningBlockSkce whole = make();
      RunningMoments values;
      whole.Add(set.probabilities, set.labels, &values);
      EXPECT_EQ(whole.moments(), values);
      ASSERT_EQ(whole.moments().count, static_cast<std::int64_t>(450 / b));
      RunningBlockSkce divided = make();
      for (std::size_t first = 0, count = 1; first < 450; first += count++) {
        const PredictionBatch some = rows(first, std::min(count, 450 - first));
        divided.Add(some.probabilities, some.labels);
        RunningBlockSkce restored = make();
        ASSERT_TRUE(restored.Restore(divided.Save()).ok());
        divided = std::move(restored);
      }
      EXPECT_EQ(divided.moments(), whole.moments());
      EXPECT_EQ(divided.Save().pending_probabilities, whole.Save().pending_probabilities);
      EXPECT_EQ(divided.Save().pending_labels, whole.Save().pending_labels);
    }
  }
}

// Independent of the tiles: each term from the definitions of the distance and the residual.
TEST(RunningBlockSkceTest, EqualsTheTermsOfEveryPairAndPart) {
  constexpr std::size_t kBlock = 20;
  for (const std::size_t m : {2u, 5u}) {
    for (const std::size_t parts : {1u, 3u}) {
      const PredictionSet set = Draw(GeneratorSpec::M3(m), kBlock * parts, 12);
      auto running = *RunningBlockSkce::Create(kBlock, m, MakeKernel(0.3), parts, 0.4);
      running.Add(set.probabilities, set.labels);
      double sum = 0;
      for (std::size_t j = 0; j < kBlock; ++j) {
        for (std::size_t i = 0; i < j; ++i) {
          for (std::size_t part = 0; part < parts; ++part) {
            double distance = 0;
            double product = 0;
            for (std::size_t k = 0; k < m; ++k) {
              const auto of = [&](std::size_t row) {
                return set.probabilities[(row * parts + part) * m + k];
              };
              const auto residual = [&](std::size_t row) {
                const auto label = static_cast<std::size_t>(set.labels[row * parts + part]);
                return (label == k ? 1 : 0) - of(row);
              };
              distance += std::abs(of(i) - of(j)) / 2;
              product += residual(i) * residual(j);
            }
            sum += 0.4 * std::exp(-distance / 0.3) * product;
          }
        }
      }
      EXPECT_EQ(running.moments().count, 1);
      EXPECT_NEAR(running.moments().mean, sum / (kBlock * (kBlock - 1) / 2.0), 1e-15);
    }
  }
}

TEST(RunningBlockSkceTest, BlockOfAllIsTheQuadraticEstimator) {
  const PredictionSet set = Draw(GeneratorSpec::M3(3), 200, 9);
  auto running = RunningBlockSkce::Create(200, 3, MakeKernel(0.3));
  AddAll(set.view(), *running);
  EXPECT_NEAR(running->moments().mean, EstimateQuadraticSkce(set.view(), MakeKernel(0.3))->unbiased,
              1e-15);
}

TEST(RunningBlockSkceTest, MergesCompleteBlocks) {
  const PredictionSet set = Draw(GeneratorSpec::M3(3), 600, 10);
  auto whole = RunningBlockSkce::Create(10, 3, MakeKernel(0.3));
  auto left = RunningBlockSkce::Create(10, 3, MakeKernel(0.3));
  auto right = RunningBlockSkce::Create(10, 3, MakeKernel(0.3));
  AddAll(set.view(), *whole);
  AddAll(set.view().rows(0, 250), *left);
  AddAll(set.view().rows(250, 350), *right);
  ASSERT_TRUE(left->Merge(*right).ok());
  EXPECT_EQ(left->moments().count, 60);
  EXPECT_NEAR(left->moments().mean, whole->moments().mean, 1e-15);
  EXPECT_NEAR(left->moments().m2 / whole->moments().m2, 1, 1e-12);
}

TEST(RunningBlockSkceTest, MergeWithItselfDoublesTheBlocks) {
  const PredictionSet set = Draw(GeneratorSpec::M3(3), 40, 10);
  auto running = RunningBlockSkce::Create(2, 3, MakeKernel(0.3));
  AddAll(set.view(), *running);
  const RunningMoments before = running->moments();
  ASSERT_TRUE(running->Merge(*running).ok());
  EXPECT_EQ(running->moments().count, 2 * before.count);
  EXPECT_EQ(running->moments().mean, before.mean);
  EXPECT_NEAR(running->moments().m2, 2 * before.m2, 1e-14);
}

TEST(RunningBlockSkceTest, RefusesAWrongMergeAndChangesNothing) {
  const PredictionSet set = Draw(GeneratorSpec::M3(3), 41, 10);
  auto running = RunningBlockSkce::Create(2, 3, MakeKernel(0.3));
  AddAll(set.view().rows(0, 40), *running);
  const RunningMoments before = running->moments();
  auto other_block = RunningBlockSkce::Create(4, 3, MakeKernel(0.3));
  auto other_kernel = RunningBlockSkce::Create(2, 3, MakeKernel(0.4));
  auto pending = RunningBlockSkce::Create(2, 3, MakeKernel(0.3));
  AddAll(set.view(), *pending);
  for (const auto* other : {&*other_block, &*other_kernel, &*pending}) {
    EXPECT_EQ(running->Merge(*other).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(running->moments(), before);
  }
}

TEST(RunningBlockSkceTest, RejectsSizesOutOfRange) {
  for (const std::size_t b : {0u, 1u, 1001u}) {
    EXPECT_EQ(RunningBlockSkce::Create(b, 3, MakeKernel(1)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const std::size_t m : {0u, 1u, 100001u}) {
    EXPECT_EQ(RunningBlockSkce::Create(2, m, MakeKernel(1)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace calibd
