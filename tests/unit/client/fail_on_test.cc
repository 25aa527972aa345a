#include "client/cli/commands/fail_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const VerdictGate kAll = {"over-limit", "miscalibration", "drift", "undecided"};

v1::Verdict Of(v1::CalibrationError::Status limit, v1::Verdict::Status status) {
  v1::Verdict verdict;
  verdict.set_limit_status(limit);
  verdict.set_status(status);
  return verdict;
}

TEST(VerdictGateTest, FailsOnWhatTheVerdictSays) {
  EXPECT_THAT(FailuresOf(Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED), {}, {},
                         {}, kAll),
              IsEmpty());
  v1::Verdict over = Of(v1::CalibrationError::OVER_LIMIT, v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(FailuresOf(over, {}, {}, {}, kAll), ElementsAre("over-limit", "miscalibration"));
  EXPECT_THAT(FailuresOf(over, {}, {}, {}, {"drift", "undecided"}), IsEmpty());
  over.set_is_acknowledged(true);
  EXPECT_THAT(FailuresOf(over, {}, {}, {}, {"over-limit"}), ElementsAre("over-limit"));
  v1::Watch watch;
  watch.mutable_evidence();
  EXPECT_THAT(
      FailuresOf(Of(v1::CalibrationError::UNDECIDED, v1::Verdict::DRIFTED), {}, watch, {}, kAll),
      ElementsAre("drift", "undecided"));
  EXPECT_THAT(FailuresOf(Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::INSUFFICIENT_DATA), {},
                         {}, {}, kAll),
              ElementsAre("undecided", "insufficient-data"));
  // A server of an earlier version gives no answer about a limit.
  EXPECT_THAT(FailuresOf(Of(v1::CalibrationError::UNSPECIFIED, v1::Verdict::NOT_REJECTED), {}, {},
                         {}, kAll),
              ElementsAre("undecided"));
}

TEST(VerdictGateTest, FailsWithoutDataWhateverItAsks) {
  v1::Watch watch;
  watch.set_min_observations(100);
  const v1::Verdict empty = Of(v1::CalibrationError::UNDECIDED, v1::Verdict::INSUFFICIENT_DATA);
  for (const char* const what : {"over-limit", "miscalibration", "drift"}) {
    EXPECT_THAT(FailuresOf(empty, {}, watch, {}, {what}), ElementsAre("insufficient-data"));
  }
  EXPECT_THAT(FailuresOf(empty, {}, watch, {}, {}), IsEmpty());
  // The limit was answered by rows before the evidence restarted.
  const v1::Verdict within = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_THAT(FailuresOf(within, {}, watch, {}, {"over-limit"}), IsEmpty());
  const v1::Verdict stale = Of(v1::CalibrationError::UNDECIDED, v1::Verdict::STALE);
  EXPECT_THAT(FailuresOf(stale, {}, watch, {}, {"drift"}), ElementsAre("insufficient-data"));
  watch.mutable_evidence();
  watch.set_observations(99);
  EXPECT_THAT(FailuresOf(stale, {}, watch, {}, {"drift"}), ElementsAre("insufficient-data"));
  // An alarm of drift stays active when that of the evidence is acknowledged, and answers only for
  // the drift.
  const v1::Verdict drifted = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::DRIFTED);
  EXPECT_THAT(FailuresOf(drifted, {}, watch, {}, {"miscalibration"}),
              ElementsAre("insufficient-data"));
  EXPECT_THAT(FailuresOf(drifted, {}, watch, {}, {"drift"}), ElementsAre("drift"));
  watch.set_observations(100);
  EXPECT_THAT(FailuresOf(stale, {}, watch, {}, {"drift"}), IsEmpty());
  EXPECT_THAT(FailuresOf(drifted, {}, watch, {}, {"miscalibration"}), IsEmpty());
}

TEST(VerdictGateTest, FailsOnAModelWithoutNewRows) {
  v1::Verdict verdict = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"stale"}), IsEmpty());
  verdict.set_stale(true);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"over-limit"}), IsEmpty());
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"over-limit", "stale"}), ElementsAre("stale"));
  // It asks for no number of rows.
  const v1::Verdict empty = Of(v1::CalibrationError::UNDECIDED, v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_THAT(FailuresOf(empty, {}, {}, {}, {"stale"}), IsEmpty());
}

