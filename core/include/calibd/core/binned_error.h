#ifndef CALIBD_CORE_BINNED_ERROR_H_
#define CALIBD_CORE_BINNED_ERROR_H_

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/distance.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// Binned estimates of the expected and the maximum calibration error,
//   ECE = sum_b n_b / n d(mean prediction of b, label frequencies of b),
//   MCE = max_b d(...),
// over bins b that hold n_b >= 1 observations: an empty bin does not exist.
// Source: Widmann, Lindsten & Zachariah, NeurIPS 2019, Sec. 4.3 and App. J.1.1.
// Both are biased upwards: they are above 0 for a calibrated model.

inline constexpr std::size_t kMaxBinsPerClass = 100000;

// The whole vector; a bin is the m-tuple of UniformBinIndex of the components.
struct UniformBins {
  // In [1, kMaxBinsPerClass].
  std::size_t bins_per_class = 10;
  Distance distance = Distance::kTotalVariation;
};

// The whole vector; bins by repeated splits, see PartitionByMedianVariance.
struct MedianVarianceBins {
  // >= 1.
  std::size_t min_size = 10;
  // 0: no limit.
  std::size_t max_bins = 0;
  Distance distance = Distance::kTotalVariation;
};

// The confidence max_k g_k in uniform bins; d = |mean confidence - accuracy|.
struct TopLabelBins {
  // In [1, kMaxBinsPerClass].
  std::size_t bins = 15;
};

// Each g_k separately in uniform bins; d = |mean g_k - frequency of k|. The ECE is the mean over
// classes, the MCE the maximum, and the bins of all classes are counted.
struct ClassWiseBins {
  // In [1, kMaxBinsPerClass].
  std::size_t bins = 15;
};

using BinnedErrorSpec = std::variant<UniformBins, MedianVarianceBins, TopLabelBins, ClassWiseBins>;

struct BinnedError {
  // In [0, 1] by total variation and for scalars, [0, 2] by cityblock and squared
  // Euclidean distance, [0, sqrt 2] by Euclidean distance.
  double ece = 0;
  double mce = 0;
  // The number of non-empty bins, and the numbers of observations in the smallest and in the
  // largest of them.
  std::size_t bins = 0;
  std::size_t smallest_bin = 0;
  std::size_t largest_bin = 0;
};

// batch: valid. Errors: InvalidArgument (spec, naming the field);
// FailedPrecondition if n < 1, or n < min_size.
// Cost: O(n m), by median variance O(n m log n), class-wise O((n + bins) m); O(n +
// m + bins) memory.
[[nodiscard]] absl::StatusOr<BinnedError> EstimateBinnedError(const PredictionBatch& batch,
                                                              const BinnedErrorSpec& spec);

// Returns OK if EstimateBinnedError accepts spec for n observations.
[[nodiscard]] absl::Status CheckBinnedErrorSpec(const BinnedErrorSpec& spec, std::size_t n);

// EstimateBinnedError for many selections of rows of one batch, such as the replicates of a test.
// The uniform bin of a row does not depend on the other rows; it is computed once.
class BinnedErrorOfSelection {
 public:
  // spec: CheckBinnedErrorSpec accepts it. batch: outlives this object.
  BinnedErrorOfSelection(const PredictionBatch& batch, const BinnedErrorSpec& spec);
  // rows: not empty, of the batch. Thread-safe. Cost as EstimateBinnedError.
  [[nodiscard]] BinnedError operator()(const LabelledRows& rows) const;

 private:
  BinnedErrorSpec spec_;
  // Empty unless the bins are uniform.
  std::vector<std::size_t> uniform_bin_of_row_;
};

// The error of each class. Errors and cost as EstimateBinnedError.
[[nodiscard]] absl::StatusOr<std::vector<BinnedError>> EstimateClassWiseError(
    const PredictionBatch& batch, const ClassWiseBins& spec);

// 1-based index of the uniform bin of a probability: 1 if p = 0, else ceil(bins p)
// computed in double. So an upper edge belongs to the bin below it. In [1, bins].
[[nodiscard]] inline std::size_t UniformBinIndex(double p, std::size_t bins) noexcept {
  if (p <= 0) return 1;
  const double scaled = static_cast<double>(bins) * p;
  const auto below = static_cast<std::size_t>(scaled);
  // std::ceil would be a function call on the baseline CPU.
  const std::size_t up = below + (static_cast<double>(below) < scaled ? 1 : 0);
  return up < bins ? up : bins;
}

// A partition of the rows of a batch into non-empty bins; each bin holds its rows in the order of
// the batch.
class Partition {
 public:
  // starts: where in `rows` each bin begins, ascending from 0.
  Partition(std::vector<std::size_t> rows, std::vector<std::size_t> starts);

  [[nodiscard]] std::size_t bins() const noexcept { return starts_.size() - 1; }
  [[nodiscard]] std::span<const std::size_t> bin(std::size_t b) const noexcept {
    return std::span(rows_).subspan(starts_[b], starts_[b + 1] - starts_[b]);
  }

 private:
  std::vector<std::size_t> rows_;
  // One more than bins: ends with the number of rows.
  std::vector<std::size_t> starts_;
};

// Bins of equal tuples of UniformBinIndex, in order of first appearance.
// Errors and cost as EstimateBinnedError.
[[nodiscard]] absl::StatusOr<Partition> PartitionUniformly(const PredictionBatch& batch,
                                                           std::size_t bins_per_class);

// Bins of equal UniformBinIndex of the probability, ascending.
// Errors: InvalidArgument unless bins is in [1, kMaxBinsPerClass];
// FailedPrecondition if n < 1. Cost: O(n + bins).
[[nodiscard]] absl::StatusOr<Partition> PartitionUniformly(const BinaryPredictions& predictions,
                                                           std::size_t bins);

// Median-variance bins (App. J.1.1 of the paper above). Repeatedly splits the set
// whose largest variance of a component (divisor size - 1) is largest along that
// component, the first of those within 1e-12 of the largest: rows strictly below
// its upper median go to one side, the others, ties included, to the other. A set
// is final when a side would have fewer than min_size rows, and all are when there
// are max_bins of them (0: no limit).
// Errors and cost as EstimateBinnedError.
[[nodiscard]] absl::StatusOr<Partition> PartitionByMedianVariance(const PredictionBatch& batch,
                                                                  std::size_t min_size,
                                                                  std::size_t max_bins = 0);

}  // namespace calibd

#endif  // CALIBD_CORE_BINNED_ERROR_H_
