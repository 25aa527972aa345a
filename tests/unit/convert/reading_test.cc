#include "calibd/convert/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace calibd::convert {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Changed = v1::Reading::Changed;

v1::ErrorInterval Interval(double estimate, double lower, double upper, double gap = 0) {
  v1::ErrorInterval interval;
  interval.set_estimate(estimate);
  interval.set_lower(lower);
  interval.set_upper(upper);
  interval.set_gap(gap);
  interval.set_gap_lower(gap - 0.0105);
  interval.set_gap_upper(gap + 0.0105);
  return interval;
}

v1::ErrorMeasurement Measured(double estimate, double lower, double upper, double gap) {
  v1::ErrorMeasurement measured;
  measured.set_observations(10000);
  measured.set_first_observation(1);
  measured.set_mean_confidence(0.96956);
  measured.set_accuracy(0.96956 - gap);
  *measured.mutable_top_label() = Interval(estimate, lower, upper, gap);
  return measured;
}

v1::CentralCoverage Coverage(double promised, double coverage, double lower, double upper) {
  v1::CentralCoverage central;
  central.set_promised(promised);
  central.set_coverage(coverage);
  central.set_lower(lower);
  central.set_upper(upper);
  return central;
}

// An over-confident model that is over its limit.
v1::GetCalibrationResponse OverLimit() {
  v1::GetCalibrationResponse answer;
  answer.set_model("models/resnet18/versions/2");
  answer.set_observations(10000);
  answer.mutable_last_observation_time()->set_seconds(86400);
  v1::Verdict& verdict = *answer.mutable_verdict();
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
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::OVER_LIMIT);
  error.set_limit(0.02);
  *error.mutable_since_start() = Measured(0.0535, 0.0423, 0.0678, 0.05246);
  v1::Evidence& evidence = *answer.mutable_watch()->mutable_evidence();
  evidence.set_log10_e_value(229.07);
  evidence.set_max_log10_e_value(229.09);
  evidence.set_threshold(std::log10(20));
  v1::Alarm& alarm = *answer.add_alarms();
  alarm.set_id(3);
  alarm.set_kind(v1::Alarm::OVER_LIMIT);
  alarm.set_observation(913);
  alarm.mutable_raise_time()->set_seconds(3600);
  alarm.mutable_crossing()->set_first_observation(1);
  alarm.mutable_crossing()->set_limit(0.02);
  *alarm.mutable_crossing()->mutable_error() = Interval(0.06, 0.0201, 0.1, 0.05);
  return answer;
}

// Forecasts of a number whose intervals are too narrow.
v1::GetCalibrationResponse NarrowForecasts() {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_forecast()->set_observations(10000);
  answer.mutable_error()->set_limit(0.05);
  answer.mutable_verdict()->clear_whereabouts();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  all.clear_top_label();
  *all.mutable_coverage() = Interval(0.157, 0.085, 0.229);
  *all.add_central_coverage() = Coverage(0.5, 0.49, 0.45, 0.53);
  *all.add_central_coverage() = Coverage(0.9, 0.758, 0.716, 0.799);
  return answer;
}

v1::LevelCoverage Level(double level, double below, double at_most, double lower, double upper) {
  v1::LevelCoverage coverage;
  coverage.set_level(level);
  coverage.set_below(below);
  coverage.set_at_most(at_most);
  coverage.set_lower(lower);
  coverage.set_upper(upper);
  return coverage;
}

// Quantiles that equal outcomes; all levels are right.
v1::GetCalibrationResponse TiedForecasts() {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  all.clear_central_coverage();
  *all.mutable_coverage() = Interval(0, 0, 0.041);
  *all.add_level_coverage() = Level(0.1, 0, 0.52, 0, 0.56);
  *all.add_level_coverage() = Level(0.5, 0.36, 0.62, 0.32, 0.66);
  *all.add_level_coverage() = Level(0.9, 0.891, 0.891, 0.85, 0.93);
  return answer;
}

google::protobuf::Timestamp Now() {
  google::protobuf::Timestamp now;
  now.set_seconds(86400 + 7200);
  return now;
}

std::string HowBad(const v1::GetCalibrationResponse& answer) { return HowBadLine(answer).text(); }