// The acknowledgement of the evidence leaves the rows that answer about the limit.
TEST(VerdictGateTest, EachQuestionHasItsRows) {
  const v1::Verdict verdict = Of(v1::CalibrationError::UNDECIDED, v1::Verdict::INSUFFICIENT_DATA);
  v1::Watch watch;
  watch.mutable_evidence();
  watch.set_min_observations(100);
  watch.set_observations(20);
  v1::CalibrationError error;
  error.mutable_since_start()->set_observations(3000);
  EXPECT_THAT(FailuresOf(verdict, error, watch, {}, {"over-limit"}), IsEmpty());
  EXPECT_THAT(FailuresOf(verdict, error, watch, {}, {"over-limit", "miscalibration"}),
              ElementsAre("insufficient-data"));
  // After the acknowledgement of an error that has recovered, too, whatever else is acknowledged.
  error.mutable_since_acknowledgement()->set_observations(0);
  EXPECT_THAT(FailuresOf(verdict, error, watch, {}, {"over-limit"}), IsEmpty());
  error.mutable_since_start()->set_observations(99);
  EXPECT_THAT(FailuresOf(verdict, error, watch, {}, {"over-limit"}),
              ElementsAre("insufficient-data"));
}

TEST(VerdictGateTest, SaysHowManyMoreRowsItNeeds) {
  v1::Watch watch;
  watch.mutable_evidence();
  watch.set_min_observations(100);
  watch.set_observations(99);
  watch.set_observations_needed(1);
  v1::CalibrationError error;
  error.mutable_since_start()->set_observations(99);
  error.mutable_since_start()->mutable_top_label();
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, error, watch, 99),
            "m has 99 labelled rows: the gate needs 1 more\n");
  error.mutable_since_start()->set_observations(500);
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, error, watch, 500),
            "m has 500 labelled rows, 99 since the evidence began anew: the gate needs 1 more\n");
  // The evidence begins after a warm-up that is longer than min_observations.
  watch.clear_evidence();
  watch.set_unavailable_reason("it begins after 500 rows");
  watch.set_observations_needed(450);
  error.mutable_since_start()->set_observations(50);
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, error, watch, 50),
            "m has 50 labelled rows: the gate needs 450 more\n");
  EXPECT_EQ(DescribeInsufficientData("m", {"over-limit"}, {}, error, watch, 50),
            "m has 50 labelled rows: the gate needs 50 more\n");
  error.mutable_since_start()->set_observations(1000);
  watch.clear_observations_needed();
  watch.set_unavailable_reason("all predictions are equal");
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, error, watch, 1000),
            "m has 1000 labelled rows, and no evidence: all predictions are equal\n");
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, {}, {}, 0),
            "m has 0 labelled rows, too few for a verdict\n");
  // Rows of several labels may have no truth.
  v1::CalibrationError unknown;
  unknown.mutable_since_start()->set_observations(1500);
  EXPECT_EQ(DescribeInsufficientData("m", kAll, {}, unknown, {}, 1500),
            "m has 1500 rows, of which no truth is known\n");
}

TEST(VerdictGateTest, AChangeNeedsACompleteReference) {
  v1::Verdict verdict = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED);
  const VerdictGate gate{"changed"};
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, gate), ElementsAre("insufficient-data"));
  EXPECT_EQ(DescribeInsufficientData("m", gate, verdict, {}, {}, 5000),
            "m has 5000 labelled rows, and no reference: `calibctl model update --reference-rows` "
            "begins one\n");
  verdict.set_reference_status(v1::ReferenceChange::COLLECTING);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, gate), ElementsAre("insufficient-data"));
  EXPECT_EQ(DescribeInsufficientData("m", gate, verdict, {}, {}, 700),
            "m has 700 labelled rows, and its reference is not complete\n");
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"over-limit"}), IsEmpty());
  verdict.set_reference_status(v1::ReferenceChange::NOT_CHANGED);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, gate), IsEmpty());
  // Few rows since an acknowledgement of the evidence do not matter.
  verdict.set_status(v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, gate), IsEmpty());
  verdict.set_reference_status(v1::ReferenceChange::CHANGED);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"changed", "over-limit"}), ElementsAre("changed"));
  // An update has begun a new reference, and the alarm of the former one is active.
  verdict.set_reference_status(v1::ReferenceChange::NOT_CHANGED);
  google::protobuf::RepeatedPtrField<v1::Alarm> alarms;
  alarms.Add()->set_kind(v1::Alarm::CHANGED);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, alarms, gate), ElementsAre("changed"));
  EXPECT_THAT(FailuresOf(verdict, {}, {}, {}, {"over-limit", "drift"}),
              ElementsAre("insufficient-data"));
}

