#include "server/rpc/calibration_watches.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/errors.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/watch_proto.h"

namespace calibd::server {
namespace {

using WatchRequest = v1::WatchCalibrationRequest;
using WatchResponse = v1::WatchCalibrationResponse;

constexpr std::chrono::milliseconds kShortestInterval{100};
constexpr std::chrono::hours kLongestInterval{1};
constexpr std::chrono::seconds kDefaultInterval{1};
// When one that was refused may come again.
constexpr std::chrono::seconds kRefusalDelay{1};
// How late a change may be seen.
constexpr std::chrono::milliseconds kBetweenLooks{100};
// Watchers that come to be due one after another are looked at together.
constexpr std::chrono::milliseconds kBetweenPasses{20};

absl::StatusOr<std::chrono::nanoseconds> ReadInterval(const WatchRequest& request) {
  if (!request.has_min_interval()) {
    return kDefaultInterval;
  }
  const google::protobuf::Duration& interval = request.min_interval();
  // Whole seconds are compared first: a client may send any number of them.
  const std::chrono::nanoseconds nanos(interval.nanos());
  const bool sane = interval.seconds() >= 0 &&
                    interval.seconds() <= std::chrono::seconds(kLongestInterval).count() &&
                    nanos >= std::chrono::seconds(0) && nanos < std::chrono::seconds(1);
  const std::chrono::nanoseconds duration =
      sane ? std::chrono::seconds(interval.seconds()) + nanos : std::chrono::nanoseconds(0);
  if (duration < kShortestInterval || duration > kLongestInterval) {
    return InvalidFieldError("min_interval",
                             absl::StrFormat("is %d s and %d ns, expected 100 ms to 1 h",
                                             interval.seconds(), interval.nanos()));
  }
  return duration;
}

// A model as it is shown to all watchers of one pass.
struct Shown {
  std::shared_ptr<const ModelSnapshot> snapshot;
  std::chrono::system_clock::time_point time;
  std::int64_t revision = 0;
  // Once one of them wants it.
  std::optional<v1::GetCalibrationResponse> calibration;
};

// How often the model's state has changed; each count is part of what a restart brings back.
std::int64_t Changes(const ModelSnapshot& snapshot) {
  std::int64_t changes = snapshot.accepted_batches + snapshot.rejected_batches;
  if (snapshot.label_coverage.has_value()) {
    const LabelCounts& labels = snapshot.label_coverage->labels;
    changes += snapshot.label_coverage->matured + labels.matched + labels.repeated +
               labels.conflicting + labels.late + labels.unknown;
  }
  if (snapshot.monitor.has_value()) {
    // Of the alarms that are not kept any more all are acknowledged.
    const std::vector<Alarm>& alarms = *snapshot.monitor->alarms;
    changes += snapshot.monitor->raised[0] + snapshot.monitor->raised[1] -
               std::count_if(alarms.begin(), alarms.end(), [](const Alarm& alarm) {
                 return !alarm.acknowledge_time.has_value();
               });
  }
  return changes;
}

// Grows with the changes, and where the verdict becomes stale by time alone. Begins at the model's
// creation, so that one that was created anew is another. Above 0, which stands for none.
std::int64_t Revision(const Model& model, const ModelSnapshot& snapshot,
                      std::chrono::system_clock::time_point now) {
  const std::int64_t begin =
      std::chrono::duration_cast<std::chrono::microseconds>(model.create_time().time_since_epoch())
          .count();
  return begin + 2 * Changes(snapshot) + (IsStale(model, snapshot, now) ? 2 : 1);
}

}  // namespace

class CalibrationWatches::Call final : public grpc::ServerWriteReactor<WatchResponse>,
                                       public std::enable_shared_from_this<Call> {
 public:
  explicit Call(CalibrationWatches& watches) : watches_(watches) {}

  // Before anybody else knows of it, as the next one.
  void Start() { self_ = shared_from_this(); }

  // number: among the watchers.
  void Watch(std::int64_t number, std::shared_ptr<Model> model, std::chrono::nanoseconds interval,
             std::int64_t after_revision) {
    number_ = number;
    model_ = std::move(model);
    interval_ = interval;
    revision_ = after_revision;
  }

  // The model, unless the call has ended or is still writing.
  [[nodiscard]] std::shared_ptr<Model> Idle() {
    const std::lock_guard lock(mutex_);
    return writing_ ? nullptr : model_;
  }

  // Of the newest message that the client has or is sent; whether this call sent none. For the
  // one that calls Write.
  [[nodiscard]] std::int64_t revision() const noexcept { return revision_; }
  [[nodiscard]] bool silent() const noexcept { return silent_; }

  // When it is Idle. calibration: or null, for no change. Returns how long it is to be left alone.
  std::chrono::nanoseconds Write(const v1::GetCalibrationResponse* calibration,
                                 std::int64_t revision) {
    const std::lock_guard lock(mutex_);
    if (model_ == nullptr) {
      return kBetweenLooks;  // Ended since.
    }
    if (calibration != nullptr) {
      *written_.mutable_calibration() = *calibration;
    }
    written_.set_revision(revision);
    revision_ = revision;
    silent_ = false;
    writing_ = true;
    StartWrite(&written_);
    return interval_;
  }

  // Only the first status counts.
  void End(absl::Status status) {
    const std::lock_guard lock(mutex_);
    EndLocked(std::move(status));
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    written_.Clear();
    if (!ok) {
      EndLocked(absl::CancelledError("the client is gone"));
    }
    Advance();
  }

  void OnCancel() override { End(absl::CancelledError("the client is gone")); }

  void OnDone() override {
    // Goes, maybe as the last owner, after the lock is released.
    std::shared_ptr<Call> self;
    std::int64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      self = std::move(self_);
      number = number_;
    }
    watches_.Remove(number);
  }

