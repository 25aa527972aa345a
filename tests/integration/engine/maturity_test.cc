// The time of maturation: it follows a clock that does not jump, also from one process to the next.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <utility>

#include "integration/engine/engine.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/model_changes.h"
#include "server/model/declaration_update.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::Model;
using std::chrono::hours;
using std::chrono::seconds;

constexpr seconds kMaturityGrace{10};
constexpr hours kDay{24};

TEST(LogClockTest, FollowsTheSteadyClock) {
  FakeClock fake;
  server::LogClock clock(fake.clock());
  clock.Begin(seconds(7));
  EXPECT_EQ(clock.elapsed(), seconds(7));
  fake.MoveWall(400 * kDay);
  EXPECT_EQ(clock.elapsed(), seconds(7));
  fake.MoveWall(-500 * kDay);
  EXPECT_EQ(clock.elapsed(), seconds(7));
  fake.MoveSteady(std::chrono::milliseconds(1500));
  EXPECT_EQ(clock.elapsed(), std::chrono::milliseconds(8500));
}

TEST(LogClockTest, AcceptsAStepOfTheWallClockAfterSomeTime) {
  for (const hours step : {400 * kDay, -kDay}) {
    FakeClock fake;
    const server::LogClock clock(fake.clock());
    const std::int64_t begin = clock.wall_us();
    const auto passed = [&] { return std::chrono::microseconds(clock.wall_us() - begin); };
    // A small step is accepted at once.
    fake.MoveWall(hours(1));
    EXPECT_EQ(passed(), hours(1));
    fake.MoveWall(hours(-1));
    EXPECT_EQ(passed(), hours(0));
    // First a step that is undone, then one that stays.
    fake.MoveWall(step);
    EXPECT_EQ(passed(), hours(0));
    fake.Move(hours(1) - seconds(1));
    EXPECT_EQ(passed(), hours(1) - seconds(1));
    fake.MoveWall(-step);
    EXPECT_EQ(passed(), hours(1) - seconds(1));
    fake.MoveWall(step);
    EXPECT_EQ(passed(), hours(1) - seconds(1));
    fake.Move(hours(1) - seconds(1));
    EXPECT_EQ(passed(), hours(2) - seconds(2));
    fake.Move(seconds(1));
    EXPECT_EQ(passed(), step + hours(2) - seconds(1));
    fake.Move(seconds(1));
    EXPECT_EQ(passed(), step + hours(2));
  }
}

class MaturityTest : public ::testing::Test {
 protected:
  void Start(bool matures = false) {
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(), .matures = matures});
    model_ = engine_->Find("models/m");
    if (model_ == nullptr) {
      ASSERT_TRUE(engine_->CreateModel(Declare("models/m", 4, kMaturityGrace)).ok());
      model_ = engine_->Find("models/m");
    }
  }
  // Restarts after this time of the wall clock. The steady clock begins at another value.
  void Restart(seconds after) {
    const Engine::State before = engine_->StateOf(model_);
    model_.reset();
    engine_.reset();
    clock_.MoveWall(after);
    clock_.MoveSteady(std::chrono::milliseconds(-12345));
    Start();
    const Engine::State now = engine_->StateOf(model_);
    EXPECT_TRUE(now.saved == before.saved);
    EXPECT_EQ(now.pending, before.pending);
    EXPECT_EQ(now.pending_by_class, before.pending_by_class);
    std::size_t pending = 0;
    for (const server::PendingCounts& one : now.pending_by_class) {
      pending += static_cast<std::size_t>(one.all);
    }
    EXPECT_EQ(pending, now.pending);
    EXPECT_EQ(now.next_due, before.next_due);
  }

  void Predict(const std::string& prefix, std::size_t n) {
    EXPECT_EQ(Submit(MakeBatch(*model_, n, 1, MakeIds(prefix, n))).accepted_rows,
              static_cast<std::int64_t>(n));
  }
  server::LabelCounts Label(const std::string& prefix, std::size_t n) {
    return Submit(MakeLabels(*model_, MakeIds(prefix, n))).labels;
  }
  server::Settlement Submit(server::LogRow batch) {
    return engine_->Submit(model_, std::nullopt, std::move(batch));
  }

  // Updates label_grace and max_pending, and waits.
  absl::Status Update(seconds grace, std::int32_t max_pending) {
    server::DeclarationUpdate update;
    update.mask.add_paths("label_grace");
    update.mask.add_paths("max_pending");
    update.model.mutable_label_grace()->set_seconds(grace.count());
    update.model.set_max_pending(max_pending);
    std::promise<absl::Status> updated;
    server::UpdateModel(
        engine_->registry(), engine_->commits(), engine_->ingestor().clock(), model_,
        {.memory_bytes = std::size_t{1} << 40, .disk_bytes = std::size_t{1} << 40}, update,
        [&](const auto& response) { updated.set_value(response.status()); });
    return updated.get_future().get();
  }

  // Matures due predictions; returns the total number of matured ones.
  std::int64_t Matured() {
    EXPECT_TRUE(engine_->Mature(model_));
    return model_->snapshot()->label_arrivals->matured;
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
};

