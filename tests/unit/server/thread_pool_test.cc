#include "server/executor/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace calibd::server {
namespace {

constexpr std::chrono::seconds kPoolDeadline{60};

TEST(ThreadPoolTest, ParallelForCallsEveryIndexOnceEvenFromATaskOfThePool) {
  ThreadPool pool("test", 3);
  std::vector<std::promise<void>> done(4);
  std::vector<std::vector<std::atomic<int>>> calls(4);
  for (std::size_t task = 0; task < calls.size(); ++task) {
    calls[task] = std::vector<std::atomic<int>>(1000);
    pool.Post([&, task] {
      pool.ParallelFor(1000, [&](std::size_t i) { ++calls[task][i]; });
      done[task].set_value();
    });
  }
  for (std::size_t task = 0; task < calls.size(); ++task) {
    done[task].get_future().get();
    for (const std::atomic<int>& count : calls[task]) {
      ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPoolTest, ParallelForThrowsTheFirstExceptionAfterAllCallsAreDone) {
  ThreadPool pool("test", 3);
  std::atomic<int> ran = 0;
  const auto body = [&ran](std::size_t i) {
    ++ran;
    if (i % 7 == 3) throw std::bad_alloc();
  };
  EXPECT_THROW(pool.ParallelFor(1000, body), std::bad_alloc);
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPoolTest, ThereIsABacklogIfATaskWaitsForEveryThread) {
  constexpr std::size_t kThreads = 2;
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::latch busy(kThreads);
  ThreadPool pool("test", kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    pool.Post([&] {
      busy.count_down();
      ended.wait();
    });
  }
  busy.wait();
  EXPECT_FALSE(pool.HasBacklog());
  pool.Post([] {});
  EXPECT_FALSE(pool.HasBacklog());
  pool.Post([] {});
  EXPECT_TRUE(pool.HasBacklog());
  end.set_value();
}

TEST(ThreadPoolTest, StopRunsQueuedTasks) {
  std::atomic<int> ran = 0;
  ThreadPool pool("test", 2);
  for (int i = 0; i < 100; ++i) {
    pool.Post([&ran] { ++ran; });
  }
  pool.Stop();
  EXPECT_EQ(ran, 100);
}

TEST(StrandTest, ABriefTaskDoesNotWaitForALongOne) {
  std::promise<void> is_over;
  std::promise<void> ran;
  ThreadPool pool("pool", 1, /*nice=*/0, /*for_brief=*/1);
  pool.Post([over = is_over.get_future().share()] { over.wait(); });
  Strand strand(pool);
  strand.Post([&] { ran.set_value(); }, ThreadPool::Length::kBrief);
  EXPECT_EQ(ran.get_future().wait_for(kPoolDeadline), std::future_status::ready);
  is_over.set_value();
}

TEST(StrandTest, ALongTaskDoesNotTakeTheThreadOfBriefOnes) {
  std::promise<void> is_over;
  std::promise<void> ran;
  std::atomic<bool> ran_long = false;
  {
    ThreadPool pool("pool", 1, /*nice=*/0, /*for_brief=*/1);
    pool.Post([over = is_over.get_future().share()] { over.wait(); });
    Strand first(pool);
    Strand second(pool);
    // The other tasks are posted before this one ends.
    std::promise<void> all_posted;
    first.Post([posted = all_posted.get_future().share()] { posted.wait(); },
               ThreadPool::Length::kBrief);
    first.Post([&] { ran_long = true; });
    second.Post([&] { ran.set_value(); }, ThreadPool::Length::kBrief);
    all_posted.set_value();
    EXPECT_EQ(ran.get_future().wait_for(kPoolDeadline), std::future_status::ready);
    EXPECT_FALSE(ran_long);
    is_over.set_value();
  }
  EXPECT_TRUE(ran_long);
}

TEST(StrandTest, TasksPostedAfterTheStopAreDestroyed) {
  ThreadPool pool("test", 2);
  auto strand = std::make_shared<Strand>(pool);
  pool.Stop();
  const std::weak_ptr<Strand> weak = strand;
  // It owns the strand that holds it, like the tasks of a model.
  strand->Post([strand] { FAIL() << "the pool has stopped"; });
  strand->Post([strand] { FAIL() << "the pool has stopped"; });
  strand.reset();
  EXPECT_TRUE(weak.expired());
}

TEST(StrandTest, AnotherStrandRunsAfterTheTurnOfABusyOne) {
  ThreadPool pool("test", 1);
  Strand busy(pool);
  Strand quiet(pool);
  // Only the thread of the pool uses it.
  std::string order;
  const auto work = [&order] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < end) {
    }
    order += 'b';
  };
  busy.Post([&] {
    for (int i = 0; i < 10; ++i) busy.Post(work);
    quiet.Post([&order] { order += 'q'; });
    work();
  });
  pool.Stop();
  EXPECT_EQ(order, "bqbbbbbbbbbb");
}

TEST(StrandTest, RunsTasksInOrderAndNeverTwoAtOnce) {
  ThreadPool pool("test", 4);
  std::vector<int> order;
  std::atomic<int> inside = 0;
  {
    Strand strand(pool);
    for (int i = 0; i < 1000; ++i) {
      strand.Post([&, i] {
        EXPECT_EQ(++inside, 1);
        order.push_back(i);
        --inside;
      });
    }
  }
  pool.Stop();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

}  // namespace
}  // namespace calibd::server
