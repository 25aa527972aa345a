// The disk space that a declaration reserves limits the space that the store uses for it.
#include "server/state/disk_use.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "integration/engine/engine.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::Model;
using server::Settlement;

constexpr std::uint64_t kSegment = std::uint64_t{256} << 10;
// The size before files of the log are removed, including one that is being filled and one that is
// kept for reuse.
constexpr std::uint64_t kSharedLog = 6 * kSegment;
constexpr std::chrono::seconds kDiskUseGrace{10};

class DiskUseTest : public ::testing::Test {
 protected:
  void Create(int class_count, std::int32_t max_pending) {
    engine_.emplace(
        folder_.path(),
        Engine::Options{.clock = clock_.clock(), .matures = false, .segment_bytes = kSegment});
    v1::Model model = Declare("models/m", class_count, kDiskUseGrace);
    model.set_max_pending(max_pending);
    model.set_window(100);
    const absl::Status status = engine_->CreateModel(model);
    ASSERT_TRUE(status.ok()) << status;
    model_ = engine_->Find("models/m");
  }
  void Predict(const std::string& prefix, std::size_t n, const std::string& producer = "p") {
    const std::vector<std::string> ids = MakeIds(prefix, n);
    Accept(MakeBatch(*model_, n, ++seed_, ids), producer);
    Accept(MakeLabels(*model_, ids), producer);
  }
  void Accept(server::LogRow batch, const std::string& producer) {
    const Settlement settlement =
        engine_->Submit(model_, {{producer, 1, ++sequence_}}, std::move(batch));
    ASSERT_EQ(settlement.kind, Settlement::Kind::kAccepted) << settlement.status;
  }
  void Mature() {
    clock_.Move(kDiskUseGrace);
    // Each call matures at most one transaction.
    for (int i = 0; i < 50 && model_->snapshot()->label_arrivals->pending() > 0; ++i) {
      ASSERT_TRUE(engine_->Mature(model_));
    }
  }
  // Returns the size of the log and the database, without the write-ahead log, which models share.
  [[nodiscard]] std::uint64_t OnDisk() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      std::error_code gone;
      const std::uintmax_t size = entry.file_size(gone);
      if (!gone && (name.starts_with("log") || name == "calibd.db")) bytes += size;
    }
    return bytes;
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  std::optional<Engine> engine_;
  std::shared_ptr<Model> model_;
  std::uint64_t seed_ = 0;
  std::int64_t sequence_ = 0;
};

TEST_F(DiskUseTest, BoundsPendingPredictions) {
  constexpr int kPending = 2000;
  Create(1000, kPending);
  std::uint64_t most = 0;
  // The same number of ids stays known after the predictions have matured.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kPending / 100; ++i) {
      ASSERT_NO_FATAL_FAILURE(
          Predict("id" + std::to_string(round) + "-" + std::to_string(i) + "-", 100));
      most = std::max(most, OnDisk());
    }
    ASSERT_NO_FATAL_FAILURE(Mature());
    most = std::max(most, OnDisk());
  }
  const std::size_t reserved = server::DiskUse(*model_->declaration());
  EXPECT_EQ(engine_->registry().reserved_disk_bytes(), reserved + server::kSharedDiskBytes);
  EXPECT_LE(most, reserved + kSharedLog);
  // How much there is at most depends on when files of the log are removed.
  EXPECT_GE(6 * most, reserved);
  RecordProperty("most", std::to_string(most));
  RecordProperty("reserved", std::to_string(reserved));
}

TEST_F(DiskUseTest, BoundsPredictionsThatAreSentOneByOne) {
  constexpr int kPending = 200;
  Create(2, kPending);
  const std::int64_t before = engine_->commits().statistics().sizes.log_bytes;
  for (int i = 0; i < kPending; ++i) {
    ASSERT_NO_FATAL_FAILURE(Predict("id" + std::to_string(i), 1, std::string(128, 'p')));
  }
  const auto written =
      static_cast<std::uint64_t>(engine_->commits().statistics().sizes.log_bytes - before);
  // They count twice, and so do as many matured ones.
  const std::size_t reserved = kPending * server::DiskUsePerPending(*model_->declaration());
  EXPECT_LE(4 * written, reserved);
  EXPECT_GE(4 * 4 * written, reserved);
  RecordProperty("written", std::to_string(4 * written));
  RecordProperty("reserved", std::to_string(reserved));
}

// The reservation is released although model_ still refers to the model.
TEST_F(DiskUseTest, ADeletionIsAnsweredAfterTheReservationIsReleased) {
  Create(4, 10);
  EXPECT_GT(engine_->registry().reserved_disk_bytes(), server::kSharedDiskBytes);
  EXPECT_GT(engine_->registry().reserved_bytes(), 0U);
  ASSERT_TRUE(engine_->DeleteModel("models/m").ok());
  EXPECT_EQ(engine_->registry().reserved_disk_bytes(), server::kSharedDiskBytes);
  EXPECT_EQ(engine_->registry().reserved_bytes(), 0U);
}

}  // namespace
}  // namespace calibd::testing
