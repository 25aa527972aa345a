#include "client/cli/reports/show_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "absl/strings/str_split.h"
#include "calibd/convert/text.h"

namespace calibd::cli {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

v1::ErrorMeasurement Measured(double estimate, double lower, double upper, double gap) {
  v1::ErrorMeasurement measured;
  measured.set_observations(10000);
  measured.set_first_observation(1);
  measured.set_mean_confidence(0.96956);
  measured.set_accuracy(0.96956 - gap);
  v1::ErrorInterval& interval = *measured.mutable_top_label();
  interval.set_estimate(estimate);
  interval.set_lower(lower);
  interval.set_upper(upper);
  interval.set_gap(gap);
  interval.set_gap_lower(gap - 0.0105);
  interval.set_gap_upper(gap + 0.0105);
  return measured;
}

// An over-confident model that is over its limit.
v1::GetCalibrationResponse OverLimit() {
  v1::GetCalibrationResponse response;
  response.set_model("models/resnet18/versions/2");
  response.set_observations(10000);
  response.mutable_last_observation_time()->set_seconds(86400);
  v1::Verdict& verdict = *response.mutable_verdict();
  verdict.set_limit_status(v1::CalibrationError::OVER_LIMIT);
  verdict.set_status(v1::Verdict::MISCALIBRATED);
  auto& bin = *verdict.mutable_whereabouts()->add_confidence_bins();
  bin.set_lower(14. / 15);
  bin.set_upper(1);
  bin.set_observations(9021);
  bin.set_mean_confidence(0.996);
  bin.set_accuracy(0.959);
  bin.set_z(-40);
  bin.set_stands_out(true);
  auto& cat = *verdict.mutable_whereabouts()->add_classes();
  cat.set_class_name("cat");
  cat.set_predicted(0.105);
  cat.set_observed(0.1);
  cat.set_rejected(true);
  cat.set_stands_out(true);
  auto& dog = *verdict.mutable_whereabouts()->add_classes();
  dog.set_class_index(5);
  dog.set_predicted(0.1);
  dog.set_observed(0.109);
  dog.set_rejected(true);
  verdict.mutable_whereabouts()->set_rejected_classes(2);
  v1::CalibrationError& error = *response.mutable_error();
  error.set_status(v1::CalibrationError::OVER_LIMIT);
  error.set_limit(0.02);
  *error.mutable_since_start() = Measured(0.0535, 0.0423, 0.0678, 0.05246);
  error.mutable_recent()->set_first_observation(1);
  error.mutable_recent()->set_observations(10000);
  v1::Evidence& evidence = *response.mutable_watch()->mutable_evidence();
  evidence.set_log10_e_value(229.07);
  evidence.set_max_log10_e_value(229.09);
  evidence.set_threshold(std::log10(20));
  v1::Alarm& alarm = *response.add_alarms();
  alarm.set_id(3);
  alarm.set_kind(v1::Alarm::OVER_LIMIT);
  alarm.set_observation(913);
  alarm.mutable_raise_time()->set_seconds(3600);
  alarm.mutable_crossing()->set_first_observation(1);
  return response;
}

google::protobuf::Timestamp Now() {
  google::protobuf::Timestamp now;
  now.set_seconds(86400 + 7200);
  return now;
}

void ExpectFits(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, SizeIs(Le(17U))) << text;
  EXPECT_THAT(lines, Each(SizeIs(Le(100U)))) << text;
}

TEST(PointsTest, HasAtMostTwoDecimals) {
  EXPECT_EQ(convert::Points(0.2), "20");
  EXPECT_EQ(convert::Points(0.02), "2");
  EXPECT_EQ(convert::Points(0.0535), "5.3");
  EXPECT_EQ(convert::Points(0.0999), "10");
  EXPECT_EQ(convert::Points(0.0054), "0.54");
  EXPECT_EQ(convert::Points(0.000071), "0.01");
  EXPECT_EQ(convert::Points(0.00001), "0");
  EXPECT_EQ(convert::OffByText(0.01, 0, 0.0999, 0.2), "off by 1 point (0 to 10; limit 20)");
}

