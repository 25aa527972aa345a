#include "server/ingest/snapshots.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/failpoint.h"

namespace calibd::server {
namespace {

// Of snapshots that nobody waits for: up to some megabytes each.
constexpr std::size_t kMostStoredAtOnce = 16;

// The buckets of the history that wait, as the store holds them.
std::vector<Store::StoredBucket> EncodeHistory(const Model& model) {
  std::vector<Store::StoredBucket> buckets;
  buckets.reserve(model.history().waiting().size());
  for (const History::Entry& entry : model.history().waiting()) {
    buckets.push_back({.model_id = model.id(),
                       .resolution = static_cast<std::int64_t>(entry.resolution),
                       .start_s = entry.start.time_since_epoch().count(),
                       .data = EncodeHistoryBucket(entry.bucket)});
  }
  return buckets;
}

// And deletes what is older than it is kept.
absl::Status StoreHistory(Store& store, const std::vector<Store::StoredBucket>& buckets) {
  absl::Status status;
  for (const Store::StoredBucket& bucket : buckets) {
    const auto kept = RetentionOf(static_cast<HistoryResolution>(bucket.resolution));
    status.Update(store.PutHistory(bucket));
    status.Update(
        store.DeleteHistory(bucket.model_id, bucket.resolution, bucket.start_s - kept.count()));
  }
  return status;
}

// With the cursors that moved: those of batches that the snapshot holds are told by nothing else
// once their rows are gone.
absl::Status WriteSnapshot(Model& model, std::int64_t log_id, std::int64_t window_log_id,
                           std::string_view data, const std::vector<Store::StoredBucket>& history,
                           Store& store) {
  if (model.deleted()) {
    return absl::OkStatus();
  }
  Store::Snapshot snapshot{
      .model_id = model.id(), .log_id = log_id, .data = data, .first_log_id = window_log_id};
  if (const PredictionTracker* const tracker = model.tracker()) {
    snapshot.first_log_id = std::min(window_log_id, tracker->first_log_id());
    snapshot.matured_log_id = tracker->matured_log_id();
  }
  absl::Status status = store.PutSnapshot(snapshot);
  status.Update(StoreHistory(store, history));
  model.cursors().VisitMoved(
      [&](const std::string& producer_id, const ProducerCursors::Cursor& cursor) {
        const std::string contents = EncodeContents(cursor);
        status.Update(store.PutCursor({.model_id = model.id(),
                                       .producer_id = producer_id,
                                       .epoch = cursor.epoch,
                                       .last_sequence = cursor.last_sequence,
                                       .contents = contents}));
      });
  Failpoint("snapshot");
  return status;
}

void PostSnapshot(const std::shared_ptr<Model>& model, CommitQueue& commits,
                  const LogClock& clock) {
  const std::int64_t time_us = clock.wall_us();
  std::string data;
  std::vector<Store::StoredBucket> history;
  try {
    store::v1::ModelState state = model->Save();
    state.set_snapshot_time_us(time_us);
    data = state.SerializeAsString();
    history = EncodeHistory(*model);
  } catch (const std::bad_alloc&) {
    return;  // It stays due.
  }
  const std::int64_t log_id = model->retention().last_log_id();
  const std::size_t stored_history = history.size();
  std::vector<std::int64_t> unneeded = model->retention().BeginSnapshot(clock.steady());
  commits.Post({.append = nullptr,
                .write =
                    [model, log_id, window_log_id = model->retention().first_log_id(),
                     data = std::move(data), history = std::move(history),
                     unneeded = std::move(unneeded)](Store& store) {
                      store.ReleaseBatches(unneeded);
                      return WriteSnapshot(*model, log_id, window_log_id, data, history, store);
                    },
                .undo = nullptr,
                .done =
                    [&commits, &clock, model, log_id, time_us,
                     stored_history](const absl::Status& committed) {
                      if (committed.ok()) {
                        model->cursors().SetStored();
                        model->set_stored_time_us(time_us);
                      }
                      if (committed.ok() && model->tracker() != nullptr) {
                        model->tracker()->SetSnapshot(log_id);
                      }
                      model->strand().Post(
                          [&commits, &clock, model, stored_history, stored = committed.ok()] {
                            model->retention().EndSnapshot(stored);
                            model->DropStoredHistory(stored ? stored_history : 0);
                            // What came meanwhile may be enough for the next one.
                            PostSnapshotIfDue(model, commits, clock);
                          });
                    }});
}

}  // namespace

void PostSnapshotIfDue(const std::shared_ptr<Model>& model, CommitQueue& commits,
                       const LogClock& clock) {
  const LogRetention::Clock::time_point now = clock.steady();
  if (model->retention().SnapshotDueAt(now) <= now) {
    PostSnapshot(model, commits, clock);
  }
  model->set_snapshot_due_at(model->retention().SnapshotDueAt(now));
}

std::size_t StoreSnapshots(const ModelRegistry& registry, CommitQueue& commits,
                           const LogClock& clock, std::chrono::steady_clock::time_point deadline) {
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t under_way = 0;  // guarded by mutex
    std::size_t stored = 0;     // guarded by mutex

    // Waits for fewer than so many; false when the deadline comes before.
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
  if (!models.ok()) {
    return 0;
  }
  const auto progress = std::make_shared<Progress>();
  for (const std::shared_ptr<Model>& model : *models) {
    if (!progress->Await(kMostStoredAtOnce, deadline)) {
      break;
    }
    progress->Begin();
    model->strand().Post([model, progress, &commits, &clock] {
      if (model->retention().unstored()) {
        model->retention().HastenSnapshot();
      }
      PostSnapshotIfDue(model, commits, clock);
      // Done when what was posted before it is.
      commits.Post({.append = nullptr,
                    .write = nullptr,
                    .undo = nullptr,
                    .done = [model, progress](const absl::Status&) {
                      // After the strand has heard what became of the snapshot.
                      model->strand().Post(
                          [model, progress] { progress->End(!model->retention().unstored()); });
                    }});
    });
  }
  static_cast<void>(progress->Await(1, deadline));
  const std::lock_guard lock(progress->mutex);
  return models->size() - progress->stored;
}

}  // namespace calibd::server
