// Segments whose batches are mostly not needed are compacted: no needed batch is lost or read
// twice, and damage to a compacted segment is found. Above 600 lines: all tests share the fixture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/store/local/log_files.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Batches of a log by their ids.
using Batches = std::map<std::int64_t, std::string>;

class LogCompactionTest : public ::testing::Test {
 protected:
  // Opens and reads the log, which begins with first_log_id_.
  absl::Status TryOpen() {
    log_.reset();
    auto log = LogFiles::Open(
        folder(), {.segment_bytes = segment_bytes_, .first_log_id = first_log_id_, .mark = mark_});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    read_.clear();
    std::int64_t last = 0;
    return log_->Read([&](const StoredBatch& batch) {
      EXPECT_GT(batch.log_id, last);
      last = batch.log_id;
      EXPECT_EQ(batch.model_id, 7);
      EXPECT_EQ(batch.time_us, 1000 + batch.log_id);
      read_[batch.log_id] = std::string(batch.data);
      return absl::OkStatus();
    });
  }
  void Open() {
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status;
    if (first_log_id_ == 0) first_log_id_ = log_->first_log_id();
  }
  void Close(bool clean) {
    log_->Mark(mark_);
    mark_.clean = clean;
    log_.reset();
  }

  // A frame of these batches, all needed.
  void Write(const std::vector<std::string>& batches) {
    for (const std::string& data : batches) {
      const std::int64_t log_id =
          log_->next_log_id() + static_cast<std::int64_t>(&data - &batches[0]);
      EXPECT_EQ(log_->Append(7, 1000 + log_id, data), log_id);
      needed_[log_id] = data;
    }
    const absl::Status status = log_->Commit();
    ASSERT_TRUE(status.ok()) << status;
  }
  void Release(const std::vector<std::int64_t>& log_ids) {
    log_->MarkUnneeded(log_ids);
    for (const std::int64_t log_id : log_ids) needed_.erase(log_id);
  }
  // Segments that each hold this many batches of this size; `needed` says which stay needed.
  template <typename Needed>
  void Fill(int batches, std::size_t bytes, const Needed& needed) {
    std::vector<std::int64_t> unneeded;
    for (int i = 0; i < batches; ++i) {
      const std::int64_t log_id = log_->next_log_id();
      Write({std::string(bytes, static_cast<char>('a' + log_id % 26))});
      if (!needed(log_id)) unneeded.push_back(log_id);
    }
    Release(unneeded);
  }
  // As the store does it.
  absl::Status Retire() {
    while (log_->RetirementDue()) {
      if (!log_->OldestIsUnneeded()) {
        if (absl::Status status = log_->Compact(); !status.ok()) return status;
        continue;
      }
      first_log_id_ = log_->first_log_id_after_oldest();
      if (absl::Status status = log_->RemoveOldest(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Every needed batch is read once, as it was written.
  void ExpectNeededAreRead() const {
    for (const auto& [log_id, data] : needed_) {
      const auto found = read_.find(log_id);
      ASSERT_NE(found, read_.end()) << log_id;
      ASSERT_EQ(found->second, data) << log_id;
      const absl::StatusOr<std::string> alone = log_->ReadBatch(log_id);
      ASSERT_TRUE(alone.ok()) << alone.status();
      ASSERT_EQ(*alone, data);
    }
  }
  // Segments in the folder: their first ids, and whether they are compacted.
  [[nodiscard]] std::vector<std::pair<std::int64_t, bool>> Segments() const {
    std::vector<std::pair<std::int64_t, bool>> segments;
    const absl::StatusOr<std::vector<std::int64_t>> ids = LogSegment::List(folder());
    for (const std::int64_t id : *ids) segments.emplace_back(id, BytesOf(PathOf(id)).at(8) == 3);
    return segments;
  }
  void ExpectDamage(const std::string& message) {
    const absl::Status status = TryOpen();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::string PathOf(std::int64_t log_id) const {
    return LogSegment::PathOf(folder(), log_id);
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const testing::TemporaryFolder folder_;
  std::uint64_t segment_bytes_ = 16384;
  std::int64_t first_log_id_ = 0;
  StoreMark mark_{.id = {.bytes = {'i', 'd'}}};
  std::unique_ptr<LogFiles> log_;
  Batches needed_;
  // By the last TryOpen.
  Batches read_;
};

constexpr auto kEveryFifth = [](std::int64_t log_id) { return log_id % 5 == 1; };

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
    // Of a batch that was copied, and of one that was not.
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

// ---- Damage

TEST_F(LogCompactionTest, NoChangedBitChangesWhatIsRead) {
  segment_bytes_ = 4096;
  Open();
  Fill(160, 100, kEveryFifth);
  ASSERT_TRUE(Retire().ok());
  Open();
  const Batches all = read_;
  const auto segments = Segments();
  ASSERT_EQ(segments.front(), std::pair(std::int64_t{1}, true));
  Close(/*clean=*/false);
  const std::string bytes = BytesOf(PathOf(1));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at * 5 % 8)));
    WriteFile(PathOf(1), changed);
    const absl::Status status = TryOpen();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << " " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr(PathOf(1)));
  }
  WriteFile(PathOf(1), bytes);
  Open();
  EXPECT_EQ(read_, all);
  // After the start too.
  for (const auto& [log_id, data] : needed_) {
    const std::size_t at = bytes.find(data);
    if (at == std::string::npos) continue;
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    std::fstream(PathOf(1), std::ios::in | std::ios::out | std::ios::binary) << changed;
    const absl::StatusOr<std::string> read = log_->ReadBatch(log_id);
    ASSERT_TRUE(read.ok() ? *read == data : absl::IsDataLoss(read.status())) << log_id;
    std::fstream(PathOf(1), std::ios::in | std::ios::out | std::ios::binary) << bytes;
  }
}

class CompactedDamageTest : public LogCompactionTest {
 protected:
  // Three compacted segments and two others.
  void SetUp() override {
    Open();
    Fill(27, 3000, kEveryFifth);
    uncompacted_ = BytesOf(PathOf(1));
    replaced_ = BytesOf(PathOf(6));
    ASSERT_TRUE(Retire().ok());
    Fill(45, 3000, kEveryFifth);
    ASSERT_TRUE(Retire().ok());
    ASSERT_EQ(Segments().at(0), std::pair(std::int64_t{1}, true));
    ASSERT_EQ(Segments().size(), 5U);
    ASSERT_EQ(Segments().at(2).second, true);
    second_ = Segments().at(2).first;
    Close(/*clean=*/true);
    Open();
  }
  void TearDown() override {
    // Nothing was changed by the starts that failed.
    Open();
    ExpectNeededAreRead();
  }

