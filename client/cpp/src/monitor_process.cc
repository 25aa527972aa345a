#include "monitor_process.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "calibd/client/monitor.h"
#include "grpc/grpc.h"
#include "monitor_delivery.h"

namespace calibd::client {
namespace {

using SteadyClock = MonitorDelivery::Clock;

// A fork waits so long for gRPC to end its threads, which takes less than a second.
constexpr std::chrono::seconds kMaxForkDelay{2};
constexpr std::chrono::milliseconds kBetweenForkLooks{1};
// So long after a fork the parent connects again: a server of workers forks several, and gRPC takes
// its time to end.
constexpr std::chrono::milliseconds kForkPause{500};

}  // namespace

struct MonitorProcess::State {
  // Held during a fork.
  std::mutex mutex;
  std::set<Monitor*> monitors;
  // gRPC is in use at the current fork.
  bool grpc_runs = false;
  std::atomic<bool> inherits_grpc = false;
};

MonitorProcess::State& MonitorProcess::Get() {
  // It is never destroyed, because monitors may be destroyed after it.
  static State* const state = [] {
    auto* created = new State;
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    (void)std::atexit(CloseAll);
    return created;
  }();
  return *state;
}

void MonitorProcess::Add(Monitor& monitor) {
  const std::lock_guard lock(Get().mutex);
  Get().monitors.insert(&monitor);
}

void MonitorProcess::Remove(Monitor& monitor) {
  const std::lock_guard lock(Get().mutex);
  Get().monitors.erase(&monitor);
}

bool MonitorProcess::InheritsGrpc() { return Get().inherits_grpc; }

void MonitorProcess::BeforeFork() {
  State& state = Get();
  state.mutex.lock();
  bool uses_grpc = false;
  for (Monitor* monitor : state.monitors) uses_grpc |= monitor->delivery_->Park();
  const auto is_quiet = [&] {
    return std::ranges::all_of(state.monitors,
                               [](Monitor* m) { return m->delivery_->is_parked(); }) &&
           grpc_is_initialized() == 0;
  };
  // gRPC tells nobody when its threads have ended.
  const SteadyClock::time_point deadline = SteadyClock::now() + kMaxForkDelay;
  while (uses_grpc && !is_quiet() && SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenForkLooks);
  }
  state.grpc_runs = !is_quiet();
}

void MonitorProcess::AfterForkInParent() {
  State& state = Get();
  for (Monitor* monitor : state.monitors) {
    monitor->delivery_->Unpark(SteadyClock::now() + kForkPause);
  }
  state.mutex.unlock();
}

void MonitorProcess::AfterForkInChild() {
  State& state = Get();
  if (state.grpc_runs) state.inherits_grpc = true;
  for (Monitor* monitor : state.monitors) {
    // It stays in memory: threads that the child does not have may hold its lock.
    const MonitorDelivery& inherited = *monitor->delivery_.release();
    monitor->delivery_ = std::make_unique<MonitorDelivery>(inherited.model(), inherited.options(),
                                                           state.inherits_grpc);
  }
  state.mutex.unlock();
}

void MonitorProcess::CloseAll() {
  State& state = Get();
  const std::lock_guard lock(state.mutex);
  const SteadyClock::time_point begin = SteadyClock::now();
  for (Monitor* monitor : state.monitors) monitor->delivery_->BeginClose();
  for (Monitor* monitor : state.monitors) {
    MonitorDelivery& delivery = *monitor->delivery_;
    delivery.EndClose(begin + delivery.options().close_timeout, "was not closed");
  }
}

}  // namespace calibd::client