 private:
  // With mutex_ held, as the next one.
  void EndLocked(absl::Status status) {
    if (!end_status_.has_value()) {
      end_status_ = std::move(status);
      // A deleted model must not live on in a call whose client does not read.
      model_.reset();
    }
    Advance();
  }

  // A write that is pending comes back by itself, also when cancelled.
  void Advance() {
    if (end_status_.has_value() && !writing_ && !finished_) {
      finished_ = true;
      Finish(ToGrpcStatus(*end_status_));
    }
  }

  CalibrationWatches& watches_;
  std::mutex mutex_;
  // Itself, until OnDone.
  std::shared_ptr<Call> self_;
  std::int64_t number_ = 0;
  // Until the end.
  std::shared_ptr<Model> model_;
  std::chrono::nanoseconds interval_{};
  // The looking thread's.
  std::int64_t revision_ = 0;
  bool silent_ = true;
  WatchResponse written_;
  bool writing_ = false;
  std::optional<absl::Status> end_status_;
  bool finished_ = false;
};

CalibrationWatches::CalibrationWatches(const ModelRegistry& registry, std::size_t max_watchers,
                                       Describe describe)
    : registry_(registry),
      max_watchers_(max_watchers),
      describe_(std::move(describe)),
      thread_([this] { Run(); }) {}

CalibrationWatches::~CalibrationWatches() { Stop(); }

grpc::ServerWriteReactor<WatchResponse>* CalibrationWatches::Begin(const WatchRequest& request) {
  auto call = std::make_shared<Call>(*this);
  call->Start();
  absl::Status status = CatchExceptions([&] { return Add(request, call); });
  if (!status.ok()) {
    call->End(std::move(status));
  }
  return call.get();
}

