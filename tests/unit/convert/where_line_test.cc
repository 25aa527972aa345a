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
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Changed = v1::Reading::Changed;

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
  EXPECT_THAT(
      WhereLine(answer),
      StartsWith("group (no value) (not measured yet since the acknowledgement or update)"));
  group.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(
      WhereLine(answer),
      StartsWith("group (no value) (not measured yet since the acknowledgement or update)"));
  group.set_value("eu");
  group.set_rejected(true);
  group.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  *group.mutable_error()->mutable_since_acknowledgement() = Measured(0.05, 0, 0.1, 0);
  EXPECT_THAT(WhereLine(answer), StartsWith("group eu 0 to 10 points off, rejected; rejected "));
  // The event that is off by more.
  v1::ErrorMeasurement& error = *group.mutable_error()->mutable_since_acknowledgement();
  *error.mutable_class_1() = Interval(0.17, 0.051, 0.29, -0.17);
  error.mutable_class_1()->set_stated(0.5);
  EXPECT_THAT(WhereLine(answer), StartsWith("group eu P(class 1) 17 points off (5.1 to 29; says "
                                            "50.0 %, is 67.0 %), rejected; rejected "));
  error.set_class_1_name("yes");
  EXPECT_THAT(WhereLine(answer), StartsWith("group eu P(yes) 17 points off (5.1 to 29; says "));
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
              AllOf(StartsWith("confidence 93.3 to "), EndsWith("; rejected for all 10 classes")));
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
  EXPECT_THAT(
      WhereLine(answer),
      AllOf(HasSubstr(" points off (4.2 to 6.8) and 19 others; rejected for classes 5 and 21 "
                      "others; confidence"),
            SizeIs(Le(175U))));
}

v1::DatedChange::Stretch Stretch(std::int64_t first, double gap, double radius) {
  v1::DatedChange::Stretch stretch;
  stretch.set_first_observation(first);
  stretch.set_observations(first == 1 ? 4992 : 2000);
  stretch.set_gap(gap);
  stretch.set_gap_lower(gap - radius);
  stretch.set_gap_upper(gap + radius);
  return stretch;
}

TEST(ChangedLineTest, SaysFromWhatToWhatTheErrorChanged) {
  v1::GetCalibrationResponse answer = OverLimit();
  Changed changed = ChangedLine(answer);
  // The alarm came at row 913.
  EXPECT_EQ(changed.text(), "off from the first rows on, as far as can be seen");
  EXPECT_EQ(changed.answer(), Changed::NOT_DATED);
  EXPECT_FALSE(changed.has_observation());
  v1::DatedChange& change = *answer.mutable_error()->mutable_change();
  change.set_event(v1::DatedChange::TOP_LABEL);
  change.set_from_observation(4801);
  change.set_to_observation(5312);
  *change.mutable_before() = Stretch(1, 0.04, 0.011);
  *change.mutable_after() = Stretch(4993, 0.12, 0.018);
  changed = ChangedLine(answer);
  EXPECT_EQ(
      changed.text(),
      "yes, between rows 4801 and 5312: it was over-confident by 4 points (2.9 to 5.1) "
      "in rows 1 to 4992, and over-confident by 12 points (10.2 to 13.8) in rows 4993 to 6992");
  EXPECT_EQ(changed.answer(), Changed::CHANGED);
  EXPECT_EQ(changed.observation(), 4993);
  // A recovery, and an error of class 1 that changes its sign.
  *change.mutable_after() = Stretch(4993, -0.001, 0.012);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr(", and off by at most 1.3 points on average in rows 4993 to 6992"));
  answer.mutable_error()->mutable_since_start()->mutable_class_1();
  EXPECT_THAT(ChangedLine(answer).text(), HasSubstr(": the top label was over-confident by 4 "));
  change.set_event(v1::DatedChange::CLASS_1);
  *change.mutable_after() = Stretch(4993, -0.05, 0.012);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr("P(class 1) was 4 points too high (2.9 to 5.1) in rows 1 to 4992, and 5 "
                        "points too low (3.8 to 6.2) in rows 4993 to 6992"));
  answer.mutable_error()->mutable_since_start()->set_class_1_name("yes");
  EXPECT_THAT(ChangedLine(answer).text(), HasSubstr(": P(yes) was 4 points too high "));
  change.set_event(v1::DatedChange::CENTRAL_INTERVAL);
  change.set_promised(0.9);
  EXPECT_THAT(ChangedLine(answer).text(),
              HasSubstr("the 90 % interval covered 86 % (84.9 to 87.1) in rows 1 to 4992, and 95 % "
                        "(93.8 to 96.2) in rows 4993 to 6992"));
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
      "perhaps: drift was detected at 1970-01-01 02:00 UTC (row 30040); no change can be dated "
      "yet, "
      "and a small error from the first rows on raises such an alarm too";
  EXPECT_EQ(ChangedLine(answer).text(), perhaps);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::PERHAPS);
  answer.mutable_alarms(0)->set_observation(29000);
  EXPECT_EQ(ChangedLine(answer).text(), perhaps);
  // Evidence in the first rows does, also after its acknowledgement, unless that came before the
  // drift alarm.
  answer.mutable_alarms(0)->set_observation(913);
  const std::string from_the_start = "not calibrated from the first rows on, as far as can be seen";
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::NOT_DATED);
  EXPECT_EQ(ChangedLine(answer).text(), from_the_start);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(9000);
  EXPECT_EQ(ChangedLine(answer).text(), from_the_start);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(7000);
  EXPECT_EQ(ChangedLine(answer).text(), perhaps);
  // A drift alarm in the first rows alone.
  answer.mutable_alarms(1)->set_observation(100);
  EXPECT_EQ(ChangedLine(answer).text(), from_the_start);
  // The row of an acknowledgement is a start too.
  answer.mutable_alarms(1)->set_observation(5400);
  answer.mutable_watch()->set_first_observation(5001);
  EXPECT_EQ(
      ChangedLine(answer).text(),
      "not calibrated already in the rows from 5001 on, where counting began anew, as far as can "
      "be seen");
  // The error exceeded its limit in these rows too, or a person has accepted it.
  answer.mutable_error()->set_is_acknowledged(true);
  EXPECT_EQ(
      ChangedLine(answer).text(),
      "off already in the rows from 5001 on, where counting began anew, as far as can be seen");
  answer.mutable_error()->set_is_acknowledged(false);
  *answer.add_alarms() = answer.alarms(1);
  answer.mutable_alarms(2)->set_kind(v1::Alarm::OVER_LIMIT);
  answer.mutable_alarms(2)->set_observation(5500);
  EXPECT_EQ(
      ChangedLine(answer).text(),
      "off already in the rows from 5001 on, where counting began anew, as far as can be seen");
  answer.mutable_alarms()->RemoveLast();
  // A model that has recovered did change.
  answer.mutable_error()->set_is_recovered(true);
  EXPECT_EQ(ChangedLine(answer).answer(), Changed::PERHAPS);
  // Below a limit that was raised, without a drift alarm, nothing has to be explained.
  answer.mutable_alarms(1)->mutable_acknowledge_time()->set_seconds(9000);
  EXPECT_EQ(ChangedLine(answer).text(), "no change can be dated");
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(ChangedLine(answer).text(), "");
}

