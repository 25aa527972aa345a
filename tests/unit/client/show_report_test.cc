#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "client/cli/reports/bins_report.h"
#include "client/cli/reports/reading_report.h"

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;

TEST(ShowReportTest, EachLineOfTheReadingHasATitleAndIsWrapped) {
  v1::GetCalibrationResponse response;
  response.set_model("models/resnet18/versions/2");
  v1::Reading& reading = *response.mutable_reading();
  reading.mutable_next()->set_text("calibctl show");
  reading.mutable_verdict()->set_text("OVER_LIMIT,\x1b MISCALIBRATED");
  reading.mutable_how_bad()->set_text(
      "off by 5.3 points (4.2 to 6.8; limit 2); says 97.0 %, right 91.7 %: over-confident by 5.3 "
      "(4.2 to 6.3)");
  EXPECT_EQ(DescribeShow(response),
            "verdict   resnet18@2: OVER_LIMIT,? MISCALIBRATED\n"
            "how bad   off by 5.3 points (4.2 to 6.8; limit 2); says 97.0 %, right 91.7 %: "
            "over-confident by 5.3\n"
            "          (4.2 to 6.3)\n"
            "next      calibctl show\n");
}

TEST(ShowReportTest, TheReliabilityDiagramLeavesOutEmptyBins) {
  v1::GetCalibrationResponse response;
  EXPECT_EQ(DescribeBins(response), "no labelled row yet\n");
  v1::RunningScores& scores = *response.mutable_scores();
  for (int i = 0; i < 15; ++i) scores.add_bins();
  scores.mutable_bins(14)->set_observations(9021);
  scores.mutable_bins(14)->set_mean_confidence(0.996);
  scores.mutable_bins(14)->set_accuracy(0.959);
  const std::string top_label =
      "confidence      rows  says %  right %  gap (points)\n"
      "0.933 to 1.000  9021    99.6     95.9          +3.7\n";
  EXPECT_EQ(DescribeBins(response), top_label);
  for (int i = 0; i < 15; ++i) scores.add_class_1_bins();
  scores.mutable_class_1_bins(0)->set_observations(40);
  scores.mutable_class_1_bins(0)->set_mean_confidence(0.02);
  scores.mutable_class_1_bins(0)->set_accuracy(0.05);
  EXPECT_EQ(DescribeBins(response), top_label +
                                        "\nP(class 1)      rows  says %  is %  gap (points)\n"
                                        "0.000 to 0.067    40     2.0   5.0          -3.0\n");
  scores.set_class_1_name("yes");
  EXPECT_THAT(DescribeBins(response), HasSubstr("\nP(yes)          rows  says %  is %"));
}

TEST(ShowReportTest, ATableSaysHowManyRowsItLeavesOutAndCountsCharacters) {
  v1::Table table;
  table.add_columns("label");
  table.add_columns("truths");
  for (const char* const name : {"K\u00fcche", "rain\x1b", "fog"}) {
    v1::Table::Row& row = *table.add_rows();
    row.add_cells(name);
    row.add_cells("10");
  }
  EXPECT_EQ(DescribeTable(table),
            "label  truths\nK\u00fcche      10\nrain?      10\nfog        10\n");
  table.set_left_out(7);
  EXPECT_EQ(DescribeTable(table),
            "label  truths\nK\u00fcche      10\nrain?      10\nfog        10\n... 7 more\n");
  // A line has the same width with any letters.
  v1::Reading reading;
  reading.mutable_verdict()->set_text("off by \u00fc\u00fc\u00fc and more");
  EXPECT_EQ(DescribeReading("", reading, 24),
            "verdict   off by \u00fc\u00fc\u00fc and\n          more\n");
}

TEST(ShowReportTest, TheBinsOfForecastsAreTheCellsOfTheirOutcomes) {
  v1::GetCalibrationResponse response;
  response.mutable_forecast()->set_observations(1000);
  EXPECT_EQ(DescribeBins(response), "no cells of outcomes: only a monitored model has them\n");
  response.mutable_verdict();
  EXPECT_EQ(DescribeBins(response), "no labelled row yet\n");
  response.mutable_watch()->set_first_observation(3001);
  EXPECT_EQ(DescribeBins(response), "no labelled row since row 3001\n");
  // The second share rounds to what is promised.
  const std::tuple<double, double, int> cells[] = {{0, 0.001, 4}, {0.001, 0.5, 499}, {0.5, 1, 497}};
  for (const auto& [lower, upper, observations] : cells) {
    v1::ForecastCell& cell = *response.mutable_verdict()->mutable_whereabouts()->add_cells();
    cell.set_lower(lower);
    cell.set_upper(upper);
    cell.set_observations(observations);
    cell.set_expected(1000 * (upper - lower) + (observations == 499 ? 0.1 : 0));
  }
  EXPECT_EQ(DescribeBins(response),
            "between the quantiles  rows  outcomes %  promised %  gap (points)\n"
            "0 % to 0.1 %              4         0.4         0.1          +0.3\n"
            "0.1 % to 50 %           499        49.9        49.9          +0.0\n"
            "50 % to 100 %           497        49.7        50.0          -0.3\n"
            "rows 3001 and later\n");
}

}  // namespace
}  // namespace calibd::cli
