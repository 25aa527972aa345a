#ifndef CALIBD_SERVER_STATE_MODEL_H_
#define CALIBD_SERVER_STATE_MODEL_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/lens.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/running_reliability.h"
#include "calibd/store/v1/store.pb.h"
#include "server/executor/thread_pool.h"
#include "server/state/group_values.h"
#include "server/state/history.h"
#include "server/state/label_coverage.h"
#include "server/state/log_retention.h"
#include "server/state/model_declaration.h"
#include "server/state/model_monitor.h"
#include "server/state/observation_window.h"
#include "server/state/prediction_tracker.h"
#include "server/state/producer_cursors.h"

namespace calibd::server {

// One lens as it was at one moment.
struct LensSnapshot {
  Lens lens = Lens::Canonical();
  // Unset when the bandwidth could not be chosen; why.
  std::optional<RunningKernel> kernel;
  std::string bandwidth_error;
  // One for each block size of the declaration; empty without a kernel.
  std::vector<RunningBlock> blocks;
};

// What is known of a model at one moment. Immutable once published.
struct ModelSnapshot {
  using Time = std::chrono::system_clock::time_point;

  // Accepted, warm-up included. Once the bandwidth is known all are counted.
  std::int64_t observations = 0;
  std::int64_t accepted_batches = 0;
  std::int64_t duplicate_batches = 0;
  std::int64_t rejected_batches = 0;
  std::int64_t rejected_rows = 0;
  std::int64_t dropped_rows = 0;
  // Of the newest accepted batch with predictions.
  std::optional<Time> last_observation_time;
  // Of models with a label_grace.
  std::optional<LabelCoverage> label_coverage;
  // Unless monitoring is disabled.
  std::optional<MonitorSnapshot> monitor;

  // Those of the declaration, the canonical one first; empty during warm-up.
  std::vector<LensSnapshot> lenses;
  WindowView window;
  // Of all observations, as far back as it is kept: see History.
  RunningReliability reliability;

  [[nodiscard]] bool warming_up() const noexcept { return lenses.empty(); }
  // Nothing when it is not there. lens: of the declaration or not.
  [[nodiscard]] const LensSnapshot* Find(const Lens& lens) const noexcept;
};

// The state of one watched model. Functions under "strand only" are called on
// the model's strand, one at a time; all others from any thread.
class Model {
 public:
  // id: of the store. reservation: kept as long as the model lives.
  Model(std::int64_t id, ModelDeclaration declaration, ModelSnapshot::Time create_time,
        std::size_t max_producers, ThreadPool& writers, std::shared_ptr<void> reservation);

  [[nodiscard]] std::int64_t id() const noexcept { return id_; }
  [[nodiscard]] const ModelDeclaration& declaration() const noexcept { return declaration_; }
  [[nodiscard]] ModelSnapshot::Time create_time() const noexcept { return create_time_; }
  // Everything that changes the state runs here, in order.
  [[nodiscard]] Strand& strand() noexcept { return strand_; }
  // The newest published state. Never waits for a batch that is being counted.
  [[nodiscard]] std::shared_ptr<const ModelSnapshot> snapshot() const;

  // Deleted models take no batches. Set by the storage thread.
  void MarkDeleted(bool deleted) noexcept { deleted_ = deleted; }
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }

  // Storage thread only: as far as the batches that are written, of which the
  // last ones may not be counted yet.
  [[nodiscard]] ProducerCursors& cursors() noexcept { return cursors_; }
  // Storage thread only, likewise, but for what it says itself; nullptr without a label_grace.
  [[nodiscard]] PredictionTracker* tracker() noexcept {
    return tracker_.has_value() ? &*tracker_ : nullptr;
  }

