// A model that was off for a while and is right again: its alarm recovers, and stays until it is
// acknowledged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>

#include "integration/server/monitored_server.h"
#include "support/http_get.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Predictions whose confidence, Beta(20, 1), exceeds the frequency of the predicted class by `off`.
PredictionSet SharpRows(std::size_t n, double off, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  PredictionSet set;
  set.class_count = kMonitoringClasses;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t top = i % kMonitoringClasses;
    const double c = std::max(0.4, std::pow(uniform(random), 0.05));
    for (std::size_t k = 0; k < kMonitoringClasses; ++k) {
      set.probabilities.push_back(k == top ? c : (1 - c) / (kMonitoringClasses - 1));
    }
    const std::size_t label = uniform(random) < c - off ? top : top + 1;
    set.labels.push_back(static_cast<std::int32_t>(label % kMonitoringClasses));
  }
  return set;
}

class RecoveryTest : public MonitoringTest {
 protected:
  std::string Metrics() { return HttpGet(server_->http_address(), "/metrics").body; }
  static std::string Recovered(int value) {
    return "calibd_alarm_recovered{model=\"watched\",version=\"\",kind=\"over_limit\"} " +
           std::to_string(value) + "\n";
  }
  static std::string LimitRaised(int value) {
    return "calibd_alarm_limit_raised{model=\"watched\",version=\"\",kind=\"over_limit\"} " +
           std::to_string(value) + "\n";
  }
  static const v1::Alarm* OverLimit(const v1::GetCalibrationResponse& answer) {
    const auto found = std::ranges::find_if(answer.alarms(), [](const v1::Alarm& alarm) {
      return alarm.kind() == v1::Alarm::OVER_LIMIT && !alarm.has_acknowledge_time();
    });
    return found == answer.alarms().end() ? nullptr : &*found;
  }
};

TEST_F(RecoveryTest, AnAlarmRecoversAndStaysUntilItIsAcknowledged) {
  Create(Declared());
  Send(SharpRows(20000, 0, 1), 500);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(answer.reading().now().text(),
              AllOf(HasSubstr("over the newest 1568 rows, off by "),
                    HasSubstr("95 % for these rows, however often you look")));

  Send(SharpRows(2000, 0.1, 2), 500);
  answer = Answer();
  ASSERT_NE(OverLimit(answer), nullptr);
  const v1::Alarm alarm = *OverLimit(answer);
  EXPECT_TRUE(alarm.crossing().is_recent());
  EXPECT_FALSE(alarm.crossing().has_error());
  EXPECT_FALSE(answer.error().is_recovered());
  EXPECT_THAT(answer.reading().now().text(), HasSubstr("still over the limit"));
  EXPECT_THAT(answer.reading().how_bad().text(),
              HasSubstr("the newest rows were off by more than 2 points"));
  EXPECT_THAT(Metrics(), HasSubstr(Recovered(0)));

  // Half of the good rows, a kill, and the other half.
  Send(SharpRows(15000, 0, 3), 500);
  server_->Kill();
  Start();
  Send(SharpRows(15000, 0, 4), 500);
  answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_TRUE(answer.verdict().is_recovered());
  EXPECT_TRUE(answer.error().is_recovered());
  const v1::ErrorMeasurement& newest = answer.error().newest();
  EXPECT_GE(newest.first_observation(), alarm.observation());
  EXPECT_LT(newest.first_observation(), 30000) << "most good rows are in the stretch";
  EXPECT_EQ(newest.observations(), 52000 - newest.first_observation() + 1);
  EXPECT_LE(newest.top_label().upper(), 0.02);
  EXPECT_GT(newest.top_label().upper(), newest.top_label().estimate());
  EXPECT_THAT(
      answer.reading().verdict().text(),
      ContainsRegex("^OVER_LIMIT, alarm on 20.* .row 2[01][0-9]+., recovered since 20.* .row "
                    "2[0-9]+. .the gate over-limit fails until its alarms are acknowledged.,"));
  EXPECT_THAT(
      answer.reading().now().text(),
      ContainsRegex("^recovered since 20.* .row 2[0-9]+.: over these [23][0-9]+ rows, off by "));
  EXPECT_THAT(answer.reading().how_bad().brief(), ContainsRegex("; since 20.* .row 2[0-9]+. off "));
  EXPECT_THAT(answer.reading().DebugString(), Not(HasSubstr("(recent)")));
  EXPECT_THAT(Metrics(),
              AllOf(HasSubstr(Recovered(1)), HasSubstr(LimitRaised(0)),
                    HasSubstr("calibd_alarm_active{model=\"watched\",version=\"\",kind=\"over_"
                              "limit\"} 1\n")));

  // Off again: the recovery is withdrawn, although the average since then is small.
  Send(SharpRows(1900, 0.2, 5), 500);
  answer = Answer();
  EXPECT_FALSE(answer.verdict().is_recovered());
  EXPECT_THAT(answer.reading().now().text(),
              HasSubstr("it had recovered, and is over the limit again"));
  EXPECT_THAT(Metrics(), HasSubstr(Recovered(0)));
  EXPECT_EQ(OverLimit(answer)->id(), alarm.id());

  // Right again. The acknowledgement of a recovered alarm raises no limit.
  Send(SharpRows(15000, 0, 6), 500);
  answer = Answer();
  ASSERT_TRUE(answer.verdict().is_recovered());
  EXPECT_GT(answer.error().newest().first_observation(), 52000) << "without the bad rows";
  ASSERT_TRUE(Acknowledge(alarm.id(), "a broken feature, mended").ok());
  answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::UNDECIDED);
  EXPECT_FALSE(answer.error().has_acknowledged_limit());
  EXPECT_FALSE(answer.error().is_recovered());
  EXPECT_EQ(OverLimit(answer), nullptr);
  EXPECT_THAT(Metrics(), HasSubstr(Recovered(0)));
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().verdict().limit_status(), v1::CalibrationError::UNDECIDED);
}

