#include "client/cli/reports/verdict_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A possible response about an over-confident model with this status. If there is an alarm, the
// evidence has crossed its threshold with an e-value of 340.
v1::GetCalibrationResponse Response(v1::Verdict::Status status) {
  v1::GetCalibrationResponse response;
  response.set_model("models/m");
  response.set_observations(12480);
  v1::Verdict& verdict = *response.mutable_verdict();
  verdict.set_status(status);
  verdict.add_evidence_families("witness");
  verdict.add_evidence_families("tilt");
  v1::Direction& direction = *verdict.mutable_direction();
  direction.set_mean_confidence(0.871);
  direction.set_accuracy(0.83);
  direction.set_gap(0.041);
  direction.set_gap_standard_deviation(0.003);
  auto& share = *verdict.mutable_whereabouts()->add_classes();
  share.set_class_index(3);
  share.set_class_name("cat");
  share.set_observed(0.08);
  share.set_predicted(0.12);
  share.set_z(-5.13);
  share.set_stands_out(true);
  for (const double z : {1.0, -7.25}) {
    auto& bin = *verdict.mutable_whereabouts()->add_confidence_bins();
    bin.set_lower(z < 0 ? 0.8 : 0.7);
    bin.set_upper(z < 0 ? 0.9 : 0.8);
    bin.set_observations(2310);
    bin.set_mean_confidence(0.85);
    bin.set_accuracy(0.71);
    bin.set_z(z);
    bin.set_stands_out(z < 0);
  }
  v1::Watch& watch = *response.mutable_watch();
  watch.set_observations(12480);
  watch.set_first_observation(1);
  const bool is_alarm = status == v1::Verdict::MISCALIBRATED || status == v1::Verdict::DRIFTED;
  const double largest_e_value = is_alarm ? 340 : 12;
  watch.set_min_observations(status == v1::Verdict::INSUFFICIENT_DATA ? 20000 : 500);
  v1::Evidence& evidence = *watch.mutable_evidence();
  evidence.set_log10_e_value(std::log10(is_alarm ? 120 : 6));
  evidence.set_max_log10_e_value(std::log10(largest_e_value));
  evidence.set_max_observation(900);
  evidence.set_anytime_p_value(1 / largest_e_value);
  evidence.set_threshold(std::log10(20));
  v1::Drift& drift = *watch.mutable_drift();
  drift.set_log10_statistic(1.2);
  drift.set_max_log10_statistic(status == v1::Verdict::DRIFTED ? 6.5 : 2.5);
  drift.set_threshold(6);
  v1::EffectSize& size = *watch.mutable_effect_size();
  size.set_skce(1.5e-3);
  size.set_skce_lower_bound(1e-3);
  size.set_skce_upper_bound(2e-3);
  size.set_noise_floor(1e-4);
  size.set_one_look_z(4.5);
  size.set_one_look_p_value(3.4e-6);
  return response;
}

TEST(VerdictReportTest, HasTheNumbersOfAMiscalibratedModel) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  EXPECT_EQ(DescribeNumbers(response),
            "log10 e-value                         +2.08\n"
            "  highest                             +2.53 at row 900\n"
            "  rejects at                          +1.30\n"
            "  p-value at all times                0.00294\n"
            "  families                            witness, tilt\n"
            "SKCE                                  +1.50e-03\n"
            "  interval at all times               1.00e-03 to 2.00e-03\n"
            "  calibrated: 95 % below              +1.00e-04\n"
            "  z (one look)                        4.5\n"
            "  p (one look)                        3.4e-06\n"
            "mean confidence                       87.1 %\n"
            "accuracy                              83.0 %\n"
            "  difference                          +4.1 points\n"
            "  standard deviation if calibrated    0.3 points\n"
            "log10 of the drift detector           1.20\n"
            "  highest                             2.50\n"
            "  alarm at                            6.00\n"
            "\nRanges of confidence that stand out:\n"
            "confidence      rows  says %  right %  z (one look)\n"
            "0.800 to 0.900  2310    85.0     71.0          -7.2\n"
            "\nClasses with the largest deviations; e-BH rejects 0 in all (*):\n"
            "class  says %  is %  z (one look)  log10 e-value  rejected\n"
            "cat      12.0   8.0          -5.1          +0.00\n");
  // The watch restarted, and its rows have the numbers of the model.
  response.mutable_watch()->set_first_observation(601);
  response.mutable_watch()->mutable_evidence()->set_max_log10_e_value(412.34);
  EXPECT_THAT(
      DescribeNumbers(response),
      AllOf(StartsWith("Since row 601, when the watch restarted:\n"),
            HasSubstr("+412.34 at row 1500\n"), HasSubstr("all times                10^-412.3")));
}

