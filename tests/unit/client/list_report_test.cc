#include "client/cli/reports/list_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ListVerdictsResponse Verdicts() {
  v1::ListVerdictsResponse response;
  auto& over = *response.add_models();
  over.set_model("models/fraud-detector/versions/2026-11");
  over.set_observations(20000);
  over.mutable_reading()->mutable_verdict()->set_text(
      "OVER_LIMIT, alarm on 2026-11-28 17:13 UTC (row 100), MISCALIBRATED");
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
            "fraud-detector@2026-  OVER_LIMIT, alarm on  off by 28.3 points (26.7 to        *\n"
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

TEST(ListReportTest, ListsModelsWithWhatEBHRejects) {
  v1::ListVerdictsResponse response;
  EXPECT_EQ(DescribeVerdicts(response, 0.05), "no models\n");
  for (const char* name : {"models/a", "models/b"}) {
    auto& model = *response.add_models();
    model.set_model(name);
    model.set_observations(7);
    model.mutable_reading()->mutable_verdict()->set_text("not monitored");
  }
  auto& known = *response.mutable_models(0);
  known.mutable_reading()->mutable_verdict()->set_text("MISCALIBRATED\x1b");
  known.mutable_reading()->mutable_how_bad()->set_brief("off by 5.4 points (4.2 to 6.8; limit 2)");
  known.mutable_watch()->mutable_evidence()->set_log10_e_value(std::log10(120));
  known.set_rejected_among_all(true);
  response.set_tested_models(1);
  response.set_rejected_models(1);
  EXPECT_EQ(
      DescribeVerdicts(response, 0.1),
      "model         verdict  rows                                    error  e-value  newest "
      "row  e-BH\n"
      "a      MISCALIBRATED?     7  off by 5.4 points (4.2 to 6.8; limit 2)      120           "
      "-     *\n"
      "b       not monitored     7                                        -        -           "
      "-\n"
      "e-BH over the 1 model with evidence rejects 1 (*): the expected share of "
      "calibrated models among them is at most 10 %.\n");
}

TEST(ListReportTest, MarksWhatAFineVerdictHides) {
  v1::ListVerdictsResponse response;
  for (const char* const name : {"a", "b", "c", "d", "e"}) {
    auto& model = *response.add_models();
    model.set_model(name);
    model.mutable_reading()->mutable_verdict()->set_text("WITHIN_LIMIT");
  }
  response.mutable_models(1)->add_alarms();
  response.mutable_models(1)->add_alarms();
  response.mutable_models(2)->mutable_error()->mutable_since_acknowledgement();
  response.mutable_models(3)->mutable_verdict()->set_is_acknowledged(true);
  response.mutable_models(3)->add_alarms();
  response.mutable_models(4)->mutable_reading()->mutable_warning()->set_text("sorted rows");
  const std::string text = DescribeVerdicts(response, 0.05);
  for (const char* const row :
       {"\na      WITHIN_LIMIT             0", "\nb      WITHIN_LIMIT       2     0",
        "\nc      WITHIN_LIMIT       a     0", "\nd      WITHIN_LIMIT     1 a     0",
        "\ne      WITHIN_LIMIT       w     0", "; w: a warning says why numbers may be false ",
        " Alarms: how many are active (calibctl alarms MODEL); a: an error "}) {
    EXPECT_THAT(text, HasSubstr(row));
  }
  EXPECT_THAT(DescribeVerdictsWithin(80, response, 0.05),
              AllOf(HasSubstr("\nd      WITHIN_LIMIT  -         1 a"), HasSubstr("; a: an error")));
}

TEST(ListReportTest, WithoutModelsSaysSo) {
  EXPECT_EQ(DescribeVerdictsWithin(80, v1::ListVerdictsResponse(), 0.05), "no models\n");
}

}  // namespace
}  // namespace calibd::cli
