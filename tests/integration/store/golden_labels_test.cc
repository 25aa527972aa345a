// A store of models of several labels that is kept as files.
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "integration/store/golden_store.h"
#include "server/store/local/sqlite.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using google::protobuf::util::TimeUtil;
using nlohmann::json;

constexpr char kLabelStore[] = "labels";
constexpr char kWatched[] = "models/watched";
constexpr char kDelayed[] = "models/delayed";
constexpr int kLabelsOfStore = 3;
// Sums and logarithms may differ in their last bits on another CPU.
constexpr double kLabelTolerance = 1e-9;

v1::Model DeclaredLabels(const std::string& name) {
  v1::Model model;
  model.set_name(name);
  model.set_window(100);
  for (const char* const label : {"rain", "fog", "wind"}) model.mutable_labels()->add_names(label);
  if (name == kDelayed) model.mutable_label_grace()->set_seconds(300 * 24 * 3600);
  return model;
}

// Rows whose labels hold as often as they are stated, except for the last one, which holds `share`
// times as often. Each third truth of fog is missing. The same numbers with every library.
v1::ObserveRequest LabelBatch(const std::string& name, std::int64_t sequence, int rows,
                              double share) {
  std::mt19937_64 random(static_cast<std::uint64_t>(sequence));
  const auto uniform = [&random] { return 0x1p-53 * static_cast<double>(random() >> 11); };
  v1::ObserveRequest request;
  request.set_model(name);
  request.mutable_producer()->set_producer_id("p");
  request.mutable_producer()->set_epoch(1);
  request.mutable_producer()->set_sequence(sequence);
  v1::Observations& observations = *request.mutable_observations();
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < kLabelsOfStore; ++k) {
      const double stated = uniform();
      observations.mutable_probabilities()->add_values(stated);
      const bool holds = uniform() < (k == 2 ? share : 1) * stated;
      observations.add_labels(k == 1 && i % 3 == 0 ? -1 : holds ? 1 : 0);
    }
  }
  return request;
}

v1::ObserveRequest LaterTruths(std::int64_t sequence, int first, int count) {
  v1::ObserveRequest request = LabelBatch(kDelayed, sequence, 0, 1);
  request.clear_observations();
  for (int i = first; i < first + count; ++i) {
    request.mutable_labels()->add_prediction_ids(std::to_string(i));
    for (const int truth : {1, -1, 0}) request.mutable_labels()->add_labels(truth);
  }
  return request;
}

// The numbers of an answer that depend on no interval.
json LabelsJson(const v1::GetCalibrationResponse& answer) {
  const v1::MultilabelCalibration& all = answer.labels();
  json out{{"observations", answer.observations()},
           {"rejected_rows", answer.rejected_rows()},
           {"rows", all.rows()},
           {"truths", all.truths()},
           {"brier", all.brier()},
           {"estimate", all.error().estimate()},
           {"log10_e_value", all.log10_e_value()},
           {"max_log10_e_value", answer.watch().evidence().max_log10_e_value()},
           {"drift", answer.watch().drift().max_log10_statistic()},
           {"labels", json::array()},
           {"alarms", json::array()}};
  for (const v1::LabelCalibration& label : all.labels()) {
    out["labels"].push_back({{"name", label.name()},
                             {"truths", label.truths()},
                             {"stated", label.stated()},
                             {"held", label.held()},
                             {"estimate", label.error().estimate()},
                             {"log10_e_value", label.log10_e_value()},
                             {"since_observation", label.since_observation()}});
  }
  for (const v1::Alarm& alarm : answer.alarms()) {
    out["alarms"].push_back({{"id", alarm.id()},
                             {"kind", static_cast<int>(alarm.kind())},
                             {"observation", alarm.observation()},
                             {"label", alarm.label()},
                             {"acknowledged", alarm.has_acknowledge_time()},
                             {"note", alarm.note()}});
  }
  if (answer.has_label_arrivals()) out["label_arrivals"] = ToJson(answer.label_arrivals());
  return out;
}

