#include "client/cli/reports/estimate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(EstimateReportTest, BeginsWithTheServersSentences) {
  v1::CalibrationErrorEstimate estimate;
  estimate.set_text("The server's words. \x1b[31m");
  v1::EstimatorOutcome& outcome = *estimate.add_estimators();
  outcome.set_estimator(v1::EstimatorOutcome::PRODUCT_RIDGE);
  outcome.set_error(0.2);
  EXPECT_THAT(DescribeEstimate(estimate), StartsWith("The server's words. ?[31m\n"));
  EXPECT_THAT(DescribeEstimate(estimate), HasSubstr("\nproduct_ridge     20"));
}

}  // namespace
}  // namespace calibd::cli
