#ifndef CALIBD_CORE_ESTIMATOR_SELECTION_H_
#define CALIBD_CORE_ESTIMATOR_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/calibration_function.h"
#include "calibd/core/lens.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Which estimator of the squared calibration error suits the data, and its estimate. Source: Gruber
// & Bach 2025, Algorithm 1; the comparison by the excess over h = 0 is not in the paper, whose
// plain risks hardly tell estimators apart.

enum class EstimatorKind {
  // 15 bins of equal width, and a number of bins that is tuned. Like kDebiasedBins, not for the
  // canonical lens.
  kFifteenBins,
  kBins,
  // Kernel density estimate; its parameter is the bandwidth.
  kKernelDensity,
  // Kernel ridge regression of the products of residuals, and of the residuals; the parameter is
  // the strength of the penalty.
  kProductRidge,
  kFunctionRidge,
  // Bins with equal numbers of rows and without the bias of their noise; the parameter is their
  // number. Not in the paper, which mentions it.
  kDebiasedBins,
};

// An estimator and the values of its parameter that are tried, ascending, at least one.
struct EstimatorGrid {
  EstimatorKind kind = EstimatorKind::kBins;
  std::vector<double> values;
};

// The estimators that suit the lens, with the grids of the paper's appendix.
[[nodiscard]] std::vector<EstimatorGrid> DefaultEstimators(const Lens& lens);

struct SelectionOptions {
  // One with HasEstimators. With class_wise, all squared errors and risks are means over the
  // classes, and the classes share the parameters.
  Lens lens = Lens::TopLabel();
  std::vector<EstimatorGrid> estimators = DefaultEstimators(Lens::TopLabel());
  // At least 2.
  std::size_t folds = 5;
  // Share of the rows that only the final estimates use, in (0, 1).
  double test_share = 0.2;
  // The seed of the permutation of the rows and of the replicates. If unset, the rows keep their
  // order, and the replicates have the seed 0.
  std::optional<std::uint64_t> seed;
  // The number of replicates of SelectionResult::simulation, in [kMinReplicates, kMaxReplicates],
  // or 0 for no simulation.
  std::int32_t replicates = 0;
  // At most this many folds or replicates are computed at the same time, >= 1: fewer need less
  // memory. The result does not depend on it.
  std::size_t most_at_once = std::numeric_limits<std::size_t>::max();
};

// The standard error of the excess is too small for few rows. With 2 rows in each fold it is 0, and
// 7 of 10 calibrated models would have an estimator that is better than 0. From 8 rows on it is 1
// of 20 (simulated with all default estimators). With fewer, no estimator is better or worse.
inline constexpr std::size_t kMinComparedRows = 8;

struct EstimatorResult {
  EstimatorKind kind = EstimatorKind::kBins;
  // The values that were tried; without penalties too weak for double precision.
  std::vector<double> grid;
  // For each of them the mean over folds of the risk in the fold that was left out.
  std::vector<double> mean_risks;
  // Index in the grid of the smallest mean risk, the first one on ties.
  std::size_t best = 0;
  // The mean over folds of the root of the risk, and sd / sqrt(folds).
  double root_risk = 0;
  double root_risk_standard_error = 0;
  // The mean over folds of R(h) - R(0), negative if the estimator is better than 0, and its
  // standard error. It is chosen as the smallest of its grid by the same folds, which flatters long
  // grids.
  double excess = 0;
  double excess_standard_error = 0;
  // The mean over the fits of the folds of the estimate on the test part; may be negative.
  double squared_error = 0;
  std::vector<double> fold_squared_errors;
  // The root of squared_error, 0 if that is negative; and sd / sqrt(folds) of the roots of the
  // folds: how much the fit varies. It is no confidence interval, because the folds overlap and
  // share the test part.
  double error = 0;
  double error_standard_error = 0;
  // True if the excess is within 2 standard errors, of their difference, of that of the chosen one,
  // or if the estimators are not comparable.
  bool as_good_as_chosen = false;
  // Whether each fold has the rows that a comparison needs: kMinComparedRows.
  bool comparable = false;

  [[nodiscard]] bool better_than_zero() const noexcept {
    return comparable && excess < -2 * excess_standard_error;
  }
  [[nodiscard]] bool worse_than_zero() const noexcept {
    return comparable && excess > 2 * excess_standard_error;
  }
};

struct SelectionResult {
  // In the order of the options.
  std::vector<EstimatorResult> estimators;
  // Index of the estimator with the smallest excess.
  std::size_t chosen = 0;
  // False: no estimator is better than saying that the error is 0.
  bool any_better_than_zero = false;
  std::size_t tuning_rows = 0;
  std::size_t test_rows = 0;
  // The exact test by labels that are drawn from the predictions (NullHypothesis::kForecast), and
  // the noise floor. The statistic is the squared_error of the chosen estimator. Each replicate
  // tunes and chooses anew: a choice that fits the observed labels and is then kept makes the test
  // reject too often.
  std::optional<ResamplingResult> simulation;
};

// The smallest number of rows with 2 tuning rows for each fold and a test row; beyond 1e9, a lower
// bound. options: valid.
[[nodiscard]] std::size_t MinSelectionObservations(const SelectionOptions& options);

// Errors: FailedPrecondition for fewer than MinSelectionObservations rows; InvalidArgument,
// beginning with the option, if an option is invalid; Cancelled, which control.cancelled must
// report from then on. Cost: see SelectionOperations; no n x n matrix.
[[nodiscard]] absl::StatusOr<SelectionResult> SelectEstimator(const PredictionBatch& batch,
                                                              const SelectionOptions& options,
                                                              const RunControl& control = {});

// Approximate number of multiplications, and of bytes in addition to the batch. n rows of m
// classes.
[[nodiscard]] double SelectionOperations(std::size_t n, std::size_t m,
                                         const SelectionOptions& options);
[[nodiscard]] double SelectionMemory(std::size_t n, std::size_t m, const SelectionOptions& options,
                                     std::size_t threads);

}  // namespace calibd

#endif  // CALIBD_CORE_ESTIMATOR_SELECTION_H_