class GoldenLabelsTest : public ::testing::Test {
 protected:
  void Start() {
    server_ = ServerProcess::Start({"--data-dir", data_.string()});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  v1::ObserveResponse Observe(const v1::ObserveRequest& request,
                              grpc::StatusCode expected = grpc::StatusCode::OK) {
    v1::ObserveResponse response;
    CallContext context;
    const grpc::Status status = client_->ingest->Observe(&context, request, &response);
    EXPECT_EQ(status.error_code(), expected) << status.error_message();
    return response;
  }

  // Fills an empty server as that of the golden store was filled.
  void Fill() {
    for (const char* const name : {kWatched, kDelayed}) {
      const grpc::Status status = client_->Create(DeclaredLabels(name));
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
    // Wind raises alarms, after which a snapshot is written.
    Observe(LabelBatch(kWatched, 1, 1500, 0.5));
    EXPECT_TRUE(WaitFor([&] { return Snapshot() > 0; }));
    for (const v1::Alarm& alarm : client_->GetCalibration(kWatched).alarms()) {
      if (alarm.kind() != v1::Alarm::OVER_LIMIT || !alarm.has_label()) continue;
      v1::AcknowledgeAlarmRequest request;
      request.set_model(kWatched);
      request.set_alarm_id(alarm.id());
      request.set_note("seen");
      v1::AcknowledgeAlarmResponse response;
      CallContext context;
      EXPECT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
    }
    Observe(LabelBatch(kWatched, 2, 200, 0.5));
    v1::ObserveRequest invalid = LabelBatch(kWatched, 3, 3, 1);
    invalid.mutable_observations()->set_labels(4, 2);
    Observe(invalid, grpc::StatusCode::INVALID_ARGUMENT);
    v1::ObserveRequest pending = LabelBatch(kDelayed, 1, 20, 1);
    pending.mutable_observations()->clear_labels();
    for (int i = 0; i < 20; ++i) {
      pending.mutable_observations()->add_prediction_ids(std::to_string(i));
    }
    Observe(pending);
    EXPECT_EQ(Observe(LaterTruths(2, 0, 8)).labels().matched(), 8);
  }

  json Answers() {
    json answers;
    for (const char* const name : {kWatched, kDelayed}) {
      answers[name] = LabelsJson(client_->GetCalibration(name));
    }
    // All of its rows have the same hour, or two.
    v1::GetHistoryRequest request;
    request.set_model(kWatched);
    v1::GetHistoryResponse history;
    CallContext context;
    EXPECT_TRUE(client_->calibration->GetHistory(&context, request, &history).ok());
    EXPECT_GE(history.buckets_size(), 1);
    answers["history"] = json::object();
    for (const v1::LabelSpan& label : history.total().labels()) {
      answers["history"][label.name()] = {
          {"truths", label.truths()}, {"stated", label.stated()}, {"held", label.held()}};
    }
    return answers;
  }

  // The row of the log of the newest snapshot of the first model, or 0.
  std::int64_t Snapshot() const {
    auto database = server::Database::Open((data_ / "calibd.db").string());
    EXPECT_TRUE(database.ok());
    return *database->QueryInteger(
        "SELECT coalesce(max(log_id), 0) FROM snapshots WHERE model_id = 1");
  }

  void ExpectKeptAnswers() {
    const auto expected = json::parse(std::ifstream(GoldenStore(kLabelStore, ".json")));
    ASSERT_EQ(expected.size(), 3U);
    ExpectIn(expected, Answers(), "labels", kLabelTolerance);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path data_ = folder_.path() / "data";
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(GoldenLabelsTest, Continues) {
  CopyGoldenStore(kLabelStore, data_);
  Start();
  ExpectKeptAnswers();
  EXPECT_TRUE(client_->Create(DeclaredLabels(kWatched)).ok()) << "declared as before";
  EXPECT_EQ(server_->Terminate(), 0);
  Start();
  ExpectKeptAnswers();
  // A settled batch is known, the next one counts, and pending predictions get their truths.
  EXPECT_EQ(Observe(LabelBatch(kWatched, 2, 200, 0.5)).duplicate_rows(), 200);
  EXPECT_EQ(Observe(LaterTruths(3, 6, 4)).labels().matched(), 2);
  EXPECT_EQ(Observe(LabelBatch(kWatched, 4, 300, 1)).accepted_rows(), 300);
  EXPECT_EQ(client_->GetCalibration(kWatched).observations(), 2000);
  EXPECT_EQ(server_->Terminate(), 0);
}

// CALIBD_TEST_WRITE_GOLDEN: keeps the store, while no calibd with its format was released.
TEST_F(GoldenLabelsTest, TheSameRowsGetTheSameAnswers) {
  Start();
  Fill();
  const json answers = Answers();
  EXPECT_GE(answers[kWatched]["alarms"].size(), 2U);
  EXPECT_EQ(answers["history"].size(), 3U);
  const bool keep = std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr;
  if (!keep) ExpectKeptAnswers();
  client_.reset();
  // A proper stop would leave nothing after the snapshots. The first query brings the write-ahead
  // log into the database.
  server_->Kill();
  EXPECT_GT(Snapshot(), 0);
  if (keep) KeepGoldenStore(kLabelStore, data_, answers);
}

}  // namespace
}  // namespace calibd::testing