TEST(ReadingTest, HasEachLineThatSaysSomething) {
  const v1::Reading reading = ReadingOf(OverLimit(), Now());
  EXPECT_EQ(reading.verdict().text(),
            "OVER_LIMIT since 1970-01-01 01:00 UTC (row 913), MISCALIBRATED");
  EXPECT_EQ(
      reading.how_bad().text(),
      "off by 5.3 points (4.2 to 6.8; limit 2 points); says 96.96 %, right 91.71 %: over-confident "
      "by 5.25 points (4.2 to 6.3)");
  EXPECT_EQ(reading.how_bad().brief(), "off by 5.3 points (4.2 to 6.8; limit 2 points)");
  EXPECT_EQ(reading.where().text(),
            "rejected for classes 5, cat; confidence 0.93 to 1.00: says 99.6 %, right 95.9 % (9021 "
            "rows)");
  EXPECT_EQ(reading.changed().text(), "no change can be dated");
  EXPECT_EQ(reading.repair().text(),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model");
  EXPECT_EQ(reading.certain().text(),
            "e-value 10^229.1, highest 10^229.1; calibration is rejected at an e-value of 20");
  EXPECT_EQ(reading.data().text(), "10000 labelled rows, 0 rejected; the newest row came 2h ago");
  EXPECT_EQ(
      reading.next().text(),
      "calibctl show resnet18@2 --verbose; when it is repaired or accepted: calibctl acknowledge "
      "resnet18@2 3 --note \"...\"");
  EXPECT_FALSE(reading.has_now() || reading.has_decision() || reading.has_against() ||
               reading.has_warning());
  const v1::Reading headlines = HeadlinesOf(OverLimit());
  EXPECT_TRUE(headlines.has_verdict() && headlines.has_how_bad() && headlines.has_next());
  EXPECT_FALSE(headlines.has_where() || headlines.has_data());
}

TEST(ReadingTest, OfAModelThatIsNotMonitoredSaysSo) {
  v1::GetCalibrationResponse answer;
  answer.set_model("models/young");
  answer.set_baseline("3");
  const v1::Reading reading = ReadingOf(answer, Now());
  EXPECT_EQ(reading.verdict().text(), "not monitored, so there is no verdict");
  EXPECT_EQ(reading.against().text(), "3: no labelled row yet");
  EXPECT_EQ(reading.data().text(), "0 labelled rows, 0 rejected");
  EXPECT_EQ(reading.next().text(), "calibctl show young --verbose");
  EXPECT_FALSE(reading.has_how_bad() || reading.has_certain() || reading.has_where());
}

TEST(ReadingTest, NeverSaysThatAModelIsCalibrated) {
  v1::GetCalibrationResponse answer = OverLimit();
  for (int status = v1::Verdict::Status_MIN; status <= v1::Verdict::Status_MAX; ++status) {
    answer.mutable_verdict()->set_status(static_cast<v1::Verdict::Status>(status));
    const std::string text = ReadingOf(answer, Now()).DebugString();
    EXPECT_THAT(text, AllOf(Not(HasSubstr("is calibrated")), Not(HasSubstr("proven")),
                            Not(HasSubstr("well calibrated")), Not(HasSubstr(" CALIBRATED"))));
  }
}

TEST(VerdictLineTest, EachStatusHasItsName) {
  v1::GetCalibrationResponse answer;
  v1::Verdict& verdict = *answer.mutable_verdict();
  verdict.set_limit_status(v1::CalibrationError::UNDECIDED);
  verdict.set_status(v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_EQ(VerdictLine(answer), "UNDECIDED, INSUFFICIENT_DATA");
  verdict.set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  verdict.set_status(v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(VerdictLine(answer), "WITHIN_LIMIT, NOT_REJECTED");
  verdict.set_status(v1::Verdict::DRIFTED);
  verdict.set_stale(true);
  verdict.mutable_since()->set_seconds(3600);
  verdict.set_since_observation(913);
  EXPECT_EQ(VerdictLine(answer),
            "WITHIN_LIMIT, DRIFTED, STALE since 1970-01-01 01:00 UTC (row 913)");
  verdict.set_status(v1::Verdict::STALE);
  EXPECT_EQ(VerdictLine(answer), "WITHIN_LIMIT, STALE since 1970-01-01 01:00 UTC (row 913)");
}

TEST(VerdictLineTest, SaysWhatHasRecoveredOrIsAcknowledged) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_error()->set_is_recovered(true);
  answer.mutable_error()->mutable_newest()->set_first_observation(23553);
  EXPECT_EQ(VerdictLine(answer), "OVER_LIMIT since 1970-01-01 01:00 UTC (row 913), MISCALIBRATED")
      << "while another alarm is active";
  answer.mutable_verdict()->set_is_recovered(true);
  EXPECT_EQ(
      VerdictLine(answer),
      "OVER_LIMIT since 1970-01-01 01:00 UTC (row 913), recovered since row 23553 (gates fail "
      "until its alarms are acknowledged), MISCALIBRATED");
  // The alarms of groups or labels have.
  answer.mutable_error()->set_is_recovered(false);
  EXPECT_THAT(VerdictLine(answer), HasSubstr("(row 913), recovered (gates fail until its "));
  answer = OverLimit();
  answer.mutable_error()->set_is_acknowledged(true);
  answer.mutable_verdict()->set_is_acknowledged(true);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(1);
  EXPECT_EQ(VerdictLine(answer), "OVER_LIMIT (acknowledged), MISCALIBRATED");
}

TEST(VerdictLineTest, NamesTheGroupsOverTheirLimits) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->add_groups_over_limit("e\x1bu");
  EXPECT_THAT(VerdictLine(answer), StartsWith("OVER_LIMIT, also in group e?u since 1970-01-01"));
  answer.mutable_error()->set_is_acknowledged(true);
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT (acknowledged), OVER_LIMIT in group e?u since 1970-"));
  answer.mutable_verdict()->set_is_acknowledged(true);
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT (acknowledged), also in group e?u since 1970-01-01"));
  // Only a group is over the limit.
  answer = OverLimit();
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_verdict()->add_groups_over_limit("");
  answer.mutable_alarms(0)->set_group_value("");
  EXPECT_THAT(VerdictLine(answer), StartsWith("OVER_LIMIT in group (no value) since 1970-01-01"));
  // The first row at which one of them exceeded its limit.
  v1::Alarm& alarm = *answer.add_alarms();
  alarm = answer.alarms(0);
  alarm.set_observation(1200);
  EXPECT_THAT(VerdictLine(answer), HasSubstr("(row 913)"));
  for (const char* name : {"a", "b", "a-name-of-more-than-24-characters"}) {
    answer.mutable_verdict()->add_groups_over_limit(name);
  }
  EXPECT_THAT(VerdictLine(answer), HasSubstr("in groups (no value), a, b and 1 more since"));
}

TEST(HowBadLineTest, SaysWhyThereIsNoMeasuredRow) {
  v1::GetCalibrationResponse answer;
  answer.mutable_verdict();
  EXPECT_EQ(HowBad(answer), "no labelled row yet");
  EXPECT_EQ(HowBadLine(answer).brief(), "");
  answer.mutable_label_arrivals()->set_pending(7);
  answer.mutable_label_arrivals()->set_pending_labelled(2);
  EXPECT_EQ(HowBad(answer), "no row counted yet: 2 of 7 pending rows are labelled");
  answer.set_observations(10000);
  answer.mutable_error()->mutable_since_start()->set_first_observation(10001);
  EXPECT_EQ(HowBad(answer), "no labelled row since the update after row 10000");
  answer = OverLimit();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_EQ(HowBad(answer),
            "was off by 5.3 points (4.2 to 6.8) over rows 1 to 10000; no labelled row since the "
            "acknowledgement");
  // The event that exceeded the limit.
  *answer.mutable_error()->mutable_since_start()->mutable_class_1() = Interval(0.069, 0.044, 0.106);
  EXPECT_THAT(HowBad(answer),
              StartsWith("P(class 1) was off by 6.9 points (4.4 to 10.6) over rows 1 to 10000;"));
  answer.mutable_error()->mutable_since_start()->mutable_class_1()->set_lower(0.04);
  EXPECT_THAT(HowBad(answer), StartsWith("top label was off by 5.3 points (4.2 to 6.8) over rows"));
}

TEST(HowBadLineTest, TheDirectionHasASign) {
  v1::GetCalibrationResponse answer = OverLimit();
  *answer.mutable_error()->mutable_since_start() = Measured(0.05, 0.04, 0.06, -0.02);
  EXPECT_THAT(HowBad(answer),
              EndsWith("says 96.96 %, right 98.96 %: under-confident by 2.00 points (0.9 to 3.0)"));
  *answer.mutable_error()->mutable_since_start() = Measured(0.05, 0.04, 0.06, 0);
  EXPECT_THAT(HowBad(answer), EndsWith(": neither over- nor under-confident"));
}

TEST(HowBadLineTest, TheWorseEventLeads) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  *all.mutable_class_1() = Interval(0.03, 0.01, 0.06);
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("class 1")));
  EXPECT_EQ(HowBadLine(answer).brief(), "top label off by 5.3 points (4.2 to 6.8; limit 2 points)");
  // It is over the limit too, but its errors cancel.
  *all.mutable_class_1() = Interval(0.03, 0.0201, 0.06);
  all.mutable_class_1()->set_stated(0.25);
  EXPECT_EQ(
      HowBad(answer),
      "top label off by 5.3 points (4.2 to 6.8; limit 2 points), says 96.96 %, right 91.71 %: "
      "over-confident by 5.25 points (4.2 to 6.3); P(class 1) off by 3 points (2.01 to 6; limit 2 "
      "points), "
      "says 25.00 %, is 25.00 %: right on average");
  *all.mutable_class_1() = Interval(0.1, 0.081, 0.12, -0.1003);
  all.mutable_class_1()->set_stated(0.25);
  EXPECT_EQ(
      HowBad(answer),
      "P(class 1) off by 10 points (8.1 to 12; limit 2 points), says 25.00 %, is 35.03 %: too low "
      "by 10.03 points (9.0 to 11.1); top label off by 5.3 points (4.2 to 6.8; limit 2 points), "
      "says "
      "96.96 "
      "%, right 91.71 %: over-confident by 5.25 points (4.2 to 6.3)");
  EXPECT_EQ(HowBadLine(answer).brief(), "P(class 1) off by 10 points (8.1 to 12; limit 2 points)");
  // The other event says the same, as of a rare class 1.
  v1::GetCalibrationResponse rare = answer;
  *rare.mutable_error()->mutable_since_start()->mutable_top_label() = all.class_1();
  EXPECT_EQ(HowBad(rare),
            "P(class 1) off by 10 points (8.1 to 12; limit 2 points), says 25.00 %, is "
            "35.03 %: too low by 10.03 points (9.0 to 11.1)");
  // The other event has nothing to add.
  *all.mutable_top_label() = Interval(0.0056, 0, 0.015, 0.002);
  EXPECT_THAT(HowBad(answer), AllOf(StartsWith("P(class 1) off by 10"), Not(HasSubstr("label")),
                                    EndsWith(": too low by 10.03 points (9.0 to 11.1)")));
  // Neither has the alarm that crossed the limit.
  answer.mutable_alarms(0)->mutable_crossing()->set_is_class_1(true);
  all.mutable_class_1()->set_lower(0.01);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; P(class 1) was off by 6 points (2.01 to 10; limit 2 points) at row 913"));
  answer.mutable_alarms(0)->mutable_crossing()->set_is_recent(true);
  EXPECT_THAT(HowBad(answer), EndsWith("; at row 913, P(class 1) of the newest rows was off by "
                                       "more than 2 points"));
}

