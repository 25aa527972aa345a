// What is rejected leads, and advice is given where it helps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "calibd/convert/reading.h"
#include "unit/convert/reading_answers.h"

namespace calibd::convert {
namespace {

using answers::Interval;
using answers::Measured;
using answers::NarrowForecasts;
using answers::OverLimit;
using answers::OverLimitLabels;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void AddGroup(const char* name, v1::CalibrationError::Status status, double lower, bool rejected,
              v1::GetCalibrationResponse& answer) {
  v1::GroupWatch& group = *answer.add_groups();
  group.set_value(name);
  group.set_rejected(rejected);
  group.mutable_error()->set_status(status);
  *group.mutable_error()->mutable_since_start() = Measured(lower + 0.05, lower, lower + 0.1, 0.05);
  if (rejected) answer.mutable_verdict()->add_rejected_groups(name);
  if (status == v1::CalibrationError::OVER_LIMIT) {
    answer.mutable_verdict()->add_groups_over_limit(name);
  }
}

// A model within its limit, of which group eu is over the limit and asia is rejected.
v1::GetCalibrationResponse BadGroups() {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->set_status(v1::Verdict::NOT_REJECTED);
  answer.mutable_verdict()->clear_whereabouts();
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_error()->set_limit(0.1);
  answer.mutable_alarms(0)->set_group_value("eu");
  AddGroup("asia", v1::CalibrationError::UNDECIDED, 0.01, true, answer);
  AddGroup("eu", v1::CalibrationError::OVER_LIMIT, 0.35, false, answer);
  AddGroup("us", v1::CalibrationError::WITHIN_LIMIT, 0, false, answer);
  return answer;
}

// The newest rows are those of all groups, also while `how bad` begins with one group.
TEST(RejectedPartsTest, NowSaysThatItIsAboutAllGroups) {
  v1::GetCalibrationResponse answer = BadGroups();
  v1::ErrorMeasurement& newest = *answer.mutable_error()->mutable_newest();
  newest = Measured(0.03, 0, 0.06, 0.02);
  newest.set_observations(1548);
  newest.set_first_observation(8193);
  EXPECT_THAT(NowLine(answer), StartsWith("over the newest 1548 rows of all groups, off by 0 to "));
  EXPECT_EQ(HeadlinesOf(answer).how_bad().newest_subject(), "all groups");
  answer.clear_groups();
  answer.mutable_verdict()->clear_groups_over_limit();
  answer.mutable_verdict()->clear_rejected_groups();
  EXPECT_THAT(NowLine(answer), StartsWith("over the newest 1548 rows, off by 0 to "));
  EXPECT_EQ(HeadlinesOf(answer).how_bad().newest_subject(), "");
}

TEST(RejectedPartsTest, TheGroupThatIsOffByMostLeads) {
  v1::GetCalibrationResponse answer = BadGroups();
  EXPECT_THAT(HowBadLine(answer).text(),
              StartsWith("group eu off by 40 points (35 to 45; limit 10 points), and 1 more group; "
                         "all rows together: off by 5.3 points (4.2 to 6.8; limit 10 points); "));
  EXPECT_EQ(HowBadLine(answer).brief(),
            "group eu off by 40 points (35 to 45; limit 10 points), and 1 more group");
  EXPECT_THAT(VerdictLine(answer),
              AllOf(StartsWith("OVER_LIMIT in group eu, alarm on"),
                    EndsWith("NOT_REJECTED as a whole, but rejected for group asia")));
  v1::CalibrationError& eu = *answer.mutable_groups(1)->mutable_error();
  eu.set_is_recovered(true);
  eu.mutable_newest()->set_first_observation(4097);
  EXPECT_THAT(HowBadLine(answer).brief(), HasSubstr("points), recovered since row 4097, and 1 "));
  eu.set_is_recovered(false);
  eu.set_is_acknowledged(true);
  EXPECT_THAT(HowBadLine(answer).brief(), HasSubstr("points), acknowledged, and 1 more group"));
  // Of two classes, the worse event is named.
  *eu.mutable_since_start()->mutable_class_1() = Interval(0.5, 0.4, 0.6);
  EXPECT_THAT(HowBadLine(answer).brief(), StartsWith("group eu P(class 1) off by 50 points"));
  // No row has come since the acknowledgement: the rejected group leads.
  eu.mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_EQ(HowBadLine(answer).brief(),
            "group asia off by 6 points (1 to 11; limit 10 points), rejected");
}

TEST(RejectedPartsTest, ARejectedModelThatIsOffByMoreLeads) {
  v1::GetCalibrationResponse answer = OverLimit();
  AddGroup("eu", v1::CalibrationError::OVER_LIMIT, 0.04, true, answer);
  EXPECT_THAT(HowBadLine(answer).text(), StartsWith("off by 5.3 points (4.2 to 6.8; "));
  answer.mutable_groups(0)->mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(
      0.05);
  EXPECT_THAT(HowBadLine(answer).text(), StartsWith("group eu off by 9 points (5 to 14; "));
  // A model that is not rejected never leads.
  answer.mutable_groups(0)->mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(
      0.01);
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_verdict()->set_status(v1::Verdict::NOT_REJECTED);
  EXPECT_THAT(HowBadLine(answer).text(), StartsWith("group eu off by 1 to 14 points (limit 2 "));
}

TEST(RejectedPartsTest, LeadsAlsoWithoutRowsOfTheModel) {
  v1::GetCalibrationResponse answer = BadGroups();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(HowBadLine(answer).text(),
              AllOf(StartsWith("group eu off by 40 points"),
                    EndsWith("; all rows together: was off by 5.3 points (4.2 to 6.8) over rows 1 "
                             "to 10000; no labelled row since")));
}

// The verdict and `how bad` speak of the same alarm.
TEST(LimitAlarmTest, TheFirstRowCounts) {
  v1::GetCalibrationResponse answer = BadGroups();
  v1::Alarm& earlier = *answer.add_alarms();
  earlier = answer.alarms(0);
  earlier.set_observation(300);
  earlier.set_group_value("asia");
  EXPECT_THAT(VerdictLine(answer),
              HasSubstr(" in group eu, alarm on 1970-01-01 01:00 UTC (row 913)"))
      << "asia is not over the limit any more";
  answer.mutable_verdict()->add_groups_over_limit("asia");
  EXPECT_THAT(VerdictLine(answer),
              HasSubstr(" in groups eu (alarm at row 913), asia (alarm at row 300), first alarm on "
                        "1970-01-01 01:00 UTC (row 300), "));
  answer.mutable_verdict()->mutable_groups_over_limit()->RemoveLast();
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(HowBadLine(answer).text(),
              EndsWith("; group asia was off by 6 points (2.01 to 10; limit 2 points) at row 300, "
                       "before the limit was raised"));
  EXPECT_THAT(VerdictLine(answer), Not(HasSubstr("row 300")));
  earlier.mutable_acknowledge_time();
  answer.mutable_alarms(0)->clear_group_value();
  EXPECT_THAT(HowBadLine(answer).text(),
              EndsWith("; it was off by 6 points (2.01 to 10; limit 2 points) at row 913, before "
                       "the limit was raised"));
  answer.mutable_alarms(0)->mutable_crossing()->clear_error();
  EXPECT_THAT(HowBadLine(answer).text(),
              EndsWith("; at row 913, the newest rows were off by more than 2 points, before the "
                       "limit was raised"));
}

TEST(RepairLineTest, TheRestOfTheGroupsIsNoCause) {
  v1::GetCalibrationResponse answer = BadGroups();
  answer.clear_alarms();
  for (v1::GroupWatch& group : *answer.mutable_groups()) group.set_overflow(true);
  EXPECT_THAT(RepairLine(answer), StartsWith("(other groups) mixes all groups beyond max_groups"));
}

TEST(RepairLineTest, AMapForAllRowsRepairsNoGroup) {
  v1::GetCalibrationResponse answer = BadGroups();
  EXPECT_EQ(RepairLine(answer),
            "a map for all rows does not repair groups eu, asia: look for the cause in their rows, "
            "or fit a map to a file of one group's newest rows alone, by `calibctl recalibrate`");
  // The group "us" is good, although all rows together are over the limit.
  answer.mutable_error()->set_status(v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(RepairLine(answer),
            "groups eu, asia are the cause, and a map for all rows can make the other groups "
            "worse: look for the cause in their rows, or fit a map to a file of one group's "
            "newest rows alone, by `calibctl recalibrate`");
  // No group is shown to be good.
  answer.mutable_groups(2)->mutable_error()->set_status(v1::CalibrationError::UNDECIDED);
  EXPECT_THAT(RepairLine(answer), StartsWith("`calibctl recalibrate --model "));
  EXPECT_EQ(MapCaution(answer), "");
  // One is shown to be better than the group that is off.
  answer.mutable_groups(0)->clear_rejected();
  EXPECT_THAT(RepairLine(answer), StartsWith("group eu is the cause, and a map for all rows can "));
  EXPECT_EQ(MapCaution(answer), RepairLine(answer));
  // Rows that are not what they seem come first.
  answer.set_rows_are_doubtful(true);
  EXPECT_THAT(RepairLine(answer), StartsWith("first remove the cause of the warning"));
  EXPECT_EQ(MapCaution(answer),
            "first remove the cause of the warning: a map for such rows may do harm");
  answer.clear_rows_are_doubtful();
  // A group of forecasts has no map of its own.
  answer.mutable_forecast();
  EXPECT_EQ(RepairLine(answer), "group eu is the cause: look at its rows first");
  answer.set_rows_are_doubtful(true);
  EXPECT_EQ(RepairLine(answer),
            "group eu is the cause: look at its rows once the cause of the warning is removed");
  answer.clear_rows_are_doubtful();
  answer.clear_forecast();
  answer.mutable_groups(0)->set_rejected(true);
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_groups(1)->mutable_error()->set_is_recovered(true);
  EXPECT_THAT(
      RepairLine(answer),
      StartsWith("a map for all rows does not repair group asia: look for the cause in its"));
  EXPECT_EQ(MapCaution(answer), RepairLine(answer));
  answer.mutable_groups(0)->mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(RepairLine(answer), "");
}

TEST(RepairLineTest, AMapOfLevelsRepairsForecasts) {
  v1::GetCalibrationResponse answer = NarrowForecasts();
  EXPECT_EQ(RepairLine(answer),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model");
  v1::Recalibration& advice = *answer.mutable_recalibration();
  advice.set_helps(true);
  advice.mutable_map()->set_kind("isotonic");
  advice.set_pinball_loss_before(2);
  advice.set_pinball_loss_after(1);
  *advice.mutable_error_before() = Interval(0.157, 0.085, 0.229);
  *advice.mutable_error_after() = Interval(0.02, 0, 0.04);
  EXPECT_EQ(
      RecalibrationText(advice),
      "a map of kind isotonic would take the coverage error from 15.7 (8.5 to 22.9) points to "
      "0 to 4 points if nothing changed within these rows");
  advice.set_helps(false);
  EXPECT_EQ(RecalibrationText(advice), "no map is known to lower the pinball loss");
  // Quantiles of one level have no map.
  answer.mutable_verdict()->mutable_whereabouts()->add_cells();
  answer.mutable_verdict()->mutable_whereabouts()->add_cells();
  EXPECT_EQ(RepairLine(answer), "");
}

TEST(RepairLineTest, IsEmptyIfNothingHasToBeRepaired) {
  // An alarm of the evidence, and an error that is not shown to be over the limit.
  for (const auto status : {v1::CalibrationError::WITHIN_LIMIT, v1::CalibrationError::UNDECIDED}) {
    v1::GetCalibrationResponse answer = OverLimit();
    answer.mutable_alarms(0)->set_kind(v1::Alarm::EVIDENCE);
    answer.mutable_verdict()->set_limit_status(status);
    answer.mutable_error()->set_status(status);
    EXPECT_EQ(RepairLine(answer), "");
  }
  // Someone has repaired or accepted the error, until rows since then show it again.
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_error()->set_is_acknowledged(true);
  EXPECT_EQ(RepairLine(answer), "");
  v1::ErrorMeasurement& since = *answer.mutable_error()->mutable_since_acknowledgement();
  since.set_first_observation(10001);
  EXPECT_EQ(RepairLine(answer), "");
  since = Measured(0.05, 0.01, 0.1, 0.05);
  EXPECT_EQ(RepairLine(answer), "");
  since = Measured(0.05, 0.03, 0.1, 0.05);
  EXPECT_NE(RepairLine(answer), "");
}

}  // namespace
}  // namespace calibd::convert
