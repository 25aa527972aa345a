#ifndef CALIBD_SERVER_ROWS_PREDICTION_TRACKER_H_
#define CALIBD_SERVER_ROWS_PREDICTION_TRACKER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/model/row_shape.h"
#include "server/rows/prediction_id.h"
#include "server/rows/truths.h"
#include "server/rows/waiting_labels.h"

namespace calibd::server {

// Counts of labels by id, by outcome; see calibd.v1.LabelCounts.
struct LabelCounts {
  std::int64_t matched = 0;
  std::int64_t repeated = 0;
  std::int64_t conflicting = 0;
  std::int64_t late = 0;
  std::int64_t unknown = 0;
  // In a row of the log: labels that begin to wait, minus those that no longer wait.
  std::int64_t waiting = 0;

  LabelCounts& operator+=(const LabelCounts& other) noexcept {
    matched += other.matched;
    repeated += other.repeated;
    conflicting += other.conflicting;
    late += other.late;
    unknown += other.unknown;
    waiting += other.waiting;
    return *this;
  }
};

// The predicted class for each label; labels whose prediction is unknown have none.
struct LabelClasses {
  std::vector<std::int32_t> matched;
  std::vector<std::int32_t> conflicting;
  std::vector<std::int32_t> late;
};

// Number of pending predictions, and number of those with a label.
struct PendingCounts {
  std::int64_t all = 0;
  std::int64_t labelled = 0;

  friend bool operator==(const PendingCounts&, const PendingCounts&) = default;
};

// The predictions of one model whose ids are known: pending ones, and matured ones for about as
// long again. Their values are in the log; the tracker holds their positions, predicted classes and
// truths. The predictions of one batch in the log form a run. A run matures as a whole,
// the oldest first, and is forgotten as a whole.
//
// Owned by the storage thread. It decides about batches by the state at the end of the log, and
// undoes the decision (Undo...) if the batch could not be committed. next_due and
// oldest_pending_time are for any thread.
class PredictionTracker {
 public:
  // Measured by a clock that never goes back, see LogClock.
  using Elapsed = std::chrono::microseconds;

  // Maximum memory per known prediction besides its truth: its entry, the index at its lowest load,
  // and batches of one prediction and one label.
  static constexpr std::size_t kBytesPerPrediction = 24 + 2 * 8 * (16 + 8 + 1) / 7 + 40 + 24;
  // Maximum memory per pending prediction whose label came first: the batch of this label, until
  // its time ends.
  static constexpr std::size_t kBytesPerEarlyLabel = 24 + WaitingLabels::kBytesPerBatch;

  // grace > 0; max_pending >= 1. truths: those of a prediction.
  PredictionTracker(Elapsed grace, std::size_t max_pending, const TruthShape& truths = {})
      : grace_(grace), max_pending_(max_pending), truth_shape_(truths), waiting_(truths) {}

  // As the constructor. Applies to the known predictions too; none of them is removed.
  void SetLimits(Elapsed grace, std::size_t max_pending) noexcept;

  // ---- New predictions and labels

  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  [[nodiscard]] std::size_t max_pending() const noexcept { return max_pending_; }
  // The ascending indices of the ids that are not known, for each id only its first occurrence.
  [[nodiscard]] std::vector<std::uint32_t> FindNew(std::span<const PredictionId> ids) const;

  // Adds a batch of predictions of the log. ids: new, at least one. At a start also ids that were
  // forgotten before; they then refer to the newest prediction. predicted_classes: one per id.
  // truths: one per id, or none. time_us: of the wall clock, for display.
  void Add(std::int64_t log_id, Elapsed elapsed, std::int64_t time_us,
           std::span<const PredictionId> ids, std::span<const std::int32_t> predicted_classes,
           const TruthView& truths);
  // Undoes the newest Add.
  void UndoAdd();

  struct Labelling {
    LabelCounts counts;
    LabelClasses classes;
    // Ascending indices of the labels that matched, and of those that begin to wait.
    std::vector<std::uint32_t> matched;
    std::vector<std::uint32_t> waiting;
  };
  // Looks up each id. A label matches a pending prediction younger than the grace at `elapsed`. A
  // label without a known prediction begins to wait for it, if there is room.
  [[nodiscard]] Labelling Label(Elapsed elapsed, std::span<const PredictionId> ids,
                                const TruthView& truths);
  // ids: the ids that matched.
  void UndoLabel(std::span<const PredictionId> ids);

  // Records a batch of labels of the log, needed until all of its predictions have matured, and
  // until none of its labels waits. ids: the ids that matched.
  void KeepLabels(std::int64_t log_id, std::span<const PredictionId> ids);
  void UndoKeepLabels() noexcept;

  // ---- Labels that wait for their predictions

  // Number of labels that wait.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  // Takes the waiting labels of predictions that were added.
  [[nodiscard]] WaitingLabels::Taken TakeWaiting(std::span<const PredictionId> ids);
  void UndoTakeWaiting(const WaitingLabels::Taken& taken);
  // Ends the time of the labels that have waited for a minute, or for the grace if that is shorter.
  // While a prediction is pending, the labels that arrived before it are thus known to have ended
  // before it matures.
  [[nodiscard]] WaitingLabels::Ended EndWaiting(Elapsed elapsed);
  void UndoEndWaiting(const WaitingLabels::Ended& ended);

  // ---- Maturing and forgetting