  std::string uncompacted_;
  std::string replaced_;
  std::int64_t second_ = 0;
};

TEST_F(CompactedDamageTest, AMissingFileIsNamed) {
  const std::string kept = folder() + "/kept";
  for (const auto& [log_id, compacted] : Segments()) {
    std::filesystem::rename(PathOf(log_id), kept);
    ExpectDamage(PathOf(log_id) + " is missing");
    std::filesystem::rename(kept, PathOf(log_id));
  }
}

TEST_F(CompactedDamageTest, ACutFileIsNamed) {
  const std::string bytes = BytesOf(PathOf(1));
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 97) {
    WriteFile(PathOf(1), bytes.substr(0, size));
    ExpectDamage(PathOf(1));
  }
  WriteFile(PathOf(1), bytes + std::string(5000, 'x'));
  EXPECT_TRUE(TryOpen().ok()) << "bytes behind the end belong to nothing";
  WriteFile(PathOf(1), bytes);
}

TEST_F(CompactedDamageTest, FilesInThePlaceOfOthersAreFound) {
  const std::string first = BytesOf(PathOf(1));
  const std::string second = BytesOf(PathOf(second_));
  WriteFile(PathOf(1), second);
  ExpectDamage(PathOf(1) + " begins with batch " + std::to_string(second_));
  // The file that it replaced, which holds only some of its batches.
  WriteFile(PathOf(1), uncompacted_);
  ExpectDamage(PathOf(6) + " is missing");
  WriteFile(PathOf(1), first);
  WriteFile(PathOf(second_), first);
  ExpectDamage(PathOf(second_) + " begins with batch 1 of the log");
  WriteFile(PathOf(second_), second);
  // Under the name of a file that the first one replaced: it is not removed.
  WriteFile(PathOf(3), second);
  ExpectDamage(PathOf(3) + " begins with batch " + std::to_string(second_));
  EXPECT_EQ(BytesOf(PathOf(3)), second);
  std::filesystem::remove(PathOf(3));
}

