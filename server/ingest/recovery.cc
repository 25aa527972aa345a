#include "server/ingest/recovery.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/ingest/log_tail.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/update_declaration.h"

namespace calibd::server {
namespace {

// Maximum number of bytes of the log that are read and not yet applied.
constexpr std::size_t kMostBytesAhead = std::size_t{64} << 20;

absl::Status Damaged(const Model& model, absl::string_view reason) {
  return MakeError(
      absl::StatusCode::kDataLoss, "STORE_DAMAGED",
      absl::StrCat("the store is damaged: ", model.declaration()->name.ToString(), ": ", reason,
                   "; restore a backup into an empty folder, or move the folder away to start with "
                   "an empty store"));
}

absl::Status Stopped() { return absl::CancelledError("the start was stopped"); }

absl::StatusOr<LogRow> Decode(Model& model, std::string_view data) {
  absl::StatusOr<LogRow> row = DecodeRow(data, model.declaration()->row_shape());
  if (!row.ok()) return Damaged(model, row.status().message());
  if (row->needs_tracker() && !model.storage_state().tracker.has_value()) {
    return Damaged(model, "the log holds predictions with ids, but the model has no label_grace");
  }
  return row;
}

// Updates the tracker of predictions by a row of the log.
void Track(const LogRow& row, const StoredBatch& stored, PredictionTracker& tracker) {
  if (const auto* const labels = row.As<LabelsRow>()) {
    tracker.RestoreEndOfWaiting(labels->ended_waiting_log_id);
  }
  if (!row.tracked()) return;
  if (const auto* const predictions = row.As<PredictionsRow>()) {
    tracker.Add(stored.log_id, row.elapsed, stored.time_us, predictions->ids,
                predictions->predicted_classes, predictions->values.truths);
    // The next row of the log holds what became of them.
    static_cast<void>(tracker.TakeWaiting(predictions->ids));
  } else if (const auto* const labels = row.As<LabelsRow>()) {
    tracker.RestoreLabels(stored.log_id, labels->ids, labels->truths);
    tracker.RestoreWaiting(stored.log_id, row.elapsed, labels->waiting_ids, labels->waiting_truths);
  }
}

// Replays rows on the models' strands while the log is read further. Keeps the first error.
class Replay {
 public:
  struct Target {
    std::shared_ptr<Model> model;
    std::int64_t snapshot_log_id = 0;
    // Rows before this id are covered by the snapshot and not needed.
    std::int64_t first_log_id = 0;
  };

  explicit Replay(const std::atomic<bool>& stop) : stop_(stop) {}
  // Running tasks use this object.
  ~Replay() { static_cast<void>(Wait()); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  absl::Status Post(const Target& target, const StoredBatch& batch) {
    return Run(*target.model, batch.data.size(),
               [this, target, data = std::string(batch.data), log_id = batch.log_id,
                time = std::chrono::microseconds(batch.time_us)] {
                 const absl::StatusOr<LogRow> row = Decode(*target.model, data);
                 return row.ok() ? Apply(target, *row, log_id, time) : row.status();
               });
  }
  // Like Replay, for a decoded row.
  absl::Status Post(const Target& target, const StoredBatch& batch, LogRow row) {
    const std::size_t bytes = row.bytes();
    return Run(*target.model, bytes,
               [this, target, row = std::move(row), log_id = batch.log_id,
                time = std::chrono::microseconds(batch.time_us)] {
                 return Apply(target, row, log_id, time);
               });
  }

  // Publishes the state of the models once every row is replayed.
  absl::Status Publish(const std::map<std::int64_t, Target>& targets) {
    for (const auto& [id, target] : targets) {
      CALIBD_RETURN_IF_ERROR(Run(*target.model, 0, [model = target.model] {
        model->Publish();
        return absl::OkStatus();
      }));
    }
    return Wait();
  }

  // Blocks until no task is running.
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_ == 0; });
    return status_;
  }

