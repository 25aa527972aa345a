// Predictions by id whose labels come later, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/running_skce.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kDelayedLabelsModel[] = "models/later";
constexpr std::size_t kDelayedLabelsClasses = 3;
constexpr double kBandwidth = 0.5;

class DelayedLabelsTest : public ::testing::Test {
 protected:
  using PredictedClass = v1::LabelArrivals::PredictedClass;

  void SetUp() override { Start(); }

  void Start() {
    client_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  void Create(int max_pending = 0) {
    v1::Model model;
    model.set_name(kDelayedLabelsModel);
    model.mutable_classes()->set_count(kDelayedLabelsClasses);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
    model.mutable_label_grace()->set_seconds(3600);
    model.set_max_pending(max_pending);
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  v1::ObserveRequest Predictions(std::size_t first, std::size_t count) const {
    v1::ObserveRequest request;
    request.set_model(kDelayedLabelsModel);
    *request.mutable_observations() = ToProto(set_.view().rows(first, count));
    request.mutable_observations()->clear_labels();
    for (std::size_t i = first; i < first + count; ++i) {
      request.mutable_observations()->add_prediction_ids(Id(i));
    }
    return request;
  }

  v1::ObserveRequest Labels(const std::vector<std::size_t>& rows, std::int32_t shift = 0) const {
    v1::ObserveRequest request;
    request.set_model(kDelayedLabelsModel);
    for (const std::size_t i : rows) {
      request.mutable_labels()->add_prediction_ids(Id(i));
      request.mutable_labels()->add_labels((set_.labels[i] + shift) %
                                           static_cast<std::int32_t>(kDelayedLabelsClasses));
    }
    return request;
  }

  v1::ObserveResponse Observe(const v1::ObserveRequest& request) {
    v1::ObserveResponse response;
    const grpc::Status status = client_->Observe(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  v1::LabelArrivals Coverage() {
    return client_->GetCalibration(kDelayedLabelsModel).label_arrivals();
  }

  // Shortens the label grace until nothing is pending and no label waits. Matured predictions are
  // remembered for another grace, which must not end before the long one is back.
  void MatureAll() {
    client_->SetLabelGrace(kDelayedLabelsModel, std::chrono::seconds(2));
    ASSERT_TRUE(WaitFor([&] {
      const v1::LabelArrivals coverage = Coverage();
      return coverage.pending() == 0 && coverage.labels().waiting() == 0;
    }));
    client_->SetLabelGrace(kDelayedLabelsModel, std::chrono::hours(1));
  }

  std::int32_t Predicted(std::size_t row) const {
    const auto values = set_.view().row(row);
    return static_cast<std::int32_t>(std::max_element(values.begin(), values.end()) -
                                     values.begin());
  }

  // Counts these rows by predicted class.
  std::vector<std::int64_t> CountPredicted(const std::vector<std::size_t>& rows) const {
    std::vector<std::int64_t> counts(kDelayedLabelsClasses);
    for (const std::size_t i : rows) ++counts[static_cast<std::size_t>(Predicted(i))];
    return counts;
  }

  // The count of each predicted class; 0 for a class that is not reported.
  static std::vector<std::int64_t> OfClasses(const v1::LabelArrivals& coverage,
                                             std::int64_t (PredictedClass::*count)() const) {
    std::vector<std::int64_t> counts(kDelayedLabelsClasses);
    for (const PredictedClass& one : coverage.predicted_classes()) {
      counts[static_cast<std::size_t>(one.predicted_class())] = (one.*count)();
    }
    return counts;
  }

  static std::string Id(std::size_t row) { return "request-" + std::to_string(row); }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  const PredictionSet set_ = Draw(400, kDelayedLabelsClasses);
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

// SKCE_ul of these rows of the set, in this order.
double Recomputed(const PredictionSet& set, const std::vector<std::size_t>& rows) {
  auto running = RunningBlockSkce::Create(2, kDelayedLabelsClasses,
                                          *Kernel::ExponentialTotalVariation(kBandwidth));
  for (const std::size_t i : rows) running->Add(set.view().row(i), set.labels[i]);
  return running->moments().mean;
}

TEST_F(DelayedLabelsTest, CountInTheOrderOfThePredictionsForAnyOrderOfLabels) {
  Create();
  for (std::size_t first = 0; first < 400; first += 50) {
    EXPECT_EQ(Observe(Predictions(first, 50)).accepted_rows(), 50);
  }
  std::vector<std::size_t> labelled;
  for (std::size_t i = 0; i < 400; ++i) {
    if (i % 7 != 3) labelled.push_back(i);
  }
  std::vector<std::size_t> shuffled = labelled;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
  const auto labels = Observe(Labels(shuffled)).labels();
  EXPECT_EQ(labels.matched(), static_cast<std::int64_t>(labelled.size()));
  v1::LabelArrivals coverage = Coverage();
  EXPECT_EQ(coverage.predictions(), 400);
  EXPECT_EQ(coverage.pending(), 400);
  EXPECT_EQ(coverage.pending_labelled(), static_cast<std::int64_t>(labelled.size()));
  EXPECT_TRUE(coverage.has_oldest_pending_time());
  EXPECT_GT(coverage.next_maturation_time().seconds(), coverage.oldest_pending_time().seconds());
  EXPECT_EQ(client_->GetCalibration(kDelayedLabelsModel).observations(), 0);

  MatureAll();
  coverage = Coverage();
  EXPECT_EQ(coverage.matured(), 400);
  EXPECT_EQ(coverage.missing(), 400 - static_cast<std::int64_t>(labelled.size()));
  EXPECT_EQ(coverage.pending_labelled(), 0);
  EXPECT_FALSE(coverage.has_oldest_pending_time());
  EXPECT_FALSE(coverage.has_next_maturation_time());
  std::int64_t matured = 0;
  for (const auto& one : coverage.predicted_classes()) matured += one.matured();
  EXPECT_EQ(matured, 400);
  const auto answer = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(answer.observations(), static_cast<std::int64_t>(labelled.size()));
  ASSERT_GT(answer.estimates_size(), 0);
  EXPECT_EQ(answer.estimates(0).skce(), Recomputed(set_, labelled));
  // From now on labels are late.
  EXPECT_EQ(Observe(Labels({3, 10, 17, 24, 31})).labels().late(), 5);
  EXPECT_THAT(Coverage().warnings(), ::testing::Contains(HasSubstr("longer label_grace")));
}

TEST_F(DelayedLabelsTest, ReportsEachPredictedClassAlsoAfterARestart) {
  Create();
  std::vector<std::size_t> all(60);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::size_t> labelled;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 3 != 0) labelled.push_back(i);
  }
  const std::vector<std::size_t> contradicted{1, 2, 5, 11};
  EXPECT_EQ(Observe(Predictions(0, 60)).accepted_rows(), 60);
  EXPECT_EQ(Observe(Labels(labelled)).labels().matched(), 40);
  EXPECT_EQ(Observe(Labels(contradicted, 1)).labels().conflicting(), 4);
  v1::ObserveRequest unknown = Labels({0});
  unknown.mutable_labels()->set_prediction_ids(0, "nobody");
  EXPECT_EQ(Observe(unknown).labels().waiting(), 1);
  const std::vector<std::int64_t> none(kDelayedLabelsClasses);
  const v1::LabelArrivals waiting = Coverage();
  EXPECT_EQ(OfClasses(waiting, &PredictedClass::predictions), CountPredicted(all));
  EXPECT_EQ(OfClasses(waiting, &PredictedClass::pending), CountPredicted(all));
  EXPECT_EQ(OfClasses(waiting, &PredictedClass::pending_labelled), CountPredicted(labelled));
  EXPECT_EQ(OfClasses(waiting, &PredictedClass::conflicting), CountPredicted(contradicted));
  EXPECT_EQ(OfClasses(waiting, &PredictedClass::late), none);
  EXPECT_EQ(waiting.pending_rate(), 1);
  EXPECT_FALSE(waiting.has_missing_rate());
  EXPECT_EQ(waiting.late_rate(), 0);
  EXPECT_DOUBLE_EQ(waiting.conflicting_rate(), 4.0 / 44);
  EXPECT_EQ(waiting.labels().waiting(), 1);
  EXPECT_EQ(waiting.unknown_rate(), 0);

  MatureAll();
  const std::vector<std::size_t> late{0, 3, 4, 6, 9, 30};
  EXPECT_EQ(Observe(Labels(late)).labels().late(), 6);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < all.size(); i += 3) missing.push_back(i);
  const auto expect_matured = [&] {
    const v1::LabelArrivals coverage = Coverage();
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::predictions), CountPredicted(all));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::pending), none);
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::pending_labelled), none);
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::matured), CountPredicted(all));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::missing), CountPredicted(missing));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::conflicting), CountPredicted(contradicted));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::late), CountPredicted(late));
    EXPECT_DOUBLE_EQ(coverage.missing_rate(), 20.0 / 60);
    EXPECT_DOUBLE_EQ(coverage.late_rate(), 6.0 / 51);
    EXPECT_DOUBLE_EQ(coverage.unknown_rate(), 1.0 / 51);
    const std::string text = HttpGet(server_->http_address(), "/metrics").body;
    for (std::size_t k = 0; k < kDelayedLabelsClasses; ++k) {
      const std::string series =
          "{model=\"later\",version=\"\",predicted_class=\"" + std::to_string(k) + "\",";
      const auto expect = [&](const std::string& name, const std::string& label,
                              const std::vector<std::int64_t>& counts) {
        EXPECT_THAT(text, HasSubstr("\n" + name + series + label + "\"} " +
                                    std::to_string(counts[k]) + "\n"));
      };
      expect("calibd_predictions_pending", "labelled=\"true", none);
      expect("calibd_predictions_pending", "labelled=\"false", none);
      expect("calibd_predicted_class_labels_total", "outcome=\"late", CountPredicted(late));
      expect("calibd_predicted_class_labels_total", "outcome=\"conflicting",
             CountPredicted(contradicted));
    }
  };
  expect_matured();
  server_->Kill();
  Start();
  expect_matured();
}

