#include "calibd/core/forecast_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_forms.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json MetricCases(const std::string& kind) {
  json cases = json::array();
  for (const json& small :
       testing::ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json")) {
    if (small.at("kind") == kind) cases.push_back(small);
  }
  return cases;
}

std::vector<double> FlattenRows(const json& rows) {
  std::vector<double> values;
  for (const json& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

// The forecasts of a small case, with their own memory.
struct SmallNormals {
  explicit SmallNormals(const json& small) : outcomes(small.at("y")) {
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      values.push_back(small.at("mean").at(i));
      values.push_back(small.at("standard_deviation").at(i));
    }
  }
  [[nodiscard]] ForecastBatch view() const {
    return {ForecastKind::kNormal, values, 2, {}, outcomes};
  }

  std::vector<double> values;
  std::vector<double> outcomes;
};

void ExpectClose(double actual, const json& expected) {
  EXPECT_NEAR(actual, expected.get<double>(), 1e-12 + 1e-9 * std::abs(expected.get<double>()));
}

TEST(ForecastMetricsTest, MatchTheSmallCases) {
  for (const json& small : MetricCases("forecast")) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const SmallNormals rows(small);
    const std::vector<double> pit = ProbabilityIntegralTransforms(rows.view(), 1);
    ASSERT_EQ(pit.size(), rows.outcomes.size());
    for (std::size_t i = 0; i < pit.size(); ++i) ExpectClose(pit[i], small.at("pit").at(i));
    ExpectClose(QuantileCalibrationError(pit), small.at("qce_tv20"));
    ExpectClose(QuantileLevelError(pit), small.at("qce_levels20"));
    ExpectClose(CramerVonMises(pit), small.at("cramer_von_mises"));
    const std::vector<double> features = FlattenRows(small.at("X"));
    const std::size_t width = features.size() / pit.size();
    for (std::size_t i = 0; i < pit.size(); ++i) {
      const std::span<const double> x = std::span(features).subspan(i * width, width);
      const auto error = LocalCalibrationError(pit, features, x, small.at("gamma_x"));
      ASSERT_TRUE(error.has_value());
      ExpectClose(*error, small.at("lce_total20_at_rows").at(i));
    }
  }
}

TEST(ForecastMetricsTest, OfSamplesTheTransformIsUniformForAnyTies) {
  // All draws and the outcome are 0: the rank is uniform by its random part alone.
  const std::vector<double> draws(2 * 5000, 0.0);
  const std::vector<double> outcomes(5000, 0.0);
  const ForecastBatch batch{ForecastKind::kSamples, draws, 2, {}, outcomes};
  const std::vector<double> pit = ProbabilityIntegralTransforms(batch, 7);
  // The 1e-6 quantile of n times the statistic is below 2.5.
  EXPECT_LT(5000 * CramerVonMises(pit), 2.5);
  EXPECT_EQ(pit, ProbabilityIntegralTransforms(batch, 7));
  EXPECT_NE(pit, ProbabilityIntegralTransforms(batch, 8));
  // Without ties the transform lies between the bounds of its rank.
  const std::vector<double> four{3, 1, 2, 4};
  const std::vector<double> between{2.5};
  const double u =
      ProbabilityIntegralTransforms({ForecastKind::kSamples, four, 4, {}, between}, 3)[0];
  EXPECT_GT(u, 0.4);
  EXPECT_LT(u, 0.6);
}

TEST(ForecastMetricsTest, AtTheEdges) {
  EXPECT_NEAR(QuantileCalibrationError(std::vector{1.0}), 0.95, 1e-15);
  EXPECT_NEAR(QuantileCalibrationError(std::vector{0.0}), 0.95, 1e-15);
  // F_1 is 1 from 0 on: the integral of (1 - t)^2.
  EXPECT_NEAR(CramerVonMises(std::vector{0.0}), 1.0 / 3, 1e-15);
  EXPECT_NEAR(CramerVonMises(std::vector{0.5}), 1.0 / 12, 1e-15);
  // One transform in the middle of each bin.
  std::vector<double> even;
  for (int i = 0; i < 20; ++i) even.push_back((i + 0.5) / 20);
  EXPECT_NEAR(QuantileCalibrationError(even), 0, 1e-15);
  EXPECT_NEAR(QuantileLevelError(even), 0, 1e-15);
  // The point is too far from all rows.
  EXPECT_EQ(LocalCalibrationError(even, std::vector<double>(20, 0.0), std::vector{1e3}, 1),
            std::nullopt);
}