TEST(VerdictReportTest, HasTheNumbersOfForecasts) {
  v1::GetCalibrationResponse response;
  EXPECT_EQ(DescribeNumbers(response), "");
  v1::Verdict& verdict = *response.mutable_verdict();
  verdict.mutable_direction()->mutable_forecast()->set_scale(1.5);
  v1::ForecastCell& cell = *verdict.mutable_whereabouts()->add_cells();
  cell.set_upper(0.001);
  cell.set_observations(34);
  cell.set_expected(2);
  cell.set_z(22.6);
  cell.set_stands_out(true);
  v1::ErrorMeasurement& all = *response.mutable_error()->mutable_since_start();
  all.set_first_observation(1);
  all.set_observations(31500);
  all.mutable_coverage()->set_estimate(0.011);
  all.mutable_coverage()->set_upper(0.029);
  all.add_central_coverage()->set_promised(0.9);
  v1::ErrorMeasurement& newest = *response.mutable_error()->mutable_newest();
  newest = all;
  const std::string alone =
      "fitted mean (0 if calibrated)         +0.00\n"
      "fitted deviation (1 if calibrated)    1.50\n"
      "\n"
      "since row   rows  off by (points)  from   to  90 % intervals cover %\n"
      "1          31500              1.1   0.0  2.9                     0.0\n";
  const std::string cells =
      "\nCells that stand out:\n"
      "cell        outcomes  expected  z (one look)\n"
      "0 to 0.001        34       2.0         +22.6\n";
  EXPECT_EQ(DescribeNumbers(response), alone + cells);
  newest.set_first_observation(29953);
  newest.set_observations(1548);
  EXPECT_EQ(
      DescribeNumbers(response),
      alone + "29953       1548              1.1   0.0  2.9                     0.0\n" + cells);
}

TEST(VerdictReportTest, TellsAlarmsGroupsAndWarnings) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  v1::Alarm& active = *response.add_alarms();
  active.set_id(2);
  active.set_kind(v1::Alarm::EVIDENCE);
  active.mutable_raise_time()->set_seconds(86400);
  active.set_observation(310);
  active.set_threshold(std::log10(20));
  active.set_skce(0.002);
  v1::Alarm& old = *response.add_alarms();
  old = active;
  old.set_id(1);
  old.set_kind(v1::Alarm::DRIFT);
  old.set_threshold(6);
  old.set_group_value("eu");
  old.mutable_acknowledge_time()->set_seconds(86401);
  old.set_note("re\x1b[31mcalibrated");
  old.clear_skce();
  for (const bool overflow : {false, true}) {
    v1::GroupWatch& group = *response.add_groups();
    group.set_value("eu");
    group.set_overflow(overflow);
    group.set_tested(!overflow);
    group.set_rejected(!overflow);
    group.mutable_watch()->set_observations(500);
    group.mutable_watch()->set_min_observations(600);
    group.mutable_watch()->mutable_evidence()->set_threshold(2);
    group.mutable_watch()->mutable_evidence()->set_log10_e_value(1.25);
    group.mutable_watch()->mutable_evidence()->set_max_log10_e_value(2.5);
    v1::ErrorMeasurement& error = *group.mutable_error()->mutable_since_start();
    error.set_observations(500);
    error.mutable_top_label()->set_gap(0.0625);
    error.mutable_top_label()->set_estimate(0.07);
  }
  response.set_tested_groups(1);
  response.add_warnings("half of the predictions are duplicates");
  const std::string text = DescribeNumbers(response);
  EXPECT_THAT(text, HasSubstr("\nWARNING: half of the predictions are duplicates\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "m: 1 alarm active\n"
          "alarm      kind  group                raised  row                        found          "
          "acknowledged\n"
          "2      evidence      -  1970-01-02 00:00 UTC  310           e-value crossed 20          "
          " "
          "         no\n"
          "1         drift     eu  1970-01-02 00:00 UTC  310  drift detector crossed 10^6  "
          "1970-01-02 "
          "00:00 UTC\n"
          "alarm 1: re?[31mcalibrated\n"
          "The row of an evidence or drift alarm is the one at which its threshold was reached. "
          "The rows of the warm-up are judged together at its last row.\n"));
  EXPECT_THAT(text, HasSubstr("e-BH over the 1 tested groups of 2 rejects 1, however often "
                              "one looks: the expected share of calibrated groups among them is at "
                              "most 1 %.\n"));
  EXPECT_THAT(text,
              HasSubstr("log10 e-value  largest so far  SKCE  confidence - accuracy (points)"));
  EXPECT_THAT(text, ContainsRegex("\neu  *500  *\\+1.25  *\\+2.50  *-  *\\+6.2  *0 to 0  *yes\n"));
  EXPECT_THAT(text, ContainsRegex("\n\\(other groups\\)  500 .*  not tested: 500 of 600 "
                                  "observations\n"));
  EXPECT_THAT(text, Not(HasSubstr(" more\n")));
  for (int i = 2; i < 31; ++i) *response.add_groups() = response.groups(1);
  EXPECT_THAT(DescribeNumbers(response), EndsWith("observations\n... 11 more\n"));
  v1::AcknowledgeAlarmResponse acknowledged;
  *acknowledged.mutable_alarm() = old;
  acknowledged.set_effect("the drift detectors begin anew, and the evidence continues");
  acknowledged.mutable_reading()->mutable_verdict()->set_text("WITHIN_LIMIT");
  EXPECT_EQ(DescribeAcknowledged("models/m", acknowledged),
            "m: alarm 1 (drift) was acknowledged at 1970-01-02 00:00 UTC; the drift detectors "
            "begin anew, and the evidence continues. Now:\n" +
                DescribeReading("m", acknowledged.reading()));
  EXPECT_EQ(DescribeAlarms("models/m", {}), "m: no alarms\n");
}

