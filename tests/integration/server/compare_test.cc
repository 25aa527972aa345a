// CompareModels over the wire: which observations are compared, and that the scores are the core's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "calibd/core/comparison.h"
#include "calibd/core/forecast_comparison.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kNew[] = "models/m/versions/2";
constexpr char kOld[] = "models/m/versions/1";
constexpr std::size_t kCompareClasses = 3;

std::vector<std::size_t> Range(std::size_t first, std::size_t count) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

PredictionSet RowsOf(const PredictionSet& set, const std::vector<std::size_t>& rows) {
  PredictionSet chosen;
  chosen.class_count = set.class_count;
  for (const std::size_t i : rows) {
    const auto values = set.view().row(i);
    chosen.probabilities.insert(chosen.probabilities.end(), values.begin(), values.end());
    chosen.labels.push_back(set.labels[i]);
  }
  return chosen;
}

void ExpectScore(const v1::ScoreDifference& score, const ScoreDifference& expected) {
  EXPECT_EQ(score.model(), expected.model);
  EXPECT_EQ(score.baseline(), expected.baseline);
  EXPECT_EQ(score.difference(), expected.difference);
  EXPECT_EQ(score.lower(), expected.lower);
  EXPECT_EQ(score.upper(), expected.upper);
}

void ExpectScores(const v1::Comparison& comparison, const Comparison& expected) {
  ExpectScore(comparison.log_loss(), expected.log_loss);
  ExpectScore(comparison.brier(), expected.brier);
  ExpectScore(comparison.binned_error(), expected.binned_error);
}

class CompareTest : public ::testing::Test {
 protected:
  enum class Ids { kNone, kWithLabels, kLabelledLater };

  void SetUp() override {
    // Two models scored the same observations.
    new_ = Draw(400, kCompareClasses, 1);
    old_ = Draw(400, kCompareClasses, 2);
    old_.labels = new_.labels;
    Start();
  }

