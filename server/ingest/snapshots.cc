#include "server/ingest/snapshots.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"
#include "server/ingest/model_writes.h"

namespace calibd::server {
namespace {

// Maximum number of snapshots that StoreSnapshots writes at a time; each takes up to some
// megabytes.
constexpr std::size_t kMostStoredAtOnce = 16;

// Returns the closed buckets of the history that are not stored yet, in the form of the store.
std::vector<StoredBucket> EncodeHistory(const Model& model) {
  std::vector<StoredBucket> buckets;
  buckets.reserve(model.strand_state().history().waiting().size());
  for (const History::Entry& entry : model.strand_state().history().waiting()) {
    buckets.push_back({.series = {.model_id = model.id(),
                                  .resolution = static_cast<std::int64_t>(entry.resolution)},
                       .start_s = entry.start.time_since_epoch().count(),
                       .data = EncodeHistoryBucket(entry.bucket)});
  }
  return buckets;
}

// Adds to stored buckets. late: of one model, with the log id of the snapshot in late_log_id.
absl::Status StoreLate(Store& store, std::int64_t model_id, History::Late late) {
  absl::Status status;
  for (const HistoryResolution resolution : kHistoryResolutions) {
    const HistorySeries series{.model_id = model_id,
                               .resolution = static_cast<std::int64_t>(resolution)};
    const auto first = late.lower_bound({resolution, std::chrono::sys_seconds::min()});
    const auto end = late.upper_bound({resolution, std::chrono::sys_seconds::max()});
    if (first == end) continue;
    // One read is much cheaper than a read for each bucket.
    status.Update(store.ReadHistory(
        series,
        {.start_s = first->first.second.time_since_epoch().count(),
         .end_s = std::prev(end)->first.second.time_since_epoch().count() + 1},
        [&](std::int64_t start_s, std::string_view data) -> absl::Status {
          const auto addition =
              late.find({resolution, std::chrono::sys_seconds(std::chrono::seconds(start_s))});
          if (addition == late.end()) return absl::OkStatus();
          CALIBD_ASSIGN_OR_RETURN(HistoryBucket bucket, DecodeHistoryBucket(data));
          bucket.Merge(addition->second);
          bucket.late_log_id = addition->second.late_log_id;
          addition->second = bucket;
          return absl::OkStatus();
        }));
    for (auto bucket = first; status.ok() && bucket != end; ++bucket) {
      status.Update(store.PutHistory({.series = series,
                                      .start_s = bucket->first.second.time_since_epoch().count(),
                                      .data = EncodeHistoryBucket(bucket->second)}));
    }
  }
  return status;
}

// Stores the buckets and deletes those that are older than their retention.
absl::Status StoreHistory(Store& store, const std::vector<StoredBucket>& buckets) {
  absl::Status status;
  for (const StoredBucket& bucket : buckets) {
    const auto kept = RetentionOf(static_cast<HistoryResolution>(bucket.series.resolution));
    status.Update(store.PutHistory(bucket));
    status.Update(store.DeleteHistory(bucket.series, bucket.start_s - kept.count()));
  }
  return status;
}

// Stores the cursors that have changed too: once the rows that the snapshot covers are gone, only
// the stored cursors record their batches.
absl::Status WriteSnapshot(Model& model, std::int64_t log_id, std::int64_t window_log_id,
                           std::string_view data, const std::vector<StoredBucket>& history,
                           History::Late late, Store& store) {
  if (model.deleted()) return absl::OkStatus();
  StoredSnapshot snapshot{
      .model_id = model.id(), .log_id = log_id, .data = data, .first_log_id = window_log_id};
  if (const auto& tracker = model.storage_state().tracker; tracker.has_value()) {
    snapshot.first_log_id = std::min(window_log_id, tracker->first_log_id());
    snapshot.matured_log_id = tracker->matured_log_id();
  }
  absl::Status status = store.PutSnapshot(snapshot);
  status.Update(StoreLate(store, model.id(), std::move(late)));
  status.Update(StoreHistory(store, history));
  model.storage_state().cursors.VisitChanged(
      [&](const std::string& key, const std::optional<ProducerCursors::StoredForm>& row) {
        status.Update(row.has_value() ? store.PutCursor({.model_id = model.id(),
                                                         .producer_id = key,
                                                         .epoch = row->epoch,
                                                         .last_sequence = row->last_sequence,
                                                         .contents = row->contents})
                                      : store.DeleteCursor(model.id(), key));
      });
  Failpoint("snapshot");
  return status;
}

// Persists the state of a model as it is on the strand when this object is created.
class SnapshotWrite final : public ModelWrite {
 public:
  // May throw bad_alloc, after which nothing has changed.
  SnapshotWrite(std::shared_ptr<Model> model, CommitQueue& commits, const LogClock& clock)
      : ModelWrite(std::move(model), commits, clock), time_us_(clock.wall_us()) {
    store::v1::ModelState state = model_->strand_state().Save();
    state.set_snapshot_time_us(time_us_);
    data_ = state.SerializeAsString();
    history_ = EncodeHistory(*model_);
    log_id_ = model_->strand_state().retention().last_log_id();
    late_ = model_->strand_state().history().late();
    for (auto& [key, bucket] : late_) bucket.late_log_id = log_id_;
    unneeded_ = model_->strand_state().retention().BeginSnapshot(clock.steady());
    window_log_id_ = model_->strand_state().retention().first_log_id();
    model_->strand_state().history().BeginStore(log_id_);
  }

