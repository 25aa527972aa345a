#ifndef CALIBD_CORE_FORECAST_FORMS_H_
#define CALIBD_CORE_FORECAST_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/condition.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast.h"
#include "calibd/core/outcome_kernel.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Tests of forecasts of a number, for ONE look. With kForecast the hypothesis is that each outcome
// is drawn from its forecast, independently of the others, and p-values are exact for every n:
// outcomes are drawn from Normal forecasts, and cells between quantiles; the outcome of samples
// changes places with one of its draws, or with none, as all r + 1 are exchangeable.

// A form of calibration, as a kernel of outcomes and a condition: see ComputeLoss. The forms of
// Marx, Zalouk & Ermon, NeurIPS 2023, Table 1: distribution (RbfKernel, ForecastCondition),
// marginal (NoCondition), quantile (PitRbfKernel, PitMinKernel or LevelsKernel, NoCondition),
// decision (ThresholdKernel, TanhKernel or MomentsKernel; see also TestThreshold), group
// (GroupCondition), individual and local (FeatureCondition).
struct ForecastTestOptions {
  // RbfKernel if unset. Samples: none of the probability integral transform.
  std::optional<OutcomeKernel> outcome_kernel;
  // A gamma that is unset is chosen from the first kParameterRows rows, without the outcomes; for
  // samples, from draws and outcome alike.
  Condition condition;
  BootstrapOptions resampling{.replicates = 999, .seed = 0, .null = NullHypothesis::kForecast};
};

struct ForecastTestResult : ResamplingResult {
  // The squared maximum mean discrepancy over all pairs: unbiased and signed, and biased. A
  // ForecastCondition of samples is one of the moments of the draws and the outcome together, given
  // which the mean of the unbiased one is 0 for calibrated forecasts; given the draws alone it is
  // not. That of TestThreshold, whose actions depend on the draws, has such a mean for few draws.
  double mmd_squared = 0;
  double biased_mmd_squared = 0;
  // What is compared with the replicates: mmd_squared, or with kForecast its approximation by
  // kFrequencyCount Fourier frequencies, a statistic of its own: of RbfKernel and PitRbfKernel,
  // and of a ForecastCondition or FeatureCondition with MomentsKernel, ThresholdKernel, TanhKernel
  // or LevelsKernel.
  double statistic = 0;
  // With the values that were chosen; features and groups are empty.
  OutcomeKernel outcome_kernel;
  Condition condition;
};
// Replicates by random signs that are computed together, from one computation of all pairs.
inline constexpr std::size_t kSignReplicates = 256;

// batch: valid Normal forecasts, samples or quantiles (FindViolations, FindForecastViolation), n
// >= 2. With kForm each replicate is sum_{i != j} w_i w_j h_ij / (n (n - 1)) with random signs w: a
// test of the form itself, which is approximate. The result depends on the seed, but not on the
// threads of `control`. Errors: InvalidArgument (CheckLossOptions, replicates); FailedPrecondition
// if n < 2, or if a gamma cannot be chosen; Cancelled. Cost: O(n^2) for the discrepancy; for each
// replicate O(n) with Fourier terms or without need of them, and with EnergyKernel and
// PitMinKernel O(n^2). Memory: O(n).
[[nodiscard]] absl::StatusOr<ForecastTestResult> TestForecasts(const ForecastBatch& batch,
                                                               const ForecastTestOptions& options,
                                                               const RunControl& control = {});

struct ThresholdTest {
  // The decision form given the decision: the discrepancy of ThresholdKernel under the condition
  // that two rows have the same Bayes action of EvaluateThreshold. It is 0 if those who act and
  // those who do not are right as often as their forecasts say. With kForecast the actions of
  // samples are those of the replicate.
  ForecastTestResult given_action;
  // The decision calibration error, not squared: always the exact test of kForecast.
  SimulatedStatistic calibration_error;
};
// Errors: see TestForecasts. Cost: O(n width) for each replicate, and that of TestForecasts with
// kForm.
[[nodiscard]] absl::StatusOr<ThresholdTest> TestThreshold(const ForecastBatch& batch,
                                                          const ThresholdDecision& decision,
                                                          const BootstrapOptions& resampling,
                                                          const RunControl& control = {});

// Metrics of the probability integral transforms.
struct PitTests {
  SimulatedStatistic quantile_calibration_error;
  SimulatedStatistic quantile_level_error;
  SimulatedStatistic cramer_von_mises;
};
// pit: in [0, 1], n >= 1: see ProbabilityIntegralTransforms. Replicates are n uniform numbers: the
// exact test of kForecast, which is one of the quantile form too. Errors: InvalidArgument
// (replicates, null); Cancelled. Cost: O(n log n) for each replicate.
[[nodiscard]] absl::StatusOr<PitTests> TestPit(std::span<const double> pit,
                                               const BootstrapOptions& options,
                                               const RunControl& control = {});

// The test for quantiles: the mean over the levels of (share of outcomes in the cells up to the
// level - level)^2, with outcomes drawn from the cells. counts: of levels.size() + 1 cells, with
// sum n >= 1. levels: increasing, in (0, 1).
[[nodiscard]] absl::StatusOr<SimulatedStatistic> TestLevels(std::span<const std::int64_t> counts,
                                                            std::span<const double> levels,
                                                            const BootstrapOptions& options,
                                                            const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_FORMS_H_
