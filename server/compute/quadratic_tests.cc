#include "server/compute/quadratic_tests.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

constexpr std::int32_t kMinReplicates = 99;
constexpr std::int32_t kMaxReplicates = 100000;
constexpr std::chrono::seconds kBusyRetryDelay{5};

absl::Status TooFewError(const std::string& message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_DATA", message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<QuadraticTests::Job>> QuadraticTests::Submit(
    QuadraticTestRequest request, Watcher watcher) {
  if (draining_) {
    return DrainingError();
  }
  const std::int32_t replicates = request.bootstrap.replicates;
  if (replicates < kMinReplicates || replicates > kMaxReplicates) {
    return InvalidFieldError("replicates", absl::StrCat("is ", replicates, ", expected ",
                                                        kMinReplicates, "..", kMaxReplicates));
  }
  const std::size_t window = request.model->declaration().window;
  if (request.observations == 1 || request.observations > window) {
    return InvalidFieldError("window", absl::StrCat("is ", request.observations, ", expected 2..",
                                                    window, ", the model's window, or 0"));
  }
  const absl::StatusOr<std::size_t> size = CheckSize(request, *request.model->snapshot());
  if (!size.ok()) {
    return size.status();
  }
  const auto most = static_cast<std::int64_t>(threads_ + limits_.max_queued);
  if (queued_.fetch_add(1) + running_ >= most) {
    --queued_;
    return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_TESTS",
                                    absl::StrCat("as many tests run or wait as may, ", most)),
                          kBusyRetryDelay);
  }
  auto job = std::make_shared<Job>();
  pool_.Post([this, request = std::move(request), watcher = std::move(watcher), job] {
    ++running_;
    --queued_;
    absl::StatusOr<QuadraticTestOutcome> outcome = absl::UnknownError("");
    try {
      outcome = Run(request, *job, watcher);
    } catch (const std::bad_alloc&) {
      outcome = MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", "out of memory");
    }
    --running_;
    Count(outcome.status());
    watcher.done(std::move(outcome));
  });
  return job;
}

absl::StatusOr<std::size_t> QuadraticTests::CheckSize(const QuadraticTestRequest& request,
                                                      const ModelSnapshot& snapshot) const {
  const ModelDeclaration& declaration = request.model->declaration();
  if (!snapshot.bandwidth_error.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "NO_BANDWIDTH",
                     snapshot.bandwidth_error);
  }
  if (!snapshot.bandwidth.has_value()) {
    return TooFewError(absl::StrCat("the model has ", snapshot.observations, " observations, ",
                                    declaration.warmup,
                                    " are needed before the bandwidth is known"));
  }
  const std::size_t available = snapshot.window.size();
  const std::size_t n = request.observations == 0 ? available : request.observations;
  const std::size_t needed = std::max<std::size_t>(2, n);
  if (available < needed) {
    return TooFewError(
        absl::StrCat("the window holds ", available, " observations, ", needed, " are needed"));
  }
  const std::int32_t replicates = request.bootstrap.replicates;
  const std::size_t m = declaration.class_count;
  const double memory = static_cast<double>(n * (m * sizeof(double) + sizeof(std::int32_t))) +
                        LensTestMemory(n, m, request.lens, replicates, threads_);
  const double operations = LensTestOperations(n, m, request.lens, replicates);
  if (memory > static_cast<double>(limits_.memory_bytes) || operations > limits_.operations) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "TEST_TOO_LARGE",
        absl::StrCat("a test of ", n, " observations of ", m, " classes with ", replicates,
                     " replicates needs ", memory, " bytes (limit ", limits_.memory_bytes, ") and ",
                     operations, " operations (limit ", limits_.operations,
                     "): use a smaller window or fewer replicates"));
  }
  return n;
}

absl::StatusOr<QuadraticTestOutcome> QuadraticTests::Run(const QuadraticTestRequest& request,
                                                         const Job& job,
                                                         const Watcher& watcher) const {
  const auto start = std::chrono::steady_clock::now();
  const Model& model = *request.model;
  const auto stopped = [this, &model, &job] {
    return job.cancelled_ || draining_ || model.deleted();
  };
  const auto stop_reason = [this, &model]() -> absl::Status {
    if (draining_) {
      return DrainingError();
    }
    return model.deleted() ? ModelNotFoundError(model.declaration().name.ToString())
                           : absl::CancelledError("the test was cancelled");
  };
  if (stopped()) {
    return stop_reason();
  }
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  const absl::StatusOr<std::size_t> n = CheckSize(request, *snapshot);
  if (!n.ok()) {
    return n.status();
  }
  QuadraticTestOutcome outcome;
  outcome.last_observation = snapshot->observations;
  outcome.first_observation = snapshot->observations - static_cast<std::int64_t>(*n) + 1;
  outcome.compute_time = std::chrono::system_clock::now();
  const PredictionSet observations = snapshot->window.CopyNewest(*n);
  RunControl control;
  control.parallel_for = [this](std::size_t count, const std::function<void(std::size_t)>& body) {
    pool_.ParallelFor(count, body);
  };
  control.progress = watcher.progress;
  control.cancelled = stopped;
  LensTestOptions options{.bandwidth = std::nullopt,
                          .replicates = request.bootstrap.replicates,
                          .seed = request.bootstrap.seed};
  if (request.lens.kind() == Lens::Kind::kCanonical) {
    options.bandwidth = *snapshot->bandwidth;
  }
  absl::StatusOr<LensTestResult> result =
      TestLens(observations.view(), request.lens, options, control);
  if (!result.ok()) {
    return absl::IsCancelled(result.status()) ? stop_reason() : result.status();
  }
  outcome.result = *std::move(result);
  outcome.elapsed = std::chrono::steady_clock::now() - start;
  return outcome;
}

void QuadraticTests::Count(const absl::Status& status) noexcept {
  if (status.ok()) {
    ++completed_;
  } else if (absl::IsCancelled(status)) {
    ++cancelled_;
  } else {
    ++failed_;
  }
}

QuadraticTests::Counts QuadraticTests::counts() const noexcept {
  return {.completed = completed_,
          .cancelled = cancelled_,
          .failed = failed_,
          .running = running_,
          .queued = queued_};
}

}  // namespace calibd::server