TEST_F(MaturityTest, AJumpOfTheWallClockHasNoEffect) {
  Start();
  Predict("a", 5);
  clock_.MoveWall(400 * kDay);
  EXPECT_EQ(Matured(), 0);
  EXPECT_EQ(Label("a", 1).matched, 1);
  Predict("b", 3);
  clock_.MoveWall(-401 * kDay);
  EXPECT_EQ(Matured(), 0);
  EXPECT_EQ(Label("b", 1).matched, 1);
  // From here on, the clock stands still.
  clock_.MoveSteady(kMaturityGrace - seconds(1));
  EXPECT_EQ(Matured(), 0);
  Predict("c", 2);
  EXPECT_EQ(Label("a", 2).matched, 1);
  clock_.MoveSteady(seconds(1));
  EXPECT_EQ(Label("a", 3).late, 3);
  EXPECT_EQ(Matured(), 8);
  EXPECT_EQ(Matured(), 8);
  clock_.MoveSteady(kMaturityGrace);
  EXPECT_EQ(Matured(), 10);
  const auto snapshot = model_->snapshot();
  EXPECT_EQ(snapshot->observations, 3);
  EXPECT_EQ(snapshot->label_arrivals->missing, 7);
  Restart(seconds(0));
  EXPECT_EQ(Matured(), 10);
}

TEST_F(MaturityTest, TheThreadFollowsTheSteadyClock) {
  Start(/*matures=*/true);
  Predict("a", 5);
  clock_.MoveSteady(seconds(1));
  Predict("b", 3);
  clock_.MoveWall(400 * kDay);
  clock_.MoveSteady(kMaturityGrace - seconds(1));
  const auto matured = [this] { return model_->snapshot()->label_arrivals->matured; };
  // By the wall clock, all of them would be due.
  EXPECT_TRUE(WaitFor([&] { return matured() > 0; }));
  EXPECT_EQ(matured(), 5);
  clock_.MoveSteady(seconds(1));
  EXPECT_TRUE(WaitFor([&] { return matured() == 8; }));
}

TEST_F(MaturityTest, AWallClockSetBackBetweenTwoProcessesDelaysNothing) {
  Start();
  Predict("a", 4);
  clock_.MoveSteady(seconds(6));
  Predict("b", 3);
  EXPECT_EQ(Label("a", 2).matched, 2);
  Restart(-kDay);
  // The time of the newest row of the log: as far as can be known, no time has passed since.
  EXPECT_EQ(engine_->recovery().elapsed, seconds(6));
  EXPECT_EQ(Matured(), 0);
  EXPECT_EQ(Label("a", 3).matched, 1);
  Predict("c", 1);
  clock_.MoveSteady(seconds(4));
  EXPECT_EQ(Matured(), 4);
  // Now the rows of the log are not in the order of the wall clock.
  Restart(seconds(1));
  EXPECT_EQ(Matured(), 4);
  clock_.MoveSteady(seconds(5));
  EXPECT_EQ(Matured(), 8);
  EXPECT_EQ(model_->snapshot()->observations, 3);
  EXPECT_EQ(model_->snapshot()->label_arrivals->missing, 5);
  Restart(-kDay);
  clock_.MoveSteady(3 * kMaturityGrace);
  EXPECT_EQ(Matured(), 8);
}

