#include "server/rows/log_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kSnapshotRows = 5000;

const auto kNow = LogRetention::Clock::now();

std::vector<std::int64_t> Snapshot(LogRetention& retention) {
  std::vector<std::int64_t> unneeded = retention.BeginSnapshot(kNow);
  retention.EndSnapshot(true);
  return unneeded;
}

bool SnapshotDue(LogRetention& retention, LogRetention::Clock::time_point now) {
  return retention.SnapshotDueAt(now) <= now;
}

TEST(LogRetentionTest, KeepsTheWindow) {
  LogRetention retention(10, kSnapshotRows);
  retention.Add(1, 4);
  retention.Add(2, 4);
  retention.Add(3, 4);
  // Without the first snapshot there would be 8.
  EXPECT_THAT(Snapshot(retention), IsEmpty());
  retention.Add(4, 3);
  EXPECT_THAT(Snapshot(retention), ElementsAre(1));
  retention.Add(5, 100);
  EXPECT_THAT(Snapshot(retention), ElementsAre(2, 3, 4));
  EXPECT_EQ(retention.last_log_id(), 5);
  EXPECT_THAT(retention.TakeAll(), ElementsAre(5));
}

TEST(LogRetentionTest, RejectedBatchesAreReleasedWithTheNextSnapshot) {
  LogRetention retention(10, kSnapshotRows);
  retention.Add(1, 4);
  retention.Add(2, 0);
  EXPECT_THAT(Snapshot(retention), ElementsAre(2));
  EXPECT_THAT(Snapshot(retention), IsEmpty());
}

TEST(LogRetentionTest, SnapshotsAreDueByRowsBatchesAndTime) {
  LogRetention retention(10, kSnapshotRows);
  static_cast<void>(Snapshot(retention));
  EXPECT_FALSE(SnapshotDue(retention, kNow + LogRetention::kSnapshotInterval));
  retention.AddOld(1, kSnapshotRows);
  EXPECT_FALSE(SnapshotDue(retention, kNow + LogRetention::kSnapshotInterval));
  retention.Add(2, 1);
  EXPECT_FALSE(SnapshotDue(retention, kNow));
  EXPECT_TRUE(SnapshotDue(retention, kNow + LogRetention::kSnapshotInterval));
  retention.Add(3, kSnapshotRows - 1);
  EXPECT_TRUE(SnapshotDue(retention, kNow));
  static_cast<void>(Snapshot(retention));
  for (std::size_t i = 0; i < LogRetention::kSnapshotBatches; ++i) {
    EXPECT_FALSE(SnapshotDue(retention, kNow));
    retention.Add(4 + static_cast<std::int64_t>(i), 1);
  }
  EXPECT_TRUE(SnapshotDue(retention, kNow));
  static_cast<void>(Snapshot(retention));
  for (std::size_t i = 0; i < LogRetention::kSnapshotBatches; ++i) {
    retention.AddTracked(5000 + static_cast<std::int64_t>(i), 1);
  }
  EXPECT_TRUE(SnapshotDue(retention, kNow));
}

TEST(LogRetentionTest, CoveredBatchesAreNeededOnlyForTheWindow) {
  LogRetention retention(10, kSnapshotRows);
  EXPECT_EQ(retention.first_log_id(), 1);
  retention.AddOld(1, 4);
  retention.AddOld(2, 0);
  retention.AddOld(3, 9);
  EXPECT_THAT(retention.TakeUnneededOld(), ElementsAre(2));
  retention.AddOld(4, 1);
  EXPECT_THAT(retention.TakeUnneededOld(), ElementsAre(1));
  EXPECT_EQ(retention.first_log_id(), 3);
  // The window at the time of the snapshot is needed until there is another one.
  retention.Add(5, 10);
  retention.Add(6, 0);
  EXPECT_THAT(retention.TakeUnneededOld(), IsEmpty());
  EXPECT_THAT(Snapshot(retention), ElementsAre(6, 3, 4));
  EXPECT_EQ(retention.first_log_id(), 5);
}

TEST(LogRetentionTest, RejectedBatchesAloneAreDueLate) {
  LogRetention retention(10, kSnapshotRows);
  static_cast<void>(Snapshot(retention));
  for (std::size_t i = 0; i < LogRetention::kSnapshotRejected; ++i) {
    EXPECT_FALSE(SnapshotDue(retention, kNow));
    retention.Add(1 + static_cast<std::int64_t>(i), 0);
  }
  EXPECT_TRUE(SnapshotDue(retention, kNow));
}

TEST(LogRetentionTest, ASnapshotIsDueSomeTimeAfterTheFirstBatchItDoesNotCover) {
  constexpr std::chrono::seconds kSecond{1};
  LogRetention retention(10, kSnapshotRows);
  EXPECT_EQ(retention.SnapshotDueAt(kNow), LogRetention::kNever);
  EXPECT_FALSE(retention.unstored());
  retention.Add(1, 1);
  EXPECT_EQ(retention.SnapshotDueAt(kNow), kNow + LogRetention::kSnapshotInterval);
  EXPECT_TRUE(retention.unstored());
  retention.Add(2, 0);
  EXPECT_EQ(retention.SnapshotDueAt(kNow + kSecond), kNow + LogRetention::kSnapshotInterval);
  static_cast<void>(retention.BeginSnapshot(kNow + 2 * kSecond));
  EXPECT_FALSE(retention.unstored());
  retention.Add(3, 0);
  EXPECT_EQ(retention.SnapshotDueAt(kNow + 3 * kSecond), LogRetention::kNever);
  EXPECT_TRUE(retention.unstored());
  // That batch came while the previous snapshot was being written.
  retention.EndSnapshot(true);
  EXPECT_EQ(retention.SnapshotDueAt(kNow + 9 * kSecond),
            kNow + 3 * kSecond + LogRetention::kSnapshotInterval);
  retention.HastenSnapshot();
  EXPECT_EQ(retention.SnapshotDueAt(kNow + 9 * kSecond), kNow + 9 * kSecond);
}

TEST(LogRetentionTest, OneSnapshotAtATimeAndAFailedOneIsRepeated) {
  LogRetention retention(1, kSnapshotRows);
  retention.Add(1, 1);
  retention.Add(2, kSnapshotRows);
  EXPECT_THAT(retention.BeginSnapshot(kNow), ElementsAre(1));
  retention.Add(3, kSnapshotRows);
  EXPECT_FALSE(SnapshotDue(retention, kNow + LogRetention::kSnapshotInterval));
  retention.EndSnapshot(false);
  EXPECT_FALSE(SnapshotDue(retention, kNow));
  EXPECT_TRUE(SnapshotDue(retention, kNow + LogRetention::kRetryInterval));
  EXPECT_THAT(retention.BeginSnapshot(kNow), ElementsAre(1, 2));
  retention.EndSnapshot(true);
  EXPECT_FALSE(SnapshotDue(retention, kNow + LogRetention::kRetryInterval));
  EXPECT_THAT(retention.TakeAll(), ElementsAre(3));
}

TEST(LogRetentionTest, TrackedBatchesAreKeptForOthers) {
  LogRetention retention(1, kSnapshotRows);
  retention.AddTracked(1, kSnapshotRows);
  EXPECT_TRUE(SnapshotDue(retention, kNow));
  retention.Add(2, 1);
  retention.AddOldTracked(3);
  EXPECT_EQ(retention.last_log_id(), 3);
  EXPECT_THAT(Snapshot(retention), IsEmpty());
  EXPECT_THAT(retention.TakeAll(), ElementsAre(2));
}

}  // namespace
}  // namespace calibd::server