TEST(HowBadLineTest, SmallProbabilitiesKeepTwoDigitsAndHaveAFactor) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.clear_alarms();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  *all.mutable_top_label() = Interval(0, 0, 0.001);
  const auto set = [&all](double stated, double gap, double radius) {
    v1::ErrorInterval& class_1 = *all.mutable_class_1() = Interval(std::abs(gap), 0.0005, 0.0013);
    class_1.set_stated(stated);
    class_1.set_gap(gap);
    class_1.set_gap_lower(gap - radius);
    class_1.set_gap_upper(gap + radius);
  };
  set(0.001, 0.0009, 0.0004);
  EXPECT_THAT(HowBad(answer),
              EndsWith(", says 0.10 %, is 0.010 %: 10 times too high, by 0.090 points "
                       "(0.050 to 0.130)"));
  set(0.0001, -0.0149, 0.001);
  EXPECT_THAT(HowBad(answer),
              EndsWith(", says 0.010 %, is 1.50 %: 150 times too low, by 1.490 points "
                       "(1.39 to 1.59)"));
  // A factor of chance, and one of nothing.
  set(0.001, 0.0009, 0.0011);
  EXPECT_THAT(HowBad(answer), EndsWith(": too high by 0.090 points (-0.02 to 0.20)"));
  set(0.001, 0.001, 0.0004);
  EXPECT_THAT(HowBad(answer), EndsWith("says 0.10 %, is 0.00 %: too high by 0.10 points (0.060 to "
                                       "0.140)"));
}

TEST(HowBadLineTest, SaysWhatTheErrorWasWhenTheAlarmWasRaised) {
  v1::GetCalibrationResponse answer = OverLimit();
  *answer.mutable_error()->mutable_since_start() = Measured(0.03, 0.019, 0.05, 0.02);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; it was off by 6 points (2.01 to 10; limit 2 points) at row 913"));
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(1);
  answer.mutable_error()->set_acknowledged_limit(0.068);
  EXPECT_THAT(HowBad(answer),
              AllOf(Not(HasSubstr("it was")), EndsWith("; the next alarm is raised above 6.8")));
}

TEST(HowBadLineTest, NamesTheWidestIntervalThatBreaksItsPromise) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  EXPECT_EQ(
      HowBad(answer),
      "off by 15.7 points (8.5 to 22.9; limit 5 points); the 90 % intervals cover 75.8 % (71.6 to "
      "79.9): too narrow");
  auto& central = *answer.mutable_error()->mutable_since_start()->mutable_central_coverage();
  central[1] = Coverage(0.9, 0.896, 0.88, 0.91);
  EXPECT_THAT(HowBad(answer), EndsWith("; the 90 % intervals cover 89.6 % (88.0 to 91.0)"));
  // The widest interval keeps its promise, and another one does not.
  central[0] = Coverage(0.5, 0.571, 0.55, 0.59);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; the 50 % intervals cover 57.1 % (55.0 to 59.0): too wide"));
  central.Clear();
  EXPECT_EQ(HowBad(answer), "off by 15.7 points (8.5 to 22.9; limit 5 points)");
}

TEST(HowBadLineTest, NamesABiasOfForecastsThatIsMoreThanNoise) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  v1::ForecastDirection& direction =
      *answer.mutable_error()->mutable_since_start()->mutable_direction();
  // The standard error of the mean of 10000 residuals is 0.01.
  direction.set_scale(1);
  direction.set_residual_standard_deviation(1);
  direction.set_residual_mean(0.039);
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("standard deviations too")));
  direction.set_residual_mean(-0.041);
  EXPECT_THAT(HowBad(answer), HasSubstr("; on average 0.041 standard deviations too high; the 90 "
                                        "% intervals cover 75.8 % (71.6 to 79.9): too narrow"));
  // Quantiles and samples have no residuals.
  direction.clear_residual_mean();
  direction.clear_residual_standard_deviation();
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("standard deviations too")));
  direction.set_shift(0.25);
  EXPECT_THAT(HowBad(answer), HasSubstr("; on average about 0.25 standard deviations too low; "));
  // Intervals of the right width cover 75.8 % if the outcomes are 0.93 standard deviations too
  // high.
  direction.set_shift(0.7);
  EXPECT_THAT(HowBad(answer), EndsWith(": too narrow"));
  direction.set_shift(0.9);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; on average about 0.9 standard deviations too low; because "
                       "of this, the 90 % intervals cover 75.8 % (71.6 to 79.9)"));
}

