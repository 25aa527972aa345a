#include "server/rows/prediction_tracker.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace calibd::server {

void PredictionTracker::SetLimits(Elapsed grace, std::size_t max_pending) noexcept {
  grace_ = grace;
  max_pending_ = max_pending;
  Publish();
}

std::vector<std::uint32_t> PredictionTracker::FindNew(std::span<const PredictionId> ids) const {
  std::vector<std::uint32_t> found;
  found.reserve(ids.size());
  absl::flat_hash_set<PredictionId> seen;
  seen.reserve(ids.size());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (!index_.contains(ids[i]) && seen.insert(ids[i]).second) found.push_back(i);
  }
  return found;
}

void PredictionTracker::Add(std::int64_t log_id, Elapsed elapsed, std::int64_t time_us,
                            std::span<const PredictionId> ids,
                            std::span<const std::int32_t> predicted_classes,
                            const TruthView& truths) {
  const std::uint64_t first = first_entry_ + entries_.size();
  runs_.push_back({.log_id = log_id,
                   .elapsed = elapsed,
                   .time_us = time_us,
                   .first = first,
                   .rows = ids.size()});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    index_.insert_or_assign(ids[i], first + i);
    entries_.push_back({.id = ids[i], .predicted_class = predicted_classes[i]});
  }
  labels_.resize(entries_.size() * truth_shape_.labels);
  if (truth_shape_.labels == 0) outcomes_.resize(entries_.size());
  for (std::size_t i = 0; i < truths.size(); ++i) SetTruth(first + i, truths.rows(i, 1));
  pending_ += ids.size();
  Publish();
}

void PredictionTracker::UndoAdd() {
  const Run run = runs_.back();
  runs_.pop_back();
  for (std::size_t i = 0; i < run.rows; ++i) {
    index_.erase(entries_.back().id);
    entries_.pop_back();
  }
  labels_.resize(entries_.size() * truth_shape_.labels);
  if (truth_shape_.labels == 0) outcomes_.resize(entries_.size());
  pending_ -= run.rows;
  Publish();
}

void PredictionTracker::SetTruth(std::uint64_t number, const TruthView& truth) {
  entry(number).labelled = true;
  const auto place = static_cast<std::ptrdiff_t>(number - first_entry_);
  const auto each = static_cast<std::ptrdiff_t>(truth_shape_.labels);
  std::ranges::copy(truth.labels, labels_.begin() + place * each);
  std::ranges::copy(truth.outcomes, outcomes_.begin() + (each == 0 ? place : 0));
}

bool PredictionTracker::HasTruth(std::uint64_t number, const TruthView& truth) const {
  const auto place = static_cast<std::ptrdiff_t>(number - first_entry_);
  const auto each = static_cast<std::ptrdiff_t>(truth_shape_.labels);
  return std::ranges::equal(truth.labels.begin(), truth.labels.end(),
                            labels_.begin() + place * each, labels_.begin() + (place + 1) * each) &&
         (each > 0 || outcomes_[number - first_entry_] == truth.outcomes.front());
}

std::uint64_t PredictionTracker::first_pending() const noexcept {
  return matured_runs_ < runs_.size() ? runs_[matured_runs_].first : first_entry_ + entries_.size();
}

PredictionTracker::Labelling PredictionTracker::Label(Elapsed elapsed,
                                                      std::span<const PredictionId> ids,
                                                      const TruthView& truths) {
  // Due predictions count as matured: whether a label is late must not depend on the load.
  std::size_t due = matured_runs_;
  while (due < runs_.size() && elapsed - runs_[due].elapsed >= grace_) ++due;
  const std::uint64_t first_in_time =
      due < runs_.size() ? runs_[due].first : first_entry_ + entries_.size();
  Labelling labelling;
  LabelCounts& counts = labelling.counts;
  LabelClasses& classes = labelling.classes;
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    const auto found = index_.find(ids[i]);
    if (found == index_.end()) {
      LabelWaiting(elapsed, i, ids[i], truths.rows(i, 1), labelling);
      continue;
    }
    Entry& known = entry(found->second);
    if (found->second < first_in_time) {
      ++counts.late;
      classes.late.push_back(known.predicted_class);
    } else if (!known.labelled) {
      SetTruth(found->second, truths.rows(i, 1));
      labelling.matched.push_back(i);
      ++counts.matched;
      classes.matched.push_back(known.predicted_class);
    } else if (HasTruth(found->second, truths.rows(i, 1))) {
      ++counts.repeated;
    } else {
      ++counts.conflicting;
      classes.conflicting.push_back(known.predicted_class);
    }
  }
  return labelling;
}

