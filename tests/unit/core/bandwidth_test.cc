#include "calibd/core/bandwidth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

// The definition, with all n^2 distances in memory.
double BruteForceMedian(const std::vector<double>& predictions, std::size_t m) {
  const std::size_t n = predictions.size() / m;
  const std::span<const double> all(predictions);
  std::vector<double> distances;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      distances.push_back(
          DistanceOf(Distance::kTotalVariation, all.subspan(i * m, m), all.subspan(j * m, m)));
    }
  }
  std::sort(distances.begin(), distances.end());
  return (distances[(n * n - 1) / 2] + distances[n * n / 2]) / 2;
}

TEST(MedianBandwidthTest, EqualsTheSortedMedian) {
  for (const std::size_t n : {3u, 4u, 5u, 10u, 257u, 600u}) {
    for (const std::size_t m : {2u, 3u, 10u, 33u}) {
      const PredictionSet set = Draw(GeneratorSpec::M1(m), n, n * m);
      const auto bandwidth = MedianBandwidth(set.probabilities, m);
      ASSERT_TRUE(bandwidth.ok()) << bandwidth.status();
      EXPECT_NEAR(*bandwidth, BruteForceMedian(set.probabilities, m), 1e-15)
          << "n=" << n << " m=" << m;
    }
  }
}

TEST(MedianBandwidthTest, EqualsTheSortedMedianWithTies) {
  // Rounded predictions: few distinct distances.
  for (const double steps : {2.0, 3.0, 10.0}) {
    PredictionSet set = Draw(GeneratorSpec::M1(2), 401, 7);
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      set.probabilities[2 * i] = std::round(steps * set.probabilities[2 * i]) / steps;
      set.probabilities[2 * i + 1] = 1 - set.probabilities[2 * i];
    }
    const double expected = BruteForceMedian(set.probabilities, 2);
    const auto bandwidth = MedianBandwidth(set.probabilities, 2);
    if (expected == 0) {
      EXPECT_FALSE(bandwidth.ok());
    } else {
      ASSERT_TRUE(bandwidth.ok()) << bandwidth.status();
      EXPECT_NEAR(*bandwidth, expected, 1e-15);
    }
  }
}

TEST(MedianBandwidthTest, MeanOfTheMiddleTwoWithTwoPredictions) {
  // The distances are 0, 0, d, d: the middle two are 0 and d.
  EXPECT_EQ(*MedianBandwidth(std::vector<double>{0.25, 0.75, 0.5, 0.5}, 2), 0.125);
}

// More distances are near the median than fit in memory, so its digits are determined one after
// another.
TEST(MedianBandwidthTest, FindsTheRankOfManyPredictions) {
  constexpr std::size_t kN = 16000;
  PredictionSet set = Draw(GeneratorSpec::M1(2), kN, 11);
  const double median = *MedianBandwidth(set.probabilities, 2);
  std::vector<double> sorted;
  for (std::size_t i = 0; i < kN; ++i) sorted.push_back(set.probabilities[2 * i]);
  std::sort(sorted.begin(), sorted.end());
  // For m = 2 the distance is |p - q|: count the pairs below and up to the median, up to the
  // rounding of 1 - p.
  const auto pairs_within = [&](double distance) {
    std::size_t pairs = 0;
    std::size_t first = 0;
    for (std::size_t last = 0; last < kN; ++last) {
      while (sorted[last] - sorted[first] > distance) ++first;
      pairs += last - first;
    }
    return pairs;
  };
  const std::size_t rank = (kN * kN / 2 - kN) / 2;
  EXPECT_LE(pairs_within(median - 1e-15), rank);
  EXPECT_GT(pairs_within(median + 1e-15), rank - 1);
}

// There are so many pairs that a sample brackets the median.
TEST(MedianBandwidthTest, HasEqualBitsOnSeveralThreads) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 3000, 5);
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(i);
      });
    }
  };
  const double median = *MedianBandwidth(set.probabilities, 3, control);
  EXPECT_EQ(median, *MedianBandwidth(set.probabilities, 3));
  EXPECT_NEAR(median, BruteForceMedian(set.probabilities, 3), 1e-15);
}

TEST(MedianBandwidthTest, EqualPredictionsAreAnErrorThatNamesTheCause) {
  const std::vector<double> equal(20, 0.5);
  for (const auto& bandwidth : {MedianBandwidth(equal, 2), MedianOffDiagonalBandwidth(equal, 2)}) {
    EXPECT_EQ(bandwidth.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(bandwidth.status().message()),
                HasSubstr("all 10 predictions are equal"));
  }
}

TEST(MedianBandwidthTest, IsOfDistinctPredictionsIfMostAreEqual) {
  // 90 equal predictions and three others, at the distances 1/16, 1/8 and 1/4 from them and 1/16,
  // 1/8 and 3/16 from each other: the middle of 273 distances between distinct ones is 1/8.
  std::vector<double> predictions;
  for (int i = 0; i < 90; ++i) predictions.insert(predictions.end(), {0.5, 0.5});
  for (const double p : {0.5625, 0.625, 0.75}) {
    predictions.insert(predictions.end(), {p, 1 - p});
  }
  EXPECT_EQ(*MedianBandwidth(predictions, 2), 0.125);
  EXPECT_EQ(*MedianOffDiagonalBandwidth(predictions, 2), 0.125);
}

TEST(MedianBandwidthTest, NeedsTwoPredictions) {
  EXPECT_EQ(MedianBandwidth(std::vector<double>{0.5, 0.5}, 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(MedianBandwidthTest, IsExactWithMoreEqualDistancesThanFitInMemory) {
  // Three kinds of predictions: a third of 4.5 million pairs are equal, 4 in 9 are 0.25
  // apart.
  std::vector<double> predictions;
  for (std::size_t i = 0; i < 3000; ++i) {
    const double p = i % 3 == 0 ? 0.25 : i % 3 == 1 ? 0.5 : 0.75;
    predictions.insert(predictions.end(), {p, 1 - p});
  }
  predictions.insert(predictions.end(), {0.01, 0.99, 0.02, 0.98});
  EXPECT_EQ(*MedianBandwidth(predictions, 2), 0.25);
  EXPECT_EQ(*MedianOffDiagonalBandwidth(predictions, 2), 0.25);
}

TEST(MedianBandwidthTest, CanBeCancelled) {
  RunControl control;
  control.cancelled = [] { return true; };
  EXPECT_EQ(
      MedianBandwidth(Draw(GeneratorSpec::M1(2), 100, 1).probabilities, 2, control).status().code(),
      absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace calibd
