#include "server/store/postgres/log_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LogTablesTest, ReadsAtMostFourGenerations) {
  EXPECT_TRUE(LogTables(1).Begin(0, 0));
  EXPECT_TRUE(LogTables(1).Begin(5, 8));
  EXPECT_FALSE(LogTables(1).Begin(5, 9));
  EXPECT_FALSE(LogTables(1).Begin(6, 5));
  EXPECT_FALSE(LogTables(1).Begin(-1, 0));
}

TEST(LogTablesTest, RotatesAtTheGreaterOfTheLeastSizeAndHalfOfWhatIsNeeded) {
  LogTables tables(100);
  ASSERT_TRUE(tables.Begin(0, 0));
  tables.AddAppended(1, 99);
  EXPECT_FALSE(tables.IsRotationDue());
  tables.AddAppended(2, 1);
  EXPECT_TRUE(tables.IsRotationDue());
  tables.AddAppended(3, 900);
  tables.Rotate(1);
  tables.AddAppended(4, 499);
  EXPECT_FALSE(tables.IsRotationDue());
  tables.AddAppended(5, 600);
  EXPECT_TRUE(tables.IsRotationDue());
  EXPECT_EQ(tables.bytes(), 2099);
  tables.MarkUnneeded(std::vector<std::int64_t>{1, 2, 3, 4});
  // What is not needed stays in the table.
  EXPECT_EQ(tables.bytes(), 2099);
}

TEST(LogTablesTest, CopiesWhatIsNeededAndEmptiesTheRest) {
  LogTables tables(100);
  ASSERT_TRUE(tables.Begin(0, 0));
  for (std::int64_t log_id = 1; log_id <= 10; ++log_id) tables.AddAppended(log_id, 100);
  tables.MarkUnneeded(std::vector<std::int64_t>{1, 2, 3, 5, 6, 7, 9});
  tables.Rotate(1);
  EXPECT_FALSE(tables.IsCopyDue());
  tables.Rotate(2);
  ASSERT_TRUE(tables.IsCopyDue());
  EXPECT_THAT(tables.NextToCopy(150), ElementsAre(4, 8));
  tables.MoveToNewest(std::vector<std::int64_t>{4, 8});
  EXPECT_THAT(tables.NextToCopy(150), ElementsAre(10));
  tables.MarkUnneeded(std::vector<std::int64_t>{10});
  EXPECT_THAT(tables.NextToCopy(150), IsEmpty());
  tables.RaiseFirst();
  EXPECT_FALSE(tables.IsCopyDue());
  EXPECT_EQ(tables.Find(4)->table, 2);
  EXPECT_EQ(tables.Find(4)->bytes, 100U);
  EXPECT_FALSE(tables.Find(10).has_value());
  // Copies alone make no generation full, or else they would be copied without end.
  EXPECT_FALSE(tables.IsRotationDue());
  EXPECT_EQ(tables.bytes(), 1200);
  tables.Rotate(3);
  EXPECT_TRUE(tables.IsNextFree());
  tables.Rotate(4);
  EXPECT_EQ(tables.bytes(), 200);
  // Table 1 has generation 1, which is read until its batches are copied.
  EXPECT_FALSE(tables.IsNextFree());
}

TEST(LogTablesTest, OfACopiedBatchTheNewerGenerationCounts) {
  LogTables tables(1000);
  ASSERT_TRUE(tables.Begin(2, 4));
  // Table 2 has generation 2, 3 has 3, and 0 has 4.
  EXPECT_TRUE(tables.AddRead(2, 1, 100));
  EXPECT_FALSE(tables.AddRead(0, 1, 100));
  EXPECT_EQ(tables.Find(1)->table, 0);
  EXPECT_TRUE(tables.AddRead(0, 2, 100));
  EXPECT_FALSE(tables.AddRead(2, 2, 100));
  EXPECT_EQ(tables.Find(2)->table, 0);
  EXPECT_TRUE(tables.AddRead(3, 3, 100));
  EXPECT_TRUE(tables.AddRead(0, 4, 999));
  // Only batch 4 is new in generation 4.
  EXPECT_FALSE(tables.IsRotationDue());
  tables.AddAppended(5, 1);
  EXPECT_TRUE(tables.IsRotationDue());
}

// A log that keeps an old batch for ever and drops the others copies less than it writes.
TEST(LogTablesTest, CopiesLessThanItWrites) {
  std::mt19937 random(3);
  LogTables tables(1000);
  ASSERT_TRUE(tables.Begin(0, 0));
  std::set<std::int64_t> needed;
  std::int64_t written = 0;
  std::int64_t copied = 0;
  std::int64_t most = 0;
  for (std::int64_t log_id = 1; log_id <= 20000; ++log_id) {
    tables.AddAppended(log_id, 100);
    needed.insert(log_id);
    written += 100;
    while (needed.size() > 300) {
      auto dropped = needed.begin();
      std::advance(dropped, static_cast<int>(random() % needed.size()));
      tables.MarkUnneeded(std::vector<std::int64_t>{*dropped});
      needed.erase(dropped);
    }
    if (tables.IsRotationDue() && tables.IsNextFree()) tables.Rotate(tables.newest() + 1);
    while (tables.IsCopyDue()) {
      const std::vector<std::int64_t> batch = tables.NextToCopy(500);
      if (batch.empty()) {
        tables.RaiseFirst();
      } else {
        tables.MoveToNewest(batch);
        copied += 100 * static_cast<std::int64_t>(batch.size());
      }
    }
    most = std::max(most, tables.bytes());
  }
  for (const std::int64_t log_id : needed) EXPECT_TRUE(tables.Find(log_id).has_value());
  EXPECT_LE(copied, 2 * written);
  // Four tables with half of the needed bytes as new ones and all of them as copies.
  EXPECT_LE(most, 4 * (300 * 100 / 2 + 300 * 100));
}

}  // namespace
}  // namespace calibd::server
