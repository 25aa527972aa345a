// A model that forecasts a number, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kForecastModel[] = "models/demand";

class ForecastTest : public ::testing::Test {
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
    model.set_name(kForecastModel);
    model.mutable_forecast()->mutable_normal();
    return model;
  }

  void Create(const v1::Model& model) {
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  // n forecasts N(mean + shift, sd) of outcomes from N(mean, 1).
  void Draw(std::size_t n, double sd, double shift) {
    std::normal_distribution<double> normal;
    forecasts_.clear();
    outcomes_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = 10 * normal(random_);
      forecasts_.insert(forecasts_.end(), {mean + shift, sd});
      outcomes_.push_back(mean + normal(random_));
    }
  }

  // Sends them by the SDK.
  void Send(std::size_t n, double sd, double shift, const std::string& group = "") {
    Draw(n, sd, shift);
    auto stream = sdk_->OpenStream(kForecastModel, {.max_rows_per_batch = 300});
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_TRUE((*stream)->SetGroup(group).ok());
    const absl::Status sent = (*stream)->SendForecasts(forecasts_, outcomes_);
    ASSERT_TRUE(sent.ok()) << sent;
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->accepted_rows, static_cast<std::int64_t>(n));
  }

  v1::GetCalibrationResponse Answer() { return client_->GetCalibration(kForecastModel); }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  std::unique_ptr<client::Client> sdk_;
  std::mt19937_64 random_{5};
  std::vector<double> forecasts_;
  std::vector<double> outcomes_;
};

TEST_F(ForecastTest, CalibratedForecastsAreWithinTheLimit) {
  Create(Declared());
  Send(300, 1, 0);
  EXPECT_EQ(Answer().insufficient_data().needed(), 200);
  EXPECT_THAT(Answer().verdict().summary(), HasSubstr("the strata of the forecasts are chosen"));
  Send(40000, 1, 0);
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_FALSE(answer.has_insufficient_data());
  EXPECT_EQ(answer.verdict().limit_status(), v1::LIMIT_STATUS_WITHIN_LIMIT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_NOT_REJECTED);
  EXPECT_THAT(answer.verdict().summary(), Not(HasSubstr("The ")));
  EXPECT_EQ(answer.error().limit(), 0.05);
  const v1::ErrorMeasurement& error = answer.error().since_start();
  EXPECT_EQ(error.observations(), 40300);
  EXPECT_FALSE(error.has_top_label());
  ASSERT_EQ(error.central_coverage_size(), 3);
  EXPECT_NEAR(error.central_coverage(2).coverage(), 0.9, 0.01);
  // E CRPS of N(0, 1) is 1 / sqrt(pi), and the mean log score its entropy.
  EXPECT_NEAR(answer.forecast().crps(), 1 / std::sqrt(M_PI), 0.02);
  EXPECT_NEAR(answer.forecast().log_score(), 0.5 * std::log(2 * M_PI * M_E), 0.02);
  EXPECT_NEAR(answer.forecast().residual_standard_deviation(), 1, 0.02);
  EXPECT_NEAR(answer.watch().discrepancy().mmd_squared(), 0, 1e-3);
  EXPECT_EQ(answer.watch().discrepancy().mmd_lower_bound(), 0);
  EXPECT_LT(answer.watch().discrepancy().mmd_upper_bound(), 0.1);
  EXPECT_FALSE(answer.has_scores());
  EXPECT_EQ(answer.verdict().whereabouts().cells_size(), 24);
}

