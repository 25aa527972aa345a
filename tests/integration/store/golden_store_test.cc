// A store of models of classes that is kept as files.
#include "integration/store/golden_store.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"

namespace calibd::testing {
namespace {

using client::Client;

constexpr char kStore[] = "classes";
// The number of the newest batch of the model `counted`.
constexpr std::int64_t kLast = 5;

class GoldenStoreTest : public GoldenTest {
 protected:
  void Start(std::vector<std::string> arguments = {}) {
    // The stores keep the times of their producers and requests. These expire after ten years only.
    arguments.insert(arguments.end(),
                     {"--request-id-seconds", "315360000", "--producer-idle-seconds", "315360000"});
    GoldenTest::Start(arguments);
  }

  // Starts the server twice and expects the stored answers; the server stays running.
  void ExpectItGoesOn() {
    CopyGoldenStore(kStore, data_);
    Start();
    ExpectGoldenAnswers(kStore, *client_);
    Stop();
    Start();
    ExpectGoldenAnswers(kStore, *client_);
  }
};

v1::ObserveRequest Numbered(const std::string& model, std::int64_t sequence) {
  v1::ObserveRequest request;
  request.set_model("models/" + model);
  request.mutable_producer()->set_producer_id("p");
  request.mutable_producer()->set_epoch(1);
  request.mutable_producer()->set_sequence(sequence);
  return request;
}

v1::ObserveRequest Observations(const std::string& model, std::int64_t sequence, std::size_t rows) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(3), static_cast<std::uint64_t>(sequence))->Draw(rows, set);
  v1::ObserveRequest request = Numbered(model, sequence);
  v1::Observations& observations = *request.mutable_observations();
  observations.mutable_probabilities()->mutable_values()->Assign(set.probabilities.begin(),
                                                                 set.probabilities.end());
  observations.mutable_labels()->Assign(set.labels.begin(), set.labels.end());
  return request;
}

// Returns a request with an id.
v1::ObserveRequest Request(int number) {
  v1::ObserveRequest request = Observations("counted", 1000 + number, 5);
  request.clear_producer();
  request.set_request_id("request-" + std::to_string(number));
  return request;
}

// Returns predictions with these ids.
v1::ObserveRequest Predictions(const std::string& model, std::int64_t sequence, int first_id,
                               int count) {
  v1::ObserveRequest request = Observations(model, sequence, static_cast<std::size_t>(count));
  request.mutable_observations()->clear_labels();
  for (int id = first_id; id < first_id + count; ++id) {
    request.mutable_observations()->add_prediction_ids(std::to_string(id));
  }
  return request;
}

v1::ObserveRequest Labels(const std::string& model, std::int64_t sequence, int first_id, int count,
                          int offset = 0) {
  v1::ObserveRequest request = Numbered(model, sequence);
  for (int id = first_id; id < first_id + count; ++id) {
    request.mutable_labels()->add_prediction_ids(std::to_string(id));
    request.mutable_labels()->add_labels((id + offset) % 3);
  }
  return request;
}

TEST_F(GoldenStoreTest, Continues) {
  ExpectItGoesOn();
  const auto waiting = client_->GetCalibration("models/waiting");
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  const v1::LabelArrivals& coverage = waiting->label_arrivals();
  std::int64_t pending = 0;
  std::int64_t pending_labelled = 0;
  for (const auto& one : coverage.predicted_classes()) {
    pending += one.pending();
    pending_labelled += one.pending_labelled();
  }
  EXPECT_EQ(pending, 40);
  EXPECT_EQ(pending, coverage.pending());
  EXPECT_EQ(pending_labelled, coverage.pending_labelled());
  // A settled batch is known, the next one counts, and pending predictions get their labels.
  EXPECT_EQ(Observe(Observations("counted", kLast, 5)).duplicate_rows(), 5);
  EXPECT_EQ(Observe(Observations("counted", kLast + 1, 5)).accepted_rows(), 5);
  EXPECT_EQ(Observe(Labels("waiting", 8, 15, 5)).labels().matched(), 5);
  EXPECT_EQ(Observe(Predictions("waiting", 9, 0, 1)).duplicate_rows(), 1);
  // Requests and a producer that has ended, in the snapshot and in the log.
  EXPECT_EQ(Observe(Request(1)).duplicate_rows(), 5);
  EXPECT_EQ(Observe(Request(2)).duplicate_rows(), 5);
  auto stream = client_->OpenStream("models/counted", {.producer_id = "ended"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE((*stream)
                  ->Send(client::PredictionKind::kProbabilities, std::vector{1.0, 0.0, 0.0},
                         std::vector<std::int32_t>{0})
                  .ok());
  EXPECT_THAT(std::string((*stream)->Finish().status().message()),
              ::testing::HasSubstr("ended after batch 1"));
}

TEST_F(GoldenStoreTest, ARedeclaredModelKeepsItsWindowUnderOtherLimits) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(50);
  Start({"--model-memory-bytes", "4194304"});
  const auto created = client_->CreateModel(model);
  ASSERT_TRUE(created.ok()) << created.status();
  Stop();
  Start({"--model-memory-bytes", "4000000"});
  const auto again = client_->CreateModel(model);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->window(), created->window());
}

