#include "calibd/core/forecast_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "calibd/core/evaluation.h"

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Forecasts N(0, 1) of outcomes that are too high where the first feature is positive, and as much
// too low where it is negative. The second feature does not matter, and the third is constant.
struct Biased {
  explicit Biased(std::size_t n, double bias = 0.6) {
    std::mt19937_64 rng(7);
    std::normal_distribution<double> normal;
    covariates.feature_count = 3;
    for (std::size_t i = 0; i < n; ++i) {
      const double feature = normal(rng);
      forecasts.insert(forecasts.end(), {0, 1});
      outcomes.push_back((feature > 0 ? bias : -bias) + std::sqrt(1 - bias * bias) * normal(rng));
      covariates.features.insert(covariates.features.end(), {feature, 1e6 * normal(rng), 4});
      covariates.groups.push_back(feature > 0 ? 17 : -3);
    }
    covariates.local_features = {1};
  }

  [[nodiscard]] absl::StatusOr<ForecastEvaluation> Evaluated(
      std::size_t test_rows = std::numeric_limits<std::size_t>::max()) const {
    ForecastEvaluationOptions options;
    options.test_rows = test_rows;
    options.resampling = {.replicates = 199, .seed = 3, .null = NullHypothesis::kForecast};
    return EvaluateForecasts(NormalForecasts(), {forecasts, outcomes}, options, covariates);
  }

  std::vector<double> forecasts;
  std::vector<double> outcomes;
  ForecastCovariates covariates;
};

std::vector<std::string> FormNames(const ForecastEvaluation& evaluation) {
  std::vector<std::string> names;
  for (const NamedDiscrepancy& named : evaluation.discrepancies) names.push_back(named.form);
  return names;
}

TEST(ForecastEvaluationTest, CovariatesFindErrorsThatCancelOnAverage) {
  const Biased data(800);
  const auto evaluation = data.Evaluated();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_THAT(FormNames(*evaluation),
              ElementsAre("distribution", "marginal", "group", "individual", "local"));
  const auto p = [&](std::size_t k) { return evaluation->discrepancies[k].result.p_value; };
  // The outcomes are N(0, 1) over all rows.
  EXPECT_GT(p(1), 0.01);
  EXPECT_EQ(p(2), 1.0 / 200);
  EXPECT_EQ(p(3), 1.0 / 200);
  // The feature that does not matter, alone.
  EXPECT_GT(p(4), 0.01);
  // The definitions use the kernel of the groups, and that of the scaled features.
  const ForecastBatch batch{ForecastKind::kNormal, data.forecasts, 2, {}, data.outcomes};
  LossOptions loss;
  loss.outcome_kernel = evaluation->discrepancies[2].result.outcome_kernel;
  loss.condition = GroupCondition{data.covariates.groups};
  loss.gradient = false;
  EXPECT_NEAR(evaluation->discrepancies[2].result.mmd_squared,
              ComputeLoss(batch, loss)->penalty_value, 1e-12);
}

// The tests of some rows are those of a batch that has only these; all else is that of all rows.
TEST(ForecastEvaluationTest, TestsUseTheRowsThatAreDrawn) {
  const Biased data(800);
  Biased some(0);
  const std::vector<std::size_t> rows = DrawTestRows(800, 300, /*seed=*/3);
  ASSERT_EQ(rows.size(), 300U);
  for (const std::size_t row : rows) {
    some.forecasts.insert(some.forecasts.end(), {data.forecasts[2 * row], 1});
    some.outcomes.push_back(data.outcomes[row]);
    some.covariates.groups.push_back(data.covariates.groups[row]);
    for (std::size_t k = 0; k < 3; ++k) {
      some.covariates.features.push_back(data.covariates.features[3 * row + k]);
    }
  }
  const auto all = data.Evaluated();
  const auto tested = data.Evaluated(300);
  const auto alone = some.Evaluated();
  ASSERT_TRUE(all.ok() && tested.ok() && alone.ok());
  EXPECT_EQ(all->tested, 800);
  EXPECT_EQ(data.Evaluated(800)->tested, 800);
  EXPECT_EQ(tested->tested, 300);

  EXPECT_EQ(tested->count, 800);
  EXPECT_EQ(tested->crps, all->crps);
  EXPECT_EQ(tested->log10_e_value, all->log10_e_value);
  EXPECT_EQ(tested->coverage.error.lower, all->coverage.error.lower);
  EXPECT_EQ(tested->cells[3].count, all->cells[3].count);

  EXPECT_EQ(tested->pit->cramer_von_mises.value, alone->pit->cramer_von_mises.value);
  EXPECT_EQ(tested->pit->cramer_von_mises.test.p_value, alone->pit->cramer_von_mises.test.p_value);
  EXPECT_NE(tested->pit->cramer_von_mises.value, all->pit->cramer_von_mises.value);
  ASSERT_EQ(FormNames(*tested), FormNames(*alone));
  for (std::size_t k = 0; k < tested->discrepancies.size(); ++k) {
    const ForecastTestResult& one = tested->discrepancies[k].result;
    EXPECT_EQ(one.mmd_squared, alone->discrepancies[k].result.mmd_squared);
    EXPECT_EQ(one.p_value, alone->discrepancies[k].result.p_value);
  }
  ASSERT_EQ(tested->local->worst.size(), alone->local->worst.size());
  for (std::size_t k = 0; k < tested->local->worst.size(); ++k) {
    EXPECT_EQ(tested->local->worst[k].row, rows[alone->local->worst[k].row]);
    EXPECT_EQ(tested->local->worst[k].error, alone->local->worst[k].error);
  }
  EXPECT_THAT(data.Evaluated(1).status().message(),
              HasSubstr("test_rows is 1, expected at least 2"));
}

