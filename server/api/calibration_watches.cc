#include "server/api/calibration_watches.h"

#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/answers/calibration_proto.h"
#include "server/answers/verdict.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

using WatchRequest = v1::WatchCalibrationRequest;
using WatchResponse = v1::WatchCalibrationResponse;

constexpr std::chrono::seconds kDefaultInterval{1};
// The thread of the watches looks at least so often.
constexpr std::chrono::hours kLongestSleep{1};
// Retry delay for a refused watcher.
constexpr std::chrono::seconds kRefusalDelay{1};
// Maximum delay until a change is noticed.
constexpr std::chrono::milliseconds kBetweenLooks{100};
// Watchers that become due within this time are examined in the same pass.
constexpr std::chrono::milliseconds kBetweenPasses{20};

std::chrono::nanoseconds IntervalOf(const WatchRequest& request) {
  if (!request.has_min_interval()) return kDefaultInterval;
  return std::chrono::seconds(request.min_interval().seconds()) +
         std::chrono::nanoseconds(request.min_interval().nanos());
}

// Number of changes of the model's state. A recovery restores each of these counts.
std::int64_t Changes(const ModelSnapshot& snapshot) {
  // Producers may report any number of dropped rows and labels, in batches that are neither
  // accepted nor rejected.
  constexpr std::int64_t kMostDropped = std::int64_t{1} << 40;
  std::int64_t changes = snapshot.accepted_batches + snapshot.rejected_batches +
                         std::min(snapshot.dropped_rows, kMostDropped) +
                         std::min(snapshot.dropped_labels, kMostDropped);
  if (snapshot.label_arrivals.has_value()) {
    const LabelCounts& labels = snapshot.label_arrivals->labels;
    // A label that waits is counted as one of the others later, so that both changes increase the
    // number.
    changes +=
        snapshot.label_arrivals->matured + labels.waiting +
        2 * (labels.matched + labels.repeated + labels.conflicting + labels.late + labels.unknown);
  }
  if (snapshot.monitor.has_value()) {
    // Alarms that are no longer kept have all been acknowledged.
    const std::vector<Alarm>& alarms = *snapshot.monitor->alarms;
    const auto& raised = snapshot.monitor->raised;
    changes += std::accumulate(raised.begin(), raised.end(), std::int64_t{0}) -
               std::count_if(alarms.begin(), alarms.end(), [](const Alarm& alarm) {
                 return !alarm.acknowledge_time.has_value();
               });
  }
  return changes;
}

// Increases with every change, and when the verdict becomes stale. It starts from the creation time
// of the model, so that a recreated model has a different revision. It is > 0, because 0 means that
// there is no revision.
std::int64_t Revision(const Model& model, const ModelSnapshot& snapshot,
                      std::chrono::system_clock::time_point now) {
  const std::int64_t begin =
      std::chrono::duration_cast<std::chrono::microseconds>(model.create_time().time_since_epoch())
          .count();
  return begin + 2 * Changes(snapshot) + (IsStale(model, snapshot, now) ? 2 : 1);
}

absl::Status TooManyWatchersError(const FairShares& shares, const std::string& owner) {
  const std::string what =
      shares.taken() >= shares.places()
          ? absl::StrCat("there are ", shares.taken(), " watchers, the limit (max-watchers)")
          : absl::StrCat("this caller has ", shares.TakenBy(owner),
                         " watchers, its share of the limit of ", shares.places(),
                         " (max-watchers)");
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_WATCHERS",
                absl::StrCat(what,
                             ": end unused calls of WatchCalibration, or try again when one "
                             "has ended")),
      kRefusalDelay);
}

}  // namespace

// The response for one model, shared by all watchers of a pass.
struct CalibrationWatches::Shown {
  std::shared_ptr<const ModelSnapshot> snapshot;
  std::chrono::system_clock::time_point time;
  std::int64_t revision = 0;
  // Computed when the first watcher needs it.
  std::optional<v1::GetCalibrationResponse> calibration;
};

CalibrationWatches::CalibrationWatches(const ModelRegistry& registry, std::size_t max_watchers)
    : registry_(registry), shares_(max_watchers), thread_([this] { Run(); }) {}

CalibrationWatches::~CalibrationWatches() { Stop(); }