  [[nodiscard]] std::int64_t rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }

 private:
  // Runs a task on the model's strand when its bytes fit the limit. Returns the first error of all
  // tasks.
  absl::Status Run(Model& model, std::size_t bytes, std::function<absl::Status()> work) {
    std::function<void()> task = [this, bytes, work = std::move(work)] {
      absl::Status status;
      try {
        status = stop_ ? Stopped() : work();
      } catch (const std::bad_alloc&) {
        status = absl::ResourceExhaustedError("out of memory while the log was read");
      }
      Finish(bytes, std::move(status));
    };
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return bytes_ahead_ < kMostBytesAhead; });
      if (!status_.ok()) return status_;
      bytes_ahead_ += bytes;
      ++tasks_;
    }
    try {
      model.strand().Post(std::move(task));
    } catch (...) {
      Finish(bytes, absl::ResourceExhaustedError("out of memory while the log was read"));
      throw;
    }
    return absl::OkStatus();
  }

  absl::Status Apply(const Target& target, const LogRow& row, std::int64_t log_id,
                     std::chrono::microseconds time) {
    Model& model = *target.model;
    if (log_id <= target.snapshot_log_id) {
      model.strand_state().Refill(row, log_id);
      return absl::OkStatus();
    }
    // The cursors in the database are those of the snapshot or later.
    if (!ReplayPosition(row, time.count(), model.storage_state().cursors)) {
      return Damaged(
          model, absl::StrCat("batch ", log_id, " of the log is number ", row.position->sequence,
                              " of producer ", Quoted(row.position->producer_id),
                              ", but the one before it is missing"));
    }
    if (const auto* const updated = row.As<UpdatedRow>()) {
      const absl::Status status =
          UpdateDeclaration(*model.strand_state().declaration(), updated->update).status();
      if (!status.ok()) return Damaged(model, status.message());
    }
    model.strand_state().Apply(row, log_id, time);
    const std::lock_guard lock(mutex_);
    rows_ += static_cast<std::int64_t>(row.counted_rows());
    return absl::OkStatus();
  }

  void Finish(std::size_t bytes, absl::Status status) {
    // With the lock held: a waiting thread may destroy this object once the lock is released.
    const std::lock_guard lock(mutex_);
    bytes_ahead_ -= bytes;
    --tasks_;
    status_.Update(std::move(status));
    changed_.notify_all();
  }

  const std::atomic<bool>& stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t bytes_ahead_ = 0;  // guarded by mutex_
  std::size_t tasks_ = 0;        // guarded by mutex_
  std::int64_t rows_ = 0;        // guarded by mutex_
  absl::Status status_;          // guarded by mutex_
};

absl::StatusOr<Replay::Target> RestoreModel(const StoredModel& stored, ModelRegistry& registry,
                                            std::size_t model_memory_bytes) {
  const google::protobuf::Timestamp& created = stored.declaration.create_time();
  const ModelSnapshot::Time create_time(std::chrono::duration_cast<ModelSnapshot::Time::duration>(
      std::chrono::seconds(created.seconds()) + std::chrono::nanoseconds(created.nanos())));
  absl::StatusOr<ModelDeclaration> declaration =
      CheckStoredDeclaration(stored.declaration, model_memory_bytes);
  if (!declaration.ok()) {
    return absl::Status(declaration.status().code(),
                        absl::StrCat("the store holds ", stored.declaration.name(), ": ",
                                     declaration.status().message()));
  }
  Replay::Target target{.model = registry.Restore(stored.id, *std::move(declaration), create_time),
                        .snapshot_log_id = stored.snapshot_log_id,
                        .first_log_id = stored.first_log_id};
  store::v1::ModelState state;
  if (!state.ParseFromString(stored.snapshot)) {
    return Damaged(*target.model, "its snapshot cannot be read");
  }
  if (!stored.snapshot.empty()) {
    if (absl::Status status = target.model->strand_state().Restore(state); !status.ok()) {
      return Damaged(*target.model, status.message());
    }
    target.model->set_stored_time_us(state.snapshot_time_us());
    // The log may hold labels whose time ended in a row that it no longer holds.
    if (auto& tracker = target.model->storage_state().tracker; tracker.has_value()) {
      tracker->RestoreEndOfWaiting(target.model->strand_state().ended_waiting_log_id());
    }
  }
  return target;
}

// Returns the rows of the log that are not needed, after the whole log was read.
std::vector<std::int64_t> TakeUnneeded(Model& model, std::chrono::microseconds elapsed) {
  std::vector<std::int64_t> unneeded = model.strand_state().retention().TakeUnneededOld();
  if (auto& tracker = model.storage_state().tracker; tracker.has_value()) {
    const PredictionTracker::Unneeded forgotten =
        tracker->FindUnneeded(elapsed, std::numeric_limits<std::size_t>::max());
    tracker->Forget(forgotten);
    unneeded.insert(unneeded.end(), forgotten.log_ids.begin(), forgotten.log_ids.end());
  }
  return unneeded;
}

// The steps of a recovery, in the order in which Run does them.
class Recoverer {
 public:
  Recoverer(Store& store, ModelRegistry& registry, std::size_t model_memory_bytes,
            Recovery& recovery, const Clock& clock)
      : store_(store),
        registry_(registry),
        model_memory_bytes_(model_memory_bytes),
        recovery_(recovery),
        now_us_(
            std::chrono::duration_cast<std::chrono::microseconds>(clock.wall().time_since_epoch())
                .count()),
        replay_(recovery.stop) {}

  absl::Status Run() {
    recovery_.warnings = store_.warnings();
    for (const auto step : {&Recoverer::ReadModels, &Recoverer::ReadCursors, &Recoverer::ReadLog,
                            &Recoverer::CheckSnapshots, &Recoverer::Publish}) {
      CALIBD_RETURN_IF_ERROR((this->*step)());
    }
    ReleaseUnneeded();
    recovery_.replayed_rows = replay_.rows();
    return absl::OkStatus();
  }

