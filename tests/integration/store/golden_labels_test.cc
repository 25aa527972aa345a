// A store of models of several labels that is kept as files.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "integration/store/golden_store.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using nlohmann::json;

constexpr char kLabelStore[] = "labels";
constexpr char kLabelNames[][5] = {"rain", "fog", "wind"};
constexpr int kLabelCount = 3;
// How much the logarithm may differ on another CPU.
constexpr double kLabelTolerance = 1e-14;

// What is kept of the answers about a model, without its alarms.
json LabelsJson(client::Client& client, const std::string& name) {
  const auto answer = client.GetCalibration("models/" + name);
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return {};
  const v1::MultilabelCalibration& all = answer->labels();
  json out{{"observations", answer->observations()},
           {"rejected_rows", answer->rejected_rows()},
           {"watch", ToJson(answer->watch())},
           {"truths", all.truths()},
           {"brier", all.brier()},
           {"estimate", all.error().estimate()},
           {"labels", json::array()},
           {"over_limit", json::array()}};
  // The ends of the intervals depend on how a version shares the level between its answers.
  for (const v1::LabelCalibration& label : all.labels()) {
    out["labels"].push_back({{"name", label.name()},
                             {"truths", label.truths()},
                             {"stated", label.stated()},
                             {"held", label.held()},
                             {"estimate", label.error().estimate()},
                             {"log10_e_value", label.log10_e_value()},
                             {"since_observation", label.since_observation()},
                             {"acknowledged_limit", label.acknowledged_limit()}});
  }
  for (const std::string& label : all.over_limit()) out["over_limit"].push_back(label);
  if (answer->has_label_arrivals()) out["label_arrivals"] = ToJson(answer->label_arrivals());
  return out;
}

v1::Model DeclaredLabels(const std::string& name) {
  v1::Model model;
  model.set_name("models/" + name);
  for (const char* const label : kLabelNames) model.mutable_labels()->add_names(label);
  if (name == "pending") model.mutable_label_grace()->set_seconds(300 * 24 * 3600);
  if (name == "late") model.mutable_label_grace()->set_nanos(300000000);
  return model;
}

v1::ObserveRequest NumberedLabels(const std::string& name, std::int64_t sequence) {
  v1::ObserveRequest request;
  request.set_model("models/" + name);
  request.mutable_producer()->set_producer_id("p");
  request.mutable_producer()->set_epoch(1);
  request.mutable_producer()->set_sequence(sequence);
  return request;
}

// Wind never holds; the other labels hold as often as stated. Every eighth truth is missing.
int TruthOf(int row, int label) {
  if ((row + label) % 8 == 0) return -1;
  return label < 2 && (row % 16 < 12) == (row % 4 < 2) ? 1 : 0;
}

// first_id: of the predictions; without ids if it is negative.
v1::ObserveRequest LabelBatch(const std::string& name, std::int64_t sequence, int rows,
                              int first_id = -1) {
  v1::ObserveRequest request = NumberedLabels(name, sequence);
  v1::Observations& observations = *request.mutable_observations();
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < kLabelCount; ++k) {
      observations.mutable_probabilities()->add_values(i % 4 < 2 ? 0.75 : 0.25);
      if (first_id < 0) observations.add_labels(TruthOf(i, k));
    }
    if (first_id >= 0) observations.add_prediction_ids(std::to_string(first_id + i));
  }
  return request;
}

v1::ObserveRequest LaterTruths(const std::string& name, std::int64_t sequence, int first_id,
                               int count) {
  v1::ObserveRequest request = NumberedLabels(name, sequence);
  for (int id = first_id; id < first_id + count; ++id) {
    request.mutable_labels()->add_prediction_ids(std::to_string(id));
    for (int k = 0; k < kLabelCount; ++k) request.mutable_labels()->add_labels(TruthOf(id, k));
  }
  return request;
}

