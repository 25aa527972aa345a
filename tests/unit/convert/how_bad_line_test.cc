#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "calibd/convert/reading.h"
#include "unit/convert/reading_answers.h"

namespace calibd::convert {
namespace {

using answers::Coverage;
using answers::Interval;
using answers::Level;
using answers::Measured;
using answers::NarrowForecasts;
using answers::OverLimit;
using answers::OverLimitLabels;
using answers::SetNewest;
using answers::TiedForecasts;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
  EXPECT_EQ(HowBad(answer), "no labelled row since row 10000");
  answer = OverLimit();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_EQ(HowBad(answer),
            "was off by 5.3 points (4.2 to 6.8) over rows 1 to 10000; no labelled row since");
  // The event that exceeded the limit.
  *answer.mutable_error()->mutable_since_start()->mutable_class_1() = Interval(0.069, 0.044, 0.106);
  EXPECT_THAT(HowBad(answer),
              StartsWith("P(class 1) was off by 6.9 points (4.4 to 10.6) over rows 1 to 10000;"));
  answer.mutable_error()->mutable_since_start()->set_class_1_name("yes");
  EXPECT_THAT(HowBad(answer), StartsWith("P(yes) was off by 6.9 points"));
  answer.mutable_error()->mutable_since_start()->mutable_class_1()->set_lower(0.04);
  EXPECT_THAT(HowBad(answer), StartsWith("top label was off by 5.3 points (4.2 to 6.8) over rows"));
}

TEST(HowBadLineTest, TheDirectionHasASign) {
  v1::GetCalibrationResponse answer = OverLimit();
  *answer.mutable_error()->mutable_since_start() = Measured(0.05, 0.04, 0.06, -0.02);
  EXPECT_THAT(HowBad(answer),
              EndsWith("says 97.0 %, right 99.0 %: under-confident by 2 points (0.95 to 3)"));
  *answer.mutable_error()->mutable_since_start() = Measured(0.05, 0.005, 0.06, 0);
  EXPECT_THAT(HowBad(answer), HasSubstr("whether it is over- or under-confident is not known yet"));
  // The average gap is at most 1 point, so that an error of 4 points has both directions.
  *answer.mutable_error()->mutable_since_start() = Measured(0.05, 0.04, 0.06, 0);
  EXPECT_THAT(HowBad(answer), EndsWith("over-confident for some predictions and under-confident "
                                       "for others, which cancels in part"));
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
      "top label off by 5.3 points (4.2 to 6.8; limit 2 points), says 97.0 %, right 91.7 %: "
      "over-confident by 5.2 points (4.2 to 6.3); P(class 1) off by 3 points (2.01 to 6; limit 2 "
      "points), "
      "says 25.0 %, is 25.0 %: too high for some predictions and too low for others, which cancels "
      "in part");
  *all.mutable_class_1() = Interval(0.1, 0.081, 0.12, -0.1003);
  all.mutable_class_1()->set_stated(0.25);
  EXPECT_EQ(
      HowBad(answer),
      "P(class 1) off by 10 points (8.1 to 12; limit 2 points), says 25.0 %, is 35.0 %: too low "
      "by 10.0 points (9.0 to 11.1); top label off by 5.3 points (4.2 to 6.8; limit 2 points), "
      "says "
      "97.0 "
      "%, right 91.7 %: over-confident by 5.2 points (4.2 to 6.3)");
  EXPECT_EQ(HowBadLine(answer).brief(), "P(class 1) off by 10 points (8.1 to 12; limit 2 points)");
  // The other event says the same, as of a rare class 1.
  v1::GetCalibrationResponse rare = answer;
  *rare.mutable_error()->mutable_since_start()->mutable_top_label() = all.class_1();
  EXPECT_EQ(HowBad(rare),
            "P(class 1) off by 10 points (8.1 to 12; limit 2 points), says 25.0 %, is "
            "35.0 %: too low by 10.0 points (9.0 to 11.1)");
  // The other event has nothing to add.
  *all.mutable_top_label() = Interval(0.0056, 0, 0.015, 0.002);
  EXPECT_THAT(HowBad(answer), AllOf(StartsWith("P(class 1) off by 10"), Not(HasSubstr("label")),
                                    EndsWith(": too low by 10.0 points (9.0 to 11.1)")));
  // Neither has the alarm that crossed the limit.
  answer.mutable_alarms(0)->mutable_crossing()->set_is_class_1(true);
  all.mutable_class_1()->set_lower(0.01);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; P(class 1) was off by 6 points (2.01 to 10; limit 2 points) at row 913"));
  answer.mutable_alarms(0)->mutable_crossing()->set_is_recent(true);
  EXPECT_THAT(HowBad(answer), EndsWith("; at row 913, P(class 1) of the newest rows was off by "
                                       "more than 2 points"));
  // The classes have names.
  all.set_class_1_name("yes");
  answer.mutable_alarms(0)->mutable_crossing()->set_class_1_name("yes");
  EXPECT_THAT(HowBad(answer), AllOf(StartsWith("P(yes) off by "), Not(HasSubstr("class 1")),
                                    EndsWith("; at row 913, P(yes) of the newest rows was off by "
                                             "more than 2 points")));
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
  // A frequency below 0 is impossible.
  set(0.001, 0.0009, 0.0003);
  EXPECT_THAT(HowBad(answer),
              EndsWith(", says 0.10 %, is 0.010 %: 10 times too high, by 0.090 points "
                       "(0.060 to 0.100)"));
  // It may be too high by 14 % only.
  set(0.0008, 0.0007, 0.0006);
  EXPECT_THAT(HowBad(answer), EndsWith("is 0.010 %: too high by 0.070 points (0.010 to 0.080)"));
  set(0.0001, -0.0149, 0.001);
  EXPECT_THAT(HowBad(answer), EndsWith(", says 0.010 %, is 1.5 %: 150 times too low, by 1.5 points "
                                       "(1.39 to 1.59)"));
  // A factor of chance, and one of nothing.
  set(0.001, 0.0009, 0.0011);
  EXPECT_THAT(HowBad(answer),
              EndsWith("is 0.010 %, and whether this is too high or too low is not known yet"));
  set(0.001, 0.001, 0.0004);
  EXPECT_THAT(HowBad(answer), EndsWith("says 0.10 %, is 0.0 %: too high by 0.10 points (0.060 to "
                                       "0.100)"));
}

