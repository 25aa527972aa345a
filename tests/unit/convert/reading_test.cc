#include "calibd/convert/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "unit/convert/reading_answers.h"

namespace calibd::convert {
namespace {

using answers::NarrowForecasts;
using answers::Now;
using answers::OverLimit;
using answers::OverLimitLabels;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string HowBad(const v1::GetCalibrationResponse& answer) { return HowBadLine(answer).text(); }

TEST(ReadingTest, HasEachLineThatSaysSomething) {
  const v1::Reading reading = ReadingOf(OverLimit(), Now());
  EXPECT_EQ(reading.verdict().text(),
            "OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 913), MISCALIBRATED");
  EXPECT_EQ(
      reading.how_bad().text(),
      "off by 5.3 points (4.2 to 6.8; limit 2 points); says 97.0 %, right 91.7 %: over-confident "
      "by 5.2 points (4.2 to 6.3)");
  EXPECT_EQ(reading.how_bad().brief(), "off by 5.3 points (4.2 to 6.8; limit 2 points)");
  EXPECT_EQ(
      reading.where().text(),
      "rejected for classes 5, cat; confidence 93.3 to 100 %: says 99.6 %, right 95.9 % (9021 "
      "rows)");
  EXPECT_EQ(reading.changed().text(), "off from the first rows on, as far as can be seen");
  EXPECT_EQ(reading.repair().text(),
            "`calibctl recalibrate --model resnet18@2` looks for a map that repairs the model");
  EXPECT_EQ(reading.certain().text(),
            "e-value 10^229.1, highest 10^229.1; rejection needs an e-value of 20");
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

TEST(ReadingTest, HasTheIntervalsOfWhichItsLinesSpeak) {
  v1::GetCalibrationResponse answer = OverLimit();
  answers::SetNewest(8193, answers::Measured(0.2, 0.1, 0.3, 0.05), answer);
  const v1::Reading::HowBad line = ReadingOf(answer, Now()).how_bad();
  EXPECT_EQ(line.interval().lower(), 0.0423);
  EXPECT_EQ(line.newest().lower(), 0.1);
  EXPECT_EQ(line.subject(), "");
  // What is off now comes first.
  EXPECT_DOUBLE_EQ(ReadingOf(answer, Now()).severity(), 7 + 0.99 * 0.1);
  const v1::Reading::HowBad labels = HowBadLine(OverLimitLabels());
  EXPECT_EQ(labels.interval().lower(), 0.061);
  EXPECT_EQ(labels.subject(), "label wind");
  EXPECT_FALSE(labels.has_newest());
}

TEST(ReadingTest, ModelsAreRankedByHowUrgentlySomebodyShouldLook) {
  v1::GetCalibrationResponse answer = OverLimit();
  v1::Verdict& verdict = *answer.mutable_verdict();
  std::vector<double> severities = {HeadlinesOf(answer).severity()};
  answer.mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(0.03);
  const auto add = [&] { severities.push_back(HeadlinesOf(answer).severity()); };
  add();
  verdict.set_is_acknowledged(true);
  add();
  verdict.set_is_recovered(true);
  add();
  verdict.set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  for (const auto status : {v1::Verdict::MISCALIBRATED, v1::Verdict::DRIFTED, v1::Verdict::STALE,
                            v1::Verdict::INSUFFICIENT_DATA, v1::Verdict::NOT_REJECTED}) {
    verdict.set_status(status);
    add();
  }
  EXPECT_TRUE(std::ranges::is_sorted(severities, std::greater<>()));
  std::vector<int> ranks(severities.size());
  std::ranges::transform(severities, ranks.begin(), [](double x) { return static_cast<int>(x); });
  EXPECT_THAT(ranks, ElementsAre(7, 7, 6, 5, 4, 3, 2, 1, 0));
  verdict.set_limit_status(v1::CalibrationError::UNDECIDED);
  EXPECT_EQ(static_cast<int>(HeadlinesOf(answer).severity()), 1);
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
            "WITHIN_LIMIT, DRIFTED, alarm on 1970-01-01 01:00 UTC (row 913), STALE");
  verdict.set_status(v1::Verdict::STALE);
  EXPECT_EQ(VerdictLine(answer), "WITHIN_LIMIT, STALE since 1970-01-01 01:00 UTC (row 913)");
}

TEST(VerdictLineTest, SaysWhatHasRecoveredOrIsAcknowledged) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_error()->set_is_recovered(true);
  answer.mutable_error()->mutable_newest()->set_first_observation(23553);
  answer.mutable_error()->mutable_newest()->mutable_start_time()->set_seconds(7200);
  EXPECT_EQ(VerdictLine(answer),
            "OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 913), MISCALIBRATED")
      << "while another alarm is active";
  answer.mutable_verdict()->set_is_recovered(true);
  EXPECT_EQ(
      VerdictLine(answer),
      "OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 913), recovered since 1970-01-01 02:00 UTC "
      "(row 23553) (the gate over-limit fails until its alarms are acknowledged), "
      "MISCALIBRATED");
  // The alarms of groups or labels have.
  answer.mutable_error()->set_is_recovered(false);
  EXPECT_THAT(VerdictLine(answer),
              HasSubstr("(row 913), recovered (the gate over-limit fails until its "));
  answer = OverLimit();
  answer.mutable_error()->set_is_acknowledged(true);
  answer.mutable_verdict()->set_is_acknowledged(true);
  answer.mutable_alarms(0)->mutable_acknowledge_time()->set_seconds(1);
  EXPECT_EQ(VerdictLine(answer), "OVER_LIMIT (acknowledged), MISCALIBRATED");
}

TEST(VerdictLineTest, SaysSinceWhenAnErrorIsOverTheLimitAgain) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_error()->set_over_again_since(10241);
  EXPECT_EQ(VerdictLine(answer),
            "OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 913), again since row 10241, "
            "MISCALIBRATED");
  // It did change, so that it was not off from the first rows on.
  EXPECT_EQ(ChangedLine(answer).text(), "no change can be dated");
  // A group alone.
  answer = OverLimit();
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_alarms(0)->set_group_value("eu");
  answer.mutable_verdict()->add_groups_over_limit("eu");
  v1::GroupWatch& eu = *answer.add_groups();
  eu.set_value("eu");
  eu.mutable_error()->set_over_again_since(10241);
  EXPECT_EQ(
      VerdictLine(answer),
      "OVER_LIMIT in group eu, alarm on 1970-01-01 01:00 UTC (row 913), again since row 10241, "
      "MISCALIBRATED");
  answer.mutable_verdict()->add_groups_over_limit("asia");
  EXPECT_EQ(
      VerdictLine(answer),
      "OVER_LIMIT in groups eu (alarm at row 913, again since row 10241), asia (acknowledged), "
      "first alarm on 1970-01-01 01:00 UTC (row 913), MISCALIBRATED");
}

