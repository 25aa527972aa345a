#include "server/executor/thread_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace calibd::server {
namespace {

// Time after which a strand starts no further task before other strands get a turn.
constexpr std::chrono::milliseconds kStrandTurn{1};

// Shared by the threads that work on one ParallelFor. A thread that arrives late finds no index
// left and does not touch body.
struct ParallelWork {
  std::mutex mutex;
  std::condition_variable done;
  std::size_t next = 0;      // guarded by mutex
  std::size_t finished = 0;  // guarded by mutex
  std::size_t count = 0;
  const std::function<void(std::size_t)>* body = nullptr;
  // The first exception that body threw, for the calling thread.
  std::exception_ptr failure;  // guarded by mutex

  void Work() {
    std::unique_lock lock(mutex);
    while (next < count) {
      const std::size_t index = next++;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*body)(index);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (failure == nullptr) failure = thrown;
      if (++finished == count) done.notify_all();
    }
  }
};

}  // namespace

ThreadPool::ThreadPool(const std::string& name, std::size_t threads, int nice,
                       std::size_t for_brief)
    : for_all_(threads), running_(threads + for_brief) {
  threads_.reserve(running_);
  for (std::size_t i = 0; i < threads + for_brief; ++i) {
    const Length length = i < threads ? Length::kAny : Length::kBrief;
    threads_.emplace_back([this, name, nice, length] { Run(name, nice, length); });
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  ready_brief_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool ThreadPool::Post(std::function<void()> task) {
  Queue::Flow flow = 0;
  return Post({.run = std::move(task)}, flow);
}

bool ThreadPool::Post(Task task, Queue::Flow& flow) {
  const std::lock_guard lock(mutex_);
  if (running_ == 0) return false;
  tasks_.Push(std::move(task), flow, /*cost=*/0);
  // The lock is held: once it is released, the task may lead to the destruction of this object.
  WakeLocked();
  return true;
}

void ThreadPool::PostLast(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (running_ == 0) return;
  tasks_.PushLast({.run = std::move(task)});
  WakeLocked();
}

void ThreadPool::WakeLocked() {
  if (tasks_.empty()) return;
  if (idle_ > 0) {
    ready_.notify_one();
  } else if (tasks_.front().length == Length::kBrief) {
    ready_brief_.notify_one();
  }
}

bool ThreadPool::HasBacklog() {
  const std::lock_guard lock(mutex_);
  return tasks_.size() >= for_all_;
}

void ThreadPool::ParallelFor(std::size_t count, const std::function<void(std::size_t)>& body,
                             std::size_t helpers) {
  // The calling thread may be one of the pool.
  helpers = std::min(
      {helpers, std::max<std::size_t>(count, 1) - 1, std::max<std::size_t>(for_all_, 1) - 1});
  const auto work = std::make_shared<ParallelWork>();
  work->count = count;
  work->body = &body;
  try {
    for (std::size_t i = 0; i < helpers; ++i) PostLast([work] { work->Work(); });
  } catch (const std::bad_alloc&) {
    // Fewer threads help.
  }
  work->Work();
  std::unique_lock lock(work->mutex);
  work->done.wait(lock, [&work] { return work->finished == work->count; });
  if (work->failure != nullptr) std::rethrow_exception(work->failure);
}

void ThreadPool::Run(const std::string& name, int nice, Length length) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  if (nice != 0) {
    // On Linux, niceness is a property of the thread. If this fails, only the priority is wrong.
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice));
  }
  const bool all = length == Length::kAny;
  std::unique_lock lock(mutex_);
  while (true) {
    if (all) ++idle_;
    (all ? ready_ : ready_brief_).wait(lock, [this, all] {
      if (stopping_) return true;
      return !tasks_.empty() && (all || tasks_.front().length == Length::kBrief);
    });
    if (all) --idle_;
    if (tasks_.empty()) {
      --running_;
      return;
    }
    {
      const std::function<void()> run = tasks_.Pop().run;
      // A brief task may be next now.
      WakeLocked();
      lock.unlock();
      run();
    }
    lock.lock();
  }
}

struct Strand::State {
  explicit State(ThreadPool& pool_in) : pool(pool_in) {}
  ThreadPool& pool;
  std::mutex mutex;
  std::deque<ThreadPool::Task> tasks;  // guarded by mutex
  bool running = false;                // guarded by mutex; a Run is posted or runs
  ThreadPool::Queue::Flow flow = 0;    // used by whoever set `running`, and then by Run
};

Strand::Strand(ThreadPool& pool) : state_(std::make_shared<State>(pool)) {}

void Strand::Post(std::function<void()> task, ThreadPool::Length length) {
  // A copy, because a dropped task may own the owner of this strand.
  const std::shared_ptr<State> state = state_;
  std::function<void()> dropped;
  const std::lock_guard lock(state->mutex);
  state->tasks.push_back({.run = std::move(task), .length = length});
  if (state->running) return;
  const absl::Cleanup drop = [&] {
    if (state->running) return;
    dropped.swap(state->tasks.back().run);
    state->tasks.pop_back();
  };
  state->running = state->pool.Post(
      {.run = [state, length] { Run(state, length); }, .length = length}, state->flow);
}

void Strand::Run(const std::shared_ptr<State>& state, ThreadPool::Length length) {
  auto begin = std::chrono::steady_clock::now();
  while (true) {
    std::function<void()> task;
    {
      const std::lock_guard lock(state->mutex);
      const auto now = std::chrono::steady_clock::now();
      const std::chrono::nanoseconds used = now - begin;
      if (state->tasks.empty() || used >= kStrandTurn ||
          (length == ThreadPool::Length::kBrief && state->tasks.front().length != length)) {
        state->flow += static_cast<std::uint64_t>(used.count());
        begin = now;
        if (state->tasks.empty()) {
          state->running = false;
          return;
        }
        try {
          // The pool takes it, because this is one of its threads.
          const ThreadPool::Length next = state->tasks.front().length;
          state->pool.Post({.run = [state, next] { Run(state, next); }, .length = next},
                           state->flow);
          return;
        } catch (const std::bad_alloc&) {
          // Without memory, the strand goes on.
        }
      }
      task = std::move(state->tasks.front().run);
      state->tasks.pop_front();
    }
    task();
  }
}

}  // namespace calibd::server