TEST(DecisionCalibrationTest, MatchesTheSmallCases) {
  int tested = 0;
  for (const json& small : MetricCases("classification")) {
    if (!small.contains("decision")) continue;
    SCOPED_TRACE(small.at("name").get<std::string>());
    const json& expected = small.at("decision");
    const std::vector<double> probabilities = FlattenRows(small.at("P"));
    const std::vector<std::int32_t> labels = small.at("y0");
    const auto decision =
        EvaluateDecisions({probabilities, labels, small.at("m")}, FlattenRows(expected.at("loss")));
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_EQ(decision->actions, expected.at("action").get<std::vector<std::size_t>>());
    ExpectClose(std::sqrt(decision->squared_error), expected.at("dce"));
    ExpectClose(decision->squared_error, expected.at("dce_sq_biased"));
    ExpectClose(decision->squared_error_unbiased, expected.at("dce_sq_unbiased"));
    ExpectClose(decision->given_action, expected.at("conditional_dce_sq_biased"));
    ExpectClose(decision->given_action_unbiased, expected.at("conditional_dce_sq_unbiased"));
    ExpectClose(decision->realised_loss, expected.at("realised_loss"));
    ExpectClose(decision->expected_loss, expected.at("expected_loss"));
    ++tested;
  }
  EXPECT_EQ(tested, 2);
  for (const json& small : MetricCases("forecast")) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const SmallNormals rows(small);
    const auto decision = EvaluateThreshold(rows.view(), {small.at("decision_c").get<double>()});
    ASSERT_TRUE(decision.ok()) << decision.status();
    ExpectClose(std::sqrt(decision->squared_error), small.at("dce"));
    ExpectClose(decision->realised_loss, small.at("decision_realised_loss"));
    ExpectClose(decision->expected_loss, small.at("decision_expected_loss"));
    // The squared error is half of the biased discrepancy of the threshold kernel.
    ExpectClose(2 * decision->squared_error, small.at("mmd").at("decision_sign").at("biased"));
    ExpectClose(2 * decision->squared_error_unbiased,
                small.at("mmd").at("decision_sign").at("unbiased"));
  }
}

TEST(DecisionCalibrationTest, CountsDrawsAndRefusesInvalidLosses) {
  const std::vector<double> draws{1, 2, 3, 4, 5, 6};
  const std::vector<double> outcomes{0, 7};
  const ForecastBatch samples{ForecastKind::kSamples, draws, 3, {}, outcomes};
  const auto decision = EvaluateThreshold(samples, {2});
  ASSERT_TRUE(decision.ok());
  // Probabilities above: 2/3 and 1.
  EXPECT_THAT(decision->actions, ElementsAre(1, 1));
  // Two of 0, 1, 2, 3 reach the threshold: whichever is the outcome, most of the others are on the
  // other side. All of 4, 5, 6, 7 do.
  EXPECT_DOUBLE_EQ(decision->expected_loss, (1.0 + 0.0) / 2);
  EXPECT_DOUBLE_EQ(decision->realised_loss, 0.5);
  EXPECT_FALSE(EvaluateThreshold(samples, {std::nan("")}).ok());
  EXPECT_FALSE(EvaluateThreshold(samples, {2, 0, 1}).ok());
  const std::vector<double> probabilities{0.25, 0.75};
  const std::vector<std::int32_t> labels{0};
  const PredictionBatch classes{probabilities, labels, 2};
  EXPECT_THAT(EvaluateDecisions(classes, std::vector{1.0, 2.0, 3.0}).status().message(),
              HasSubstr("loss has 3 values, expected a row of 2 values"));
  EXPECT_THAT(EvaluateDecisions(classes, std::vector{1.0, std::nan("")}).status().message(),
              HasSubstr("loss[1] is nan"));
  // One row: the unbiased estimates need two.
  const auto one = EvaluateDecisions(classes, std::vector{0.0, 1.0, 1.0, 0.0});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->squared_error_unbiased, 0);
}