TEST(HowBadLineTest, SaysWhatTheErrorWasWhenTheAlarmWasRaised) {
  v1::GetCalibrationResponse answer = OverLimit();
  *answer.mutable_error()->mutable_since_start() = Measured(0.03, 0.019, 0.05, 0.02);
  EXPECT_THAT(HowBad(answer),
              EndsWith("; it was off by 6 points (2.01 to 10; limit 2 points) at row 913"));
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(1);
  answer.mutable_error()->set_acknowledged_limit(0.068);
  EXPECT_THAT(HowBad(answer), AllOf(Not(HasSubstr("it was")),
                                    EndsWith("; the next alarm is raised above 6.8 points")));
  answer.mutable_alarms(0)->clear_acknowledge_time();
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("the next alarm"))) << "it is raised already";
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
  // A change that came later is what separates the rows.
  v1::CalibrationError changed = answer.error();
  answer.mutable_error()->mutable_change()->set_to_observation(answer.alarms(0).observation());
  EXPECT_THAT(NowLine(answer), HasSubstr("; not shown to be within the limit since the alarm; "));
  answer.mutable_error()->mutable_change()->set_to_observation(8320);
  EXPECT_THAT(NowLine(answer),
              HasSubstr("; not shown to be within the limit since the change before row 8321; "));
  answer.mutable_error()->Swap(&changed);
  // The other event is over the limit.
  *answer.mutable_error()->mutable_newest()->mutable_class_1() = Interval(0.1, 0.05, 0.2);
  EXPECT_THAT(NowLine(answer),
              AllOf(StartsWith("over the newest 1548 rows, P(class 1) off by 10 points (5 to 20; "),
                    HasSubstr("; still over the limit")));

  // Without an active alarm it is only measured.
  SetNewest(8193, Measured(0.01, 0, 0.03, 0.005), answer);
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(
      NowLine(answer),
      AllOf(StartsWith("over the newest 1548 rows, off by 0 to 3 points (limit 2 points); says"),
            Not(HasSubstr("the limit;"))));
  EXPECT_EQ(HowBadLine(answer).brief(), "off by 5.3 points (4.2 to 6.8; limit 2 points)");
  answer.mutable_error()->set_status(v1::CalibrationError::OVER_LIMIT);
  answer.mutable_error()->set_is_acknowledged(true);
  EXPECT_THAT(NowLine(answer), Not(HasSubstr("alarm")));
}

