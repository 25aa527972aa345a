#include "calibd/core/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/generator.h"
#include "support/draw.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using testing::RelativeDifference;

// The score of the best nondecreasing recalibration by the max-min formula over distinct
// probabilities: an independent O(n^3) method for isotonic regression.
double IsotonicScore(const BinaryPredictions& predictions) {
  std::vector<double> distinct = predictions.probabilities;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto mean = [&](double low, double high) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      if (predictions.probabilities[i] < low || predictions.probabilities[i] > high) continue;
      sum += predictions.outcomes[i];
      count += 1;
    }
    return sum / count;
  };
  double score = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    double value = -std::numeric_limits<double>::infinity();
    for (const double low : distinct) {
      if (low > predictions.probabilities[i]) break;
      double least = std::numeric_limits<double>::infinity();
      for (const double high : distinct) {
        if (high >= predictions.probabilities[i]) least = std::min(least, mean(low, high));
      }
      value = std::max(value, least);
    }
    const double residual = value - predictions.outcomes[i];
    score += residual * residual / static_cast<double>(predictions.size());
  }
  return score;
}

TEST(ScoresTest, MatchTheSmallCases) {
  for (const auto& small : testing::SmallCases()) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const PredictionSet set = testing::ToPredictionSet(small);
    const auto scores = ComputeScores(set.view());
    EXPECT_LE(RelativeDifference(scores->brier, small.at("brier")), 1e-12);
    EXPECT_LE(RelativeDifference(scores->log_loss, small.at("nll")), 1e-12);
    EXPECT_LE(RelativeDifference(scores->accuracy, small.at("accuracy")), 1e-12);
  }
}

class ScoresCifar10Test : public ::testing::TestWithParam<const char*> {};

