#include "client/cli/reports/verdict_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/show_report.h"

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
  verdict.set_summary("The server's words.");
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

void Since(v1::GetCalibrationResponse& response) {
  response.mutable_verdict()->mutable_since()->set_seconds(86400);
  response.mutable_verdict()->set_since_observation(310);
}

TEST(VerdictReportTest, DescribesAMiscalibratedModelCompletely) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  Since(response);
  EXPECT_EQ(
      DescribeVerdict(response),
      "The server's words.\n"
      "Evidence: the e-value reached 340 (log10 +2.53) at observation 900. The probability that a "
      "calibrated model ever reaches this is at most 0.00294, however often one looks. The "
      "e-value is now 120; the alarm is raised at 20.\n"
      "Most of it comes from: witness, tilt.\n"
      "Effect size, with the random features of the kernel: SKCE +1.50e-03; the true value is "
      "in "
      "1.00e-03..2.00e-03 with 95 % "
      "confidence, however often one looks; a calibrated model with the same predictions stays "
      "below +1.00e-04 19 times in 20.\n"
      "Direction: over-confident by 4.1 points: the mean confidence is 0.871 and the accuracy "
      "0.830. For a calibrated model the gap would have a standard deviation of 0.3 points.\n"
      "Largest deviations: confidence 0.80..0.90 (confidence 0.850, accuracy 0.710, n = 2310, z "
      "= -7.2); "
      "class 3 (cat) (predicted 0.120, observed 0.080, z = -5.1). They show where to look and "
      "are "
      "not a test.\n"
      "Drift: log10 of the detector is now 1.20, its maximum so far is 2.50, and the alarm is "
      "raised "
      "at 6.00.\n"
      "Z test: z = 4.5, p = 3.4e-06 (one look at a chosen n: watching it until it is small is not "
      "a test).\n");
}

TEST(VerdictReportTest, TheSummaryIsPrintedWithoutControlCharacters) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::NOT_REJECTED);
  response.mutable_verdict()->set_summary("red \x1b[31m");
  EXPECT_THAT(DescribeVerdict(response), StartsWith("red ?[31m\n"));
}

TEST(VerdictReportTest, NamesTheFamiliesOnlyWithEvidence) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(DescribeVerdict(response), HasSubstr("Most of it comes from: witness, tilt."));
  response.mutable_watch()->mutable_evidence()->set_log10_e_value(-0.1);
  EXPECT_THAT(DescribeVerdict(response), Not(HasSubstr("Most of it comes from")));
}

TEST(VerdictReportTest, NeverSaysThatAModelIsCalibrated) {
  for (int status = v1::Verdict::Status_MIN; status <= v1::Verdict::Status_MAX; ++status) {
    const auto response = Response(static_cast<v1::Verdict::Status>(status));
    for (const std::string& text :
         {DescribeVerdict(response), DescribeShow(response, {}), ChangeLine(response)}) {
      EXPECT_THAT(text, AllOf(Not(HasSubstr("is calibrated")), Not(HasSubstr("proven")),
                              Not(HasSubstr("well calibrated")), Not(HasSubstr(" CALIBRATED"))))
          << text;
    }
  }
}

TEST(VerdictReportTest, SaysLittleWithLittleData) {
  v1::GetCalibrationResponse response;
  response.set_model("models/young");
  EXPECT_EQ(DescribeVerdict(response), "models/young: no verdict, because it is not monitored\n");
  response.mutable_verdict()->set_status(v1::Verdict::INSUFFICIENT_DATA);
  response.mutable_verdict()->set_summary("Nothing can be said.");
  response.mutable_watch()->set_unavailable_reason("the bandwidth is chosen later");
  EXPECT_EQ(DescribeVerdict(response), "Nothing can be said.\n");
  response.mutable_watch()->mutable_evidence()->set_log10_e_value(-0.5);
  response.mutable_watch()->mutable_evidence()->set_threshold(std::log10(20));
  EXPECT_THAT(DescribeVerdict(response),
              HasSubstr("Evidence: so far none against calibration. The e-value is 0.316 (log10 "
                        "-0.50); the alarm is raised at 20.\n"));
  response = Response(v1::Verdict::NOT_REJECTED);
  response.mutable_watch()->set_first_observation(501);
  EXPECT_THAT(DescribeVerdict(response),
              HasSubstr("covers the observations since number 501, when the watch restarted.\n"));
}