// The newest 1548 rows, after `first` rows.
void SetNewest(std::int64_t first, v1::ErrorMeasurement measured,
               v1::GetCalibrationResponse& answer) {
  measured.set_first_observation(first);
  measured.set_observations(1548);
  *answer.mutable_error()->mutable_newest() = std::move(measured);
}

TEST(NowLineTest, IsTheErrorOfTheNewestRows) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  all.set_first_observation(1);
  EXPECT_EQ(NowLine(answer), "") << "fewer than 1000 rows";
  SetNewest(1, Measured(0.2, 0.1, 0.3, 0.19), answer);
  EXPECT_EQ(NowLine(answer), "") << "the newest rows are all rows";
  EXPECT_EQ(HowBadLine(answer).brief(), "off by 5.3 points (4.2 to 6.8; limit 2 points)");

  SetNewest(8193, Measured(0.2, 0.1, 0.3, 0.19), answer);
  EXPECT_THAT(
      NowLine(answer),
      AllOf(StartsWith(
                "over the newest 1548 rows, off by 20 points (10 to 30; limit 2 points); says "),
            EndsWith("; still over the limit; 95 % for these rows, however often you look")));
  EXPECT_THAT(HowBadLine(answer).brief(),
              EndsWith("; over the newest 1548 rows, off by 20 points (10 to 30; limit 2 points)"));
  SetNewest(8193, Measured(0.01, 0, 0.03, 0.005), answer);
  EXPECT_THAT(NowLine(answer),
              EndsWith("; not shown to be within the limit since the alarm; 95 % for these rows, "
                       "however often you look"));
  // The other event is over the limit.
  *answer.mutable_error()->mutable_newest()->mutable_class_1() = Interval(0.1, 0.05, 0.2);
  EXPECT_THAT(NowLine(answer),
              AllOf(StartsWith("over the newest 1548 rows, P(class 1) off by 10 points (5 to 20; "),
                    HasSubstr("; still over the limit")));

  // Without an active alarm it is only measured.
  SetNewest(8193, Measured(0.01, 0, 0.03, 0.005), answer);
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(NowLine(answer),
              AllOf(StartsWith("over the newest 1548 rows, off by 1 point (0 to 3; "),
                    Not(HasSubstr("the limit;"))));
  EXPECT_EQ(HowBadLine(answer).brief(), "off by 5.3 points (4.2 to 6.8; limit 2 points)");
  answer.mutable_error()->set_status(v1::CalibrationError::OVER_LIMIT);
  answer.mutable_error()->set_is_acknowledged(true);
  EXPECT_THAT(NowLine(answer), Not(HasSubstr("alarm")));
}

TEST(NowLineTest, SaysSinceWhenAnAlarmHasRecovered) {
  v1::GetCalibrationResponse answer = OverLimit();
  SetNewest(23553, Measured(0.005, 0, 0.019, 0.001), answer);
  answer.mutable_error()->set_is_recovered(true);
  EXPECT_THAT(NowLine(answer), StartsWith("all rows together recovered since row 23553: over "));
  answer.mutable_verdict()->set_is_recovered(true);
  EXPECT_THAT(NowLine(answer),
              StartsWith("recovered since row 23553: over these 1548 rows, off by 0.5 points (0 to "
                         "1.9; limit 2 points); says "));
  EXPECT_THAT(HowBadLine(answer).brief(),
              EndsWith("; since row 23553 off by 0.5 points (0 to 1.9; limit 2 points)"));
}

TEST(NowLineTest, HasTheCoverageOfForecasts) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  v1::ErrorMeasurement forecast;
  *forecast.mutable_coverage() = Interval(0.205, 0.105, 0.305);
  *forecast.add_central_coverage() = Coverage(0.9, 0.722, 0.644, 0.8);
  SetNewest(30001, forecast, answer);
  EXPECT_THAT(
      NowLine(answer),
      StartsWith(
          "over the newest 1548 rows, off by 20.5 points (10.5 to 30.5; limit 5 points); the 90 "
          "% intervals cover 72.2 % (64.4 to 80.0): too narrow; still over the "));
}

TEST(HowBadLineTest, TellsHowManyOutcomesFellBelowALevel) {
  v1::GetCalibrationResponse answer = TiedForecasts();
  EXPECT_THAT(HowBad(answer),
              StartsWith("off by 0 points (0 to 4.1; limit 5 points); level .5: between 36 "
                         "and 62 % fell below"));
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("too")));
  EXPECT_EQ(WhereLine(answer), "nothing stands out");
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  *all.mutable_level_coverage(2) = Level(0.9, 0.713, 0.713, 0.68, 0.74);
  EXPECT_THAT(HowBad(answer), HasSubstr("; level .9: 71.3 % fell below: the quantile is too low"));
  EXPECT_EQ(WhereLine(answer), "wrong level .9");
  *all.mutable_level_coverage(0) = Level(0.1, 0.4, 0.52, 0.35, 0.56);
  EXPECT_THAT(HowBad(answer),
              HasSubstr("; level .1: between 40 and 52 % fell below: the quantile is "
                        "too high"));
  EXPECT_EQ(WhereLine(answer), "wrong levels .1, .9");
  // A level at an end of its interval may be right.
  *all.mutable_level_coverage(0) = Level(0.1, 0.2, 0.52, 0.1, 0.56);
  EXPECT_EQ(WhereLine(answer), "wrong level .9");
}

TEST(HowBadLineTest, SaysWhatAnAlarmOfTheNewestRowsFound) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_alarms(0)->mutable_crossing()->set_is_recent(true);
  answer.mutable_alarms(0)->mutable_crossing()->clear_error();
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("row 913"))) << "all rows are over the limit";
  *answer.mutable_error()->mutable_since_start() = Measured(0.01, 0, 0.019, 0.001);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; at row 913, the newest rows were off by more than 2 points"));
}

TEST(WhereLineTest, WithoutExaminedRowsSaysNothing) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->clear_whereabouts();
  EXPECT_EQ(WhereLine(answer), "");
  answer.mutable_verdict()->mutable_whereabouts()->add_confidence_bins()->set_observations(7);
  EXPECT_EQ(WhereLine(answer), "nothing stands out");
}

