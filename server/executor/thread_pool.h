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
  // name: name of the threads as the system shows it, at most 15 bytes. nice: added to the niceness
  // of the threads, 0..19.
  ThreadPool(const std::string& name, std::size_t threads, int nice = 0);
  // Calls Stop().
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs the queued tasks and the tasks that they post, then joins the threads.
  void Stop();

  // Returns false, and destroys the task, if all threads have ended.
  bool Post(std::function<void()> task);
  // A unit of a flow is a nanosecond on a thread. The caller advances the flow after the task.
  using Queue = FairQueue<std::function<void()>>;
  bool Post(std::function<void()> task, Queue::Flow& flow);

  // Returns true if there is work for every thread without the help of ParallelFor: at least as
  // many tasks wait as there are threads.
  [[nodiscard]] bool HasBacklog();

  // Calls body(0) .. body(count - 1) once each, in this order, on the calling thread and on at most
  // `helpers` idle threads of the pool, and returns when all calls have returned. If calls throw,
  // rethrows the first exception then. May be called from a task of this pool.
  void ParallelFor(std::size_t count, const std::function<void(std::size_t)>& body,
                   std::size_t helpers = std::numeric_limits<std::size_t>::max());

 private:
  void Run(const std::string& name, int nice);

  std::mutex mutex_;
  std::condition_variable ready_;
  Queue tasks_;              // guarded by mutex_
  bool stopping_ = false;    // guarded by mutex_
  std::size_t running_ = 0;  // guarded by mutex_; threads that have not ended
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
  void Post(std::function<void()> task);

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_EXECUTOR_THREAD_POOL_H_
