#include "server/compute/window_jobs.h"

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::chrono::seconds kBusyRetryDelay{5};
// Operations per unit of the flow of an owner, so that sums of them do not overflow.
constexpr double kFlowUnit = 1e6;
// Flows of owners without jobs that are kept, for each place.
constexpr std::size_t kMostFlowsPerPlace = 16;

absl::Status TooFewError(const std::string& message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_DATA", message);
}

absl::Status TooManyJobsError(const FairShares& shares, const std::string& owner) {
  const std::string what =
      shares.taken() >= shares.places()
          ? absl::StrCat(shares.taken(),
                         " tests and evaluations are running or waiting, the limit "
                         "(max-queued-tests): try again when one has ended")
          : absl::StrCat(shares.TakenBy(owner),
                         " tests and evaluations of this client are running or waiting, its share "
                         "of the limit of ",
                         shares.places(),
                         " (max-queued-tests): try again when one of them has ended");
  return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_JOBS", what),
                        kBusyRetryDelay);
}

// Time that this thread has spent on processors, in seconds.
double ThreadSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Time that the threads of one job spend on processors.
class JobTime {
 public:
  // A part of the work, on any thread. Parts must not be nested.
  void Measure(const std::function<void()>& part) {
    // The thread of the job is measured as a whole.
    if (std::this_thread::get_id() == own_) {
      part();
      return;
    }
    const absl::Cleanup add = [this, begin = ThreadSeconds()] {
      helpers_.fetch_add(ThreadSeconds() - begin);
    };
    part();
  }
  // Called on the thread of the job.
  [[nodiscard]] double seconds() const { return ThreadSeconds() - begin_ + helpers_; }

 private:
  const std::thread::id own_ = std::this_thread::get_id();
  const double begin_ = ThreadSeconds();
  std::atomic<double> helpers_ = 0;
};

}  // namespace

absl::Status CheckWindow(const Model& model, std::size_t observations, const char* whose) {
  const std::size_t window = model.declaration()->window;
  if (observations != 1 && observations <= window) return absl::OkStatus();
  return InvalidFieldError("window", absl::StrCat("is ", observations, ", expected 2..", window,
                                                  ", the ", whose, "'s window, or 0"));
}

absl::StatusOr<std::size_t> CountWindowRows(const ModelSnapshot& snapshot, std::size_t observations,
                                            std::size_t least, const char* window) {
  const std::size_t available = snapshot.window.size();
  const std::size_t wanted = observations == 0 ? available : observations;
  const std::size_t n = std::min(available, wanted);
  const std::size_t needed = std::max(least, wanted);
  if (n >= needed) return n;
  return TooFewError(absl::StrCat("not enough observations in ", window, ": ", n, ", at least ",
                                  needed, " are needed"));
}

WindowSample ReadWindow(std::shared_ptr<const ModelSnapshot> snapshot, std::size_t n) {
  WindowSample sample;
  sample.last_observation = snapshot->observations;
  sample.first_observation = snapshot->observations - static_cast<std::int64_t>(n) + 1;
  sample.compute_time = std::chrono::system_clock::now();
  sample.rows = snapshot->window.CopyNewestRows(n);
  sample.features = snapshot->window.CopyNewestFeatures(n);
  sample.groups = snapshot->window.CopyNewestGroups(n);
  sample.snapshot = std::move(snapshot);
  return sample;
}

absl::StatusOr<std::shared_ptr<WindowJobs::Job>> WindowJobs::Submit(WindowRequest request,
                                                                    Watcher watcher) {
  if (draining_) return DrainingError();
  CALIBD_RETURN_IF_ERROR(CheckWindow(*request.model, request.observations));
  CALIBD_ASSIGN_OR_RETURN(const Size size, CheckSize(request, *request.model->snapshot()));
  if (request.admit) CALIBD_RETURN_IF_ERROR(request.admit(size.seconds).status());
  Lane& lane = size.operations <= limits_.operations / kSmallPart ? small_ : large_;
  auto job = std::make_shared<Job>();
  const std::string owner = request.owner;
  const auto cost = static_cast<std::uint64_t>(size.operations / kFlowUnit) + 1;
  // The lock is held until the job is in the queue, so that its task finds it.
  const std::lock_guard lock(lane.mutex);
  if (!lane.shares.Take(owner)) return TooManyJobsError(lane.shares, owner);
  absl::Cleanup undo = [&lane, &owner] { lane.shares.Return(owner); };
  FairQueue<Queued>::Flow& flow = lane.flows[owner];
  if (!lane.pool.Post([this, &lane] { RunNext(lane); })) return DrainingError();
  lane.queue.Push({.request = std::move(request), .watcher = std::move(watcher), .job = job}, flow,
                  cost);
  std::move(undo).Cancel();
  ++queued_;
  return job;
}