  // The runs that matured, the oldest first.
  struct Matured {
    struct Run {
      std::int64_t log_id = 0;
      // Whether each prediction has a truth, and the truths; those of the others have no meaning.
      std::vector<bool> labelled;
      Truths truths;
    };
    std::vector<Run> runs;
    // The previous matured_log_id.
    std::int64_t former_log_id = 0;
  };
  // Takes due runs until they hold max_rows or more.
  [[nodiscard]] Matured Mature(Elapsed elapsed, std::size_t max_rows);
  void UndoMature(const Matured& matured) noexcept;

  // Batches of the log that are no longer needed: labels that do not wait and whose predictions
  // have all matured, and predictions that matured long ago or exceed the number of known ids. Only
  // batches that the persisted snapshot covers.
  struct Unneeded {
    std::vector<std::int64_t> log_ids;
    std::size_t runs = 0;
    std::size_t label_batches = 0;
  };
  [[nodiscard]] Unneeded FindUnneeded(Elapsed elapsed, std::size_t most) const;
  // Forgets these batches, which were deleted. Nothing may have been forgotten since.
  void Forget(const Unneeded& unneeded);
  // The persisted snapshot covers all batches up to this one.
  void SetSnapshot(std::int64_t log_id) noexcept;
  // Returns and removes every batch of the log that the tracker needs, when the model is deleted.
  [[nodiscard]] std::vector<std::int64_t> TakeAll();

  // ---- At a start, in the order of the log

  // Applies the labels of a batch that was resolved before.
  void RestoreLabels(std::int64_t log_id, std::span<const PredictionId> ids,
                     const TruthView& truths);
  // Adds the waiting labels of the batch of the newest RestoreLabels, unless their time is known to
  // have ended.
  void RestoreWaiting(std::int64_t log_id, Elapsed elapsed, std::span<const PredictionId> ids,
                      const TruthView& truths);
  // The labels of all batches up to this one have stopped to wait.
  void RestoreEndOfWaiting(std::int64_t log_id);
  // Marks all runs up to this batch as matured.
  void RestoreMatured(std::int64_t log_id);
  // Returns the counts for each of class_count predicted classes. Cost: O(pending).
  [[nodiscard]] std::vector<PendingCounts> PendingByClass(std::size_t class_count) const;

  // Log id of the first batch that the tracker still needs; INT64_MAX if it needs no batch.
  [[nodiscard]] std::int64_t first_log_id() const noexcept;
  // All predictions up to this batch have matured.
  [[nodiscard]] std::int64_t matured_log_id() const noexcept { return matured_log_id_; }

  // ---- For any thread

  // When Mature or FindUnneeded has something to do; Elapsed::max() if there is nothing.
  [[nodiscard]] Elapsed next_due() const noexcept { return Elapsed(next_due_us_.load()); }
  // Wall-clock time of the oldest pending prediction, in microseconds since 1970; 0 without pending
  // predictions.
  [[nodiscard]] std::int64_t oldest_pending_time_us() const noexcept {
    return oldest_pending_time_us_;
  }

 private:
  struct Entry {
    PredictionId id;
    std::int32_t predicted_class = 0;
    bool labelled = false;
  };
  struct Run {
    std::int64_t log_id = 0;
    Elapsed elapsed{};
    std::int64_t time_us = 0;
    // Number of its first entry, and number of entries.
    std::uint64_t first = 0;
    std::size_t rows = 0;
  };
  struct LabelBatch {
    std::int64_t log_id = 0;
    // Greater than the numbers of the entries that it labels.
    std::uint64_t end = 0;
    // Some of its labels began to wait.
    bool waits = false;
  };

  [[nodiscard]] Entry& entry(std::uint64_t number) { return entries_[number - first_entry_]; }
  // Sets the truth of an entry without one to the truth of one row.
  void SetTruth(std::uint64_t number, const TruthView& truth);
  // True if the truth of an entry is this one.
  [[nodiscard]] bool HasTruth(std::uint64_t number, const TruthView& truth) const;
  // Counts a label whose prediction is unknown, and keeps it if there is room.
  void LabelWaiting(Elapsed elapsed, std::uint32_t index, const PredictionId& id,
                    const TruthView& truth, Labelling& labelling);
  // Number of the first entry that has not matured.
  [[nodiscard]] std::uint64_t first_pending() const noexcept;
  // How long a label waits.
  [[nodiscard]] Elapsed wait() const noexcept {
    return std::min(grace_, WaitingLabels::kLongestWait);
  }
  // Updates the values for other threads.
  void Publish() noexcept;

  Elapsed grace_;
  std::size_t max_pending_;
  TruthShape truth_shape_;
  // Entries have consecutive numbers in log order; first_entry_ is that of entries_.front().
  std::uint64_t first_entry_ = 0;
  std::deque<Entry> entries_;
  // The truths of the entries, in their order: labels of each, or an outcome.
  std::deque<std::int32_t> labels_;
  std::deque<double> outcomes_;
  absl::flat_hash_map<PredictionId, std::uint64_t> index_;
  // The first matured_runs_ of them have matured.
  std::deque<Run> runs_;
  std::size_t matured_runs_ = 0;
  std::size_t pending_ = 0;
  std::deque<LabelBatch> label_batches_;
  WaitingLabels waiting_;
  // No label of a batch up to this one waits.
  std::int64_t ended_waiting_log_id_ = 0;
  std::int64_t snapshot_log_id_ = 0;
  std::int64_t matured_log_id_ = 0;

  std::atomic<std::int64_t> next_due_us_ = Elapsed::max().count();
  std::atomic<std::int64_t> oldest_pending_time_us_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_PREDICTION_TRACKER_H_
