#include "replicates.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tile_walk.h"

namespace calibd {

absl::Status RunReplicates(std::size_t count, const RunControl& control,
                           const std::function<void(std::size_t)>& body) {
  // The maximum number of progress reports.
  constexpr std::size_t kSteps = 200;
  const std::size_t step = (count + kSteps - 1) / kSteps;
  std::atomic<bool> cancelled = false;
  std::mutex mutex;
  std::size_t done = 0;
  ParallelFor(control, count, [&](std::size_t r) {
    if (cancelled || (control.cancelled && control.cancelled())) {
      cancelled = true;
      return;
    }
    body(r);
    const std::lock_guard lock(mutex);
    ++done;
    if (control.progress && (done % step == 0 || done == count)) {
      control.progress(static_cast<double>(done) / static_cast<double>(count));
    }
  });
  if (cancelled) return absl::CancelledError("the computation was cancelled");
  return absl::OkStatus();
}

}  // namespace calibd