TEST_F(ForecastTest, WordsSayWhichWayForecastsAreOff) {
  Create(Declared());
  // The 90 % intervals reach 1.645 x 0.6 = 0.987, which covers 67.6 %.
  Send(4000, 0.6, 0);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::LIMIT_STATUS_OVER_LIMIT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STATUS_MISCALIBRATED);
  EXPECT_THAT(answer.verdict().summary(),
              HasSubstr("The intervals are too narrow: the 90 % intervals cover 6"));
  EXPECT_GT(answer.verdict().direction().forecast().scale(), 1.4);
  EXPECT_NEAR(answer.error().since_start().coverage().gap(), 0.9 - 0.676, 0.03);
  ASSERT_EQ(answer.alarms_size(), 3) << answer.DebugString();
  EXPECT_GT(answer.alarms(0).gap(), 0.1);
  EXPECT_EQ(answer.watch().evidence().families_size(), 4);
  EXPECT_EQ(answer.watch().evidence().families(0).name(), "location_scale");
  EXPECT_FALSE(answer.watch().has_effect_size());
  EXPECT_TRUE(answer.watch().has_discrepancy());
  EXPECT_THAT(
      HttpGet(server_->http_address(), "/metrics").body,
      ::testing::AllOf(
          HasSubstr("calibd_binned_error{model=\"demand\",version=\"\",event=\"coverage\"}"),
          HasSubstr("calibd_forecast_coverage{model=\"demand\",version=\"\","
                    "nominal=\"0.9\"} 0.6"),
          HasSubstr("calibd_forecast_crps{"), Not(HasSubstr("calibd_effect_skce{")),
          Not(HasSubstr("calibd_confidence_minus_accuracy{"))));
  // The acknowledgement restarts the measurement.
  v1::AcknowledgeAlarmRequest request;
  request.set_model(kForecastModel);
  for (const v1::Alarm& alarm : answer.alarms()) {
    request.set_alarm_id(alarm.id());
    v1::AcknowledgeAlarmResponse response;
    CallContext context;
    ASSERT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
  }
  Send(40000, 1, 0.2);
  answer = Answer();
  EXPECT_EQ(answer.error().since_acknowledgement().observations(), 40000);
  EXPECT_THAT(answer.verdict().summary(),
              HasSubstr("The forecasts are 0.2 standard deviations too high."));
  v1::GetHistoryRequest history;
  history.set_model(kForecastModel);
  v1::GetHistoryResponse buckets;
  CallContext context;
  ASSERT_TRUE(client_->calibration->GetHistory(&context, history, &buckets).ok());
  EXPECT_EQ(buckets.total().observations(), 44000);
  EXPECT_EQ(buckets.total().forecast().observations(), 44000);
  EXPECT_LT(buckets.total().error().lower(), buckets.total().error().estimate());
}

TEST_F(ForecastTest, QuantilesAndSamplesAreJudged) {
  for (const bool samples : {false, true}) {
    v1::Model model = Declared();
    model.set_name(samples ? "models/samples" : "models/quantiles");
    for (const double level : {0.05, 0.5, 0.95}) {
      if (!samples) model.mutable_forecast()->mutable_quantiles()->add_levels(level);
    }
    if (samples) model.mutable_forecast()->mutable_samples()->set_draws(19);
    Create(model);
    std::normal_distribution<double> normal;
    std::vector<double> values;
    std::vector<double> outcomes;
    for (int i = 0; i < 3000; ++i) {
      if (samples) {
        for (int k = 0; k < 19; ++k) values.push_back(0.5 * normal(random_));
      } else {
        values.insert(values.end(), {-0.8224, 0, 0.8224});
      }
      outcomes.push_back(normal(random_));
    }
    auto stream = sdk_->OpenStream(model.name(), {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ((*stream)->row_width(), samples ? 19U : 3U);
    ASSERT_TRUE((*stream)->SendForecasts(values, outcomes).ok());
    ASSERT_TRUE((*stream)->Finish().ok());
    const v1::GetCalibrationResponse answer = client_->GetCalibration(model.name());
    EXPECT_EQ(answer.verdict().limit_status(), v1::LIMIT_STATUS_OVER_LIMIT);
    EXPECT_THAT(answer.verdict().summary(), HasSubstr("The intervals are too narrow: the 90 %"));
    EXPECT_FALSE(answer.forecast().has_log_score());
    EXPECT_EQ(answer.watch().has_discrepancy(), samples);
    if (samples) {
      EXPECT_GT(answer.watch().discrepancy().mmd_squared(), 1e-3);
    }
    EXPECT_GT(answer.forecast().crps(), 0.1);
  }
}

TEST_F(ForecastTest, AKilledServerContinuesWithTheSameAnswer) {
  v1::Model model = Declared();
  model.mutable_monitoring()->set_group_tag("region");
  Create(model);
  Send(200, 0.8, 0.1, "north");
  const auto answer = [this] {
    // The mean of a bucket of the history with late rows may differ in its last bits.
    return Answer().DebugString();
  };
  const auto restart = [this] {
    server_->Kill();
    Start();
  };
  std::string before = answer();
  restart();
  EXPECT_EQ(answer(), before) << "during the warm-up";
  Send(10000, 0.8, 0.1, "south");
  Send(777, 0.8, 0.1, "north");
  before = answer();
  EXPECT_EQ(Answer().groups_size(), 2);
  EXPECT_EQ(Answer().groups(0).forecast().observations(), 10000);
  EXPECT_TRUE(Answer().groups(0).rejected());
  restart();
  EXPECT_EQ(answer(), before);
}

TEST_F(ForecastTest, OutcomesMayComeLater) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_seconds(2);
  model.mutable_monitoring()->set_disabled(true);
  Create(model);
  Draw(3, 1, 0);
  auto stream = sdk_->OpenStream(kForecastModel, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<std::string> ids = {"a", "b", "c"};
  ASSERT_TRUE((*stream)->SendForecastsWithIds(forecasts_, ids).ok());
  const std::vector<double> first = {outcomes_[0], 1e308};
  ASSERT_TRUE((*stream)->LabelOutcomes(std::vector<std::string>{"a", "c"}, first).ok());
  ASSERT_TRUE((*stream)->Flush().ok());
  const std::vector<double> again = {outcomes_[0], 7};
  ASSERT_TRUE((*stream)->LabelOutcomes(std::vector<std::string>{"a", "c"}, again).ok());
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->labels.matched, 2);
  EXPECT_EQ(counts->labels.repeated, 1);
  EXPECT_EQ(counts->labels.conflicting, 1);
  server_->Kill();
  Start();
  ASSERT_TRUE(WaitFor([this] { return Answer().label_coverage().matured() == 3; }));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.observations(), 2);
  EXPECT_EQ(answer.label_coverage().missing(), 1);
  EXPECT_EQ(answer.label_coverage().predicted_classes_size(), 0);
  EXPECT_TRUE(std::isfinite(answer.forecast().crps()));
  EXPECT_TRUE(std::isfinite(answer.forecast().residual_mean()));
  EXPECT_TRUE(std::isfinite(answer.forecast().residual_standard_deviation()));
}

