// A model that forecasts a number, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_forms.h"
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
  // A model with a decision.
  static v1::Model Deciding() {
    v1::Model model = Declared();
    model.mutable_forecast()->mutable_decision()->set_threshold(0.5);
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
  Create(Deciding());
  Send(300, 1, 0);
  EXPECT_EQ(Answer().insufficient_data().needed(), 200);
  EXPECT_THAT(Answer().reading().certain().text(),
              HasSubstr("from which the strata of the forecasts are chosen"));
  Send(40000, 1, 0);
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_FALSE(answer.has_insufficient_data());
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::WITHIN_LIMIT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_THAT(answer.reading().how_bad().text(), Not(HasSubstr(" too ")));
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
  EXPECT_EQ(answer.watch().discrepancy().block_count(), 806);
  EXPECT_EQ(answer.watch().discrepancy().block_size(), 50);
  EXPECT_NEAR(answer.watch().discrepancy().block_mmd_squared(), 0,
              5 * answer.watch().discrepancy().block_standard_error());
  EXPECT_GT(answer.watch().discrepancy().block_one_look_p_value(), 1e-4);
  EXPECT_LT(answer.watch().discrepancy().mmd_upper_bound(), 0.1);
  const v1::DecisionLoss& decision = answer.watch().decision();
  EXPECT_EQ(decision.observations(), 40300);
  EXPECT_EQ(decision.decision().miss_cost(), 1);
  EXPECT_LT(decision.gap_lower_bound(), 0);
  EXPECT_GT(decision.gap_upper_bound(), 0);
  EXPECT_NEAR(decision.realised_loss(), decision.expected_loss(), 0.01);
  EXPECT_FALSE(answer.has_scores());
  EXPECT_EQ(answer.verdict().whereabouts().cells_size(), 24);
}

TEST_F(ForecastTest, WarnsOfRepeatedRowsAndOutcomes) {
  Create(Declared());
  Send(500, 1, 0);
  EXPECT_EQ(Answer().warnings_size(), 0);
  const auto again = [&] {
    auto stream = sdk_->OpenStream(kForecastModel);
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_TRUE((*stream)->SendForecasts(forecasts_, outcomes_).ok());
    ASSERT_TRUE((*stream)->Finish().ok());
  };
  again();
  const v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.warnings_size(), 1);
  EXPECT_THAT(answer.warnings(0),
              HasSubstr("50.0 % of the newest 1000 observations seem to repeat earlier ones: their "
                        "forecasts and outcomes are equal."));
  // A start screens the window again.
  server_->Kill();
  Start();
  ASSERT_EQ(Answer().warnings_size(), 1);
  EXPECT_EQ(Answer().warnings(0), answer.warnings(0));

  ASSERT_TRUE(client_->Delete(kForecastModel).ok());
  Create(Declared());
  Draw(500, 1, 0);
  for (std::size_t i = 0; i < 500; i += 5) outcomes_[i] = forecasts_[2 * i];
  for (std::size_t i = 2; i < 500; i += 10) outcomes_[i] = outcomes_[i - 1];
  again();
  EXPECT_THAT(Answer().warnings(),
              ElementsAre(HasSubstr("20.0 % of the newest 500 outcomes are exactly the middle"),
                          HasSubstr("10.0 % of the newest 500 outcomes equal the outcome before")));
}

