#ifndef CALIBD_CORE_CALIBRATION_LOSS_H_
#define CALIBD_CORE_CALIBRATION_LOSS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/condition.h"
#include "calibd/core/forecast.h"
#include "calibd/core/lens.h"
#include "calibd/core/outcome_kernel.h"
#include "calibd/core/run_control.h"

namespace calibd {

// What a loss measures. All except kMmd are for classes only.
enum class Penalty {
  // The squared maximum mean discrepancy, see ComputeLoss.
  kMmd,
  // With the residuals e_i = [y_i = argmax q_i] - c_i and c_i = max q_i,
  //   sqrt(1/n^2 sum_ij e_i e_j k(c_i, c_j)),
  // the root of half the biased MMD^2 of the lens top_label. Source: Kumar, Sarawagi & Jain, ICML
  // 2018.
  kMmce,
  // The same with e_i n / n', where n' is the number of rows that are correct, or wrong, as row i
  // is: both kinds count alike (their MMCE_w). 0 if all rows are correct, or all are wrong.
  kWeightedMmce,
  // See KernelDensityError: sums of absolute and of squared differences, without a root.
  kKernelDensityL1,
  kKernelDensityL2,
};
[[nodiscard]] bool IsMmce(Penalty penalty) noexcept;
[[nodiscard]] bool IsKernelDensity(Penalty penalty) noexcept;
// Such as "weighted_mmce".
[[nodiscard]] const char* PenaltyName(Penalty penalty) noexcept;

struct LossOptions {
  Penalty penalty = Penalty::kMmd;
  // For classes: canonical, top_label or class_wise (summed over the classes). Mmce: top_label.
  Lens lens = Lens::Canonical();
  // If unset: the identity for classes, else RbfKernel. Classes: no other than RbfKernel. Samples:
  // none of the probability integral transform. kMmd only.
  std::optional<OutcomeKernel> outcome_kernel;
  // All except kMmd need ForecastCondition. Its bandwidth is that of the kernel density; if it is
  // not given, the likeliest of DensityBandwidths, by the densities that the other rows give.
  Condition condition;
  // The estimator of the squared maximum mean discrepancy: the mean over all n^2 pairs, instead of
  // the unbiased mean over the n (n - 1) pairs of different rows. kMmd only.
  bool biased = false;
  // Finite, >= 0. If set, the loss is the mean negative log likelihood plus this times the penalty.
  // Not for samples.
  std::optional<double> penalty_weight;
  bool gradient = true;
};

struct CalibrationLoss {
  Penalty penalty = Penalty::kMmd;
  double value = 0;
  // Mean negative log likelihood in nats; of probabilities with each term at most 36.04, that of
  // 2^-52. Unset without penalty_weight.
  std::optional<double> negative_log_likelihood;
  // kMmd: signed if unbiased, never clamped; no root is taken.
  double penalty_value = 0;
  // n x width, in the coordinates of the forecasts: probabilities count as free, standard
  // deviations are not logarithms. Bandwidths, and the choice of the largest probability, are held
  // fixed. Where a root or an absolute value is 0, its derivative is set to 0. Empty unless asked
  // for.
  std::vector<double> gradient;
  // The kernels with the values that were chosen from the forecasts. A value stays unset if all
  // forecasts, or all features, are equal: k_z = 1 then. features and groups are empty.
  std::optional<OutcomeKernel> outcome_kernel;
  Condition condition;
};

// Checks everything except the rows themselves. Errors: InvalidArgument that begins with the field
// and a space, e.g. "condition.forecast.bandwidth is -1, expected a finite number > 0".
[[nodiscard]] absl::Status CheckLossOptions(const ForecastBatch& batch, const LossOptions& options);

// The penalty of the options. kMmd: MMD^2 of (Y, Z) and (Y', Z) with Y' drawn from the forecast, a
// loss whose minimum are calibrated forecasts: the mean over pairs of
//   h_ij = k_z(z_i, z_j) (k_y(y_i, y_j) + E k_y(Y'_i, Y'_j) - E k_y(Y'_i, y_j) - E k_y(y_i, Y'_j)),
// in closed form, with independent draws also for i = j. Source: Marx, Zalouk & Ermon, NeurIPS
// 2023, Eq. 2 to 4. With the identity for classes and the canonical lens it is SKCE_uq or SKCE_b.
//
// batch: valid (see FindViolations). The result does not depend on the threads of `control`.
// Errors: InvalidArgument as CheckLossOptions; FailedPrecondition if n < 2 and the estimator is
// unbiased or a kernel density, if a value that is not given cannot be chosen, or if the result
// exceeds the range of double; Cancelled. Cost: O(n^2 m), O(n^2) for Normal forecasts, O(n^2 r^2)
// for samples; the choice of the bandwidth of a kernel density adds O(20 n^2).
[[nodiscard]] absl::StatusOr<CalibrationLoss> ComputeLoss(const ForecastBatch& batch,
                                                          const LossOptions& options,
                                                          const RunControl& control = {});

// The condition of threshold calibration: whether a forecast gives outcomes up to the threshold at
// most the probability alpha (Marx et al., Table 1). batch: valid. levels: those of quantiles,
// among them alpha; otherwise unused. Samples: by the draws and the outcome together, given which
// the rank of the outcome is uniform; given the draws alone it is not.
[[nodiscard]] GroupCondition ThresholdCondition(const ForecastBatch& batch, double threshold,
                                                double alpha, std::span<const double> levels);

// Bytes that ComputeLoss allocates in addition to its input, and approximate number of
// multiplications, in all and for one pair.
[[nodiscard]] double LossMemory(const ForecastBatch& batch, const LossOptions& options) noexcept;
[[nodiscard]] double LossOperations(const ForecastBatch& batch,
                                    const LossOptions& options) noexcept;
[[nodiscard]] double LossPairOperations(const ForecastBatch& batch,
                                        const LossOptions& options) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_CALIBRATION_LOSS_H_
