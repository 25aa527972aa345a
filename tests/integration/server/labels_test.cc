// A model of several labels, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLabelModel[] = "models/weather";

class LabelsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    sdk_.reset();
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
    auto sdk = client::Client::Connect(server_->grpc_address());
    ASSERT_TRUE(sdk.ok());
    sdk_ = *std::move(sdk);
  }

  static v1::Model Declared() {
    v1::Model model;
    model.set_name(kLabelModel);
    for (const char* const name : {"rain", "fog", "wind"}) model.mutable_labels()->add_names(name);
    return model;
  }

  void Create(const v1::Model& model) {
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  // n rows: rain is calibrated, half of fog's truths are missing, and wind holds `share` times as
  // often as it is stated.
  void Draw(std::size_t n, double share) {
    std::uniform_real_distribution<double> uniform;
    probabilities_.clear();
    truths_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      for (int k = 0; k < 3; ++k) {
        const double stated = k == 1 ? uniform(random_) / 4 : uniform(random_);
        const double truth = k == 2 ? share * stated : stated;
        probabilities_.push_back(stated);
        truths_.push_back(k == 1 && i % 2 == 0 ? -1 : uniform(random_) < truth ? 1 : 0);
      }
    }
  }

  // Sends them by the SDK, in batches of 300.
  void Send(std::size_t n, double share) {
    Draw(n, share);
    auto stream = sdk_->OpenStream(kLabelModel, {.max_rows_per_batch = 300});
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ((*stream)->row_width(), 3U);
    const absl::Status sent =
        (*stream)->Send(client::PredictionKind::kProbabilities, probabilities_, truths_);
    ASSERT_TRUE(sent.ok()) << sent;
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->accepted_rows, static_cast<std::int64_t>(n));
  }

  v1::GetCalibrationResponse Answer() { return client_->GetCalibration(kLabelModel); }

  void Acknowledge(std::int64_t id) {
    v1::AcknowledgeAlarmRequest request;
    request.set_model(kLabelModel);
    request.set_alarm_id(id);
    v1::AcknowledgeAlarmResponse response;
    CallContext context;
    ASSERT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  std::unique_ptr<client::Client> sdk_;
  std::mt19937_64 random_{5};
  std::vector<double> probabilities_;
  std::vector<std::int32_t> truths_;
};

TEST_F(LabelsTest, CalibratedLabelsAreWithinTheLimitOnlyAllTogether) {
  v1::Model model = Declared();
  model.mutable_monitoring()->set_error_limit(0.06);
  Create(model);
  EXPECT_EQ(Answer().insufficient_data().needed(), 1);
  Send(50, 1);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::INSUFFICIENT_DATA);
  Send(3000, 1);
  v1::GetCalibrationResponse answer = Answer();
  // Half of fog's truths are missing, so its interval is still too wide.
  ASSERT_EQ(answer.labels().labels_size(), 3);
  EXPECT_EQ(answer.labels().rows(), 3050);
  EXPECT_EQ(answer.labels().labels(1).truths(), 1525);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::UNDECIDED);
  Send(20000, 1);
  answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_TRUE(answer.labels().over_limit().empty());
  EXPECT_TRUE(answer.labels().rejected().empty());
  EXPECT_TRUE(answer.alarms().empty());
  EXPECT_FALSE(answer.has_scores());
  EXPECT_FALSE(answer.has_insufficient_data());
  EXPECT_TRUE(answer.watch().evidence().families().empty());
  EXPECT_THAT(answer.reading().how_bad().text(), HasSubstr("on average over 3 labels off by "));
  EXPECT_EQ(answer.reading().where().text(), "nothing stands out");
  EXPECT_THAT(answer.reading().data().text(), HasSubstr("known truths"));
}

