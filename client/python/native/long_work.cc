#include "long_work.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "client/offline/threads.h"

namespace calibd::python {
namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kSignalInterval{50};

// Work on a thread of its own. Its destructor cancels the work and waits for its end.
class Job {
 public:
  Job(const Work& work, unsigned threads)
      : thread_([this, &work, threads] {
          RunControl control;
          control.parallel_for = offline::LoopOnThreads(threads);
          control.progress = [this](double fraction) { fraction_ = fraction; };
          control.cancelled = [this] { return cancelled_.load(); };
          absl::StatusOr<std::string> result = work(control);
          const std::lock_guard lock(mutex_);
          result_ = std::move(result);
          done_.notify_one();
        }) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  // NOLINTNEXTLINE(bugprone-exception-escape): without the interpreter's lock nothing can go on.
  ~Job() {
    cancelled_ = true;
    const py::gil_scoped_release release;
    thread_.join();
  }

  // Waits for the end for a while, without the interpreter's lock. True if the work has ended.
  bool Wait() {
    const py::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    return done_.wait_for(lock, kSignalInterval, [this] { return result_.has_value(); });
  }
  [[nodiscard]] double fraction() const { return fraction_; }
  // After the end.
  [[nodiscard]] const absl::StatusOr<std::string>& result() const { return *result_; }

 private:
  std::atomic<double> fraction_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<absl::StatusOr<std::string>> result_;
  std::thread thread_;
};

}  // namespace

py::tuple RunLong(const Work& work, unsigned threads, const py::object& on_progress) {
  Job job(work, threads);
  double told = 0;
  while (!job.Wait()) {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    const double fraction = job.fraction();
    if (on_progress.is_none() || fraction <= told) continue;
    told = fraction;
    on_progress(fraction);
  }
  const absl::StatusOr<std::string>& result = job.result();
  if (result.ok() && !on_progress.is_none()) on_progress(1.0);
  return py::make_tuple(static_cast<int>(result.status().code()),
                        std::string(result.status().message()),
                        py::bytes(result.ok() ? *result : std::string()));
}

}  // namespace calibd::python