TEST(VerdictLineTest, SaysWhyNoRowIsCounted) {
  v1::GetCalibrationResponse answer;
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  answer.mutable_verdict()->set_status(v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_EQ(VerdictLine(answer), "UNDECIDED, INSUFFICIENT_DATA");
  answer.set_model("models/young");
  answer.set_dropped_rows(30);
  EXPECT_EQ(VerdictLine(answer),
            "UNDECIDED, INSUFFICIENT_DATA: no row is counted, because producers dropped 30 rows");
  EXPECT_EQ(NextLine(answer).text(),
            "the logs of the producers say why rows are dropped or rejected; then calibctl show "
            "young --verbose");
  answer.set_dropped_labels(1);
  EXPECT_THAT(VerdictLine(answer), EndsWith("because producers dropped 30 rows and 1 label"));
  answer.clear_dropped_labels();
  answer.set_rejected_rows(1);
  v1::LabelArrivals& arrivals = *answer.mutable_label_arrivals();
  arrivals.set_pending(300);
  arrivals.set_pending_labelled(200);
  arrivals.set_missing(7);
  arrivals.mutable_next_maturation_time()->set_seconds(86400);
  EXPECT_EQ(VerdictLine(answer),
            "UNDECIDED, INSUFFICIENT_DATA: no row is counted, because producers dropped 30 rows, 1 "
            "row was rejected, 7 rows got no label in time, 300 rows wait, 200 of them labelled; "
            "the first counts from 1970-01-02 00:00 UTC on");
  answer.set_observations(1);
  EXPECT_EQ(VerdictLine(answer), "UNDECIDED, INSUFFICIENT_DATA");
}

TEST(VerdictLineTest, NamesTheGroupsOverTheirLimits) {
  v1::GetCalibrationResponse answer = OverLimit();
  answer.mutable_verdict()->add_groups_over_limit("e\x1bu");
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 913), also in group e?u "
                         "(acknowledged), "));
  // Each of them has a row of its own.
  v1::Alarm& own = *answer.add_alarms();
  own = answer.alarms(0);
  own.set_observation(1300);
  answer.mutable_alarms(0)->set_group_value("e\x1bu");
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT, alarm on 1970-01-01 01:00 UTC (row 1300), also in group e?u "
                         "(alarm at row 913), "));
  answer.mutable_error()->set_is_acknowledged(true);
  answer.mutable_alarms()->RemoveLast();
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT (acknowledged), OVER_LIMIT in group e?u, alarm on 1970-01-01 "
                         "01:00 UTC (row 913), "));
  answer.mutable_verdict()->set_is_acknowledged(true);
  answer.clear_alarms();
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT (acknowledged), also in group e?u (acknowledged), "));
  answer.mutable_verdict()->add_groups_over_limit("us");
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT (acknowledged), also in groups e?u, us (all acknowledged), "));
  // Only a group is over the limit.
  answer = OverLimit();
  answer.mutable_error()->set_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_verdict()->add_groups_over_limit("");
  answer.mutable_alarms(0)->set_group_value("");
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("OVER_LIMIT in group (no value), alarm on 1970-01-01"));
  // The first row at which one of them exceeded its limit.
  v1::Alarm& alarm = *answer.add_alarms();
  alarm = answer.alarms(0);
  alarm.set_observation(1200);
  EXPECT_THAT(VerdictLine(answer), HasSubstr("(row 913)"));
  alarm.set_group_value("b");
  // Those that are acknowledged come last.
  for (const char* name : {"a", "b", "a-name-of-more-than-24-characters"}) {
    answer.mutable_verdict()->add_groups_over_limit(name);
  }
  EXPECT_THAT(
      VerdictLine(answer),
      HasSubstr("in groups (no value) (alarm at row 913), b (alarm at row 1200), a (acknowledged) "
                "and 1 other, first alarm on 1970-01-01 01:00 UTC (row 913), "));
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
            "classes 5, cat and 5 others");
  verdict.set_status(v1::Verdict::INSUFFICIENT_DATA);
  // Groups may have a smaller minimum.
  EXPECT_THAT(VerdictLine(answer),
              StartsWith("UNDECIDED, INSUFFICIENT_DATA; rejected for groups e?u, "));
}