TEST(DecisionCalibrationTest, CostsDecideAtTheThreshold) {
  // The probabilities of reaching 0 are .5, .84 and .16, and that of the break-even is 2 / 3.
  const std::vector<double> normals{0, 1, 1, 1, -1, 1};
  const std::vector<double> outcomes{0.5, -0.5, 0.5};
  const ForecastBatch batch{ForecastKind::kNormal, normals, 2, {}, outcomes};
  const ThresholdDecision costs{0, 4, 2};
  const auto decision = EvaluateThreshold(batch, costs);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->actions, ElementsAre(0, 1, 0));
  EXPECT_DOUBLE_EQ(decision->realised_loss, (2.0 + 4.0 + 2.0) / 3);
  const double below = 0.5 * std::erfc(1 / std::numbers::sqrt2);
  EXPECT_DOUBLE_EQ(decision->expected_loss, (2 * 0.5 + 4 * below + 2 * below) / 3);
  // The discrepancy does not depend on the unit of the costs, and not on the costs if the decisions
  // are the same.
  const BootstrapOptions resampling{.replicates = 99, .seed = 2, .null = NullHypothesis::kForecast};
  const auto test = TestThreshold(batch, costs, resampling);
  const auto other = TestThreshold(batch, {0, 3e99, 2e99}, resampling);
  ASSERT_TRUE(test.ok() && other.ok());
  EXPECT_NEAR(test->given_action.mmd_squared, other->given_action.mmd_squared, 1e-12);
  EXPECT_EQ(test->given_action.p_value, other->given_action.p_value);
  EXPECT_TRUE(std::isfinite(other->given_action.replicate_standard_deviation));
  ExpectClose(test->calibration_error.value, std::sqrt(decision->squared_error));
  EXPECT_EQ(test->calibration_error.test.p_value, other->calibration_error.test.p_value);
  EXPECT_TRUE(std::isfinite(other->calibration_error.test.replicate_standard_deviation));
}

TEST(DecisionCalibrationTest, ATestFindsWhatDecisionsCost) {
  // Sick with probability p, and the model says p^3: it waits too often.
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> uniform;
  const std::vector<double> loss = {0, 10, 1, 0, 50, 50};
  const BootstrapOptions resampling{.replicates = 99, .seed = 2, .null = NullHypothesis::kForm};
  for (const double power : {1.0, 3.0}) {
    std::vector<double> probabilities;
    std::vector<std::int32_t> labels;
    std::int64_t waits = 0;
    for (int i = 0; i < 3000; ++i) {
      const double sick = uniform(rng);
      const double said = std::pow(sick, power);
      probabilities.insert(probabilities.end(), {1 - said, said});
      labels.push_back(uniform(rng) < sick ? 1 : 0);
      waits += 10 * said <= 1 - said ? 1 : 0;
    }
    const PredictionBatch batch{probabilities, labels, 2};
    const auto result = TestDecisions(batch, loss, resampling);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto plain = EvaluateDecisions(batch, loss);
    ExpectClose(result->calibration.given_action_unbiased, plain->given_action_unbiased);
    ASSERT_EQ(result->actions.size(), 3U);
    EXPECT_EQ(result->actions[0].count, waits);
    EXPECT_EQ(result->actions[1].count, 3000 - waits);
    // Nobody chooses the action that always costs 50.
    EXPECT_EQ(result->actions[2].count, 0);
    EXPECT_EQ(result->actions[2].realised_loss, 0);
    const auto wait_share = static_cast<double>(waits) / 3000;
    ExpectClose(result->actions[0].realised_loss * wait_share +
                    result->actions[1].realised_loss * (1 - wait_share),
                plain->realised_loss);
    const double gap = plain->realised_loss - plain->expected_loss;
    EXPECT_LT(result->gap_lower, gap);
    EXPECT_GT(result->gap_upper, gap);
    // The tests draw labels, whatever `null` says.
    EXPECT_EQ(result->test->null, NullHypothesis::kForecast);
    EXPECT_EQ(result->calibration_error->test.null, NullHypothesis::kForecast);
    ExpectClose(result->calibration_error->value, std::sqrt(plain->squared_error));
    if (power == 1) {
      EXPECT_LT(result->gap_lower, 0);
      EXPECT_GT(result->test->p_value, 0.01);
      EXPECT_GT(result->calibration_error->test.p_value, 0.01);
    } else {
      // The unit of the losses has no effect.
      std::vector<double> small = loss;
      for (double& value : small) value *= 1e-7;
      EXPECT_EQ(TestDecisions(batch, small, resampling)->test->p_value, result->test->p_value);
      // Nor do the largest losses leave the range of double.
      std::vector<double> large = loss;
      const double unit = std::exp2(490);
      for (double& value : large) value *= unit;
      const auto scaled = TestDecisions(batch, large, resampling);
      EXPECT_EQ(scaled->test->p_value, result->test->p_value);
      EXPECT_EQ(scaled->test->replicate_standard_deviation,
                result->test->replicate_standard_deviation * unit * unit);
      EXPECT_EQ(scaled->calibration.given_action_unbiased,
                result->calibration.given_action_unbiased * unit * unit);
      EXPECT_EQ(scaled->calibration_error->value, result->calibration_error->value * unit);
      EXPECT_EQ(scaled->calibration_error->test.replicate_upper_quantile,
                result->calibration_error->test.replicate_upper_quantile * unit);
      EXPECT_EQ(scaled->gap_upper, result->gap_upper * unit);
      EXPECT_EQ(scaled->actions[0].realised_loss, result->actions[0].realised_loss * unit);
      EXPECT_GT(result->gap_lower, 0);
      EXPECT_EQ(result->test->p_value, 0.01);
      EXPECT_EQ(result->calibration_error->test.p_value, 0.01);
    }
  }
}