TEST(VerdictGateTest, FailsOnActiveAlarmsThatTheStatusHides) {
  google::protobuf::RepeatedPtrField<v1::Alarm> alarms;
  v1::Alarm& drift = *alarms.Add();
  drift.set_kind(v1::Alarm::DRIFT);
  const v1::Verdict verdict = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, alarms, {"drift"}), ElementsAre("drift"));
  drift.mutable_acknowledge_time()->set_seconds(1);
  EXPECT_THAT(FailuresOf(verdict, {}, {}, alarms, {"drift"}), IsEmpty());
}

TEST(PValueGateTest, ComparesTheBootstrapWithTheLevel) {
  v1::QuadraticTestResult result;
  result.set_p_value(0.05);
  EXPECT_EQ(DecideByPValue(result, 0.05).exit_code(), ExitCode::kFailOn);
  EXPECT_THAT(DecideByPValue(result, 0.05).sentence, HasSubstr("REJECTED: p = 0.05, at most"));
  result.set_p_value(0.051);
  EXPECT_EQ(DecideByPValue(result, 0.05).exit_code(), ExitCode::kOk);
  EXPECT_EQ(DecideByPValue(result, 0.05).gate.decision(), "NOT_REJECTED");
}

using LimitStatus = v1::CalibrationError;

EvaluationGate GateOn(const std::vector<std::string>& what) { return {.what = what}; }

TEST(EvaluationGateTest, FailsOnWhatThePrintedVerdictSays) {
  const convert::EvaluationVerdict bad{
      .limit = LimitStatus::OVER_LIMIT, .is_rejected = true, .groups = ""};
  const Decision both = *DecideByVerdict(bad, GateOn({"over-limit", "miscalibration"}), 0.02);
  EXPECT_EQ(both.exit_code(), ExitCode::kFailOn);
  EXPECT_EQ(both.sentence, "failed on over-limit, miscalibration\n");
  EXPECT_THAT(both.gate.fail_on(), ElementsAre("over-limit", "miscalibration"));
  EXPECT_THAT(both.gate.failed_on(), ElementsAre("over-limit", "miscalibration"));
  EXPECT_EQ(both.gate.decision(), "OVER_LIMIT, MISCALIBRATED");
  EXPECT_EQ(both.gate.error_limit(), 0.02);
  EXPECT_FALSE(DecideByVerdict(bad, GateOn({}), 0.02).has_value());

  const convert::EvaluationVerdict rejected{
      .limit = LimitStatus::UNDECIDED, .is_rejected = true, .groups = ""};
  const Decision passed = *DecideByVerdict(rejected, GateOn({"over-limit"}), 0.02);
  EXPECT_EQ(passed.exit_code(), ExitCode::kOk);
  EXPECT_EQ(passed.sentence, "did not fail on over-limit: UNDECIDED, MISCALIBRATED\n");
  EXPECT_EQ(DecideByVerdict(rejected, GateOn({"undecided"}), 0.02)->exit_code(), ExitCode::kFailOn);
  EXPECT_EQ(DecideByVerdict(rejected, GateOn({"miscalibration"}), 0.02)->exit_code(),
            ExitCode::kFailOn);

  const convert::EvaluationVerdict good{
      .limit = LimitStatus::WITHIN_LIMIT, .is_rejected = {}, .groups = ""};
  const Decision fine =
      *DecideByVerdict(good, GateOn({"over-limit", "miscalibration", "undecided"}), 0.02);
  EXPECT_EQ(fine.exit_code(), ExitCode::kOk);
  EXPECT_THAT(fine.gate.failed_on(), IsEmpty());
  EXPECT_EQ(fine.gate.decision(), "WITHIN_LIMIT");
}

TEST(EvaluationGateTest, RefusesALevelThatTheReplicatesCannotReach) {
  const EvaluationGate gate = GateOn({"miscalibration"});
  EXPECT_TRUE(FindUsageFault(gate, 99, 0.001).has_value());
  EXPECT_FALSE(FindUsageFault(gate, 999, 0.001).has_value());
  EXPECT_THAT(*FindUsageFault(gate, 0, 0.01), HasSubstr("--replicates must not be 0"));
  EXPECT_FALSE(FindUsageFault(GateOn({"over-limit"}), 0, 0.01).has_value());
}

TEST(PValueGateTest, RefusesALevelThatTheReplicatesCannotReach) {
  const PValueGate strict{.what = "p-value", .significance_level = 0.001};
  EXPECT_TRUE(FindUsageFault(strict, 99).has_value());
  EXPECT_FALSE(FindUsageFault(strict, 999).has_value());
  EXPECT_FALSE(FindUsageFault(PValueGate{}, 0).has_value());
}

}  // namespace
}  // namespace calibd::cli
