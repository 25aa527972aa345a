// The size of the log follows the needed rows.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "integration/engine/engine.h"
#include "server/store/local/sqlite.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::Model;
using server::Settlement;

constexpr std::uint64_t kRetentionSegment = std::uint64_t{128} << 10;

class RetentionTest : public ::testing::Test {
 protected:
  void Start() {
    idle_.reset();
    busy_.reset();
    engine_.reset();
    engine_.emplace(folder_.path(), Engine::Options{.clock = clock_.clock(),
                                                    .matures = false,
                                                    .segment_bytes = kRetentionSegment});
    idle_ = engine_->Find("models/idle");
    busy_ = engine_->Find("models/busy");
  }
  void Create(v1::Model model, std::int32_t window) {
    model.set_window(window);
    const absl::Status status = engine_->CreateModel(model);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Submit(const std::shared_ptr<Model>& model, server::LogRow batch) {
    ASSERT_EQ(engine_->Submit(model, {{"p", 1, ++sequences_[model->id()]}}, std::move(batch)).kind,
              Settlement::Kind::kAccepted);
  }
  // Number of files of the log.
  [[nodiscard]] std::size_t Files() const {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      files += entry.path().filename().string().starts_with("log-") ? 1U : 0U;
    }
    return files;
  }
  // Expects the same state after a restart.
  void ExpectTheSameAfterARestart() {
    const Engine::State idle = engine_->StateOf(idle_, {"p"});
    const Engine::State busy = engine_->StateOf(busy_, {"p"});
    const PredictionSet window = Newest(*idle_);
    Start();
    EXPECT_TRUE(engine_->StateOf(idle_, {"p"}) == idle);
    EXPECT_TRUE(engine_->StateOf(busy_, {"p"}) == busy);
    EXPECT_EQ(Newest(*idle_).probabilities, window.probabilities);
  }
  static PredictionSet Newest(const Model& model) {
    const auto snapshot = model.snapshot();
    return snapshot->window.CopyNewest(snapshot->window.size());
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> idle_;
  std::shared_ptr<Model> busy_;
  std::map<std::int64_t, std::int64_t> sequences_;
};

TEST_F(RetentionTest, AnIdleModelKeepsNoFile) {
  constexpr std::size_t kRows = 600;
  constexpr int kClasses = 100;
  Start();
  Create(Declare("models/idle", kClasses), 1000);
  Create(Declare("models/busy", kClasses), 500);
  idle_ = engine_->Find("models/idle");
  busy_ = engine_->Find("models/busy");
  for (int i = 0; i < 3; ++i) Submit(idle_, MakeBatch(*idle_, 100, static_cast<std::uint64_t>(i)));
  std::size_t most = 0;
  // About 20 MB, in files of 128 KiB.
  for (int i = 0; i < 50; ++i) {
    Submit(busy_, MakeBatch(*busy_, kRows, static_cast<std::uint64_t>(i)));
    most = std::max(most, Files());
  }
  // There are batches for at most two snapshots, one of which is being written. Each batch has its
  // own file.
  EXPECT_LT(most, 20U);
  EXPECT_EQ(idle_->snapshot()->window.size(), 300U);
  ExpectTheSameAfterARestart();
  EXPECT_EQ(idle_->snapshot()->window.size(), 300U);
  // The cursors of both producers continue.
  Submit(idle_, MakeBatch(*idle_, 10, 7));
  Submit(busy_, MakeBatch(*busy_, 10, 7));
  ExpectTheSameAfterARestart();
  auto database = server::Database::Open((folder_.path() / "calibd.db").string());
  // Its batches are in a compacted segment, not in the database.
  EXPECT_EQ(*database->QueryInteger("SELECT count(*) FROM log"), 0);
}

TEST_F(RetentionTest, ForgottenPredictionsStayForgotten) {
  constexpr std::chrono::seconds kGrace{10};
  Start();
  // A snapshot, without which nothing is forgotten, is due after a minute.
  v1::Model model = Declare("models/idle", 100, kGrace);
  model.set_max_pending(60);
  Create(model, 200);
  Create(Declare("models/busy"), 100);
  idle_ = engine_->Find("models/idle");
  busy_ = engine_->Find("models/busy");
  // Each id is used repeatedly, and is new after it was forgotten.
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::string> ids = MakeIds("id" + std::to_string(round % 30) + "-", 50);
    const Settlement settlement = engine_->Submit(
        idle_, std::nullopt, MakeBatch(*idle_, 50, static_cast<std::uint64_t>(round), ids));
    ASSERT_EQ(settlement.kind, Settlement::Kind::kAccepted);
    engine_->Submit(idle_, std::nullopt, MakeLabels(*idle_, ids, round % 4));
    clock_.MoveSteady(kGrace);
    clock_.MoveWall(kGrace);
    ASSERT_TRUE(engine_->Mature(idle_));
    clock_.MoveSteady(2 * kGrace);
    clock_.MoveWall(2 * kGrace);
    ASSERT_TRUE(engine_->Mature(idle_));
    // The previous call may have written a snapshot.
    ASSERT_TRUE(engine_->Mature(idle_));
    if (round % 50 == 49) {
      const auto before = *idle_->snapshot()->label_arrivals;
      ExpectTheSameAfterARestart();
      EXPECT_EQ(idle_->snapshot()->label_arrivals->matured, before.matured);
    }
  }
  EXPECT_GT(idle_->snapshot()->label_arrivals->predictions, 50 * 30);
  EXPECT_LT(Files(), 20U);
}

TEST_F(RetentionTest, HeldFilesAreRemovedEvenIfTheDiskIsFullAfterwards) {
  Start();
  Create(Declare("models/busy", 100), 500);
  busy_ = engine_->Find("models/busy");
  auto view = engine_->commits().OpenView();
  ASSERT_TRUE(view.ok()) << view.status();
  for (std::uint64_t i = 0; i < 30; ++i) Submit(busy_, MakeBatch(*busy_, 300, i));
  ASSERT_GE(Files(), 30U);
  FailTransaction(engine_->commits(), [&view] { view->reset(); });
  EXPECT_TRUE(WaitFor([this] { return Files() < 20; }));
  EXPECT_FALSE(engine_->failed());
}

TEST_F(RetentionTest, ADeletedModelsFilesAreRemovedEvenOnAFullDisk) {
  Start();
  Create(Declare("models/busy", 100), 100000);
  busy_ = engine_->Find("models/busy");
  for (std::uint64_t i = 0; i < 30; ++i) Submit(busy_, MakeBatch(*busy_, 300, i));
  ASSERT_GE(Files(), 30U);
  Signal release;
  busy_->strand().Post([&release] { release.Wait(); });
  // Answered after the strand, which is blocked.
  absl::Status deleted;
  std::thread deletion([&] { deleted = engine_->DeleteModel("models/busy"); });
  EXPECT_TRUE(WaitFor([this] { return engine_->Find("models/busy") == nullptr; }));
  FailTransaction(engine_->commits(), [&release] { release.Set(); });
  deletion.join();
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_TRUE(WaitFor([this] { return Files() <= 2; }));
  EXPECT_FALSE(engine_->failed());
}

}  // namespace
}  // namespace calibd::testing
