#ifndef CALIBD_CORE_BANDWIDTH_H_
#define CALIBD_CORE_BANDWIDTH_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The median heuristic as Widmann, Lindsten & Zachariah, NeurIPS 2019, App.
// J.1.2 computed it: the median of ALL n^2 pairwise distances,
// the n zero diagonal entries and both triangles included. With an even n^2 it
// is the mean of the two middle values. If more than half of the distances are 0,
// the median is that of the pairs of distinct predictions.
//
// predictions: n x m, row-major, n >= 2. Exact: the distances are recomputed rather than held, in
// O(n) + 16 MiB of memory beside the input. control.progress is not called.
// Errors: FailedPrecondition if n < 2, or if all predictions are equal; Cancelled.
// Cost: O(n^2 m): usually one pass over the pairs, at most eleven.
[[nodiscard]] absl::StatusOr<double> MedianBandwidth(std::span<const double> predictions,
                                                     std::size_t class_count,
                                                     const RunControl& control = {},
                                                     Distance distance = Distance::kTotalVariation);

// The median of the n (n - 1) / 2 distances of different observations, the common definition
// elsewhere. Errors and cost are those of MedianBandwidth.
[[nodiscard]] absl::StatusOr<double> MedianOffDiagonalBandwidth(
    std::span<const double> predictions, std::size_t class_count, const RunControl& control = {},
    Distance distance = Distance::kTotalVariation);

// The rule that chooses a bandwidth. It does not use the labels, so every test stays valid.
struct BandwidthRule {
  enum class Kind {
    // `fixed`.
    kFixed,
    // MedianBandwidth.
    kMedian,
    // MedianOffDiagonalBandwidth.
    kMedianOffDiagonal,
    // The mean total variation of two independent draws from Dirichlet(alpha), see
    // MeanTotalVariation; over total variation only.
    kMeanTotalVariation,
  };
  Kind kind = Kind::kMedian;
  // Finite and > 0, in units of the kernel's distance.
  double fixed = 0;
  // m concentrations, each > 0.
  std::vector<double> alpha;

  // True when the bandwidth depends on the predictions.
  [[nodiscard]] bool needs_predictions() const noexcept {
    return kind == Kind::kMedian || kind == Kind::kMedianOffDiagonal;
  }

  friend bool operator==(const BandwidthRule&, const BandwidthRule&) = default;
};

// The kernel exp(-distance / bandwidth) of a test and the rule for its bandwidth.
struct KernelRule {
  // kSquaredEuclidean is the Gaussian kernel.
  Distance distance = Distance::kTotalVariation;
  BandwidthRule bandwidth;

  friend bool operator==(const KernelRule&, const KernelRule&) = default;
};

// Errors: InvalidArgument naming the value, when the rule can give no bandwidth over
// m classes whatever the predictions.
[[nodiscard]] absl::Status CheckKernelRule(const KernelRule& rule, std::size_t class_count);

// predictions: n x m; unused unless the rule needs them.
// Errors and cost: those of CheckKernelRule and of the rule.
[[nodiscard]] absl::StatusOr<Kernel> ChooseKernel(const KernelRule& rule,
                                                  std::span<const double> predictions,
                                                  std::size_t class_count,
                                                  const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_BANDWIDTH_H_