TEST(ForecastEvaluationTest, LevelsOfQuantilesAreTestedWithTheRowsThatAreDrawn) {
  const QuantileForecasts kind{{0.25, 0.75}};
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (int i = 0; i < 500; ++i) {
    forecasts.insert(forecasts.end(), {0.25, 0.75});
    outcomes.push_back(uniform(rng));
  }
  ForecastEvaluationOptions options;
  options.resampling = {.replicates = 99, .seed = 4, .null = NullHypothesis::kForecast};
  options.test_rows = 100;
  const auto evaluation = EvaluateForecasts(kind, {forecasts, outcomes}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  double below = 0;
  double above = 0;
  for (const std::size_t row : DrawTestRows(500, 100, 4)) {
    below += outcomes[row] <= 0.25 ? 0.01 : 0;
    above += outcomes[row] <= 0.75 ? 0.01 : 0;
  }
  EXPECT_NEAR(evaluation->level_error->value,
              (std::pow(below - 0.25, 2) + std::pow(above - 0.75, 2)) / 2, 1e-15);
}

// A condition made of the draws is not independent of the mean over them.
TEST(ForecastEvaluationTest, SamplesHaveNoTestOfFormsGivenTheDraws) {
  std::vector<double> draws;
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t k = 0; k < 5; ++k) draws.push_back(std::sin(5 * i + k));
    outcomes.push_back(std::sin(1000 + i));
  }
  ForecastEvaluationOptions options;
  options.resampling = {.replicates = 99, .seed = 3, .null = NullHypothesis::kForm};
  options.decision = ThresholdDecision{0.1};
  const auto evaluation =
      EvaluateForecasts(SampleForecasts{5}, {draws, outcomes}, options, ForecastCovariates());
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(FormNames(*evaluation), ElementsAre("marginal"));
  ASSERT_EQ(evaluation->left_out.size(), 3U);
  EXPECT_EQ(evaluation->left_out[0].form, "distribution");
  EXPECT_EQ(evaluation->left_out[1].form, "threshold");
  EXPECT_THAT(evaluation->left_out[1].reason, HasSubstr("null forecast"));
  EXPECT_EQ(evaluation->left_out[2].form, "decision");
}

// Most replicates of the last row are not finite.
TEST(ForecastEvaluationTest, ReplicatesBeyondTheRangeOfDoubleLeaveTheFormOut) {
  Biased data(200);
  data.covariates = ForecastCovariates();
  data.forecasts.insert(data.forecasts.end(), {0, 1.7e308});
  data.outcomes.push_back(1e307);
  const auto evaluation = data.Evaluated();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(FormNames(*evaluation), ElementsAre());
  EXPECT_EQ(evaluation->left_out.size(), 2U);
}

TEST(ForecastEvaluationTest, FeaturesThatDoNotDifferAreLeftOut) {
  Biased data(100);
  for (std::size_t i = 0; i < 100; ++i) data.covariates.features[3 * i + 1] = 4;
  const auto evaluation = data.Evaluated();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(FormNames(*evaluation),
              ElementsAre("distribution", "marginal", "group", "individual"));
  ASSERT_EQ(evaluation->left_out.size(), 1U);
  EXPECT_EQ(evaluation->left_out[0].form, "local");
  EXPECT_THAT(evaluation->left_out[0].reason, HasSubstr("the same value in all rows"));
  EXPECT_FALSE(evaluation->local.has_value());
}

