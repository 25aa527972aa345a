#ifndef CALIBD_CORE_LABEL_ERRORS_H_
#define CALIBD_CORE_LABEL_ERRORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "calibd/core/error_interval.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/running_reliability.h"

namespace calibd {

// How far the probabilities of K labels are off: sums over observations, which are additive.
//
// Each label has the binned error of error_interval.h over the observations whose truth of this
// label is known. With x_tk = c_tk - r_tk, or 0 where the truth is missing, the error of all labels
// together is that of the sums
//   S_b = sum_t (1/K) sum_k x_tk [bin_tk = b],  V = sum_t (mean_k |x_tk|)^2,
// divided by the number of known truths over K: the average over all known truths of how far the
// stated probability was off in its bin. Its interval holds however the labels of a row depend on
// each other. For each sign of the bins, the signed part of a row lies in [-1, 1] and its square is
// at most (mean_k |x_tk|)^2. V = sum_t mean_k x_tk^2 / K would be that of independent labels; with
// it the interval of dependent labels is wrong.
//
// An interval for one look chooses its rate for V_0 = 1.2 W + 1. With the mean v of c (1 - c) over
// the known truths and their share f, calibrated labels have about V = f v for each row if all
// labels are equal, and q f v with q = 4 f v + (1 - 4 v) / K if they are independent, because E |x|
// = 2 c (1
// - c). W = f v sqrt(q) for each row lies between. The interval is valid for every choice.
//
// Missing truths: whether a truth is known must not depend on its value, given the prediction and
// the past; for an interval of one look, given all predictions, nor on any other truth. The weight
// of a label in a row is 1/K, whatever truths of the row are known.

// The sums of all labels together, without those of each: for spans of time.
struct LabelTotals {
  // Number of observations.
  std::int64_t rows = 0;
  // The sums of the bins over all labels, and of x_tk^2.
  ReliabilitySums sums;
  // V.
  double row_square_sum = 0;

  // batch: valid. The result has the same bits however a sequence is split into calls. Cost: O(n
  // K).
  void Add(const MultilabelBatch& batch) noexcept;
  void Merge(const LabelTotals& other) noexcept;
  // Leaves the sums over the later observations. earlier: the sums over the first ones.
  void Subtract(const LabelTotals& earlier) noexcept;
  // The mean of (c - r)^2 over all known truths; 0 without one.
  [[nodiscard]] double Brier() const noexcept;
  // label_count: K. Unset without a known truth. Cost: O(1).
  [[nodiscard]] std::optional<ErrorInterval> Interval(std::size_t label_count,
                                                      const ErrorLevels& levels) const noexcept;

  friend bool operator==(const LabelTotals&, const LabelTotals&) = default;
};

// The sums of each label and of all together.
struct LabelErrors {
  // Number of observations.
  std::int64_t rows = 0;
  // The sums of each label, K of them.
  std::vector<ReliabilitySums> labels;
  // V of all labels together.
  double row_square_sum = 0;

  LabelErrors() = default;
  explicit LabelErrors(std::size_t label_count) : labels(label_count) {}

  // batch: valid, of K labels. The result has the same bits however a sequence is split into calls.
  // Cost: O(n K).
  void Add(const MultilabelBatch& batch) noexcept;

  // Cost: O(K).
  [[nodiscard]] LabelTotals Totals() const noexcept;
  // Unset without a known truth. Cost: O(K).
  [[nodiscard]] std::optional<ErrorInterval> IntervalOfAll(const ErrorLevels& levels) const {
    return Totals().Interval(labels.size(), levels);
  }
  // k: in [0, K). Unset without a known truth of this label.
  [[nodiscard]] std::optional<ErrorInterval> IntervalOf(std::size_t k,
                                                        const ErrorLevels& levels) const {
    return BinnedErrorInterval(labels[k], levels);
  }

  friend bool operator==(const LabelErrors&, const LabelErrors&) = default;
};

// The levels of the intervals of K labels and of all labels together, which hold together at
// `levels`: half for the latter, and the rest shared equally by the labels. Of one label, both
// intervals are the same, which has `levels`.
struct LabelErrorLevels {
  ErrorLevels of_all;
  ErrorLevels of_each;

  LabelErrorLevels(const ErrorLevels& levels, std::size_t label_count) noexcept
      : of_all(levels.SharedBy(label_count == 1 ? 1 : 2)),
        of_each(levels.SharedBy(label_count == 1 ? 1 : 2 * label_count)) {}
};

}  // namespace calibd

#endif  // CALIBD_CORE_LABEL_ERRORS_H_
