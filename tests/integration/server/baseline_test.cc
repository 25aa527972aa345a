// The monitored comparison of a model with its baseline, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/convert/comparison.h"
#include "calibd/convert/evaluation.h"
#include "calibd/core/comparison.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kBaselineModel[] = "models/resnet/versions/4";
constexpr std::size_t kBaselineClasses = 3;
constexpr std::size_t kBaselineRows = 600;

class BaselineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    baseline_.labels = model_.labels;
    Start();
  }

  void Start() {
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  void Create(std::int64_t grace_s = 0) {
    v1::Model model;
    model.set_name(kBaselineModel);
    model.mutable_classes()->set_count(kBaselineClasses);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    model.mutable_classes()->set_baseline("3");
    if (grace_s > 0) model.mutable_label_grace()->set_seconds(grace_s);
    v1::Model created;
    const grpc::Status status = client_->Create(model, &created);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(created.classes().baseline(), "3");
  }

  v1::ObserveRequest Rows(std::size_t first, std::size_t count) const {
    v1::ObserveRequest request;
    request.set_model(kBaselineModel);
    v1::Observations& observations = *request.mutable_observations();
    observations = ToProto(model_.view().rows(first, count));
    const auto values = baseline_.view().rows(first, count).probabilities;
    observations.mutable_baseline_probabilities()->mutable_values()->Add(values.begin(),
                                                                         values.end());
    return request;
  }

  void Observe(const v1::ObserveRequest& request) {
    const grpc::Status status = client_->Observe(request);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // The comparison by these rows, ascending.
  v1::Comparison Expected(const std::vector<std::size_t>& rows) const {
    RunningComparison running;
    for (const std::size_t i : rows)
      running.Add(model_.view().rows(i, 1), baseline_.view().rows(i, 1));
    v1::Comparison expected = convert::ToProto(*running.Read());
    expected.set_paired(true);
    expected.set_observations(static_cast<std::int64_t>(rows.size()));
    expected.set_baseline_observations(static_cast<std::int64_t>(rows.size()));
    expected.set_repeated_looks_valid(true);
    *expected.mutable_baseline_reliability() = convert::ToProto(running.baseline_top_label);
    return expected;
  }
  v1::Comparison Expected(std::size_t n) const {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < n; ++i) rows.push_back(i);
    return Expected(rows);
  }

  // Expects the same bits.
  void ExpectAnswer(const v1::Comparison& expected) {
    const v1::GetCalibrationResponse answer = client_->GetCalibration(kBaselineModel);
    EXPECT_EQ(answer.baseline(), "3");
    EXPECT_EQ(answer.comparison().SerializeAsString(), expected.SerializeAsString())
        << answer.comparison().ShortDebugString() << "\nexpected\n"
        << expected.ShortDebugString();
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  const PredictionSet model_ = Draw(kBaselineRows, kBaselineClasses);
  PredictionSet baseline_ = Draw(kBaselineRows, kBaselineClasses, 2);
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(BaselineTest, TheComparisonSurvivesAKillAndAStopWithTheSameBits) {
  Create();
  EXPECT_FALSE(client_->GetCalibration(kBaselineModel).has_comparison());
  for (std::size_t first = 0; first < 300; first += 50) Observe(Rows(first, 50));
  ExpectAnswer(Expected(300));
  const std::string metrics = HttpGet(server_->http_address(), "/metrics").body;
  for (const char* const name : {"", "_lower_bound", "_upper_bound"}) {
    EXPECT_THAT(metrics, HasSubstr(std::string("calibd_baseline_difference") + name +
                                   "{model=\"resnet\",version=\"4\",score=\"brier\"} "));
  }

  // There is no snapshot, so the start replays the log.
  server_->Kill();
  Start();
  ExpectAnswer(Expected(300));
  Observe(Rows(300, 100));
  // A clean stop writes a snapshot.
  ASSERT_EQ(server_->Terminate(), 0);
  Start();
  ExpectAnswer(Expected(400));
  Observe(Rows(400, 200));
  server_->Kill();
  Start();
  ExpectAnswer(Expected(kBaselineRows));
}

TEST_F(BaselineTest, PendingPredictionsKeepTheirBaseline) {
  Create(3600);
  std::vector<std::size_t> labelled;
  v1::ObserveRequest labels;
  labels.set_model(kBaselineModel);
  v1::ObserveRequest predictions = Rows(0, 200);
  v1::Observations& observations = *predictions.mutable_observations();
  observations.clear_labels();
  for (std::size_t i = 0; i < 200; ++i) {
    observations.add_prediction_ids("request-" + std::to_string(i));
    if (i % 3 == 1) continue;
    labelled.push_back(i);
    labels.mutable_labels()->add_prediction_ids(observations.prediction_ids(static_cast<int>(i)));
    labels.mutable_labels()->add_labels(model_.labels[i]);
  }
  Observe(predictions);
  Observe(labels);
  server_->Kill();
  Start();
  const auto pending = [&] {
    return client_->GetCalibration(kBaselineModel).label_arrivals().pending();
  };
  client_->SetLabelGrace(kBaselineModel, ServiceClient::kEndedGrace);
  ASSERT_TRUE(WaitFor([&] { return pending() == 0; }));
  ExpectAnswer(Expected(labelled));
  server_->Kill();
  Start();
  ExpectAnswer(Expected(labelled));
}

TEST_F(BaselineTest, InvalidBaselinesChangeNothing) {
  Create();
  const auto refusal = [&](const v1::ObserveRequest& request) {
    const grpc::Status status = client_->Observe(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  v1::ObserveRequest request = Rows(0, 10);
  request.mutable_observations()->clear_baseline();
  EXPECT_THAT(refusal(request), HasSubstr("baseline_probabilities are not set"));
  request = Rows(0, 10);
  request.mutable_observations()->mutable_baseline_probabilities()->add_values(0.5);
  EXPECT_THAT(refusal(request), HasSubstr("baseline_probabilities has 31 values, expected 30"));
  request = Rows(0, 10);
  request.mutable_observations()->mutable_baseline_probabilities()->set_values(
      4, std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(refusal(request), HasSubstr("rows[1].baseline_probabilities[1] is nan"));
  EXPECT_EQ(client_->GetCalibration(kBaselineModel).observations(), 0);

  client_->CreateFixed("models/plain", kBaselineClasses);
  request = Rows(0, 10);
  request.set_model("models/plain");
  EXPECT_THAT(refusal(request), HasSubstr("the model has no baseline"));
  request.mutable_observations()->clear_baseline();
  Observe(request);
  const auto plain = client_->GetCalibration("models/plain");
  EXPECT_FALSE(plain.has_comparison());
  EXPECT_EQ(plain.observations(), 10);
}

TEST_F(BaselineTest, TheSdkSendsEachRowWithThatOfTheBaseline) {
  Create();
  const auto client = client::Client::Connect(server_->grpc_address());
  ASSERT_TRUE(client.ok()) << client.status();
  client::StreamOptions options;
  options.with_baseline = true;
  options.max_rows_per_batch = 70;
  auto stream = (*client)->OpenStream(kBaselineModel, options);
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::vector<double> rows;
  const auto append = [&rows](const PredictionSet& set, std::size_t i) {
    const auto row = set.view().row(i);
    rows.insert(rows.end(), row.begin(), row.end());
  };
  for (std::size_t i = 0; i < kBaselineRows; ++i) {
    append(model_, i);
    append(baseline_, i);
  }
  const auto kind = client::PredictionKind::kProbabilities;
  absl::Status status = (*stream)->Send(kind, rows, model_.labels);
  ASSERT_TRUE(status.ok()) << status;
  status = (*stream)->Send(kind, std::vector<double>{0.5, 0.25, 0.25, 0.5, 0.25, 0.5}, {{0}});
  EXPECT_THAT(std::string(status.message()), HasSubstr("rows[600].baseline_probabilities sums"));
  EXPECT_FALSE((*stream)->Send(kind, std::vector<double>{0.5, 0.25, 0.25}, {{0}}).ok());
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, static_cast<std::int64_t>(kBaselineRows));
  ExpectAnswer(Expected(kBaselineRows));
}

}  // namespace
}  // namespace calibd::testing