TEST_F(GoldenStoreTest, StoredModelsAreRecoveredBeyondTheLimitsOfNewOnes) {
  CopyGoldenStore(kStore, data_);
  ASSERT_NO_FATAL_FAILURE(
      Start({"--model-memory-bytes", "65536", "--state-memory-bytes", "1048576"}));
  ExpectGoldenAnswers(kStore, *client_);
  v1::Model model;
  model.set_name("models/new");
  model.mutable_classes()->set_count(3);
  model.set_window(100000);
  const absl::Status created = client_->CreateModel(model).status();
  EXPECT_EQ(created.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(created.message()), ::testing::HasSubstr("--model-memory-bytes"));
  Stop();
  ASSERT_NO_FATAL_FAILURE(Start({"--state-memory-bytes", "1048576"}));
  const absl::Status again = client_->CreateModel(model).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(again.message()), ::testing::HasSubstr("--state-memory-bytes"));
  Stop();
}

// Makes the store. CALIBD_TEST_WRITE_GOLDEN: keeps it, while no calibd with its format was
// released.
TEST_F(GoldenStoreTest, TheStoreIsCreated) {
  Start();
  for (const std::string name : {"counted", "waiting", "matured"}) {
    v1::Model model;
    model.set_name("models/" + name);
    model.mutable_classes()->set_count(3);
    model.set_window(100);
    model.mutable_classes()->add_block_sizes(2);
    model.mutable_classes()->add_block_sizes(10);
    if (name == "counted") {
      model.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(40);
      model.mutable_classes()->add_lenses()->mutable_top_label();
    } else {
      model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
      model.mutable_label_grace()->set_seconds(name == "waiting" ? 300 * 24 * 3600 : 0);
      model.mutable_label_grace()->set_nanos(name == "waiting" ? 0 : 300000000);
      model.set_max_pending(1000);
    }
    const auto created = client_->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  // The first batch raises an alarm, after which a snapshot is due; some rows follow it.
  constexpr std::int64_t kOfSnapshot = 1;
  Observe(Request(1));
  {
    auto stream =
        client_->OpenStream("models/counted", {.producer_id = "ended", .ends_producer = true});
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_TRUE((*stream)
                    ->Send(client::PredictionKind::kProbabilities, std::vector{0.5, 0.25, 0.25},
                           std::vector<std::int32_t>{1})
                    .ok());
    EXPECT_TRUE((*stream)->Finish().ok());
  }
  for (std::int64_t sequence = 1; sequence <= kOfSnapshot; ++sequence) {
    Observe(Observations("counted", sequence, 3000));
  }
  Observe(Request(2));
  for (std::int64_t sequence = kOfSnapshot + 1; sequence <= kLast; ++sequence) {
    Observe(Observations("counted", sequence, 5));
  }

  Observe(Predictions("matured", 1, 0, 50));
  Observe(Labels("matured", 2, 0, 30));
  Observe(Predictions("matured", 3, 50, 10));
  Observe(Labels("matured", 4, 55, 5));
  EXPECT_TRUE(WaitFor([&] {
    const auto answer = client_->GetCalibration("models/matured");
    return answer.ok() && answer->label_arrivals().pending() == 0;
  }));

  Observe(Predictions("waiting", 1, 0, 20));
  v1::ObserveRequest labelled = Predictions("waiting", 2, 10, 30);
  for (int i = 0; i < 30; ++i) labelled.mutable_observations()->add_labels(i % 3);
  labelled.mutable_observations()->set_dropped_rows(4);
  EXPECT_EQ(Observe(labelled).duplicate_rows(), 10);
  v1::ObserveRequest invalid = Observations("waiting", 3, 2);
  invalid.mutable_observations()->mutable_probabilities()->set_values(0, 7);
  Observe(invalid, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Observe(Labels("waiting", 4, 5, 10)).labels().matched(), 10);
  EXPECT_EQ(Observe(Labels("waiting", 5, 5, 3)).labels().repeated(), 3);
  EXPECT_EQ(Observe(Labels("waiting", 6, 5, 2, 1)).labels().conflicting(), 2);
  EXPECT_EQ(Observe(Labels("waiting", 7, 1000, 1)).labels().waiting(), 1);

  nlohmann::json answers;
  for (const std::string name : {"counted", "waiting", "matured"}) {
    answers[name] = ToJson(*client_->GetCalibration("models/" + name));
  }
  Kill();
  EXPECT_GT(SnapshotOf(1), 0);
  EXPECT_EQ(Query("SELECT last_sequence FROM cursors WHERE model_id = 1 AND producer_id = x'70'"),
            kOfSnapshot);
  EXPECT_EQ(Query("SELECT first_log_id FROM store"), 1);
  if (std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr) KeepGoldenStore(kStore, data_, answers);
}

}  // namespace
}  // namespace calibd::testing
