// Labels that arrive before their predictions: each is used once, or is unknown after its time,
// also if the process ends meanwhile.
#include "server/rows/waiting_labels.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integration/engine/engine.h"
#include "server/ingest/decode.h"
#include "support/memory_store.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using server::LabelCounts;
using server::Model;
using std::chrono::seconds;

constexpr seconds kWait = std::chrono::duration_cast<seconds>(server::WaitingLabels::kLongestWait);
constexpr seconds kLongGrace{3600};

class WaitingLabelsTest : public ::testing::Test {
 protected:
  void Start() {
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(), .matures = false});
    model_ = engine_->Find("models/m");
  }
  void Create(const v1::Model& model) {
    Start();
    const absl::Status created = engine_->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created;
    model_ = engine_->Find("models/m");
  }
  // Ends without a snapshot, as a kill does, and starts after this time.
  void Restart(seconds after = seconds(0)) {
    const Engine::State before = engine_->StateOf(model_);
    model_.reset();
    engine_.reset();
    clock_.MoveWall(after);
    Start();
    const Engine::State now = engine_->StateOf(model_);
    EXPECT_TRUE(now.saved == before.saved);
    EXPECT_EQ(now.pending_by_class, before.pending_by_class);
    EXPECT_EQ(now.next_due, before.next_due);
  }

  server::Settlement Submit(server::LogRow batch) {
    return engine_->Submit(model_, std::nullopt, std::move(batch));
  }
  std::int64_t Predict(const std::vector<std::string>& ids) {
    return Submit(MakeBatch(*model_, ids.size(), 1, ids)).accepted_rows;
  }
  LabelCounts Label(const std::vector<std::string>& ids, std::int32_t label = 1) {
    return Submit(MakeLabels(*model_, ids, label)).labels;
  }
  // What the model shows now.
  LabelCounts Shown() const { return model_->snapshot()->label_arrivals->labels; }
  // Matures everything and returns the number of observations.
  std::int64_t Observations() {
    clock_.Move(kLongGrace);
    EXPECT_TRUE(engine_->Mature(model_));
    return model_->snapshot()->observations;
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
};

TEST_F(WaitingLabelsTest, AreMatchedOnceWhenThePredictionsArrive) {
  Create(Declare("models/m", 4, kLongGrace));
  EXPECT_EQ(Predict({"known"}), 1);
  const LabelCounts sent = Label({"a", "known", "b", "a", "a"});
  EXPECT_EQ(sent.waiting, 2);
  EXPECT_EQ(sent.matched, 1);
  EXPECT_EQ(sent.repeated, 2);
  EXPECT_EQ(sent.unknown, 0);
  EXPECT_EQ(Label({"b"}, 2).conflicting, 1);
  Restart();
  EXPECT_EQ(Shown().waiting, 2);
  EXPECT_EQ(Predict({"a", "c"}), 2);
  EXPECT_EQ(Shown().waiting, 1);
  EXPECT_EQ(Shown().matched, 2);
  Restart();
  // The first label counts, as for a prediction that came first.
  EXPECT_EQ(Label({"a"}, 3).conflicting, 1);
  EXPECT_EQ(Label({"a", "b"}).repeated, 2);
  EXPECT_EQ(Predict({"b", "a"}), 1);
  EXPECT_EQ(Shown().waiting, 0);
  EXPECT_EQ(Shown().matched, 3);
  EXPECT_EQ(Observations(), 3);
  Restart();
  EXPECT_EQ(Observations(), 3);
  EXPECT_EQ(Shown().unknown, 0);
  EXPECT_EQ(Shown().matched + Shown().repeated + Shown().conflicting, 9);
}

TEST_F(WaitingLabelsTest, AreUnknownOnceAfterAMinute) {
  Create(Declare("models/m", 4, kLongGrace));
  EXPECT_EQ(Label({"a", "b"}).waiting, 2);
  clock_.Move(seconds(1));
  EXPECT_EQ(Label({"c"}).waiting, 1);
  EXPECT_EQ(Predict({"b"}), 1);
  clock_.Move(kWait - seconds(2));
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().waiting, 2);
  // The time goes on while nothing runs.
  Restart(seconds(1));
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().waiting, 1);
  EXPECT_EQ(Shown().unknown, 1);
  Restart();
  EXPECT_EQ(Predict({"a"}), 1);
  EXPECT_EQ(Shown().matched, 1);
  EXPECT_EQ(Label({"a"}).matched, 1);
  clock_.Move(seconds(1));
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().waiting, 0);
  EXPECT_EQ(Shown().unknown, 2);
  Restart();
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().unknown, 2);
  EXPECT_EQ(Observations(), 2);
}

TEST_F(WaitingLabelsTest, WaitNoLongerThanTheGrace) {
  Create(Declare("models/m", 4, seconds(5)));
  EXPECT_EQ(Label({"a"}).waiting, 1);
  clock_.Move(seconds(5));
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().unknown, 1);
}

TEST_F(WaitingLabelsTest, WaitUpToABound) {
  v1::Model model = Declare("models/m", 4, kLongGrace);
  model.set_max_pending(3);
  Create(model);
  const LabelCounts sent = Label(MakeIds("a", 5));
  EXPECT_EQ(sent.waiting, 3);
  EXPECT_EQ(sent.unknown, 2);
  clock_.Move(kWait);
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Label(MakeIds("b", 5)).waiting, 3);
}