class GoldenLabelsTest : public GoldenTest {
 protected:
  // Fills an empty server as that of the golden store was filled.
  void Fill() {
    for (const char* const name : {"weather", "pending", "late"}) {
      const auto created = client_->CreateModel(DeclaredLabels(name));
      ASSERT_TRUE(created.ok()) << created.status();
    }
    // These rows raise alarms, after which a snapshot is written.
    Observe(LabelBatch("weather", 1, 2000));
    EXPECT_TRUE(WaitFor([&] { return SnapshotOf(1) > 0; }));
    const auto alarms = client_->GetCalibration("models/weather");
    ASSERT_TRUE(alarms.ok()) << alarms.status();
    for (const v1::Alarm& alarm : alarms->alarms()) {
      if (alarm.kind() != v1::Alarm::OVER_LIMIT || !alarm.has_label()) continue;
      EXPECT_TRUE(client_->AcknowledgeAlarm("models/weather", alarm.id(), "seen").ok());
    }
    Observe(LabelBatch("weather", 2, 200));
    v1::ObserveRequest invalid = LabelBatch("weather", 3, 3);
    invalid.mutable_observations()->set_labels(0, 2);
    Observe(invalid, grpc::StatusCode::INVALID_ARGUMENT);
    Observe(LabelBatch("pending", 1, 20, 0));
    EXPECT_EQ(Observe(LaterTruths("pending", 2, 0, 8)).labels().matched(), 8);
    Observe(LabelBatch("late", 1, 20, 0));
    EXPECT_TRUE(WaitFor([&] {
      const auto answer = client_->GetCalibration("models/late");
      return answer.ok() && answer->label_arrivals().missing() == 20;
    }));
    EXPECT_EQ(Observe(LaterTruths("late", 2, 3, 5)).labels().late(), 5);
  }

  // same_store: also compares the alarms, which depend on the ends of intervals, and have times.
  void ExpectKeptAnswers(bool same_store) {
    const auto expected = json::parse(std::ifstream(GoldenStore(kLabelStore, ".json")));
    ASSERT_EQ(expected.size(), 3U);
    for (const auto& [name, answers] : expected.items()) {
      json now = LabelsJson(*client_, name);
      if (same_store) now["alarms"] = AlarmsJson(*client_->GetCalibration("models/" + name));
      ExpectIn(answers, now, name, kLabelTolerance);
    }
  }
};

TEST_F(GoldenLabelsTest, Continues) {
  CopyGoldenStore(kLabelStore, data_);
  Start();
  ExpectKeptAnswers(true);
  EXPECT_TRUE(client_->CreateModel(DeclaredLabels("weather")).ok()) << "declared as before";
  const json before = LabelsJson(*client_, "weather");
  Stop();
  Start();
  ExpectKeptAnswers(true);
  EXPECT_EQ(LabelsJson(*client_, "weather"), before) << "not the same bits after a restart";
  // A settled batch is known, the next one counts, and pending predictions get their truths.
  EXPECT_EQ(Observe(LabelBatch("weather", 2, 200)).duplicate_rows(), 200);
  EXPECT_EQ(Observe(LabelBatch("weather", 4, 400)).accepted_rows(), 400);
  EXPECT_EQ(Observe(LaterTruths("pending", 3, 6, 4)).labels().matched(), 2);
  const auto answer = client_->GetCalibration("models/weather");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->observations(), 2600);
  // The error of wind is measured since the acknowledgement of its alarm.
  const v1::LabelCalibration& wind = answer->labels().labels(2);
  EXPECT_EQ(wind.since_observation(), 2001);
  EXPECT_EQ(wind.truths(), 525);
  EXPECT_GT(wind.log10_e_value(), 100);
  EXPECT_GT(wind.acknowledged_limit(), 0.4);
  Stop();
}

// CALIBD_TEST_WRITE_GOLDEN: keeps the store, while no calibd with its format was released.
TEST_F(GoldenLabelsTest, TheSameRowsGetTheSameAnswers) {
  Start();
  ASSERT_NO_FATAL_FAILURE(Fill());
  json answers;
  for (const char* const name : {"weather", "pending", "late"}) {
    answers[name] = LabelsJson(*client_, name);
    answers[name]["alarms"] = AlarmsJson(*client_->GetCalibration(std::string("models/") + name));
  }
  EXPECT_GE(answers["weather"]["alarms"].size(), 3U) << "of wind, of all labels, and of evidence";
  const bool keep = std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr;
  if (!keep) ExpectKeptAnswers(false);
  Kill();
  EXPECT_GT(SnapshotOf(1), 0);
  if (keep) KeepGoldenStore(kLabelStore, data_, answers);
}

}  // namespace
}  // namespace calibd::testing