TEST(PointsTest, ANumberThatRoundsToZeroHasNoMinusSign) {
  EXPECT_EQ(convert::Fixed(-0.04, 1), "0.0");
  EXPECT_EQ(convert::Fixed(-0.06, 1), "-0.1");
  EXPECT_EQ(convert::Fixed(-0.0, 0), "0");
  EXPECT_EQ(convert::SignedFixed(-0.04, 1), "+0.0");
  EXPECT_EQ(convert::SignedFixed(-10, 0), "-10");
  EXPECT_EQ(convert::SignedFixed(0.06, 1), "+0.1");
  EXPECT_EQ(convert::Points(-1e-9), "0");
}

TEST(PointsTest, AHugeNumberHasAPowerOfTen) {
  EXPECT_EQ(convert::Fixed(1.3072e142, 3), "1.31e+142");
  EXPECT_EQ(convert::SignedFixed(-2e6, 1), "-2e+06");
  EXPECT_EQ(convert::SignedFixed(999999, 1), "+999999.0");
}

TEST(PointsTest, ADeclaredNumberIsNotRounded) {
  EXPECT_EQ(convert::Exact(110), "110");
  EXPECT_EQ(convert::Exact(1234567.89), "1234567.89");
  EXPECT_EQ(convert::Exact(-0.1), "-0.1");
  EXPECT_EQ(convert::Exact(1e300), "1e+300");
}

TEST(PointsTest, AnIntervalThatSaysLittleHasNoEstimate) {
  EXPECT_EQ(convert::OffByText(0.95, 0, 1, 0.05),
            "off by 0 to 100 points (too few rows to say more; limit 5)");
  // Neither one that excludes 0 nor one that ends at a half, which may be the limit.
  EXPECT_EQ(convert::OffByText(0.9, 0.1, 1, 0.05), "off by 90 points (10 to 100; limit 5)");
  EXPECT_EQ(convert::OffByText(0.2, 0, 0.5, 0.5), "off by 20 points (0 to 50; limit 50)");
}

TEST(PointsTest, ARecentErrorFollowsThatOfAllRows) {
  v1::CalibrationError error;
  error.set_limit(0.05);
  *error.mutable_since_start() = Measured(0.011, 0, 0.029, 0);
  v1::CalibrationError::RecentError& recent = *error.mutable_recent();
  recent.set_observations(1548);
  recent.set_estimate(0.205);
  EXPECT_EQ(convert::OffByText(error), "off by 1.1 points (0 to 2.9; limit 5)");
  error.set_is_recent(true);
  EXPECT_EQ(convert::OffByText(error),
            "off by 1.1 points (0 to 2.9; limit 5); the newest 1548 rows: off by 20.5 points");
  *error.mutable_since_start()->mutable_coverage() = error.since_start().top_label();
  recent.mutable_forecast()->set_observations(1548);
  v1::ErrorInterval& coverage = *recent.mutable_forecast()->mutable_coverage();
  coverage.set_estimate(0.205);
  coverage.set_lower(0.105);
  coverage.set_upper(0.305);
  EXPECT_EQ(convert::OffByText(error),
            "off by 1.1 points (0 to 2.9; limit 5); the newest 1548 rows: off by 20.5 points "
            "(10.5 to 30.5)");
}

TEST(ShowReportTest, TellsWhatToKnowInOrder) {
  EXPECT_EQ(
      DescribeShow(OverLimit(), Now()),
      "verdict   resnet18@2: OVER_LIMIT since 1970-01-01 01:00 UTC (row 913), MISCALIBRATED\n"
      "how bad   off by 5.3 points (4.2 to 6.8; limit 2); says 96.96 %, right 91.71 %: "
      "over-confident by\n"
      "          5.25 (4.2 to 6.3)\n"
      "where     confidence 0.93 to 1.00: says 99.6 %, right 95.9 % (9021 rows); class cat (says "
      "10.5 %, is\n"
      "          10.0 %); rejected for class 5\n"
      "changed   no change is visible: off from the first row on\n"
      "repair    `calibctl recalibrate --model resnet18@2` looks for a map that repairs the model\n"
      "certain   e-value 10^229.1, highest 10^229.1; calibration is rejected at 20\n"
      "data      10000 labelled rows, 0 rejected; the newest row came 2h ago\n"
      "next      calibctl acknowledge resnet18@2 3 --note \"...\"; calibctl show resnet18@2 "
      "--verbose\n");
}

