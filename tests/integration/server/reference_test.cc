// A model with a reference period, on the real server: the alarm CHANGED, its acknowledgement, and
// kills on the way.
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
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// Predictions whose confidence, Beta(6, 1), exceeds the frequency of the predicted class by `off`.
PredictionSet RowsOffBy(double off, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  PredictionSet set;
  set.class_count = kMonitoringClasses;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t top = i % kMonitoringClasses;
    const double c = std::max(0.4, std::pow(uniform(random), 1. / 6));
    for (std::size_t k = 0; k < kMonitoringClasses; ++k) {
      set.probabilities.push_back(k == top ? c : (1 - c) / (kMonitoringClasses - 1));
    }
    const std::size_t label = uniform(random) < c - off ? top : top + 1;
    set.labels.push_back(static_cast<std::int32_t>(label % kMonitoringClasses));
  }
  return set;
}

class ReferenceTest : public MonitoringTest {
 protected:
  static v1::Model WithReference(std::int64_t rows = 3000) {
    v1::Model model = Declared();
    model.mutable_monitoring()->set_reference_rows(rows);
    return model;
  }
  // The active alarm CHANGED; id 0 without one.
  static v1::Alarm Changed(const v1::GetCalibrationResponse& answer) {
    const auto found = std::ranges::find_if(answer.alarms(), [](const v1::Alarm& alarm) {
      return alarm.kind() == v1::Alarm::CHANGED && !alarm.has_acknowledge_time();
    });
    return found == answer.alarms().end() ? v1::Alarm() : *found;
  }
  void KillAndStart() {
    server_->Kill();
    Start();
  }
  std::string Metrics() { return HttpGet(server_->http_address(), "/metrics").body; }
  static std::string Active(int value) {
    return "calibd_alarm_active{model=\"watched\",version=\"\",kind=\"changed\"} " +
           std::to_string(value) + "\n";
  }
};

TEST_F(ReferenceTest, AChangeOfAWrongModelIsFoundOverKillsAndAccepted) {
  Create(WithReference());
  EXPECT_EQ(Answer().reference_change().status(), v1::ReferenceChange::COLLECTING);
  Send(RowsOffBy(.08, 1700, 11), 100);
  KillAndStart();
  EXPECT_EQ(Answer().reference_change().observations_needed(), 1300);
  Send(RowsOffBy(.08, 3300, 12), 100);
  v1::GetCalibrationResponse answer = Answer();
  // It is off, and has not changed.
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(answer.verdict().reference_status(), v1::ReferenceChange::NOT_CHANGED);
  EXPECT_EQ(Changed(answer).id(), 0);
  const v1::ReferenceChange reference = answer.reference_change();
  EXPECT_EQ(reference.first_observation(), 1);
  EXPECT_EQ(reference.reference_observations(), 3000);
  EXPECT_EQ(reference.later_observations(), 2000);
  EXPECT_TRUE(reference.has_start_time() && reference.has_end_time());
  // Of Beta(6, 1), 1/7 are wrong if it is calibrated.
  EXPECT_NEAR(reference.reference_error_rate(), 1. / 7 + .08, .03);
  EXPECT_LT(reference.log10_e_value(), reference.threshold());
  EXPECT_NEAR(reference.threshold(), std::log10(20), 1e-12);
  EXPECT_THAT(Metrics(), HasSubstr(Active(0)));

  Send(RowsOffBy(.25, 300, 3), 50);
  KillAndStart();
  Send(RowsOffBy(.25, 1200, 4), 50);
  answer = Answer();
  const v1::Alarm alarm = Changed(answer);
  ASSERT_NE(alarm.id(), 0);
  EXPECT_GT(alarm.observation(), 5000);
  EXPECT_GE(answer.reference_change().log10_e_value(), answer.reference_change().threshold());
  const v1::ReferenceChange::Finding& finding = alarm.finding();
  EXPECT_EQ(finding.DebugString(), answer.reference_change().finding().DebugString());
  EXPECT_TRUE(finding.more_errors());
  EXPECT_GT(finding.direction_share(), .9);
  EXPECT_NEAR(static_cast<double>(finding.since_observation()), 5001, 200);
  EXPECT_EQ(finding.since_observation() + finding.observations() - 1, alarm.observation());
  EXPECT_GT(static_cast<double>(finding.wrong()), 1.3 * finding.expected_wrong());
  EXPECT_THAT(answer.reading().verdict().text(), HasSubstr(", CHANGED since the reference"));
  EXPECT_THAT(
      answer.reading().changed().text(),
      AllOf(HasSubstr("since the reference (rows 1 to 3000): yes, more errors since about "),
            HasSubstr("this does not say whether the error is too large")));
  EXPECT_EQ(Listed().verdict().reference_status(), v1::ReferenceChange::CHANGED);
  EXPECT_THAT(Listed().reading().verdict().text(), HasSubstr("CHANGED since the reference"));
  EXPECT_THAT(Metrics(),
              AllOf(HasSubstr(Active(1)), HasSubstr("calibd_alarms_total{model=\"watched\",version="
                                                    "\"\",kind=\"changed\"} 1\n")));

  // The new state is accepted, and becomes the reference.
  v1::AcknowledgeAlarmRequest request;
  request.set_model(kMonitoringModel);
  request.set_alarm_id(alarm.id());
  v1::AcknowledgeAlarmResponse response;
  CallContext context;
  ASSERT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
  EXPECT_EQ(response.effect(), "a new reference begins with row 6501");
  KillAndStart();
  answer = Answer();
  EXPECT_EQ(Changed(answer).id(), 0);
  EXPECT_EQ(answer.reference_change().first_observation(), 6501);
  EXPECT_EQ(answer.reference_change().status(), v1::ReferenceChange::COLLECTING);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  Send(RowsOffBy(.25, 5000, 5), 500);
  EXPECT_EQ(Answer().reference_change().status(), v1::ReferenceChange::NOT_CHANGED);
  // A recovery is a change too.
  Send(RowsOffBy(0, 2000, 6), 500);
  answer = Answer();
  ASSERT_NE(Changed(answer).id(), 0);
  EXPECT_FALSE(Changed(answer).finding().more_errors());
  EXPECT_THAT(answer.reading().changed().text(),
              HasSubstr("(rows 6501 to 9500): yes, fewer errors"));
}