// A number only with its interval.
TEST(VerdictReportTest, AnAlarmAboutTheLimitSaysWhatItFound) {
  google::protobuf::RepeatedPtrField<v1::Alarm> alarms;
  v1::Alarm& alarm = *alarms.Add();
  alarm.set_kind(v1::Alarm::OVER_LIMIT);
  v1::Alarm::LimitCrossing& crossing = *alarm.mutable_crossing();
  crossing.set_limit(0.02);
  crossing.set_is_recent(true);
  crossing.set_first_observation(29697);
  EXPECT_THAT(DescribeAlarms("models/m", alarms),
              AllOf(HasSubstr("newest rows off by more than 2 points"), Not(HasSubstr("29697")),
                    Not(HasSubstr("warm-up"))));
  crossing.mutable_error()->set_estimate(0.205);
  crossing.mutable_error()->set_lower(0.105);
  crossing.mutable_error()->set_upper(0.305);
  EXPECT_THAT(DescribeAlarms("models/m", alarms),
              HasSubstr("off by 20.5 points (10.5 to 30.5; limit 2 points) since row 29697"));
  crossing.set_is_recent(false);
  EXPECT_THAT(DescribeAlarms("models/m", alarms), Not(HasSubstr("29697")));
}

TEST(VerdictReportTest, AnAlarmAboutAChangeSaysWhatChanged) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::NOT_REJECTED);
  v1::Alarm& alarm = *response.add_alarms();
  alarm.set_kind(v1::Alarm::CHANGED);
  alarm.mutable_finding()->set_since_observation(5012);
  alarm.mutable_finding()->set_observations(873);
  alarm.mutable_finding()->set_wrong(7);
  alarm.mutable_finding()->set_expected_wrong(61.23);
  EXPECT_THAT(
      DescribeAlarms("models/m", response.alarms()),
      AllOf(HasSubstr(" changed "),
            HasSubstr("fewer errors since about row 5012: 7 of 873 predictions were wrong, 61 "
                      "are expected by the reference"),
            Not(HasSubstr("warm-up"))));
  v1::ReferenceChange& change = *response.mutable_reference_change();
  EXPECT_THAT(DescribeNumbers(response), Not(HasSubstr("error rate of")));
  change.set_reference_error_rate(.0421);
  EXPECT_THAT(DescribeNumbers(response), AllOf(ContainsRegex("error rate of the reference +0.0421"),
                                               Not(HasSubstr("a change"))));
  change.set_log10_e_value(1.387);
  change.set_threshold(1.301);
  EXPECT_THAT(DescribeNumbers(response),
              ContainsRegex("log10 of the e-value of a change +1.39\n +alarm at +1.30"));
}

TEST(VerdictReportTest, AnAlarmOfTwoClassesNamesItsEvent) {
  google::protobuf::RepeatedPtrField<v1::Alarm> alarms;
  for (const bool is_class_1 : {true, false}) {
    v1::Alarm& alarm = *alarms.Add();
    alarm.set_kind(v1::Alarm::OVER_LIMIT);
    alarm.mutable_crossing()->set_is_class_1(is_class_1);
    alarm.mutable_crossing()->mutable_error()->set_upper(0.125);
  }
  EXPECT_THAT(DescribeAlarms("models/m", alarms),
              AllOf(HasSubstr(" P(class 1) off by 0 to 12.5 points"),
                    HasSubstr(" top label off by 0 to 12.5 points")));
}

