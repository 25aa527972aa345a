#include "server/rows/log_retention.h"

#include <utility>

namespace calibd::server {

void LogRetention::AddOld(std::int64_t log_id, std::size_t rows) {
  last_log_id_ = log_id;
  if (rows == 0) {
    unneeded_.push_back(log_id);
    return;
  }
  batches_.push_back({log_id, rows});
  rows_ += rows;
  LeaveOut();
}

void LogRetention::Add(std::int64_t log_id, std::size_t rows) {
  last_log_id_ = log_id;
  if (rows == 0) {
    rejected_.push_back(log_id);
    ++new_rejected_;
    return;
  }
  batches_.push_back({log_id, rows});
  rows_ += rows;
  new_rows_ += rows;
  ++new_batches_;
}

void LogRetention::LeaveOut() {
  while (!batches_.empty() && rows_ - batches_.front().rows >= window_) {
    unneeded_.push_back(batches_.front().log_id);
    rows_ -= batches_.front().rows;
    batches_.pop_front();
  }
}

void LogRetention::AddTracked(std::int64_t log_id, std::size_t rows) {
  AddOldTracked(log_id);
  // Matured predictions are forgotten once a snapshot covers them.
  new_rows_ += rows;
  ++new_batches_;
}

LogRetention::Clock::time_point LogRetention::SnapshotDueAt(Clock::time_point now) noexcept {
  const bool any = new_batches_ + new_rejected_ > 0;
  if (any && !new_since_.has_value()) new_since_ = now;
  if (under_way_) return kNever;
  if (failed_) return snapshot_time_ + kRetryInterval;
  if (hastened_ || new_rows_ >= snapshot_rows_ || new_batches_ >= kSnapshotBatches ||
      new_rejected_ >= kSnapshotRejected) {
    return now;
  }
  return any ? *new_since_ + kSnapshotInterval : kNever;
}

std::vector<std::int64_t> LogRetention::BeginSnapshot(Clock::time_point now) {
  unneeded_.insert(unneeded_.end(), rejected_.begin(), rejected_.end());
  rejected_.clear();
  LeaveOut();
  new_rows_ = 0;
  new_batches_ = 0;
  new_rejected_ = 0;
  snapshot_time_ = now;
  new_since_.reset();
  under_way_ = true;
  hastened_ = false;
  return unneeded_;
}

void LogRetention::EndSnapshot(bool stored) noexcept {
  under_way_ = false;
  failed_ = !stored;
  if (stored) unneeded_.clear();
}

std::vector<std::int64_t> LogRetention::TakeUnneededOld() { return std::exchange(unneeded_, {}); }

std::vector<std::int64_t> LogRetention::TakeAll() {
  std::vector<std::int64_t> all = std::exchange(unneeded_, {});
  all.insert(all.end(), rejected_.begin(), rejected_.end());
  rejected_.clear();
  for (const Batch& batch : std::exchange(batches_, {})) all.push_back(batch.log_id);
  rows_ = 0;
  return all;
}

}  // namespace calibd::server