void WindowJobs::ForgetFlows(Lane& lane) {
  // Between busy times, nobody is ahead of others.
  if (lane.shares.taken() == 0) {
    lane.flows.clear();
    return;
  }
  const bool many = lane.flows.size() > kMostFlowsPerPlace * lane.shares.places();
  std::erase_if(lane.flows, [&lane, many](const auto& entry) {
    const auto& [owner, flow] = entry;
    return lane.shares.TakenBy(owner) == 0 && (many || flow <= lane.queue.now());
  });
}

void WindowJobs::RunNext(Lane& lane) noexcept {
  std::unique_lock lock(lane.mutex);
  // The job of this task had no memory.
  if (lane.queue.empty()) return;
  const Queued next = lane.queue.Pop();
  lock.unlock();
  ++running_;
  --queued_;
  absl::Status status;
  try {
    status = Run(next.request, *next.job, next.watcher);
  } catch (...) {
    status = CurrentExceptionStatus("WindowJobs", "compute");
  }
  --running_;
  Count(status);
  lock.lock();
  lane.shares.Return(next.request.owner);
  ForgetFlows(lane);
  lock.unlock();
  next.watcher.done(status);
}

absl::StatusOr<WindowJobs::Size> WindowJobs::CheckSize(const WindowRequest& request,
                                                       const ModelSnapshot& snapshot) const {
  const std::shared_ptr<const ModelDeclaration> declaration = request.model->declaration();
  if (request.needs_bandwidth && !snapshot.warming_up() &&
      !snapshot.lenses.front().bandwidth_error.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "NO_BANDWIDTH",
                     snapshot.lenses.front().bandwidth_error);
  }
  if (request.needs_bandwidth && snapshot.warming_up()) {
    return TooFewError(absl::StrCat("the model has ", snapshot.observations, " observations, ",
                                    declaration->warmup,
                                    " are needed before the bandwidth is known"));
  }
  CALIBD_ASSIGN_OR_RETURN(const std::size_t n, CountWindowRows(snapshot, request.observations,
                                                               request.min_observations));
  const std::size_t m = declaration->row_width();
  JobCost cost = request.cost(n, threads_);
  // The rows with their labels or outcomes, features and groups.
  cost.memory_bytes +=
      static_cast<double>(n * (m + 2 + declaration->feature_names.size()) * sizeof(double));
  if (cost.memory_bytes <= static_cast<double>(limits_.memory_bytes) &&
      cost.operations <= limits_.operations) {
    return Size{.rows = n,
                .operations = cost.operations,
                .seconds = cost.seconds.value_or(cost.operations * kMostSecondsPerOperation)};
  }
  return MakeError(
      absl::StatusCode::kResourceExhausted, "JOB_TOO_LARGE",
      absl::StrFormat("this, of %d observations of %d %s, needs %.3g bytes (limit %.3g) and %.3g "
                      "operations (limit %.3g): use %s",
                      n, m, declaration->row_shape().has_probabilities() ? "classes" : "values",
                      cost.memory_bytes, static_cast<double>(limits_.memory_bytes), cost.operations,
                      limits_.operations, request.remedy));
}

absl::Status WindowJobs::Run(const WindowRequest& request, const Job& job,
                             const Watcher& watcher) const {
  const Model& model = *request.model;
  const auto stopped = [this, &job, &model] {
    return job.cancelled_ || draining_ || model.deleted();
  };
  const auto stop_reason = [this, &model]() -> absl::Status {
    if (draining_) return DrainingError();
    return model.deleted() ? ModelNotFoundError(model.declaration()->name.ToString())
                           : absl::CancelledError("the call was cancelled");
  };
  if (stopped()) return stop_reason();
  JobTime time;
  RunControl control;
  const bool measured = request.spent != nullptr;
  control.parallel_for = [this, &time, measured](std::size_t count,
                                                 const std::function<void(std::size_t)>& body) {
    if (!measured) return pool_.ParallelFor(count, body);
    pool_.ParallelFor(count, [&time, &body](std::size_t i) { time.Measure([&] { body(i); }); });
  };
  control.progress = watcher.progress;
  control.cancelled = stopped;
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  CALIBD_ASSIGN_OR_RETURN(const Size size, CheckSize(request, *snapshot));
  std::shared_ptr<void> admitted;
  if (request.admit) {
    CALIBD_ASSIGN_OR_RETURN(admitted, request.admit(size.seconds));
  }
  const absl::Cleanup spent = [&request, &time] {
    if (request.spent) request.spent(time.seconds());
  };
  const absl::Status status = request.compute(ReadWindow(snapshot, size.rows), control);
  return absl::IsCancelled(status) ? stop_reason() : status;
}

void WindowJobs::Count(const absl::Status& status) noexcept {
  if (status.ok()) {
    ++completed_;
  } else if (absl::IsCancelled(status)) {
    ++cancelled_;
  } else {
    ++failed_;
  }
}

WindowJobs::Counts WindowJobs::counts() const noexcept {
  return {.completed = completed_,
          .cancelled = cancelled_,
          .failed = failed_,
          .running = running_,
          .queued = queued_};
}

}  // namespace calibd::server