TEST(VerdictReportTest, AGroupOfTwoClassesShowsTheWorseEvent) {
  v1::GetCalibrationResponse response;
  response.mutable_verdict();
  v1::GroupWatch& group = *response.add_groups();
  group.set_value("north");
  group.set_tested(true);
  group.mutable_watch()->set_observations(200);
  v1::ErrorMeasurement& error = *group.mutable_error()->mutable_since_start();
  error.set_observations(200);
  error.mutable_top_label()->set_lower(0.0625);
  *error.mutable_class_1() = error.top_label();
  EXPECT_THAT(DescribeNumbers(response),
              ContainsRegex("\nnorth  200 .* \\+0.0 .* 0 .6.2 to 0. .* no\n"));
  error.mutable_class_1()->set_estimate(0.17);
  error.mutable_class_1()->set_gap(-0.17);
  error.set_class_1_is_worse(true);
  EXPECT_THAT(DescribeNumbers(response),
              AllOf(ContainsRegex("\nnorth  200 .* -17.0 .* 17 .6.2 to 0. \\* .* no\n"),
                    HasSubstr("says - is (points)"), HasSubstr("\n* of P(class 1), which is ")));
}

TEST(VerdictReportTest, TheGapOfAGroupOfForecastsIsOfItsRows) {
  v1::GetCalibrationResponse response;
  response.mutable_verdict();
  for (const bool measured : {true, false}) {
    v1::GroupWatch& group = *response.add_groups();
    group.set_value(measured ? "north" : "south");
    group.mutable_watch()->set_observations(118);
    group.mutable_direction()->mutable_forecast();
    group.mutable_forecast()->set_crps(6.875);
    // This is the gap of other rows.
    group.mutable_error()->mutable_since_start()->mutable_coverage()->set_gap(0.25);
    if (!measured) continue;
    v1::CentralCoverage& widest = *group.mutable_forecast()->add_central_coverage();
    widest.set_promised(0.9);
    widest.set_coverage(0.729);
  }
  const std::string text = DescribeNumbers(response);
  EXPECT_THAT(text, ContainsRegex("\nnorth  118 .* 6.88  *\\+17.1 "));
  // This group has no central interval.
  EXPECT_THAT(text, ContainsRegex("\nsouth  118 .* 6.88  *- "));
}

TEST(VerdictReportTest, AChangeTakesOneLine) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  response.add_alarms()->set_id(1);
  response.mutable_reading()->mutable_verdict()->set_text("MISCALIBRATED");
  EXPECT_EQ(ChangeLine(response),
            "m MISCALIBRATED, 12480 rows, e-value 120 (rejection needs 20), 1 alarm active");
  response.clear_verdict();
  response.clear_watch();
  response.mutable_reading()->mutable_verdict()->set_text("not monitored");
  EXPECT_EQ(ChangeLine(response), "m not monitored, 12480 rows");
}

TEST(VerdictReportTest, AScreenHasRoomForItsStatus) {
  EXPECT_EQ(FitScreen("a\nb\n", "now", 10, 4), "a\nb\n\nnow");
  EXPECT_EQ(FitScreen("a\nb\nc\n", "now", 10, 4), "a\nb\n... 1 more\nnow");
  EXPECT_EQ(FitScreen("a\nb\nc\n", "today", 3, 2), "...\ntod");
  EXPECT_EQ(FitScreen("", "now", 10, 1), "\nnow");
}

TEST(VerdictReportTest, ShowGivesAReasonAndAWarningOnce) {
  const auto times = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  };
  v1::GetCalibrationResponse response;
  response.set_model("models/m");
  response.set_bandwidth_error("the median is zero");
  response.mutable_insufficient_data()->set_observations(60);
  response.mutable_insufficient_data()->set_reason(response.bandwidth_error());
  response.mutable_label_arrivals()->add_warnings("labels are missing");
  const auto expect_once = [&] {
    const std::string text =
        DescribeShow(response) + DescribeNumbers(response) + DescribeCalibration(response);
    EXPECT_EQ(times(text, "the median is zero"), 1) << text;
    EXPECT_EQ(times(text, "WARNING: labels are missing\n"), 1) << text;
    EXPECT_THAT(text, Not(HasSubstr("0 more needed")));
  };
  expect_once();
  response.mutable_verdict();
  response.add_warnings("labels are missing");
  response.mutable_reading()->mutable_certain()->set_text("no evidence: the median is zero");
  expect_once();
  response.clear_bandwidth_error();
  response.mutable_insufficient_data()->set_needed(40);
  EXPECT_THAT(DescribeCalibration(response),
              HasSubstr("Not enough data: 60 observations, 40 more needed"));
}

}  // namespace
}  // namespace calibd::cli