void PredictionTracker::LabelWaiting(Elapsed elapsed, std::uint32_t index, const PredictionId& id,
                                     const TruthView& truth, Labelling& labelling) {
  LabelCounts& counts = labelling.counts;
  if (const std::optional<TruthView> former = waiting_.Find(id)) {
    const bool repeated = std::ranges::equal(former->labels, truth.labels) &&
                          std::ranges::equal(former->outcomes, truth.outcomes);
    ++(repeated ? counts.repeated : counts.conflicting);
  } else if (waiting_.Add(elapsed, id, truth, max_pending_)) {
    ++counts.waiting;
    labelling.waiting.push_back(index);
  } else {
    ++counts.unknown;
  }
}

void PredictionTracker::UndoLabel(std::span<const PredictionId> ids) {
  if (waiting_.open()) waiting_.RemoveOpen();
  for (const PredictionId& id : ids) entry(index_.at(id)).labelled = false;
}

void PredictionTracker::KeepLabels(std::int64_t log_id, std::span<const PredictionId> ids) {
  LabelBatch batch{.log_id = log_id, .end = 0, .waits = waiting_.open()};
  for (const PredictionId& id : ids) batch.end = std::max(batch.end, index_.at(id) + 1);
  label_batches_.push_back(batch);
  if (batch.waits) waiting_.Close(log_id);
  Publish();
}

void PredictionTracker::UndoKeepLabels() noexcept {
  if (label_batches_.back().waits) waiting_.Reopen();
  label_batches_.pop_back();
}

WaitingLabels::Taken PredictionTracker::TakeWaiting(std::span<const PredictionId> ids) {
  return waiting_.Take(ids);
}

void PredictionTracker::UndoTakeWaiting(const WaitingLabels::Taken& taken) {
  waiting_.UndoTake(taken);
}

WaitingLabels::Ended PredictionTracker::EndWaiting(Elapsed elapsed) {
  WaitingLabels::Ended ended = waiting_.EndUntil(elapsed - wait());
  if (!ended.batches.empty()) ended_waiting_log_id_ = ended.last_log_id();
  Publish();
  return ended;
}

void PredictionTracker::UndoEndWaiting(const WaitingLabels::Ended& ended) {
  // Nothing was released since, so the batches before need no other id.
  if (!ended.batches.empty()) ended_waiting_log_id_ = ended.batches.front().log_id - 1;
  waiting_.UndoEnd(ended);
  Publish();
}

PredictionTracker::Matured PredictionTracker::Mature(Elapsed elapsed, std::size_t max_rows) {
  Matured matured;
  matured.former_log_id = matured_log_id_;
  std::size_t rows = 0;
  while (matured_runs_ < runs_.size() && rows < max_rows) {
    const Run& run = runs_[matured_runs_];
    if (elapsed - run.elapsed < grace_) break;
    Matured::Run& out = matured.runs.emplace_back();
    out.log_id = run.log_id;
    out.labelled.reserve(run.rows);
    for (std::size_t i = 0; i < run.rows; ++i) {
      out.labelled.push_back(entry(run.first + i).labelled);
    }
    const auto copy = [&](const auto& from, std::size_t each, auto& to) {
      const auto begin =
          from.begin() + static_cast<std::ptrdiff_t>((run.first - first_entry_) * each);
      to.assign(begin, begin + static_cast<std::ptrdiff_t>(run.rows * each));
    };
    if (truth_shape_.labels == 0) {
      copy(outcomes_, 1, out.truths.outcomes);
    } else {
      out.truths.each = truth_shape_.labels;
      copy(labels_, truth_shape_.labels, out.truths.labels);
    }
    rows += run.rows;
    matured_log_id_ = run.log_id;
    ++matured_runs_;
  }
  pending_ -= rows;
  Publish();
  return matured;
}

void PredictionTracker::UndoMature(const Matured& matured) noexcept {
  for (const Matured::Run& run : matured.runs) pending_ += run.labelled.size();
  matured_runs_ -= matured.runs.size();
  matured_log_id_ = matured.former_log_id;
  Publish();
}

PredictionTracker::Unneeded PredictionTracker::FindUnneeded(Elapsed elapsed,
                                                            std::size_t most) const {
  Unneeded unneeded;
  const std::uint64_t pending_from = first_pending();
  for (const LabelBatch& batch : label_batches_) {
    if (unneeded.log_ids.size() >= most || batch.end > pending_from ||
        batch.log_id > snapshot_log_id_ || (batch.waits && batch.log_id > ended_waiting_log_id_)) {
      break;
    }
    unneeded.log_ids.push_back(batch.log_id);
    ++unneeded.label_batches;
  }
  std::size_t remembered = entries_.size() - pending_;
  for (std::size_t i = 0; i < matured_runs_; ++i) {
    const Run& run = runs_[i];
    if (unneeded.log_ids.size() >= most || run.log_id > snapshot_log_id_ ||
        (elapsed - run.elapsed < 2 * grace_ && remembered <= max_pending_)) {
      break;
    }
    unneeded.log_ids.push_back(run.log_id);
    remembered -= run.rows;
    ++unneeded.runs;
  }
  return unneeded;
}

