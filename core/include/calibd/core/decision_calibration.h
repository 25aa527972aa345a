#ifndef CALIBD_CORE_DECISION_CALIBRATION_H_
#define CALIBD_CORE_DECISION_CALIBRATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/moments.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"
#include "calibd/core/validation.h"

namespace calibd {

// Calibration for a decision: the loss that the forecasts promise against the loss that was
// realised. Each row takes its Bayes action, which has the smallest expected loss under the
// forecast, the first one if several have it. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Sec. 5
// and Eq. 19. With the residual loss of row i, f_i(a) = loss(a, y_i) - E loss(a, Y'_i) for each
// action a:
struct DecisionCalibration {
  // n actions, 0-based.
  std::vector<std::size_t> actions;
  // Mean loss of the Bayes actions, realised and expected under the forecasts. Their difference has
  // the expectation 0 for calibrated forecasts. For samples see ThresholdLoss.
  double realised_loss = 0;
  double expected_loss = 0;
  // sum_a (mean_i f_i(a))^2. Biased upwards; its square root is the decision calibration error.
  double squared_error = 0;
  // The unbiased estimate of it, over the pairs i != j; signed. Unset (0) for n < 2.
  double squared_error_unbiased = 0;
  // The error given the action: sum_d sum_a (sum_{i: action d} f_i(a) / n)^2, and its unbiased
  // estimate.
  double given_action = 0;
  double given_action_unbiased = 0;
};

// loss: a x m, row-major: the loss of action a if the class is y; finite; a >= 1. batch: valid,
// n >= 1. Errors: InvalidArgument (loss). Cost: O(n a m).
[[nodiscard]] absl::StatusOr<DecisionCalibration> EvaluateDecisions(const PredictionBatch& batch,
                                                                    std::span<const double> loss);

// The rows with one Bayes action.
struct ActionLoss {
  std::int64_t count = 0;
  // Means over these rows, 0 without rows.
  double realised_loss = 0;
  double expected_loss = 0;
};
struct DecisionTestResult {
  // Without `actions`.
  DecisionCalibration calibration;
  // One for each row of the loss.
  std::vector<ActionLoss> actions;
  // An interval of the mean of E[realised - expected] for this batch, with 95 %, by the bounds of
  // ReadDecisions.
  double gap_lower = 0;
  double gap_upper = 0;
  // Compare given_action_unbiased and the decision calibration error, not squared, with labels that
  // are drawn from the predictions: exact for every n. Unset for 0 replicates, and for n = 1.
  std::optional<ResamplingResult> test;
  std::optional<SimulatedStatistic> calibration_error;
};
// resampling: `null` is not used, and replicates may be 0. The rest is as in EvaluateDecisions.
// Errors: InvalidArgument (loss, replicates); Cancelled. Cost: O(n a m) for each replicate.
[[nodiscard]] absl::StatusOr<DecisionTestResult> TestDecisions(const PredictionBatch& batch,
                                                               std::span<const double> loss,
                                                               const BootstrapOptions& resampling,
                                                               const RunControl& control = {});
// Errors: InvalidArgument unless `loss` is a valid loss of some actions for m classes.
[[nodiscard]] absl::Status CheckLossMatrix(std::span<const double> loss, std::size_t class_count);

// A decision about a number: act if the outcome is expected to reach the threshold. A wrong
// decision has a cost, and a right one has none.
struct ThresholdDecision {
  // Finite.
  double threshold = 0;
  // In [1e-100, 1e100], in any unit: of acting although the outcome stays below the threshold, and
  // of not acting although it reaches it.
  double false_alarm_cost = 1;
  double miss_cost = 1;

  friend bool operator==(const ThresholdDecision&, const ThresholdDecision&) = default;
};
// Two actions for forecasts of a number: action 0 is not to act, and action 1 to act. Ties take
// action 1. batch: valid Normal forecasts or samples, n >= 1. Errors: InvalidArgument (decision).
// Cost: O(n width).
[[nodiscard]] absl::StatusOr<DecisionCalibration> EvaluateThreshold(
    const ForecastBatch& batch, const ThresholdDecision& decision);

// The first field that is invalid, such as "threshold".
[[nodiscard]] std::optional<Violation> FindDecisionViolation(const ThresholdDecision& decision);

// The Bayes action of a forecast, with its loss.
struct ThresholdLoss {
  bool acts = false;
  // The difference has the mean 0 if the outcome is drawn from the forecast. For samples, whose
  // action depends on the draws, that takes an expected loss over the r + 1 ways in which the
  // outcome and the draws may have changed places: min(false_alarm_cost (1 - p), miss_cost p) with
  // the share p of the draws is too small, by up to a half for two draws.
  double realised = 0;
  double expected = 0;
};
// row: a valid Normal forecast or sample. Ties act. Cost: O(width).
[[nodiscard]] ThresholdLoss LossOfDecision(ForecastKind kind, std::span<const double> row,
                                           double outcome,
                                           const ThresholdDecision& decision) noexcept;

// Sums over observations.
struct DecisionTotals {
  std::int64_t actions = 0;
  double realised = 0;
  double expected = 0;
  // (realised - expected) / max(false_alarm_cost, miss_cost), in [-1, 1].
  RunningMoments gaps;

  // Merge law: sums of parts that share no observation add.
  void Merge(const DecisionTotals& other) noexcept;
  friend bool operator==(const DecisionTotals&, const DecisionTotals&) = default;
};
// batch: valid Normal forecasts or samples. The bits of the totals do not depend on how a sequence
// is split into calls. Cost: O(n width).
void AddDecisions(const ForecastBatch& batch, const ThresholdDecision& decision,
                  DecisionTotals& totals) noexcept;

struct DecisionReading {
  // Observations, and those in which the forecast led to action.
  std::int64_t count = 0;
  std::int64_t actions = 0;
  // Mean losses, in the unit of the costs.
  double realised_loss = 0;
  double expected_loss = 0;
  // An interval of the mean of E[realised - expected | past], which is 0 for calibrated forecasts.
  // It holds at all times at once, for any sequence: each end by UpperConfidenceSequence and
  // LowerConfidenceSequence at alpha / 2. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Sec. 5 on the
  // gap.
  double gap_lower = 0;
  double gap_upper = 0;
};
// alpha: in (0, 1). Unset without observations.
[[nodiscard]] std::optional<DecisionReading> ReadDecisions(const ThresholdDecision& decision,
                                                           const DecisionTotals& totals,
                                                           double alpha) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_DECISION_CALIBRATION_H_
