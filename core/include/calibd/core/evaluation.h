#ifndef CALIBD_CORE_EVALUATION_H_
#define CALIBD_CORE_EVALUATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/cme.h"
#include "calibd/core/consistency_resampling.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/individual_calibration.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/reliability.h"
#include "calibd/core/run_control.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/scores.h"
#include "calibd/core/skce.h"

namespace calibd {

// The full evaluation of one batch: each lens with its estimates, test and noise floor, the running
// estimators over the batch, scores, binned errors, reliability diagrams, and the tests that reject
// too often.

// EvaluationOptions::test_rows of requests that do not state it.
inline constexpr std::size_t kDefaultTestRows = 10000;

struct EvaluationOptions {
  struct LensAndKernel {
    Lens lens = Lens::Canonical();
    // The kernel for this lens, see KernelOfLens.
    KernelSpec kernel;
  };
  // The block estimators use the first lens.
  std::vector<LensAndKernel> lenses = {{}};
  // Each in [2, 1000].
  std::vector<std::size_t> block_sizes = {2, 10, 100};
  Precision precision = Precision::kFloat64;
  // Replicates of the test of each lens, in [99, 100000], or 0 for no test.
  std::int32_t replicates = kDefaultReplicates;
  // The seed of all random draws.
  std::uint64_t seed = 0;
  // What costs more than a few passes over the rows uses the rows of DrawTestRows: the estimates
  // and tests of the lenses, consistency resampling, and the tests of decisions. At least 2; all by
  // default.
  std::size_t test_rows = std::numeric_limits<std::size_t>::max();
  // The null hypothesis of the tests of the lenses and of consistency resampling. With kForecast
  // the tests of the block estimators are simulated too, with `replicates` replicates, if all rows
  // are tested. kPearson is only for the tests of the lenses: the others are those of kForecast.
  NullHypothesis null = NullHypothesis::kForm;
  std::vector<BinnedErrorSpec> binned_errors = {TopLabelBins{}, ClassWiseBins{}, UniformBins{},
                                                MedianVarianceBins{.min_size = 100}};
  // Replicates of consistency resampling with the first binned error, in [99, 100000], or 0 for no
  // resampling.
  std::int32_t consistency_replicates = 0;
  // J of the CME test of each lens of one part with a real-valued kernel, in [1, 256], or 0
  // for none. It is simulated with `replicates` replicates, and left out without.
  std::size_t cme_test_locations = 0;
  // Classes with a reliability diagram, in addition to that of the top label.
  std::vector<std::size_t> reliability_classes;
  // The level and the replicates of the bands of reliability diagrams.
  double band_level = 0.9;
  std::int32_t band_replicates = 399;
  // Only the reliability diagrams are computed. The options of all else have no effect.
  bool reliability_only = false;
  // All intervals of the error hold together at these levels. With Looks::kOneInOrder a prediction
  // may have been made from labels of earlier rows, as with online learning or a feature such as
  // yesterday's outcome; the rows must then be in the order of time.
  ErrorLevels error_levels = kOneLookErrorLevels;
  // The loss of TestDecisions, a x m; empty: no decision.
  std::vector<double> loss;
};

inline constexpr std::size_t kMaxActions = 1000;

inline constexpr std::size_t kMaxReliabilityClasses = 100;

// The reliability of the predicted probabilities of one event.
struct EventReliability {
  // The class of the event; unset for the event that the predicted class is the label.
  std::optional<std::size_t> class_index;
  std::vector<ReliabilityBin> bins;
  CorpReliability corp;
  // Decompositions of the scalar Brier score, over 15 uniform bins and by isotonic regression.
  MurphyDecomposition murphy;
  CorpDecomposition brier;
};

struct Evaluation {
  std::size_t n = 0;
  // The number of rows that the lenses, the consistency test and the decision use.
  std::size_t tested = 0;
  std::vector<RunningBlock> blocks;
  // The simulated test of each block estimate; empty without simulation.
  std::vector<ResamplingResult> block_tests;
  struct OneLens {
    Lens lens = Lens::Canonical();
    // The result, or FailedPrecondition. The result of the first lens is always present.
    absl::StatusOr<LensTestResult> result;
    // FailedPrecondition: too few observations, or deviations that do not vary.
    std::optional<absl::StatusOr<CmeTestResult>> cme;
  };
  // Empty with reliability_only.
  std::vector<OneLens> lenses;
  Scores scores;
  // At error_levels.
  ErrorIntervals error;
  // The Brier score of all classes by isotonic regression, summed over classes.
  CorpDecomposition brier;
  struct OneBinnedError {
    BinnedErrorSpec spec;
    BinnedError error;
    // One a class for ClassWiseBins of at most kMaxReportedClasses classes.
    std::vector<BinnedError> classes;
  };
  std::vector<OneBinnedError> binned_errors;
  std::optional<ConsistencyTestResult> consistency;
  // The top label first.
  std::vector<EventReliability> reliability;
  std::optional<DecisionTestResult> decision;
  // The row, from 1, at which labels of neighbouring rows were found to go together more than the
  // predictions say; 0 if they were not. See SerialDependence.
  std::int64_t dependence_found_at = 0;
};

// batch: valid, n >= 2. control.progress receives the completed fraction of the time;
// on_stage receives the name of the next stage.
// Errors: InvalidArgument naming the option; FailedPrecondition naming the number of observations
// that is needed; Cancelled.
// Cost: EvaluationOperations; memory EvaluationMemory.
[[nodiscard]] absl::StatusOr<Evaluation> Evaluate(
    const PredictionBatch& batch, const EvaluationOptions& options, const RunControl& control = {},
    const std::function<void(const std::string& stage)>& on_stage = {});

// The rows that Evaluate tests: all n of them if test_rows is at least n, and otherwise test_rows
// of them, drawn without replacement. Every set of so many rows has the same probability.
// Ascending, counted from 0. Cost: O(n).
[[nodiscard]] std::vector<std::size_t> DrawTestRows(std::size_t n, std::size_t test_rows,
                                                    std::uint64_t seed);

// Errors: InvalidArgument naming the option that does not fit a model of m classes.
[[nodiscard]] absl::Status CheckEvaluation(const EvaluationOptions& options,
                                           std::size_t class_count);

// TestIndividual with the rows of DrawTestRows, by labels drawn from the predictions. features: n x
// feature_count, row-major, finite. Errors: those of TestIndividual.
[[nodiscard]] absl::StatusOr<IndividualTestResult> EvaluateIndividual(
    const PredictionBatch& batch, std::span<const double> features, std::size_t feature_count,
    const EvaluationOptions& options, const RunControl& control = {});

// See LensTestMemory and LensTestOperations.
[[nodiscard]] double EvaluationMemory(std::size_t n, std::size_t class_count,
                                      const EvaluationOptions& options,
                                      std::size_t threads) noexcept;
[[nodiscard]] double EvaluationOperations(std::size_t n, std::size_t class_count,
                                          const EvaluationOptions& options) noexcept;
// See LensTestSeconds.
[[nodiscard]] double EvaluationSeconds(std::size_t n, std::size_t class_count,
                                       const EvaluationOptions& options) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_EVALUATION_H_