TEST_F(DelayedLabelsTest, EveryLabelAndIdHasOneOutcome) {
  Create();
  EXPECT_EQ(Observe(Predictions(0, 10)).accepted_rows(), 10);
  const auto again = Observe(Predictions(5, 10));
  EXPECT_EQ(again.accepted_rows(), 5);
  EXPECT_EQ(again.duplicate_rows(), 5);
  const auto all_known = Observe(Predictions(0, 15));
  EXPECT_EQ(all_known.accepted_rows(), 0);
  EXPECT_EQ(all_known.duplicate_rows(), 15);
  EXPECT_EQ(Observe(Labels({1, 2})).labels().matched(), 2);
  EXPECT_EQ(Observe(Labels({1, 2})).labels().repeated(), 2);
  EXPECT_EQ(Observe(Labels({2, 3}, 1)).labels().conflicting(), 1);
  EXPECT_EQ(Observe(Labels({100})).labels().waiting(), 1);
  std::vector<std::size_t> all(15);
  std::iota(all.begin(), all.end(), 0);
  const auto expect_counts = [&] {
    const v1::LabelArrivals coverage = Coverage();
    EXPECT_EQ(coverage.predictions(), 15);
    EXPECT_EQ(coverage.duplicate_predictions(), 20);
    EXPECT_EQ(coverage.pending(), 15);
    EXPECT_EQ(coverage.pending_labelled(), 3);
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::pending), CountPredicted(all));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::pending_labelled), CountPredicted({1, 2, 3}));
    EXPECT_EQ(OfClasses(coverage, &PredictedClass::conflicting), CountPredicted({2}));
    EXPECT_EQ(coverage.labels().matched(), 3);
    EXPECT_EQ(coverage.labels().repeated(), 2);
    EXPECT_EQ(coverage.labels().conflicting(), 1);
    EXPECT_EQ(coverage.labels().waiting(), 1);
    EXPECT_EQ(coverage.labels().unknown(), 0);
    EXPECT_EQ(coverage.labels().late(), 0);
  };
  expect_counts();
  server_->Kill();
  Start();
  expect_counts();
  // The ids are still known.
  EXPECT_EQ(Observe(Predictions(0, 15)).duplicate_rows(), 15);
  EXPECT_EQ(Observe(Labels({1})).labels().repeated(), 1);
  // So is the label that waits.
  EXPECT_EQ(Observe(Predictions(100, 1)).accepted_rows(), 1);
  EXPECT_EQ(Coverage().pending_labelled(), 4);
  EXPECT_EQ(Coverage().labels().waiting(), 0);
}

