#ifndef CALIBD_SERVER_COMPUTE_QUADRATIC_TESTS_H_
#define CALIBD_SERVER_COMPUTE_QUADRATIC_TESTS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/bootstrap_test.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_test.h"
#include "server/executor/thread_pool.h"
#include "server/state/model.h"

namespace calibd::server {

struct QuadraticTestRequest {
  std::shared_ptr<Model> model;
  BootstrapOptions bootstrap;
  // Fits the model.
  Lens lens = Lens::Canonical();
  // Newest observations to use; 0: all of the window.
  std::size_t observations = 0;
};

struct QuadraticTestOutcome {
  LensTestResult result;
  // Numbers of the first and the last observation used.
  std::int64_t first_observation = 0;
  std::int64_t last_observation = 0;
  std::chrono::system_clock::time_point compute_time;
  std::chrono::nanoseconds elapsed{0};
};

// Runs quadratic tests on the compute threads, in the order in which they came;
// threads that are free help those that run. Thread-safe.
class QuadraticTests {
 public:
  struct Limits {
    // Tests that may wait beyond those that run.
    std::size_t max_queued = 0;
    // Of one test.
    std::size_t memory_bytes = 0;
    double operations = 0;
  };

  // A test's way to be stopped. Any thread; also when it has ended.
  class Job {
   public:
    void Cancel() noexcept { cancelled_ = true; }

   private:
    friend class QuadraticTests;
    std::atomic<bool> cancelled_ = false;
  };

  struct Watcher {
    // As RunControl::progress.
    std::function<void(double fraction)> progress;
    // Called once, on a compute thread. Errors: Cancelled, Unavailable (drain),
    // NotFound (the model was deleted), those of Submit.
    std::function<void(absl::StatusOr<QuadraticTestOutcome>)> done;
  };

  // Tests that ended, by how.
  struct Counts {
    std::int64_t completed = 0;
    std::int64_t cancelled = 0;
    std::int64_t failed = 0;
    std::int64_t running = 0;
    std::int64_t queued = 0;
  };

  // threads: of the pool.
  QuadraticTests(const Limits& limits, ThreadPool& pool, std::size_t threads)
      : limits_(limits), pool_(pool), threads_(threads) {}

  // Takes the newest observations when the test starts to run, not now. The
  // watcher is called only when this returns a job.
  // Errors: InvalidArgument; FailedPrecondition with how many observations there
  // are and how many are needed; ResourceExhausted when too many wait, with a
  // retry delay, or when the test is too large.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Job>> Submit(QuadraticTestRequest request,
                                                            Watcher watcher);

  // Stops every test and takes no more.
  void Drain() noexcept { draining_ = true; }

  [[nodiscard]] Counts counts() const noexcept;

 private:
  [[nodiscard]] absl::StatusOr<std::size_t> CheckSize(const QuadraticTestRequest& request,
                                                      const ModelSnapshot& snapshot) const;
  [[nodiscard]] absl::StatusOr<QuadraticTestOutcome> Run(const QuadraticTestRequest& request,
                                                         const Job& job,
                                                         const Watcher& watcher) const;
  void Count(const absl::Status& status) noexcept;

  const Limits limits_;
  ThreadPool& pool_;
  const std::size_t threads_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::int64_t> queued_ = 0;
  std::atomic<std::int64_t> running_ = 0;
  std::atomic<std::int64_t> completed_ = 0;
  std::atomic<std::int64_t> cancelled_ = 0;
  std::atomic<std::int64_t> failed_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_COMPUTE_QUADRATIC_TESTS_H_