TEST(ShowReportTest, FitsAScreenWithLongNamesAndManyPlaces) {
  v1::GetCalibrationResponse response = OverLimit();
  const std::string longest(64, 'x');
  for (int i = 0; i < 20; ++i) {
    v1::GroupWatch& group = *response.add_groups();
    group.set_value(longest);
    *group.mutable_error() = response.error();
    response.mutable_verdict()->add_groups_over_limit(longest);
    auto& share = *response.mutable_verdict()->mutable_whereabouts()->add_classes();
    share.set_class_name(longest);
    share.set_rejected(true);
    response.add_warnings(std::string(500, 'w') + " " + std::string(500, 'v'));
  }
  response.mutable_error()->set_is_recent(true);
  response.mutable_error()->set_acknowledged_limit(0.068);
  *response.mutable_error()->mutable_since_start()->mutable_class_1() =
      response.error().since_start().top_label();
  response.mutable_label_arrivals()->set_pending(600);
  const std::string text = DescribeShow(response, Now());
  ExpectFits(text);
  // Whole places are left out.
  EXPECT_THAT(text, HasSubstr("(9021 rows); class cat (says 10.5 %, is 10.0 %)\n"));
  EXPECT_THAT(text, HasSubstr(" points off (4.2 to 6.8) and 19 more; confidence"));
}

TEST(ShowReportTest, GroupsOverTheLimitAreInTheHeadline) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::GroupWatch& group = *response.add_groups();
  group.set_value("e\x1bu");
  *group.mutable_error() = response.error();
  response.mutable_verdict()->add_groups_over_limit("e\x1bu");
  std::string text = DescribeShow(response, Now());
  EXPECT_THAT(text,
              StartsWith("verdict   resnet18@2: OVER_LIMIT, also in group e?u since 1970-01-01"));
  EXPECT_THAT(text, HasSubstr("where     group e?u 5.3 points off (4.2 to 6.8); confidence"));
  ExpectFits(text);

  response.mutable_error()->set_is_acknowledged(true);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("OVER_LIMIT (acknowledged), OVER_LIMIT in group e?u since 1970-"));
  response.mutable_verdict()->set_is_acknowledged(true);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("OVER_LIMIT (acknowledged), also in group e?u since 1970-01-01"));

  // Only a group is over the limit; whether its calibration changed is not known.
  response = OverLimit();
  response.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  *response.add_groups()->mutable_error() = OverLimit().error();
  response.mutable_verdict()->add_groups_over_limit("");
  response.mutable_alarms(0)->set_group_value("");
  text = DescribeShow(response, Now());
  EXPECT_THAT(text,
              StartsWith("verdict   resnet18@2: OVER_LIMIT in group (no value) since 1970-01-01"));
  EXPECT_THAT(text, Not(HasSubstr("changed")));

  // The first row at which one of them exceeded its limit.
  v1::Alarm& alarm = *response.add_alarms();
  alarm = response.alarms(0);
  alarm.set_id(2);
  alarm.set_observation(1200);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("(row 913)"));
}

TEST(ShowReportTest, NamesGroupsWithoutAValueAndGroupsThatAreNotMeasured) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::GroupWatch& group = *response.add_groups();
  *group.mutable_error() = response.error();
  group.set_overflow(true);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("group (other groups) 5.3 points off"));
  group.set_overflow(false);
  group.mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(0);
  group.mutable_error()->mutable_since_start()->mutable_top_label()->set_upper(0.75);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("group (no value) 0 to 75 points off (too few rows to say more)"));
  group.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(
      DescribeShow(response, Now()),
      HasSubstr("where     group (no value) (not measured yet since the acknowledgement); conf"));
}

