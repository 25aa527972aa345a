#ifndef CALIBD_CORE_MULTILABEL_H_
#define CALIBD_CORE_MULTILABEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/validation.h"

namespace calibd {

// Limit of the declared number of labels.
inline constexpr std::size_t kMaxLabelCount = 1000;

// The truth of a label that nobody has looked at.
inline constexpr std::int8_t kMissingTruth = -1;

// A non-owning view of n predictions of K labels. A row states for each label the probability that
// it holds; the labels need not exclude each other, and may depend on each other in any way. Views
// never outlive the call they are passed to.
struct MultilabelBatch {
  // n x K, row-major, each in [0, 1].
  std::span<const double> probabilities;
  // n x K: 1 if the label holds, 0 if it does not, or kMissingTruth.
  std::span<const std::int8_t> truths;
  // K >= 1.
  std::size_t label_count = 0;

  [[nodiscard]] std::size_t size() const noexcept { return truths.size() / label_count; }
  // Rows first .. first + count - 1.
  [[nodiscard]] MultilabelBatch rows(std::size_t first, std::size_t count) const noexcept {
    return {probabilities.subspan(first * label_count, count * label_count),
            truths.subspan(first * label_count, count * label_count), label_count};
  }
};

// The deviation of a row for SerialDependence: a weighted sum of g - truth over its known truths,
// divided by the square root of their number, which keeps its standard deviation at about that of
// one label. The weights have both signs and differ, so that the deviations of labels that exclude
// each other, or go together, do not cancel. 0 without a known truth. row: < n. Cost: O(K).
[[nodiscard]] double RowDeviation(const MultilabelBatch& batch, std::size_t row);

// Checks that a batch has n >= 1 rows of K probabilities and K truths, and that every value is
// valid. Returns the violations of the first invalid rows, at most one per row and
// kMaxReportedViolations in total; empty if the batch is valid. If the shape is wrong, only this is
// reported. Cost: O(n K).
[[nodiscard]] std::vector<Violation> FindViolations(const MultilabelBatch& batch);

}  // namespace calibd

#endif  // CALIBD_CORE_MULTILABEL_H_