// A higher limit is no recovery: the error has not changed.
TEST_F(RecoveryTest, AHigherLimitHasAMetricOfItsOwn) {
  Create(Declared());
  Send(SharpRows(6000, 0.1, 7), 500);
  ASSERT_NE(OverLimit(Answer()), nullptr);
  EXPECT_THAT(Metrics(), AllOf(HasSubstr(Recovered(0)), HasSubstr(LimitRaised(0))));
  const v1::GetCalibrationResponse answer = WithLimit(0.3);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_THAT(Metrics(), AllOf(HasSubstr(Recovered(0)), HasSubstr(LimitRaised(1))));
  EXPECT_THAT(answer.reading().how_bad().text(), HasSubstr(", before the limit was raised"));
  EXPECT_FALSE(answer.reading().has_repair());
  ASSERT_TRUE(Acknowledge(OverLimit(answer)->id(), "accepted").ok());
  EXPECT_THAT(Metrics(), AllOf(HasSubstr(Recovered(0)), HasSubstr(LimitRaised(0))));
}

// The same rows in other batches have the same answer, to the last bit.
TEST_F(RecoveryTest, BatchesDoNotChangeTheNewestRows) {
  std::string first;
  for (const std::size_t batch : {97U, 1000U}) {
    Create(Declared());
    Send(SharpRows(3000, 0, 1), batch);
    Send(SharpRows(2000, 0.2, 2), batch);
    Send(SharpRows(9000, 0, 3), batch);
    v1::CalibrationError error = Answer().error();
    EXPECT_TRUE(error.has_newest());
    error.mutable_newest()->clear_start_time();
    error.mutable_since_start()->clear_start_time();
    if (first.empty()) first = error.SerializeAsString();
    EXPECT_EQ(error.SerializeAsString(), first) << batch;
    ASSERT_TRUE(client_->Delete(kMonitoringModel).ok());
  }
}

}  // namespace
}  // namespace calibd::testing
