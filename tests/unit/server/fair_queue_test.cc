#include "server/executor/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace calibd::server {
namespace {

using Queue = FairQueue<std::string>;

std::string PopAll(Queue& queue) {
  std::string items;
  while (!queue.empty()) items += queue.Pop();
  return items;
}

TEST(FairQueueTest, TheItemsOfOneFlowKeepTheirOrder) {
  Queue queue;
  Queue::Flow flow = 0;
  for (const char* const item : {"a", "b", "c", "d"}) queue.Push(item, flow, 10);
  EXPECT_EQ(queue.front(), "a");
  EXPECT_EQ(PopAll(queue), "abcd");
}

TEST(FairQueueTest, AFlowThatHasUsedLessIsNext) {
  Queue queue;
  Queue::Flow busy = 0;
  Queue::Flow quiet = 0;
  for (int i = 0; i < 100; ++i) queue.Push("b", busy, 10);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(queue.Pop(), "b");
  queue.Push("q", quiet, 10);
  // At most the items that start at the same time are popped before it.
  const std::string rest = PopAll(queue);
  EXPECT_LE(rest.find('q'), 1U);
  EXPECT_EQ(rest.size(), 51U);
}

TEST(FairQueueTest, BusyFlowsShareByCost) {
  Queue queue;
  Queue::Flow large = 0;
  Queue::Flow small = 0;
  for (int i = 0; i < 100; ++i) queue.Push("L", large, 40);
  for (int i = 0; i < 100; ++i) queue.Push("s", small, 10);
  const std::string order = PopAll(queue);
  EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.begin() + 100, 's')), 80, 2);
}

TEST(FairQueueTest, TimeWithoutItemsEarnsNothing) {
  Queue queue;
  Queue::Flow busy = 0;
  Queue::Flow rested = 0;
  for (int i = 0; i < 100; ++i) queue.Push("b", busy, 10);
  for (int i = 0; i < 50; ++i) queue.Pop();
  for (int i = 0; i < 50; ++i) queue.Push("r", rested, 10);
  const std::string order = PopAll(queue);
  EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.begin() + 40, 'r')), 20, 2);
}

TEST(FairQueueTest, AnItemThatIsPushedLastWaitsForAllBefore) {
  Queue queue;
  Queue::Flow a = 0;
  Queue::Flow b = 0;
  for (int i = 0; i < 3; ++i) queue.Push("a", a, 10);
  queue.PushLast("|");
  queue.Push("b", b, 10);
  queue.PushLast("|");
  EXPECT_EQ(PopAll(queue), "abaa||");
}

}  // namespace
}  // namespace calibd::server