TEST(WhereLineTest, NamesGroupsOverTheirLimitsAndRejectedOnes) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::GroupWatch& group = *answer.add_groups();
  *group.mutable_error() = answer.error();
  group.set_overflow(true);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("group (other groups) 5.3 points off (4.2 to 6.8); rejected for classes"));
  group.set_overflow(false);
  group.mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(0);
  group.mutable_error()->mutable_since_start()->mutable_top_label()->set_upper(0.75);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("group (no value) 0 to 75 points off (too few rows to say more)"));
  group.mutable_error()->set_is_recovered(true);
  group.mutable_error()->mutable_newest()->set_first_observation(12289);
  EXPECT_THAT(WhereLine(answer), HasSubstr("too few rows to say more), recovered since row 12289"));
  group.mutable_error()->set_is_recovered(false);
  group.mutable_error()->mutable_since_start()->clear_top_label();
  EXPECT_THAT(WhereLine(answer),
              StartsWith("group (no value) (not measured yet since the update)"));
  group.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("group (no value) (not measured yet since the acknowledgement)"));
  group.set_value("eu");
  group.set_rejected(true);
  group.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  *group.mutable_error()->mutable_since_acknowledgement() = Measured(0.05, 0, 0.1, 0);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("group eu 5 points off (0 to 10), rejected; rejected "));
  // The event that is off by more.
  v1::ErrorMeasurement& error = *group.mutable_error()->mutable_since_acknowledgement();
  *error.mutable_class_1() = Interval(0.17, 0.051, 0.29, -0.17);
  error.mutable_class_1()->set_stated(0.5);
  EXPECT_THAT(WhereLine(answer), StartsWith("group eu P(class 1) 17 points off (5.1 to 29; says "
                                            "50.0 %, is 67.0 %), rejected; rejected "));
}

TEST(WhereLineTest, OfTwoClassesOneIsNamed) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_error()->mutable_since_start()->mutable_class_1();
  v1::Whereabouts& whereabouts = *answer.mutable_verdict()->mutable_whereabouts();
  for (int k = 0; k < 2; ++k) {
    v1::Whereabouts::ClassShare& share = *whereabouts.mutable_classes(k);
    share.clear_class_name();
    share.set_class_index(k);
    share.set_predicted(k == 1 ? 0.001 : 0.999);
    share.set_observed(k == 1 ? 0.0001 : 0.9999);
  }
  whereabouts.set_class_count(2);
  whereabouts.mutable_classes(1)->set_stands_out(true);
  // That both are rejected says no more than the verdict.
  EXPECT_THAT(WhereLine(answer), AllOf(StartsWith("confidence "),
                                       EndsWith(" rows); class 1 (says 0.10 %, is 0.010 %)")));
  whereabouts.mutable_classes(0)->set_rejected(false);
  whereabouts.set_rejected_classes(1);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("rejected for class 1 (says 0.10 %, is 0.010 %); confidence "));
  // A share that does not stand out is not the place to look at.
  whereabouts.mutable_classes(1)->set_stands_out(false);
  EXPECT_THAT(WhereLine(answer), StartsWith("rejected for class 1; confidence "));
}

TEST(WhereLineTest, NamesTheShareOfAClassThatIsRejectedAmongFew) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::Whereabouts& whereabouts = *answer.mutable_verdict()->mutable_whereabouts();
  whereabouts.set_class_count(10);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("rejected for classes 5, cat (says 10.5 %, is 10.0 %);"));
}

TEST(WhereLineTest, NamesNoClassIfAllAreRejected) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::Whereabouts& whereabouts = *answer.mutable_verdict()->mutable_whereabouts();
  whereabouts.set_class_count(10);
  whereabouts.set_rejected_classes(10);
  EXPECT_THAT(WhereLine(answer),
              AllOf(StartsWith("confidence 0.93"), EndsWith("; rejected for all 10 classes")));
  // A share that is off by more than the limit is a place of its own.
  whereabouts.mutable_classes(0)->set_predicted(0.13);
  EXPECT_THAT(WhereLine(answer), EndsWith(" classes; class cat (says 13.0 %, is 10.0 %)"));
}

TEST(WhereLineTest, NamesTheRowsIfTheyAreNotThoseOfTheError) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_watch()->set_first_observation(1);
  answer.mutable_error()->mutable_since_start()->set_first_observation(1);
  EXPECT_THAT(WhereLine(answer), Not(HasSubstr("since row")));
  *answer.mutable_error()->mutable_since_acknowledgement() = answer.error().since_start();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(901);
  EXPECT_THAT(WhereLine(answer), EndsWith(" (over all rows since row 1)"));
}

// The answer for the model as a whole must not contradict what is rejected.
TEST(VerdictLineTest, NamesWhatIsRejectedIfTheModelIsNot) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.clear_alarms();
  v1::Verdict& verdict = *answer.mutable_verdict();
  verdict.set_limit_status(v1::CalibrationError::UNDECIDED);
  verdict.set_status(v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(VerdictLine(answer),
            "UNDECIDED, NOT_REJECTED as a whole, but rejected for classes 5, cat");
  verdict.add_rejected_groups("e\x1bu");
  verdict.add_rejected_groups("(other groups)");
  verdict.mutable_whereabouts()->set_rejected_classes(7);
  EXPECT_EQ(VerdictLine(answer),
            "UNDECIDED, NOT_REJECTED as a whole, but rejected for groups e?u, (other groups) and "
            "classes 5, cat and 5 more");
  verdict.set_status(v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_EQ(VerdictLine(answer), "UNDECIDED, INSUFFICIENT_DATA");
}

// A model of several labels of which one is over the limit, and a rejected one is not.
v1::GetCalibrationResponse OverLimitLabels() {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->clear_whereabouts();
  answer.mutable_verdict()->add_labels_over_limit("wind");
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::UNDECIDED);
  error.mutable_since_start()->clear_top_label();
  *error.mutable_since_start()->mutable_labels() = Interval(0.04, 0.015, 0.076);
  answer.mutable_alarms(0)->set_label("wind");
  answer.mutable_labels()->set_truths(10000);
  const auto add = [&answer](const char* name, v1::CalibrationError::Status status, double lower) {
    v1::LabelCalibration& label = *answer.mutable_labels()->add_labels();
    label.set_name(name);
    label.set_status(status);
    *label.mutable_error() = Interval(lower + 0.02, lower, lower + 0.1);
  };
  add("rain", v1::CalibrationError::WITHIN_LIMIT, 0);
  add("fog", v1::CalibrationError::UNDECIDED, 0.01);
  add("wind", v1::CalibrationError::OVER_LIMIT, 0.061);
  answer.mutable_labels()->mutable_labels(1)->set_rejected(true);
  answer.mutable_labels()->mutable_labels(2)->set_rejected(true);
  return answer;
}

TEST(NowLineTest, HasTheAverageOverLabels) {
  v1::GetCalibrationResponse answer = OverLimitLabels();
  v1::ErrorMeasurement labels;
  *labels.mutable_labels() = Interval(0.01, 0, 0.05);
  SetNewest(30001, labels, answer);
  EXPECT_THAT(NowLine(answer),
              StartsWith("over the newest 1548 rows, the labels on average off by 1 point (0 to 5; "
                         "limit 2 points); "));
}

