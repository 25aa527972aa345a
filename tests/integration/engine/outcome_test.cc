// The engine over a store whose commits are fenced or have no answer, and whose ids have gaps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <random>

#include "calibd/store/v1/store.pb.h"
#include "integration/engine/engine.h"
#include "support/memory_store.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using server::Model;
using server::Outcome;
using server::ProducerPosition;
using server::Settlement;
using std::chrono::seconds;

class OutcomeTest : public ::testing::Test {
 protected:
  void Start() {
    auto store = std::make_unique<MemoryStore>(disk_);
    store_ = store.get();
    engine_.emplace(std::move(store), Engine::Options{.matures = false});
    model_ = engine_->Find("models/m");
  }
  Settlement Submit(std::int64_t sequence) {
    return engine_->Submit(model_, ProducerPosition{"p", 1, sequence},
                           MakeBatch(*model_, 3, static_cast<std::uint64_t>(sequence)));
  }
  void SetNextOutcome(Outcome outcome, bool durable = false) {
    engine_->commits().Call([=, this](server::Store&, const absl::Status&) {
      store_->SetNextOutcome(outcome, durable);
    });
    engine_->commits().Flush();
  }

  const std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  MemoryStore* store_ = nullptr;  // Owned by engine_.
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
};

class UnknownOutcomeTest : public OutcomeTest, public ::testing::WithParamInterface<bool> {};

// The batch is sent again to the next start, which counts it once whatever became of it.
TEST_P(UnknownOutcomeTest, ABatchWithoutAnAnswerCountsOnce) {
  const bool durable = GetParam();
  Start();
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m")).ok());
  model_ = engine_->Find("models/m");
  ASSERT_EQ(Submit(1).kind, Settlement::Kind::kAccepted);
  SetNextOutcome(Outcome::kUnknown, durable);
  const Settlement unknown = Submit(2);
  EXPECT_EQ(unknown.kind, Settlement::Kind::kRefused);
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine_->failed());
  EXPECT_EQ(Submit(2).kind, Settlement::Kind::kRefused);
  model_.reset();
  engine_.reset();
  Start();
  EXPECT_EQ(model_->snapshot()->observations, durable ? 6 : 3);
  EXPECT_EQ(Submit(2).kind, durable ? Settlement::Kind::kDuplicate : Settlement::Kind::kAccepted);
  EXPECT_EQ(model_->snapshot()->observations, 6);
}

INSTANTIATE_TEST_SUITE_P(Outcomes, UnknownOutcomeTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Durable" : "NotDurable"; });

TEST_F(OutcomeTest, AFencedOwnerWritesNothingAndTheNextOneGoesOn) {
  Start();
  ASSERT_TRUE(engine_->CreateModel(Declare("models/m")).ok());
  model_ = engine_->Find("models/m");
  ASSERT_EQ(Submit(1).kind, Settlement::Kind::kAccepted);
  // Another owner, in the same process.
  Engine other(std::make_unique<MemoryStore>(disk_), {.matures = false});
  const std::shared_ptr<Model> taken = other.Find("models/m");
  ASSERT_NE(taken, nullptr);
  const Settlement fenced = Submit(2);
  EXPECT_EQ(fenced.kind, Settlement::Kind::kRefused);
  EXPECT_EQ(fenced.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine_->failed());
  EXPECT_EQ(model_->snapshot()->observations, 3);
  EXPECT_FALSE(other.failed());
  EXPECT_EQ(other.Submit(taken, ProducerPosition{"p", 1, 2}, MakeBatch(*taken, 3, 2)).kind,
            Settlement::Kind::kAccepted);
  EXPECT_EQ(taken->snapshot()->observations, 6);
}

// Predictions, labels, maturity, snapshots and restarts, on stores that delete unneeded batches in
// the order of the log, at once, and some of them never.
TEST(LogIdTest, GapsChangeNothing) {
  const TemporaryFolder folder;
  const std::array disks{std::make_shared<MemoryDisk>(),
                         std::make_shared<MemoryDisk>([](std::int64_t log_id) {
                           return std::mt19937_64(static_cast<std::uint64_t>(log_id))() % 2 == 0;
                         })};
  std::array<FakeClock, 3> clocks;
  std::array<std::optional<Engine>, 3> engines;
  v1::Model declared = Declare("models/m", 4, seconds(10));
  declared.set_window(500);
  for (int part = 0; part < 4; ++part) {
    std::array<Engine::State, 3> states;
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const Engine::Options options{.clock = clocks[i].clock(), .matures = false};
      engines[i].reset();
      if (i == 0) {
        engines[i].emplace(folder.path(), options);
      } else {
        engines[i].emplace(std::make_unique<MemoryStore>(disks[i - 1]), options);
      }
      Engine& engine = *engines[i];
      if (part == 0) {
        ASSERT_TRUE(engine.CreateModel(declared).ok());
      }
      const std::shared_ptr<Model> model = engine.Find("models/m");
      for (std::int64_t round = 0; round < 40; ++round) {
        const std::int64_t sequence = 5 * (40 * part + round);
        const auto seed = static_cast<std::uint64_t>(sequence);
        // Each id is used again after it was forgotten.
        const auto ids = MakeIds("id" + std::to_string(round), 20);
        const auto submit = [&](std::int64_t more, server::LogRow row) {
          EXPECT_NE(
              engine.Submit(model, ProducerPosition{"p", 1, sequence + more}, std::move(row)).kind,
              Settlement::Kind::kRefused);
        };
        submit(1, MakeBatch(*model, 20, seed, ids));
        submit(2, MakeLabels(*model, ids));
        submit(3, round % 5 == 0 ? MakeInvalidBatch(*model) : MakeBatch(*model, 10, seed));
        // Labels that come before the predictions of the next round, and labels without one.
        submit(4, MakeLabels(*model, MakeIds("id" + std::to_string(round + 1), 12)));
        submit(5, MakeLabels(*model, MakeIds("none" + std::to_string(sequence), 3)));
        clocks[i].Move(seconds(4));
        EXPECT_TRUE(engine.Mature(model));
      }
      states[i] = engine.StateOf(model, {"p"});
    }
    // The ids of rows differ between the stores.
    for (Engine::State& state : states) {
      store::v1::ModelState saved;
      ASSERT_TRUE(saved.ParseFromString(state.saved));
      EXPECT_GT(saved.label_arrivals().ended_waiting_log_id(), 0);
      saved.mutable_label_arrivals()->clear_ended_waiting_log_id();
      state.saved = saved.SerializeAsString();
    }
    EXPECT_TRUE(states[0] == states[1]) << part;
    EXPECT_TRUE(states[0] == states[2]) << part;
    EXPECT_GT(states[0].window, 400U);
    EXPECT_GT(states[0].pending, 0U);
  }
}

}  // namespace
}  // namespace calibd::testing
