#include "client/cli/reports/estimate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two estimators, of which the second one is chosen. None is better than 0.
v1::CalibrationErrorEstimate TwoEstimators() {
  v1::CalibrationErrorEstimate estimate;
  estimate.add_estimators()->set_estimator(v1::EstimatorOutcome::PRODUCT_RIDGE);
  estimate.add_estimators()->set_estimator(v1::EstimatorOutcome::FUNCTION_RIDGE);
  for (v1::EstimatorOutcome& outcome : *estimate.mutable_estimators()) {
    outcome.set_error(0.2);
    outcome.set_as_good_as_chosen(true);
  }
  estimate.set_chosen(v1::EstimatorOutcome::FUNCTION_RIDGE);
  estimate.set_tuning_observations(400);
  estimate.set_test_observations(100);
  estimate.set_folds(5);
  estimate.mutable_provenance()->set_observations(500);
  estimate.mutable_provenance()->set_lens("top_label");
  return estimate;
}

TEST(EstimateReportTest, SaysWhichEstimatorIsBetterThanZero) {
  v1::CalibrationErrorEstimate estimate = TwoEstimators();
  estimate.set_any_better_than_zero(true);
  estimate.mutable_estimators(0)->set_better_than_zero(true);
  EXPECT_THAT(DescribeEstimate(estimate),
              HasSubstr("but only product_ridge is clearly better than the statement"));
  estimate.mutable_estimators(1)->set_better_than_zero(true);
  EXPECT_THAT(DescribeEstimate(estimate), HasSubstr(", and better than the statement"));
}

TEST(EstimateReportTest, ASmallPValueIsNotCalledNoise) {
  v1::CalibrationErrorEstimate estimate = TwoEstimators();
  EXPECT_THAT(DescribeEstimate(estimate), HasSubstr("may be noise"));
  estimate.mutable_simulation()->set_p_value(0.2);
  EXPECT_THAT(DescribeEstimate(estimate), HasSubstr("may be noise"));
  estimate.mutable_simulation()->set_p_value(0.01);
  const std::string text = DescribeEstimate(estimate);
  EXPECT_THAT(text, HasSubstr("the simulation below rejects that there is no error"));
  EXPECT_THAT(text, Not(HasSubstr("may be noise")));
}

TEST(EstimateReportTest, SaysThatFoldsAreTooSmall) {
  v1::CalibrationErrorEstimate estimate = TwoEstimators();
  EXPECT_THAT(DescribeEstimate(estimate), Not(HasSubstr("too few to say")));
  estimate.set_tuning_observations(39);
  EXPECT_THAT(DescribeEstimate(estimate), HasSubstr("Each of the 5 folds needs 8 of them."));
}

}  // namespace
}  // namespace calibd::cli