TEST(LabelsTest, EachLineNamesTheLabels) {
  v1::GetCalibrationResponse answer = OverLimitLabels();
  EXPECT_THAT(VerdictLine(answer), StartsWith("OVER_LIMIT in label wind since 1970-01-01"));
  EXPECT_EQ(HowBad(answer),
            "on average over 3 labels off by 4 points (1.5 to 7.6; limit 2 points); 1 label is "
            "undecided");
  EXPECT_EQ(HowBadLine(answer).brief(), "wind off by 8.1 points (6.1 to 16.1; limit 2 points)");
  EXPECT_EQ(WhereLine(answer), "label wind 8.1 points off (6.1 to 16.1); rejected for label fog");
  answer.mutable_labels()->mutable_labels(2)->set_recovered_since(12289);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("label wind 8.1 points off (6.1 to 16.1), recovered since row 12289;"));
  EXPECT_EQ(RepairLine(answer), "");
  // The alarm of a label says nothing about a change of all of them.
  EXPECT_EQ(ChangedLine(answer).text(), "");
  EXPECT_THAT(DataLine(answer, {}),
              HasSubstr("10000 labelled rows, 0 rejected, 10000 known truths"));
  answer.mutable_labels()->mutable_labels(2)->clear_error();
  answer.mutable_labels()->mutable_labels(2)->set_since_observation(10001);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("label wind (not measured yet since the acknowledgement)"));
  answer.mutable_verdict()->add_labels_over_limit("rain");
  EXPECT_THAT(VerdictLine(answer), StartsWith("OVER_LIMIT in labels wind, rain since"));
}

TEST(LabelsTest, TruthsAreThoseOfTheMeasuredRows) {
  v1::GetCalibrationResponse answer = OverLimitLabels();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(9001);
  answer.mutable_labels()->set_truths(700);
  EXPECT_THAT(DataLine(answer, {}), AllOf(HasSubstr("10000 labelled rows, 0 rejected;"),
                                          HasSubstr("from row 9001 on with 700 known truths")));
}

TEST(LabelsTest, RowsMayHaveNoTruth) {
  v1::GetCalibrationResponse answer;
  answer.mutable_verdict();
  answer.mutable_labels()->add_labels()->set_name("rain");
  answer.set_observations(100);
  answer.mutable_error()->mutable_since_start()->set_observations(100);
  EXPECT_EQ(HowBad(answer), "no known truth yet");
}

TEST(WhereLineTest, NamesTheCellOfForecastsThatStandsOutMost) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  const auto add = [&answer](double lower, double upper, double z) {
    v1::ForecastCell& cell = *answer.mutable_verdict()->mutable_whereabouts()->add_cells();
    cell.set_lower(lower);
    cell.set_upper(upper);
    cell.set_observations(34);
    cell.set_expected(2.04);
    cell.set_z(z);
    cell.set_stands_out(z != 0);
  };
  add(0, 0.001, 0);
  EXPECT_EQ(WhereLine(answer), "nothing stands out");
  add(0.05, 0.1, 5);
  EXPECT_EQ(WhereLine(answer), "between the 5 and the 10 % quantile: 34 outcomes, 2 expected");
  add(0, 0.001, -6);
  EXPECT_THAT(WhereLine(answer), StartsWith("below the 0.1 % quantile: 34 outcomes"));
  add(0.999, 1, 7);
  EXPECT_THAT(WhereLine(answer), StartsWith("above the 99.9 % quantile: 34 outcomes"));
}

TEST(WhereLineTest, LeavesOutWholePlaces) {
  v1::GetCalibrationResponse answer = OverLimit();
  const std::string longest(64, 'x');
  for (int i = 0; i < 20; ++i) {
    v1::GroupWatch& group = *answer.add_groups();
    group.set_value(longest);
    *group.mutable_error() = answer.error();
    auto& share = *answer.mutable_verdict()->mutable_whereabouts()->add_classes();
    share.set_class_name(longest);
    share.set_rejected(true);
  }
  EXPECT_THAT(WhereLine(answer),
              AllOf(HasSubstr(" points off (4.2 to 6.8) and 19 more; rejected for classes 5 and 21 "
                              "more; confidence"),
                    SizeIs(Le(175U))));
}

TEST(DecisionLineTest, SaysWhichRowsItIsAboutAndWhatIsChance) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  EXPECT_EQ(DecisionLine(answer), "");
  v1::DecisionLoss& loss = *answer.mutable_watch()->mutable_decision();
  loss.set_observations(400);
  loss.set_realised_loss(0.2);
  loss.set_expected_loss(0.1);
  loss.set_gap_lower_bound(0.05);
  loss.set_gap_upper_bound(0.15);
  loss.mutable_decision()->set_threshold(100000.5);
  loss.mutable_decision()->set_false_alarm_cost(1);
  loss.mutable_decision()->set_miss_cost(1);
  EXPECT_EQ(DecisionLine(answer),
            "at 100000.5: 20.0 % of 400 decisions were wrong, the forecasts promise 10.0 %: +10.0 "
            "points (+5.0 to +15.0)");
  answer.mutable_watch()->set_first_observation(3401);
  loss.mutable_decision()->set_miss_cost(5);
  loss.set_gap_lower_bound(-0.05);
  EXPECT_EQ(DecisionLine(answer),
            "at 100000.5: 400 decisions since row 3401 cost 0.2 each, the forecasts promise 0.1: "
            "+0.1 (-0.05 to +0.15); chance can explain the difference");
}

TEST(AgainstLineTest, SaysWhetherTheModelIsBetterThanItsBaseline) {
  v1::GetCalibrationResponse answer;
  EXPECT_EQ(AgainstLine(answer), "");
  answer.set_baseline("3");
  EXPECT_EQ(AgainstLine(answer), "3: no labelled row yet");
  const auto set = [](v1::ScoreDifference& score, const char* name, bool in_points,
                      double difference, double lower, double upper) {
    score.set_difference(difference);
    score.set_lower(lower);
    score.set_upper(upper);
    score.set_text(DifferenceText(name, in_points, score));
  };
  v1::Comparison& comparison = *answer.mutable_comparison();
  set(*comparison.mutable_log_loss(), "log loss", false, -0.012, -0.02, -0.004);
  set(*comparison.mutable_brier(), "Brier score", false, 0.012, 0.004, 0.02);
  set(*comparison.mutable_binned_error(), "error", true, -0.012, -0.02, 0.015);
  EXPECT_EQ(AgainstLine(answer),
            "3: log loss 0.012 lower (0.004 to 0.020), better; Brier score 0.012 higher (0.004 to "
            "0.020), worse; error 1.2 points lower (-2.0 to +1.5), undecided");
}

v1::DatedChange::Stretch Stretch(std::int64_t first, double gap, double radius) {
  v1::DatedChange::Stretch stretch;
  stretch.set_first_observation(first);
  stretch.set_gap(gap);
  stretch.set_gap_lower(gap - radius);
  stretch.set_gap_upper(gap + radius);
  return stretch;
}

