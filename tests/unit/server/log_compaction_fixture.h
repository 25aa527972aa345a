#ifndef CALIBD_TESTS_UNIT_SERVER_LOG_COMPACTION_FIXTURE_H_
#define CALIBD_TESTS_UNIT_SERVER_LOG_COMPACTION_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/local/log_files.h"
#include "support/temporary_folder.h"

namespace calibd::server {

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
  // Retires files as the store does.
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
    for (const std::int64_t id : *ids) segments.emplace_back(id, BytesOf(PathOf(id)).at(8) == 2);
    return segments;
  }
  void ExpectDamage(const std::string& message) {
    const absl::Status status = TryOpen();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
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
  // The batches that the last TryOpen read.
  Batches read_;
};

// One batch of five stays needed.
inline constexpr auto kEveryFifth = [](std::int64_t log_id) { return log_id % 5 == 1; };

}  // namespace calibd::server

#endif  // CALIBD_TESTS_UNIT_SERVER_LOG_COMPACTION_FIXTURE_H_
