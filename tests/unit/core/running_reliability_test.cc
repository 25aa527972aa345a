#include "calibd/core/running_reliability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/binned_error.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/scores.h"
#include "support/draw.h"

namespace calibd {
namespace {

TEST(RunningReliabilityTest, HasTheScoresAndTheErrorOfTheWholeBatch) {
  for (const std::size_t m : {std::size_t{2}, std::size_t{10}, std::size_t{100}}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(m), 1000, m);
    RunningReliability running;
    running.Add(set.view());
    const Scores scores = *ComputeScores(set.view());
    const RunningReliability::Bin total = running.Total();
    EXPECT_EQ(total.count, 1000);
    EXPECT_NEAR(running.brier / 1000, scores.brier, 1e-12);
    EXPECT_NEAR(running.log_loss / 1000, scores.log_loss, 1e-12);
    EXPECT_NEAR(static_cast<double>(total.correct) / 1000, scores.accuracy, 1e-15);
    EXPECT_NEAR(total.confidence / 1000, scores.mean_confidence, 1e-12);
    const BinnedError error =
        *EstimateBinnedError(set.view(), TopLabelBins{.bins = kReliabilityBinCount});
    EXPECT_NEAR(running.ExpectedCalibrationError(), error.ece, 1e-12);
  }
}

TEST(RunningReliabilityTest, OneObservationOrOneOfManyPlacesDoesNotStandOut) {
  // 2 exp(-v h(t / v)) for t = 20 and v = 25 is 2 exp(-25 (1.8 log 1.8 - 0.8)) = 3.1e-3.
  EXPECT_TRUE(StandsOut(20, 25, 15));
  EXPECT_TRUE(StandsOut(-20, 25, 15));
  EXPECT_FALSE(StandsOut(20, 25, 17));
  EXPECT_FALSE(StandsOut(0, 0, 1));
  EXPECT_FALSE(StandsOut(1, 0, 1));
  EXPECT_FALSE(StandsOut(std::nan(""), 1, 1));
  // With many observations, Z decides: the threshold for 25 places is sqrt(2 log(1000)) = 3.72.
  EXPECT_FALSE(StandsOut(3.7e4, 1e8, 25));
  EXPECT_TRUE(StandsOut(3.74e4, 1e8, 25));
  // Nine and ten observations have the same surprise.
  EXPECT_FALSE((RunningReliability::Bin{9, 0, 8.9, 0.1}.StandsOut(25)));
  EXPECT_TRUE((RunningReliability::Bin{10, 0, 9.9, 0.1}.StandsOut(25)));
  EXPECT_TRUE((RunningClassFrequencies::Class{0, 9.9, 0.1}.StandsOut(25)));
}

TEST(RunningReliabilityTest, PartsAddUpAndBatchesDoNotMatter) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 500, 1);
  RunningReliability whole;
  whole.Add(set.view());
  RunningReliability by_rows;
  for (std::size_t i = 0; i < 500; ++i) by_rows.Add(set.view().rows(i, 1));
  EXPECT_EQ(by_rows, whole);

  RunningReliability first;
  RunningReliability second;
  first.Add(set.view().rows(0, 123));
  second.Add(set.view().rows(123, 377));
  first.Merge(second);
  EXPECT_NEAR(first.brier, whole.brier, 1e-11);
  EXPECT_NEAR(first.log_loss, whole.log_loss, 1e-11);
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    EXPECT_EQ(first.bins[b].count, whole.bins[b].count);
    EXPECT_EQ(first.bins[b].correct, whole.bins[b].correct);
    EXPECT_NEAR(first.bins[b].confidence, whole.bins[b].confidence, 1e-11);
    EXPECT_NEAR(first.bins[b].variance, whole.bins[b].variance, 1e-11);
  }
}

TEST(RunningReliabilityTest, Edges) {
  RunningReliability running;
  EXPECT_EQ(running.ExpectedCalibrationError(), 0);
  EXPECT_EQ(running.Total().Z(), 0);
  // Certain and right, certain and wrong, and one that exceeds 1 by rounding.
  const std::vector<double> rows{1, 0, 0, 1, 1 + 1e-4, 0};
  const std::vector<std::int32_t> labels{0, 0, 0};
  running.Add({rows, labels, 2});
  EXPECT_EQ(running.bins.back().count, 3);
  EXPECT_EQ(running.bins.back().correct, 2);
  EXPECT_EQ(running.bins.back().variance, 0);
  EXPECT_EQ(running.bins.back().Z(), 0);
  EXPECT_NEAR(running.log_loss, 52 * std::log(2), 1e-3);
  EXPECT_TRUE(std::isfinite(running.brier));
}

TEST(RunningReliabilityTest, ZIsStandardNormalForACalibratedModelAndLargeForAnother) {
  RunningMoments z;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RunningReliability running;
    running.Add(Draw(GeneratorSpec::M1(5), 200, seed).view());
    z.Add(running.Total().Z());
  }
  // Four standard deviations of the mean and of the variance of 400 normal values.
  EXPECT_NEAR(z.mean, 0, 4 / std::sqrt(400.));
  EXPECT_NEAR(z.Variance(), 1, 4 * std::sqrt(2 / 399.));
  RunningReliability over_confident;
  over_confident.Add(Draw(GeneratorSpec::M2(5), 2000, 1).view());
  EXPECT_GT(std::abs(over_confident.Total().Z()), 4);
}

TEST(RunningClassFrequenciesTest, CountsAndPredictsEachClass) {
  const PredictionSet set = Draw(GeneratorSpec::M1(4), 300, 3);
  RunningClassFrequencies running(4);
  running.Add(set.view());
  for (std::size_t k = 0; k < 4; ++k) {
    std::int64_t labels = 0;
    double predicted = 0;
    double variance = 0;
    for (std::size_t i = 0; i < 300; ++i) {
      const double g = set.view().row(i)[k];
      labels += set.labels[i] == static_cast<std::int32_t>(k) ? 1 : 0;
      predicted += g;
      variance += g * (1 - g);
    }
    EXPECT_EQ(running.classes()[k].labels, labels);
    EXPECT_NEAR(running.classes()[k].predicted, predicted, 1e-11);
    EXPECT_NEAR(running.classes()[k].Z(),
                (static_cast<double>(labels) - predicted) / std::sqrt(variance), 1e-11);
  }
}

TEST(RunningClassFrequenciesTest, NamesTheMostDeviatingFirst) {
  RunningClassFrequencies running({{.labels = 10, .predicted = 10, .variance = 4},
                                   {.labels = 5, .predicted = 9, .variance = 4},
                                   {.labels = 15, .predicted = 9, .variance = 4},
                                   {.labels = 1, .predicted = 1, .variance = 0}});
  EXPECT_EQ(running.MostDeviating(5), (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(running.MostDeviating(1), std::vector<std::size_t>{2});
  EXPECT_TRUE(RunningClassFrequencies(3).MostDeviating(3).empty());
}

}  // namespace
}  // namespace calibd
