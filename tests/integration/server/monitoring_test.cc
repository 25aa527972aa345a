// What is watched of a model all the time: verdict, alarms and their acknowledgement, over the
// wire and over restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "calibd/core/confidence_sequence.h"
#include "calibd/core/evidence.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] = "models/watched";
constexpr std::size_t kClasses = 4;
constexpr double kBandwidth = 0.5;

PredictionSet DrawFrom(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed = 3) {
  PredictionSet set;
  auto generator = Generator::Create(spec, seed);
  generator->Draw(n, set);
  return set;
}

class MonitoringTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  static v1::Model Declared() {
    v1::Model model;
    model.set_name(kModel);
    model.set_class_count(kClasses);
    model.mutable_bandwidth()->set_fixed(kBandwidth);
    return model;
  }

  void Create(const v1::Model& model) {
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  void Send(const PredictionSet& set, std::size_t batch = 50) {
    v1::ObserveRequest request;
    request.set_model(kModel);
    for (std::size_t done = 0; done < set.labels.size(); done += batch) {
      *request.mutable_observations() =
          ToProto(set.view().rows(done, std::min(batch, set.labels.size() - done)));
      const grpc::Status status = client_->Observe(request);
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
  }

  v1::GetCalibrationResponse Answer() { return client_->GetCalibration(kModel); }

  grpc::Status Acknowledge(std::int64_t id, const std::string& note, v1::Alarm* alarm = nullptr,
                           const std::string& model = kModel) {
    v1::AcknowledgeAlarmRequest request;
    request.set_model(model);
    request.set_alarm_id(id);
    request.set_note(note);
    v1::AcknowledgeAlarmResponse response;
    CallContext context;
    const grpc::Status status =
        client_->calibration->AcknowledgeAlarm(&context, request, &response);
    if (alarm != nullptr) *alarm = response.alarm();
    return status;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(MonitoringTest, AMiscalibratedModelIsFoundOutAndStaysSo) {
  Create(Declared());
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kClasses), 300);
  Send(bad);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
  EXPECT_FALSE(answer.verdict().stale());
  EXPECT_THAT(answer.verdict().summary(), HasSubstr("Not calibrated: the e-value crossed 20"));
  EXPECT_TRUE(answer.verdict().has_since());
  EXPECT_GT(answer.verdict().evidence_families_size(), 0);

  // The numbers are those of the rows.
  auto process = EvidenceProcess::Create(
      *RandomFeatures::Create(*Kernel::ExponentialTotalVariation(kBandwidth), kClasses));
  process->Add(bad.view());
  const EvidenceReading expected = process->Read();
  const v1::Watch& watch = answer.watch();
  EXPECT_EQ(watch.observations(), 300);
  EXPECT_EQ(watch.first_observation(), 1);
  EXPECT_EQ(watch.unavailable_reason(), "");
  EXPECT_EQ(watch.evidence().log10_e_value(), expected.evidence.log10_e_value);
  EXPECT_DOUBLE_EQ(watch.evidence().max_log10_e_value(), expected.maximum.log_value / std::log(10));
  EXPECT_EQ(watch.evidence().max_observation(), expected.maximum.at);
  EXPECT_EQ(watch.evidence().anytime_p_value(), AnytimePValue(expected.maximum));
  EXPECT_DOUBLE_EQ(watch.evidence().threshold(), std::log10(20));
  double shares = 0;
  for (const auto& family : watch.evidence().families()) shares += family.share();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(watch.drift().log10_statistic(), expected.drift.shiryaev_roberts.log10_now);
  EXPECT_EQ(watch.drift().cusum_log10_statistic(), expected.drift.cusum.log10_now);
  EXPECT_DOUBLE_EQ(watch.drift().threshold(), std::log10(1e6 + 1));
  const v1::EffectSize& effect = watch.effect_size();
  EXPECT_EQ(effect.skce(), *expected.skce_unbiased);
  const double kce = std::max(0.0, *LowerConfidenceSequence(expected.projections, 0.025));
  EXPECT_DOUBLE_EQ(effect.skce_lower_bound(), kce * kce);
  EXPECT_GT(effect.skce(), effect.skce_lower_bound());
  EXPECT_LT(effect.one_look_p_value(), 1e-6);

  const v1::Alarm& alarm = answer.alarms(answer.alarms_size() - 1);
  EXPECT_EQ(alarm.id(), 1);
  EXPECT_EQ(alarm.kind(), v1::Alarm::KIND_EVIDENCE);
  EXPECT_GE(alarm.log10_value(), alarm.threshold());
  EXPECT_FALSE(alarm.has_acknowledge_time());
  EXPECT_EQ(alarm.observation(), answer.verdict().since_observation());
  EXPECT_EQ(alarm.raise_time().ShortDebugString(), answer.verdict().since().ShortDebugString());

  // Neither calibrated data nor a restart take it back.
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 1000));
  const v1::GetCalibrationResponse before = Answer();
  server_->Kill();
  Start();
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
  EXPECT_EQ(answer.verdict().DebugString(), before.verdict().DebugString());
  EXPECT_EQ(answer.watch().DebugString(), before.watch().DebugString());
  ASSERT_EQ(answer.alarms_size(), before.alarms_size());
  for (int i = 0; i < answer.alarms_size(); ++i) {
    EXPECT_EQ(answer.alarms(i).DebugString(), before.alarms(i).DebugString());
  }
}