TEST(LabelsTest, EachLineNamesTheLabels) {
  v1::GetCalibrationResponse answer = OverLimitLabels();
  EXPECT_THAT(VerdictLine(answer), StartsWith("OVER_LIMIT in label wind, alarm on 1970-01-01"));
  EXPECT_EQ(HowBad(answer),
            "label wind off by 8.1 points (6.1 to 16.1; limit 2 points), and 1 more label; on "
            "average over 3 labels off by 1.5 to 7.6 points (limit 2 points); 1 label is "
            "undecided");
  EXPECT_EQ(HowBadLine(answer).brief(),
            "label wind off by 8.1 points (6.1 to 16.1; limit 2 points), and 1 more label");
  EXPECT_EQ(WhereLine(answer), "label wind 8.1 points off (6.1 to 16.1); rejected for label fog");
  answer.mutable_labels()->mutable_labels(2)->set_recovered_since(12289);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("label wind 8.1 points off (6.1 to 16.1), recovered since row 12289;"));
  EXPECT_EQ(RepairLine(answer), "") << "recovered";
  answer.mutable_labels()->mutable_labels(2)->clear_recovered_since();
  EXPECT_EQ(RepairLine(answer),
            "label wind is the cause: look at its probabilities and truths first");
  answer.mutable_labels()->mutable_labels(2)->set_over_again_since(20481);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("label wind 8.1 points off (6.1 to 16.1), over again since row 20481;"));
  EXPECT_THAT(VerdictLine(answer), HasSubstr(" (row 913), again since row 20481, "));
  // No other label is shown to be better.
  answer.mutable_labels()->mutable_labels(0)->set_status(v1::CalibrationError::UNDECIDED);
  EXPECT_EQ(RepairLine(answer), "");
  // The alarm of a label says nothing about a change of all of them.
  EXPECT_EQ(ChangedLine(answer).text(), "");
  EXPECT_THAT(DataLine(answer, {}),
              HasSubstr("10000 labelled rows, 0 rejected, 10000 known truths"));
  answer.mutable_labels()->mutable_labels(2)->clear_error();
  answer.mutable_labels()->mutable_labels(2)->set_since_observation(10001);
  EXPECT_THAT(WhereLine(answer),
              StartsWith("label wind (not measured yet since the acknowledgement or update)"));
  v1::LabelCalibration& rain = *answer.mutable_labels()->mutable_labels(0);
  rain.set_status(v1::CalibrationError::OVER_LIMIT);
  rain.clear_error();
  EXPECT_THAT(WhereLine(answer), StartsWith("labels rain, wind (not measured yet since the "));
  answer.mutable_verdict()->add_labels_over_limit("rain");
  EXPECT_THAT(
      VerdictLine(answer),
      StartsWith("OVER_LIMIT in labels wind (alarm at row 913, again since row 20481), rain "
                 "(acknowledged), first alarm on 1970-01-01 01:00 UTC (row 913)"));
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
  const auto set = [](v1::ScoreDifference& score, const char* name, const char* unit,
                      double difference, double lower, double upper) {
    score.set_difference(difference);
    score.set_lower(lower);
    score.set_upper(upper);
    score.set_text(DifferenceText(name, unit, score));
  };
  v1::Comparison& comparison = *answer.mutable_comparison();
  set(*comparison.mutable_log_loss(), "log loss", "nats", -0.012, -0.02, -0.004);
  set(*comparison.mutable_brier(), "Brier score", "", 0.012, 0.004, 0.02);
  set(*comparison.mutable_binned_error(), "error", "points", -0.012, -0.02, 0.015);
  EXPECT_EQ(AgainstLine(answer),
            "3: log loss 0.012 nats lower (0.004 to 0.020), better; Brier score 0.012 higher "
            "(0.004 to 0.020), worse; error 1.2 points lower (-2.0 to +1.5), undecided");
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
            "e-value 10^229.1, highest 10^229.1; rejection needs an e-value of 20; the "
            "average error is real, but smaller than the limit");
  // The evidence is not about the average.
  answer.mutable_error()->mutable_since_start()->mutable_top_label()->set_lower(0);
  EXPECT_THAT(
      CertainLine(answer),
      EndsWith("; calibration is rejected, but the average error is smaller than the limit"));
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
  answer.set_dropped_labels(1);
  EXPECT_THAT(DataLine(answer, Now()),
              HasSubstr(", 3 dropped by producers, 1 label dropped by producers, 600 pending, "));
  answer.set_dropped_labels(2);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr(", 2 labels dropped by producers, "));
  coverage.mutable_labels()->set_waiting(1);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr(", 1 label waits for its prediction, "));
  coverage.mutable_labels()->set_waiting(20);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr(", 20 labels wait for their predictions, "));
  coverage.mutable_labels()->set_unknown(2);
  EXPECT_THAT(DataLine(answer, Now()), HasSubstr("0 duplicates, 2 labels without a prediction; "));
  answer = OverLimit();
  answer.mutable_verdict()->set_stale(true);
  EXPECT_THAT(
      DataLine(answer, Now()),
      EndsWith("; the newest row came 2h ago: STALE, because this is longer than stale_after; "
               "all this may be outdated"));
  answer = OverLimit();
  answer.mutable_error()->mutable_since_acknowledgement()->set_first_observation(10001);
  EXPECT_THAT(DataLine(answer, Now()), EndsWith("; the error is measured from row 10001 on"));
  answer.mutable_error()->clear_since_acknowledgement();
  answer.mutable_error()->mutable_since_start()->set_first_observation(501);
  EXPECT_THAT(DataLine(answer, Now()), EndsWith("; the error is measured from row 501 on"));
}