TEST_F(ReferenceTest, IsDeclaredByAnUpdateAndRefusedWhereItIsFalse) {
  Create(Declared());
  Send(RowsOffBy(0, 700, 1), 100);
  EXPECT_FALSE(Answer().has_reference_change());
  EXPECT_EQ(Answer().verdict().reference_status(), v1::ReferenceChange::UNSPECIFIED);
  v1::UpdateModelRequest request;
  request.mutable_model()->set_name(kMonitoringModel);
  request.mutable_model()->mutable_monitoring()->set_reference_rows(999);
  request.mutable_update_mask()->add_paths("monitoring.reference_rows");
  v1::UpdateModelResponse response;
  const auto update = [&] {
    CallContext context;
    return client_->models->UpdateModel(&context, request, &response);
  };
  EXPECT_THAT(update().error_message(),
              HasSubstr("model.monitoring.reference_rows is 999, expected 1000..1000000"));
  request.mutable_model()->mutable_monitoring()->set_reference_rows(1000);
  ASSERT_TRUE(update().ok());
  EXPECT_EQ(response.model().monitoring().reference_rows(), 1000);
  EXPECT_EQ(response.update().restarts(0), v1::ModelUpdate::REFERENCE);
  KillAndStart();
  EXPECT_EQ(Answer().reference_change().first_observation(), 701);
  Send(RowsOffBy(0, 1100, 2), 100);
  EXPECT_EQ(Answer().reference_change().later_observations(), 100);
  KillAndStart();
  EXPECT_EQ(Answer().reference_change().later_observations(), 100);
  // The same declaration is no update; another one is.
  v1::Model model = WithReference(1000);
  EXPECT_TRUE(client_->Create(model).ok());
  EXPECT_THAT(client_->Create(WithReference(2000)).error_message(),
              HasSubstr("monitoring.reference_rows"));

  model.set_name("models/forecast");
  model.mutable_forecast()->mutable_normal();
  EXPECT_THAT(client_->Create(model).error_message(),
              HasSubstr("model.monitoring.reference_rows is 1000, expected none because only the "
                        "error of a model of classes is compared with a reference"));
}

}  // namespace
}  // namespace calibd::testing
