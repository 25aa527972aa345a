// Segments whose batches are mostly not needed are compacted: no needed batch is lost or read
// twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "unit/server/log_compaction_fixture.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

TEST_F(LogCompactionTest, NeededBatchesMoveToOneSegmentAndTheOthersAreGone) {
  Open();
  // Five batches in a segment.
  Fill(27, 3000, kEveryFifth);
  ASSERT_THAT(Segments(),
              ElementsAre(std::pair(1, false), std::pair(6, false), std::pair(11, false),
                          std::pair(16, false), std::pair(21, false), std::pair(26, false)));
  ASSERT_TRUE(Retire().ok());
  EXPECT_THAT(Segments(), ElementsAre(std::pair(1, true), std::pair(26, false)));
  EXPECT_LT(std::filesystem::file_size(PathOf(1)), 5 * 3000 + 1000);
  EXPECT_EQ(log_->ReadBatch(2).status().code(), absl::StatusCode::kDataLoss);
  for (int i = 0; i < 2; ++i) {
    Open();
    ExpectNeededAreRead();
    EXPECT_EQ(read_.size(), 5U + 2U);
    EXPECT_EQ(log_->next_log_id(), 28);
  }
  Write({"next"});
  Open();
  ExpectNeededAreRead();
}

TEST_F(LogCompactionTest, ACompactedSegmentIsCompactedAgainWithItsNeighbours) {
  Open();
  for (int i = 0; i < 20; ++i) {
    Fill(25, 3000, kEveryFifth);
    ASSERT_TRUE(Retire().ok());
    std::vector<std::int64_t> old;
    for (const auto& [log_id, data] : needed_) {
      if (log_id < log_->next_log_id() - 60) old.push_back(log_id);
    }
    Release(old);
    ASSERT_TRUE(Retire().ok());
    ASSERT_LE(log_->bytes(), static_cast<std::int64_t>(8 * segment_bytes_));
    ASSERT_LE(Segments().size(), 6U);
  }
  EXPECT_GT(first_log_id_, 1) << "the oldest segment is removed when none of its batches is needed";
  Open();
  ExpectNeededAreRead();
}

TEST_F(LogCompactionTest, SmallSegmentsDoNotAccumulate) {
  Open();
  // One batch of 50 segments stays needed.
  for (int i = 0; i < 20; ++i) {
    Fill(250, 3000, [](std::int64_t log_id) { return log_id % 250 == 1; });
    ASSERT_TRUE(Retire().ok());
    ASSERT_LE(Segments().size(), 12U);
  }
  Open();
  EXPECT_EQ(read_.begin()->first, 1);
  ExpectNeededAreRead();
}

// Random writes, releases, steps, views and starts.
class RandomLogTest : public LogCompactionTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  // True in one of n cases.
  bool OneIn(unsigned n) { return random_() % n == 0; }

  void WriteSome() {
    std::vector<std::string> batches;
    for (std::size_t j = 0; j <= random_() % 3; ++j) {
      batches.push_back(std::to_string(random_()) + std::string(random_() % 2500, 'x'));
    }
    Write(batches);
    all_.insert(needed_.begin(), needed_.end());
  }
  void ReleaseSome() {
    std::vector<std::int64_t> log_ids;
    for (const auto& [log_id, data] : needed_) {
      if (OneIn(10)) log_ids.push_back(log_id);
    }
    Release(log_ids);
    released_.insert(released_.end(), log_ids.begin(), log_ids.end());
  }
  // The model is as after a start: it finds out again what is not needed.
  void Restart() {
    held_.reset();
    Open();
    for (const auto& [log_id, data] : read_) ASSERT_EQ(data, all_[log_id]);
    ExpectNeededAreRead();
    log_->MarkUnneeded(released_);
  }

  struct View {
    std::vector<LogFiles::Extent> extents;
    Batches needed;
  };
  void Hold() {
    log_->Hold();
    held_ = View{.extents = log_->extents(), .needed = needed_};
  }
  // It shows what was needed when the files were held.
  void ReadView() {
    Batches copy;
    for (const LogFiles::Extent& extent : held_->extents) {
      const absl::Status status =
          LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool needed) {
            EXPECT_EQ(needed, held_->needed.contains(batch.log_id)) << batch.log_id;
            if (needed) copy[batch.log_id] = std::string(batch.data);
            return absl::OkStatus();
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_EQ(copy, held_->needed);
    held_.reset();
    log_->Release();
  }

  // After some steps the power fails before the removal of files is durable: any of them may be
  // there again.
  void RetireStep() {
    if (!log_->RetirementDue()) return;
    std::map<std::int64_t, std::string> files;
    const bool power_cut = OneIn(4);
    if (power_cut) {
      for (const auto& [log_id, compacted] : Segments()) files[log_id] = BytesOf(PathOf(log_id));
    }
    if (log_->OldestIsUnneeded()) {
      first_log_id_ = log_->first_log_id_after_oldest();
      ASSERT_TRUE(log_->RemoveOldest().ok());
    } else {
      ++compactions_;
      ASSERT_TRUE(log_->Compact().ok());
    }
    if (!power_cut) return;
    for (const auto& [log_id, bytes] : files) {
      if (std::filesystem::exists(PathOf(log_id)) || OneIn(2)) continue;
      WriteFile(PathOf(log_id), bytes);
      ++reappeared_;
    }
    Restart();
  }

  std::mt19937 random_{GetParam()};
  // Every batch that was written, and the ids of those that were released.
  Batches all_;
  std::vector<std::int64_t> released_;
  std::optional<View> held_;
  int compactions_ = 0;
  int reappeared_ = 0;
};