TEST_F(ForecastTest, WordsSayWhichWayForecastsAreOff) {
  Create(Deciding());
  // The 90 % intervals reach 1.645 x 0.6 = 0.987, which covers 67.6 %.
  Send(4000, 0.6, 0);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  EXPECT_THAT(answer.reading().how_bad().text(),
              AllOf(HasSubstr("; the 90 % intervals cover 6"), HasSubstr("too narrow")));
  EXPECT_GT(answer.verdict().direction().forecast().scale(), 1.4);
  EXPECT_NEAR(answer.error().since_start().coverage().gap(), 0.9 - 0.676, 0.03);
  ASSERT_EQ(answer.alarms_size(), 3) << answer.DebugString();
  EXPECT_GT(answer.alarms(0).gap(), 0.1);
  EXPECT_EQ(answer.watch().evidence().families_size(), 4);
  EXPECT_EQ(answer.watch().evidence().families(0).name(), "location_scale");
  EXPECT_FALSE(answer.watch().has_effect_size());
  EXPECT_TRUE(answer.watch().has_discrepancy());
  // The forecasts are too sure on which side of the threshold the outcome is.
  EXPECT_GT(answer.watch().decision().gap_lower_bound(), 0);
  EXPECT_THAT(
      HttpGet(server_->http_address(), "/metrics").body,
      ::testing::AllOf(
          HasSubstr("calibd_forecast_decision_gap_lower_bound{model=\"demand\",version=\"\"} 0.0"),
          HasSubstr("calibd_binned_error{model=\"demand\",version=\"\",event=\"coverage\"}"),
          HasSubstr("calibd_forecast_coverage{model=\"demand\",version=\"\","
                    "nominal=\"0.9\"} 0.6"),
          HasSubstr("calibd_forecast_crps{"), Not(HasSubstr("calibd_effect_skce{")),
          Not(HasSubstr("calibd_confidence_minus_accuracy{"))));
  const v1::DecisionLoss before = answer.watch().decision();
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
  EXPECT_THAT(answer.reading().how_bad().text(),
              HasSubstr("on average 0.2 standard deviations too high"));
  v1::GetHistoryRequest history;
  history.set_model(kForecastModel);
  v1::GetHistoryResponse buckets;
  CallContext context;
  ASSERT_TRUE(client_->calibration->GetHistory(&context, history, &buckets).ok());
  EXPECT_EQ(buckets.total().observations(), 44000);
  EXPECT_EQ(buckets.total().forecast().observations(), 44000);
  EXPECT_LT(buckets.total().error().lower(), buckets.total().error().estimate());
  // The acknowledgement does not restart it.
  EXPECT_EQ(buckets.total().decision().observations(), 44000);
  EXPECT_EQ(buckets.total().decision().decision().threshold(), 0.5);
  const auto wrong = [](const v1::DecisionLoss& loss) {
    return loss.realised_loss() * static_cast<double>(loss.observations());
  };
  EXPECT_NEAR(wrong(buckets.total().decision()), wrong(before) + wrong(answer.watch().decision()),
              1e-6);
}

TEST_F(ForecastTest, ABiasOfAFewForecastsIsNotSaid) {
  Create(Declared());
  // The one residual is its own mean, without a standard deviation.
  Send(1, 1, 0.5);
  EXPECT_THAT(Answer().reading().how_bad().text(), Not(HasSubstr("standard deviations too")));
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
    EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
    EXPECT_THAT(answer.reading().how_bad().text(),
                AllOf(HasSubstr("the 90 % intervals"), HasSubstr("too narrow")));
    EXPECT_FALSE(answer.forecast().has_log_score());
    const v1::Discrepancy& discrepancy = answer.watch().discrepancy();
    EXPECT_GT(discrepancy.mmd_squared(), 1e-3);
    EXPECT_EQ(discrepancy.block_count(), 60);
    EXPECT_LT(discrepancy.block_one_look_p_value(), 1e-4);
    // The history has the same blocks.
    v1::GetHistoryRequest history;
    history.set_model(model.name());
    v1::GetHistoryResponse buckets;
    CallContext context;
    ASSERT_TRUE(client_->calibration->GetHistory(&context, history, &buckets).ok());
    EXPECT_EQ(buckets.total().discrepancy_blocks(), 60);
    EXPECT_NEAR(buckets.total().mmd_squared(), discrepancy.block_mmd_squared(), 1e-12);
    EXPECT_NEAR(buckets.total().mmd_squared_standard_error(), discrepancy.block_standard_error(),
                1e-12);
    EXPECT_EQ(buckets.total().pairs(), 0);
    EXPECT_FALSE(buckets.total().has_skce());
    EXPECT_GT(answer.forecast().crps(), 0.1);
  }
}

