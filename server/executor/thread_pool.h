#ifndef CALIBD_SERVER_EXECUTOR_THREAD_POOL_H_
#define CALIBD_SERVER_EXECUTOR_THREAD_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/executor/fair_queue.h"

namespace calibd::server {

// A fixed number of threads that run tasks. Strands that have tasks get the same share of the
// threads; other tasks run before a strand that has used more than its share, in the order of Post.
// The queue is unbounded, so callers must bound it. Posted tasks must not throw. Thread-safe.
class ThreadPool {
 public:
  // Whether a task takes less than a millisecond.
  enum class Length { kAny, kBrief };

  // name: name of the threads as the system shows it, at most 15 bytes. nice: added to the niceness
  // of the threads, 0..19. for_brief: number of threads in addition that only run brief tasks, so
  // that these do not wait for a thread with a long one, from which the system takes the CPU.
  ThreadPool(const std::string& name, std::size_t threads, int nice = 0, std::size_t for_brief = 0);
  // Calls Stop().
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs the queued tasks and the tasks that they post, then joins the threads.
  void Stop();

  // Returns false, and destroys the task, if all threads have ended.
  bool Post(std::function<void()> task);
  struct Task {
    std::function<void()> run;
    Length length = Length::kAny;
  };
  // A unit of a flow is a nanosecond on a thread. The caller advances the flow after the task.
  using Queue = FairQueue<Task>;
  bool Post(Task task, Queue::Flow& flow);

  // Returns true if there is work for every thread without the help of ParallelFor: at least as
  // many tasks wait as there are threads for all tasks.
  [[nodiscard]] bool HasBacklog();

  // Calls body(0) .. body(count - 1) once each, in this order, on the calling thread and on at most
  // `helpers` idle threads of the pool, and returns when all calls have returned. If calls throw,
  // rethrows the first exception then. May be called from a task of this pool.
  void ParallelFor(std::size_t count, const std::function<void(std::size_t)>& body,
                   std::size_t helpers = std::numeric_limits<std::size_t>::max());

 private:
  void Run(const std::string& name, int nice, Length length);
  // Runs the task after all that are in the queue. Destroys it if all threads have ended.
  void PostLast(std::function<void()> task);
  // Wakes a thread for the task that is next. Requires mutex_.
  void WakeLocked();

  const std::size_t for_all_;  // number of threads that run all tasks
  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable ready_brief_;  // of the threads that only run brief tasks
  Queue tasks_;                          // guarded by mutex_
  bool stopping_ = false;                // guarded by mutex_
  std::size_t running_;                  // guarded by mutex_; threads that have not ended
  std::size_t idle_ = 0;                 // guarded by mutex_; those for all tasks that wait
  std::vector<std::thread> threads_;
};

// Runs tasks on a pool one after another, in the order of Post. A strand yields its thread to other
// strands between two tasks, after a millisecond. Tasks must not throw. Thread-safe. May be
// destroyed while tasks are queued: they still run. Tasks that are posted after the pool has
// stopped are destroyed.
class Strand {
 public:
  explicit Strand(ThreadPool& pool);

  // May throw bad_alloc, after which the task does not run.
  void Post(std::function<void()> task, ThreadPool::Length length = ThreadPool::Length::kAny);

 private:
  struct State;
  // length: of all tasks that are run before the strand gets another thread.
  static void Run(const std::shared_ptr<State>& state, ThreadPool::Length length);

  std::shared_ptr<State> state_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_EXECUTOR_THREAD_POOL_H_
