#include "client/cli/reports/history_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace calibd::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::GetHistoryResponse History() {
  v1::GetHistoryResponse history;
  v1::HistoryBucket& full = *history.add_buckets();
  // 2026-01-31 14:00 UTC.
  full.mutable_start_time()->set_seconds(1769868000);
  full.mutable_end_time()->set_seconds(1769868000 + 3600);
  full.set_observations(250);
  full.set_rejected_rows(7);
  full.set_missing_labels(3);
  full.set_pairs(125);
  full.set_skce(-0.1 / 3);
  full.set_skce_standard_error(0.0025);
  full.set_mean_confidence(0.75);
  full.set_accuracy(0.5);
  full.set_brier_score(0.625);
  full.set_log_loss(1.25);
  full.set_ece(0.3125);
  full.set_log10_e_value(1.5);
  full.set_max_log10_e_value(2.5);
  full.set_drift_log10_statistic(0.5);
  v1::ErrorInterval& error = *full.mutable_error();
  error.set_estimate(0.3125);
  error.set_lower(0.1 / 3);
  error.set_upper(0.5);
  error.set_gap_lower(0.125);
  error.set_gap_upper(0.375);
  full.set_off_by("31.2 (3.3 to 50)");
  v1::HistoryBucket& bare = *history.add_buckets();
  bare.mutable_start_time()->set_seconds(1769868000 + 7200);
  bare.mutable_end_time()->set_seconds(1769868000 + 10800);
  bare.set_rejected_rows(2);
  *history.mutable_total() = full;
  history.mutable_total()->set_rejected_rows(9);
  return history;
}

TEST(HistoryReportTest, HasARowForEachSpanAndOneForAll) {
  EXPECT_THAT(DescribeHistory(History(), false), Not(HasSubstr("SKCE")));
  std::istringstream table(DescribeHistory(History(), true));
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 4U);
  EXPECT_THAT(lines[0], StartsWith("from (UTC)"));
  EXPECT_THAT(lines[1], StartsWith("2026-01-31 14:00"));
  for (const char* cell : {" 250 ", " 31.2 (3.3 to 50) ", " +25.0 ", " -3.33e-02 ", " 2.50e-03 ",
                           " 0.625 ", " 1.25 ", " 1.5"}) {
    EXPECT_THAT(lines[1], HasSubstr(cell));
  }
  EXPECT_THAT(lines[2], StartsWith("2026-01-31 16:00"));
  EXPECT_THAT(lines[2], HasSubstr(" 0 "));
  EXPECT_THAT(lines[2], HasSubstr(" - "));
  EXPECT_THAT(lines[3], StartsWith("all "));
  EXPECT_EQ(DescribeHistory({}, false), "nothing was counted in this time\n");
}

TEST(HistoryReportTest, TheBiasOfQuantilesIsThatOfTheBestFit) {
  v1::GetHistoryResponse history;
  history.set_kind("forecast");
  v1::HistoryBucket& bucket = *history.add_buckets();
  bucket.set_observations(250);
  bucket.mutable_forecast()->set_crps(0.75);
  bucket.mutable_direction()->set_shift(-0.25);
  // It rounds to zero.
  bucket.mutable_error()->set_gap(-0.0004);
  bucket.mutable_forecast()->add_central_coverage();
  *history.mutable_total() = bucket;
  EXPECT_THAT(HistoryCsv(history), HasSubstr(",0.75,,,,-0.25,,,,,0,,\n"));
  const std::string text = DescribeHistory(history, true);
  EXPECT_THAT(text, HasSubstr("  +0.0      -   -  0.75          -  -0.25        -\n"));
  EXPECT_THAT(text, HasSubstr("Bias: how far the outcomes are above the forecasts"));
  EXPECT_THAT(DescribeHistory(history, false), Not(HasSubstr("Bias")));
}

TEST(HistoryReportTest, OneLevelHasNoCentralIntervalAndNoGap) {
  v1::GetHistoryResponse history;
  history.set_kind("forecast");
  v1::HistoryBucket& bucket = *history.add_buckets();
  bucket.set_observations(250);
  bucket.mutable_forecast()->set_crps(0.75);
  bucket.mutable_error()->set_estimate(0.02);
  bucket.set_off_by("2 (0 to 0)");
  *history.mutable_total() = bucket;
  EXPECT_THAT(DescribeHistory(history, false), HasSubstr("2 (0 to 0)             -\n"));
}