TEST_F(ForecastTest, AKilledServerContinuesWithTheSameAnswer) {
  v1::Model model = Deciding();
  model.mutable_monitoring()->set_group_tag("region");
  Create(model);
  Send(200, 0.8, 0.1, "north");
  const auto answer = [this] {
    // The mean of a bucket of the history with late rows may differ in its last bits.
    return WithoutReading(Answer());
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

// 1500 of 31500 outcomes are off, too few for the error of all.
TEST_F(ForecastTest, ARecentChangeOfALongLivedModelIsSeen) {
  v1::Model model = Declared();
  model.mutable_monitoring()->set_group_tag("region");
  Create(model);
  Send(30000, 1, 0);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_NE(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(answer.error().newest().first_observation(), 28 * 1024 + 1);
  EXPECT_THAT(answer.reading().now().text(), HasSubstr("over the newest 1328 rows, off by "));
  // The outcomes are 1.5 standard deviations wide, and .2 too low.
  Send(1500, 1 / 1.5, 0.2 / 1.5);
  answer = Answer();
  const v1::CalibrationError& error = answer.error();
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_TRUE(answer.verdict().is_recent());
  EXPECT_LT(error.since_start().coverage().lower(), 0.05);
  EXPECT_NEAR(error.since_start().direction().residual_standard_deviation(), 1, 0.05);
  EXPECT_FALSE(error.has_recent());
  // The newest multiple of 1024 that has 1000 observations after it is 29696, 304 before the
  // change.
  const v1::ErrorMeasurement& newest = error.newest();
  EXPECT_EQ(newest.first_observation(), 29697);
  EXPECT_EQ(newest.observations(), 31500 - 29696);
  EXPECT_TRUE(newest.has_start_time());
  EXPECT_GT(newest.coverage().lower(), 0.05);
  EXPECT_GT(newest.coverage().upper(), newest.coverage().estimate());
  // The 90 % intervals reach 1.645 of 1.5 standard deviations, around a mean that is .2 too low:
  // they cover Phi(.97) - Phi(-1.23) = 72.5 %. One row in six is calibrated: 75.4 % of all.
  ASSERT_EQ(newest.central_coverage_size(), 3);
  EXPECT_NEAR(newest.central_coverage(2).coverage(), 0.754, 0.04);
  EXPECT_LT(newest.central_coverage(2).upper(), 0.9);
  EXPECT_NEAR(newest.direction().residual_mean(), -0.17, 0.15);
  EXPECT_NEAR(newest.direction().residual_standard_deviation(), 1.43, 0.12);
  EXPECT_NEAR(newest.direction().shift(), -0.17, 0.2);
  EXPECT_NEAR(newest.direction().scale(), 1.43, 0.15);
  // The alarm has the interval of the stretch that raised it.
  ASSERT_EQ(answer.alarms(0).kind(), v1::Alarm::OVER_LIMIT);
  EXPECT_TRUE(answer.alarms(0).crossing().is_recent());
  EXPECT_GT(answer.alarms(0).crossing().error().lower(), 0.05);
  EXPECT_THAT(answer.reading().now().text(),
              AllOf(HasSubstr("too narrow"), HasSubstr("standard deviations too high"),
                    Not(HasSubstr("confident"))));
  EXPECT_THAT(
      HttpGet(server_->http_address(), "/metrics").body,
      HasSubstr("calibd_newest_error{model=\"demand\",version=\"\",event=\"coverage\"} 0."));
  EXPECT_FALSE(answer.groups(0).error().has_newest());
  const std::string before = WithoutReading(answer);
  server_->Kill();
  Start();
  EXPECT_EQ(WithoutReading(Answer()), before);
}

TEST_F(ForecastTest, HostileValuesAreRefusedWithTheirPlace) {
  Create(Deciding());
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kMost = std::numeric_limits<double>::max();
  const auto observe = [this](const std::vector<double>& values,
                              const std::vector<double>& outcomes) {
    v1::ObserveRequest request;
    request.set_model(kForecastModel);
    v1::Observations& observations = *request.mutable_observations();
    observations.mutable_forecasts()->mutable_values()->Add(values.begin(), values.end());
    observations.mutable_outcomes()->Add(outcomes.begin(), outcomes.end());
    return client_->Observe(request);
  };
  struct Case {
    std::vector<double> values;
    std::vector<double> outcomes;
    const char* place;
  };
  for (const Case& one :
       {Case{{0, 1, kNan, 1}, {0, 0}, "rows[1]"}, Case{{0, -1}, {0}, "rows[0]"},
        Case{{0, 1}, {kNan}, "rows[0].outcome"}, Case{{0, 1e-301}, {0}, "rows[0]"},
        Case{{-kMost, 1e-300}, {kMost}, "rows[0].outcome"}, Case{{0, 1, 2}, {0, 0}, "forecasts"},
        Case{{}, {}, "forecasts"}, Case{{}, std::vector<double>(70000), "outcomes"}}) {
    const grpc::Status status = observe(one.values, one.outcomes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(one.place));
  }
  // Extreme values that are valid, beside ordinary ones.
  for (int i = 0; i < 20; ++i) {
    std::vector<double> values;
    std::vector<double> outcomes;
    for (int k = 0; k < 50; ++k) {
      const double scale = std::pow(10.0, 6 * k - 150);
      values.insert(values.end(), {scale, scale});
      outcomes.push_back(k % 2 == 0 ? 3 * scale : -scale);
    }
    values.insert(values.end(), {kMost, kMost, 0, kMost});
    outcomes.insert(outcomes.end(), {kMost / 4, kMost});
    EXPECT_TRUE(observe(values, outcomes).ok());
  }
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.observations(), 20 * 52);
  EXPECT_THAT(answer.DebugString(),
              ::testing::AllOf(Not(HasSubstr(": nan")), Not(HasSubstr("inf\n"))));
  server_->Kill();
  Start();
  EXPECT_EQ(WithoutReading(Answer()), WithoutReading(answer));
}

TEST_F(ForecastTest, WatchersAndListsGetTheVerdict) {
  Create(Declared());
  Send(3000, 0.5, 0);
  v1::WatchCalibrationRequest request;
  request.set_model(kForecastModel);
  CallContext context;
  auto watch = client_->calibration->WatchCalibration(&context, request);
  v1::WatchCalibrationResponse change;
  ASSERT_TRUE(watch->Read(&change));
  EXPECT_EQ(change.calibration().verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  context.TryCancel();
  while (watch->Read(&change)) {
  }
  static_cast<void>(watch->Finish());
  v1::ListVerdictsResponse list;
  CallContext list_context;
  ASSERT_TRUE(client_->calibration->ListVerdicts(&list_context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_TRUE(list.models(0).rejected_among_all());
  EXPECT_GT(list.models(0).error().since_start().coverage().lower(), 0.05);
}

TEST_F(ForecastTest, OutcomesMayComeLater) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_seconds(3600);
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
  client_->SetLabelGrace(kForecastModel, ServiceClient::kEndedGrace);
  ASSERT_TRUE(WaitFor([this] { return Answer().label_arrivals().matured() == 3; }));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.observations(), 2);
  EXPECT_EQ(answer.label_arrivals().missing(), 1);
  EXPECT_EQ(answer.label_arrivals().predicted_classes_size(), 0);
  EXPECT_TRUE(std::isfinite(answer.forecast().crps()));
  EXPECT_TRUE(std::isfinite(answer.forecast().residual_mean()));
  EXPECT_TRUE(std::isfinite(answer.forecast().residual_standard_deviation()));
}

// The difference from the mean of the block exceeds the range of double.
TEST_F(ForecastTest, AServerStartsAgainAfterExtremeForecasts) {
  v1::Model model = Declared();
  model.set_window(201);
  Create(model);
  forecasts_.assign(2 * 8220, 1);
  outcomes_.assign(8220, -8.9e307);
  for (std::size_t i = 0; i < 8220; ++i) forecasts_[2 * i] = -8.9e307;
  for (const std::size_t i : {8218U, 8219U}) {
    forecasts_[2 * i] = 1e308;
    outcomes_[i] = 1e308;
  }
  auto stream = sdk_->OpenStream(kForecastModel, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*stream)->SendForecasts(forecasts_, outcomes_).ok());
  ASSERT_TRUE((*stream)->Finish().ok());
  const std::string before = WithoutReading(Answer());
  server_->Kill();
  Start();
  EXPECT_EQ(WithoutReading(Answer()), before);
}

TEST_F(ForecastTest, AnOutcomeByIdThatCannotBeScoredIsMissing) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_seconds(3600);
  Create(model);
  forecasts_ = {0, 1e-300, 0, 1};
  auto stream = sdk_->OpenStream(kForecastModel, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<std::string> ids = {"far", "near"};
  ASSERT_TRUE((*stream)->SendForecastsWithIds(forecasts_, ids).ok());
  ASSERT_TRUE((*stream)->LabelOutcomes(ids, std::vector<double>{1e300, 0.5}).ok());
  ASSERT_TRUE((*stream)->Finish().ok());
  client_->SetLabelGrace(kForecastModel, ServiceClient::kEndedGrace);
  ASSERT_TRUE(WaitFor([this] { return Answer().label_arrivals().matured() == 2; }));
  EXPECT_EQ(Answer().observations(), 1);
  EXPECT_EQ(Answer().label_arrivals().missing(), 1);
  EXPECT_EQ(Answer().forecast().residual_mean(), 0.5);
}

TEST_F(ForecastTest, EvaluateTestsTheWindow) {
  Create(Declared());
  v1::EvaluateRequest request;
  request.set_model(kForecastModel);
  request.set_replicates(99);
  request.set_seed(3);
  EXPECT_EQ(Reason(client_->Evaluate(request, nullptr)), "INSUFFICIENT_DATA");
  Send(600, 1, 0);
  request.set_window(200);
  request.set_threshold(0.5);
  v1::Evaluation evaluation;
  ASSERT_TRUE(client_->Evaluate(request, &evaluation).ok());
  const v1::ForecastEvaluation& forecast = evaluation.forecast();
  EXPECT_EQ(forecast.scores().observations(), 200);
  EXPECT_EQ(forecast.first_observation(), 401);
  EXPECT_EQ(forecast.last_observation(), 600);
  EXPECT_EQ(forecast.seed(), 3);
  EXPECT_EQ(forecast.cramer_von_mises().replicates(), 99);
  ASSERT_EQ(forecast.discrepancies_size(), 4);
  EXPECT_EQ(forecast.discrepancies(3).form(), "decision");
  EXPECT_GT(forecast.decision().expected_loss(), 0);
  EXPECT_DOUBLE_EQ(forecast.decision().calibration_error().value(),
                   std::sqrt(forecast.decision().squared_error()));
  EXPECT_EQ(forecast.decision().calibration_error().replicates(), 99);
  EXPECT_EQ(evaluation.lenses_size(), 0);
  EXPECT_GT(forecast.discrepancies(0).outcome_kernel().rbf().gamma(), 0);
  EXPECT_GT(forecast.discrepancies(0).condition().forecast().gamma(), 0);
  EXPECT_TRUE(forecast.discrepancies(1).condition().has_none());
  v1::EvaluateRequest energy = request;
  energy.mutable_outcome_kernel()->mutable_energy();
  ASSERT_TRUE(client_->Evaluate(energy, &evaluation).ok());
  EXPECT_TRUE(evaluation.forecast().discrepancies(0).outcome_kernel().has_energy());
  // A field of models of classes is refused.
  v1::EvaluateRequest wrong = request;
  wrong.set_cme_test_locations(5);
  EXPECT_THAT(client_->Evaluate(wrong, nullptr).error_message(),
              HasSubstr("cme_test_locations is set, but the model forecasts a number"));
  wrong = request;
  wrong.set_replicates(5);
  EXPECT_THAT(client_->Evaluate(wrong, nullptr).error_message(),
              HasSubstr("replicates is 5, expected 99..100000"));
}

TEST_F(ForecastTest, TheTestIsThatOfTheDistribution) {
  Create(Declared());
  Send(400, 1, 6);
  v1::RunTestRequest request;
  request.set_model(kForecastModel);
  request.set_seed(9);
  request.set_window(300);
  v1::QuadraticTestResult result;
  const grpc::Status status = client_->RunTest(request, &result);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const NumberForecastBatch window{.forecasts = std::span(forecasts_).subspan(200),
                                   .outcomes = std::span(outcomes_).subspan(100)};
  const auto expected = TestForecasts(
      WithKind(NormalForecasts{}, window),
      {.outcome_kernel = {},
       .condition = ForecastCondition(),
       .resampling = {.replicates = 999, .seed = 9, .null = NullHypothesis::kForecast}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(result.skce_unbiased(), expected->mmd_squared);
  EXPECT_EQ(result.skce_biased(), expected->biased_mmd_squared);
  EXPECT_EQ(result.statistic(), expected->statistic);
  EXPECT_EQ(result.p_value(), expected->p_value);
  EXPECT_EQ(result.p_value(), 0.001);
  EXPECT_EQ(result.null(), v1::QuadraticTestResult::FORECAST);
  EXPECT_TRUE(result.outcome_kernel().has_rbf());
  EXPECT_FALSE(result.has_kce_upper_bound() || result.has_p_value_upper_bound_unbiased());
  EXPECT_EQ(result.provenance().lens(), "distribution");
  EXPECT_EQ(result.provenance().first_observation(), 101);
  EXPECT_EQ(result.provenance().observations(), 300);
  // Evaluate has the same test.
  v1::EvaluateRequest evaluate;
  evaluate.set_model(kForecastModel);
  evaluate.set_seed(9);
  evaluate.set_window(300);
  v1::Evaluation evaluation;
  ASSERT_TRUE(client_->Evaluate(evaluate, &evaluation).ok());
  EXPECT_EQ(evaluation.forecast().discrepancies(0).test().p_value(), result.p_value());
  EXPECT_EQ(evaluation.forecast().discrepancies(0).test().value(), result.statistic());

  request.mutable_lens()->mutable_top_label();
  EXPECT_THAT(client_->RunTest(request, &result).error_message(),
              HasSubstr("lens is set, but the model forecasts a number"));
  request.clear_lens();
  request.set_precision(v1::Provenance::FLOAT32);
  EXPECT_THAT(client_->RunTest(request, &result).error_message(), HasSubstr("precision is not"));
  request.clear_precision();
  request.set_replicates(5);
  EXPECT_THAT(client_->RunTest(request, &result).error_message(),
              HasSubstr("replicates is 5, expected 99..100000"));
  request.set_replicates(199);
  request.set_null(v1::QuadraticTestResult::FORM);
  ASSERT_TRUE(client_->RunTest(request, &result).ok());
  EXPECT_EQ(result.null(), v1::QuadraticTestResult::FORM);
  EXPECT_LT(result.p_value(), 0.05);
}

TEST_F(ForecastTest, QuantilesAndSamplesAreTestedToo) {
  v1::Model levels = Declared();
  levels.set_name("models/levels");
  for (const double level : {0.25, 0.5, 0.75}) {
    levels.mutable_forecast()->mutable_quantiles()->add_levels(level);
  }
  Create(levels);
  v1::Model draws = Declared();
  draws.set_name("models/draws");
  draws.mutable_forecast()->mutable_samples()->set_draws(3);
  Create(draws);
  for (const std::string name : {"models/levels", "models/draws"}) {
    v1::ObserveRequest observe;
    observe.set_model(name);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 400; ++i) {
      // The middle half of the true distribution, and draws from it.
      const bool quantiles = name == "models/levels";
      for (const double z : {-0.6744897501960817, 0.0, 0.6744897501960817}) {
        observe.mutable_observations()->mutable_forecasts()->add_values(
            quantiles ? z : normal(random_));
      }
      observe.mutable_observations()->add_outcomes(normal(random_));
    }
    ASSERT_TRUE(client_->Observe(observe).ok());
    v1::RunTestRequest request;
    request.set_model(name);
    request.set_seed(1);
    v1::QuadraticTestResult result;
    const grpc::Status status = client_->RunTest(request, &result);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_GT(result.p_value(), 0.01) << name;
    EXPECT_EQ(result.outcome_kernel().has_levels(), name == "models/levels");
    request.set_null(v1::QuadraticTestResult::FORM);
    EXPECT_EQ(client_->RunTest(request, &result).ok(), name == "models/levels");
  }
}

TEST_F(ForecastTest, WhatNeedsClassesSaysWhatToDo) {
  Create(Declared());
  Send(600, 1, 0);
  const auto refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Reason(status), "FORECAST_MODEL");
    EXPECT_THAT(status.error_message(), HasSubstr("calibctl show"));
  };
  v1::EstimateCalibrationErrorRequest estimate;
  estimate.set_model(kForecastModel);
  refused(client_->EstimateCalibrationError(estimate, nullptr));
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
  const std::string before = WithoutReading(Answer());
  server_->Kill();
  Start();
  EXPECT_EQ(WithoutReading(Answer()), before);
  v1::Model other = Declared();
  other.mutable_forecast()->mutable_samples()->set_draws(3);
  EXPECT_EQ(client_->Create(other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  other.clear_forecast();
  other.mutable_classes()->set_count(2);
  EXPECT_EQ(client_->Create(other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(client_->Create(Declared()).ok());
}

}  // namespace
}  // namespace calibd::testing
