#include "server/state/log_retention.h"

#include <utility>

namespace calibd::server {

void LogRetention::AddOld(std::int64_t log_id, std::size_t rows) {
  last_log_id_ = log_id;
  if (rows == 0) {
    rejected_.push_back(log_id);
    return;
  }
  batches_.push_back({log_id, rows});
  rows_ += rows;
}

void LogRetention::Add(std::int64_t log_id, std::size_t rows) {
  AddOld(log_id, rows);
  new_rows_ += rows;
  ++new_batches_;
}

bool LogRetention::SnapshotDue(Clock::time_point now) const noexcept {
  return new_rows_ >= kSnapshotRows || new_batches_ >= kSnapshotBatches ||
         (new_batches_ > 0 && now - snapshot_time_ >= kSnapshotInterval);
}

std::vector<std::int64_t> LogRetention::TakeUnneeded(Clock::time_point now) {
  std::vector<std::int64_t> unneeded = std::exchange(rejected_, {});
  while (!batches_.empty() && rows_ - batches_.front().rows >= window_) {
    unneeded.push_back(batches_.front().log_id);
    rows_ -= batches_.front().rows;
    batches_.pop_front();
  }
  new_rows_ = 0;
  new_batches_ = 0;
  snapshot_time_ = now;
  return unneeded;
}

std::vector<std::int64_t> LogRetention::TakeAll() {
  std::vector<std::int64_t> all = std::exchange(rejected_, {});
  for (const Batch& batch : std::exchange(batches_, {})) {
    all.push_back(batch.log_id);
  }
  rows_ = 0;
  return all;
}

}  // namespace calibd::server