TEST(HistoryReportTest, ShowsWhatDecisionsCost) {
  v1::GetHistoryResponse history;
  history.set_kind("forecast");
  v1::HistoryBucket& bucket = *history.add_buckets();
  bucket.set_observations(250);
  bucket.mutable_forecast()->set_crps(0.75);
  v1::DecisionLoss& loss = *bucket.mutable_decision();
  loss.mutable_decision()->set_threshold(110);
  loss.mutable_decision()->set_false_alarm_cost(1);
  loss.mutable_decision()->set_miss_cost(1);
  loss.set_realised_loss(0.25);
  loss.set_expected_loss(0.125);
  loss.set_gap_lower_bound(-0.0625);
  loss.set_gap_upper_bound(0.375);
  *history.mutable_total() = bucket;
  std::string text = DescribeHistory(history, false);
  EXPECT_THAT(text, HasSubstr("+12.5 (-6.2 to +37.5)"));
  EXPECT_THAT(text, HasSubstr("Decisions (at 110): how many more were wrong than the forecasts "
                              "promised, in points"));
  EXPECT_THAT(HistoryCsv(history), HasSubstr(",0.25,0.125,-0.0625,0.375,0,,\n"));
  for (v1::HistoryBucket* const one : {history.mutable_buckets(0), history.mutable_total()}) {
    one->mutable_decision()->mutable_decision()->set_miss_cost(5);
  }
  text = DescribeHistory(history, false);
  EXPECT_THAT(text, HasSubstr("+0.125 (-0.0625 to +0.375)"));
  EXPECT_THAT(text, HasSubstr("how much more each cost than the forecasts promised"));
}

TEST(HistoryReportTest, ShowsTheWorseOfTheTopLabelAndClass1) {
  v1::GetHistoryResponse history = History();
  EXPECT_THAT(DescribeHistory(history, false), Not(HasSubstr("class 1")));
  for (v1::HistoryBucket* const bucket : {history.mutable_buckets(0), history.mutable_total()}) {
    bucket->mutable_class_1_error()->set_estimate(0.4);
    bucket->mutable_class_1_error()->set_lower(0.25);
    bucket->mutable_class_1_error()->set_upper(0.55);
    bucket->set_off_by("40 (25 to 55)");
    bucket->mutable_class_1_error()->set_gap(-0.375);
    bucket->set_class_1_is_worse(true);
  }
  EXPECT_THAT(DescribeHistory(history, false), ContainsRegex(" 40 \\(25 to 55\\)\\*  *-37.5"));
  EXPECT_THAT(DescribeHistory(history, false), HasSubstr("* P(class 1), whichever"));
}

TEST(HistoryReportTest, ShowsTheLabelFurthestOffOrTheChosenOnes) {
  v1::GetHistoryResponse history;
  history.set_kind("labels");
  history.set_label_count(1000);
  v1::HistoryBucket& bucket = *history.add_buckets();
  bucket.set_observations(250);
  for (const char* const name : {"a \"gale\", far off", "fog"}) {
    v1::LabelSpan& label = *bucket.add_labels();
    label.set_name(name);
    label.set_truths(250);
    label.set_stated(0.75);
    label.set_held(0.625);
    label.set_gap_lower(0.0625);
    label.set_gap_upper(0.25);
  }
  *history.mutable_total() = bucket;
  std::string text = DescribeHistory(history, false);
  EXPECT_THAT(text, HasSubstr("a \"gale\", far off +12.5 (+6.2 to +25.0)"));
  EXPECT_THAT(text, Not(HasSubstr("fog")));
  EXPECT_THAT(text, HasSubstr("Each row names one of 1000 labels. --label NAME shows another one"));
  EXPECT_THAT(text, HasSubstr("the 20 labels\nfurthest off"));
  text = DescribeHistory(history, false, {"fog", "rain"});
  EXPECT_THAT(text, ContainsRegex("gap \\(points\\)  *fog  *rain\n"));
  EXPECT_THAT(text, ContainsRegex("\\+12.5 \\(\\+6.2 to \\+25.0\\)  *-\n"));
  EXPECT_THAT(text, Not(HasSubstr("gale")));
  EXPECT_THAT(text, Not(HasSubstr("Each row names")));
  EXPECT_THAT(HistoryCsv(history), HasSubstr("_error,label,label_gap,label_gap_lower,"));
  EXPECT_THAT(HistoryCsv(history), HasSubstr(",\"a \"\"gale\"\", far off\",0.125,0.0625,0.25\n"));
}

