#include "client/cli/reports/forecast_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void AddCoverage(double promised, double coverage, double half_width,
                 v1::ForecastEvaluation& evaluation) {
  v1::CentralCoverage& one = *evaluation.mutable_scores()->add_central_coverage();
  one.set_promised(promised);
  one.set_coverage(coverage);
  one.set_lower(coverage - half_width);
  one.set_upper(coverage + half_width);
}

// The figures of 3000 forecasts that are 0.4 standard deviations too low.
v1::ForecastEvaluation TooLow() {
  v1::ForecastEvaluation evaluation;
  evaluation.mutable_scores()->set_observations(3000);
  AddCoverage(0.5, 0.468, 0.036, evaluation);
  AddCoverage(0.8, 0.765, 0.031, evaluation);
  AddCoverage(0.9, 0.883, 0.023, evaluation);
  return evaluation;
}

TEST(ForecastReportTest, TheFirstSentenceHasTheIntervalThatExcludesItsPromise) {
  EXPECT_THAT(DescribeForecasts("normal", TooLow()),
              HasSubstr("The intervals are too narrow: the 80 % intervals contain 76.5 % of the "
                        "outcomes (73.4 % to 79.6 %)."));
}

TEST(ForecastReportTest, NamesTheRowsOfAModel) {
  EXPECT_THAT(DescribeForecasts("normal", TooLow(), 501),
              HasSubstr("3000 forecasts (normal) with outcomes, rows 501 to 3500\n"));
  EXPECT_THAT(DescribeForecasts("normal", TooLow()),
              HasSubstr("3000 forecasts (normal) with outcomes\n"));
}

TEST(ForecastReportTest, TheWidestIntervalIsShownWithoutAVisibleError) {
  v1::ForecastEvaluation evaluation;
  AddCoverage(0.8, 0.79, 0.031, evaluation);
  AddCoverage(0.9, 0.91, 0.023, evaluation);
  EXPECT_THAT(DescribeForecasts("normal", evaluation),
              HasSubstr("is visible: the 90 % intervals contain 91 %"));
}

TEST(ForecastReportTest, ABiasThatIsMoreThanNoiseIsSaid) {
  v1::ForecastEvaluation evaluation = TooLow();
  v1::ForecastScores& scores = *evaluation.mutable_scores();
  scores.set_residual_standard_deviation(0.99);
  scores.set_residual_mean(0.399);
  EXPECT_THAT(DescribeForecasts("normal", evaluation),
              HasSubstr("The forecasts are 0.4 standard deviations too low.\n"));
  // Four standard errors of calibrated forecasts are 0.073.
  scores.set_residual_mean(0.0729);
  EXPECT_THAT(DescribeForecasts("normal", evaluation), Not(HasSubstr("The forecasts are")));
  // Residuals of a few rows may happen to be equal.
  scores.set_residual_mean(1.9);
  scores.set_residual_standard_deviation(0);
  scores.set_observations(4);
  EXPECT_THAT(DescribeForecasts("normal", evaluation), Not(HasSubstr("The forecasts are")));
}

TEST(ForecastReportTest, TheBiasOfQuantilesIsThatOfTheBestFit) {
  v1::ForecastEvaluation evaluation = TooLow();
  evaluation.mutable_direction()->set_shift(-0.5);
  evaluation.mutable_direction()->set_scale(1);
  EXPECT_THAT(DescribeForecasts("quantiles", evaluation),
              HasSubstr("The forecasts are about 0.5 standard deviations too high.\n"));
  evaluation.mutable_scores()->set_observations(60);
  EXPECT_THAT(DescribeForecasts("quantiles", evaluation), Not(HasSubstr("The forecasts are")));
}

TEST(ForecastReportTest, AnErrorOfAFewOutcomesIsNotStated) {
  v1::ForecastEvaluation evaluation;
  evaluation.set_coverage_cells(20);
  evaluation.set_coverage_error(0.9);
  evaluation.set_coverage_error_upper(1);
  EXPECT_THAT(DescribeForecasts("normal", evaluation),
              HasSubstr("Coverage error over 20 cells: 0 to 100 points, too few outcomes to say "
                        "more. All these intervals"));
  evaluation.set_coverage_error_lower(0.8);
  EXPECT_THAT(DescribeForecasts("normal", evaluation),
              HasSubstr("cells: 90 points (80 to 100), biased upwards. All these intervals"));
}

TEST(ForecastReportTest, ADecisionWithCostsIsNotAShare) {
  v1::ForecastEvaluation evaluation;
  v1::ForecastEvaluation::Decision& decision = *evaluation.mutable_decision();
  decision.set_threshold(110);
  decision.set_realised_loss(0.25);
  decision.set_expected_loss(0.125);
  const std::string shares =
      "decision    at 110: 25 % of the decisions were wrong, the forecasts expected 12.5 %\n";
  EXPECT_THAT(DescribeForecasts("normal", evaluation), HasSubstr(shares));
  decision.set_false_alarm_cost(1);
  decision.set_miss_cost(1);
  EXPECT_THAT(DescribeForecasts("normal", evaluation), HasSubstr(shares));
  decision.set_miss_cost(5);
  EXPECT_THAT(DescribeForecasts("normal", evaluation),
              HasSubstr("decision    at 110: they cost 0.25 each, the forecasts expected 0.125 (a "
                        "false alarm 1, a miss 5)\n"));
}

}  // namespace
}  // namespace calibd::cli
