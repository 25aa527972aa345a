#include "client/cli/reports/forecast_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;

TEST(ForecastReportTest, NamesTheRowsOfAModelAndSaysTheReading) {
  v1::Evaluation answer;
  answer.mutable_reading()->mutable_how_bad()->set_text("off by 5 points");
  answer.mutable_forecast()->mutable_scores()->set_observations(3000);
  EXPECT_THAT(DescribeForecasts("normal", answer),
              HasSubstr("3000 forecasts (normal) with outcomes\nhow bad   off by 5 points\n"));
  answer.mutable_forecast()->set_first_observation(501);
  EXPECT_THAT(DescribeForecasts("normal", answer),
              HasSubstr("3000 forecasts (normal) with outcomes, rows 501 to 3500\n"));
}

}  // namespace
}  // namespace calibd::cli