TEST_F(LabelsTest, TheVerdictNamesTheLabelThatIsOver) {
  Create(Declared());
  Send(4000, 0.7);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(answer.verdict().labels_over_limit(), ElementsAre("wind"));
  EXPECT_THAT(answer.labels().over_limit(), ElementsAre("wind"));
  EXPECT_THAT(answer.labels().rejected(), ElementsAre("wind"));
  EXPECT_THAT(answer.reading().verdict().text(), HasSubstr("in label wind (alarm at row "));
  EXPECT_THAT(answer.reading().how_bad().brief(), HasSubstr("wind off by "));
  EXPECT_THAT(answer.reading().where().text(), HasSubstr("label wind "));
  std::int64_t of_wind = 0;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (alarm.kind() != v1::Alarm::OVER_LIMIT) {
      EXPECT_EQ(alarm.label(), "wind");
    }
    if (alarm.kind() == v1::Alarm::OVER_LIMIT && alarm.has_label()) of_wind = alarm.id();
    EXPECT_FALSE(alarm.has_label() && alarm.label() != "wind") << alarm.DebugString();
  }
  ASSERT_GT(of_wind, 0) << answer.DebugString();
  EXPECT_THAT(
      HttpGet(server_->http_address(), "/metrics").body,
      AllOf(HasSubstr("calibd_label_over_limit{model=\"weather\",version=\"\",label=\"wind\"} 1"),
            HasSubstr("calibd_label_over_limit{model=\"weather\",version=\"\",label=\"rain\"} 0"),
            HasSubstr("calibd_binned_error{model=\"weather\",version=\"\",event=\"labels\"}"),
            Not(HasSubstr("calibd_confidence_minus_accuracy{"))));
  // The acknowledgement restarts the measurement of this label alone, also after a restart.
  Acknowledge(of_wind);
  server_->Kill();
  Start();
  Send(2000, 1);
  answer = Answer();
  EXPECT_EQ(answer.labels().labels(2).truths(), 2000);
  EXPECT_EQ(answer.labels().labels(2).since_observation(), 4001);
  EXPECT_GT(answer.labels().labels(2).acknowledged_limit(), 0.02);
  EXPECT_EQ(answer.labels().labels(0).truths(), 6000);
  EXPECT_FALSE(answer.labels().labels(0).has_since_observation());

  v1::GetHistoryRequest history;
  history.set_model(kLabelModel);
  v1::GetHistoryResponse buckets;
  CallContext context;
  ASSERT_TRUE(client_->calibration->GetHistory(&context, history, &buckets).ok());
  EXPECT_EQ(buckets.total().observations(), 6000);
  ASSERT_EQ(buckets.total().labels_size(), 3);
  EXPECT_EQ(buckets.total().labels(0).name(), "wind");
  EXPECT_GT(buckets.total().labels(0).gap_lower(), 0);
  EXPECT_EQ(buckets.total().labels(0).truths(), 6000);
  EXPECT_TRUE(buckets.total().has_error());
  EXPECT_FALSE(buckets.total().has_mean_confidence());
  const v1::HistoryBucket& newest = *buckets.buckets().rbegin();
  EXPECT_GT(newest.log10_e_value(), 1);
  EXPECT_DOUBLE_EQ(newest.log10_e_value(), answer.watch().evidence().log10_e_value());
  EXPECT_DOUBLE_EQ(newest.drift_log10_statistic(), answer.watch().drift().log10_statistic());
}

TEST_F(LabelsTest, TheDiagramsOfTheNamedLabelsAreGiven) {
  v1::Model model = Declared();
  for (int k = 3; k < 30; ++k) model.mutable_labels()->add_names(absl::StrCat("label", k));
  Create(model);
  v1::ObserveRequest rows;
  rows.set_model(kLabelModel);
  for (int row = 0; row < 4; ++row) {
    for (int k = 0; k < 30; ++k) {
      rows.mutable_observations()->mutable_probabilities()->add_values(k == 2 ? 0.1 + row * 0.02
                                                                              : 0.5);
      rows.mutable_observations()->add_labels(k == 2 && row == 3 ? -1 : row % 2);
    }
  }
  ASSERT_TRUE(client_->Observe(rows).ok());
  v1::GetCalibrationRequest request;
  request.set_model(kLabelModel);
  request.add_label_diagrams("wind");
  absl::StatusOr<v1::GetCalibrationResponse> answer = sdk_->GetCalibration(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->labels().labels(1).has_reliability());
  const v1::Reliability& wind = answer->labels().labels(2).reliability();
  // 0.1 and 0.12 are in the bin up to 2/15, and 0.14 in the next one; the last truth is unknown.
  ASSERT_EQ(wind.bins_size(), 2);
  EXPECT_EQ(wind.bins(0).n(), 2);
  EXPECT_DOUBLE_EQ(wind.bins(0).upper(), 2.0 / 15);
  EXPECT_DOUBLE_EQ(wind.bins(0).mean_prediction(), 0.11);
  EXPECT_DOUBLE_EQ(wind.bins(0).frequency(), 0.5);
  EXPECT_LT(wind.bins(0).confidence().lower(), 0.5);
  EXPECT_EQ(wind.bins(1).n(), 1);
  EXPECT_EQ(wind.band_level(), 0.9);
  EXPECT_TRUE(wind.corp_blocks().empty());
  // The table has the first labels unless it is whole.
  EXPECT_EQ(answer->labels().table().rows_size(), 20);
  EXPECT_EQ(answer->labels().table().left_out(), 10);
  request.set_whole_table(true);
  EXPECT_EQ(sdk_->GetCalibration(request)->labels().table().rows_size(), 30);
  request.add_label_diagrams("hail");
  EXPECT_THAT(std::string(sdk_->GetCalibration(request).status().message()),
              HasSubstr("label_diagrams[1] is \"hail\", expected one of the 30 labels"));
}