TEST_F(MonitoringTest, ACalibratedModelIsNotRejected) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 99));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_INSUFFICIENT_DATA);
  EXPECT_THAT(Answer().verdict().summary(), HasSubstr("99 observations of 100"));
  EXPECT_FALSE(Answer().verdict().has_since());
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 3000, 4));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
  EXPECT_THAT(answer.verdict().summary(), HasSubstr("not rejected after 3099 observations"));
  EXPECT_EQ(answer.alarms_size(), 0);
  EXPECT_FALSE(answer.verdict().has_since());
  EXPECT_EQ(answer.watch().effect_size().skce_lower_bound(), 0);
}

TEST_F(MonitoringTest, AnEvidenceAlarmIsAcknowledgedOnceAndForGood) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M2(kClasses), 60));
  ASSERT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
  v1::Alarm alarm;
  grpc::Status status = Acknowledge(1, "retrained on Monday", &alarm);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(alarm.id(), 1);
  EXPECT_TRUE(alarm.has_acknowledge_time());
  EXPECT_EQ(alarm.note(), "retrained on Monday");
  v1::GetCalibrationResponse answer = Answer();
  for (const v1::Alarm& other : answer.alarms()) {
    if (!other.has_acknowledge_time()) {
      ASSERT_TRUE(Acknowledge(other.id(), "").ok());
    }
  }
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_INSUFFICIENT_DATA);
  EXPECT_EQ(answer.watch().observations(), 0);
  EXPECT_EQ(answer.watch().first_observation(), 61);
  EXPECT_EQ(answer.observations(), 60);
  // Durable: the server is killed at once.
  server_->Kill();
  Start();
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_INSUFFICIENT_DATA);
  EXPECT_EQ(answer.watch().first_observation(), 61);
  v1::Alarm again;
  status = Acknowledge(1, "another note", &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.DebugString(), alarm.DebugString());
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 500));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
  EXPECT_EQ(Answer().watch().observations(), 500);
}

TEST_F(MonitoringTest, ErrorsOfAnAcknowledgementNameTheField) {
  Create(Declared());
  EXPECT_EQ(Acknowledge(1, "", nullptr, "models/absent").error_code(), grpc::NOT_FOUND);
  grpc::Status status = Acknowledge(1, "");
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Reason(status), "ALARM_NOT_FOUND");
  EXPECT_THAT(status.error_message(), HasSubstr("models/watched has no alarm 1"));
  status = Acknowledge(0, "");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("alarm_id is 0, expected >= 1"));
  status = Acknowledge(1, std::string(501, 'x'));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("note has 501 bytes, expected at most 500"));
  EXPECT_EQ(Acknowledge(1, "", nullptr, "Models/x").error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(MonitoringTest, AChangeAfterManyGoodObservationsIsDrift) {
  v1::Model model = Declared();
  // Far from what the evidence reaches in these few.
  model.mutable_monitoring()->set_significance_level(1e-9);
  model.mutable_monitoring()->set_average_run_length(1e4);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 3000), 500);
  ASSERT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kClasses), 400, 9);
  for (std::size_t done = 0; Answer().alarms_size() == 0 && done < 400; done += 5) {
    PredictionSet piece;
    piece.class_count = kClasses;
    const PredictionBatch rows = bad.view().rows(done, 5);
    piece.probabilities.assign(rows.probabilities.begin(), rows.probabilities.end());
    piece.labels.assign(rows.labels.begin(), rows.labels.end());
    Send(piece);
  }
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.alarms_size(), 1);
  EXPECT_EQ(answer.alarms(0).kind(), v1::Alarm::KIND_DRIFT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_DRIFTED);
  EXPECT_GT(answer.verdict().since_observation(), 3000);
  EXPECT_THAT(answer.verdict().summary(), HasSubstr("changed for the worse"));
  ASSERT_TRUE(Acknowledge(answer.alarms(0).id(), "").ok());
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
  EXPECT_NEAR(answer.watch().drift().log10_statistic(), 0, 1e-12);
  // The evidence goes on.
  EXPECT_EQ(answer.watch().first_observation(), 1);
}