TEST_F(MaturityTest, PredictionsThatBecameDueWhileNothingRanMatureOnce) {
  Start();
  Predict("a", 4);
  EXPECT_EQ(Label("a", 3).matched, 3);
  clock_.MoveSteady(seconds(5));
  Predict("b", 2);
  Restart(2 * kMaturityGrace);
  EXPECT_EQ(engine_->recovery().elapsed, seconds(5) + 2 * kMaturityGrace);
  EXPECT_EQ(Label("b", 2).late, 2);
  EXPECT_EQ(Matured(), 6);
  EXPECT_EQ(Matured(), 6);
  EXPECT_EQ(model_->snapshot()->observations, 3);
  Restart(2 * kMaturityGrace);
  EXPECT_EQ(Matured(), 6);
  EXPECT_EQ(model_->snapshot()->observations, 3);
  EXPECT_EQ(model_->snapshot()->label_arrivals->missing, 3);
}

TEST_F(MaturityTest, ANewGraceAppliesToPendingPredictions) {
  Start();
  Predict("a", 4);
  EXPECT_EQ(Label("a", 1).matched, 1);
  ASSERT_TRUE(Update(3 * kMaturityGrace, 5).ok());
  Restart(seconds(0));
  clock_.MoveSteady(2 * kMaturityGrace);
  EXPECT_EQ(Matured(), 0);
  // With the former grace it would be late.
  EXPECT_EQ(Label("a", 2).matched, 1);
  Restart(seconds(0));
  ASSERT_TRUE(Update(kMaturityGrace, 5).ok());
  EXPECT_EQ(Label("a", 3).late, 3);
  EXPECT_EQ(Matured(), 4);
  EXPECT_EQ(model_->snapshot()->observations, 2);
  Restart(seconds(0));
  EXPECT_EQ(model_->declaration()->label_grace, kMaturityGrace);
  EXPECT_EQ(model_->snapshot()->updates->size(), 2U);
}

TEST_F(MaturityTest, ALowerLimitRefusesNewPredictionsAndRemovesNone) {
  Start();
  Predict("a", 4);
  ASSERT_TRUE(Update(kMaturityGrace, 2).ok());
  Restart(seconds(0));
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(MakeBatch(*model_, 1, 1, MakeIds("b", 1))).status));
  EXPECT_EQ(engine_->StateOf(model_).pending, 4U);
  clock_.MoveSteady(kMaturityGrace);
  EXPECT_EQ(Matured(), 4);
  Predict("b", 2);
  ASSERT_TRUE(Update(kMaturityGrace, 3).ok());
  Predict("c", 1);
}

TEST_F(MaturityTest, AnUpdateReservesWhatTheModelMayNeed) {
  Start();
  // The 4 GiB of all models have room for one such model, but not for two.
  ASSERT_TRUE(engine_->CreateModel(Declare("models/large", 4, kMaturityGrace)).ok());
  const std::shared_ptr<Model> model = std::exchange(model_, engine_->Find("models/large"));
  ASSERT_TRUE(Update(kMaturityGrace, 10000000).ok());
  model_ = model;
  const std::size_t before = engine_->registry().reserved_bytes();
  ASSERT_TRUE(Update(kMaturityGrace, 200000).ok());
  const std::size_t grown = engine_->registry().reserved_bytes();
  EXPECT_GT(grown, before);
  // Predictions of the higher limit may still be pending.
  ASSERT_TRUE(Update(kMaturityGrace, 10).ok());
  EXPECT_EQ(engine_->registry().reserved_bytes(), grown);
  EXPECT_TRUE(absl::IsResourceExhausted(Update(kMaturityGrace, 10000000)));
  EXPECT_EQ(model_->declaration()->max_pending, 10U);
  EXPECT_EQ(engine_->registry().reserved_bytes(), grown);
  ASSERT_TRUE(engine_->DeleteModel("models/m").ok());
  EXPECT_LT(engine_->registry().reserved_bytes(), before);
}

}  // namespace
}  // namespace calibd::testing