TEST(RepairLineTest, IsForAModelThatIsOverItsLimit) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.set_window_observations(10000);
  EXPECT_EQ(RepairLine(answer),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model");
  v1::Recalibration& advice = *answer.mutable_recalibration();
  advice.set_text("temperature 1.9 helps");
  advice.set_first_observation(11);
  advice.set_fit_observations(5000);
  advice.set_test_observations(5001);
  EXPECT_EQ(RepairLine(answer),
            "temperature 1.9 helps, says `calibctl recalibrate --model resnet18@2` of 1970-01-01 "
            "00:00 UTC over rows 11 to 10011");
  // Rows from before a change are not what the newest ones are.
  v1::DatedChange& change = *answer.mutable_error()->mutable_change();
  change.set_from_observation(4801);
  change.set_to_observation(5312);
  change.mutable_after()->set_first_observation(4993);
  change.mutable_after()->set_observations(5000);
  EXPECT_EQ(RepairLine(answer),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model, on "
            "the 5192 rows since row 4801, where the error changed");
  // The window keeps fewer rows.
  answer.set_window_observations(2000);
  EXPECT_THAT(RepairLine(answer),
              EndsWith(", on the 2000 rows of the window, after the error changed"));
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
  EXPECT_THAT(RepairLine(NarrowForecasts()), StartsWith("`calibctl recalibrate --model "));
}