// Only the labels that still wait count for the bound, whatever their batch, also after a kill.
TEST_F(WaitingLabelsTest, AMatchedLabelGivesItsPlaceBackAtOnce) {
  v1::Model model = Declare("models/m", 4, kLongGrace);
  model.set_max_pending(8);
  Create(model);
  EXPECT_EQ(Label(MakeIds("a", 8)).waiting, 8);
  EXPECT_EQ(Label({"b0"}).unknown, 1);
  EXPECT_EQ(Predict({"a1", "a3", "a5"}), 3);
  Restart();
  EXPECT_EQ(Shown().waiting, 5);
  EXPECT_EQ(Shown().matched, 3);
  LabelCounts sent = Label(MakeIds("b", 4));
  EXPECT_EQ(sent.waiting, 3);
  EXPECT_EQ(sent.unknown, 1);
  EXPECT_EQ(Predict({"b1", "a0"}), 2);
  Restart();
  sent = Label(MakeIds("c", 3));
  EXPECT_EQ(sent.waiting, 2);
  EXPECT_EQ(sent.unknown, 1);
  // The labels that were matched do not wait again.
  EXPECT_EQ(Label({"a1", "a0", "b1"}).repeated, 3);
  clock_.Move(kWait);
  EXPECT_TRUE(engine_->Mature(model_));
  Restart();
  EXPECT_EQ(Shown().waiting, 0);
  EXPECT_EQ(Shown().matched, 5);
  // a2, a4, a6, a7, b0, b2, c0, c1 found no prediction; b0, b3 and c2 had no room.
  EXPECT_EQ(Shown().unknown, 11);
  EXPECT_EQ(Label(MakeIds("d", 9)).waiting, 8);
  EXPECT_EQ(Observations(), 5);
}

TEST_F(WaitingLabelsTest, AFailedTransactionChangesNothing) {
  const auto disk = std::make_shared<MemoryDisk>();
  auto owned = std::make_unique<MemoryStore>(disk);
  MemoryStore* const store = owned.get();
  engine_.emplace(std::move(owned), Engine::Options{.clock = clock_.clock(), .matures = false});
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m", 4, kLongGrace)).ok());
  model_ = engine_->Find("models/m");
  const auto refuse = [&] {
    engine_->commits().Call([store](server::Store&, const absl::Status&) {
      store->SetNextOutcome(server::Outcome::kRefused);
    });
    engine_->commits().Flush();
  };
  EXPECT_EQ(Label({"a", "b"}).waiting, 2);
  refuse();
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(MakeBatch(*model_, 1, 1, {"a"})).status));
  EXPECT_EQ(Label({"a"}).repeated, 1);
  refuse();
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(MakeLabels(*model_, {"c"})).status));
  clock_.Move(kWait);
  refuse();
  EXPECT_FALSE(engine_->Mature(model_));
  EXPECT_EQ(Shown().waiting, 2);
  EXPECT_EQ(Predict({"a", "c"}), 2);
  EXPECT_EQ(Shown().matched, 1);
  EXPECT_TRUE(engine_->Mature(model_));
  EXPECT_EQ(Shown().waiting, 0);
  EXPECT_EQ(Shown().unknown, 1);
  EXPECT_EQ(Observations(), 1);
  const Engine::State before = engine_->StateOf(model_);
  model_.reset();
  engine_.reset();
  engine_.emplace(std::make_unique<MemoryStore>(disk),
                  Engine::Options{.clock = clock_.clock(), .matures = false});
  model_ = engine_->Find("models/m");
  EXPECT_TRUE(engine_->StateOf(model_).saved == before.saved);
}

TEST_F(WaitingLabelsTest, OfForecastsAndOfSeveralLabelsWaitToo) {
  const auto check = [&](const v1::Model& model, const v1::Labels& labels,
                         const v1::Observations& predictions) {
    Create(model);
    EXPECT_EQ(Submit(server::Decode(labels, *model_->declaration())).labels.waiting, 2);
    Restart();
    EXPECT_EQ(Submit(server::Decode(predictions, *model_->declaration())).accepted_rows, 2);
    EXPECT_EQ(Submit(server::Decode(labels, *model_->declaration())).labels.repeated, 2);
    Restart();
    EXPECT_EQ(Shown().matched, 2);
    EXPECT_EQ(Observations(), 2);
    ASSERT_TRUE(engine_->DeleteModel("models/m").ok());
  };
  v1::Labels labels;
  v1::Observations predictions;
  for (const char* const id : {"a", "b"}) {
    labels.add_prediction_ids(id);
    labels.add_outcomes(1.5);
    predictions.add_prediction_ids(id);
    predictions.mutable_forecasts()->add_values(1);
    predictions.mutable_forecasts()->add_values(2);
  }
  v1::Model model;
  model.set_name("models/m");
  model.mutable_forecast()->mutable_normal();
  model.mutable_label_grace()->set_seconds(kLongGrace.count());
  check(model, labels, predictions);

  labels.clear_outcomes();
  predictions.clear_forecasts();
  for (const int label : {0, 1, -1, 1, 0, 0}) labels.add_labels(label);
  for (int i = 0; i < 6; ++i) predictions.mutable_probabilities()->add_values(0.25);
  model.clear_forecast();
  for (const char* const name : {"rain", "wind", "snow"}) model.mutable_labels()->add_names(name);
  check(model, labels, predictions);
}

}  // namespace
}  // namespace calibd::testing
