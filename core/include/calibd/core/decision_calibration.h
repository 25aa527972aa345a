#ifndef CALIBD_CORE_DECISION_CALIBRATION_H_
#define CALIBD_CORE_DECISION_CALIBRATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/prediction_batch.h"

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
  // the expectation 0 for calibrated forecasts.
  double realised_loss = 0;
  double expected_loss = 0;
  // sum_a (mean_i f_i(a))^2. Biased upwards; its square root is the decision calibration error.
  double squared_error = 0;
  // The unbiased estimate of it, over the pairs i != j; signed. Unset (0) for n < 2.
  double squared_error_unbiased = 0;
  // The same given the action: sum_d sum_a (sum_{i: action d} f_i(a) / n)^2, and its unbiased
  // estimate.
  double given_action = 0;
  double given_action_unbiased = 0;
};

// loss: a x m, row-major: the loss of action a if the class is y; finite; a >= 1. batch: valid,
// n >= 1. Errors: InvalidArgument (loss). Cost: O(n a m).
[[nodiscard]] absl::StatusOr<DecisionCalibration> EvaluateDecisions(const PredictionBatch& batch,
                                                                    std::span<const double> loss);

// Two actions for forecasts of a number: action 0 is right if the outcome is below the threshold,
// and action 1 otherwise; a wrong action has the loss 1. Ties take action 1. batch: valid Normal
// forecasts or samples, n >= 1. threshold: finite. Errors: InvalidArgument. Cost: O(n width).
[[nodiscard]] absl::StatusOr<DecisionCalibration> EvaluateThreshold(const ForecastBatch& batch,
                                                                    double threshold);

}  // namespace calibd

#endif  // CALIBD_CORE_DECISION_CALIBRATION_H_
