// When snapshots of models are stored, which leaves little to replay for a start.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "integration/engine/engine.h"
#include "server/ingest/snapshots.h"
#include "support/temporary_folder.h"
#include "support/test_operation.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::LogRetention;
using server::Model;

constexpr std::size_t kFew = 10;
// A snapshot is due after fewer rows.
constexpr std::size_t kMany = 20000;

class SnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    for (const char* name : {"models/a", "models/b", "models/c"}) {
      v1::Model model = Declare(name);
      model.set_window(1000);
      ASSERT_TRUE(engine_->CreateModel(model).ok());
    }
  }
  // matures: see Engine::Options.
  void Start(bool matures = true) {
    engine_.reset();
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(), .matures = matures});
  }
  void Submit(const std::string& name, std::size_t rows) {
    const std::shared_ptr<Model> model = engine_->Find(name);
    EXPECT_EQ(engine_->Submit(model, std::nullopt, MakeBatch(*model, rows, 1)).accepted_rows,
              static_cast<std::int64_t>(rows));
  }
  std::int64_t StoredTime(const std::string& name) { return engine_->Find(name)->stored_time_us(); }
  bool AwaitStored(const std::string& name, std::int64_t after = 0) {
    return WaitFor([&] { return StoredTime(name) > after; });
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
};

TEST_F(SnapshotTest, AnIdleModelGetsASnapshotInTime) {
  Submit("models/b", kFew);
  clock_.Move(std::chrono::seconds(1));
  Submit("models/a", kFew);
  clock_.Move(LogRetention::kSnapshotInterval - std::chrono::seconds(1));
  // Each pass examines all models, so the pass that stored b found that a was not due.
  ASSERT_TRUE(AwaitStored("models/b"));
  EXPECT_EQ(StoredTime("models/a"), 0);
  clock_.Move(std::chrono::seconds(1));
  ASSERT_TRUE(AwaitStored("models/a"));
  const std::int64_t stored = StoredTime("models/a");
  EXPECT_EQ(StoredTime("models/c"), 0) << "without anything to store";
  // Model a has no new rows, so it is not stored again when b is.
  Submit("models/b", kFew);
  clock_.Move(10 * LogRetention::kSnapshotInterval);
  ASSERT_TRUE(AwaitStored("models/b", stored));
  EXPECT_EQ(StoredTime("models/a"), stored);
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, 0);
  EXPECT_EQ(StoredTime("models/a"), stored);
  EXPECT_EQ(engine_->Find("models/a")->snapshot()->observations, kFew);
}

TEST_F(SnapshotTest, ReplayedRowsGetASnapshotWithoutAnotherBatch) {
  Submit("models/a", kFew);
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, kFew);
  EXPECT_TRUE(WaitFor([&] {
    // Counted from the time when the start was noticed.
    clock_.Move(LogRetention::kSnapshotInterval);
    return StoredTime("models/a") != 0;
  }));
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, 0);
}

TEST_F(SnapshotTest, OneThatBecomesDueDuringAnotherFollows) {
  Start(/*matures=*/false);
  const std::shared_ptr<Model> model = engine_->Find("models/a");
  Signal release;
  model->strand().Post([&release] { release.Wait(); });
  std::atomic<int> settled = 0;
  for (int i = 0; i < 2; ++i) {
    engine_->ingestor().Submit(model, std::nullopt, MakeBatch(*model, kMany, 1),
                               [&settled](const server::Settlement&) { ++settled; });
    // Each batch has a transaction of its own, and therefore a separate task of the strand.
    engine_->commits().Flush();
  }
  release.Set();
  ASSERT_TRUE(WaitFor([&] { return settled == 2; }));
  // Each is flushed after the strand has posted it.
  for (int i = 0; i < 4; ++i) static_cast<void>(engine_->StateOf(model));
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, 0);
}

// A version with other bets may not raise the alarm again when it replays the rows.
TEST_F(SnapshotTest, ARaisedAlarmIsStoredAtOnce) {
  // The labels of these rows do not follow the probabilities.
  constexpr std::size_t kRows = 1000;
  Submit("models/a", kRows);
  Submit("models/b", kFew);
  const auto alarms = engine_->Find("models/a")->snapshot()->monitor->alarms;
  ASSERT_FALSE(alarms->empty());
  // The clock stands still, and there are too few rows.
  ASSERT_TRUE(AwaitStored("models/a"));
  const std::int64_t stored = StoredTime("models/a");
  // An alarm that stays active does not cause another snapshot.
  clock_.Move(std::chrono::seconds(1));
  Submit("models/a", kFew);
  static_cast<void>(engine_->StateOf(engine_->Find("models/a")));
  EXPECT_EQ(StoredTime("models/a"), stored);
  EXPECT_EQ(StoredTime("models/b"), 0) << "without an alarm";
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, 2 * kFew);
  EXPECT_EQ(engine_->Find("models/a")->snapshot()->monitor->alarms->size(), alarms->size());
}

TEST_F(SnapshotTest, AFailedOneIsRetriedWithoutAnotherBatch) {
  Submit("models/a", kFew);
  {
    const Blocker blocker(engine_->commits());
    clock_.Move(LogRetention::kSnapshotInterval);
    ASSERT_TRUE(WaitFor([this] { return engine_->commits().statistics().queued == 2; }));
    PostToCatalog(engine_->commits(),
                  {.write = [](server::Store&) { return absl::ResourceExhaustedError(""); }});
  }
  ASSERT_TRUE(WaitFor([this] { return engine_->commits().statistics().failed_commits == 1; }));
  EXPECT_EQ(StoredTime("models/a"), 0);
  clock_.Move(LogRetention::kRetryInterval);
  EXPECT_TRUE(AwaitStored("models/a"));
}

TEST_F(SnapshotTest, AStopStoresAsManySnapshotsAsTimeAllows) {
  Submit("models/a", kFew);
  Submit("models/b", kFew);
  const auto store = [this](std::chrono::seconds time) {
    return StoreSnapshots(engine_->registry(), engine_->commits(), engine_->ingestor().clock(),
                          std::chrono::steady_clock::now() + time);
  };
  {
    // None of them completes in time; as many as may run at once were started.
    const Blocker blocker(engine_->commits());
    EXPECT_EQ(store(std::chrono::seconds(0)), 3U);
  }
  Submit("models/a", kFew);
  EXPECT_EQ(store(std::chrono::seconds(60)), 0U);
  EXPECT_NE(StoredTime("models/a"), 0);
  EXPECT_NE(StoredTime("models/b"), 0);
  Start();
  EXPECT_EQ(engine_->recovery().replayed_rows, 0);
  // There is nothing to store.
  const std::int64_t stored = StoredTime("models/a");
  clock_.Move(std::chrono::seconds(1));
  store(std::chrono::seconds(60));
  EXPECT_EQ(StoredTime("models/a"), stored);
}

}  // namespace
}  // namespace calibd::testing
