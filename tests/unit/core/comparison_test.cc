#include "calibd/core/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "calibd/core/confidence_sequence.h"
#include "calibd/core/running_skce.h"

namespace calibd {
namespace {

constexpr double kRounding = 1e-12;

void AddBinary(PredictionSet& set, double class_1, std::int32_t label) {
  set.class_count = 2;
  set.probabilities.insert(set.probabilities.end(), {1 - class_1, class_1});
  set.labels.push_back(label);
}

PredictionSet Constant(double class_1, std::size_t n) {
  PredictionSet set;
  for (std::size_t i = 0; i < n; ++i) AddBinary(set, class_1, 1);
  return set;
}

TEST(ComparisonTest, OneObservationHasExactDifferencesAndDecidesNothing) {
  const PredictionSet model = Constant(0.75, 1);
  const PredictionSet baseline = Constant(0.5, 1);
  const auto result = ComparePaired(model.view(), baseline.view());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->log_loss.difference, std::log(0.5 / 0.75), kRounding);
  EXPECT_NEAR(result->brier.model, 0.125, kRounding);
  EXPECT_NEAR(result->brier.baseline, 0.5, kRounding);
  EXPECT_NEAR(result->brier.difference, -0.375, kRounding);
  // The top label of the baseline is class 0, which did not happen.
  EXPECT_NEAR(result->binned_error.difference, 0.25 - 0.5, kRounding);
  for (const ScoreDifference& score : {result->log_loss, result->brier, result->binned_error}) {
    EXPECT_FALSE(score.better());
    EXPECT_FALSE(score.worse());
  }
}

TEST(ComparisonTest, PairedIntervalIsTheConfidenceSequenceOfTheDifferences) {
  const PredictionSet model = Constant(0.75, 400);
  const PredictionSet baseline = Constant(0.5, 400);
  const auto result = ComparePaired(model.view(), baseline.view());
  ASSERT_TRUE(result.ok()) << result.status();
  const RunningMoments brier{.count = 400, .mean = -0.375, .m2 = 0};
  EXPECT_NEAR(result->brier.lower, *LowerConfidenceSequence(brier, 2, 0.025), kRounding);
  EXPECT_NEAR(result->brier.upper, *UpperConfidenceSequence(brier, 2, 0.025), kRounding);
  EXPECT_TRUE(result->brier.better());
  const auto reversed = ComparePaired(baseline.view(), model.view());
  ASSERT_TRUE(reversed.ok()) << reversed.status();
  EXPECT_TRUE(reversed->brier.worse());
  EXPECT_NEAR(reversed->brier.upper, -result->brier.lower, kRounding);
}

TEST(ComparisonTest, LogLossIsFiniteForALabelWithProbabilityZero) {
  const PredictionSet model = Constant(0, 3);
  const PredictionSet baseline = Constant(1, 3);
  const auto result = ComparePaired(model.view(), baseline.view());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->log_loss.difference, std::log(1000), kRounding);
  EXPECT_NEAR(result->brier.difference, 2, kRounding);
}

TEST(ComparisonTest, TheSameModelTwiceDiffersByZero) {
  const PredictionSet model = Constant(0.75, 1000);
  const auto result = ComparePaired(model.view(), model.view());
  ASSERT_TRUE(result.ok()) << result.status();
  for (const ScoreDifference& score : {result->log_loss, result->brier, result->binned_error}) {
    EXPECT_EQ(score.difference, 0);
    EXPECT_LT(score.lower, 0);
    EXPECT_GT(score.upper, 0);
  }
}

