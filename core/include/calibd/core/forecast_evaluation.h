#ifndef CALIBD_CORE_FORECAST_EVALUATION_H_
#define CALIBD_CORE_FORECAST_EVALUATION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/forecast_forms.h"
#include "calibd/core/local_calibration.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// What is known of each observation besides its forecast.
struct ForecastCovariates {
  // n group numbers, or empty.
  std::vector<std::int32_t> groups;
  // n x feature_count, row-major, finite; or empty. The unit of a feature has no effect.
  std::vector<double> features;
  std::size_t feature_count = 0;
  // Indices of some features, distinct; or empty.
  std::vector<std::size_t> local_features;

  // The features of the local form: local_features, or all of them.
  [[nodiscard]] std::vector<std::size_t> LocalFeatures() const;
};

struct ForecastEvaluationOptions {
  // The options of every test. The hypothesis kForm applies to the discrepancies alone.
  BootstrapOptions resampling{.replicates = 999, .seed = 0, .null = NullHypothesis::kForecast};
  // The kernel of all discrepancies. If unset: RbfKernel, PitRbfKernel for threshold, and
  // LevelsKernel for quantiles, for which it must be unset.
  std::optional<OutcomeKernel> outcome_kernel;
  // If set, this decision and the form threshold are evaluated. Quantiles: only with a
  // threshold_alpha, and without the decision.
  std::optional<ThresholdDecision> decision;
  // In (0, 1): the form threshold divides the forecasts by whether their probability of an outcome
  // up to the threshold is at most this. If unset, by their decision, at 1/2 with equal costs.
  // Quantiles: one of the levels.
  std::optional<double> threshold_alpha;
  // At least 2: of more rows, the tests use so many, see DrawTestRows with the seed.
  std::size_t test_rows = std::numeric_limits<std::size_t>::max();
};

// A discrepancy with its test, such as "distribution".
struct NamedDiscrepancy {
  std::string form;
  ForecastTestResult result;
};

// A form that could not be tested.
struct LeftOutForm {
  std::string form;
  std::string reason;
};

// Everything that calibd computes of forecasts of a number with their outcomes, for ONE look.
struct ForecastEvaluation {
  std::int64_t count = 0;
  // The number of rows that the tests use: pit, level_error, the discrepancies, local and
  // decision_error. All else is of all rows.
  std::int64_t tested = 0;
  // Mean scores, see ForecastRow. log_score, in nats, and the moments of t = (outcome - mean) /
  // standard deviation: Normal forecasts only. deviation_t: with divisor n.
  double crps = 0;
  std::optional<double> log_score;
  std::optional<double> mean_t;
  std::optional<double> deviation_t;
  // All intervals hold together with 95 %, for one look.
  ForecastCoverage coverage;
  // The row, from 1, at which outcomes of neighbouring rows were found to go together more than the
  // forecasts say; 0 if they were not. See SerialDependence.
  std::int64_t dependence_found_at = 0;
  // The e-value of the cells, with the strata of these forecasts.
  double log10_e_value = 0;
  ForecastDirection direction;
  // All cells of the probability integral transform.
  std::vector<CellDeviation> cells;
  // Unset for quantiles.
  std::optional<PitTests> pit;
  // Quantiles: the mean over the levels of (share of outcomes at most the quantile - level)^2.
  std::optional<SimulatedStatistic> level_error;
  // distribution and one without a condition, and with covariates group (of two or more),
  // individual (all features) and local (local_features), each feature divided by its standard
  // deviation. The one without a condition is marginal with RbfKernel or EnergyKernel, quantile
  // with PitRbfKernel or PitMinKernel, and decision_marginal with the others; quantiles have
  // level_error instead. With a threshold also decision, by TestThreshold, but not for quantiles;
  // and threshold, with PitRbfKernel unless PitMinKernel or LevelsKernel is the kernel; for samples
  // of the transforms of ProbabilityIntegralTransforms. Empty for n < 2.
  std::vector<NamedDiscrepancy> discrepancies;
  // E.g. if the features never differ, or if squares of the forecasts exceed the range of double.
  std::vector<LeftOutForm> left_out;
  // With features, but not for quantiles: where the forecasts are wrong, by LocalFeatures(). The
  // kernel has a quarter of the width of that of the form, 16 times its gamma, so that an error of
  // a tenth of the cases is seen where it is.
  std::optional<LocalCalibration> local;
  // Without `actions`.
  std::optional<DecisionCalibration> decision;
  // The decision calibration error, not squared. Set with the decision for n > 1.
  std::optional<SimulatedStatistic> decision_error;
};

// Checks outcome_kernel, the decision, threshold_alpha and test_rows. kind: valid. Errors:
// InvalidArgument that begins with the field and a space.
[[nodiscard]] absl::Status CheckForecastOptions(const NumberForecastKind& kind,
                                                const ForecastEvaluationOptions& options);

// batch: valid (FindForecastViolation, FindOutcomeViolation), n >= 1. Errors: InvalidArgument
// (kind, replicates, outcome_kernel, threshold, covariates); FailedPrecondition if a parameter
// cannot be chosen; Cancelled. Cost: O(n log n); with the t rows that are tested, that of
// TestForecasts for each discrepancy, and O(t log t) for each replicate of the other tests.
[[nodiscard]] absl::StatusOr<ForecastEvaluation> EvaluateForecasts(
    const NumberForecastKind& kind, const NumberForecastBatch& batch,
    const ForecastEvaluationOptions& options, const ForecastCovariates& covariates = {},
    const RunControl& control = {});

// What of the covariates decides the cost of an evaluation.
struct CovariateSizes {
  bool groups = false;
  std::size_t features = 0;
  std::size_t local_features = 0;
};

// Bytes that EvaluateForecasts allocates for n observations in addition to its input, on `threads`
// threads, and the approximate number of multiplications.
[[nodiscard]] double ForecastEvaluationMemory(std::size_t n, const NumberForecastKind& kind,
                                              const ForecastEvaluationOptions& options,
                                              const CovariateSizes& covariates,
                                              std::size_t threads) noexcept;
[[nodiscard]] double ForecastEvaluationOperations(std::size_t n, const NumberForecastKind& kind,
                                                  const ForecastEvaluationOptions& options,
                                                  const CovariateSizes& covariates) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_EVALUATION_H_