TEST(ShowReportTest, WithoutExaminedRowsNothingIsSaidAboutPlaces) {
  v1::GetCalibrationResponse response = OverLimit();
  response.mutable_verdict()->clear_whereabouts();
  EXPECT_THAT(DescribeShow(response, Now()), Not(HasSubstr("where")));
  response.mutable_verdict()->mutable_whereabouts()->add_confidence_bins()->set_observations(7);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("where     nothing stands out\n"));
}

TEST(ShowReportTest, AfterAnUpdateSaysFromWhichRow) {
  v1::GetCalibrationResponse response = OverLimit();
  response.mutable_error()->mutable_since_start()->Clear();
  response.mutable_error()->mutable_since_start()->set_first_observation(10001);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("how bad   no labelled row since the update (row 10001)\n"));
}

TEST(ShowReportTest, AfterAnAcknowledgementSaysFromWhichRow) {
  v1::GetCalibrationResponse response = OverLimit();
  response.mutable_verdict()->set_is_acknowledged(true);
  response.mutable_error()->set_is_acknowledged(true);
  response.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(1);
  response.mutable_error()->set_acknowledged_limit(0.068);
  v1::ErrorMeasurement& since = *response.mutable_error()->mutable_since_acknowledgement();
  since.set_first_observation(10001);
  std::string text = DescribeShow(response, Now());
  EXPECT_THAT(text, AllOf(HasSubstr("OVER_LIMIT (acknowledged), MISCALIBRATED"),
                          HasSubstr("was off by 5.3 points (4.2 to 6.8) over rows 1 to 10000; no "
                                    "labelled row since the\n          acknowledgement\n"),
                          HasSubstr("from row 10001"), Not(HasSubstr("calibctl acknowledge"))));
  // The event that exceeded the limit.
  *response.mutable_error()->mutable_since_start()->mutable_class_1() =
      Measured(0.069, 0.044, 0.106, 0.05).top_label();
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("P(class 1) was off by 6.9 points (4.4 to 10.6) over rows 1 to 10000;"));
  response.mutable_error()->mutable_since_start()->clear_class_1();
  since = Measured(0.051, 0.01, 0.1, 0.05);
  since.set_first_observation(10001);
  text = DescribeShow(response, Now());
  EXPECT_THAT(text, HasSubstr("off by 5.1 points (1 to 10; limit 2)"));
  EXPECT_THAT(text, HasSubstr("next alarm"));
  ExpectFits(text);
}

TEST(ShowReportTest, SaysLittleWithLittleData) {
  v1::GetCalibrationResponse response;
  response.set_model("models/young");
  EXPECT_EQ(DescribeShow(response, Now()),
            "model     young: not monitored, so there is no verdict\n"
            "data      0 labelled rows, 0 rejected\n"
            "next      calibctl show young --verbose\n");
  response.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  response.mutable_verdict()->set_status(v1::Verdict::INSUFFICIENT_DATA);
  response.mutable_watch()->set_unavailable_reason("the bandwidth is chosen later");
  response.mutable_error()->set_observations_needed(30313);
  EXPECT_EQ(DescribeShow(response, Now()),
            "verdict   young: UNDECIDED, INSUFFICIENT_DATA\n"
            "how bad   no labelled row yet\n"
            "certain   about 31000 more labelled rows decide about the limit; no evidence: the "
            "bandwidth is\n"
            "          chosen later\n"
            "data      0 labelled rows, 0 rejected\n"
            "next      calibctl show young --verbose\n");
}

TEST(ShowReportTest, SaysWhenTheFirstPendingPredictionCounts) {
  v1::GetCalibrationResponse response;
  response.set_model("models/clicks");
  v1::LabelArrivals& coverage = *response.mutable_label_arrivals();
  coverage.set_pending(600);
  coverage.mutable_next_maturation_time()->set_seconds(86400);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("600 pending; the first will count on 1970-01-02"));
  response.set_observations(1);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("600 pending, 0 without"));
}

