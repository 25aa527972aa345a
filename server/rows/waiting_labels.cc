#include "server/rows/waiting_labels.h"

namespace calibd::server {
namespace {

// Replaces the row at this place by the last one, which is removed. each: values of a row.
template <typename T>
void RemoveRow(std::size_t place, std::size_t each, std::vector<T>& values) {
  const auto row = values.begin() + static_cast<std::ptrdiff_t>(place * each);
  std::copy(values.end() - static_cast<std::ptrdiff_t>(each), values.end(), row);
  values.resize(values.size() - each);
}

}  // namespace

TruthView WaitingLabels::TruthOf(std::size_t place) const { return truths_.view().rows(place, 1); }

std::optional<TruthView> WaitingLabels::Find(const PredictionId& id) const {
  const auto found = index_.find(id);
  if (found == index_.end()) return std::nullopt;
  return TruthOf(found->second);
}

void WaitingLabels::Put(const PredictionId& id, std::uint64_t batch, const TruthView& truth) {
  const auto [found, is_new] = index_.try_emplace(id, static_cast<std::uint32_t>(labels_.size()));
  if (!is_new) {
    Remove(found->second);
    index_[id] = static_cast<std::uint32_t>(labels_.size());
  }
  labels_.push_back({.id = id, .batch = batch});
  truths_.Append(truth);
}

void WaitingLabels::Remove(std::size_t place) {
  index_.erase(labels_[place].id);
  if (place + 1 < labels_.size()) index_[labels_.back().id] = static_cast<std::uint32_t>(place);
  RemoveRow(place, 1, labels_);
  if (shape_.labels == 0) {
    RemoveRow(place, 1, truths_.outcomes);
  } else {
    RemoveRow(place, shape_.labels, truths_.labels);
  }
}

void WaitingLabels::Move(std::size_t place, Taken& taken) {
  taken.ids.push_back(labels_[place].id);
  taken.truths.Append(TruthOf(place));
  taken.batches.push_back(labels_[place].batch);
  Remove(place);
}

void WaitingLabels::PutBack(const Taken& taken) {
  for (std::size_t i = 0; i < taken.ids.size(); ++i) {
    Put(taken.ids[i], taken.batches[i], taken.truths.view().rows(i, 1));
  }
}

bool WaitingLabels::Add(Elapsed elapsed, const PredictionId& id, const TruthView& truth,
                        std::size_t max) {
  if (labels_.size() >= Capacity(max, shape_)) return false;
  if (!open()) batches_.push_back({.log_id = kOpen, .elapsed = elapsed});
  Put(id, first_batch_ + batches_.size() - 1, truth);
  return true;
}

void WaitingLabels::RemoveOpen() {
  const std::uint64_t open = first_batch_ + batches_.size() - 1;
  // From the end, so that the label that takes the place of another one was looked at before.
  for (std::size_t place = labels_.size(); place-- > 0;) {
    if (labels_[place].batch == open) Remove(place);
  }
  batches_.pop_back();
}

void WaitingLabels::Restore(std::int64_t log_id, Elapsed elapsed, std::span<const PredictionId> ids,
                            const TruthView& truths) {
  const std::uint64_t number = first_batch_ + batches_.size();
  batches_.push_back({.log_id = log_id, .elapsed = elapsed});
  for (std::size_t i = 0; i < ids.size(); ++i) Put(ids[i], number, truths.rows(i, 1));
}

WaitingLabels::Taken WaitingLabels::Take(std::span<const PredictionId> ids) {
  Taken taken;
  if (index_.empty()) return taken;
  for (const PredictionId& id : ids) {
    if (const auto found = index_.find(id); found != index_.end()) Move(found->second, taken);
  }
  return taken;
}

void WaitingLabels::UndoTake(const Taken& taken) { PutBack(taken); }

WaitingLabels::Ended WaitingLabels::End(std::size_t count) {
  Ended ended;
  if (count == 0) return ended;
  const auto end = batches_.begin() + static_cast<std::ptrdiff_t>(count);
  ended.batches.assign(batches_.begin(), end);
  batches_.erase(batches_.begin(), end);
  first_batch_ += count;
  // From the end, so that the label that takes the place of another one was looked at before.
  for (std::size_t place = labels_.size(); place-- > 0;) {
    if (labels_[place].batch < first_batch_) Move(place, ended.labels);
  }
  return ended;
}

WaitingLabels::Ended WaitingLabels::EndUntil(Elapsed until) {
  const auto waits = [until](const Batch& batch) { return batch.elapsed > until; };
  return End(static_cast<std::size_t>(std::ranges::find_if(batches_, waits) - batches_.begin()));
}

void WaitingLabels::UndoEnd(const Ended& ended) {
  first_batch_ -= ended.batches.size();
  batches_.insert(batches_.begin(), ended.batches.begin(), ended.batches.end());
  PutBack(ended.labels);
}

void WaitingLabels::EndThrough(std::int64_t log_id) {
  const auto waits = [log_id](const Batch& batch) { return batch.log_id > log_id; };
  static_cast<void>(
      End(static_cast<std::size_t>(std::ranges::find_if(batches_, waits) - batches_.begin())));
}

void WaitingLabels::Clear() noexcept {
  batches_.clear();
  labels_.clear();
  truths_ = {};
  index_.clear();
}

}  // namespace calibd::server
