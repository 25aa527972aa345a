// Batches of an older store are put in front of the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "unit/server/log_compaction_fixture.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace calibd::server