TEST_F(DelayedLabelsTest, AStreamCarriesBothAndReportsTheirOutcomes) {
  Create();
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kDelayedLabelsModel, "p"), 1);
  Request predictions;
  predictions.mutable_batch()->set_sequence(1);
  *predictions.mutable_batch()->mutable_observations() = Predictions(0, 20).observations();
  ASSERT_TRUE(call.Send(predictions));
  Request labels;
  labels.mutable_batch()->set_sequence(2);
  *labels.mutable_batch()->mutable_labels() = Labels({0, 5, 200}).labels();
  ASSERT_TRUE(call.Send(labels));
  // A repeated batch counts once.
  ASSERT_TRUE(call.Send(labels));
  Request bad;
  bad.mutable_batch()->set_sequence(3);
  *bad.mutable_batch()->mutable_labels() = Labels({7, 8}).labels();
  bad.mutable_batch()->mutable_labels()->set_labels(1, 3);
  ASSERT_TRUE(call.Send(bad));
  ASSERT_TRUE(call.SendFinish(3));
  std::optional<Response> finished;
  std::string rejected;
  while (auto response = call.Read()) {
    if (response->has_rejected()) rejected = response->rejected().status().message();
    if (response->has_finished()) finished = response;
  }
  EXPECT_THAT(rejected, HasSubstr("labels[1] is 3, expected 0..2"));
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->finished().accepted_rows(), 20);
  EXPECT_EQ(finished->finished().rejected_rows(), 2);
  EXPECT_EQ(finished->finished().labels().matched(), 2);
  EXPECT_EQ(finished->finished().labels().waiting(), 1);
  EXPECT_EQ(Coverage().labels().matched(), 2);
}