TEST_P(ScoresCifar10Test, MatchTheReference) {
  const auto set = testing::ReadCifar10(GetParam());
  if (!set) GTEST_SKIP() << "no predictions in " << testing::Cifar10Dir();
  const auto expected = testing::ReadJson(testing::Cifar10Dir() / "expected.json").at(GetParam());
  const auto scores = ComputeScores(set->view());
  EXPECT_LE(RelativeDifference(scores->brier, expected.at("brier")), 1e-10);
  EXPECT_LE(RelativeDifference(scores->log_loss, expected.at("nll")), 1e-10);
  EXPECT_LE(RelativeDifference(scores->accuracy, expected.at("accuracy")), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Networks, ScoresCifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"),
                         [](const auto& network) { return std::string(network.param); });

TEST(ScoresTest, StateSharpnessAndDirection) {
  const PredictionSet set{{0.5, 0.5, 0.0, 0.0, 1.0, 0.0}, {0, 2}, 3};
  const auto scores = ComputeScores(set.view());
  EXPECT_EQ(scores->n, 2u);
  EXPECT_DOUBLE_EQ(scores->mean_entropy, std::log(2) / 2);
  EXPECT_DOUBLE_EQ(scores->mean_confidence, 0.75);
  EXPECT_DOUBLE_EQ(scores->accuracy, 0.5);
  EXPECT_DOUBLE_EQ(scores->confidence_minus_accuracy, 0.25);
  EXPECT_DOUBLE_EQ(scores->brier, (0.5 + 2) / 2);
  // A label with predicted probability 0 costs 52 ln 2 nats.
  EXPECT_DOUBLE_EQ(scores->log_loss, (std::log(2) + 52 * std::log(2)) / 2);
}

TEST(ScoresTest, NeedAnObservation) {
  const PredictionSet none{{}, {}, 3};
  EXPECT_EQ(ComputeScores(none.view()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DecomposeCorpClassWise(none.view()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DecomposeCorp({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DecomposeByBins(BinaryPredictions{}, 10).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

void ExpectIdentity(const MurphyDecomposition& terms) {
  EXPECT_NEAR(terms.score,
              terms.miscalibration - terms.discrimination + terms.uncertainty +
                  terms.within_bin_variance - terms.within_bin_covariance,
              1e-12);
  EXPECT_GE(terms.miscalibration, 0);
  EXPECT_GE(terms.discrimination, 0);
  EXPECT_GE(terms.uncertainty, 0);
  EXPECT_GE(terms.within_bin_variance, 0);
}

TEST(MurphyDecompositionTest, MatchesValuesComputedByHand) {
  // Bins {.1, .3} with one of two events, {.8} with an event.
  const BinaryPredictions predictions{{0.1, 0.3, 0.8}, {0, 1, 1}};
  const auto terms = DecomposeByBins(predictions, 2);
  EXPECT_DOUBLE_EQ(terms->score, (0.01 + 0.49 + 0.04) / 3);
  EXPECT_DOUBLE_EQ(terms->miscalibration, (2 * 0.3 * 0.3 + 0.2 * 0.2) / 3);
  EXPECT_DOUBLE_EQ(terms->discrimination, (2.0 / 36 + 1.0 / 9) / 3);
  EXPECT_DOUBLE_EQ(terms->uncertainty, 2.0 / 9);
  EXPECT_DOUBLE_EQ(terms->within_bin_variance, 0.02 / 3);
  EXPECT_DOUBLE_EQ(terms->within_bin_covariance, 2 * 0.1 / 3);
  ExpectIdentity(*terms);
}

TEST(MurphyDecompositionTest, AddsUpToTheBrierScoreOnEveryModelAndBinning) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const auto& spec : {GeneratorSpec::M1(4), GeneratorSpec::M2(4), GeneratorSpec::M3(4)}) {
      const PredictionSet set = Draw(spec, 50 + seed, seed);
      const double brier = ComputeScores(set.view())->brier;
      for (const auto& partition :
           {*PartitionUniformly(set.view(), 5), *PartitionByMedianVariance(set.view(), 9)}) {
        const MurphyDecomposition terms = DecomposeByBins(set.view(), partition);
        EXPECT_NEAR(terms.score, brier, 1e-12);
        ExpectIdentity(terms);
      }
      ExpectIdentity(*DecomposeByBins(TopLabelPredictions(set.view()), 15));
    }
  }
}

TEST(MurphyDecompositionTest, HasNoWithinBinTermsIfBinsContainEqualPredictions) {
  const PredictionSet set{{0.3, 0.7, 0.3, 0.7, 0.9, 0.1}, {0, 1, 0}, 2};
  const MurphyDecomposition terms =
      DecomposeByBins(set.view(), *PartitionUniformly(set.view(), 10));
  EXPECT_NEAR(terms.within_bin_variance, 0, 1e-30);
  EXPECT_NEAR(terms.within_bin_covariance, 0, 1e-16);
  ExpectIdentity(terms);
}

TEST(CorpDecompositionTest, MatchesValuesComputedByHand) {
  // Pooling: .2 -> 0; .4 and .6 (1, 0) -> 1/2; .9 -> 1.
  const auto terms = DecomposeCorp({{0.9, 0.4, 0.2, 0.6}, {1, 1, 0, 0}});
  EXPECT_DOUBLE_EQ(terms->score, (0.01 + 0.36 + 0.04 + 0.36) / 4);
  EXPECT_DOUBLE_EQ(terms->miscalibration, (0.77 - 0.5) / 4);
  EXPECT_DOUBLE_EQ(terms->discrimination, 0.25 - 0.5 / 4);
  EXPECT_DOUBLE_EQ(terms->uncertainty, 0.25);
}

TEST(CorpDecompositionTest, PoolsTies) {
  // Equal predictions are pooled, whatever the order of their outcomes.
  const auto terms = DecomposeCorp({{0.5, 0.5, 0.5, 0.5}, {0, 0, 1, 1}});
  EXPECT_DOUBLE_EQ(terms->miscalibration, 0);
  EXPECT_DOUBLE_EQ(terms->discrimination, 0);
  EXPECT_DOUBLE_EQ(terms->score, 0.25);
}

TEST(CorpDecompositionTest, AcceptsCertainAndOneSidedPredictions) {
  const auto right = DecomposeCorp({{0, 1, 1}, {0, 1, 1}});
  EXPECT_EQ(right->score, 0);
  EXPECT_EQ(right->miscalibration, 0);
  EXPECT_DOUBLE_EQ(right->discrimination, right->uncertainty);
  const auto wrong = DecomposeCorp({{0, 1}, {1, 0}});
  EXPECT_DOUBLE_EQ(wrong->score, 1);
  EXPECT_DOUBLE_EQ(wrong->miscalibration, 0.75);
  EXPECT_DOUBLE_EQ(wrong->discrimination, 0);
  const auto never = DecomposeCorp({{0.2, 0.3}, {0, 0}});
  EXPECT_EQ(never->uncertainty, 0);
  EXPECT_EQ(never->discrimination, 0);
  EXPECT_DOUBLE_EQ(never->miscalibration, never->score);
}

TEST(CorpDecompositionTest, IsNonnegativeAndAddsUp) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    for (const auto& spec : {GeneratorSpec::M1(3), GeneratorSpec::M2(3), GeneratorSpec::M3(3)}) {
      const PredictionSet set = Draw(spec, 1 + 2 * seed, seed);
      const auto all = DecomposeCorpClassWise(set.view());
      std::vector<CorpDecomposition> decompositions = {
          *all, *DecomposeCorp(TopLabelPredictions(set.view()))};
      for (std::size_t k = 0; k < 3; ++k) {
        decompositions.push_back(*DecomposeCorp(*ClassPredictions(set.view(), k)));
      }
      for (const CorpDecomposition& terms : decompositions) {
        EXPECT_NEAR(terms.miscalibration - terms.discrimination + terms.uncertainty, terms.score,
                    1e-13);
        EXPECT_GE(terms.miscalibration, 0);
        EXPECT_GE(terms.discrimination, 0);
        EXPECT_GE(terms.uncertainty, 0);
        EXPECT_LE(terms.discrimination, terms.uncertainty + 1e-15);
      }
      EXPECT_NEAR(all->score, ComputeScores(set.view())->brier, 1e-13);
    }
  }
}

TEST(CorpDecompositionTest, RecalibratesByIsotonicRegression) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    BinaryPredictions predictions =
        TopLabelPredictions(Draw(GeneratorSpec::M2(3), 40, seed).view());
    // Two decimals, so that there are ties.
    for (double& p : predictions.probabilities) p = std::round(p * 20) / 20;
    const auto terms = DecomposeCorp(predictions);
    EXPECT_NEAR(terms->score - terms->miscalibration, IsotonicScore(predictions), 1e-13);
  }
}

}  // namespace
}  // namespace calibd