TEST(NextLineTest, SaysUntilWhenRowsWait) {
  v1::GetCalibrationResponse answer;
  answer.set_model("models/young");
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::UNDECIDED);
  v1::LabelArrivals& arrivals = *answer.mutable_label_arrivals();
  arrivals.set_pending(1);
  arrivals.mutable_next_maturation_time()->set_seconds(86400);
  EXPECT_EQ(
      NextLine(answer).text(),
      "1 row waits for its label, which must come by 1970-01-02 00:00 UTC; then calibctl show "
      "young --verbose");
  arrivals.set_pending_labelled(1);
  EXPECT_EQ(NextLine(answer).text(),
            "1 row waits, is labelled, and counts from 1970-01-02 00:00 UTC on; then calibctl show "
            "young --verbose");
  arrivals.set_pending(300);
  arrivals.set_pending_labelled(200);
  EXPECT_EQ(
      NextLine(answer).text(),
      "300 rows wait, 200 of them labelled; the first counts from 1970-01-02 00:00 UTC on; then "
      "calibctl show young --verbose");
  // No one waits for an answer.
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_verdict()->set_status(v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(NextLine(answer).text(), "calibctl show young --verbose");
}

TEST(AcknowledgedTextTest, SaysWhatBeginsAnew) {
  v1::Alarm alarm;
  EXPECT_EQ(AcknowledgedText(alarm, 0), "it had been acknowledged before, so nothing changes");
  alarm.set_observation(5000);
  alarm.set_kind(v1::Alarm::DRIFT);
  EXPECT_EQ(AcknowledgedText(alarm, 1),
            "the drift detectors begin anew, and the evidence continues");
  alarm.set_kind(v1::Alarm::EVIDENCE);
  EXPECT_EQ(AcknowledgedText(alarm, 6001), "the evidence begins anew with row 6001");
  alarm.set_kind(v1::Alarm::OVER_LIMIT);
  EXPECT_EQ(AcknowledgedText(alarm, 6001),
            "the error is measured anew from row 6001 on, and the evidence continues");
  EXPECT_EQ(AcknowledgedText(alarm, 1),
            "the error was not over the limit any more, so it is measured on as before");
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
  EXPECT_THAT(NextLine(answer).text(), HasSubstr("--verbose; when it is repaired: calibctl ackn"));
  EXPECT_THAT(NextLine(answer).commands(1), HasSubstr("acknowledge resnet18@2 1 "));
  evidence.mutable_acknowledge_time();
  EXPECT_THAT(NextLine(answer).commands(1), HasSubstr("acknowledge resnet18@2 2 "));
  drift.mutable_acknowledge_time();
  EXPECT_THAT(NextLine(answer).commands(),
              ::testing::ElementsAre("calibctl show resnet18@2 --verbose"));
}

}  // namespace
}  // namespace calibd::convert
