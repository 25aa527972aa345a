#include "server/ingest/ingest_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using RoomPtr = IngestQueue::RoomPtr;

constexpr std::size_t kSize = 8000;

class IngestQueueTest : public ::testing::Test {
 protected:
  void TearDown() override { ReturnAll(); }

  // Takes room for batches of a model until one has to wait; returns their number.
  std::size_t Fill(std::int64_t model, std::size_t bytes) {
    for (std::size_t taken = 0;; ++taken) {
      RoomPtr room = TakeOrWait(model, bytes);
      if (room == nullptr) return taken;
      rooms_[model].push_back(std::move(room));
    }
  }
  RoomPtr TakeOrWait(std::int64_t model, std::size_t bytes) {
    return queue_.TakeOrWait(model, bytes, [this, model](RoomPtr room) {
      granted_.push_back(model);
      rooms_[model].push_back(std::move(room));
    });
  }
  void ReturnOne(std::int64_t model) {
    // Returned when it is no longer in the list, to which the call adds.
    const RoomPtr room = std::move(rooms_[model].back());
    rooms_[model].pop_back();
  }

  // Returns all room, also that of batches that waited for it.
  void ReturnAll() {
    while (!rooms_.empty()) std::exchange(rooms_, {}).clear();
  }

  IngestQueue queue_{kSize};
  std::map<std::int64_t, std::vector<RoomPtr>> rooms_;
  // The models that got room after they had waited.
  std::vector<std::int64_t> granted_;
};

TEST_F(IngestQueueTest, ABusyModelLeavesHalfOfTheQueueFree) {
  Fill(1, 100);
  EXPECT_GE(queue_.bytes(), kSize / 3);
  EXPECT_LE(queue_.bytes(), kSize / 2);
  EXPECT_EQ(queue_.TryTake(1, kSize / 2), nullptr);
  EXPECT_NE(queue_.TryTake(2, kSize / 4), nullptr);
  ReturnAll();
  EXPECT_EQ(queue_.bytes(), 0U);
  EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(IngestQueueTest, BusyModelsLeaveRoomForBatchesThatCannotWait) {
  for (int batch = 0; batch < 10; ++batch) {
    for (std::int64_t model = 1; model <= 10; ++model) {
      if (RoomPtr room = TakeOrWait(model, 200)) rooms_[model].push_back(std::move(room));
    }
  }
  EXPECT_GT(queue_.waiting(), 0U);
  EXPECT_LE(queue_.bytes(), kSize - kSize / 8);
  // A small batch of a busy model has room too.
  EXPECT_NE(queue_.TryTake(1, 10), nullptr);
  for (std::int64_t quiet = 201; quiet <= 290; ++quiet) {
    rooms_[quiet].push_back(queue_.TryTake(quiet, 10));
    EXPECT_NE(rooms_[quiet].back(), nullptr) << quiet;
  }
}

TEST_F(IngestQueueTest, ReturnedRoomGoesToTheNextBatchOfTheModel) {
  ASSERT_GT(Fill(1, 100), 1U);
  EXPECT_EQ(queue_.waiting(), 1U);
  EXPECT_EQ(TakeOrWait(1, 100), nullptr);
  ReturnOne(1);
  EXPECT_THAT(granted_, ElementsAre(1));
  ReturnOne(1);
  EXPECT_THAT(granted_, ElementsAre(1, 1));
  EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(IngestQueueTest, AModelWithNothingInTheQueueIsFirst) {
  for (std::int64_t model = 1; model <= 20; ++model) Fill(model, 300);
  granted_.clear();
  ASSERT_EQ(TakeOrWait(30, 3000), nullptr);
  // The other models wait for the large batch, because they would otherwise take all the room.
  EXPECT_EQ(TakeOrWait(31, 10), nullptr);
  while (granted_.empty() || granted_.back() != 31) {
    const auto busy = std::find_if(rooms_.begin(), rooms_.end(),
                                   [](const auto& entry) { return !entry.second.empty(); });
    ASSERT_NE(busy, rooms_.end());
    ASSERT_LE(queue_.bytes(), kSize);
    ReturnOne(busy->first);
  }
  EXPECT_EQ(*(granted_.end() - 2), 30);
}

TEST_F(IngestQueueTest, ABatchOfAnySizeFitsIntoAnEmptyQueue) {
  RoomPtr first = TakeOrWait(1, 10 * kSize);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(TakeOrWait(2, 10 * kSize), nullptr);
  EXPECT_EQ(queue_.TryTake(3, 1), nullptr);
  first.reset();
  EXPECT_THAT(granted_, ElementsAre(2));
  ReturnAll();
  EXPECT_NE(queue_.TryTake(3, 10 * kSize), nullptr);
}

TEST_F(IngestQueueTest, RoomThatNobodyUsesGoesToTheNext) {
  RoomPtr first = TakeOrWait(1, 10 * kSize);
  // These are like the batches of streams that have ended.
  for (std::int64_t model = 2; model <= 1000; ++model) {
    EXPECT_EQ(queue_.TakeOrWait(model, kSize, [](RoomPtr /*room*/) {}), nullptr);
  }
  EXPECT_EQ(TakeOrWait(1001, kSize), nullptr);
  EXPECT_THAT(granted_, IsEmpty());
  first.reset();
  EXPECT_THAT(granted_, ElementsAre(1001));
}

TEST_F(IngestQueueTest, AnEstimateIsReplaced) {
  const RoomPtr room = TakeOrWait(1, 100);
  room->Resize(250);
  EXPECT_EQ(queue_.bytes(), 250U);
  room->Resize(50);
  EXPECT_EQ(queue_.bytes(), 50U);
}

}  // namespace
}  // namespace calibd::server
