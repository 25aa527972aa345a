#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "calibd/convert/multilabel.h"
#include "calibd/convert/reading.h"

namespace calibd::convert {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::ErrorInterval Ends(double estimate, double lower, double upper) {
  v1::ErrorInterval interval;
  interval.set_estimate(estimate);
  interval.set_lower(lower);
  interval.set_upper(upper);
  return interval;
}

v1::Evaluation OfClasses() {
  v1::Evaluation evaluation;
  *evaluation.mutable_error() = Ends(0.05, 0.03, 0.08);
  evaluation.mutable_scores()->set_mean_confidence(0.9);
  evaluation.mutable_scores()->set_accuracy(0.85);
  for (const char* lens : {"canonical", "top_label"}) {
    v1::LensEvaluation& one = *evaluation.add_lenses();
    one.set_lens(lens);
    one.mutable_result()->set_p_value(0.03);
  }
  return evaluation;
}

TEST(EvaluationReadingTest, TheTestsOfAllLensesShareTheLevel) {
  v1::Evaluation evaluation = OfClasses();
  v1::Reading reading = ReadingOf(evaluation, {.error_limit = 0.02});
  EXPECT_EQ(reading.verdict().text(), "OVER_LIMIT, NOT_REJECTED");
  EXPECT_THAT(reading.how_bad().text(),
              StartsWith("off by 5 points (3 to 8; limit 2 points); says 90.0 %, right 85.0 %: "));
  EXPECT_EQ(reading.how_bad().brief(), "off by 5 points (3 to 8; limit 2 points)");
  Judge({.error_limit = 0.02}, evaluation);
  EXPECT_EQ(evaluation.limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(evaluation.error_limit(), 0.02);
  EXPECT_EQ(evaluation.reading().SerializeAsString(), reading.SerializeAsString());
  EXPECT_EQ(
      reading.certain().text(),
      "not rejected by canonical, top_label, which does not prove calibration; the interval of "
      "the error holds with 95 % for one look at these rows");
  evaluation.mutable_lenses(1)->mutable_result()->set_p_value(0.02);
  reading = ReadingOf(evaluation, {.error_limit = 0.1});
  EXPECT_EQ(reading.verdict().text(), "WITHIN_LIMIT, MISCALIBRATED");
  EXPECT_THAT(
      reading.certain().text(),
      AllOf(
          StartsWith("rejected by top_label at level 0.05 over 2 lenses; SKCE_uq by top_label is "),
          HasSubstr("; not rejected by canonical, which does not prove calibration")));
  // No p-value of 19 replicates is as small as the level of a lens.
  for (v1::LensEvaluation& lens : *evaluation.mutable_lenses()) {
    lens.mutable_result()->set_replicates(19);
    lens.mutable_result()->set_p_value(0.05);
  }
  reading = ReadingOf(evaluation, {.error_limit = 0.1});
  EXPECT_EQ(reading.verdict().text(), "WITHIN_LIMIT");
  EXPECT_THAT(reading.certain().text(),
              StartsWith("canonical, top_label cannot be rejected at level 0.025 with 19 "
                         "replicates: take at least 39; "));
  // Without tests there is only the error and its interval.
  evaluation.mutable_lenses(0)->mutable_result()->clear_p_value();
  reading = ReadingOf(evaluation, {.error_limit = 0.05});
  EXPECT_EQ(reading.verdict().text(), "UNDECIDED");
  EXPECT_EQ(reading.certain().text(),
            "the interval of the error holds with 95 % for one look at these rows");
}

TEST(EvaluationReadingTest, TheWorseOfTwoEventsDecides) {
  v1::Evaluation evaluation = OfClasses();
  *evaluation.mutable_error() = Ends(0.005, 0, 0.01);
  for (const auto& [lower, upper, status] :
       {std::tuple(0.03, 0.09, v1::CalibrationError::OVER_LIMIT),
        std::tuple(0.01, 0.03, v1::CalibrationError::UNDECIDED),
        std::tuple(0.0, 0.02, v1::CalibrationError::WITHIN_LIMIT)}) {
    *evaluation.mutable_class_1_error() = Ends(lower, lower, upper);
    EXPECT_EQ(VerdictOf(evaluation, {.error_limit = 0.02}).limit, status);
  }
  *evaluation.mutable_class_1_error() = Ends(0.1, 0.08, 0.12);
  EXPECT_THAT(ReadingOf(evaluation, {.error_limit = 0.02}).how_bad().text(),
              StartsWith("P(class 1) off by 10 points (8 to 12; limit 2 points)"));
}

TEST(EvaluationReadingTest, OneOfTwoEventsDecidesTheStatus) {
  v1::Evaluation evaluation = OfClasses();
  *evaluation.mutable_error() = Ends(0.05, 0.03, 0.06);
  const auto decides = [&evaluation](double lower, double upper) {
    *evaluation.mutable_class_1_error() = Ends(lower, lower, upper);
    Judge({.error_limit = 0.02}, evaluation);
    return evaluation.class_1_decides();
  };
  // Of an error over the limit, the larger lower end decides.
  EXPECT_TRUE(decides(0.04, 0.05));
  EXPECT_FALSE(decides(0.01, 0.09));
  // Else the larger upper end.
  *evaluation.mutable_error() = Ends(0.015, 0.01, 0.03);
  EXPECT_TRUE(decides(0, 0.04));
  EXPECT_FALSE(decides(0.012, 0.02));
  *evaluation.mutable_error() = Ends(0.005, 0.001, 0.01);
  EXPECT_TRUE(decides(0, 0.015));
  evaluation.clear_class_1_error();
  Judge({.error_limit = 0.02}, evaluation);
  EXPECT_FALSE(evaluation.class_1_decides());
}

// The level of the verdict is that of the gate.
TEST(EvaluationReadingTest, TheLevelDecides) {
  const v1::Evaluation evaluation = OfClasses();
  for (const auto& [level, rejects] : {std::pair(0.05, false), std::pair(0.06, true)}) {
    const EvaluationCriteria criteria{.error_limit = 0.02, .significance_level = level};
    EXPECT_EQ(VerdictOf(evaluation, criteria).is_rejected, rejects);
    EXPECT_EQ(ReadingOf(evaluation, criteria).verdict().text(),
              VerdictOf(evaluation, criteria).Text());
  }
}

TEST(EvaluationReadingTest, AGroupDecidesToo) {
  v1::Evaluation evaluation = OfClasses();
  *evaluation.mutable_error() = Ends(0.01, 0, 0.015);
  v1::EvaluatedGroup& fine = *evaluation.add_groups();
  fine.set_name("north");
  *fine.mutable_error() = Ends(0.01, 0, 0.05);
  fine.set_status(v1::CalibrationError::UNDECIDED);
  EXPECT_EQ(ReadingOf(evaluation, {.error_limit = 0.02}).verdict().text(),
            "WITHIN_LIMIT, NOT_REJECTED");
  v1::EvaluatedGroup& over = *evaluation.add_groups();
  over.set_name("south");
  *over.mutable_error() = Ends(0.02, 0, 0.1);
  *over.mutable_class_1_error() = Ends(0.09, 0.04, 0.15);
  over.set_class_1_is_worse(true);
  over.set_status(v1::CalibrationError::OVER_LIMIT);
  over.set_rejected(true);
  const v1::Reading reading = ReadingOf(evaluation, {.error_limit = 0.02});
  EXPECT_EQ(reading.verdict().text(), "OVER_LIMIT in group south, MISCALIBRATED");
  EXPECT_THAT(reading.how_bad().text(),
              StartsWith("group south: P(class 1) off by 9 points (4 to 15; limit 2 points); all "
                         "rows together: off by 0 to 1.5 points (limit 2 points)"));
  EXPECT_EQ(reading.how_bad().interval().lower(), 0.04);
  EXPECT_EQ(reading.where().text(),
            "group south: P(class 1) off by 9 points (4 to 15; limit 2 points), rejected");
  EXPECT_THAT(reading.certain().text(),
              HasSubstr("; 1 of 2 groups rejected by e-BH on e-values at level 0.025; all "
                        "intervals, also of groups, hold together with 95 %"));
}

TEST(EvaluationReadingTest, SaysWhatTheActionsCost) {
  v1::Evaluation evaluation = OfClasses();
  v1::DecisionEvaluation& decision = *evaluation.mutable_decision_loss();
  decision.set_realised_loss(0.5);
  decision.set_expected_loss(0.25);
  decision.set_gap_lower_bound(0.125);
  decision.set_gap_upper_bound(0.375);
  EXPECT_EQ(ReadingOf(evaluation, {.error_limit = 0.02}).decision().text(),
            "the actions cost 0.5 on average, the predictions promise 0.25: +0.25 (+0.125 to "
            "+0.375)");
  // A decision uses the rows that are tested.
  evaluation.set_observations(30000);
  evaluation.set_tested_observations(10000);
  EXPECT_THAT(
      ReadingOf(evaluation, {.error_limit = 0.02}).decision().text(),
      StartsWith("over 10000 of the 30000 rows, drawn at random: the actions cost 0.5 on "));
}

TEST(EvaluationReadingTest, OfForecastsHasTheirCoverageBiasAndCells) {
  v1::Evaluation evaluation;
  v1::ForecastEvaluation& forecast = *evaluation.mutable_forecast();
  forecast.set_coverage_error(0.075);
  forecast.set_coverage_error_lower(0.02);
  forecast.set_coverage_error_upper(0.256);
  forecast.set_log10_e_value(1.2);
  v1::ForecastScores& scores = *forecast.mutable_scores();
  scores.set_observations(10000);
  scores.set_residual_mean(0.5);
  scores.set_residual_standard_deviation(1);
  v1::CentralCoverage& central = *scores.add_central_coverage();
  central.set_promised(0.9);
  central.set_coverage(0.729);
  central.set_lower(0.7);
  central.set_upper(0.75);
  for (const double z : {4., 7., -6.}) {
    v1::ForecastCell& cell = *forecast.add_cells();
    cell.set_lower(0.999);
    cell.set_upper(1);
    cell.set_observations(static_cast<int>(100 + z));
    cell.set_expected(20);
    cell.set_z(z);
    cell.set_stands_out(true);
  }
  v1::Reading reading = ReadingOf(evaluation, {.error_limit = 0.05});
  EXPECT_EQ(reading.verdict().text(), "UNDECIDED, NOT_REJECTED");
  EXPECT_EQ(
      reading.how_bad().text(),
      "off by 2 to 25.6 points (limit 5 points); on average 0.5 standard deviations too low; the "
      "90 % intervals cover 72.9 % (70.0 to 75.0): too narrow");
  EXPECT_EQ(reading.where().text(),
            "above the 99.9 % quantile: 107 outcomes, 20 expected; above the 99.9 % quantile: 94 "
            "outcomes, 20 expected");
  EXPECT_EQ(reading.certain().text(),
            "e-value 15.8 of the cells of the outcomes; rejection needs an e-value of 20; the "
            "interval of the error holds with 95 % for one look at these rows");
  forecast.set_log10_e_value(1.4);
  EXPECT_EQ(ReadingOf(evaluation, {.error_limit = 0.3}).verdict().text(),
            "WITHIN_LIMIT, MISCALIBRATED");

  v1::ForecastEvaluation::Decision& decision = *forecast.mutable_decision();
  decision.set_threshold(110);
  decision.set_false_alarm_cost(1);
  decision.set_miss_cost(1);
  decision.set_realised_loss(0.25);
  decision.set_expected_loss(0.125);
  EXPECT_EQ(ReadingOf(evaluation, {.error_limit = 0.05}).decision().text(),
            "at 110: 25 % of the decisions were wrong, the forecasts expected 12.5 %");
  decision.set_miss_cost(5);
  EXPECT_EQ(ReadingOf(evaluation, {.error_limit = 0.05}).decision().text(),
            "at 110: they cost 0.25 each, the forecasts expected 0.125 (a false alarm 1, a miss "
            "5)");
}

TEST(EstimateTextTest, SaysWhetherTheErrorIsReal) {
  v1::CalibrationErrorEstimate estimate;
  estimate.set_folds(5);
  estimate.set_tuning_observations(1000);
  estimate.mutable_provenance()->set_lens("top_label");
  estimate.mutable_provenance()->set_observations(1250);
  EXPECT_THAT(EstimateText(estimate, {}),
              AllOf(StartsWith("No estimator is better than 0 here: with 1250 observations, none "),
                    HasSubstr("This does not prove calibration.")));
  estimate.mutable_simulation()->set_p_value(0.05);
  EXPECT_THAT(EstimateText(estimate, {}),
              HasSubstr(" But the simulation rejects that there is no "));
  estimate.set_tuning_observations(20);
  EXPECT_THAT(EstimateText(estimate, {}), HasSubstr("1250 observations are too few to say."));

  estimate.set_any_better_than_zero(true);
  estimate.set_chosen(v1::EstimatorOutcome::BINS);
  v1::EstimatorOutcome& chosen = *estimate.add_estimators();
  chosen.set_estimator(estimate.chosen());
  chosen.set_error(0.05);
  chosen.set_better_than_zero(true);
  chosen.set_as_good_as_chosen(true);
  EXPECT_EQ(EstimateText(estimate, {}),
            "The probability of the top label is off by 5 points (percentage points, root mean "
            "square), according to bins. This estimator predicts the errors of new observations "
            "best, and better than the statement that there is no error.");
  // One class.
  const std::vector<std::string> names = {"no", "yes"};
  estimate.mutable_provenance()->set_lens("class_wise[1]");
  EXPECT_THAT(EstimateText(estimate, {}), StartsWith("The probability of class 1 is off by 5 "));
  EXPECT_THAT(EstimateText(estimate, names), StartsWith("The probability of class yes is off by "));
  estimate.mutable_provenance()->set_class_count(2);
  EXPECT_THAT(EstimateText(estimate, names), StartsWith("P(yes) is off by 5 points"));
  EXPECT_THAT(EstimateText(estimate, {}), StartsWith("P(class 1) is off by 5 points"));
  estimate.mutable_provenance()->set_lens("top_label");
  v1::EstimatorOutcome& other = *estimate.add_estimators();
  other.set_estimator(v1::EstimatorOutcome::KERNEL_DENSITY);
  other.set_error(0.06);
  EXPECT_THAT(EstimateText(estimate, {}), HasSubstr(" All others are clearly worse."));
  other.set_as_good_as_chosen(true);
  EXPECT_THAT(EstimateText(estimate, {}),
              HasSubstr(" The data cannot tell whether these are as good: kernel_density. With "
                        "them, the estimates range from 5 to 6 points."));
  other.set_error(0.05);
  EXPECT_THAT(EstimateText(estimate, {}), HasSubstr(" They give the same estimate."));
  chosen.set_better_than_zero(false);
  other.set_better_than_zero(true);
  EXPECT_THAT(EstimateText(estimate, {}),
              HasSubstr(", but only kernel_density is clearly better than the statement"));
}

TEST(EvaluationReadingTest, LabelsAreWithinTheLimitIfEachOfThemIs) {
  v1::MultilabelCalibration calibration;
  *calibration.mutable_error() = Ends(0.005, 0, 0.01);
  calibration.set_status(v1::CalibrationError::WITHIN_LIMIT);
  calibration.add_labels()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(VerdictOf(calibration).limit, v1::CalibrationError::WITHIN_LIMIT);
  calibration.add_labels()->set_status(v1::CalibrationError::UNDECIDED);
  EXPECT_EQ(VerdictOf(calibration).limit, v1::CalibrationError::UNDECIDED);
  calibration.add_over_limit("fog");
  EXPECT_EQ(VerdictOf(calibration).limit, v1::CalibrationError::OVER_LIMIT);
}

TEST(EvaluationReadingTest, TheSeverityIsThatOfAModelWithThisVerdict) {
  v1::Evaluation evaluation = OfClasses();
  for (const auto& [limit, p_value, rank] :
       {std::tuple(0.02, 0.5, 7), std::tuple(0.02, 0.001, 7), std::tuple(0.05, 0.001, 4),
        std::tuple(0.1, 0.001, 4), std::tuple(0.05, 0.5, 1), std::tuple(0.1, 0.5, 0)}) {
    evaluation.mutable_lenses(0)->mutable_result()->set_p_value(p_value);
    EXPECT_DOUBLE_EQ(ReadingOf(evaluation, {.error_limit = limit}).severity(), rank + 0.99 * 0.03);
  }
}

TEST(EvaluationReadingTest, LabelsHaveTheLinesOfTheirText) {
  v1::MultilabelCalibration calibration;
  EXPECT_EQ(ReadingOf(calibration).how_bad().text(), "No truth is known yet.");
  EXPECT_FALSE(ReadingOf(calibration).how_bad().has_interval());
  EXPECT_EQ(ReadingOf(calibration).severity(), 1);
  *calibration.mutable_error() = Ends(0.05, 0.03, 0.08);
  calibration.set_error_limit(0.02);
  calibration.set_significance_level(0.05);
  calibration.add_labels();
  calibration.add_over_limit("fog");
  v1::Reading reading = ReadingOf(calibration);
  EXPECT_EQ(reading.verdict().text(), "OVER_LIMIT, NOT_REJECTED");
  EXPECT_EQ(reading.where().text(), "Over the limit: fog.");
  EXPECT_EQ(reading.how_bad().interval().lower(), 0.03);
  EXPECT_DOUBLE_EQ(reading.severity(), 7 + 0.99 * 0.03);
  EXPECT_FALSE(reading.has_certain());
  EXPECT_FALSE(reading.has_warning());
  calibration.add_rejected("wind");
  calibration.set_dependence_found_at(1200);
  reading = ReadingOf(calibration);
  EXPECT_EQ(reading.verdict().text(), "OVER_LIMIT, MISCALIBRATED");
  EXPECT_EQ(MultilabelText(calibration), reading.how_bad().text() + "\n" + reading.where().text() +
                                             "\n" + reading.certain().text() +
                                             "\nWARNING: " + reading.warning().text() + "\n");
}

TEST(EvaluationReadingTest, WarnsOfRowsThatGoTogether) {
  v1::Evaluation evaluation = OfClasses();
  EXPECT_FALSE(ReadingOf(evaluation, {.error_limit = 0.02}).has_warning());
  evaluation.set_dependence_found_at(1200);
  EXPECT_THAT(
      ReadingOf(evaluation, {.error_limit = 0.02}).warning().text(),
      AllOf(StartsWith("Outcomes of neighbouring rows go together more than the "
                       "predictions say, found at row 1200: "),
            HasSubstr("make the intervals too narrow and the evidence too strong in any "
                      "order of the rows"),
            HasSubstr("the estimates and tests of blocks are false, and the other numbers right")));
  evaluation.add_groups();
  EXPECT_THAT(ReadingOf(evaluation, {.error_limit = 0.02}).warning().text(),
              HasSubstr("the e-values of groups are false"));
  // The e-value of forecasts is a function of counts, unless outcomes are tied.
  v1::Evaluation forecasts;
  forecasts.mutable_forecast()->set_dependence_found_at(900);
  EXPECT_THAT(ReadingOf(forecasts, {.error_limit = 0.05}).warning().text(),
              AllOf(HasSubstr("found at row 900"), HasSubstr("only sorted, nothing is false.")));
  forecasts.mutable_forecast()->mutable_scores()->add_level_coverage();
  EXPECT_THAT(ReadingOf(forecasts, {.error_limit = 0.05}).warning().text(),
              HasSubstr("only sorted, the e-values are false"));
}

}  // namespace
}  // namespace calibd::convert