TEST(DecisionCalibrationTest, ALossWithoutAChoiceOrWithoutATestIsDefined) {
  const std::vector<double> probabilities{0.25, 0.75, 0.5, 0.5};
  const std::vector<std::int32_t> labels{0, 1};
  const PredictionBatch batch{probabilities, labels, 2};
  const BootstrapOptions none{.replicates = 0, .seed = 0, .null = NullHypothesis::kForecast};
  const auto constant = TestDecisions(batch, std::vector{3.0, 3.0}, none);
  ASSERT_TRUE(constant.ok());
  EXPECT_EQ(constant->calibration.realised_loss, 3);
  EXPECT_EQ(constant->gap_lower, 0);
  EXPECT_EQ(constant->gap_upper, 0);
  EXPECT_FALSE(constant->test.has_value());
  EXPECT_FALSE(TestDecisions(batch, std::vector{3.0}, none).ok());
  BootstrapOptions few = none;
  few.replicates = 5;
  EXPECT_THAT(TestDecisions(batch, std::vector{3.0, 1.0}, few).status().message(),
              HasSubstr("replicates is 5"));
}

TEST(ThresholdDecisionTest, TheLossOfSamplesHasTheExpectedMeanForEveryOrderOfTheValues) {
  // Under the null hypothesis every one of the r + 1 values is the outcome with equal probability.
  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  for (const std::size_t r : {2U, 3U, 10U}) {
    for (const auto& [false_alarm, miss] : {std::pair(1.0, 1.0), {1.0, 5.0}, {3.0, 0.5}}) {
      for (int run = 0; run < 50; ++run) {
        std::vector<double> values(r + 1);
        for (double& value : values) value = normal(rng);
        double difference = 0;
        double naive = 0;
        for (std::size_t k = 0; k <= r; ++k) {
          std::vector<double> draws = values;
          draws.erase(draws.begin() + static_cast<std::ptrdiff_t>(k));
          const ThresholdLoss loss =
              LossOfDecision(ForecastKind::kSamples, draws, values[k], {0.2, false_alarm, miss});
          difference += loss.realised - loss.expected;
          const auto above = static_cast<double>(
              std::ranges::count_if(draws, [](double draw) { return draw >= 0.2; }));
          const double p = above / static_cast<double>(r);
          EXPECT_EQ(loss.acts, miss * above >= false_alarm * (static_cast<double>(r) - above));
          naive += loss.realised - std::min(false_alarm * (1 - p), miss * p);
        }
        EXPECT_NEAR(difference, 0, 1e-12);
        // The expected loss with the share of the draws is too small.
        EXPECT_GE(naive, -1e-12);
      }
    }
  }
}