TEST(RepairLineTest, NoMapIsOfferedForRowsThatAreNotWhatTheySeem) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_recalibration()->set_text("temperature 1.9 would leave 0.4 points (0 to 2)");
  // A warning about the evidence alone is no reason against a map.
  answer.add_warnings("rounded");
  EXPECT_THAT(RepairLine(answer), Not(HasSubstr("first remove")));
  answer.add_warnings(DependenceText(1200));
  answer.set_rows_are_doubtful(true);
  EXPECT_EQ(RepairLine(answer),
            "first remove the cause of the warning: a map for such rows may do harm; then "
            "`calibctl recalibrate --model resnet18@2` looks for one");
  // Two columns are exchanged: right in 20 % of the rows, at most in 21.1 %.
  v1::ErrorMeasurement& all = *answer.mutable_error()->mutable_since_start();
  *all.mutable_top_label() = Interval(0.6, 0.58, 0.62, 0.6);
  *all.mutable_class_1() = Interval(0.6, 0.58, 0.62, 0.6);
  all.set_mean_confidence(0.8);
  all.set_accuracy(0.2);
  EXPECT_EQ(RepairLine(answer),
            "first check whether the columns of the classes, or the labels, are exchanged; a map "
            "would hide it");
  EXPECT_EQ(MapCaution(answer), RepairLine(answer));
  EXPECT_THAT(HowBadLine(answer).text(),
              StartsWith("right in 20.0 %, less often than by chance: check whether the columns"));
  EXPECT_THAT(NextLine(answer).text(), StartsWith("check whether the columns of the classes"));
  // Not certainly less often than by chance.
  all.mutable_top_label()->set_gap_lower(0.29);
  EXPECT_THAT(HowBadLine(answer).text(), Not(HasSubstr("chance")));
  EXPECT_THAT(RepairLine(answer), StartsWith("first remove the cause"));
  // No label of the newest rows is what 300 were expected to be.
  answer.clear_rows_are_doubtful();
  v1::ErrorMeasurement& newest = *answer.mutable_error()->mutable_newest();
  newest.set_observations(1000);
  *newest.mutable_top_label() = Interval(0.3, 0.25, 0.35, 0.3);
  *newest.mutable_class_1() = Interval(0.3, 0.25, 0.35, 0.3);
  newest.mutable_class_1()->set_stated(0.3);
  newest.set_class_1_name("yes");
  EXPECT_EQ(RepairLine(answer),
            "first check the labels: none of the newest 1000 rows is yes, and 300 were expected");
  EXPECT_EQ(MapCaution(answer), RepairLine(answer));
  // All labels are.
  newest.mutable_class_1()->set_gap(-0.7);
  EXPECT_EQ(RepairLine(answer),
            "first check the labels: all of the newest 1000 rows are yes, and 300 were expected");
  // One is, or is not.
  newest.mutable_class_1()->set_gap(-0.699);
  EXPECT_THAT(RepairLine(answer), Not(HasSubstr("labels")));
}

TEST(RecalibrationTextTest, SaysWhatTheMapWouldLeave) {
  v1::Recalibration advice;
  EXPECT_EQ(RecalibrationText(advice), "no map is known to lower the log loss");
  advice.set_helps(true);
  advice.mutable_map()->set_kind("temperature");
  advice.mutable_map()->set_temperature(1.9);
  *advice.mutable_error_before() = Interval(0.054, 0.042, 0.068);
  *advice.mutable_error_after() = Interval(0.004, 0, 0.02);
  EXPECT_EQ(
      RecalibrationText(advice),
      "temperature 1.9 would take the error of the model from 5.4 (4.2 to 6.8) points to 0 to "
      "2 points if nothing changed within these rows");
  // The map repairs other probabilities than those of the top label.
  v1::Recalibration other = advice;
  *other.mutable_error_before() = Interval(0.01, 0, 0.033);
  *other.mutable_error_after() = Interval(0.01, 0, 0.044);
  other.set_log_loss_before(0.68);
  other.set_log_loss_after(0.389);
  EXPECT_EQ(RecalibrationText(other),
            "temperature 1.9 would lower the log loss from 0.68 to 0.389 nats; no error of the "
            "model is shown, neither without it (0 to 3.3 points) nor with it (0 to 4.4 points), "
            "if nothing changed within these rows");
  *advice.mutable_class_1_error_before() = Interval(0.3, 0, 0.6);
  *advice.mutable_class_1_error_after() = Interval(0.02, 0.01, 0.03);
  EXPECT_EQ(RecalibrationText(advice),
            "temperature 1.9 would take the error of P(class 1) from 0 to 60 points to 2 (1 to 3) "
            "points if nothing changed within these rows");
  advice.set_class_1_name("yes");
  EXPECT_THAT(RecalibrationText(advice), HasSubstr(" the error of P(yes) from 0 to 60 points to "));
  advice.clear_class_1_name();
  advice.mutable_map()->set_temperature(20);
  EXPECT_THAT(RecalibrationText(advice),
              StartsWith("temperature 20 (the end of the range that is tried) would take the "));
  advice.mutable_map()->clear_temperature();
  advice.mutable_map()->set_kind("isotonic");
  EXPECT_THAT(RecalibrationText(advice),
              StartsWith("a map of kind isotonic would take the error of P(class 1) from "));
  advice.set_fit_observations(2000);
  advice.set_test_observations(2000);
  advice.set_first_observation(12001);
  advice.mutable_change()->set_from_observation(12001);
  advice.mutable_change()->set_to_observation(12320);
  EXPECT_EQ(RecalibrationText(advice),
            "a map of kind isotonic, fitted on the 4000 rows since row 12001, where the error "
            "changed, would take the error of P(class 1) from 0 to 60 points to 2 (1 to 3) points");
  // The window may begin later.
  advice.set_first_observation(12321);
  EXPECT_THAT(RecalibrationText(advice), HasSubstr("since row 12321, after the error changed,"));
  advice.set_helps(false);
  EXPECT_EQ(RecalibrationText(advice),
            "no map is known to lower the log loss, fitted on the 4000 rows since row 12321, after "
            "the error changed");
}

}  // namespace
}  // namespace calibd::convert