TEST(ChangedLineTest, SaysFromWhatToWhatTheErrorChanged) {
  v1::GetCalibrationResponse answer = OverLimit();
  Changed changed = ChangedLine(answer);
  EXPECT_EQ(changed.text(), "no change can be dated");
  EXPECT_EQ(changed.answer(), Changed::NOT_DATED);
  EXPECT_FALSE(changed.has_observation());
  v1::DatedChange& change = *answer.mutable_error()->mutable_change();
  change.set_event(v1::DatedChange::TOP_LABEL);
  change.set_from_observation(4801);
  change.set_to_observation(5312);
  *change.mutable_before() = Stretch(1, 0.04, 0.011);
  *change.mutable_after() = Stretch(4993, 0.12, 0.018);
  changed = ChangedLine(answer);
  EXPECT_EQ(changed.text(),
            "yes, between rows 4801 and 5312: it was over-confident by 4 points (2.9 to 5.1) "
            "before, over-confident by 12 points (10.2 to 13.8) since");
  EXPECT_EQ(changed.answer(), Changed::CHANGED);
  EXPECT_EQ(changed.observation(), 4993);
  // A recovery, and an error of class 1 that changes its sign.
  *change.mutable_after() = Stretch(4993, -0.001, 0.012);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr(", off by at most 1.3 points on average since"));
  answer.mutable_error()->mutable_since_start()->mutable_class_1();
  EXPECT_THAT(ChangedLine(answer).text(), HasSubstr(": the top label was over-confident by 4 "));
  change.set_event(v1::DatedChange::CLASS_1);
  *change.mutable_after() = Stretch(4993, -0.05, 0.012);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr("P(class 1) was 4 points too high (2.9 to 5.1) before, 5 points too low "
                        "(3.8 to 6.2) since"));
  change.set_event(v1::DatedChange::CENTRAL_INTERVAL);
  change.set_promised(0.9);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr("the 90 % interval covered 86 % (84.9 to 87.1) before, 95 % (93.8 to 96.2) "
                        "since"));
  // A dated change is said without an alarm too, and the drift detector adds nothing to it.
  answer.clear_alarms();
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::CHANGED);
  answer.mutable_error()->clear_change();
  EXPECT_EQ(ChangedLine(answer).text(), "");
}

TEST(ChangedLineTest, TheDriftDetectorSaysPerhaps) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::Alarm& drift = *answer.add_alarms();
  drift.set_kind(v1::Alarm::DRIFT);
  drift.set_observation(30040);
  drift.mutable_raise_time()->set_seconds(7200);
  // Evidence that comes later does not explain the drift alarm.
  answer.mutable_alarms(0)->set_kind(v1::Alarm::EVIDENCE);
  answer.mutable_alarms(0)->set_observation(32000);
  const std::string perhaps =
      "perhaps: the drift detector reacted at row 30040, but no change of the average error can be "
      "dated";
  EXPECT_EQ(ChangedLine(answer).text(), perhaps);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::PERHAPS);
  // Earlier evidence does, also after its acknowledgement, unless that came before the drift alarm.
  answer.mutable_alarms(0)->set_observation(913);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::NOT_DATED);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(9000);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::NOT_DATED);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(7000);
  EXPECT_EQ(ChangedLine(answer).text(), perhaps);
}

TEST(RepairLineTest, IsForAModelThatIsOverItsLimitOrHasAnAlarm) {
  v1::GetCalibrationResponse answer = OverLimit();
  EXPECT_EQ(RepairLine(answer),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model");
  v1::Recalibration& advice = *answer.mutable_recalibration();
  advice.set_text("temperature 1.9 would leave 0.4 points (0 to 2)");
  advice.set_first_observation(11);
  advice.set_fit_observations(5000);
  advice.set_test_observations(5001);
  EXPECT_EQ(RepairLine(answer),
            "temperature 1.9 would leave 0.4 points (0 to 2), says `calibctl recalibrate --model "
            "resnet18@2` of 1970-01-01 00:00 UTC over rows 11 to 10011");
  // Rows from before a change are not what the newest ones are.
  v1::DatedChange& change = *answer.mutable_error()->mutable_change();
  change.set_from_observation(4801);
  change.set_to_observation(5312);
  change.mutable_after()->set_first_observation(4993);
  change.mutable_after()->set_observations(5000);
  EXPECT_EQ(RepairLine(answer),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model, on "
            "the 5192 rows since row 4801, where the error changed");
  change.mutable_after()->set_observations(500);
  EXPECT_EQ(RepairLine(answer),
            "too few rows since the change of the error for a map (692 of 1000)");
  // A map from the rows since the same change, which is now dated more exactly, fits.
  advice.set_first_observation(4737);
  EXPECT_THAT(RepairLine(answer), StartsWith("too few rows since"));
  advice.mutable_change()->set_from_observation(4737);
  advice.mutable_change()->set_to_observation(5440);
  EXPECT_THAT(RepairLine(answer), EndsWith("over rows 4737 to 14737"));
  advice.mutable_change()->set_to_observation(4800);
  EXPECT_THAT(RepairLine(answer), StartsWith("too few rows since"));
  advice.set_first_observation(4801);
  EXPECT_THAT(RepairLine(answer), EndsWith("over rows 4801 to 14801"));
  answer.mutable_error()->set_is_recovered(true);
  EXPECT_EQ(RepairLine(answer), "");
  answer.mutable_error()->set_is_recovered(false);
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_NE(RepairLine(answer), "");
  answer.mutable_alarms(0)->mutable_acknowledge_time();
  EXPECT_EQ(RepairLine(answer), "");
  EXPECT_EQ(RepairLine(NarrowForecasts()), "");
}

TEST(RecalibrationTextTest, SaysWhatTheMapWouldLeave) {
  v1::Recalibration advice;
  EXPECT_EQ(RecalibrationText(advice), "no map is known to lower the log loss");
  advice.set_helps(true);
  advice.mutable_map()->set_kind("temperature");
  advice.mutable_map()->set_temperature(1.9);
  *advice.mutable_error_after() = Interval(0.004, 0, 0.02);
  EXPECT_EQ(RecalibrationText(advice),
            "temperature 1.9 would leave 0.4 points (0 to 2) if nothing changed within these rows");
  *advice.mutable_class_1_error_after() = Interval(0.02, 0.01, 0.03);
  EXPECT_EQ(
      RecalibrationText(advice),
      "temperature 1.9 would leave 2 points (1 to 3) for P(class 1) if nothing changed within "
      "these rows");
  advice.mutable_map()->set_temperature(20);
  EXPECT_THAT(RecalibrationText(advice),
              StartsWith("temperature 20 (the end of the range that is tried) would leave 2"));
  advice.mutable_map()->clear_temperature();
  advice.mutable_map()->set_kind("isotonic");
  EXPECT_THAT(RecalibrationText(advice), StartsWith("a map of kind isotonic would leave 2"));
  advice.set_fit_observations(2000);
  advice.set_test_observations(2000);
  advice.set_first_observation(12001);
  advice.mutable_change()->set_from_observation(12001);
  advice.mutable_change()->set_to_observation(12320);
  EXPECT_EQ(RecalibrationText(advice),
            "a map of kind isotonic, fitted on the 4000 rows since row 12001, where the error "
            "changed, would leave 2 points (1 to 3) for P(class 1)");
  // The window may begin later.
  advice.set_first_observation(12321);
  EXPECT_THAT(RecalibrationText(advice), HasSubstr("since row 12321, after the error changed,"));
  advice.set_helps(false);
  EXPECT_EQ(RecalibrationText(advice),
            "no map is known to lower the log loss, fitted on the 4000 rows since row 12321, after "
            "the error changed");
}

TEST(CertainLineTest, SaysHowManyRowsAreNeededAndWhatTheEvidenceIs) {
  v1::GetCalibrationResponse answer;
  answer.mutable_watch()->set_unavailable_reason("the bandwidth is chosen later");
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::UNDECIDED);
  error.mutable_observations_needed()->set_lower(1281);
  error.mutable_observations_needed()->set_upper(30313);
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  error.mutable_since_start()->mutable_top_label();
  EXPECT_EQ(CertainLine(answer),
            "between 1200 and 31000 more labelled rows decide about the limit; no evidence: the "
            "bandwidth is chosen later");
  // A group decides the limit, or there are too few rows to decide it.
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::OVER_LIMIT);
  EXPECT_THAT(CertainLine(answer), StartsWith("no evidence"));
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  answer.mutable_watch()->set_min_observations(100);
  EXPECT_THAT(CertainLine(answer),
              StartsWith("nothing is decided before 100 labelled rows; 0 so far; no evidence"));
  answer.mutable_watch()->clear_min_observations();
  // Nothing is said before there are rows, and of several labels.
  error.clear_observations_needed();
  error.clear_since_start();
  EXPECT_THAT(CertainLine(answer), StartsWith("no evidence"));
  error.mutable_since_start()->mutable_labels();
  EXPECT_THAT(CertainLine(answer), StartsWith("no evidence"));
  error.mutable_since_start()->mutable_top_label();
  EXPECT_THAT(CertainLine(answer),
              StartsWith("not yet foreseeable how many more labelled rows decide about the limit"));
  answer = OverLimit();
  v1::Watch& watch = *answer.mutable_watch();
  watch.set_observations(30);
  watch.set_min_observations(100);
  watch.mutable_evidence()->set_log10_e_value(0.5);
  EXPECT_EQ(CertainLine(answer), "e-value 3.16, which counts after 100 labelled rows; 30 so far");
  watch.set_first_observation(3001);
  EXPECT_THAT(CertainLine(answer), EndsWith("; 30 since row 3001"));
  answer = OverLimit();
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(CertainLine(answer),
            "e-value 10^229.1, highest 10^229.1; calibration is rejected at an e-value of 20; the "
            "error is real, "
            "but smaller than the limit");
}

