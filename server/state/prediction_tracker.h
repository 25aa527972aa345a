#ifndef CALIBD_SERVER_STATE_PREDICTION_TRACKER_H_
#define CALIBD_SERVER_STATE_PREDICTION_TRACKER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/state/prediction_id.h"

namespace calibd::server {

// Numbers of labels by id, by outcome; see calibd.v1.LabelCounts.
struct LabelCounts {
  std::int64_t matched = 0;
  std::int64_t repeated = 0;
  std::int64_t conflicting = 0;
  std::int64_t late = 0;
  std::int64_t unknown = 0;

  LabelCounts& operator+=(const LabelCounts& other) noexcept {
    matched += other.matched;
    repeated += other.repeated;
    conflicting += other.conflicting;
    late += other.late;
    unknown += other.unknown;
    return *this;
  }
};

// The predicted class of the prediction of each label; labels of unknown ids have none.
struct LabelClasses {
  std::vector<std::int32_t> matched;
  std::vector<std::int32_t> conflicting;
  std::vector<std::int32_t> late;
};

// Predictions that wait, and how many of them have their label.
struct PendingCounts {
  std::int64_t all = 0;
  std::int64_t labelled = 0;

  friend bool operator==(const PendingCounts&, const PendingCounts&) = default;
};

// The predictions of one model whose ids are known: those that wait for their labels, and
// for about as long again those that matured. Their values are in the log; this holds where,
// their predicted classes, and the labels. One batch of predictions in the log is a run; runs
// mature whole, oldest first, and are forgotten so.
//
// Owned by the storage thread: it says what a batch does as of the end of the log, and takes
// that back (Undo...) when the batch does not come to be on disk. next_due and
// oldest_pending_time are for any thread.
class PredictionTracker {
 public:
  // By a clock that never goes back, see LogClock.
  using Elapsed = std::chrono::microseconds;
  static constexpr std::int32_t kNoLabel = -1;

  // Memory of one prediction that is known, at most: its entry, the index at its emptiest, and
  // batches of one prediction and one label.
  static constexpr std::size_t kBytesPerPrediction = 24 + 2 * 8 * (16 + 8 + 1) / 7 + 40 + 16;

  // grace > 0; max_pending >= 1.
  PredictionTracker(Elapsed grace, std::size_t max_pending)
      : grace_(grace), max_pending_(max_pending) {}

  // ---- New predictions and labels

  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  [[nodiscard]] std::size_t max_pending() const noexcept { return max_pending_; }
  // Which of the ids are not known, each for its first time: ascending indices.
  [[nodiscard]] std::vector<std::uint32_t> FindNew(std::span<const PredictionId> ids) const;

  // A batch of predictions of the log. ids: new, at least one; at a start also such as were
  // forgotten before, which are then known by the newest. predicted_classes: as many. labels: as
  // many, or none. time_us: of the wall clock, to be shown.
  void Add(std::int64_t log_id, Elapsed elapsed, std::int64_t time_us,
           std::span<const PredictionId> ids, std::span<const std::int32_t> predicted_classes,
           std::span<const std::int32_t> labels);
  // Undoes the newest Add.
  void UndoAdd();

  struct Labelling {
    LabelCounts counts;
    LabelClasses classes;
    // Indices of the labels that matched, ascending.
    std::vector<std::uint32_t> matched;
  };
  // Looks up each id: labels of predictions that wait, and are younger than the grace at
  // `elapsed`, match.
  [[nodiscard]] Labelling Label(Elapsed elapsed, std::span<const PredictionId> ids,
                                std::span<const std::int32_t> labels);
  // ids: that matched.
  void UndoLabel(std::span<const PredictionId> ids);

  // A batch of matched labels of the log, which is needed until all of their predictions
  // have matured.
  void KeepLabels(std::int64_t log_id, std::span<const PredictionId> ids);
  void UndoKeepLabels() noexcept { label_batches_.pop_back(); }

  // ---- Maturing and forgetting