  void Start(std::vector<std::string> arguments = {}) {
    client_.reset();
    arguments.insert(arguments.end(), {"--data-dir", data_});
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  void Create(const std::string& name, Ids ids, const std::vector<std::string>& class_names = {}) {
    v1::Model model;
    model.set_name(name);
    model.mutable_classes()->set_count(kCompareClasses);
    model.mutable_classes()->mutable_names()->Add(class_names.begin(), class_names.end());
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    if (ids != Ids::kNone) model.mutable_label_grace()->set_seconds(3600);
    model.set_labels_come_with_predictions(ids == Ids::kWithLabels);
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  void Observe(const v1::ObserveRequest& request) {
    const grpc::Status status = client_->Observe(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  void Send(const std::string& model, const PredictionSet& set,
            const std::vector<std::size_t>& rows, Ids ids) {
    v1::ObserveRequest request;
    request.set_model(model);
    v1::Observations& observations = *request.mutable_observations();
    observations = ToProto(RowsOf(set, rows).view());
    if (ids == Ids::kLabelledLater) observations.clear_labels();
    for (const std::size_t i : rows) {
      if (ids != Ids::kNone) observations.add_prediction_ids("request-" + std::to_string(i));
    }
    Observe(request);
  }

  void Label(const std::string& model, const std::vector<std::size_t>& rows,
             std::int32_t shift = 0) {
    v1::ObserveRequest request;
    request.set_model(model);
    for (const std::size_t i : rows) {
      request.mutable_labels()->add_prediction_ids("request-" + std::to_string(i));
      request.mutable_labels()->add_labels((new_.labels[i] + shift) %
                                           static_cast<std::int32_t>(kCompareClasses));
    }
    Observe(request);
  }

  grpc::Status Compare(v1::ModelComparison& result, int window = 0, const std::string& model = kNew,
                       const std::string& baseline = kOld) {
    v1::CompareModelsRequest request;
    request.set_model(model);
    request.set_baseline(baseline);
    request.set_window(window);
    return client_->CompareModels(request, &result);
  }

  v1::ModelComparison Compared(int window = 0) {
    v1::ModelComparison result;
    const grpc::Status status = Compare(result, window);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return result;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  PredictionSet new_;
  PredictionSet old_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(CompareTest, PairsPredictionsByIdWhoseLabelsComeLaterAlsoAfterACrash) {
  for (const char* const model : {kNew, kOld}) Create(model, Ids::kLabelledLater);
  Send(kNew, new_, Range(0, 200), Ids::kLabelledLater);
  Send(kNew, new_, Range(200, 100), Ids::kLabelledLater);
  // The other model has another order, and partly other predictions.
  Send(kOld, old_, Range(150, 200), Ids::kLabelledLater);
  Send(kOld, old_, Range(50, 100), Ids::kLabelledLater);
  Label(kNew, Range(0, 300));
  Label(kOld, {60, 170}, 1);
  Label(kOld, Range(50, 10));
  Label(kOld, Range(61, 109));
  // 340 and above stay without a label.
  Label(kOld, Range(171, 169));
  for (const char* const model : {kNew, kOld}) {
    client_->SetLabelGrace(model, ServiceClient::kEndedGrace);
    ASSERT_TRUE(
        WaitFor([&] { return client_->GetCalibration(model).label_arrivals().pending() == 0; }));
  }
  std::vector<std::size_t> pairs;
  for (std::size_t i = 50; i < 300; ++i) {
    if (i != 60 && i != 170) pairs.push_back(i);
  }
  const auto expected = ComparePaired(RowsOf(new_, pairs).view(), RowsOf(old_, pairs).view());
  ASSERT_TRUE(expected.ok());
  const auto check = [&] {
    const v1::ModelComparison result = Compared();
    EXPECT_TRUE(result.comparison().paired());
    EXPECT_EQ(result.comparison().observations(), 248);
    EXPECT_EQ(result.comparison().baseline_observations(), 248);
    ExpectScores(result.comparison(), *expected);
    EXPECT_EQ(result.comparison().level(), 0.05);
    EXPECT_FALSE(result.comparison().repeated_looks_valid()) << "the orders differ";
    EXPECT_EQ(result.pairing().label_conflicts(), 2);
    EXPECT_EQ(result.pairing().only_in_model(), 50);
    EXPECT_EQ(result.pairing().only_in_baseline(), 40);
    EXPECT_EQ(result.pairing().model_without_id(), 0);
    EXPECT_EQ(result.pairing().baseline_without_id(), 0);
    EXPECT_EQ(result.first_observation(), 1);
    EXPECT_EQ(result.baseline_first_observation(), 1);
    EXPECT_GT(result.compute_time().seconds(), 0);
  };
  check();
  server_->Kill();
  Start();
  check();
}

TEST_F(CompareTest, SaysWhetherTheIntervalsHoldForRepeatedLooks) {
  for (const char* const model : {kNew, kOld}) Create(model, Ids::kWithLabels);
  Send(kNew, new_, Range(0, 300), Ids::kWithLabels);
  Send(kOld, old_, Range(100, 300), Ids::kWithLabels);
  const auto pairs = Range(100, 200);
  const auto expected = ComparePaired(RowsOf(new_, pairs).view(), RowsOf(old_, pairs).view());
  v1::ModelComparison result = Compared();
  ExpectScores(result.comparison(), *expected);
  EXPECT_TRUE(result.comparison().repeated_looks_valid());

  // The newest 250 of each: 50..299 and 150..399.
  result = Compared(250);
  EXPECT_EQ(result.comparison().observations(), 150);
  EXPECT_FALSE(result.comparison().repeated_looks_valid());
  EXPECT_EQ(result.first_observation(), 51);
  EXPECT_EQ(result.baseline_first_observation(), 51);
  // After a stop, the windows are read from the log.
  server_->Kill();
  Start();
  EXPECT_EQ(Compared(250).comparison().observations(), 150);
}

TEST_F(CompareTest, WithoutCommonIdsAllObservationsAreCompared) {
  Create(kNew, Ids::kNone);
  Create(kOld, Ids::kWithLabels);
  Send(kNew, new_, Range(0, 300), Ids::kNone);
  Send(kOld, old_, Range(100, 200), Ids::kWithLabels);
  v1::ModelComparison result = Compared();
  EXPECT_FALSE(result.comparison().paired());
  EXPECT_EQ(result.comparison().observations(), 300);
  EXPECT_EQ(result.comparison().baseline_observations(), 200);
  EXPECT_TRUE(result.comparison().repeated_looks_valid());
  EXPECT_EQ(result.pairing().model_without_id(), 300);
  EXPECT_EQ(result.pairing().only_in_model(), 0);
  EXPECT_EQ(result.pairing().only_in_baseline(), 200);
  ExpectScores(result.comparison(),
               *CompareUnpaired(new_.view().rows(0, 300), old_.view().rows(100, 200)));

  // The only common ids have other labels.
  const std::string third = "models/third";
  Create(third, Ids::kWithLabels);
  PredictionSet relabelled = new_;
  for (std::int32_t& label : relabelled.labels) label = (label + 1) % 3;
  Send(third, relabelled, Range(0, 110), Ids::kWithLabels);
  const grpc::Status status = Compare(result, 0, third);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(result.comparison().paired());
  EXPECT_EQ(result.comparison().observations(), 110);
  EXPECT_EQ(result.pairing().label_conflicts(), 10);
  EXPECT_EQ(result.pairing().only_in_model(), 100);
  EXPECT_EQ(result.pairing().only_in_baseline(), 190);
}

TEST_F(CompareTest, NamesTheFieldOfAnError) {
  Create(kNew, Ids::kNone, {"cat", "dog", "cow"});
  Create(kOld, Ids::kNone);
  Create("models/renamed", Ids::kNone, {"dog", "cat", "cow"});
  client_->CreateFixed("models/other", 4);
  Send(kNew, new_, Range(0, 100), Ids::kNone);
  const auto expect = [&](const std::string& baseline, int window, grpc::StatusCode code,
                          const std::string& message) {
    v1::ModelComparison result;
    const grpc::Status status = Compare(result, window, kNew, baseline);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_THAT(status.error_message(), HasSubstr(message));
  };
  expect("", 0, grpc::INVALID_ARGUMENT, "baseline");
  expect("models/none", 0, grpc::NOT_FOUND, "models/none");
  expect(kNew, 0, grpc::INVALID_ARGUMENT, "expected another model");
  expect("models/other", 0, grpc::INVALID_ARGUMENT, "4 classes, expected 3");
  expect("models/renamed", 0, grpc::INVALID_ARGUMENT, "other class names");
  expect(kOld, -1, grpc::INVALID_ARGUMENT, "window is -1");
  expect(kOld, 1000001, grpc::INVALID_ARGUMENT, "window is 1000001");
  expect(kOld, 0, grpc::FAILED_PRECONDITION,
         "not enough observations in the window of the baseline: 0");
  Send(kOld, old_, Range(0, 50), Ids::kNone);
  expect(kOld, 60, grpc::FAILED_PRECONDITION,
         "not enough observations in the window of the baseline: 50, at least 60 are needed");
  v1::ModelComparison result;
  EXPECT_TRUE(Compare(result).ok());
}

TEST_F(CompareTest, ForecastsOfANumberAreComparedByTheirScores) {
  const auto create = [&](const std::string& name, const auto& set_kind) {
    v1::Model model;
    model.set_name(name);
    set_kind(*model.mutable_forecast());
    model.mutable_label_grace()->set_seconds(3600);
    model.set_labels_come_with_predictions(true);
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  };
  const auto normal = [](v1::Forecast& forecast) { forecast.mutable_normal(); };
  create(kNew, normal);
  create(kOld, normal);
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (int i = 0; i < 300; ++i) {
    forecasts.insert(forecasts.end(), {std::sin(i), 1});
    outcomes.push_back(std::sin(i) + 1.5 * std::sin(17.0 * i));
  }
  const auto send = [&](const std::string& model, std::size_t first, std::size_t n, double sd) {
    v1::ObserveRequest request;
    request.set_model(model);
    v1::Observations& observations = *request.mutable_observations();
    for (std::size_t i = first; i < first + n; ++i) {
      observations.mutable_forecasts()->add_values(forecasts[2 * i]);
      observations.mutable_forecasts()->add_values(sd);
      // One row has another outcome for the baseline.
      observations.add_outcomes(outcomes[i] + (i == 150 && model == kOld ? 1 : 0));
      observations.add_prediction_ids("request-" + std::to_string(i));
    }
    Observe(request);
  };
  send(kNew, 0, 250, 1);
  send(kOld, 100, 140, 3);
  v1::ModelComparison result;
  EXPECT_EQ(Compare(result, 99).error_code(), grpc::FAILED_PRECONDITION);
  send(kOld, 240, 10, 3);
  result = Compared();
  std::vector<double> of_model;
  std::vector<double> of_baseline;
  std::vector<double> common;
  for (std::size_t i = 100; i < 250; ++i) {
    if (i == 150) continue;
    of_model.insert(of_model.end(), {forecasts[2 * i], 1});
    of_baseline.insert(of_baseline.end(), {forecasts[2 * i], 3});
    common.push_back(outcomes[i]);
  }
  const auto expected = CompareForecastsPaired({NormalForecasts{}, {of_model, common}},
                                               {NormalForecasts{}, {of_baseline, common}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectScore(result.comparison().crps(), expected->crps);
  ExpectScore(result.comparison().log_score(), *expected->log_score);
  EXPECT_THAT(result.comparison().crps().text(), HasSubstr("CRPS 0."));
  EXPECT_FALSE(result.comparison().has_log_loss());
  EXPECT_EQ(result.comparison().observations(), 149);
  EXPECT_EQ(result.pairing().label_conflicts(), 1);
  EXPECT_EQ(result.pairing().only_in_model(), 100);
  EXPECT_EQ(result.pairing().only_in_baseline(), 0);
  EXPECT_TRUE(result.comparison().repeated_looks_valid());

  create("models/levels", [](v1::Forecast& forecast) {
    for (const double level : {0.1, 0.9}) forecast.mutable_quantiles()->add_levels(level);
  });
  client_->CreateFixed("models/classes", 3);
  grpc::Status status = Compare(result, 0, kNew, "models/levels");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("which has quantiles at 0.1, 0.9 and the model"));
  status = Compare(result, 0, kNew, "models/classes");
  EXPECT_THAT(status.error_message(), HasSubstr("which predicts classes"));
  status = Compare(result, 0, "models/classes", kNew);
  EXPECT_THAT(status.error_message(), HasSubstr("which forecasts a number"));
  // Fewer common ids than are compared.
  create("models/few", normal);
  send("models/few", 200, 100, 2);
  status = Compare(result, 0, kNew, "models/few");
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("the same ids in both windows: 50, at least 100"));
}

TEST_F(CompareTest, RefusesMoreWorkThanTheLimit) {
  server_.reset();
  // 800 observations of 3 classes need some 45000 operations.
  Start({"--max-test-operations", "1e4"});
  for (const char* const model : {kNew, kOld}) Create(model, Ids::kNone);
  Send(kNew, new_, Range(0, 400), Ids::kNone);
  Send(kOld, old_, Range(0, 400), Ids::kNone);
  v1::ModelComparison result;
  const grpc::Status status = Compare(result);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(status), "JOB_TOO_LARGE");
  EXPECT_TRUE(Compare(result, 50).ok());
}

TEST_F(CompareTest, CountsTheFeaturesOfTheBaseline) {
  server_.reset();
  // 600 rows of 256 features are 1.2 MB, and all else is less than 0.2 MB.
  Start({"--test-memory-bytes", "1048576"});
  constexpr std::size_t kRows = 600;
  constexpr std::size_t kFeatures = 256;
  constexpr char kPlain[] = "models/plain";
  for (const char* const name : {kNew, kPlain}) Create(name, Ids::kNone);
  v1::Model model;
  model.set_name(kOld);
  model.mutable_classes()->set_count(kCompareClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  for (std::size_t k = 0; k < kFeatures; ++k) {
    model.add_feature_names("feature-" + std::to_string(k));
  }
  ASSERT_TRUE(client_->Create(model).ok());
  const PredictionSet rows = Draw(kRows, kCompareClasses, 3);
  for (const char* const name : {kNew, kPlain}) Send(name, rows, Range(0, kRows), Ids::kNone);
  for (std::size_t first = 0; first < kRows; first += kRows / 2) {
    v1::ObserveRequest request;
    request.set_model(kOld);
    v1::Observations& observations = *request.mutable_observations();
    observations = ToProto(RowsOf(rows, Range(first, kRows / 2)).view());
    observations.mutable_features()->mutable_values()->Resize(kRows / 2 * kFeatures, 0.5);
    Observe(request);
  }
  v1::ModelComparison result;
  EXPECT_EQ(Reason(Compare(result)), "JOB_TOO_LARGE");
  EXPECT_TRUE(Compare(result, 0, kNew, kPlain).ok());
  EXPECT_TRUE(Compare(result, 100).ok());
}

}  // namespace
}  // namespace calibd::testing