 private:
  absl::Status ReadModels() {
    return store_.ReadModels([this](const StoredModel& stored) -> absl::Status {
      Failpoint("recovery_model");
      if (recovery_.stop) return Stopped();
      CALIBD_ASSIGN_OR_RETURN(Replay::Target target,
                              RestoreModel(stored, registry_, model_memory_bytes_));
      targets_.emplace(stored.id, std::move(target));
      matured_log_ids_.emplace(stored.id, stored.matured_log_id);
      ++recovery_.models;
      return absl::OkStatus();
    });
  }

  absl::Status ReadCursors() {
    registry_.ReserveIds(store_.next_model_id());
    return store_.ReadCursors([this](const StoredCursor& stored) -> absl::Status {
      const auto target = targets_.find(stored.model_id);
      const ProducerCursors::StoredForm cursor{.epoch = stored.epoch,
                                               .last_sequence = stored.last_sequence,
                                               .contents = std::string(stored.contents)};
      if (target == targets_.end() ||
          !target->second.model->storage_state().cursors.Restore(stored.producer_id, cursor)) {
        return MakeError(
            absl::StatusCode::kDataLoss, "STORE_DAMAGED",
            absl::StrCat("the store is damaged: the cursor of producer ",
                         Quoted(stored.producer_id), " is incomplete or belongs to no model"));
      }
      return absl::OkStatus();
    });
  }

  // Replays the log. On return, all rows are applied.
  absl::Status ReadLog() {
    absl::Status status =
        store_.ReadLog([this](const StoredBatch& batch) { return ReadBatch(batch); });
    if (store_.lost_tail().has_value()) {
      recovery_.warnings.push_back(DescribeTail(*store_.lost_tail(), [this](std::int64_t model_id) {
        const auto target = targets_.find(model_id);
        return target == targets_.end() ? "" : target->second.model->declaration()->name.ToString();
      }));
    }
    status.Update(replay_.Wait());
    return status;
  }

  absl::Status ReadBatch(const StoredBatch& batch) {
    Failpoint("recovery_batch");
    if (recovery_.stop) return Stopped();
    const auto target = targets_.find(batch.model_id);
    if (target == targets_.end() || batch.log_id < target->second.first_log_id) {
      unneeded_.push_back(batch.log_id);
      return absl::OkStatus();
    }
    ++recovery_.batches;
    auto& tracker = target->second.model->storage_state().tracker;
    if (!tracker.has_value()) return replay_.Post(target->second, batch);
    CALIBD_ASSIGN_OR_RETURN(LogRow row, Decode(*target->second.model, batch.data));
    Track(row, batch, *tracker);
    if (const auto* const matured = row.As<MaturedRow>()) {
      std::int64_t& matured_log_id = matured_log_ids_.at(batch.model_id);
      matured_log_id = std::max(matured_log_id, matured->through_log_id);
    }
    // The wall clock may have been set back since then.
    const std::chrono::microseconds since(std::max<std::int64_t>(0, now_us_ - batch.time_us));
    recovery_.elapsed = row.elapsed + since;
    return replay_.Post(target->second, batch, std::move(row));
  }

  absl::Status CheckSnapshots() {
    for (const auto& [id, target] : targets_) {
      if (target.snapshot_log_id > store_.last_log_id()) {
        return Damaged(*target.model,
                       absl::StrCat("its snapshot includes batch ", target.snapshot_log_id,
                                    ", but the log ends with batch ", store_.last_log_id()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Publish() {
    for (const auto& [id, target] : targets_) {
      const auto& declaration = target.model->strand_state().declaration();
      target.model->storage_state().SetDeclaration(declaration);
      CALIBD_RETURN_IF_ERROR(registry_.Reserve(*target.model, *declaration));
      auto& tracker = target.model->storage_state().tracker;
      if (!tracker.has_value()) continue;
      tracker->RestoreMatured(matured_log_ids_.at(id));
      tracker->SetSnapshot(target.snapshot_log_id);
      target.model->strand_state().RestorePending(
          tracker->PendingByClass(target.model->declaration()->counted_classes()));
    }
    return replay_.Publish(targets_);
  }

  void ReleaseUnneeded() {
    for (const auto& [id, target] : targets_) {
      const std::vector<std::int64_t> more = TakeUnneeded(*target.model, recovery_.elapsed);
      unneeded_.insert(unneeded_.end(), more.begin(), more.end());
    }
    store_.FinishRecovery(unneeded_);
  }

  Store& store_;
  ModelRegistry& registry_;
  const std::size_t model_memory_bytes_;
  Recovery& recovery_;
  const std::int64_t now_us_;
  std::map<std::int64_t, Replay::Target> targets_;
  // By model: predictions up to this batch have matured.
  std::map<std::int64_t, std::int64_t> matured_log_ids_;
  // Batches of deleted models, and batches that no model needs.
  std::vector<std::int64_t> unneeded_;
  Replay replay_;
};

}  // namespace

absl::Status Recover(Store& store, ModelRegistry& registry, std::size_t model_memory_bytes,
                     Recovery& recovery, const Clock& clock) {
  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = Recoverer(store, registry, model_memory_bytes, recovery, clock).Run();
  recovery.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status;
}

}  // namespace calibd::server