TEST_F(DelayedLabelsTest, TooManyPendingPredictionsAreRefusedUntilSomeMature) {
  Create(30);
  EXPECT_EQ(Observe(Predictions(0, 30)).accepted_rows(), 30);
  v1::ObserveResponse response;
  const grpc::Status refused = client_->Observe(Predictions(30, 1), &response);
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "PENDING_FULL");
  EXPECT_THAT(refused.error_message(), HasSubstr("max_pending, 30: they are accepted when"));
  // This batch can never be accepted.
  const grpc::Status too_large = client_->Observe(Predictions(30, 31), &response);
  EXPECT_EQ(too_large.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(too_large), "PENDING_FULL");
  EXPECT_THAT(too_large.error_message(), HasSubstr("a batch of 31 predictions is larger than "
                                                   "max_pending, 30: send batches of at most 30"));
  // Known ids need no room.
  EXPECT_EQ(Observe(Predictions(0, 5)).duplicate_rows(), 5);
  MatureAll();
  EXPECT_EQ(Coverage().matured(), 30);
  EXPECT_EQ(Observe(Predictions(30, 1)).accepted_rows(), 1);
}

TEST_F(DelayedLabelsTest, AModelWithoutGraceRefusesIds) {
  client_->CreateFixed(kDelayedLabelsModel, kDelayedLabelsClasses, kBandwidth);
  v1::ObserveResponse response;
  const grpc::Status predictions = client_->Observe(Predictions(0, 2), &response);
  EXPECT_EQ(predictions.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(predictions.error_message(), HasSubstr("no label_grace"));
  EXPECT_EQ(client_->Observe(Labels({1}), &response).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_FALSE(client_->GetCalibration(kDelayedLabelsModel).has_label_arrivals());
}

TEST_F(DelayedLabelsTest, LabelsThatComeWithTheirPredictionsCountAtOnceAndOnce) {
  v1::Model model;
  model.set_name(kDelayedLabelsModel);
  model.mutable_classes()->set_count(kDelayedLabelsClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
  model.mutable_label_grace()->set_seconds(3600);
  model.set_max_pending(50);
  model.set_labels_come_with_predictions(true);
  ASSERT_TRUE(client_->Create(model).ok());
  const auto labelled = [&](std::size_t first, std::size_t count) {
    v1::ObserveRequest request = Predictions(first, count);
    for (std::size_t i = first; i < first + count; ++i) {
      request.mutable_observations()->add_labels(set_.labels[i]);
    }
    return request;
  };
  EXPECT_EQ(Observe(labelled(0, 50)).accepted_rows(), 50);
  // Overlaps: 10 rows are known.
  v1::ObserveResponse response = Observe(labelled(40, 50));
  EXPECT_EQ(response.accepted_rows(), 40);
  EXPECT_EQ(response.duplicate_rows(), 10);
  v1::GetCalibrationResponse answer = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(answer.observations(), 90);
  EXPECT_EQ(answer.label_arrivals().pending(), 0);
  EXPECT_EQ(answer.label_arrivals().matured(), 90);
  std::vector<std::size_t> rows(90);
  std::iota(rows.begin(), rows.end(), 0);
  EXPECT_EQ(answer.estimates(0).skce(), Recomputed(set_, rows));
  for (const auto& request : {Labels({1}), Predictions(100, 1)}) {
    const grpc::Status status = client_->Observe(request, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("labels_come_with_predictions"));
  }
  server_->Kill();
  Start();
  answer = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(answer.observations(), 90);
  EXPECT_EQ(answer.estimates(0).skce(), Recomputed(set_, rows));
  // max_pending also limits the number of known ids.
  EXPECT_EQ(Observe(labelled(60, 30)).duplicate_rows(), 30);
  EXPECT_EQ(Observe(labelled(90, 10)).accepted_rows(), 10);
}

TEST_F(DelayedLabelsTest, EarlyLabelsGiveTheirPlacesBackAcrossKills) {
  Create(100);
  const auto rows = [](std::size_t first, std::size_t count) {
    std::vector<std::size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  };
  const auto restart = [&] {
    server_->Kill();
    Start();
  };
  EXPECT_EQ(Observe(Labels(rows(0, 101))).labels().waiting(), 100);
  EXPECT_EQ(Observe(Predictions(0, 50)).accepted_rows(), 50);
  restart();
  EXPECT_EQ(Coverage().labels().matched(), 50);
  EXPECT_EQ(Coverage().labels().waiting(), 50);
  EXPECT_EQ(Observe(Labels(rows(100, 60))).labels().waiting(), 50);
  restart();
  EXPECT_EQ(Observe(Predictions(50, 50)).accepted_rows(), 50);
  EXPECT_EQ(Observe(Labels(rows(150, 50))).labels().waiting(), 50);
  restart();
  // Labels that were matched do not wait again.
  EXPECT_EQ(Observe(Labels(rows(0, 100))).labels().repeated(), 100);
  EXPECT_EQ(Coverage().labels().waiting(), 100);
  MatureAll();
  restart();
  const auto answer = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(answer.estimates(0).skce(), Recomputed(set_, rows(0, 100)));
  EXPECT_EQ(answer.label_arrivals().labels().matched(), 100);
  EXPECT_EQ(answer.label_arrivals().labels().unknown(), 1 + 10 + 100);
  EXPECT_EQ(answer.label_arrivals().labels().waiting(), 0);
}

TEST_F(DelayedLabelsTest, WarnsOfMissingLabelsOfOneClass) {
  Create();
  std::vector<std::size_t> labelled;
  for (std::size_t i = 0; i < 400; ++i) {
    const auto row = set_.view().row(i);
    const bool first_class = std::max_element(row.begin(), row.end()) == row.begin();
    if (!first_class) labelled.push_back(i);
  }
  v1::ObserveRequest request = Predictions(0, 400);
  EXPECT_EQ(Observe(request).accepted_rows(), 400);
  EXPECT_EQ(Observe(Labels(labelled)).labels().matched(),
            static_cast<std::int64_t>(labelled.size()));
  MatureAll();
  const v1::LabelArrivals coverage = Coverage();
  EXPECT_LT(coverage.missing_p_value(), 1e-10);
  EXPECT_THAT(coverage.warnings(),
              ::testing::Contains(HasSubstr("100.0 % of the predictions of class 0")));
  EXPECT_EQ(coverage.predicted_classes(0).predicted_class(), 0);
  EXPECT_EQ(coverage.predicted_classes(0).missing(), coverage.missing());
}

TEST_F(DelayedLabelsTest, PredictionsThatMatureWhileTheServerIsDownCountAfterTheStart) {
  const auto begin = std::chrono::steady_clock::now();
  Create();
  EXPECT_EQ(Observe(Predictions(0, 100)).accepted_rows(), 100);
  std::vector<std::size_t> labelled;
  for (std::size_t i = 0; i < 100; i += 2) labelled.push_back(i);
  EXPECT_EQ(Observe(Labels(labelled)).labels().matched(), 50);
  // They become due a second from now.
  client_->SetLabelGrace(kDelayedLabelsModel,
                         std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::steady_clock::now() - begin + std::chrono::seconds(1)));
  server_->Kill();
  Start();
  ASSERT_TRUE(WaitFor([&] { return Coverage().pending() == 0; }));
  const auto answer = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(answer.observations(), 50);
  EXPECT_EQ(answer.estimates(0).skce(), Recomputed(set_, labelled));
  // A restart does not count them a second time.
  server_->Kill();
  Start();
  const auto after = client_->GetCalibration(kDelayedLabelsModel);
  EXPECT_EQ(after.observations(), 50);
  EXPECT_EQ(after.label_arrivals().matured(), 100);
  EXPECT_EQ(after.label_arrivals().missing(), 50);
  EXPECT_EQ(after.estimates(0).skce(), Recomputed(set_, labelled));
}

}  // namespace
}  // namespace calibd::testing