  // Batches that matured, oldest first.
  struct Matured {
    struct Run {
      std::int64_t log_id = 0;
      // Label of each prediction, or kNoLabel.
      std::vector<std::int32_t> labels;
    };
    std::vector<Run> runs;
    // matured_log_id before.
    std::int64_t former_log_id = 0;
  };
  // Takes runs that are due, until they hold max_rows or more.
  [[nodiscard]] Matured Mature(Elapsed elapsed, std::size_t max_rows);
  void UndoMature(const Matured& matured) noexcept;

  // Batches of the log that are not needed any more: labels whose predictions all matured,
  // and predictions that matured long ago or are too many to remember. Only such as are in
  // the snapshot that is on disk.
  struct Unneeded {
    std::vector<std::int64_t> log_ids;
    std::size_t runs = 0;
    std::size_t label_batches = 0;
  };
  [[nodiscard]] Unneeded FindUnneeded(Elapsed elapsed, std::size_t most) const;
  // They are deleted: forgets them. Nothing was forgotten since.
  void Forget(const Unneeded& unneeded);
  // The snapshot on disk holds what all batches up to this one did.
  void SetSnapshot(std::int64_t log_id) noexcept;
  // Every batch of the log that is held for this, when the model is deleted.
  [[nodiscard]] std::vector<std::int64_t> TakeAll();

  // ---- At a start, in the order of the log

  // Labels of a batch that was resolved before.
  void RestoreLabels(std::int64_t log_id, std::span<const PredictionId> ids,
                     std::span<const std::int32_t> labels);
  // All runs up to this batch have matured.
  void RestoreMatured(std::int64_t log_id);
  // By predicted class, of class_count of them. O(pending).
  [[nodiscard]] std::vector<PendingCounts> PendingByClass(std::size_t class_count) const;

  // Log id of the first batch that the tracker still needs; INT64_MAX if it needs no batch.
  [[nodiscard]] std::int64_t first_log_id() const noexcept;
  // All predictions up to this batch have matured.
  [[nodiscard]] std::int64_t matured_log_id() const noexcept { return matured_log_id_; }

  // ---- From any thread

  // When there is something to do for Mature or FindUnneeded; Elapsed::max() if there is not.
  [[nodiscard]] Elapsed next_due() const noexcept { return Elapsed(next_due_us_.load()); }
  // Wall-clock time of the oldest pending prediction, in microseconds since 1970; 0 without pending
  // predictions.
  [[nodiscard]] std::int64_t oldest_pending_time_us() const noexcept {
    return oldest_pending_time_us_;
  }

 private:
  struct Entry {
    PredictionId id;
    std::int32_t label = kNoLabel;
    std::int32_t predicted_class = 0;
  };
  struct Run {
    std::int64_t log_id = 0;
    Elapsed elapsed{};
    std::int64_t time_us = 0;
    // Number of its first entry, and how many they are.
    std::uint64_t first = 0;
    std::size_t rows = 0;
  };
  struct LabelBatch {
    std::int64_t log_id = 0;
    // Above the numbers of the entries that it labels.
    std::uint64_t end = 0;
  };

  [[nodiscard]] Entry& entry(std::uint64_t number) { return entries_[number - first_entry_]; }
  // Number of the first entry that has not matured.
  [[nodiscard]] std::uint64_t first_pending() const noexcept;
  // Tells the other threads.
  void Publish() noexcept;

  const Elapsed grace_;
  const std::size_t max_pending_;
  // Entries are numbered without end, in the order of the log; entries_.front() is first_entry_.
  std::uint64_t first_entry_ = 0;
  std::deque<Entry> entries_;
  absl::flat_hash_map<PredictionId, std::uint64_t> index_;
  // The first matured_runs_ of them have matured.
  std::deque<Run> runs_;
  std::size_t matured_runs_ = 0;
  std::size_t pending_ = 0;
  std::deque<LabelBatch> label_batches_;
  std::int64_t snapshot_log_id_ = 0;
  std::int64_t matured_log_id_ = 0;

  std::atomic<std::int64_t> next_due_us_ = Elapsed::max().count();
  std::atomic<std::int64_t> oldest_pending_time_us_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_PREDICTION_TRACKER_H_
