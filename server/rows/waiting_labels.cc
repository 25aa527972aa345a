#include "server/rows/waiting_labels.h"

#include <iterator>
#include <utility>

namespace calibd::server {

std::optional<TruthView> WaitingLabels::Find(const PredictionId& id) const {
  const auto found = index_.find(id);
  if (found == index_.end()) return std::nullopt;
  const Place& place = found->second;
  return batches_[place.batch - first_batch_].truths.view().rows(place.row, 1);
}

bool WaitingLabels::Add(Elapsed elapsed, const PredictionId& id, const TruthView& truth,
                        std::size_t max) {
  const std::size_t more = bytes_per_label_ + (open() ? 0 : kBytesPerBatch);
  if (rows_ >= max || bytes() + more > kMaxBytes) return false;
  if (!open()) batches_.push_back({.log_id = kOpen, .elapsed = elapsed, .ids = {}, .truths = {}});
  Batch& batch = batches_.back();
  index_[id] = {.batch = first_batch_ + batches_.size() - 1,
                .row = static_cast<std::uint32_t>(batch.ids.size())};
  batch.ids.push_back(id);
  batch.truths.Append(truth);
  ++rows_;
  return true;
}

void WaitingLabels::RemoveOpen() {
  for (const PredictionId& id : batches_.back().ids) index_.erase(id);
  rows_ -= batches_.back().ids.size();
  batches_.pop_back();
}

void WaitingLabels::Restore(std::int64_t log_id, Elapsed elapsed, std::span<const PredictionId> ids,
                            const TruthView& truths) {
  Batch batch{.log_id = log_id, .elapsed = elapsed, .ids = {ids.begin(), ids.end()}, .truths = {}};
  batch.truths.Append(truths);
  const std::uint64_t number = first_batch_ + batches_.size();
  for (std::uint32_t i = 0; i < ids.size(); ++i) index_[ids[i]] = {.batch = number, .row = i};
  rows_ += ids.size();
  batches_.push_back(std::move(batch));
}

WaitingLabels::Taken WaitingLabels::Take(std::span<const PredictionId> ids) {
  Taken taken;
  if (index_.empty()) return taken;
  for (const PredictionId& id : ids) {
    const auto found = index_.find(id);
    if (found == index_.end()) continue;
    const Place place = found->second;
    taken.ids.push_back(id);
    taken.truths.Append(batches_[place.batch - first_batch_].truths.view().rows(place.row, 1));
    taken.places.push_back(place);
    index_.erase(found);
  }
  return taken;
}

void WaitingLabels::UndoTake(const Taken& taken) {
  for (std::size_t i = 0; i < taken.ids.size(); ++i) index_[taken.ids[i]] = taken.places[i];
}

WaitingLabels::Batch WaitingLabels::PopFront(Ended& ended) {
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  for (const auto& id : batch.ids) {
    const auto found = index_.find(id);
    if (found == index_.end() || found->second.batch != first_batch_) continue;
    ended.ids.push_back(id);
    ended.places.push_back(found->second);
    index_.erase(found);
  }
  rows_ -= batch.ids.size();
  ++first_batch_;
  return batch;
}

WaitingLabels::Ended WaitingLabels::EndUntil(Elapsed until) {
  Ended ended;
  while (!batches_.empty() && batches_.front().elapsed <= until) {
    ended.batches.push_back(PopFront(ended));
  }
  return ended;
}

void WaitingLabels::UndoEnd(Ended ended) {
  for (std::size_t i = 0; i < ended.ids.size(); ++i) index_[ended.ids[i]] = ended.places[i];
  for (const Batch& batch : ended.batches) rows_ += batch.ids.size();
  first_batch_ -= ended.batches.size();
  batches_.insert(batches_.begin(), std::move_iterator(ended.batches.begin()),
                  std::move_iterator(ended.batches.end()));
}

void WaitingLabels::EndThrough(std::int64_t log_id) {
  Ended ended;
  const auto is_old = [&] { return !batches_.empty() && batches_.front().log_id <= log_id; };
  while (is_old()) static_cast<void>(PopFront(ended));
}

void WaitingLabels::Clear() noexcept {
  batches_.clear();
  index_.clear();
  rows_ = 0;
}

}  // namespace calibd::server
