#include "server/state/model.h"

#include <algorithm>

namespace calibd::server {

Model::Model(std::int64_t id, ModelDeclaration declaration, ModelSnapshot::Time create_time,
             const ProducerLimits& producers, ThreadPool& writers,
             std::unique_ptr<Reservation> reservation)
    : id_(id),
      original_(std::make_shared<const ModelDeclaration>(std::move(declaration))),
      create_time_(create_time),
      reservation_(std::move(reservation)),
      strand_(writers),
      storage_state_{
          .cursors = ProducerCursors(producers), .tracker = std::nullopt, .declaration = original_},
      strand_state_(original_, &writers) {
  if (original_->max_pending > 0) {
    storage_state_.tracker.emplace(original_->label_grace, original_->max_pending,
                                   original_->truth_shape());
  }
  Publish();
}

std::shared_ptr<const ModelSnapshot> Model::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

std::shared_ptr<const v1::Recalibration> Model::recalibration() const {
  const std::lock_guard lock(snapshot_mutex_);
  return recalibration_;
}

void Model::SetRecalibration(std::shared_ptr<const v1::Recalibration> advice) {
  const std::lock_guard lock(snapshot_mutex_);
  recalibration_.swap(advice);
}

void Model::Publish() {
  std::shared_ptr<const ModelSnapshot> published = strand_state_.Snapshot();
  const std::lock_guard lock(snapshot_mutex_);
  // The previous snapshot is freed after the lock is released, by its last user.
  snapshot_.swap(published);
}

PredictionTracker::Elapsed Model::next_due() const noexcept {
  const auto& tracker = storage_state_.tracker;
  return tracker.has_value() ? tracker->next_due() : PredictionTracker::Elapsed::max();
}

std::int64_t Model::oldest_pending_time_us() const noexcept {
  const auto& tracker = storage_state_.tracker;
  return tracker.has_value() ? tracker->oldest_pending_time_us() : 0;
}

const LensSnapshot* ModelSnapshot::Find(const Lens& lens) const noexcept {
  const auto found = std::find_if(lenses.begin(), lenses.end(),
                                  [&lens](const LensSnapshot& one) { return one.lens == lens; });
  return found == lenses.end() ? nullptr : &*found;
}

}  // namespace calibd::server