TEST(NowLineTest, SpeaksOfTheEventThatLeadsInHowBad) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::CalibrationError& error = *answer.mutable_error();
  error.mutable_since_start()->set_first_observation(1);
  *error.mutable_since_start()->mutable_class_1() = Interval(0.1, 0.081, 0.12, -0.1);
  error.mutable_since_start()->set_class_1_name("yes");
  ASSERT_THAT(HowBad(answer), StartsWith("P(yes) off by 10 "));
  // In the newest rows, the top label is off by more, and both are over the limit.
  SetNewest(8193, Measured(0.2, 0.1, 0.3, 0.19), answer);
  error.mutable_newest()->set_class_1_name("yes");
  *error.mutable_newest()->mutable_class_1() = Interval(0.1, 0.05, 0.2, -0.1);
  EXPECT_THAT(NowLine(answer),
              AllOf(StartsWith("over the newest 1548 rows, P(yes) off by 10 points (5 to 20; "),
                    HasSubstr("; top label off by 20 points (10 to 30; limit 2 points)")));
  EXPECT_THAT(HowBadLine(answer).brief(),
              EndsWith("; over the newest 1548 rows, P(yes) off by 10 points (5 to 20; limit 2 "
                       "points)"));
  // Only the top label is over the limit: this is the reason to begin with it.
  *error.mutable_newest()->mutable_class_1() = Interval(0.03, 0.01, 0.05, -0.03);
  EXPECT_THAT(NowLine(answer), StartsWith("over the newest 1548 rows, top label off by 20 points"));
  EXPECT_THAT(HowBadLine(answer).brief(), HasSubstr("; over the newest 1548 rows, top label off"));
  // Neither is: the event stays the same, although the other one is off by more.
  *error.mutable_newest()->mutable_top_label() = Interval(0.04, 0.015, 0.06, 0.04);
  EXPECT_THAT(
      NowLine(answer),
      StartsWith("over the newest 1548 rows, P(yes) off by 1 to 5 points (limit 2 points)"));
}

TEST(NowLineTest, SaysSinceWhenAnAlarmHasRecovered) {
  v1::GetCalibrationResponse answer = OverLimit();
  SetNewest(23553, Measured(0.005, 0, 0.019, 0.001), answer);
  answer.mutable_error()->set_is_recovered(true);
  EXPECT_THAT(NowLine(answer), StartsWith("all rows together recovered since row 23553: over "));
  answer.mutable_verdict()->set_is_recovered(true);
  EXPECT_THAT(NowLine(answer),
              StartsWith("recovered since row 23553: over these 1548 rows, off by 0 to 1.9 points "
                         "(limit 2 points); says "));
  EXPECT_THAT(HowBadLine(answer).brief(),
              EndsWith("; since row 23553 off by 0 to 1.9 points (limit 2 points)"));
}

TEST(NowLineTest, SaysSinceWhenAnErrorIsOverTheLimitAgain) {
  v1::GetCalibrationResponse answer = OverLimit();
  SetNewest(12289, Measured(0.01, 0, 0.03, 0.005), answer);
  answer.mutable_error()->set_over_again_since(10241);
  EXPECT_THAT(NowLine(answer),
              EndsWith("; it had recovered, and is over the limit again since row 10241; 95 % for "
                       "these rows, however often you look"));
}

// What was known stays until rows follow.
TEST(NowLineTest, KeepsTheRecoveryUntilRowsFollowTheAcknowledgement) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.clear_alarms();
  v1::CalibrationError& error = *answer.mutable_error();
  error.set_status(v1::CalibrationError::UNDECIDED);
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  SetNewest(8453, Measured(0.005, 0, 0.019, 0.001), answer);
  error.mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(
      NowLine(answer),
      AllOf(StartsWith("over the newest 1548 rows, all before the acknowledgement, off by 0 "
                       "to 1.9 points (limit 2 points); says "),
            EndsWith("; 95 % for these rows, however often you look")));
  EXPECT_EQ(HowBadLine(answer).text(),
            "was off by 5.3 points (4.2 to 6.8) over rows 1 to 10000; no labelled row since");
  EXPECT_EQ(HowBadLine(answer).brief(),
            "over the newest 1548 rows, all before the acknowledgement, off by 0 to 1.9 points "
            "(limit 2 points)");
  EXPECT_FALSE(HowBadLine(answer).has_interval());
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
              StartsWith("off by 0 to 4.1 points (limit 5 points); level .5: between 36 "
                         "and 62 % fell below"));
  EXPECT_THAT(HowBad(answer), Not(HasSubstr("too")));
  EXPECT_EQ(WhereLine(answer), "nothing stands out");
  // Nothing is seen, because any level would be right.
  v1::GetCalibrationResponse hidden = answer;
  hidden.mutable_error()->mutable_since_start()->mutable_coverage()->set_upper(0);
  EXPECT_THAT(HowBad(hidden), HasSubstr("; outcomes that equal quantiles can hide up to "));
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

TEST(NowLineTest, HasTheAverageOverLabels) {
  v1::GetCalibrationResponse answer = OverLimitLabels();
  v1::ErrorMeasurement labels;
  *labels.mutable_labels() = Interval(0.01, 0, 0.05);
  SetNewest(30001, labels, answer);
  EXPECT_THAT(NowLine(answer),
              StartsWith("over the newest 1548 rows, the labels on average off by 0 to 5 points "
                         "(limit 2 points); "));
}

}  // namespace
}  // namespace calibd::convert