TEST(VerdictReportTest, NamesTheClassesThatAreRejected) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(DescribeVerdict(response), Not(HasSubstr("e-BH")));
  v1::Whereabouts& whereabouts = *response.mutable_verdict()->mutable_whereabouts();
  whereabouts.mutable_classes(0)->set_rejected(true);
  whereabouts.mutable_classes(0)->set_log10_e_value(std::log10(340));
  whereabouts.add_classes()->set_class_index(4);
  auto& other = *whereabouts.add_classes();
  other.set_class_index(7);
  other.set_rejected(true);
  other.set_log10_e_value(12.3);
  whereabouts.set_rejected_classes(5);
  EXPECT_THAT(
      DescribeVerdict(response),
      HasSubstr("\nClasses that e-BH rejects, however often one looks (the expected share of "
                "false rejections is at most 5 %): class 3 (cat) (e-value "
                "340), class 7 (e-value 10^12.3), 3 more.\n"));
}

TEST(VerdictReportTest, DirectionHasASign) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::NOT_REJECTED);
  response.mutable_verdict()->mutable_direction()->set_gap(-0.02);
  EXPECT_THAT(DescribeVerdict(response), HasSubstr("\nDirection: under-confident by 2.0 points: "));
  response.mutable_verdict()->mutable_direction()->set_gap(0.0001);
  EXPECT_THAT(DescribeVerdict(response),
              HasSubstr("\nDirection: neither over- nor under-confident"));
}

TEST(VerdictReportTest, LargeEvidenceIsAPowerOfTen) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  response.mutable_watch()->mutable_evidence()->set_max_log10_e_value(412.34);
  response.mutable_watch()->mutable_evidence()->set_anytime_p_value(0);
  EXPECT_THAT(DescribeVerdict(response), AllOf(HasSubstr("reached 10^412.3 (log10 +412.34)"),
                                               HasSubstr("is at most 10^-412.3, however")));
  EXPECT_EQ(PowerOfTen(3), "1000");
  EXPECT_EQ(PowerOfTen(std::log10(0.0123)), "0.0123");
  EXPECT_EQ(PowerOfTen(6), "10^6");
}

TEST(VerdictReportTest, TellsAlarmsGroupsAndWarnings) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  v1::Alarm& active = *response.add_alarms();
  active.set_id(2);
  active.set_kind(v1::Alarm::EVIDENCE);
  active.mutable_raise_time()->set_seconds(86400);
  active.set_observation(310);
  active.set_log10_value(1.5);
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
    group.mutable_direction()->set_gap(0.0625);
  }
  response.set_tested_groups(1);
  response.add_warnings("half of the predictions are duplicates");
  const std::string text = DescribeVerdict(response);
  EXPECT_THAT(text, HasSubstr("\nWARNING: half of the predictions are duplicates\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "m: 1 alarm active\n"
          "alarm      kind  group                raised  row         found          "
          "acknowledged\n"
          "2      evidence      -  1970-01-02 00:00 UTC  310    crossed 20                    "
          "no\n"
          "1         drift     eu  1970-01-02 00:00 UTC  310  crossed 10^6  1970-01-02 00:00 "
          "UTC\n"
          "alarm 1: re?[31mcalibrated\n"));
  EXPECT_THAT(text, HasSubstr("e-BH over the 1 tested groups of 2 rejects 1 (*), however often "
                              "one looks: the expected share of calibrated groups among them is at "
                              "most 1 %.\n"));
  EXPECT_THAT(text,
              HasSubstr("log10 e-value  largest so far  SKCE  confidence - accuracy (points)"));
  EXPECT_THAT(text, ContainsRegex("\neu  *500  *\\+1.25  *\\+2.50  *-  *\\+6.2  *-  *\\*\n"));
  EXPECT_THAT(text, ContainsRegex("\n\\(other groups\\)  500 .*  not tested: 500 of 600 "
                                  "observations\n"));
  EXPECT_THAT(text, Not(HasSubstr(" more\n")));
  for (int i = 2; i < 31; ++i) *response.add_groups() = response.groups(1);
  EXPECT_THAT(DescribeVerdict(response), EndsWith("observations\n... 11 more\n"));
  EXPECT_EQ(DescribeAcknowledged("models/m", old),
            "m: alarm 1 (drift) was acknowledged at 1970-01-02 00:00 UTC; the drift "
            "detectors restarted, the evidence continues\n");
  old.set_kind(v1::Alarm::EVIDENCE);
  EXPECT_THAT(DescribeAcknowledged("models/m", old),
              HasSubstr("the evidence restarted with the observations after it"));
  EXPECT_EQ(DescribeAlarms("models/m", {}), "m: no alarms\n");
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
  const std::string text = DescribeVerdict(response);
  EXPECT_THAT(text, ContainsRegex("\nnorth  118 .* 6.88  *\\+17.1 "));
  // This group has no central interval.
  EXPECT_THAT(text, ContainsRegex("\nsouth  118 .* 6.88  *- "));
}

