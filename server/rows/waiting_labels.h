#ifndef CALIBD_SERVER_ROWS_WAITING_LABELS_H_
#define CALIBD_SERVER_ROWS_WAITING_LABELS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/model/row_shape.h"
#include "server/rows/prediction_id.h"
#include "server/rows/truths.h"

namespace calibd::server {

// The labels of one model that arrived before their predictions. The labels of one row of the log
// form a batch, whose time ends as a whole, the oldest first. Their number is bounded, because a
// client may send any number of labels without predictions. Part of PredictionTracker, which says
// what each step means for the log.
class WaitingLabels {
 public:
  // Measured by a clock that never goes back, see LogClock.
  using Elapsed = std::chrono::microseconds;

  // The longest time that a label waits. It covers the delay between two queues that carry
  // predictions and labels apart; a label that is missing its prediction for longer belongs to no
  // prediction of this model.
  static constexpr Elapsed kLongestWait = std::chrono::minutes(1);
  // Maximum memory of all of them, in bytes.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  // The most labels that wait if each has a batch of its own, which takes the most memory.
  [[nodiscard]] static std::size_t Capacity(std::size_t max_pending,
                                            const TruthShape& truths) noexcept {
    return std::min(max_pending, kMaxBytes / (kBytesPerBatch + BytesPerLabel(truths)));
  }
  // Maximum memory, in bytes.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t max_pending,
                                             const TruthShape& truths) noexcept {
    return std::min(kMaxBytes, max_pending * (kBytesPerBatch + BytesPerLabel(truths)));
  }

  explicit WaitingLabels(const TruthShape& truths) : bytes_per_label_(BytesPerLabel(truths)) {}

  // Number of labels that wait.
  [[nodiscard]] std::size_t size() const noexcept { return index_.size(); }
  // When the oldest batch was appended; unset without a batch.
  [[nodiscard]] std::optional<Elapsed> oldest() const noexcept {
    return batches_.empty() ? std::nullopt : std::optional(batches_.front().elapsed);
  }
  // The truth of the label that waits for this id. Unset if no label waits for it. The view is
  // valid until the next call that changes this object.
  [[nodiscard]] std::optional<TruthView> Find(const PredictionId& id) const;

  // ---- New labels

  // Adds a label, whose id does not wait, to the newest batch, which is begun if it has a log id.
  // Returns false if there is no room. max: of labels.
  [[nodiscard]] bool Add(Elapsed elapsed, const PredictionId& id, const TruthView& truth,
                         std::size_t max);
  // True if the newest batch has no log id yet.
  [[nodiscard]] bool open() const noexcept {
    return !batches_.empty() && batches_.back().log_id == kOpen;
  }
  // Gives the open batch its log id.
  void Close(std::int64_t log_id) noexcept { batches_.back().log_id = log_id; }
  // Undoes Close.
  void Reopen() noexcept { batches_.back().log_id = kOpen; }
  // Undoes the calls of Add for the open batch.
  void RemoveOpen();
  // Adds a batch of the log at a start, in the order of the log. A label whose id waits already
  // replaces the former one, whose time had ended.
  void Restore(std::int64_t log_id, Elapsed elapsed, std::span<const PredictionId> ids,
               const TruthView& truths);

  // ---- The end of their time

  struct Place {
    std::uint64_t batch = 0;
    std::uint32_t row = 0;
  };
  struct Taken {
    std::vector<PredictionId> ids;
    Truths truths;
    std::vector<Place> places;
  };
  // Takes the labels with one of these ids, in the order of the ids.
  [[nodiscard]] Taken Take(std::span<const PredictionId> ids);
  // Undoes the newest Take.
  void UndoTake(const Taken& taken);

 private:
  struct Batch {
    std::int64_t log_id = 0;
    Elapsed elapsed{};
    std::vector<PredictionId> ids;
    Truths truths;
  };

 public:
  // The batches whose time ended.
  struct Ended {
    std::vector<Batch> batches;
    // The labels among them that still waited.
    std::vector<PredictionId> ids;
    std::vector<Place> places;
    [[nodiscard]] std::int64_t last_log_id() const noexcept { return batches.back().log_id; }
  };
  // Removes the batches that were appended at `until` or before.
  [[nodiscard]] Ended EndUntil(Elapsed until);
  // Undoes EndUntil; nothing may have ended since.
  void UndoEnd(Ended ended);
  // Removes the batches up to this one of the log.
  void EndThrough(std::int64_t log_id);
  void Clear() noexcept;

 private:
  static constexpr std::int64_t kOpen = 0;
  // Two blocks of the heap, and the index at its lowest load.
  static constexpr std::size_t kBytesPerBatch = 96 + 2 * 32;
  static constexpr std::size_t kBytesPerIndexed = 2 * 8 * (16 + 16 + 1) / 7;

  [[nodiscard]] static std::size_t BytesPerLabel(const TruthShape& truths) noexcept {
    // Vectors grow to at most twice their size.
    return kBytesPerIndexed + 2 * (sizeof(PredictionId) + truths.bytes());
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return batches_.size() * kBytesPerBatch + rows_ * bytes_per_label_;
  }
  // Removes the oldest batch and returns it; its waiting labels are appended to `ended`.
  Batch PopFront(Ended& ended);

  std::size_t bytes_per_label_;
  // Batches have consecutive numbers; first_batch_ is that of batches_.front().
  std::uint64_t first_batch_ = 0;
  std::deque<Batch> batches_;
  // Number of labels of all batches, also those that were taken.
  std::size_t rows_ = 0;
  absl::flat_hash_map<PredictionId, Place> index_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_WAITING_LABELS_H_