TEST(ShowReportTest, TellsAChangeFromAModelThatWasAlwaysWrong) {
  v1::GetCalibrationResponse response = OverLimit();
  response.mutable_verdict()->set_is_recent(true);
  response.mutable_error()->set_is_recent(true);
  response.mutable_alarms(0)->mutable_crossing()->set_is_recent(true);
  response.mutable_alarms(0)->mutable_crossing()->set_first_observation(30001);
  const std::string text = DescribeShow(response, Now());
  EXPECT_THAT(text, HasSubstr("OVER_LIMIT (recent) since 1970-01-01 01:00 UTC (row 913), MISC"));
  EXPECT_THAT(text, HasSubstr("changed   yes, at about row 30001\n"));
  // The interval exceeded the limit, but the worst stretch of newest rows is not the whole run.
  response = OverLimit();
  response.mutable_error()->mutable_recent()->set_first_observation(7000);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("changed   not known; see `calibctl history resnet18@2`\n"));
}

TEST(ShowReportTest, AnAcknowledgementChangesNoSentenceAboutAChange) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::Alarm& over = *response.mutable_alarms(0);
  over.mutable_crossing()->set_is_recent(true);
  over.mutable_crossing()->set_first_observation(30001);
  // This alarm is due to the same change.
  v1::Alarm& drift = *response.add_alarms();
  drift.set_kind(v1::Alarm::DRIFT);
  drift.set_observation(30040);
  drift.mutable_raise_time()->set_seconds(7200);
  const std::string yes = "changed   yes, at about row 30001\n";
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(yes));
  response.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(9000);
  response.mutable_error()->set_is_acknowledged(true);
  response.mutable_error()->mutable_since_acknowledgement()->set_first_observation(40001);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(yes));

  // Without an alarm about the limit, evidence that comes later does not explain the drift alarm.
  response.mutable_alarms(0)->set_kind(v1::Alarm::EVIDENCE);
  response.mutable_alarms(0)->set_observation(32000);
  const std::string perhaps = "changed   perhaps: the drift detector reacted at row 30040\n";
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(perhaps));
  response.mutable_alarms(0)->clear_acknowledge_time();
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(perhaps));
  // Earlier evidence does, also after its acknowledgement, unless that came before the drift alarm.
  response.mutable_alarms(0)->set_observation(913);
  const std::string not_so = "changed   perhaps not: calibration was rejected over all rows before";
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(not_so));
  response.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(9000);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(not_so));
  response.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(7000);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr(perhaps));
}

TEST(ShowReportTest, NamesABiasOfForecastsThatIsMoreThanNoise) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::ErrorMeasurement& all = *response.mutable_error()->mutable_since_start();
  response.mutable_error()->clear_since_acknowledgement();
  *all.mutable_coverage() = all.top_label();
  // The standard error of the mean of 10000 residuals is 0.01.
  v1::ForecastDirection& direction = *all.mutable_direction();
  direction.set_scale(1);
  direction.set_residual_standard_deviation(1);
  direction.set_residual_mean(0.039);
  EXPECT_THAT(DescribeShow(response, Now()), Not(HasSubstr("standard deviations too")));
  direction.set_residual_mean(-0.041);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("; on average 0.041 standard deviations too high"));
  // Quantiles and samples have no residuals.
  direction.clear_residual_mean();
  direction.clear_residual_standard_deviation();
  EXPECT_THAT(DescribeShow(response, Now()), Not(HasSubstr("standard deviations too")));
  direction.set_shift(0.25);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("on average about 0.25 standard"));
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
  EXPECT_EQ(DescribeBins(response),
            top_label +
                "\nprobability of class 1  rows  says %  class 1 %  gap (points)\n"
                "0.000 to 0.067            40     2.0        5.0          -3.0\n");
}