TEST_F(LabelsTest, AChangeOfTheAverageErrorIsDatedAlsoAfterARestart) {
  Create(Declared());
  Send(4000, 1);
  EXPECT_FALSE(Answer().error().has_change());
  // The average over three labels becomes some 10 points too high.
  Send(2000, 0.4);
  const v1::DatedChange change = Answer().error().change();
  EXPECT_EQ(change.event(), v1::DatedChange::LABELS);
  EXPECT_LE(change.from_observation(), 4001);
  EXPECT_GE(change.to_observation(), 4001);
  EXPECT_LT(change.before().gap_upper(), change.after().gap_lower());
  EXPECT_EQ(change.before().first_observation() + change.before().observations(),
            change.after().first_observation());
  EXPECT_THAT(Answer().reading().changed().text(), HasSubstr("the probabilities were "));
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().error().change().DebugString(), change.DebugString());
}

TEST_F(LabelsTest, AKilledServerContinuesWithTheSameAnswer) {
  Create(Declared());
  Send(9000, 0.8);
  const std::string before = WithoutReading(Answer());
  server_->Kill();
  Start();
  EXPECT_EQ(WithoutReading(Answer()), before);
}

TEST_F(LabelsTest, TruthsMayComeLaterByIdAllOfARowAtOnce) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_seconds(3600);
  Create(model);
  Draw(500, 1);
  std::vector<std::string> ids;
  for (int i = 0; i < 500; ++i) ids.push_back("day-" + std::to_string(i));
  auto stream = sdk_->OpenStream(kLabelModel, {.max_rows_per_batch = 100});
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(
      (*stream)->SendWithIds(client::PredictionKind::kProbabilities, probabilities_, ids).ok());
  // The last hundred get no truths.
  ids.resize(400);
  truths_.resize(1200);
  ASSERT_TRUE((*stream)->Label(ids, truths_).ok());
  // The first one is labelled again, once with the same truths and once with others.
  const std::vector<std::string> first = {ids.front()};
  std::vector<std::int32_t> again(truths_.begin(), truths_.begin() + 3);
  ASSERT_TRUE((*stream)->Flush().ok());
  ASSERT_TRUE((*stream)->Label(first, again).ok());
  again[0] = 1 - again[0];
  ASSERT_TRUE((*stream)->Flush().ok());
  ASSERT_TRUE((*stream)->Label(first, again).ok());
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->labels.matched, 400);
  EXPECT_EQ(counts->labels.repeated, 1);
  EXPECT_EQ(counts->labels.conflicting, 1);
  EXPECT_EQ(Answer().label_arrivals().pending_labelled(), 400);
  // Pending truths survive a restart.
  server_->Kill();
  Start();
  client_->SetLabelGrace(kLabelModel, ServiceClient::kEndedGrace);
  ASSERT_TRUE(WaitFor([this] { return Answer().label_arrivals().matured() == 500; }));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.observations(), 400);
  EXPECT_EQ(answer.label_arrivals().missing(), 100);
  EXPECT_EQ(answer.labels().labels(1).truths(), 200);
  double held = 0;
  for (std::size_t i = 0; i < 400; ++i) held += truths_[3 * i];
  EXPECT_DOUBLE_EQ(answer.labels().labels(0).held(), held / 400);
}

TEST_F(LabelsTest, WrongRowsAndCallsAreRefusedWithTheirNames) {
  Create(Declared());
  v1::ObserveRequest request;
  request.set_model(kLabelModel);
  for (const double value : {0.2, 0.3, 0.5}) {
    request.mutable_observations()->mutable_probabilities()->add_values(value);
  }
  for (const int truth : {0, 2, 1}) request.mutable_observations()->add_labels(truth);
  EXPECT_THAT(client_->Observe(request).error_message(),
              HasSubstr("rows[0].labels[1] (\"fog\") is 2"));
  // A row whose probabilities sum to 1 is as valid as others.
  request.mutable_observations()->set_labels(1, 1);
  EXPECT_TRUE(client_->Observe(request).ok());
  v1::RunTestRequest test;
  test.set_model(kLabelModel);
  v1::QuadraticTestResult result;
  const grpc::Status status = client_->RunTest(test, &result);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("predicts several labels"));
  v1::EvaluateRequest evaluate;
  evaluate.set_model(kLabelModel);
  v1::Evaluation evaluation;
  EXPECT_EQ(client_->Evaluate(evaluate, &evaluation).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  auto stream = sdk_->OpenStream(kLabelModel, {});
  ASSERT_TRUE(stream.ok());
  const std::vector<double> row = {0.2, 0.3, 0.5};
  const std::vector<std::int32_t> wrong = {0, 1, 5};
  EXPECT_THAT(
      std::string((*stream)->Send(client::PredictionKind::kProbabilities, row, wrong).message()),
      HasSubstr("(\"wind\") is 5, expected 1, 0, or -1"));
}

}  // namespace
}  // namespace calibd::testing
