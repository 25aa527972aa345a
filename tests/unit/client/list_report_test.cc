#include "client/cli/reports/list_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::ListVerdictsResponse Verdicts() {
  v1::ListVerdictsResponse response;
  auto& over = *response.add_models();
  over.set_model("models/fraud-detector/versions/2026-11");
  over.set_observations(20000);
  over.mutable_reading()->mutable_verdict()->set_text(
      "OVER_LIMIT since 2026-11-28 17:13 UTC (row 100), MISCALIBRATED");
  over.mutable_reading()->mutable_how_bad()->set_brief(
      "off by 28.3 points (26.7 to 30.6; limit 2 points); the newest 1568 rows: off by 27.4 points "
      "(22.1 to 35.1; limit 2 points)");
  over.mutable_watch()->mutable_evidence()->set_log10_e_value(3);
  over.mutable_last_observation_time()->set_seconds(1795886580);
  over.set_rejected_among_all(true);
  auto& empty = *response.add_models();
  empty.set_model("models/\xC3\xA9t\xC3\xA9");
  empty.mutable_reading()->mutable_verdict()->set_text("UNDECIDED, INSUFFICIENT_DATA");
  response.set_tested_models(1);
  response.set_rejected_models(1);
  return response;
}

TEST(ListReportTest, FitsTheTerminalAndCutsNothing) {
  for (const std::size_t width : {40U, 60U, 80U, 100U, 132U, 300U}) {
    const std::string text = DescribeVerdictsWithin(width, Verdicts(), 0.05);
    std::size_t longest = 0;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      longest = std::max(longest, static_cast<std::size_t>(std::ranges::count_if(
                                      line, [](char c) { return (c & 0xC0) != 0x80; })));
    }
    EXPECT_LE(longest, width) << text;
    // A narrower terminal breaks some words.
    if (width < 60) continue;
    for (const char* const word : {"OVER_LIMIT", "MISCALIBRATED", "INSUFFICIENT_DATA", "limit",
                                   "35.1;", "points)", "\xC3\xA9t\xC3\xA9", "(26.7"}) {
      EXPECT_THAT(text, HasSubstr(word)) << width;
    }
  }
}

TEST(ListReportTest, NamesTheColumnsThatItLeavesOut) {
  EXPECT_EQ(DescribeVerdictsWithin(80, Verdicts(), 0.05),
            "model                 verdict               error                           e-BH\n"
            "fraud-detector@2026-  OVER_LIMIT since      off by 28.3 points (26.7 to        *\n"
            "11                    2026-11-28 17:13 UTC  30.6; limit 2 points); the\n"
            "                      (row 100),            newest 1568 rows: off by 27.4\n"
            "                      MISCALIBRATED         points (22.1 to 35.1; limit 2\n"
            "                                            points)\n"
            "\xC3\xA9t\xC3\xA9"
            "                   UNDECIDED,            -\n"
            "                      INSUFFICIENT_DATA\n"
            "e-BH over the 1 model with evidence rejects 1 (*): the expected share of\n"
            "calibrated models among them is at most 5 %. Left out: rows, e-value, newest\n"
            "row; `calibctl list --wide` shows all columns.\n");
  const std::string wide = DescribeVerdictsWithin(300, Verdicts(), 0.05);
  EXPECT_THAT(wide, Not(HasSubstr("Left out")));
  EXPECT_THAT(wide, HasSubstr("  e-BH   rows  e-value            newest row\n"));
}

TEST(ListReportTest, WithoutModelsSaysSo) {
  EXPECT_EQ(DescribeVerdictsWithin(80, v1::ListVerdictsResponse(), 0.05), "no models\n");
}

}  // namespace
}  // namespace calibd::cli
