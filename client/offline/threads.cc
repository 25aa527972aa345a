#include "client/offline/threads.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace calibd::offline {

ParallelLoop LoopOnThreads(unsigned threads) {
  return [threads](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    };
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads && t < count; ++t) others.emplace_back(work);
    work();
  };
}

RunControl ControlOf(unsigned threads, std::stop_token stop,
                     std::function<void(double fraction)> on_progress) {
  return {.parallel_for = LoopOnThreads(threads),
          .progress = std::move(on_progress),
          .cancelled = [stop = std::move(stop)] { return stop.stop_requested(); }};
}

}  // namespace calibd::offline