TEST(ThresholdDecisionTest, TheIntervalHoldsAtAllTimesAndFindsAGap) {
  // 400 streams of 1000 forecasts; the share of misses is at most alpha, with four standard errors.
  constexpr int kStreams = 400;
  constexpr double kAlpha = 0.05;
  const ThresholdDecision decision{.threshold = 0.5, .false_alarm_cost = 1, .miss_cost = 4};
  for (const double scale : {1.0, 3.0}) {
    int missed = 0;
    int found = 0;
    for (std::uint64_t stream = 0; stream < kStreams; ++stream) {
      std::mt19937_64 rng(stream + 1);
      std::normal_distribution<double> normal;
      DecisionTotals totals;
      bool miss = false;
      // The mean of E[realised - expected | past] so far.
      double gap = 0;
      DecisionReading reading;
      for (int i = 1; i <= 1000; ++i) {
        const double row[2] = {normal(rng), std::exp(0.3 * normal(rng))};
        const double outcome = row[0] + scale * row[1] * normal(rng);
        AddDecisions({ForecastKind::kNormal, row, 2, {}, std::span(&outcome, 1)}, decision, totals);
        const double promised = 0.5 * std::erfc((0.5 - row[0]) / row[1] / std::numbers::sqrt2);
        const double above = 0.5 * std::erfc((0.5 - row[0]) / scale / row[1] / std::numbers::sqrt2);
        gap += 4 * promised >= 1 - promised ? promised - above : 4 * (above - promised);
        if (i > 20 && i % 10 != 0) continue;
        reading = *ReadDecisions(decision, totals, kAlpha);
        miss = miss || reading.gap_lower > gap / i || reading.gap_upper < gap / i;
      }
      missed += miss ? 1 : 0;
      found += reading.gap_lower > 0 ? 1 : 0;
    }
    EXPECT_LE(missed, kStreams * kAlpha + 4 * std::sqrt(kStreams * kAlpha * (1 - kAlpha)));
    if (scale == 1) {
      EXPECT_LE(found, kStreams * kAlpha);
    } else {
      EXPECT_GE(found, kStreams / 2);
    }
  }
}

TEST(ThresholdDecisionTest, TotalsMergeAndInvalidFieldsAreNamed) {
  const std::vector<double> rows{0, 1, 2, 1, -1, 0.5, 3, 4};
  const std::vector<double> outcomes{1, 0, -2, 5};
  const ThresholdDecision decision{.threshold = 1, .false_alarm_cost = 2, .miss_cost = 3};
  DecisionTotals all;
  AddDecisions({ForecastKind::kNormal, rows, 2, {}, outcomes}, decision, all);
  DecisionTotals first;
  AddDecisions(
      {ForecastKind::kNormal, std::span(rows).first(2), 2, {}, std::span(outcomes).first(1)},
      decision, first);
  DecisionTotals split = first;
  AddDecisions(
      {ForecastKind::kNormal, std::span(rows).subspan(2), 2, {}, std::span(outcomes).subspan(1)},
      decision, split);
  EXPECT_EQ(all, split);
  DecisionTotals second;
  AddDecisions(
      {ForecastKind::kNormal, std::span(rows).subspan(2), 2, {}, std::span(outcomes).subspan(1)},
      decision, second);
  first.Merge(second);
  EXPECT_EQ(first.actions, all.actions);
  ExpectClose(first.realised, all.realised);
  ExpectClose(first.expected, all.expected);
  ExpectClose(first.gaps.mean, all.gaps.mean);
  ExpectClose(first.gaps.m2, all.gaps.m2);
  // Acts on forecasts 0 (.16 x 3 > .84 x 2 is false: no), 1 and 3.
  EXPECT_EQ(all.actions, 2);
  // The second action was in vain.
  EXPECT_DOUBLE_EQ(all.realised, 3 + 2);
  EXPECT_EQ(ReadDecisions(decision, DecisionTotals(), 0.05), std::nullopt);
  EXPECT_EQ(FindDecisionViolation(decision), std::nullopt);
  EXPECT_EQ(FindDecisionViolation({.threshold = std::nan("")})->field, "threshold");
  EXPECT_EQ(FindDecisionViolation({.false_alarm_cost = 0})->field, "false_alarm_cost");
  EXPECT_EQ(FindDecisionViolation({.miss_cost = std::nan("")})->field, "miss_cost");
}

}  // namespace
}  // namespace calibd