TEST(HistoryReportTest, ShowsTheUpdatesOfTheModel) {
  v1::GetHistoryResponse history = History();
  v1::ModelUpdate& update = *history.add_updates();
  update.mutable_time()->set_seconds(1769868000);
  v1::ModelUpdate::Change& change = *update.add_changes();
  change.set_path("monitoring.error_limit");
  change.set_old_value("0.02");
  change.set_new_value("0.05");
  const std::string line = "updated 2026-01-31T14:00:00Z: monitoring.error_limit 0.02 -> 0.05\n";
  EXPECT_THAT(DescribeHistory(history, false), HasSubstr("\n" + line));
  history.clear_buckets();
  EXPECT_EQ(DescribeHistory(history, false), "nothing was counted in this time\n" + line);
}

TEST(HistoryReportTest, CsvHasAllFieldsAndExactNumbers) {
  v1::GetHistoryResponse history = History();
  v1::ErrorInterval& class_1 = *history.mutable_buckets(0)->mutable_class_1_error();
  class_1.set_estimate(0.0625);
  class_1.set_lower(0.03125);
  class_1.set_upper(0.375);
  history.mutable_buckets(0)->mutable_error()->set_estimate(0.25);
  history.mutable_buckets(0)->mutable_error()->set_gap(0.25);
  v1::ForecastScores& scores = *history.mutable_buckets(0)->mutable_forecast();
  scores.add_central_coverage();
  scores.set_crps(0.75);
  scores.set_log_score(-1.5);
  scores.set_residual_mean(0.5);
  scores.set_residual_standard_deviation(2);
  history.mutable_buckets(0)->set_discrepancy_blocks(2);
  history.mutable_buckets(0)->set_mmd_squared(-0.125);
  history.mutable_buckets(0)->set_mmd_squared_standard_error(0.0625);
  std::istringstream csv(HistoryCsv(history));
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(csv, line);) {
    std::istringstream fields(line + ",");
    lines.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) lines.back().push_back(field);
  }
  ASSERT_EQ(lines.size(), 3U);
  for (const auto& line : lines) {
    ASSERT_EQ(line.size(), 37U);
  }
  const auto field = [&](std::size_t line, const std::string& name) {
    const auto found = std::find(lines[0].begin(), lines[0].end(), name);
    EXPECT_NE(found, lines[0].end()) << name;
    return lines[line][static_cast<std::size_t>(found - lines[0].begin())];
  };
  EXPECT_EQ(field(1, "start_time"), "2026-01-31T14:00:00Z");
  EXPECT_EQ(field(1, "end_time"), "2026-01-31T15:00:00Z");
  EXPECT_EQ(field(1, "missing_labels"), "3");
  EXPECT_EQ(std::stod(field(1, "skce")), -0.1 / 3);
  EXPECT_EQ(std::stod(field(1, "gap")), 0.25);
  EXPECT_EQ(field(1, "max_log10_e_value"), "2.5");
  EXPECT_EQ(field(1, "drift_log10_statistic"), "0.5");
  EXPECT_EQ(std::stod(field(1, "error_lower")), 0.1 / 3);
  EXPECT_EQ(field(1, "error_upper"), "0.5");
  EXPECT_EQ(field(1, "gap_lower"), "0.125");
  EXPECT_EQ(field(1, "gap_upper"), "0.375");
  EXPECT_EQ(field(1, "class_1_error"), "0.0625");
  EXPECT_EQ(field(1, "class_1_error_lower"), "0.03125");
  EXPECT_EQ(field(1, "class_1_error_upper"), "0.375");
  EXPECT_EQ(field(1, "error"), "0.25");
  EXPECT_EQ(field(1, "crps"), "0.75");
  EXPECT_EQ(field(1, "log_score"), "-1.5");
  EXPECT_EQ(field(1, "residual_mean"), "0.5");
  EXPECT_EQ(field(1, "residual_standard_deviation"), "2");
  EXPECT_EQ(field(1, "bias"), "0.5");
  EXPECT_EQ(field(1, "discrepancy_blocks"), "2");
  EXPECT_EQ(field(1, "mmd_squared"), "-0.125");
  EXPECT_EQ(field(1, "mmd_squared_standard_error"), "0.0625");
  EXPECT_EQ(field(2, "observations"), "0");
  EXPECT_EQ(field(2, "rejected_rows"), "2");
  for (const char* name :
       {"skce", "skce_standard_error", "mean_confidence", "accuracy", "gap", "brier_score",
        "log_loss", "ece", "log10_e_value", "error_lower", "class_1_error", "error", "crps",
        "log_score", "residual_mean", "bias", "mmd_squared", "mmd_squared_standard_error"}) {
    EXPECT_EQ(field(2, name), "") << name;
  }
}

}  // namespace
}  // namespace calibd::cli