  [[nodiscard]] Target target() const noexcept override { return Target::kCatalog; }
  [[nodiscard]] std::size_t bytes() const noexcept override { return data_.size(); }
  [[nodiscard]] absl::Status Write(Store& store) override {
    store.ReleaseBatches(unneeded_);
    return WriteSnapshot(*model_, log_id_, window_log_id_, data_, history_, std::move(late_),
                         store);
  }
  void Finish(Store& /*store*/, const absl::Status& committed) override {
    stored_ = committed.ok();
    if (!stored_) return;
    // Rows that were written before the previous snapshot are covered by this one.
    model_->storage_state().cursors.SetStored(model_->stored_time_us());
    model_->set_stored_time_us(time_us_);
    if (auto& tracker = model_->storage_state().tracker; tracker.has_value()) {
      tracker->SetSnapshot(log_id_);
    }
  }
  void Apply() override {
    model_->strand_state().retention().EndSnapshot(stored_);
    model_->strand_state().history().EndStore(stored_);
  }

 private:
  const std::int64_t time_us_;
  std::string data_;
  std::vector<StoredBucket> history_;
  History::Late late_;
  std::int64_t log_id_ = 0;
  std::int64_t window_log_id_ = 0;
  std::vector<std::int64_t> unneeded_;
  bool stored_ = false;
};

}  // namespace

void ModelWrite::Publish() {
  model_->strand_state().ApplyAppended();
  if (model_->strand_state().history().must_store()) {
    model_->strand_state().retention().HastenSnapshot();
  }
  PostSnapshotIfDue(model_, commits_, clock_);
  try {
    model_->Publish();
  } catch (const std::bad_alloc&) {
    // The rows are applied; readers see them with the next ones.
  }
}

void PostSnapshotIfDue(const std::shared_ptr<Model>& model, CommitQueue& commits,
                       const LogClock& clock) {
  const LogRetention::Clock::time_point now = clock.steady();
  if (model->strand_state().retention().SnapshotDueAt(now) <= now) {
    std::shared_ptr<SnapshotWrite> write;
    try {
      write = std::make_shared<SnapshotWrite>(model, commits, clock);
    } catch (const std::bad_alloc&) {
      // The snapshot stays due.
    }
    if (write != nullptr) commits.Post(std::move(write));
  }
  model->set_snapshot_due_at(model->strand_state().retention().SnapshotDueAt(now));
}

std::size_t StoreSnapshots(const ModelRegistry& registry, CommitQueue& commits,
                           const LogClock& clock, std::chrono::steady_clock::time_point deadline) {
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t under_way = 0;  // guarded by mutex
    std::size_t stored = 0;     // guarded by mutex

    // Waits until fewer than `most` snapshots are under way; returns false if the deadline passes
    // before.
    bool Await(std::size_t most, std::chrono::steady_clock::time_point until) {
      std::unique_lock lock(mutex);
      return changed.wait_until(lock, until, [&] { return under_way < most; });
    }
    void Begin() {
      const std::lock_guard lock(mutex);
      ++under_way;
    }
    void End(bool is_stored) {
      const std::lock_guard lock(mutex);
      --under_way;
      stored += is_stored ? 1 : 0;
      changed.notify_all();
    }
  };
  const auto models = registry.List("", std::numeric_limits<std::size_t>::max());
  if (!models.ok()) return 0;
  const auto progress = std::make_shared<Progress>();
  for (const std::shared_ptr<Model>& model : *models) {
    if (!progress->Await(kMostStoredAtOnce, deadline)) break;
    progress->Begin();
    model->strand().Post([model, progress, &commits, &clock] {
      if (model->strand_state().retention().unstored()) {
        model->strand_state().retention().HastenSnapshot();
      }
      PostSnapshotIfDue(model, commits, clock);
      // Runs after everything that was posted before it.
      commits.Call([model, progress](Store& /*store*/, const absl::Status&) {
        // Runs after the strand has received the result of the snapshot.
        model->strand().Post(
            [model, progress] { progress->End(!model->strand_state().retention().unstored()); });
      });
    });
  }
  static_cast<void>(progress->Await(1, deadline));
  const std::lock_guard lock(progress->mutex);
  return models->size() - progress->stored;
}

}  // namespace calibd::server