absl::Status CalibrationWatches::Add(const WatchRequest& request,
                                     const std::shared_ptr<Call>& call) {
  const absl::StatusOr<ModelName> name = ParseModelName("model", request.model());
  if (!name.ok()) {
    return name.status();
  }
  const absl::StatusOr<std::chrono::nanoseconds> interval = ReadInterval(request);
  if (!interval.ok()) {
    return interval.status();
  }
  if (request.after_revision() < 0) {
    return InvalidFieldError("after_revision",
                             absl::StrCat("is ", request.after_revision(), ", expected >= 0"));
  }
  {
    const std::lock_guard lock(mutex_);
    if (draining_) {
      return DrainingError();
    }
    // Under the lock: a model that is found is there when its watches are ended.
    absl::StatusOr<std::shared_ptr<Model>> found = registry_.Find(*name);
    if (!found.ok()) {
      return found.status();
    }
    if (watchers_.size() >= max_watchers_) {
      return WithRetryDelay(
          MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_WATCHERS",
                    absl::StrCat("there are ", watchers_.size(), " watchers, the limit")),
          kRefusalDelay);
    }
    const std::int64_t number = next_number_++;
    watchers_[number] = {.call = call, .model = found->get(), .due = Clock::now()};
    call->Watch(number, *std::move(found), *interval, request.after_revision());
    added_ = true;
  }
  changed_.notify_all();
  return absl::OkStatus();
}

void CalibrationWatches::Remove(std::int64_t number) {
  // Goes after the lock is released.
  Watcher removed;
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(number);
  if (found != watchers_.end()) {
    removed = std::move(found->second);
    watchers_.erase(found);
  }
}

void CalibrationWatches::EndWatchesOf(const Model& model) {
  End(&model, ModelNotFoundError(model.declaration().name.ToString()));
}

void CalibrationWatches::Drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  End(nullptr, DrainingError());
}

void CalibrationWatches::End(const Model* model, const absl::Status& status) {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, watcher] : watchers_) {
      if (model == nullptr || watcher.model == model) {
        calls.push_back(watcher.call);
      }
    }
  }
  // Outside the lock: a call that ends removes itself.
  for (const std::shared_ptr<Call>& call : calls) {
    call->End(status);
  }
}

void CalibrationWatches::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CalibrationWatches::Run() {
  pthread_setname_np(pthread_self(), "calibd-watch");
  struct Due {
    std::int64_t number;
    std::shared_ptr<Call> call;
    Clock::time_point next;
  };
  std::vector<Due> due;
  while (true) {
    const Clock::time_point begin = Clock::now();
    due.clear();
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, begin + kBetweenPasses, [this] { return stopping_; });
      Clock::time_point next = begin + kLongestInterval;
      for (const auto& [number, watcher] : watchers_) {
        next = std::min(next, watcher.due);
      }
      changed_.wait_until(lock, next, [this] { return stopping_ || added_; });
      if (stopping_) {
        return;
      }
      added_ = false;
      const Clock::time_point now = Clock::now();
      for (const auto& [number, watcher] : watchers_) {
        if (watcher.due <= now) {
          due.push_back({.number = number, .call = watcher.call, .next = now});
        }
      }
    }
    std::map<const Model*, Shown> shown;
    for (Due& one : due) {
      const std::shared_ptr<Model> model = one.call->Idle();
      one.next = Clock::now() + kBetweenLooks;
      if (model == nullptr) {
        continue;
      }
      const absl::Status status = CatchExceptions([&] {
        Shown& now = shown[model.get()];
        if (now.snapshot == nullptr) {
          now.snapshot = model->snapshot();
          now.time = std::chrono::system_clock::now();
          now.revision = Revision(*model, *now.snapshot, now.time);
        }
        const v1::GetCalibrationResponse* change = nullptr;
        if (now.revision != one.call->revision()) {
          if (!now.calibration.has_value()) {
            describe_(*model, *now.snapshot, now.time, now.calibration.emplace());
          }
          change = &*now.calibration;
        }
        if (change != nullptr || one.call->silent()) {
          one.next = Clock::now() + one.call->Write(change, now.revision);
        }
        return absl::OkStatus();
      });
      if (!status.ok()) {
        one.call->End(status);
      }
    }
    const std::lock_guard lock(mutex_);
    for (const Due& one : due) {
      const auto found = watchers_.find(one.number);
      if (found != watchers_.end()) {
        found->second.due = one.next;
      }
    }
  }
}

}  // namespace calibd::server