void PredictionTracker::Forget(const Unneeded& unneeded) {
  label_batches_.erase(
      label_batches_.begin(),
      label_batches_.begin() + static_cast<std::ptrdiff_t>(unneeded.label_batches));
  for (std::size_t i = 0; i < unneeded.runs; ++i) {
    const Run& run = runs_.front();
    for (std::size_t row = 0; row < run.rows; ++row) {
      // Skipped if a later prediction has the same id.
      const auto found = index_.find(entries_.front().id);
      if (found != index_.end() && found->second == first_entry_) index_.erase(found);
      entries_.pop_front();
      ++first_entry_;
    }
    labels_.erase(labels_.begin(),
                  labels_.begin() + static_cast<std::ptrdiff_t>(run.rows * truth_shape_.labels));
    if (truth_shape_.labels == 0) {
      outcomes_.erase(outcomes_.begin(), outcomes_.begin() + static_cast<std::ptrdiff_t>(run.rows));
    }
    runs_.pop_front();
  }
  matured_runs_ -= unneeded.runs;
  Publish();
}

void PredictionTracker::SetSnapshot(std::int64_t log_id) noexcept {
  snapshot_log_id_ = log_id;
  Publish();
}

std::int64_t PredictionTracker::first_log_id() const noexcept {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  if (!runs_.empty()) first = runs_.front().log_id;
  return label_batches_.empty() ? first : std::min(first, label_batches_.front().log_id);
}

std::vector<std::int64_t> PredictionTracker::TakeAll() {
  std::vector<std::int64_t> log_ids;
  log_ids.reserve(runs_.size() + label_batches_.size());
  for (const Run& run : runs_) log_ids.push_back(run.log_id);
  for (const LabelBatch& batch : label_batches_) log_ids.push_back(batch.log_id);
  entries_.clear();
  labels_.clear();
  outcomes_.clear();
  index_.clear();
  runs_.clear();
  label_batches_.clear();
  waiting_.Clear();
  matured_runs_ = 0;
  pending_ = 0;
  Publish();
  return log_ids;
}

void PredictionTracker::RestoreLabels(std::int64_t log_id, std::span<const PredictionId> ids,
                                      const TruthView& truths) {
  LabelBatch batch{.log_id = log_id};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The others were forgotten since.
    const auto found = index_.find(ids[i]);
    if (found != index_.end()) {
      SetTruth(found->second, truths.rows(i, 1));
      batch.end = std::max(batch.end, found->second + 1);
    }
  }
  label_batches_.push_back(batch);
}

void PredictionTracker::RestoreWaiting(std::int64_t log_id, Elapsed elapsed,
                                       std::span<const PredictionId> ids, const TruthView& truths) {
  if (ids.empty()) return;
  label_batches_.back().waits = true;
  if (log_id <= ended_waiting_log_id_) return;
  waiting_.Restore(log_id, elapsed, ids, truths);
}

void PredictionTracker::RestoreEndOfWaiting(std::int64_t log_id) {
  ended_waiting_log_id_ = std::max(ended_waiting_log_id_, log_id);
  waiting_.EndThrough(log_id);
  Publish();
}

void PredictionTracker::RestoreMatured(std::int64_t log_id) {
  matured_log_id_ = log_id;
  while (matured_runs_ < runs_.size() && runs_[matured_runs_].log_id <= log_id) {
    pending_ -= runs_[matured_runs_].rows;
    ++matured_runs_;
  }
  Publish();
}

std::vector<PendingCounts> PredictionTracker::PendingByClass(std::size_t class_count) const {
  std::vector<PendingCounts> counts(class_count);
  for (std::uint64_t i = first_pending() - first_entry_; i < entries_.size(); ++i) {
    PendingCounts& one = counts[static_cast<std::size_t>(entries_[i].predicted_class)];
    ++one.all;
    one.labelled += entries_[i].labelled ? 1 : 0;
  }
  return counts;
}

void PredictionTracker::Publish() noexcept {
  const bool waits = matured_runs_ < runs_.size();
  Elapsed due = waits ? runs_[matured_runs_].elapsed + grace_ : Elapsed::max();
  if (matured_runs_ > 0 && runs_.front().log_id <= snapshot_log_id_) {
    due = std::min(due, runs_.front().elapsed + 2 * grace_);
  }
  if (waiting_.oldest().has_value()) due = std::min(due, *waiting_.oldest() + wait());
  next_due_us_ = due.count();
  oldest_pending_time_us_ = waits ? runs_[matured_runs_].time_us : 0;
}

}  // namespace calibd::server
