#ifndef CALIBD_SERVER_COMPUTE_WINDOW_JOBS_H_
#define CALIBD_SERVER_COMPUTE_WINDOW_JOBS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "server/executor/fair_queue.h"
#include "server/executor/fair_shares.h"
#include "server/executor/thread_pool.h"
#include "server/state/model.h"

namespace calibd::server {

// A multiplication takes at most this time of a processor; most take far less.
inline constexpr double kMostSecondsPerOperation = 1e-9;

// Estimated cost of a job, computed before the job is accepted.
struct JobCost {
  // Memory that the job needs in addition to the observations.
  double memory_bytes = 0;
  // Approximate number of multiplications.
  double operations = 0;
  // The most seconds of one processor that the job may take. Unset: kMostSecondsPerOperation for
  // each operation.
  std::optional<double> seconds{};
};

// The newest observations of a model at one moment.
struct WindowSample {
  // The snapshot whose newest observations are `rows`.
  std::shared_ptr<const ModelSnapshot> snapshot;
  WindowView::Rows rows;
  // The results of WindowView::CopyNewestFeatures and CopyNewestGroups.
  std::vector<double> features;
  WindowView::Groups groups;
  // Numbers of the first and the last observation.
  std::int64_t first_observation = 0;
  std::int64_t last_observation = 0;
  std::chrono::system_clock::time_point compute_time;
};

// observations: see WindowRequest::observations. whose: "model", or "baseline" for the second
// window of a job. Errors: InvalidArgument.
[[nodiscard]] absl::Status CheckWindow(const Model& model, std::size_t observations,
                                       const char* whose = "model");
// Returns the number of observations to use, at least `least`. window: names the window in the
// error. Errors: FailedPrecondition with the number of observations and the number that is needed.
[[nodiscard]] absl::StatusOr<std::size_t> CountWindowRows(const ModelSnapshot& snapshot,
                                                          std::size_t observations,
                                                          std::size_t least = 2,
                                                          const char* window = "the window");
// Copies the newest n observations.
[[nodiscard]] WindowSample ReadWindow(std::shared_ptr<const ModelSnapshot> snapshot, std::size_t n);

struct WindowRequest {
  std::shared_ptr<Model> model;
  // Whose share of the jobs it takes: the principal of the caller, or its address if there are
  // none.
  std::string owner;
  // Number of newest observations to use; 0 means the whole window.
  std::size_t observations = 0;
  // With fewer observations, the job is refused.
  std::size_t min_observations = 2;
  // Whether the job needs the model's own bandwidth, which does not exist during the warm-up.
  bool needs_bandwidth = true;
  // n: number of observations; threads: number of threads that the job gets.
  std::function<JobCost(std::size_t n, std::size_t threads)> cost;
  // How to make a job that is too large smaller, e.g. "a smaller window".
  std::string remedy;
  // Called when the job is submitted, and on a compute thread before `compute`, with the most
  // seconds of one processor that the job may take. An error refuses the job. The second result is
  // kept until the job has ended. May be empty.
  std::function<absl::StatusOr<std::shared_ptr<void>>(double seconds)> admit{};
  // Called after `compute` with the time of processors that it has taken, in seconds. May be empty.
  std::function<void(double seconds)> spent{};
  // Called at most once, on a compute thread. Errors: Cancelled; those of the computation.
  std::function<absl::Status(const WindowSample& sample, const RunControl& control)> compute;
};

// Runs long computations on the compute threads. Owners with queued jobs take turns, by the work of
// their jobs, and no owner may occupy the whole queue (see FairShares). Small jobs have a thread
// and a queue of their own, so that they do not wait for large ones. Idle compute threads help with
// running jobs. Thread-safe.
class WindowJobs {
 public:
  // A job is small if it takes at most one part in this many of the operations that a job may take.
  static constexpr double kSmallPart = 1000;