absl::Status CalibrationWatches::Add(const WatchRequest& request,
                                     const Reply<v1::WatchCalibrationResponse>& stream,
                                     const std::shared_ptr<Model>& model,
                                     std::shared_ptr<AccessControl::Held> held) {
  const std::chrono::nanoseconds interval = IntervalOf(request);
  const std::string& owner = stream->context().owner;
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return DrainingError();
    // Under the lock: if the model is still registered now, its deletion will end its watches.
    const ModelName& name = model->original().name;
    const absl::StatusOr<std::shared_ptr<Model>> registered = registry_.Find(name);
    if (!registered.ok() || *registered != model) return ModelNotFoundError(name.ToString());
    if (!shares_.Take(owner)) return TooManyWatchersError(shares_, owner);
    number = next_number_++;
    watchers_[number] = {.stream = stream,
                         .held = std::move(held),
                         .model = model,
                         .interval = interval,
                         .revision = request.after_revision(),
                         .due = Clock::now()};
    added_ = true;
  }
  stream->OnEnd([this, number, owner] { Remove(number, owner); });
  changed_.notify_all();
  return absl::OkStatus();
}

void CalibrationWatches::Remove(std::int64_t number, const std::string& owner) {
  // Destroyed after the lock is released.
  Watcher removed;
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(number);
  if (found != watchers_.end()) {
    removed = std::move(found->second);
    watchers_.erase(found);
    shares_.Return(owner);
  }
}

void CalibrationWatches::EndWatchesOf(const Model& model) {
  End(&model, ModelNotFoundError(model.declaration()->name.ToString()));
}

void CalibrationWatches::Drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  End(nullptr, DrainingError());
}

void CalibrationWatches::End(const Model* model, const absl::Status& status) {
  std::vector<Reply<WatchResponse>> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, watcher] : watchers_) {
      if (model == nullptr || watcher.model.lock().get() == model) {
        streams.push_back(watcher.stream);
      }
    }
  }
  // Without the lock: a stream that ends removes its watcher.
  for (const Reply<WatchResponse>& stream : streams) stream->End(status);
}

void CalibrationWatches::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::map<std::int64_t, CalibrationWatches::Watcher> CalibrationWatches::AwaitDue() {
  std::map<std::int64_t, Watcher> due;
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, begin + kBetweenPasses, [this] { return stopping_; });
  while (due.empty() && !stopping_) {
    added_ = false;
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + kLongestSleep;
    for (const auto& [number, watcher] : watchers_) {
      if (watcher.due <= now) due.emplace(number, watcher);
      next = std::min(next, watcher.due);
    }
    if (due.empty()) {
      changed_.wait_until(lock, next, [this] { return stopping_ || added_; });
    }
  }
  return stopping_ ? std::map<std::int64_t, Watcher>() : due;
}

void CalibrationWatches::Look(Watcher& watcher, std::map<const Model*, Shown>& shown) {
  watcher.due = Clock::now() + kBetweenLooks;
  const std::shared_ptr<Model> model = watcher.model.lock();
  if (model == nullptr || !watcher.stream->idle()) return;
  Shown& now = shown[model.get()];
  if (now.snapshot == nullptr) {
    now.snapshot = model->snapshot();
    now.time = std::chrono::system_clock::now();
    now.revision = Revision(*model, *now.snapshot, now.time);
  }
  const bool changed = now.revision != watcher.revision;
  if (!changed && !watcher.silent) return;
  WatchResponse response;
  response.set_revision(now.revision);
  if (changed) {
    if (!now.calibration.has_value()) {
      DescribeCalibration(*model, *now.snapshot, now.time, now.calibration.emplace());
    }
    *response.mutable_calibration() = *now.calibration;
  }
  if (watcher.stream->Send(std::move(response))) {
    watcher.revision = now.revision;
    watcher.silent = false;
    watcher.due = Clock::now() + watcher.interval;
  }
}

void CalibrationWatches::Run() {
  pthread_setname_np(pthread_self(), "calibd-watch");
  while (true) {
    std::map<std::int64_t, Watcher> due = AwaitDue();
    if (due.empty()) return;
    // Another process may have newer states.
    if (const absl::Status owned = registry_.CheckRestored(); !owned.ok()) {
      End(nullptr, owned);
      continue;
    }
    std::map<const Model*, Shown> shown;
    for (auto& entry : due) {
      Watcher& watcher = entry.second;
      watcher.stream->Guard(Stage::kAnswer, [&] { Look(watcher, shown); });
    }
    const std::lock_guard lock(mutex_);
    for (auto& [number, watcher] : due) {
      const auto found = watchers_.find(number);
      if (found != watchers_.end()) found->second = std::move(watcher);
    }
  }
}

}  // namespace calibd::server
