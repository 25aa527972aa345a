#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_SUMS_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "calibd/core/error_interval.h"
#include "calibd/core/label_errors.h"
#include "calibd/core/multilabel.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// Sums over predictions of K labels in a span of time: those of all labels together in bins, and
// of each label without bins, in 32 bytes. Those of parts that share no observation add.
struct LabelSums {
  // The known truths of one label.
  struct Label {
    std::int64_t truths = 0;
    std::int64_t held = 0;
    // Sums of the stated probability c and of (c - truth)^2.
    double stated = 0;
    double squares = 0;

    // Mean stated probability minus share that holds, as an interval at these levels; unset without
    // a truth.
    [[nodiscard]] std::optional<ErrorInterval> Interval(const ErrorLevels& levels) const noexcept;

    friend bool operator==(const Label&, const Label&) = default;
  };

  // Empty before the first observation, so that the history of other models needs no memory for
  // them: the sums of all labels together, one, and of the K labels.
  std::vector<LabelTotals> totals;
  std::vector<Label> labels;

  [[nodiscard]] std::size_t allocated_bytes() const noexcept {
    return totals.capacity() * sizeof(LabelTotals) + labels.capacity() * sizeof(Label);
  }
  // Number of observations.
  [[nodiscard]] std::int64_t rows() const noexcept {
    return totals.empty() ? 0 : totals.front().rows;
  }

  // May throw bad_alloc at the first call.
  void Add(const MultilabelBatch& batch);
  // May throw bad_alloc if this has no observation.
  void Merge(const LabelSums& other);

  friend bool operator==(const LabelSums&, const LabelSums&) = default;
};

// The fields of sums in the store, as StateFields visits them.
void TotalsFields(StateFields& fields, LabelTotals& totals);
void LabelSumsFields(StateFields& fields, LabelSums& sums);
// True if the totals can be those of K labels.
[[nodiscard]] bool FitLabels(const LabelTotals& totals, std::size_t label_count) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_SUMS_H_