// The bandwidth is chosen from the first rows.
TEST(ForecastEvaluationTest, FeaturesThatDifferOnlyLaterAreLeftOut) {
  const std::size_t n = kParameterRows + 50;
  Biased data(n);
  for (std::size_t i = 0; i < n; ++i) {
    data.covariates.features[3 * i] = 0;
    data.covariates.features[3 * i + 1] = i < kParameterRows ? 0 : std::sin(i);
  }
  const auto evaluation = data.Evaluated();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(FormNames(*evaluation), ElementsAre("distribution", "marginal", "group"));
  ASSERT_EQ(evaluation->left_out.size(), 2U);
  EXPECT_EQ(evaluation->left_out[0].form, "individual");
  EXPECT_EQ(evaluation->left_out[1].form, "local");
  EXPECT_EQ(evaluation->left_out[1].reason,
            "features: the first 1000 rows are equal, expected rows that differ");
  EXPECT_FALSE(evaluation->local.has_value());
}

TEST(ForecastEvaluationTest, HugeForecastsHaveEverythingButTheDiscrepancies) {
  Biased data(100);
  for (std::size_t i = 0; i < 100; ++i) {
    data.forecasts[2 * i] = 1e300 * std::sin(i);
    data.forecasts[2 * i + 1] = 1e298;
    data.outcomes[i] = data.forecasts[2 * i] + 1e298 * data.outcomes[i];
  }
  data.covariates = {};
  const auto evaluation = data.Evaluated();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_TRUE(evaluation->discrepancies.empty());
  ASSERT_EQ(evaluation->left_out.size(), 2U);
  EXPECT_EQ(evaluation->left_out[0].form, "distribution");
  EXPECT_THAT(evaluation->left_out[0].reason, HasSubstr("in another unit"));
}

TEST(ForecastEvaluationTest, EqualDrawsAndOutcomesHaveNoDiscrepancies) {
  ForecastEvaluationOptions options;
  options.resampling.replicates = 99;
  const std::vector<double> draws(20);
  const std::vector<double> outcomes(10);
  const auto evaluation = EvaluateForecasts(SampleForecasts{2}, {draws, outcomes}, options, {});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_EQ(evaluation->left_out.size(), 2U);
  EXPECT_EQ(evaluation->left_out[0].reason,
            "all draws and outcomes of the first 10 rows are equal");
}

TEST(ForecastEvaluationTest, TheLocalErrorIsByTheLocalFeatures) {
  Biased data(400);
  const auto by_noise = data.Evaluated();
  data.covariates.local_features.clear();
  const auto by_all = data.Evaluated();
  ASSERT_TRUE(by_noise.ok() && by_all.ok());
  ASSERT_TRUE(by_noise->local.has_value() && by_all->local.has_value());
  EXPECT_GT(by_noise->local->mean_error.test.p_value, 0.01);
  EXPECT_EQ(by_all->local->mean_error.test.p_value, 1.0 / 200);
  EXPECT_EQ(by_all->local->worst.front().p_value, 1.0 / 200);
}

TEST(ForecastEvaluationTest, TheUnitOfAFeatureHasNoEffect) {
  Biased data(200);
  const auto evaluation = data.Evaluated();
  for (std::size_t i = 0; i < 200; ++i) data.covariates.features[3 * i] *= 1024;
  const auto scaled = data.Evaluated();
  ASSERT_TRUE(evaluation.ok() && scaled.ok());
  EXPECT_DOUBLE_EQ(evaluation->discrepancies[3].result.mmd_squared,
                   scaled->discrepancies[3].result.mmd_squared);
}

TEST(ForecastEvaluationTest, AThresholdIsTestedOnBothSides) {
  const Biased data(100);
  ForecastEvaluationOptions options;
  options.resampling = {.replicates = 99, .seed = 3, .null = NullHypothesis::kForecast};
  options.decision = ThresholdDecision{0.5};
  const auto evaluation =
      EvaluateForecasts(NormalForecasts(), {data.forecasts, data.outcomes}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_THAT(FormNames(*evaluation),
              ElementsAre("distribution", "marginal", "threshold", "decision"));
}

TEST(ForecastEvaluationTest, InvalidCovariatesAreNamed) {
  const auto message = [](const Biased& data) {
    return std::string(data.Evaluated().status().message());
  };
  Biased data(20);
  data.covariates.features[31] = std::nan("");
  EXPECT_THAT(message(data), HasSubstr("features[10][1] is nan, expected a finite number"));
  data = Biased(20);
  data.covariates.features.pop_back();
  EXPECT_THAT(message(data), HasSubstr("features has 59 values, expected 60"));
  data = Biased(20);
  data.covariates.groups.pop_back();
  EXPECT_THAT(message(data), HasSubstr("groups has 19 values, expected 20"));
  data = Biased(20);
  data.covariates.local_features = {3};
  EXPECT_THAT(message(data), HasSubstr("local_features has 3, expected less than 3"));
}

}  // namespace
}  // namespace calibd
