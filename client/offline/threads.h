#ifndef CALIBD_CLIENT_OFFLINE_THREADS_H_
#define CALIBD_CLIENT_OFFLINE_THREADS_H_

#include <functional>
#include <stop_token>

#include "calibd/core/run_control.h"

namespace calibd::offline {

// Runs a loop on `threads` >= 1 threads, including the caller's.
[[nodiscard]] ParallelLoop LoopOnThreads(unsigned threads);

// A computation on `threads` threads that `stop` cancels. on_progress: may be empty.
[[nodiscard]] RunControl ControlOf(unsigned threads, std::stop_token stop,
                                   std::function<void(double fraction)> on_progress);

}  // namespace calibd::offline

#endif  // CALIBD_CLIENT_OFFLINE_THREADS_H_
