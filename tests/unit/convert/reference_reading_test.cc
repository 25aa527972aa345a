// What the lines of a reading say of a model with a reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibd/convert/reading.h"
#include "unit/convert/reading_answers.h"

namespace calibd::convert {
namespace {

using answers::OverLimit;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A model within its limit whose error has changed.
v1::GetCalibrationResponse ChangedAnswer() {
  v1::GetCalibrationResponse answer;
  answer.set_model("models/demo");
  answer.set_observations(6000);
  answer.mutable_verdict()->set_limit_status(v1::CalibrationError::WITHIN_LIMIT);
  answer.mutable_verdict()->set_status(v1::Verdict::NOT_REJECTED);
  answer.mutable_verdict()->set_reference_status(v1::ReferenceChange::CHANGED);
  v1::ReferenceChange& change = *answer.mutable_reference_change();
  change.set_status(v1::ReferenceChange::CHANGED);
  change.set_first_observation(1);
  change.set_reference_observations(3000);
  change.set_later_observations(2884);
  v1::ReferenceChange::Finding& finding = *change.mutable_finding();
  finding.set_more_errors(true);
  finding.set_since_observation(5012);
  finding.set_observations(873);
  finding.set_wrong(107);
  finding.set_expected_wrong(61.23);
  v1::Alarm& alarm = *answer.add_alarms();
  alarm.set_id(4);
  alarm.set_kind(v1::Alarm::CHANGED);
  alarm.set_observation(5884);
  alarm.mutable_raise_time()->set_seconds(86400);
  *alarm.mutable_finding() = finding;
  return answer;
}

TEST(ReferenceReadingTest, AChangeIsNamedWithItsRowsAndDirection) {
  v1::GetCalibrationResponse answer = ChangedAnswer();
  v1::Reading::Changed line = ChangedLine(answer);
  EXPECT_EQ(
      line.text(),
      "since the reference (rows 1 to 3000): yes, more errors since about row 5012: 107 of 873 "
      "predictions were wrong, 61 are expected by the reference, alarm on 1970-01-02 00:00 UTC "
      "(row 5884); this does not say whether the error is too large");
  EXPECT_EQ(line.answer(), v1::Reading::Changed::CHANGED);
  EXPECT_EQ(line.observation(), 5012);
  answer.mutable_reference_change()->mutable_finding()->set_more_errors(false);
  answer.mutable_reference_change()->mutable_finding()->set_expected_wrong(2.34);
  EXPECT_THAT(ChangedLine(answer).text(), HasSubstr("yes, fewer errors since"));
  EXPECT_THAT(ChangedLine(answer).text(), HasSubstr("wrong, 2.3 are expected"));
}

TEST(ReferenceReadingTest, NoChangeIsNoVerdictOnTheModel) {
  v1::GetCalibrationResponse answer = ChangedAnswer();
  answer.mutable_reference_change()->set_status(v1::ReferenceChange::NOT_CHANGED);
  EXPECT_EQ(ChangedLine(answer).text(),
            "since the reference (rows 1 to 3000): no change of the error is shown by 2884 later "
            "rows");
  EXPECT_EQ(ChangedLine(answer).answer(), v1::Reading::Changed::UNSPECIFIED);
  answer.mutable_reference_change()->set_status(v1::ReferenceChange::COLLECTING);
  answer.mutable_reference_change()->set_observations_needed(1200);
  EXPECT_EQ(ChangedLine(answer).text(),
            "since the reference: not known yet, because 1200 of its 3000 rows are still to come");
  answer.clear_reference_change();
  EXPECT_EQ(ChangedLine(answer).text(), "");
}

TEST(ReferenceReadingTest, ItFollowsWhatIsSaidOfTheCalibration) {
  v1::GetCalibrationResponse answer = OverLimit();
  const std::string calibration = ChangedLine(answer).text();
  ASSERT_NE(calibration, "");
  const auto row = ChangedLine(answer).observation();
  *answer.mutable_reference_change() = ChangedAnswer().reference_change();
  EXPECT_THAT(ChangedLine(answer).text(), StartsWith(calibration + "; since the reference (rows "));
  EXPECT_EQ(ChangedLine(answer).answer(), v1::Reading::Changed::CHANGED);
  answer.mutable_reference_change()->set_status(v1::ReferenceChange::COLLECTING);
  EXPECT_EQ(ChangedLine(answer).observation(), row);
}

TEST(ReferenceReadingTest, TheVerdictTheNextStepAndTheOrderTellOfIt) {
  v1::GetCalibrationResponse answer = ChangedAnswer();
  EXPECT_EQ(VerdictLine(answer), "WITHIN_LIMIT, NOT_REJECTED, CHANGED since the reference");
  EXPECT_THAT(NextLine(answer).text(),
              StartsWith("calibctl show demo --verbose; when it is repaired or accepted: calibctl "
                         "acknowledge demo 4 "));
  EXPECT_EQ(HeadlinesOf(answer).severity(), 3);
  answer.mutable_verdict()->set_status(v1::Verdict::MISCALIBRATED);
  EXPECT_EQ(HeadlinesOf(answer).severity(), 4);
  answer.mutable_verdict()->set_reference_status(v1::ReferenceChange::NOT_CHANGED);
  EXPECT_THAT(VerdictLine(answer), EndsWith("MISCALIBRATED"));
}

TEST(ReferenceReadingTest, AnAcknowledgementBeginsANewReference) {
  v1::GetCalibrationResponse answer = ChangedAnswer();
  EXPECT_EQ(AcknowledgedText(answer.alarms(0), 6001), "a new reference begins with row 6001");
  // An update has ended the reference.
  EXPECT_EQ(AcknowledgedText(answer.alarms(0), 1), "the model has no reference any more");
}

}  // namespace
}  // namespace calibd::convert
