#include "server/state/log_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const auto kNow = LogRetention::Clock::now();

TEST(LogRetentionTest, KeepsTheWindow) {
  LogRetention retention(10);
  retention.Add(1, 4);
  retention.Add(2, 4);
  retention.Add(3, 4);
  // Without the first there would be 8.
  EXPECT_THAT(retention.TakeUnneeded(kNow), IsEmpty());
  retention.Add(4, 3);
  EXPECT_THAT(retention.TakeUnneeded(kNow), ElementsAre(1));
  retention.Add(5, 100);
  EXPECT_THAT(retention.TakeUnneeded(kNow), ElementsAre(2, 3, 4));
  EXPECT_EQ(retention.last_log_id(), 5);
  EXPECT_THAT(retention.TakeAll(), ElementsAre(5));
}

TEST(LogRetentionTest, RejectedBatchesGoWithTheNextSnapshot) {
  LogRetention retention(10);
  retention.Add(1, 4);
  retention.Add(2, 0);
  EXPECT_THAT(retention.TakeUnneeded(kNow), ElementsAre(2));
  EXPECT_THAT(retention.TakeUnneeded(kNow), IsEmpty());
}

TEST(LogRetentionTest, SnapshotsAreDueByRowsBatchesAndTime) {
  LogRetention retention(10);
  static_cast<void>(retention.TakeUnneeded(kNow));
  EXPECT_FALSE(retention.SnapshotDue(kNow + LogRetention::kSnapshotInterval));
  retention.AddOld(1, LogRetention::kSnapshotRows);
  EXPECT_FALSE(retention.SnapshotDue(kNow + LogRetention::kSnapshotInterval));
  retention.Add(2, 1);
  EXPECT_FALSE(retention.SnapshotDue(kNow));
  EXPECT_TRUE(retention.SnapshotDue(kNow + LogRetention::kSnapshotInterval));
  retention.Add(3, LogRetention::kSnapshotRows - 1);
  EXPECT_TRUE(retention.SnapshotDue(kNow));
  static_cast<void>(retention.TakeUnneeded(kNow));
  for (std::size_t i = 0; i < LogRetention::kSnapshotBatches; ++i) {
    EXPECT_FALSE(retention.SnapshotDue(kNow));
    retention.Add(4 + static_cast<std::int64_t>(i), 0);
  }
  EXPECT_TRUE(retention.SnapshotDue(kNow));
}

}  // namespace
}  // namespace calibd::server