  struct Limits {
    // Maximum number of queued jobs, in addition to the running ones; for small jobs once more.
    std::size_t max_queued = 0;
    // Limits of each job.
    std::size_t memory_bytes = 0;
    double operations = 0;
  };

  // A handle with which a job can be stopped, from any thread and also after it has ended.
  class Job {
   public:
    void Cancel() noexcept { cancelled_ = true; }

   private:
    friend class WindowJobs;
    std::atomic<bool> cancelled_ = false;
  };

  struct Watcher {
    // Called with the completed share of the work; see RunControl::progress.
    std::function<void(double fraction)> progress;
    // Called once, on a compute thread. Errors: Cancelled, Unavailable (drain), NotFound (the model
    // was deleted), those of Submit and of the computation.
    std::function<void(const absl::Status&)> done;
  };

  // Number of jobs that ended, by outcome.
  struct Counts {
    std::int64_t completed = 0;
    std::int64_t cancelled = 0;
    std::int64_t failed = 0;
    std::int64_t running = 0;
    std::int64_t queued = 0;
  };

  // threads: the number of threads of the pool. small_pool: the pool of small jobs, which has one
  // thread.
  WindowJobs(const Limits& limits, ThreadPool& pool, std::size_t threads, ThreadPool& small_pool)
      : limits_(limits),
        pool_(pool),
        threads_(threads),
        large_(pool, threads + limits.max_queued),
        small_(small_pool, 1 + limits.max_queued) {}

  // The observations are read when the job starts to run, not now. The watcher is called only if
  // this returns a job. Errors: InvalidArgument; FailedPrecondition with the number of observations
  // that exist and the number that is needed; ResourceExhausted with a retry delay if too many jobs
  // are queued, or too many of the owner, or without one if the job is too large.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Job>> Submit(WindowRequest request, Watcher watcher);

  // Stops every job and accepts no new ones.
  void Drain() noexcept { draining_ = true; }

  [[nodiscard]] Counts counts() const noexcept;
  // Maximum number of threads that a job gets.
  [[nodiscard]] std::size_t threads() const noexcept { return threads_; }
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }

 private:
  // A job that waits for a thread.
  struct Queued {
    WindowRequest request;
    Watcher watcher;
    std::shared_ptr<Job> job;
  };
  // The jobs of one pool. For each queued job, the pool has one task, which runs the job that is
  // first when the task starts.
  struct Lane {
    Lane(ThreadPool& the_pool, std::size_t most) : pool(the_pool), shares(most) {}

    ThreadPool& pool;
    std::mutex mutex;
    // Everything below is guarded by the mutex.
    FairQueue<Queued> queue;
    // The queued and the running jobs.
    FairShares shares;
    // Where the flow of each owner ends that has jobs, or is ahead of the others: it has had more
    // work done than its share.
    std::unordered_map<std::string, FairQueue<Queued>::Flow> flows;
  };
  struct Size {
    std::size_t rows = 0;
    double operations = 0;
    double seconds = 0;
  };

  [[nodiscard]] absl::StatusOr<Size> CheckSize(const WindowRequest& request,
                                               const ModelSnapshot& snapshot) const;
  void RunNext(Lane& lane) noexcept;
  // Forgets owners without jobs that are not ahead of the others. The lock must be held.
  static void ForgetFlows(Lane& lane);
  [[nodiscard]] absl::Status Run(const WindowRequest& request, const Job& job,
                                 const Watcher& watcher) const;
  void Count(const absl::Status& status) noexcept;

  const Limits limits_;
  ThreadPool& pool_;
  const std::size_t threads_;
  Lane large_;
  Lane small_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::int64_t> queued_ = 0;
  std::atomic<std::int64_t> running_ = 0;
  std::atomic<std::int64_t> completed_ = 0;
  std::atomic<std::int64_t> cancelled_ = 0;
  std::atomic<std::int64_t> failed_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_COMPUTE_WINDOW_JOBS_H_
