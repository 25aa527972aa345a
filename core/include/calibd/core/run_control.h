#ifndef CALIBD_CORE_RUN_CONTROL_H_
#define CALIBD_CORE_RUN_CONTROL_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace calibd {

// Calls body(0) .. body(count - 1), each exactly once, in any order and from any threads, and
// returns when all are done.
using ParallelLoop =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& body)>;

// parallel: unset to run in order on the caller's thread.
template <typename Body>
void RunLoop(const ParallelLoop& parallel, std::size_t count, const Body& body) {
  if (parallel) {
    parallel(count, std::ref(body));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) body(i);
}

// Parallel execution, progress and cancellation of a long computation. Core starts no threads: the
// caller provides them through parallel_for. No result depends on any of these.
struct RunControl {
  // If unset, calls run in order on the caller's thread.
  ParallelLoop parallel_for;

  // Called with the completed fraction, in [0, 1] and never decreasing, a few hundred times at
  // most; never from two threads at once. If unset, no progress is reported.
  std::function<void(double fraction)> progress;

  // Called every few milliseconds from any thread; true makes the computation return Cancelled.
  // If unset, the work is never cancelled.
  std::function<bool()> cancelled;

  [[nodiscard]] bool IsCancelled() const { return cancelled && cancelled(); }
  // Errors: Cancelled.
  [[nodiscard]] absl::Status CheckCancelled() const {
    return IsCancelled() ? absl::CancelledError("the computation was cancelled") : absl::OkStatus();
  }
  [[nodiscard]] RunControl WithoutProgress() const {
    return {.parallel_for = parallel_for, .progress = nullptr, .cancelled = cancelled};
  }
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUN_CONTROL_H_
