// Features of the cases and groups in the window of a model, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/forecast_evaluation.h"
#include "calibd/core/individual_calibration.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRows = 400;
constexpr int kBatch = 50;

// Standard normal outcomes whose sign is that of the first feature, so that N(0, 1) is right over
// all cases and wrong for each.
struct Cases {
  Cases() {
    std::mt19937_64 rng(3);
    std::normal_distribution<double> normal;
    for (int i = 0; i < kRows; ++i) {
      const double temperature = normal(rng);
      features.insert(features.end(), {temperature, normal(rng)});
      forecasts.insert(forecasts.end(), {0, 1});
      outcomes.push_back(std::copysign(normal(rng), temperature));
      groups.push_back(i % 3);
      const double p = 0.5;
      probabilities.insert(probabilities.end(), {p, 1 - p});
      labels.push_back(outcomes.back() > 0 ? 1 : 0);
    }
  }

  [[nodiscard]] static std::string IdOf(int i) { return "case-" + std::to_string(i); }

  // The rows of one batch, as forecasts or as predictions of two classes.
  [[nodiscard]] v1::Observations Batch(int first, bool classes) const {
    v1::Observations observations;
    for (int i = first; i < first + kBatch; ++i) {
      const auto row = static_cast<std::size_t>(i);
      auto& values =
          classes ? *observations.mutable_probabilities() : *observations.mutable_forecasts();
      const std::vector<double>& from = classes ? probabilities : forecasts;
      for (const std::size_t k : {2 * row, 2 * row + 1}) {
        values.add_values(from[k]);
        observations.mutable_features()->add_values(features[k]);
      }
      if (classes) {
        observations.add_labels(labels[row]);
      } else {
        observations.add_prediction_ids(IdOf(i));
        observations.add_group_values("site-" + std::to_string(groups[row]));
      }
    }
    return observations;
  }

  std::vector<double> features, forecasts, outcomes, probabilities;
  std::vector<std::int32_t> groups, labels;
};

class FeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }
  void KillAndStart() {
    server_->Kill();
    Start();
  }

  static v1::Model WithFeatures() {
    v1::Model model;
    model.set_name("models/demand");
    model.add_feature_names("temperature");
    model.add_feature_names("noise");
    return model;
  }
  static v1::Model Forecasting() {
    v1::Model model = WithFeatures();
    model.mutable_forecast()->mutable_normal();
    model.mutable_label_grace()->set_seconds(3600);
    model.mutable_monitoring()->set_group_tag("site");
    return model;
  }

  void Send(v1::ObserveRequest request) {
    request.set_model("models/demand");
    const grpc::Status status = client_->Observe(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  v1::Evaluation Evaluate(const std::vector<std::string>& local_features = {}) {
    v1::EvaluateRequest request;
    request.set_model("models/demand");
    request.set_seed(5);
    request.set_replicates(199);
    request.mutable_local_features()->Add(local_features.begin(), local_features.end());
    v1::Evaluation evaluation;
    const grpc::Status status = client_->Evaluate(request, &evaluation);
    EXPECT_TRUE(status.ok()) << status.error_message();
    evaluation.clear_elapsed();
    return evaluation;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  const Cases cases_;
};

TEST_F(FeaturesTest, ForecastsAreEvaluatedByFeaturesAndGroupsOfTheWindow) {
  ASSERT_TRUE(client_->Create(Forecasting()).ok());
  for (int first = 0; first < kRows; first += kBatch) {
    v1::ObserveRequest predictions;
    *predictions.mutable_observations() = cases_.Batch(first, /*classes=*/false);
    Send(predictions);
    // The outcomes come later, and after a crash.
    if (first == 2 * kBatch) KillAndStart();
  }
  v1::ObserveRequest later;
  for (int i = 0; i < kRows; ++i) {
    later.mutable_labels()->add_prediction_ids(Cases::IdOf(i));
    later.mutable_labels()->add_outcomes(cases_.outcomes[static_cast<std::size_t>(i)]);
  }
  Send(later);
  client_->SetLabelGrace("models/demand", ServiceClient::kEndedGrace);
  ASSERT_TRUE(
      WaitFor([&] { return client_->GetCalibration("models/demand").observations() == kRows; }));

  v1::ForecastEvaluation served = Evaluate({"noise"}).forecast();
  ForecastEvaluationOptions options;
  options.resampling = {.replicates = 199, .seed = 5, .null = NullHypothesis::kForecast};
  const auto expected =
      EvaluateForecasts(NormalForecasts(), {cases_.forecasts, cases_.outcomes}, options,
                        {.groups = cases_.groups,
                         .features = cases_.features,
                         .feature_count = 2,
                         .local_features = {1}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(served.discrepancies_size(), 5);
  for (int k = 0; k < 5; ++k) {
    const NamedDiscrepancy& one = expected->discrepancies[static_cast<std::size_t>(k)];
    EXPECT_EQ(served.discrepancies(k).form(), one.form);
    EXPECT_NEAR(served.discrepancies(k).mmd_squared(), one.result.mmd_squared, 1e-12);
    EXPECT_EQ(served.discrepancies(k).test().p_value(), one.result.p_value) << one.form;
  }
  EXPECT_EQ(served.discrepancies(3).test().p_value(), 1.0 / 200);
  EXPECT_THAT(served.local().feature_names(), ElementsAre("noise"));
  EXPECT_NEAR(served.local().mean_error().value(), expected->local->mean_error.value, 1e-12);
  ASSERT_EQ(served.local().places_size(), 5);
  const LocalPlace& worst = expected->local->worst.front();
  EXPECT_THAT(served.local().places(0).features(), ElementsAre(cases_.features[2 * worst.row + 1]));

  // Without local features, the errors are found by all.
  const v1::ForecastEvaluation all = Evaluate().forecast();
  EXPECT_THAT(all.local().feature_names(), ElementsAre("temperature", "noise"));
  EXPECT_EQ(all.local().places(0).p_value(), 1.0 / 200);

  // Another kernel, in every form.
  v1::EvaluateRequest request;
  request.set_model("models/demand");
  request.set_seed(5);
  request.set_replicates(99);
  request.set_threshold(0.5);
  request.set_threshold_alpha(0.3);
  request.mutable_outcome_kernel()->mutable_tanh()->set_width(2);
  v1::Evaluation by_tanh;
  ASSERT_TRUE(client_->Evaluate(request, &by_tanh).ok());
  std::vector<std::string> forms;
  for (const auto& one : by_tanh.forecast().discrepancies()) {
    forms.push_back(one.form());
    EXPECT_EQ(one.test().replicates(), 99) << one.form();
    if (one.form() == "threshold") {
      EXPECT_EQ(one.outcome_kernel().pit_rbf().gamma(), 2);
    } else if (one.form() != "decision") {
      EXPECT_EQ(one.outcome_kernel().tanh().width(), 2) << one.form();
    }
  }
  EXPECT_THAT(forms, ElementsAre("distribution", "decision_marginal", "group", "individual",
                                 "threshold", "decision"));
  EXPECT_GT(by_tanh.forecast().discrepancies(3).condition().features().gamma(), 0);
  request.set_threshold_alpha(1);
  const grpc::Status refused = client_->Evaluate(request, &by_tanh);
  EXPECT_THAT(refused.error_message(), HasSubstr("threshold_alpha"));

  // The window is read from the log after another crash.
  KillAndStart();
  v1::ForecastEvaluation again = Evaluate({"noise"}).forecast();
  served.clear_compute_time();
  again.clear_compute_time();
  EXPECT_EQ(again.SerializeAsString(), served.SerializeAsString());
}

TEST_F(FeaturesTest, ClassesAreEvaluatedAmongSimilarCases) {
  v1::Model model = WithFeatures();
  model.mutable_classes()->set_count(2);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  ASSERT_TRUE(client_->Create(model).ok());
  for (int first = 0; first < kRows; first += kBatch) {
    v1::ObserveRequest request;
    *request.mutable_observations() = cases_.Batch(first, /*classes=*/true);
    Send(request);
  }
  const v1::Evaluation evaluation = Evaluate();
  const auto expected =
      TestIndividual({cases_.probabilities, cases_.labels, 2}, cases_.features, 2,
                     {.replicates = 199, .seed = 5, .null = NullHypothesis::kForecast});
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_NEAR(evaluation.individual().mmd_squared(), expected->mmd_squared, 1e-12);
  EXPECT_EQ(evaluation.individual().test().p_value(), expected->p_value);
  EXPECT_EQ(expected->p_value, 1.0 / 200);
}

TEST_F(FeaturesTest, FeaturesThatNeverDifferAreNoErrorOfTheEvaluation) {
  v1::Model model = WithFeatures();
  model.mutable_classes()->set_count(2);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  ASSERT_TRUE(client_->Create(model).ok());
  v1::ObserveRequest request;
  *request.mutable_observations() = cases_.Batch(0, /*classes=*/true);
  for (double& value : *request.mutable_observations()->mutable_features()->mutable_values()) {
    value = 1;
  }
  Send(request);
  const v1::Evaluation evaluation = Evaluate();
  EXPECT_GT(evaluation.lenses_size(), 0);
  EXPECT_THAT(evaluation.individual().left_out_reason(), HasSubstr("the same value in all rows"));
}

TEST_F(FeaturesTest, RequestsNameDeclaredFeatures) {
  ASSERT_TRUE(client_->Create(Forecasting()).ok());
  const auto fault = [&](const std::vector<std::string>& names) {
    v1::EvaluateRequest request;
    request.set_model("models/demand");
    request.mutable_local_features()->Add(names.begin(), names.end());
    v1::Evaluation evaluation;
    return client_->Evaluate(request, &evaluation).error_message();
  };
  EXPECT_THAT(fault({"wind"}),
              HasSubstr("local_features[0] is \"wind\", expected one of the model's "
                        "feature_names: temperature, noise"));
  EXPECT_THAT(fault({"noise", "noise"}), HasSubstr("local_features[1] is \"noise\" again"));
}

// The median is right over all cases, and wrong among similar ones.
TEST_F(FeaturesTest, QuantilesAreEvaluatedByFeatures) {
  v1::Model model = WithFeatures();
  model.mutable_forecast()->mutable_quantiles()->add_levels(0.5);
  ASSERT_TRUE(client_->Create(model).ok());
  v1::ObserveRequest request;
  v1::Observations& observations = *request.mutable_observations();
  for (std::size_t i = 0; i < kRows; ++i) {
    observations.mutable_forecasts()->add_values(0);
    observations.add_outcomes(cases_.outcomes[i]);
    observations.mutable_features()->add_values(cases_.features[2 * i]);
    observations.mutable_features()->add_values(cases_.features[2 * i + 1]);
  }
  Send(request);
  std::map<std::string, double> p_values;
  const v1::Evaluation evaluation = Evaluate();
  for (const auto& one : evaluation.forecast().discrepancies()) {
    p_values[one.form()] = one.test().p_value();
  }
  ASSERT_TRUE(p_values.contains("individual"));
  EXPECT_EQ(p_values["individual"], 1.0 / 200);
  EXPECT_GT(evaluation.forecast().level_error().p_value(), 0.01);
}

}  // namespace
}  // namespace calibd::testing