  // Strand only. Before all else that a row of the log does. time: of the row. May throw
  // bad_alloc, and then nothing has changed.
  void BeginRow(ModelSnapshot::Time time);
  // Strand only. Counts valid observations. When they complete the warm-up, the
  // bandwidth is chosen and the kept observations are counted first; the result
  // does not depend on how the sequence is cut into batches. May throw bad_alloc, and
  // then only a start can go on with the log.
  void Apply(const PredictionBatch& batch, const GroupValues& groups = {});
  // Strand only. Predictions that matured: those with a label are counted. predicted classes:
  // of those without. May throw as Apply.
  void ApplyMatured(const PredictionBatch& labelled, const GroupValues& groups,
                    std::span<const std::int32_t> missing_predicted_classes);
  // Strand only. After the observations of a row of the log were counted: decides about alarms.
  // time: of the log. May throw bad_alloc, and then only a start can go on.
  void Decide(ModelSnapshot::Time time);
  // Strand only. An alarm was dealt with; nothing changes when there is none, or it was before.
  // May throw as Decide.
  void Acknowledge(std::int64_t alarm_id, const std::string& note, ModelSnapshot::Time time);
  // Strand only. A batch with predictions was accepted. time: of the log.
  void CountAccepted(std::int64_t dropped_rows, ModelSnapshot::Time time) noexcept;
  // Strand only. Predictions that wait now, by their predicted classes, with their labels or
  // without.
  void CountPredictions(std::span<const std::int32_t> predicted_classes, bool labelled,
                        std::int64_t duplicates) noexcept;
  // Strand only. classes: none of a class that is not known.
  void CountLabels(const LabelCounts& counts, const LabelClasses& classes) noexcept;
  // Strand only.
  void CountDuplicate() noexcept { ++state_.duplicate_batches; }
  // Strand only.
  void CountRejected(std::int64_t rows) noexcept;
  // Strand only. The batches of the log that are counted here.
  [[nodiscard]] LogRetention& retention() noexcept { return retention_; }
  // Strand only. The first buckets of the history that wait are stored.
  void DropStoredHistory(std::size_t count) noexcept { history_.DropWaiting(count); }
  [[nodiscard]] const History& history() const noexcept { return history_; }
  // Strand only. What is watched, as it is; unset for a model that is not.
  [[nodiscard]] std::optional<WatchMark> watch_mark() const;
  // Strand only. All that the batches so far did, their window left out.
  [[nodiscard]] store::v1::ModelState Save() const;
  // Before the first batch. Goes on where Save was: the same batches after it give the same
  // bits. Errors: DataLoss when it is not of a model so declared.
  [[nodiscard]] absl::Status Restore(const store::v1::ModelState& state);
  // After all batches of a start: what waits of each class, which Save leaves to the log to say.
  void RestorePending(std::span<const PendingCounts> pending) noexcept;
  // After Restore: an observation that it has counted, for the window.
  void RestoreWindow(const PredictionBatch& batch, const GroupValues& groups = {});
  // Of when the newest stored snapshot is, microseconds since 1970; 0 when that is not known.
  void set_stored_time_us(std::int64_t time_us) noexcept { stored_time_us_ = time_us; }
  [[nodiscard]] std::int64_t stored_time_us() const noexcept { return stored_time_us_; }
  // When the strand is to be asked whether a snapshot is due, by the clock that it is asked with.
  void set_snapshot_due_at(LogRetention::Clock::time_point time) noexcept {
    snapshot_due_at_ = time;
  }
  [[nodiscard]] LogRetention::Clock::time_point snapshot_due_at() const noexcept {
    return snapshot_due_at_;
  }
  // Strand only. Makes the state visible to readers. May throw bad_alloc, and
  // then readers see the older state until the next call.
  void Publish();

 private:
  // A lens, or why it has no bandwidth.
  struct LensState {
    Lens lens = Lens::Canonical();
    std::optional<RunningKernel> kernel;
    std::optional<RunningLens> running;
    std::string bandwidth_error;
  };

  // warmup: empty when no lens needs it.
  [[nodiscard]] std::vector<LensState> CreateLenses(const PredictionSet& warmup) const;
  [[nodiscard]] LensState CreateLens(const Lens& lens, const PredictionSet& warmup) const;
  [[nodiscard]] absl::StatusOr<LensState> RestoreLens(const Lens& lens,
                                                      const store::v1::LensState& stored) const;
  [[nodiscard]] bool warming_up() const noexcept { return lenses_.empty(); }
  // A watch from the first observation on over the canonical lens's kernel, or null when there
  // is none.
  [[nodiscard]] std::unique_ptr<EvidenceWatch> PrepareWatch(
      const std::vector<LensState>& lenses) const;
  // Counts observations in every lens.
  void Count(const PredictionBatch& batch) noexcept;

  const std::int64_t id_;
  const ModelDeclaration declaration_;
  const ModelSnapshot::Time create_time_;
  const std::shared_ptr<void> reservation_;
  std::atomic<bool> deleted_ = false;
  std::atomic<std::int64_t> stored_time_us_ = 0;
  // At first a snapshot is due at once: none holds the rows that a start replayed.
  std::atomic<LogRetention::Clock::time_point> snapshot_due_at_ =
      LogRetention::Clock::time_point::min();
  Strand strand_;

  ProducerCursors cursors_;                   // storage thread only
  std::optional<PredictionTracker> tracker_;  // storage thread only
  // Strand only. state_ holds the counters; the rest of it is filled in by Publish.
  ModelSnapshot state_;
  // Those of the label coverage as they are now, and whether others were published.
  std::vector<ClassCoverage> class_coverage_;
  bool class_coverage_changed_ = false;
  std::vector<LensState> lenses_;
  std::optional<ModelMonitor> monitor_;
  ObservationWindow window_;
  LogRetention retention_;
  History history_;

  mutable std::mutex snapshot_mutex_;
  std::shared_ptr<const ModelSnapshot> snapshot_;  // guarded by snapshot_mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_H_
