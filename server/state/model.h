#ifndef CALIBD_SERVER_STATE_MODEL_H_
#define CALIBD_SERVER_STATE_MODEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "calibd/v1/recalibration.pb.h"
#include "server/executor/thread_pool.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_retention.h"
#include "server/rows/prediction_tracker.h"
#include "server/rows/producer_cursors.h"
#include "server/state/model_snapshot.h"
#include "server/state/reservation.h"
#include "server/state/strand_state.h"

namespace calibd::server {

// State of a model at the end of the log, whose last rows may not be applied yet. Belongs to the
// storage thread, and during recovery to the recovering thread.
struct StorageState {
  ProducerCursors cursors;
  // Unset without a label_grace.
  std::optional<PredictionTracker> tracker;
  // With all updates in the log; never null.
  std::shared_ptr<const ModelDeclaration> declaration;

  // Sets the declaration, and the limits of the tracker.
  void SetDeclaration(std::shared_ptr<const ModelDeclaration> updated) noexcept {
    declaration = std::move(updated);
    if (tracker.has_value()) tracker->SetLimits(declaration->label_grace, declaration->max_pending);
  }
};

// A model, shared by all threads. The type of a state tells the thread: only the storage thread
// uses the StorageState, and only tasks of the strand use the StrandState. All other functions are
// thread-safe.
class Model {
 public:
  // id: the id in the store. declaration: the original one. reservation: kept until
  // ReleaseReservation or the destruction.
  Model(std::int64_t id, ModelDeclaration declaration, ModelSnapshot::Time create_time,
        const ProducerLimits& producers, ThreadPool& writers,
        std::unique_ptr<Reservation> reservation);

  [[nodiscard]] std::int64_t id() const noexcept { return id_; }
  // The published declaration, with all updates that are applied; never null. Keep the pointer
  // while a part of it is used.
  [[nodiscard]] std::shared_ptr<const ModelDeclaration> declaration() const {
    return snapshot()->declaration;
  }
  // The declaration without updates.
  [[nodiscard]] const ModelDeclaration& original() const noexcept { return *original_; }
  [[nodiscard]] ModelSnapshot::Time create_time() const noexcept { return create_time_; }
  // Returns the newest published state. Does not wait for a row that is being applied.
  [[nodiscard]] std::shared_ptr<const ModelSnapshot> snapshot() const;

  // The newest advice on a map that repairs the probabilities; null without one. It is kept in
  // memory only. advice: without the scales, offsets and curves of its map, whose size has no
  // bound.
  [[nodiscard]] std::shared_ptr<const v1::Recalibration> recalibration() const;
  void SetRecalibration(std::shared_ptr<const v1::Recalibration> advice);

  [[nodiscard]] Strand& strand() noexcept { return strand_; }
  [[nodiscard]] StrandState& strand_state() noexcept { return strand_state_; }
  [[nodiscard]] const StrandState& strand_state() const noexcept { return strand_state_; }
  [[nodiscard]] StorageState& storage_state() noexcept { return storage_state_; }
  // Makes the state of the strand visible to readers. Call it on the strand. May throw bad_alloc;
  // readers then see the previous state until the next call.
  void Publish();

  // Deleted models accept no batches. Set by the storage thread.
  void MarkDeleted(bool deleted) noexcept { deleted_ = deleted; }
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }
  // Null after ReleaseReservation. Belongs to the storage thread, and during recovery to the
  // recovering thread.
  [[nodiscard]] Reservation* reservation() noexcept { return reservation_.get(); }
  // Call it on the storage thread after the deletion. The last user of a deleted model destroys it
  // soon after, but the next creation must not depend on when.
  void ReleaseReservation() noexcept { reservation_.reset(); }
  // Time of the newest persisted snapshot in microseconds since 1970; 0 if it is unknown.
  void set_stored_time_us(std::int64_t time_us) noexcept { stored_time_us_ = time_us; }
  [[nodiscard]] std::int64_t stored_time_us() const noexcept { return stored_time_us_; }
  // The time at which the strand should check whether a snapshot is due.
  void set_snapshot_due_at(LogRetention::Clock::time_point time) noexcept {
    snapshot_due_at_ = time;
  }
  [[nodiscard]] LogRetention::Clock::time_point snapshot_due_at() const noexcept {
    return snapshot_due_at_;
  }
  // See PredictionTracker. Without a label_grace, no prediction is pending.
  [[nodiscard]] PredictionTracker::Elapsed next_due() const noexcept;
  [[nodiscard]] std::int64_t oldest_pending_time_us() const noexcept;
  // Number of accepted rows of events in succession that were like predicted classes, see
  // ReadInferenceEvent. Kept in memory only.
  [[nodiscard]] std::int64_t rows_like_classes() const noexcept { return rows_like_classes_; }
  // Counts the rows of a further event; 0 rows if they were like probabilities.
  void CountRowsLikeClasses(std::int64_t rows) noexcept {
    if (rows > 0) {
      rows_like_classes_ += rows;
    } else {
      rows_like_classes_ = 0;
    }
  }
  // Number of producers that have not expired.
  [[nodiscard]] std::size_t producers() const noexcept { return storage_state_.cursors.size(); }

 private:
  const std::int64_t id_;
  const std::shared_ptr<const ModelDeclaration> original_;
  const ModelSnapshot::Time create_time_;
  std::unique_ptr<Reservation> reservation_;
  std::atomic<bool> deleted_ = false;
  std::atomic<std::int64_t> stored_time_us_ = 0;
  std::atomic<std::int64_t> rows_like_classes_ = 0;
  // Initially in the past, because no snapshot covers the rows that a start has replayed.
  std::atomic<LogRetention::Clock::time_point> snapshot_due_at_ =
      LogRetention::Clock::time_point::min();
  Strand strand_;
  StorageState storage_state_;
  StrandState strand_state_;

  mutable std::mutex snapshot_mutex_;
  std::shared_ptr<const ModelSnapshot> snapshot_;           // guarded by snapshot_mutex_
  std::shared_ptr<const v1::Recalibration> recalibration_;  // guarded by snapshot_mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_H_