TEST(ShowReportTest, TheDecisionSaysWhichRowsItIsAbout) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::DecisionLoss& loss = *response.mutable_watch()->mutable_decision();
  loss.set_observations(400);
  loss.mutable_decision()->set_threshold(100000.5);
  loss.mutable_decision()->set_false_alarm_cost(1);
  loss.mutable_decision()->set_miss_cost(1);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("decision  at 100000.5: 0.0 % of 400 decisions were wrong"));
  response.mutable_watch()->set_first_observation(3401);
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("400 decisions since row 3401 were wrong"));
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

TEST(ShowReportTest, BeforeTheFirstVerdictSaysHowManyRowsItNeeds) {
  v1::GetCalibrationResponse response = OverLimit();
  v1::Watch& watch = *response.mutable_watch();
  watch.set_observations(30);
  watch.set_min_observations(100);
  watch.mutable_evidence()->set_log10_e_value(0.5);
  watch.mutable_evidence()->set_max_log10_e_value(0);
  EXPECT_THAT(
      DescribeShow(response, Now()),
      HasSubstr("certain   e-value 3.16, which counts after 100 labelled rows; 30 so far\n"));
}

TEST(ShowReportTest, SaysWhatRepairsAModelThatIsOverItsLimit) {
  v1::GetCalibrationResponse response = OverLimit();
  EXPECT_THAT(
      DescribeShow(response, Now()),
      HasSubstr("\nrepair    `calibctl recalibrate --model resnet18@2` looks for a map that "
                "repairs the model\n"));
  v1::Recalibration& advice = *response.mutable_recalibration();
  advice.mutable_map()->set_kind("temperature");
  advice.mutable_map()->set_temperature(1.9);
  advice.set_helps(true);
  advice.set_first_observation(11);
  advice.set_fit_observations(5000);
  advice.set_test_observations(5001);
  *advice.mutable_error_after() = Measured(0.004, 0, 0.02, 0).top_label();
  EXPECT_THAT(
      DescribeShow(response, Now()),
      HasSubstr("\nrepair    temperature 1.9 would leave 0.4 points (0 to 2), says `calibctl "
                "recalibrate --model\n          resnet18@2` of 1970-01-01 00:00 UTC over "
                "rows 11 to 10011\n"));
  *advice.mutable_class_1_error_after() = Measured(0.02, 0.01, 0.03, 0).top_label();
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("leave 2 points (1 to 3) for P(class 1), "));
  advice.mutable_map()->clear_temperature();
  advice.mutable_map()->set_kind("isotonic");
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("repair    a map of kind isotonic would "));
  advice.set_helps(false);
  EXPECT_THAT(DescribeShow(response, Now()),
              HasSubstr("repair    no map is known to lower the log loss, says "));
  response.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  response.mutable_alarms(0)->mutable_acknowledge_time();
  EXPECT_THAT(DescribeShow(response, Now()), Not(HasSubstr("repair")));
}

TEST(DescribeShowTest, SaysWhetherTheModelIsBetterThanItsBaseline) {
  v1::GetCalibrationResponse response = OverLimit();
  EXPECT_THAT(DescribeShow(response, Now()), Not(HasSubstr("against")));
  response.set_baseline("3");
  EXPECT_THAT(DescribeShow(response, Now()), HasSubstr("\nagainst   3: no labelled row yet\n"));
  const auto set = [](v1::ScoreDifference& score, double difference, double lower, double upper) {
    score.set_difference(difference);
    score.set_lower(lower);
    score.set_upper(upper);
  };
  v1::Comparison& comparison = *response.mutable_comparison();
  set(*comparison.mutable_log_loss(), -0.012, -0.02, -0.004);
  set(*comparison.mutable_brier(), 0.012, 0.004, 0.02);
  set(*comparison.mutable_binned_error(), -0.012, -0.02, 0.015);
  const std::string text = DescribeShow(response, Now());
  EXPECT_THAT(
      text,
      HasSubstr("\nagainst   3: log loss 0.012 lower (0.004 to 0.020), better; Brier "
                "score 0.012 higher (0.004 to\n"
                "          0.020), worse; error 1.2 points lower (-2.0 to +1.5), undecided\n"));
}

}  // namespace
}  // namespace calibd::cli