TEST_F(CompactedDamageTest, AFileThatWasReplacedIsRemoved) {
  WriteFile(PathOf(6), replaced_);
  Open();
  EXPECT_FALSE(std::filesystem::exists(PathOf(6)));
}

TEST_F(CompactedDamageTest, AFileOfAnotherStoreIsNamed) {
  mark_.id.bytes[0] = 'x';
  ExpectDamage(PathOf(1) + " belongs to another store");
  mark_.id.bytes[0] = 'i';
}

TEST_F(CompactedDamageTest, TheLogDoesNotEndWithACompactedSegment) {
  const auto segments = Segments();
  const StoreMark mark = mark_;
  // After a power cut, the mark may be old.
  mark_ = {.id = mark.id};
  std::vector<std::string> kept;
  for (std::size_t i = 3; i < segments.size(); ++i) {
    kept.push_back(BytesOf(PathOf(segments[i].first)));
    std::filesystem::remove(PathOf(segments[i].first));
  }
  ExpectDamage(PathOf(segments[3].first) + " is missing: the log ends with " + PathOf(second_));
  for (std::size_t i = 3; i < segments.size(); ++i) {
    WriteFile(PathOf(segments[i].first), kept[i - 3]);
  }
  mark_ = mark;
}

// ---- Batches in front of the log

class PrependTest : public LogCompactionTest {
 protected:
  void SetUp() override {
    auto log = LogFiles::Open(
        folder(), {.segment_bytes = segment_bytes_, .next_log_id = 1000, .mark = mark_});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    for (std::int64_t log_id = 5; log_id < 1010; log_id += log_id % 7) {
      rows_[log_id] = std::to_string(log_id) + std::string(2000, 'x');
      if (log_id < 1000) needed_[log_id] = rows_[log_id];
      if (log_id % 7 == 0) ++log_id;
    }
  }
  absl::Status Prepend(std::size_t count) {
    auto row = rows_.begin();
    return log_->Prepend([&](StoredBatch& batch) -> absl::StatusOr<bool> {
      if (count-- == 0) return absl::DataLossError("a row is damaged");
      if (row == rows_.end()) return false;
      batch = {
          .log_id = row->first, .model_id = 7, .time_us = 1000 + row->first, .data = row->second};
      ++row;
      return true;
    });
  }

  Batches rows_;
};

TEST_F(PrependTest, PutsBatchesBeforeTheLog) {
  ASSERT_TRUE(Prepend(rows_.size() + 1).ok());
  first_log_id_ = log_->first_log_id();
  EXPECT_EQ(first_log_id_, 5);
  Batches visited;
  ASSERT_TRUE(log_->Read([&](const StoredBatch& batch) {
                    visited[batch.log_id] = std::string(batch.data);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(visited, needed_);
  Open();
  EXPECT_EQ(read_, needed_);
  ExpectNeededAreRead();
  EXPECT_GT(Segments().size(), 3U);
  for (const auto& [log_id, compacted] : Segments()) {
    EXPECT_EQ(compacted, log_id < 1000);
    EXPECT_LE(std::filesystem::file_size(PathOf(log_id)), segment_bytes_);
  }
  Write({"next"});
  Open();
  ExpectNeededAreRead();
}

TEST_F(PrependTest, AfterAnErrorItBeginsAgain) {
  for (const std::size_t count : {0U, 1U, 30U, 100U}) {
    EXPECT_EQ(Prepend(count).code(), absl::StatusCode::kDataLoss);
    first_log_id_ = 1000;
    ASSERT_TRUE(TryOpen().ok());
    EXPECT_TRUE(read_.empty());
    EXPECT_THAT(Segments(), ElementsAre(std::pair(1000, false)));
  }
}

TEST_F(PrependTest, WithoutBatchesNothingChanges) {
  rows_.clear();
  ASSERT_TRUE(Prepend(1).ok());
  EXPECT_EQ(log_->first_log_id(), 1000);
  EXPECT_THAT(Segments(), ElementsAre(std::pair(1000, false)));
}

// ---- The end of the process

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