TEST_P(RandomLogTest, NoNeededBatchIsEverLost) {
  Open();
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        WriteSome();
        break;
      case 3:
        ReleaseSome();
        break;
      case 4:
        if (!held_.has_value()) {
          if (OneIn(4)) Hold();
        } else {
          ASSERT_FALSE(log_->RetirementDue());
          ReadView();
        }
        break;
      case 5:
        if (OneIn(10)) Restart();
        break;
      default:
        RetireStep();
    }
  }
  EXPECT_GT(compactions_, 50);
  EXPECT_GT(reappeared_, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLogTest, ::testing::Range(1U, 4U));

TEST_F(LogCompactionTest, AStepIsBoundedAndWritesMayComeBetween) {
  segment_bytes_ = std::uint64_t{4} << 20;
  Open();
  Fill(130, 150000, kEveryFifth);
  ASSERT_TRUE(log_->RetirementDue());
  int steps = 0;
  for (; log_->RetirementDue(); ++steps) {
    ASSERT_TRUE(log_->Compact().ok());
    Write({"between"});
    // One of these batches was copied, and one was not.
    Release({1 + 5 * steps, 96 - 5 * steps});
  }
  EXPECT_GE(steps, 2);
  const auto extents = log_->extents();
  ASSERT_TRUE(LogFiles::ReadExtent(extents.front(), [&](const StoredBatch& batch, bool needed) {
                EXPECT_EQ(needed, needed_.contains(batch.log_id)) << batch.log_id;
                return absl::OkStatus();
              }).ok());
  Open();
  ExpectNeededAreRead();
}

TEST_F(LogCompactionTest, AHeldLogIsNotCompacted) {
  Open();
  Fill(27, 3000, [](std::int64_t) { return true; });
  log_->Hold();
  std::vector<std::int64_t> unneeded;
  for (std::int64_t log_id = 1; log_id <= 25; ++log_id) {
    if (!kEveryFifth(log_id)) unneeded.push_back(log_id);
  }
  Release(unneeded);
  EXPECT_FALSE(log_->RetirementDue());
  log_->Release();
  EXPECT_TRUE(log_->RetirementDue());
}

TEST_F(LogCompactionTest, AFullDiskChangesNothing) {
  Open();
  Fill(27, 3000, kEveryFifth);
  const auto before = Segments();
  // A file that may not grow is as a full disk.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  auto* const former = std::signal(SIGXFSZ, SIG_IGN);
  const auto retire = [&](rlim_t bytes) {
    const rlimit small{.rlim_cur = bytes, .rlim_max = limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const absl::Status status = Retire();
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return status;
  };
  EXPECT_EQ(retire(2000).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Segments(), before);
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.compacted"));
  Write({"goes on"});
  // There is room for the batches of one segment, but not for those of several.
  EXPECT_TRUE(retire(5000).ok());
  EXPECT_NE(Segments(), before);
  std::signal(SIGXFSZ, former);
  Open();
  ExpectNeededAreRead();
}

class KilledCompactionTest : public LogCompactionTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    segment_bytes_ = std::uint64_t{2} << 20;
    // The process that ends is this test, started once more, on the folder of the first.
    if (std::getenv(kFolder) != nullptr) return;
    setenv(kFolder, folder().c_str(), 1);
    Open();
    Fill(54, 180000, kEveryFifth);
  }

  static constexpr char kFolder[] = "CALIBD_TEST_FOLDER";
};

TEST_P(KilledCompactionTest, NoBatchIsLostOrReadTwice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string shared = std::getenv(kFolder);
  EXPECT_EXIT(
      {
        auto log = LogFiles::Open(
            shared, {.segment_bytes = segment_bytes_, .first_log_id = 1, .mark = mark_});
        if (!log.ok() || !(*log)->Read([](const StoredBatch&) { return absl::OkStatus(); }).ok()) {
          std::abort();
        }
        std::vector<std::int64_t> unneeded;
        for (std::int64_t log_id = 1; log_id <= 54; ++log_id) {
          if (!kEveryFifth(log_id)) unneeded.push_back(log_id);
        }
        (*log)->MarkUnneeded(unneeded);
        std::filesystem::remove_all(folder());
        setenv("CALIBD_FAILPOINT", ("compact:" + std::to_string(GetParam())).c_str(), 1);
        while ((*log)->RetirementDue()) static_cast<void>((*log)->Compact());
      },
      ::testing::KilledBySignal(SIGKILL), "");
  unsetenv(kFolder);
  Open();
  ExpectNeededAreRead();
  // Two steps are done before the new file replaces the first one.
  EXPECT_EQ(Segments().front().second, GetParam() > 3);
  EXPECT_EQ(Segments().size(), GetParam() > 3 ? 2U : 5U);
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.compacted"));
  for (int start = 0; start < 2; ++start) {
    std::vector<std::int64_t> unneeded;
    for (const auto& [log_id, data] : read_) {
      if (!needed_.contains(log_id)) unneeded.push_back(log_id);
    }
    log_->MarkUnneeded(unneeded);
    ASSERT_TRUE(Retire().ok());
    Open();
    ExpectNeededAreRead();
  }
  EXPECT_EQ(Segments().size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Points, KilledCompactionTest, ::testing::Range(1, 8));

}  // namespace
}  // namespace calibd::server