TEST(VerdictReportTest, ListsModelsWithWhatEBHRejects) {
  v1::ListVerdictsResponse response;
  EXPECT_EQ(DescribeVerdicts(response, 0.05), "no models\n");
  for (const char* name : {"models/a", "models/b", "models/c"}) {
    auto& model = *response.add_models();
    model.set_model(name);
    model.set_observations(7);
  }
  const v1::GetCalibrationResponse known = Response(v1::Verdict::MISCALIBRATED);
  *response.mutable_models(0)->mutable_verdict() = known.verdict();
  response.mutable_models(0)->mutable_verdict()->set_stale(true);
  *response.mutable_models(0)->mutable_watch() = known.watch();
  response.mutable_models(0)->set_rejected_among_all(true);
  response.mutable_models(1)->mutable_verdict()->set_status(v1::Verdict::STALE);
  response.mutable_models(1)->mutable_verdict()->set_stale(true);
  response.set_tested_models(1);
  response.set_rejected_models(1);
  v1::CalibrationError& error = *response.mutable_models(0)->mutable_error();
  error.set_limit(0.02);
  v1::ErrorInterval& interval = *error.mutable_since_start()->mutable_top_label();
  interval.set_estimate(0.054);
  interval.set_lower(0.042);
  interval.set_upper(0.068);
  EXPECT_EQ(DescribeVerdicts(response, 0.1),
            "model               verdict  rows                                    error  "
            "e-value  newest row  e-BH\n"
            "a      MISCALIBRATED, STALE     7  off by 5.4 points (4.2 to 6.8; limit 2)      "
            "120           -     *\n"
            "b                     STALE     7                                        -        "
            "-           -\n"
            "c             not monitored     7                                        -        "
            "-           -\n"
            "e-BH over the 1 models with evidence rejects 1 (*): the expected share of "
            "calibrated models among them is at most 10 %.\n");
}

TEST(VerdictReportTest, AChangeTakesOneLine) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::MISCALIBRATED);
  response.add_alarms()->set_id(1);
  EXPECT_EQ(ChangeLine(response),
            "m MISCALIBRATED, 12480 rows, e-value 120 (rejected at 20), 1 alarm active");
  response.clear_verdict();
  EXPECT_EQ(ChangeLine(response), "m not monitored, 12480 rows");
}

TEST(VerdictReportTest, TheEvidenceHasTheModelsObservationNumbers) {
  v1::GetCalibrationResponse response = Response(v1::Verdict::NOT_REJECTED);
  response.mutable_watch()->set_first_observation(601);
  EXPECT_THAT(DescribeVerdict(response), HasSubstr(" at observation 1500. "));
}

TEST(VerdictReportTest, AScreenHasRoomForItsStatus) {
  EXPECT_EQ(FitScreen("a\nb\n", "now", 10, 4), "a\nb\n\nnow");
  EXPECT_EQ(FitScreen("a\nb\nc\n", "now", 10, 4), "a\nb\n... 1 more\nnow");
  EXPECT_EQ(FitScreen("a\nb\nc\n", "today", 3, 2), "...\ntod");
  EXPECT_EQ(FitScreen("", "now", 10, 1), "\nnow");
}

TEST(VerdictReportTest, LinesAreTruncatedBetweenCharacters) {
  EXPECT_EQ(CutLines("abc\nabcdef\n", 4), "abc\nabcd\n");
  EXPECT_EQ(CutLines("\xc3\xa4\xc3\xb6\xc3\xbc", 2), "\xc3\xa4\xc3\xb6");
  EXPECT_EQ(CutLines("abc", 0), "");
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
    const std::string text = DescribeVerdict(response) + DescribeCalibration(response);
    EXPECT_EQ(times(text, "the median is zero"), 1) << text;
    EXPECT_EQ(times(text, "WARNING: labels are missing\n"), 1) << text;
    EXPECT_THAT(text, Not(HasSubstr("0 more needed")));
  };
  expect_once();
  response.add_warnings("labels are missing");
  response.mutable_watch()->set_unavailable_reason(response.bandwidth_error());
  response.mutable_verdict()->set_summary("Nothing can be said: the median is zero.");
  for (const auto status : {v1::Verdict::INSUFFICIENT_DATA, v1::Verdict::STALE}) {
    response.mutable_verdict()->set_status(status);
    expect_once();
  }
  response.clear_bandwidth_error();
  response.mutable_insufficient_data()->set_needed(40);
  EXPECT_THAT(DescribeCalibration(response),
              HasSubstr("Not enough data: 60 observations, 40 more needed"));
}

TEST(VerdictReportTest, TheEstimatesFollowTheVerdict) {
  const v1::GetCalibrationResponse response = Response(v1::Verdict::NOT_REJECTED);
  EXPECT_THAT(DescribeVerdict(response), StartsWith("The server's words.\n"));
  EXPECT_THAT(DescribeCalibration(response),
              StartsWith("12480 observations accepted, 0 rows rejected, 0 dropped\n"));
}

}  // namespace
}  // namespace calibd::cli
