#ifndef CALIBD_CORE_LABELLED_ROWS_H_
#define CALIBD_CORE_LABELLED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/prediction_batch.h"

namespace calibd {

// A batch, or rows selected from a batch with different labels: the input of a resampling test
// without a copy of the predictions. A view.
class LabelledRows {
 public:
  explicit LabelledRows(const PredictionBatch& batch) noexcept
      : batch_(batch), labels_(batch.labels) {}
  // Row i is batch.row(picked[i]) with labels[i].
  LabelledRows(const PredictionBatch& batch, std::span<const std::size_t> picked,
               std::span<const std::int32_t> labels) noexcept
      : batch_(batch), picked_(picked), labels_(labels) {}

  [[nodiscard]] std::size_t size() const noexcept { return labels_.size(); }
  [[nodiscard]] std::size_t class_count() const noexcept { return batch_.class_count; }
  [[nodiscard]] std::span<const double> row(std::size_t i) const noexcept {
    return batch_.row(batch_row(i));
  }
  // The row of the batch that is row i.
  [[nodiscard]] std::size_t batch_row(std::size_t i) const noexcept {
    return picked_.empty() ? i : picked_[i];
  }
  [[nodiscard]] std::span<const std::int32_t> labels() const noexcept { return labels_; }
  [[nodiscard]] std::size_t label(std::size_t i) const noexcept {
    return static_cast<std::size_t>(labels_[i]);
  }

 private:
  PredictionBatch batch_;
  std::span<const std::size_t> picked_;
  std::span<const std::int32_t> labels_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_LABELLED_ROWS_H_