TEST_F(MonitoringTest, AModelWithoutNewObservationsIsStale) {
  v1::Model model = Declared();
  model.mutable_monitoring()->mutable_stale_after()->set_nanos(300000000);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M1(kClasses), 200));
  ASSERT_TRUE(WaitFor([&] { return Answer().verdict().stale(); }));
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_STALE);
  EXPECT_EQ(answer.verdict().since_observation(), 200);
  EXPECT_THAT(answer.verdict().summary(), HasSubstr("No observation was counted for 0.3 s"));
  EXPECT_GE(answer.verdict().since().seconds(), answer.last_observation_time().seconds());
  // An alarm is said before it.
  Send(DrawFrom(GeneratorSpec::M2(kClasses), 300));
  ASSERT_TRUE(WaitFor([&] { return Answer().verdict().stale(); }));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
}

TEST_F(MonitoringTest, WithoutMonitoringNothingIsSaidOfIt) {
  v1::Model model = Declared();
  model.mutable_monitoring()->set_disabled(true);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M2(kClasses), 300));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_FALSE(answer.has_verdict());
  EXPECT_FALSE(answer.has_watch());
  EXPECT_EQ(answer.alarms_size(), 0);
  EXPECT_EQ(answer.observations(), 300);
  EXPECT_EQ(Acknowledge(1, "").error_code(), grpc::NOT_FOUND);
}

TEST_F(MonitoringTest, TheWarmupIsWatchedOnceItIsComplete) {
  v1::Model model = Declared();
  model.mutable_bandwidth()->mutable_median()->set_warmup(200);
  Create(model);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kClasses), 199);
  Send(bad);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_INSUFFICIENT_DATA);
  EXPECT_THAT(answer.watch().unavailable_reason(), HasSubstr("first 200 observations"));
  EXPECT_THAT(answer.verdict().summary(), HasSubstr("first 200 observations"));
  Send(DrawFrom(GeneratorSpec::M2(kClasses), 1, 8));
  answer = Answer();
  EXPECT_EQ(answer.watch().unavailable_reason(), "");
  EXPECT_EQ(answer.watch().observations(), 200);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
}

TEST_F(MonitoringTest, PredictionsAreWatchedAsTheyMature) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_nanos(1000000);
  Create(model);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kClasses), 300);
  v1::ObserveRequest request;
  request.set_model(kModel);
  for (std::size_t done = 0; done < 300; done += 50) {
    *request.mutable_observations() = ToProto(bad.view().rows(done, 50));
    for (std::size_t i = 0; i < 50; ++i) {
      request.mutable_observations()->add_prediction_ids(std::to_string(done + i));
    }
    ASSERT_TRUE(client_->Observe(request).ok());
  }
  ASSERT_TRUE(WaitFor([&] { return Answer().watch().observations() == 300; }));
  auto process = EvidenceProcess::Create(
      *RandomFeatures::Create(*Kernel::ExponentialTotalVariation(kBandwidth), kClasses));
  process->Add(bad.view());
  EXPECT_EQ(Answer().watch().evidence().log10_e_value(), process->Read().evidence.log10_e_value);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
}

TEST_F(MonitoringTest, DifferencesBelowTheToleranceAreNoEvidence) {
  // Probabilities that were printed with two digits: 0.995 becomes 1, and every other label is
  // infinite evidence.
  v1::Model strict = Declared();
  strict.mutable_monitoring()->set_tolerance(1e-9);
  Create(strict);
  PredictionSet rounded;
  rounded.class_count = kClasses;
  for (int i = 0; i < 1000; ++i) {
    rounded.probabilities.insert(rounded.probabilities.end(), {1, 0, 0, 0});
    rounded.labels.push_back(i % 250 == 100 ? 1 : 0);
  }
  Send(rounded, 1000);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
  ASSERT_TRUE(client_->Delete(kModel).ok());
  v1::Model tolerant = Declared();
  tolerant.mutable_monitoring()->set_tolerance(0.02);
  Create(tolerant);
  Send(rounded, 1000);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
}

TEST_F(MonitoringTest, TheDeclarationIsAnsweredWithItsDefaultsAndChecked) {
  v1::Model created;
  ASSERT_TRUE(client_->Create(Declared(), &created).ok());
  EXPECT_EQ(created.monitoring().significance_level(), 0.05);
  EXPECT_EQ(created.monitoring().average_run_length(), 1e6);
  EXPECT_EQ(created.monitoring().stale_after().seconds(), 86400);
  EXPECT_EQ(created.monitoring().min_observations(), 100);
  v1::Model other = Declared();
  other.mutable_monitoring()->set_significance_level(0.01);
  const grpc::Status differs = client_->Create(other);
  EXPECT_EQ(differs.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_THAT(differs.error_message(), HasSubstr("monitoring is"));
  other.set_name("models/other");
  other.mutable_monitoring()->set_significance_level(0.5);
  EXPECT_THAT(client_->Create(other).error_message(),
              HasSubstr("model.monitoring.significance_level is 0.5"));
}

}  // namespace
}  // namespace calibd::testing
