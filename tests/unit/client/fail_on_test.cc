#include "client/cli/commands/fail_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

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
  EXPECT_THAT(
      FailuresOf(Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::NOT_REJECTED), {}, kAll),
      IsEmpty());
  v1::Verdict over = Of(v1::CalibrationError::OVER_LIMIT, v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(FailuresOf(over, {}, kAll), ElementsAre("over-limit", "miscalibration"));
  EXPECT_THAT(FailuresOf(over, {}, {"drift", "undecided"}), IsEmpty());
  over.set_is_acknowledged(true);
  EXPECT_THAT(FailuresOf(over, {}, {"over-limit"}), ElementsAre("over-limit"));
  EXPECT_THAT(FailuresOf(Of(v1::CalibrationError::UNDECIDED, v1::Verdict::DRIFTED), {}, kAll),
              ElementsAre("drift", "undecided"));
  EXPECT_THAT(
      FailuresOf(Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::INSUFFICIENT_DATA), {}, kAll),
      ElementsAre("undecided"));
  // A server of an earlier version gives no answer about a limit.
  EXPECT_THAT(
      FailuresOf(Of(v1::CalibrationError::UNSPECIFIED, v1::Verdict::NOT_REJECTED), {}, kAll),
      ElementsAre("undecided"));
}

TEST(VerdictGateTest, FailsOnActiveAlarmsThatTheStatusHides) {
  google::protobuf::RepeatedPtrField<v1::Alarm> alarms;
  v1::Alarm& drift = *alarms.Add();
  drift.set_kind(v1::Alarm::DRIFT);
  const v1::Verdict verdict = Of(v1::CalibrationError::WITHIN_LIMIT, v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(FailuresOf(verdict, alarms, {"drift"}), ElementsAre("drift"));
  drift.mutable_acknowledge_time()->set_seconds(1);
  EXPECT_THAT(FailuresOf(verdict, alarms, {"drift"}), IsEmpty());
}

TEST(ResultGateTest, ComparesTheBootstrapWithTheLevel) {
  v1::QuadraticTestResult result;
  result.set_p_value(0.05);
  EXPECT_EQ(DecideByPValue(result, 0.05).exit_code(), ExitCode::kFailOn);
  EXPECT_THAT(DecideByPValue(result, 0.05).sentence, HasSubstr("REJECTED: p = 0.05, at most"));
  result.set_p_value(0.051);
  EXPECT_EQ(DecideByPValue(result, 0.05).exit_code(), ExitCode::kOk);
  EXPECT_EQ(DecideByPValue(result, 0.05).gate.decision(), "NOT_REJECTED");
}

v1::ErrorInterval Interval(double lower, double upper) {
  v1::ErrorInterval interval;
  interval.set_lower(lower);
  interval.set_upper(upper);
  return interval;
}

TEST(ResultGateTest, ComparesTheIntervalWithTheLimit) {
  v1::Evaluation evaluation;
  *evaluation.mutable_error() = Interval(0.042, 0.068);
  const Decision over = DecideByLimit(evaluation, 0.02);
  EXPECT_EQ(over.exit_code(), ExitCode::kFailOn);
  EXPECT_EQ(over.sentence, "failed on over-limit\n");
  EXPECT_THAT(over.gate.fail_on(), ElementsAre("over-limit"));
  EXPECT_EQ(over.gate.error_limit(), 0.02);
  EXPECT_EQ(over.gate.decision(), "OVER_LIMIT");
  // The limit itself is acceptable.
  for (const auto& [limit, decision] :
       {std::pair(0.042, "UNDECIDED"), std::pair(0.067, "UNDECIDED"),
        std::pair(0.068, "WITHIN_LIMIT")}) {
    EXPECT_EQ(DecideByLimit(evaluation, limit).exit_code(), ExitCode::kOk);
    EXPECT_EQ(DecideByLimit(evaluation, limit).sentence, "");
    EXPECT_EQ(DecideByLimit(evaluation, limit).gate.decision(), decision);
  }
}

TEST(ResultGateTest, RefusesALevelThatTheReplicatesCannotReach) {
  const ResultGate strict{.what = "p-value", .significance_level = 0.001};
  EXPECT_TRUE(FindUsageFault(strict, 99).has_value());
  EXPECT_FALSE(FindUsageFault(strict, 999).has_value());
  EXPECT_THAT(*FindUsageFault(strict, 0), HasSubstr("--replicates must not be 0"));
  EXPECT_FALSE(FindUsageFault(ResultGate{}, 0).has_value());
  EXPECT_FALSE(FindUsageFault(ResultGate{.what = "over-limit"}, 0).has_value());
}

}  // namespace
}  // namespace calibd::cli