TEST_F(ForecastTest, WhatNeedsClassesSaysWhatToDo) {
  Create(Declared());
  Send(600, 1, 0);
  const auto refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Reason(status), "FORECAST_MODEL");
    EXPECT_THAT(status.error_message(), HasSubstr("calibctl show"));
  };
  v1::RunTestRequest test;
  test.set_model(kForecastModel);
  refused(client_->RunTest(test, nullptr));
  v1::EvaluateRequest evaluate;
  evaluate.set_model(kForecastModel);
  refused(client_->Evaluate(evaluate, nullptr));
  v1::RecalibrateRequest recalibrate;
  recalibrate.set_model(kForecastModel);
  refused(client_->Recalibrate(recalibrate, nullptr));
  v1::EstimateCalibrationErrorRequest estimate;
  estimate.set_model(kForecastModel);
  refused(client_->EstimateCalibrationError(estimate, nullptr));
  v1::CompareModelsRequest compare;
  compare.set_model(kForecastModel);
  compare.set_baseline(kForecastModel);
  refused(client_->CompareModels(compare, nullptr));
  auto stream = sdk_->OpenStream(kForecastModel, {});
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ((*stream)
                ->Send(client::PredictionKind::kProbabilities, std::vector<double>{0.5, 0.5},
                       std::vector<std::int32_t>{1})
                .code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string((*stream)
                      ->SendForecasts(std::vector<double>{0, 1, 2, -1}, std::vector<double>{0, 0})
                      .message()),
      HasSubstr("rows[1].forecasts[1] is -1"));
}

TEST_F(ForecastTest, SettingsCanBeUpdatedButNotTheKind) {
  Create(Declared());
  Send(600, 1, 0);
  v1::UpdateModelRequest request;
  request.mutable_model()->set_name(kForecastModel);
  request.mutable_model()->mutable_monitoring()->set_error_limit(0.1);
  request.mutable_model()->mutable_monitoring()->set_tolerance(1e-4);
  request.mutable_update_mask()->add_paths("monitoring.error_limit");
  request.mutable_update_mask()->add_paths("monitoring.tolerance");
  v1::UpdateModelResponse response;
  CallContext context;
  const grpc::Status status = client_->models->UpdateModel(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.model().forecast().has_normal());
  Send(700, 1, 0);
  EXPECT_EQ(Answer().error().limit(), 0.1);
  EXPECT_EQ(Answer().watch().observations(), 700);
  const std::string before = Answer().DebugString();
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().DebugString(), before);
  v1::Model other = Declared();
  other.mutable_forecast()->mutable_samples()->set_draws(3);
  EXPECT_EQ(client_->Create(other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  other.clear_forecast();
  other.set_class_count(2);
  EXPECT_EQ(client_->Create(other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(client_->Create(Declared()).ok());
}

}  // namespace
}  // namespace calibd::testing