TEST(DataLineTest, SaysWhichRowsCountAndHowOldTheyAre) {
  v1::GetCalibrationResponse answer;
  v1::LabelArrivals& coverage = *answer.mutable_label_arrivals();
  coverage.set_pending(600);
  coverage.mutable_next_maturation_time()->set_seconds(86400);
  EXPECT_EQ(DataLine(answer, Now()),
            "0 counted rows, 0 rejected, 600 pending (the first will count on 1970-01-02 00:00 "
            "UTC), 0 without a label, 0 duplicates");
  answer.set_observations(1);
  answer.set_dropped_rows(3);
  *answer.mutable_last_observation_time() = Now();
  EXPECT_EQ(DataLine(answer, Now()),
            "1 counted row, 0 rejected, 3 dropped by producers, 600 pending, 0 without a label, 0 "
            "duplicates; the newest row came just now");
  coverage.mutable_labels()->set_waiting(1);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr(", 1 label waits for its prediction, "));
  coverage.mutable_labels()->set_waiting(20);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr(", 20 labels wait for their predictions, "));
  answer = OverLimit();
  answer.mutable_verdict()->set_stale(true);
  EXPECT_THAT(DataLine(answer, Now()),
              EndsWith("; the newest row came 2h ago: stale, so all this may be outdated"));
  answer = OverLimit();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(DataLine(answer, Now()),
              EndsWith("; the error is measured since the acknowledgement, from row 10001 on"));
  answer.mutable_error()->mutable_since_start()->set_first_observation(501);
  EXPECT_THAT(DataLine(answer, Now()), EndsWith("; the error is measured from row 501 on"));
}

TEST(WarningLineTest, CountsTheOtherWarnings) {
  v1::GetCalibrationResponse answer;
  EXPECT_EQ(WarningLine(answer), "");
  answer.add_warnings("labels are\nmissing");
  EXPECT_EQ(WarningLine(answer), "labels are?missing");
  answer.add_warnings("rows repeat");
  EXPECT_EQ(WarningLine(answer), "(and 1 more) labels are?missing");
}

TEST(NextLineTest, TheMostUrgentAlarmComesFirst) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::Alarm& drift = *answer.add_alarms();
  drift.set_id(2);
  drift.set_kind(v1::Alarm::DRIFT);
  v1::Alarm& evidence = *answer.add_alarms();
  evidence.set_id(1);
  evidence.set_kind(v1::Alarm::EVIDENCE);
  EXPECT_THAT(NextLine(answer).text(),
              EndsWith(" (3 alarms are active: calibctl alarms resnet18@2)"));
  // A person looks first, unless nothing is over the limit any more.
  EXPECT_THAT(NextLine(answer).commands(1), HasSubstr("acknowledge resnet18@2 3 "));
  answer.mutable_verdict()->set_is_recovered(true);
  EXPECT_THAT(NextLine(answer).commands(0), HasSubstr("acknowledge resnet18@2 3 "));
  answer.mutable_verdict()->set_is_recovered(false);
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(NextLine(answer).commands(0), HasSubstr("acknowledge resnet18@2 3 "));
  answer.mutable_alarms(0)->mutable_acknowledge_time();
  EXPECT_THAT(NextLine(answer).commands(1), HasSubstr("acknowledge resnet18@2 1 "));
  evidence.mutable_acknowledge_time();
  EXPECT_THAT(NextLine(answer).commands(1), HasSubstr("acknowledge resnet18@2 2 "));
  drift.mutable_acknowledge_time();
  EXPECT_THAT(NextLine(answer).commands(),
              ::testing::ElementsAre("calibctl show resnet18@2 --verbose"));
}

}  // namespace
}  // namespace calibd::convert