TEST(ComparisonTest, RefusesWhatIsNotComparable) {
  const PredictionSet two = Constant(0.75, 2);
  PredictionSet three{.probabilities = {0.5, 0.25, 0.25}, .labels = {1}, .class_count = 3};
  PredictionSet other = two;
  other.labels[1] = 0;
  const PredictionBatch none = two.view().rows(0, 0);
  EXPECT_EQ(ComparePaired(two.view(), three.view()).status().message(),
            "the model has 2 classes and the baseline has 3, expected the same");
  EXPECT_EQ(CompareUnpaired(two.view(), three.view()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ComparePaired(two.view(), other.view()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ComparePaired(two.view(), two.view().rows(0, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ComparePaired(none, none).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CompareUnpaired(two.view(), none).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Random predictions of three classes for n observations.
PredictionSet Random(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  PredictionSet set;
  set.class_count = 3;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = static_cast<double>(random() >> 11) * 0x1p-53;
    const double b = (1 - a) * static_cast<double>(random() >> 11) * 0x1p-53;
    set.probabilities.insert(set.probabilities.end(), {a, b, 1 - a - b});
    set.labels.push_back(static_cast<std::int32_t>(random() % 3));
  }
  return set;
}

TEST(RunningComparisonTest, TheDivisionIntoCallsChangesNoBit) {
  constexpr std::size_t kRows = 500;
  const PredictionSet model = Random(kRows, 1);
  const PredictionSet baseline = Random(kRows, 2);
  RunningComparison whole;
  EXPECT_FALSE(whole.Read().has_value());
  whole.Add(model.view(), baseline.view());
  std::mt19937_64 random(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    RunningComparison parts;
    for (std::size_t first = 0; first < kRows;) {
      const std::size_t count = std::min<std::size_t>(random() % 70, kRows - first);
      // A copy continues like the original.
      RunningComparison copy = parts;
      copy.Add(model.view().rows(first, count), baseline.view().rows(first, count));
      parts = copy;
      first += count;
    }
    EXPECT_EQ(parts, whole);
  }
}

TEST(RunningComparisonTest, EqualsComparePairedAndIgnoresTheLabelsOfTheBaseline) {
  const PredictionSet model = Random(300, 4);
  PredictionSet baseline = Random(300, 5);
  RunningComparison running;
  running.Add(model.view(), baseline.view());
  baseline.labels = model.labels;
  const auto paired = ComparePaired(model.view(), baseline.view());
  ASSERT_TRUE(paired.ok()) << paired.status();
  const auto read = running.Read();
  ASSERT_TRUE(read.has_value());
  for (const auto score : {&Comparison::log_loss, &Comparison::brier, &Comparison::binned_error}) {
    EXPECT_EQ((*read.*score).model, ((*paired).*score).model);
    EXPECT_EQ((*read.*score).baseline, ((*paired).*score).baseline);
    EXPECT_EQ((*read.*score).difference, ((*paired).*score).difference);
    EXPECT_EQ((*read.*score).lower, ((*paired).*score).lower);
    EXPECT_EQ((*read.*score).upper, ((*paired).*score).upper);
  }
}

TEST(RunningComparisonTest, AProbabilityAboveOneCountsAsOne) {
  PredictionSet model;
  AddBinary(model, 1.0005, 1);
  RunningComparison running;
  running.Add(model.view(), Constant(1, 1).view());
  EXPECT_EQ(running.model_top_label, running.baseline_top_label);
}

// Labels are 1 with probability q, uniform in [.1, .9]. The baseline states q, and the model q
// moved by a tenth towards 1/2, so that E[Brier difference | q] = 2 (.1 (q - .5))^2, whose mean is
// 2 / 100 (.8^2 / 12).
TEST(ComparisonTest, IntervalsHoldTheTrueDifferenceAtSeveralTimes) {
  constexpr int kStreams = 300;
  constexpr std::size_t kLength = 1000;
  constexpr double kTruth = 0.02 * 0.64 / 12;
  int paired_wrong = 0;
  int unpaired_wrong = 0;
  double paired_width = 0;
  double unpaired_width = 0;
  std::mt19937_64 random(16);
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int stream = 0; stream < kStreams; ++stream) {
    PredictionSet model;
    PredictionSet baseline;
    PredictionSet separate;
    for (std::size_t i = 0; i < kLength; ++i) {
      const double q = 0.1 + 0.8 * uniform();
      const std::int32_t label = uniform() < q ? 1 : 0;
      AddBinary(model, q - 0.1 * (q - 0.5), label);
      AddBinary(baseline, q, label);
      const double other = 0.1 + 0.8 * uniform();
      AddBinary(separate, other, uniform() < other ? 1 : 0);
    }
    bool paired_held = true;
    bool unpaired_held = true;
    for (std::size_t n = 1; n <= kLength; n *= 10) {
      const PredictionBatch rows = model.view().rows(0, n);
      const auto paired = ComparePaired(rows, baseline.view().rows(0, n));
      const auto unpaired = CompareUnpaired(rows, separate.view().rows(0, n));
      ASSERT_TRUE(paired.ok() && unpaired.ok());
      paired_held &= paired->brier.lower <= kTruth && kTruth <= paired->brier.upper;
      unpaired_held &= unpaired->brier.lower <= kTruth && kTruth <= unpaired->brier.upper;
      if (n < kLength) continue;
      paired_width += paired->brier.upper - paired->brier.lower;
      unpaired_width += unpaired->brier.upper - unpaired->brier.lower;
    }
    paired_wrong += paired_held ? 0 : 1;
    unpaired_wrong += unpaired_held ? 0 : 1;
  }
  // 3 standard deviations of the binomial count above its mean at the promised level.
  const double most = kStreams * kComparisonLevel +
                      3 * std::sqrt(kStreams * kComparisonLevel * (1 - kComparisonLevel));
  EXPECT_LE(paired_wrong, most);
  EXPECT_LE(unpaired_wrong, most);
  EXPECT_LT(paired_width, unpaired_width / 2);
}

}  // namespace
}  // namespace calibd
