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
// form a batch, whose time ends as a whole, the oldest first. The number of labels that wait is
// bounded, because a client may send any number of labels without predictions. A label whose
// prediction arrives gives its place back at once, but its batch is known until its time ends: the
// log holds its row until then. Part of PredictionTracker, which says what each step means for the
// log.
class WaitingLabels {
 public:
  // Measured by a clock that never goes back, see LogClock.
  using Elapsed = std::chrono::microseconds;

  // The longest time that a label waits. It covers the delay between two queues that carry
  // predictions and labels apart; a label that is missing its prediction for longer belongs to no
  // prediction of this model.
  static constexpr Elapsed kLongestWait = std::chrono::minutes(1);
  // Maximum memory of the labels that wait, in bytes.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  // Memory of a batch, in bytes. The memory of one label that waits includes it. A batch of which
  // no label waits any more belongs to a prediction, which is pending until the time of the batch
  // ends.
  static constexpr std::size_t kBytesPerBatch = 16;

  // The most labels that wait.
  [[nodiscard]] static std::size_t Capacity(std::size_t max_pending,
                                            const TruthShape& truths) noexcept {
    return std::min(max_pending, kMaxBytes / BytesPerLabel(truths));
  }
  // Maximum memory of the labels that wait, in bytes.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t max_pending,
                                             const TruthShape& truths) noexcept {
    return Capacity(max_pending, truths) * BytesPerLabel(truths);
  }

  explicit WaitingLabels(const TruthShape& truths) : shape_(truths) {}

  // Number of labels that wait.
  [[nodiscard]] std::size_t size() const noexcept { return labels_.size(); }
  // When the oldest batch whose time has not ended was appended; unset without a batch.
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
  // Adds a batch of the log at a start, in the order of the log, without a bound: the following
  // rows of the log take the labels that exceed it. A label whose id waits already replaces the
  // former one, whose time had ended.
  void Restore(std::int64_t log_id, Elapsed elapsed, std::span<const PredictionId> ids,
               const TruthView& truths);

  // ---- The end of their time

  struct Taken {
    std::vector<PredictionId> ids;
    Truths truths;
    // The numbers of their batches.
    std::vector<std::uint64_t> batches;
  };
  // Takes the labels with one of these ids, in the order of the ids.
  [[nodiscard]] Taken Take(std::span<const PredictionId> ids);
  // Undoes the newest Take.
  void UndoTake(const Taken& taken);

 private:
  struct Batch {
    std::int64_t log_id = 0;
    Elapsed elapsed{};
  };

 public:
  // The batches whose time ended.
  struct Ended {
    std::vector<Batch> batches;
    // The labels among them that still waited.
    Taken labels;
    [[nodiscard]] std::int64_t last_log_id() const noexcept { return batches.back().log_id; }
  };
  // Removes the batches that were appended at `until` or before.
  [[nodiscard]] Ended EndUntil(Elapsed until);
  // Undoes EndUntil; nothing may have ended since.
  void UndoEnd(const Ended& ended);
  // Removes the batches up to this one of the log.
  void EndThrough(std::int64_t log_id);
  void Clear() noexcept;

 private:
  static constexpr std::int64_t kOpen = 0;
  // The index at its lowest load.
  static constexpr std::size_t kBytesPerIndexed = 2 * 8 * (16 + 8 + 1) / 7;

  struct Label {
    PredictionId id;
    std::uint64_t batch = 0;
  };

  [[nodiscard]] static std::size_t BytesPerLabel(const TruthShape& truths) noexcept {
    // Vectors grow to at most twice their size.
    return kBytesPerIndexed + 2 * (sizeof(Label) + truths.bytes()) + kBytesPerBatch;
  }
  // The truth of a label.
  [[nodiscard]] TruthView TruthOf(std::size_t place) const;
  // Adds a label; a former one with its id is replaced.
  void Put(const PredictionId& id, std::uint64_t batch, const TruthView& truth);
  // Puts labels back that were taken.
  void PutBack(const Taken& taken);
  // Moves the label at this place to the end of `taken`. The newest label takes its place.
  void Move(std::size_t place, Taken& taken);
  // Removes the label at this place. The newest label takes its place.
  void Remove(std::size_t place);
  // Removes the `count` oldest batches.
  [[nodiscard]] Ended End(std::size_t count);

  TruthShape shape_;
  // Batches have consecutive numbers; first_batch_ is that of batches_.front().
  std::uint64_t first_batch_ = 0;
  std::deque<Batch> batches_;
  // The labels that wait, in no order, and their truths, each at the place of its label.
  std::vector<Label> labels_;
  Truths truths_;
  // Their places.
  absl::flat_hash_map<PredictionId, std::uint32_t> index_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_WAITING_LABELS_H_
