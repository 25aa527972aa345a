#include "calibd/core/evaluation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/core/status_macros.h"
#include "evaluation/dependent_rows.h"
#include "hypothesis/replicates.h"

namespace calibd {
namespace {

constexpr std::size_t kMurphyBins = 15;

// Approximate number of multiplications of the stages that do not belong to a lens.
double BinnedOperations(double n, double m, const BinnedErrorSpec& spec) {
  const double splits = std::holds_alternative<MedianVarianceBins>(spec) ? std::log2(n + 1) : 1;
  return 8 * n * m * splits;
}

double ReliabilityOperations(double n, const EvaluationOptions& options) {
  // A replicate draws each row, and fits units of rows.
  const double replicate = 2 * n + 6 * std::min(n, static_cast<double>(kMaxBandUnits));
  return options.band_replicates * replicate + 16 * n * std::log2(n + 1);
}

// Of the top label and of the chosen classes.
double DiagramOperations(double n, const EvaluationOptions& options) {
  return static_cast<double>(options.reliability_classes.size() + 1) *
         ReliabilityOperations(n, options);
}

double DecisionOperations(double n, double m, const EvaluationOptions& options) {
  const auto losses = static_cast<double>(options.loss.size());
  const double actions = losses / m;
  // Each replicate sums the losses of the rows, and the residuals of each action given each action.
  return (1.0 + options.replicates) * (n * losses + actions * actions);
}

bool SimulatesBlocks(std::size_t n, const EvaluationOptions& options) {
  return options.null != NullHypothesis::kForm && options.replicates > 0 && n <= options.test_rows;
}

double CmeOperations(double n, double m, const EvaluationOptions& options) {
  const auto locations = static_cast<double>(options.cme_test_locations);
  const double tests = 1.0 + options.replicates;
  return n * locations * (2 * m + tests * locations) + tests * locations * locations * locations;
}

double BlockOperations(double n, std::size_t class_count, const EvaluationOptions& options) {
  const auto& [lens, kernel] = options.lenses.front();
  return n *
         RunningLens::OperationsPerRow(lens, class_count, options.block_sizes, kernel.matrix.get());
}

// Seconds of one CPU with AVX2 for an operation of each stage, measured with 1000 to 8000 rows of 2
// to 1000 classes.
constexpr double kBlockSeconds = 2.2e-10;
constexpr double kBinSeconds = 1e-9;
constexpr double kReliabilitySeconds = 2.6e-9;
constexpr double kDecisionSeconds = 1e-9;
constexpr double kCmeSeconds = 1.1e-9;

// m: classes of the reduced predictions.
double CmeSeconds(double n, double m, const EvaluationOptions& options) {
  return kCmeSeconds * CmeOperations(n, m, options);
}

// A replicate draws a row, and bins it.
double ConsistencySeconds(double n, double m, const EvaluationOptions& options) {
  constexpr double kRowOperations = 50;
  return kBinSeconds * options.consistency_replicates * n * (kRowOperations + m);
}

// Divides the progress among the stages in proportion to their times.
class Stages {
 public:
  Stages(const RunControl& control, double total,
         const std::function<void(const std::string&)>& on_stage)
      : control_(control), total_(total), on_stage_(on_stage) {}

  // Errors: Cancelled.
  absl::StatusOr<RunControl> Begin(const std::string& name, double seconds) {
    CALIBD_RETURN_IF_ERROR(control_.CheckCancelled());
    if (on_stage_) on_stage_(name);
    RunControl control = control_;
    const double begin = done_ / total_;
    done_ += seconds;
    if (control.progress) {
      // Rounding must not exceed the beginning of the next stage.
      control.progress = [progress = control_.progress, begin,
                          end = std::min(1.0, done_ / total_)](double fraction) {
        progress(std::min(end, begin + (end - begin) * fraction));
      };
      control_.progress(std::min(1.0, begin));
    }
    return control;
  }

 private:
  const RunControl& control_;
  const double total_;
  double done_ = 0;
  const std::function<void(const std::string&)>& on_stage_;
};

LensTestOptions TestOptions(const EvaluationOptions& options, const KernelSpec& kernel) {
  return {.kernel = kernel,
          .precision = options.precision,
          .replicates = options.replicates,
          .seed = options.seed,
          .null = options.null};
}

absl::Status EvaluateLenses(const PredictionBatch& batch, const EvaluationOptions& options,
                            Stages& stages, Evaluation& evaluation) {
  for (const auto& [lens, kernel] : options.lenses) {
    const LensTestOptions test = TestOptions(options, kernel);
    CALIBD_ASSIGN_OR_RETURN(
        const RunControl control,
        stages.Begin(lens.name(), LensTestSeconds(batch.size(), batch.class_count, lens, test)));
    absl::StatusOr<LensTestResult> result = TestLens(batch, lens, test, control);
    const bool said_why = absl::IsFailedPrecondition(result.status());
    if (!result.ok() && (evaluation.lenses.empty() || !said_why)) return result.status();
    evaluation.lenses.push_back({.lens = lens, .result = std::move(result), .cme = std::nullopt});
  }
  return absl::OkStatus();
}

absl::Status EvaluateBlocks(const PredictionBatch& batch, const EvaluationOptions& options,
                            const RunControl& control, Evaluation& evaluation) {
  constexpr double kOperationsPerCheck = 1e7;
  const auto rows_per_check = static_cast<std::size_t>(
      1 + kOperationsPerCheck / BlockOperations(1, batch.class_count, options));
  const Evaluation::OneLens& first = evaluation.lenses.front();
  CALIBD_ASSIGN_OR_RETURN(RunningLens running,
                          RunningLens::Create(first.lens, batch.class_count, first.result->kernel,
                                              options.block_sizes));
  for (std::size_t i = 0; i < batch.size(); i += rows_per_check) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    running.Add(batch.rows(i, std::min(rows_per_check, batch.size() - i)));
  }
  evaluation.blocks = running.Blocks();
  return absl::OkStatus();
}

// Tests the block estimators with labels drawn from the predictions.
absl::Status SimulateBlocks(const PredictionBatch& batch, const EvaluationOptions& options,
                            const RunControl& control, Evaluation& evaluation) {
  const Evaluation::OneLens& first = evaluation.lenses.front();
  const auto count = static_cast<double>(options.block_sizes.size());
  for (const std::size_t block_size : options.block_sizes) {
    CALIBD_ASSIGN_OR_RETURN(
        const RunningLens empty,
        RunningLens::Create(first.lens, batch.class_count, first.result->kernel, {&block_size, 1}));
    const auto mean = [&](const LabelledRows& rows) {
      RunningLens running = empty;
      running.Add({batch.probabilities, rows.labels(), batch.class_count});
      return running.Blocks().front().moments.mean;
    };
    RunControl part = control;
    if (control.progress) {
      part.progress = [&control, count, done = static_cast<double>(evaluation.block_tests.size())](
                          double fraction) { control.progress((done + fraction) / count); };
    }
    CALIBD_ASSIGN_OR_RETURN(evaluation.block_tests.emplace_back(),
                            SimulateTest(batch, mean,
                                         {.replicates = options.replicates,
                                          .seed = options.seed,
                                          .null = NullHypothesis::kForecast},
                                         part));
  }
  return absl::OkStatus();
}

absl::Status EvaluateScores(const PredictionBatch& batch, const EvaluationOptions& options,
                            const RunControl& control, Evaluation& evaluation) {
  CALIBD_ASSIGN_OR_RETURN(evaluation.scores, ComputeScores(batch));
  CALIBD_ASSIGN_OR_RETURN(evaluation.brier, DecomposeCorpClassWise(batch, control));
  RunningReliability reliability;
  reliability.Add(batch);
  ReliabilitySums class_1;
  if (batch.class_count == 2) class_1.AddClass(batch, 1);
  evaluation.error = *EventIntervals(reliability, class_1, options.error_levels);
  evaluation.dependence_found_at = DependenceFoundAt(batch);
  return absl::OkStatus();
}

absl::StatusOr<Evaluation::OneBinnedError> EvaluateBinnedError(const PredictionBatch& batch,
                                                               const BinnedErrorSpec& spec) {
  Evaluation::OneBinnedError out{.spec = spec, .error = {}, .classes = {}};
  CALIBD_ASSIGN_OR_RETURN(out.error, EstimateBinnedError(batch, spec));
  const auto* const class_wise = std::get_if<ClassWiseBins>(&spec);
  if (class_wise != nullptr && batch.class_count <= kMaxReportedClasses) {
    CALIBD_ASSIGN_OR_RETURN(out.classes, EstimateClassWiseError(batch, *class_wise));
  }
  return out;
}

// The errors of different bins are computed at the same time.
absl::Status EvaluateBinnedErrors(const PredictionBatch& batch, const EvaluationOptions& options,
                                  Stages& stages, Evaluation& evaluation) {
  const auto size = static_cast<double>(batch.size());
  const auto m = static_cast<double>(batch.class_count);
  std::vector<BinnedErrorSpec> specs;
  double operations = 0;
  for (const BinnedErrorSpec& spec : options.binned_errors) {
    // With too few observations, median-variance bins do not exist.
    const auto* const bins = std::get_if<MedianVarianceBins>(&spec);
    if (bins != nullptr && batch.size() < bins->min_size) continue;
    specs.push_back(spec);
    operations += BinnedOperations(size, m, spec);
  }
  CALIBD_ASSIGN_OR_RETURN(const RunControl stage,
                          stages.Begin("binned errors", kBinSeconds * operations));
  std::vector<absl::StatusOr<Evaluation::OneBinnedError>> errors(specs.size());
  RunLoop(stage.parallel_for, specs.size(),
          [&](std::size_t s) { errors[s] = EvaluateBinnedError(batch, specs[s]); });
  for (absl::StatusOr<Evaluation::OneBinnedError>& error : errors) {
    CALIBD_RETURN_IF_ERROR(error.status());
    evaluation.binned_errors.push_back(*std::move(error));
  }
  return absl::OkStatus();
}

absl::StatusOr<EventReliability> EvaluateReliability(const BinaryPredictions& predictions,
                                                     std::optional<std::size_t> class_index,
                                                     const EvaluationOptions& options,
                                                     const RunControl& control) {
  EventReliability reliability;
  reliability.class_index = class_index;
  CALIBD_ASSIGN_OR_RETURN(reliability.bins,
                          BinnedReliability(predictions, {.bins = 0, .level = options.band_level}));
  CALIBD_ASSIGN_OR_RETURN(reliability.corp,
                          EstimateCorpReliability(predictions,
                                                  {.level = options.band_level,
                                                   .replicates = options.band_replicates,
                                                   .seed = options.seed},
                                                  control));
  CALIBD_ASSIGN_OR_RETURN(reliability.murphy, DecomposeByBins(predictions, kMurphyBins));
  CALIBD_ASSIGN_OR_RETURN(reliability.brier, DecomposeCorp(predictions));
  return reliability;
}

// Adds the diagrams of the top label and of the chosen classes.
absl::Status EvaluateDiagrams(const PredictionBatch& batch, const EvaluationOptions& options,
                              Stages& stages, Evaluation& evaluation) {
  const double operations = ReliabilityOperations(static_cast<double>(batch.size()), options);
  for (std::size_t r = 0; r <= options.reliability_classes.size(); ++r) {
    CALIBD_ASSIGN_OR_RETURN(const RunControl stage,
                            stages.Begin("reliability", kReliabilitySeconds * operations));
    std::optional<std::size_t> class_index;
    if (r > 0) class_index = options.reliability_classes[r - 1];
    CALIBD_ASSIGN_OR_RETURN(const BinaryPredictions predictions,
                            class_index.has_value() ? ClassPredictions(batch, *class_index)
                                                    : TopLabelPredictions(batch));
    CALIBD_ASSIGN_OR_RETURN(evaluation.reliability.emplace_back(),
                            EvaluateReliability(predictions, class_index, options, stage));
  }
  return absl::OkStatus();
}

PredictionSet RowsOf(const PredictionBatch& batch, std::span<const std::size_t> rows) {
  PredictionSet set;
  set.class_count = batch.class_count;
  set.probabilities.reserve(rows.size() * batch.class_count);
  set.labels.reserve(rows.size());
  for (const std::size_t i : rows) {
    const std::span<const double> row = batch.row(i);
    set.probabilities.insert(set.probabilities.end(), row.begin(), row.end());
    set.labels.push_back(batch.labels[i]);
  }
  return set;
}

absl::StatusOr<CmeTestResult> RunCmeTest(const PredictionBatch& batch, const Lens& lens,
                                         const EvaluationOptions& options, const Kernel& kernel,
                                         const RunControl& control) {
  CALIBD_ASSIGN_OR_RETURN(const LensBatch seen, ApplyLens(batch, lens));
  const PredictionBatch part = seen.parts.front().view();
  CALIBD_ASSIGN_OR_RETURN(
      const PredictionSet locations,
      DrawTestLocations(options.cme_test_locations, part.class_count, options.seed));
  return CmeTest(part, kernel, locations.view(),
                 {.replicates = options.replicates, .seed = options.seed}, control);
}

// Runs the CME test for each lens of one part with a real-valued kernel.
absl::Status EvaluateCmeTests(const PredictionBatch& batch, const EvaluationOptions& options,
                              Stages& stages, Evaluation& evaluation) {
  const auto size = static_cast<double>(batch.size());
  for (Evaluation::OneLens& one : evaluation.lenses) {
    const Kernel* const kernel =
        one.result.ok() ? std::get_if<Kernel>(&one.result->kernel) : nullptr;
    if (kernel == nullptr || one.lens.parts(batch.class_count) > 1) continue;
    const auto m = static_cast<double>(one.lens.reduced_class_count(batch.class_count));
    CALIBD_ASSIGN_OR_RETURN(const RunControl stage,
                            stages.Begin("CME test", CmeSeconds(size, m, options)));
    absl::StatusOr<CmeTestResult> cme = RunCmeTest(batch, one.lens, options, *kernel, stage);
    if (!cme.ok() && !absl::IsFailedPrecondition(cme.status())) return cme.status();
    one.cme = std::move(cme);
  }
  return absl::OkStatus();
}

absl::Status CheckReplicates(const char* name, std::int32_t replicates) {
  if (replicates == 0 || (replicates >= kMinReplicates && replicates <= kMaxReplicates)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", replicates, ", expected ",
                                                 kMinReplicates, "..", kMaxReplicates,
                                                 ", or 0 for none"));
}

}  // namespace

std::int64_t DependenceFoundAt(const PredictionBatch& batch) {
  SerialDependence dependence;
  for (std::size_t i = 0; i < batch.size() && dependence.reached_at() == 0; ++i) {
    const std::span<const double> g = batch.row(i);
    dependence.Add(g, batch.labels[i], PredictedClass(g));
  }
  return dependence.reached_at();
}

absl::Status CheckEvaluation(const EvaluationOptions& options, std::size_t class_count) {
  if (options.lenses.empty()) {
    return absl::InvalidArgumentError("lenses is empty, expected at least 1");
  }
  for (const auto& [lens, kernel] : options.lenses) {
    CALIBD_RETURN_IF_ERROR(lens.Check(class_count));
    if (kernel.matrix != nullptr) continue;
    CALIBD_RETURN_IF_ERROR(CheckKernelRule(kernel.rule, class_count));
  }
  if (options.block_sizes.empty()) {
    return absl::InvalidArgumentError("block_sizes is empty, expected at least 1");
  }
  for (const std::size_t block_size : options.block_sizes) {
    if (block_size < kMinBlockSize || block_size > kMaxBlockSize) {
      return absl::InvalidArgumentError(absl::StrCat(
          "block_sizes holds ", block_size, ", expected ", kMinBlockSize, "..", kMaxBlockSize));
    }
  }
  if (options.test_rows < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_rows is ", options.test_rows, ", expected at least 2"));
  }
  CALIBD_RETURN_IF_ERROR(CheckReplicates("replicates", options.replicates));
  CALIBD_RETURN_IF_ERROR(CheckReplicates("consistency_replicates", options.consistency_replicates));
  for (std::size_t i = 0; i < options.binned_errors.size(); ++i) {
    // The size of the sample is checked later, when it is known.
    constexpr auto kAny = static_cast<std::size_t>(-1);
    const absl::Status status = CheckBinnedErrorSpec(options.binned_errors[i], kAny);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("binned_errors[", i, "].", status.message()));
    }
  }
  if (options.consistency_replicates != 0 && options.binned_errors.empty()) {
    return absl::InvalidArgumentError(
        "consistency_replicates is given without binned_errors, expected at least 1 of them");
  }
  if (options.cme_test_locations > kMaxTestLocations) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cme_test_locations is ", options.cme_test_locations, ", expected 0..", kMaxTestLocations));
  }
  if (options.reliability_classes.size() > kMaxReliabilityClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("reliability_classes has ", options.reliability_classes.size(),
                     " classes, expected at most ", kMaxReliabilityClasses));
  }
  if (!options.loss.empty()) {
    CALIBD_RETURN_IF_ERROR(CheckLossMatrix(options.loss, class_count));
    if (options.loss.size() / class_count > kMaxActions) {
      return absl::InvalidArgumentError(absl::StrCat("loss has ", options.loss.size() / class_count,
                                                     " actions, expected at most ", kMaxActions));
    }
  }
  for (const std::size_t k : options.reliability_classes) {
    if (k >= class_count) {
      return absl::InvalidArgumentError(absl::StrCat("reliability_classes holds ",
                                                     static_cast<std::int64_t>(k),
                                                     ", expected 0 to ", class_count - 1));
    }
  }
  return absl::OkStatus();
}

std::vector<std::size_t> DrawTestRows(std::size_t n, std::size_t test_rows, std::uint64_t seed) {
  std::vector<std::size_t> rows;
  if (test_rows >= n) {
    rows.resize(n);
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
  }
  rows.reserve(test_rows);
  // A stream of its own: replicates have small numbers.
  constexpr std::uint64_t kStream = 0x726F7773;
  Rng rng(seed, kStream);
  // Selection sampling (Fan, Muller & Rezucha, JASA 57, 1962): a row is drawn with the probability
  // that makes the expected number of the rest right.
  for (std::size_t i = 0; rows.size() < test_rows; ++i) {
    const auto left = static_cast<double>(n - i);
    if (rng.Uniform() * left < static_cast<double>(test_rows - rows.size())) rows.push_back(i);
  }
  return rows;
}

absl::StatusOr<Evaluation> Evaluate(const PredictionBatch& batch, const EvaluationOptions& options,
                                    const RunControl& control,
                                    const std::function<void(const std::string&)>& on_stage) {
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckEvaluation(options, batch.class_count));
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(batch.class_count);
  Stages stages(control, EvaluationSeconds(n, batch.class_count, options), on_stage);
  Evaluation evaluation;
  evaluation.n = n;
  evaluation.tested = std::min(n, options.test_rows);
  if (options.reliability_only) {
    CALIBD_RETURN_IF_ERROR(EvaluateDiagrams(batch, options, stages, evaluation));
    if (control.progress) control.progress(1);
    return evaluation;
  }
  const bool tests_all = evaluation.tested == n;
  const PredictionSet drawn =
      tests_all ? PredictionSet() : RowsOf(batch, DrawTestRows(n, options.test_rows, options.seed));
  const PredictionBatch tested = tests_all ? batch : drawn.view();
  CALIBD_RETURN_IF_ERROR(EvaluateLenses(tested, options, stages, evaluation));

  CALIBD_ASSIGN_OR_RETURN(
      RunControl stage,
      stages.Begin("blocks", kBlockSeconds * BlockOperations(size, batch.class_count, options)));
  CALIBD_RETURN_IF_ERROR(EvaluateBlocks(batch, options, stage, evaluation));
  if (SimulatesBlocks(n, options)) {
    CALIBD_ASSIGN_OR_RETURN(
        stage, stages.Begin("block tests", kBlockSeconds * options.replicates *
                                               BlockOperations(size, batch.class_count, options)));
    CALIBD_RETURN_IF_ERROR(SimulateBlocks(batch, options, stage, evaluation));
  }

  CALIBD_ASSIGN_OR_RETURN(
      stage, stages.Begin("scores", kBinSeconds * BinnedOperations(size, m, MedianVarianceBins{})));
  CALIBD_RETURN_IF_ERROR(EvaluateScores(batch, options, stage, evaluation));

  CALIBD_RETURN_IF_ERROR(EvaluateBinnedErrors(batch, options, stages, evaluation));

  CALIBD_RETURN_IF_ERROR(EvaluateDiagrams(batch, options, stages, evaluation));

  const auto tested_size = static_cast<double>(tested.size());
  const auto* const splits = options.binned_errors.empty()
                                 ? nullptr
                                 : std::get_if<MedianVarianceBins>(&options.binned_errors.front());
  const bool first_exists = splits == nullptr || tested.size() >= splits->min_size;
  if (options.consistency_replicates != 0 && first_exists) {
    const BinnedErrorSpec& spec = options.binned_errors.front();
    CALIBD_ASSIGN_OR_RETURN(
        stage, stages.Begin("consistency resampling", ConsistencySeconds(tested_size, m, options)));
    CALIBD_ASSIGN_OR_RETURN(
        evaluation.consistency,
        ConsistencyTest(tested, spec,
                        {.replicates = options.consistency_replicates,
                         .seed = options.seed,
                         .null = options.null == NullHypothesis::kForm ? NullHypothesis::kForm
                                                                       : NullHypothesis::kForecast},
                        stage));
  }

  if (!options.loss.empty()) {
    CALIBD_ASSIGN_OR_RETURN(
        stage,
        stages.Begin("decision", kDecisionSeconds * DecisionOperations(tested_size, m, options)));
    CALIBD_ASSIGN_OR_RETURN(evaluation.decision, TestDecisions(tested, options.loss,
                                                               {.replicates = options.replicates,
                                                                .seed = options.seed,
                                                                .null = NullHypothesis::kForecast},
                                                               stage));
  }

  if (options.cme_test_locations != 0 && options.replicates != 0) {
    CALIBD_RETURN_IF_ERROR(EvaluateCmeTests(tested, options, stages, evaluation));
  }
  if (control.progress) control.progress(1);
  return evaluation;
}

absl::StatusOr<IndividualTestResult> EvaluateIndividual(const PredictionBatch& batch,
                                                        std::span<const double> features,
                                                        std::size_t feature_count,
                                                        const EvaluationOptions& options,
                                                        const RunControl& control) {
  const BootstrapOptions test{
      .replicates = options.replicates, .seed = options.seed, .null = NullHypothesis::kForecast};
  if (batch.size() <= options.test_rows) {
    return TestIndividual(batch, features, feature_count, test, control);
  }
  const std::vector<std::size_t> rows = DrawTestRows(batch.size(), options.test_rows, options.seed);
  std::vector<double> drawn;
  drawn.reserve(rows.size() * feature_count);
  for (const std::size_t i : rows) {
    const std::span<const double> row = features.subspan(i * feature_count, feature_count);
    drawn.insert(drawn.end(), row.begin(), row.end());
  }
  return TestIndividual(RowsOf(batch, rows).view(), drawn, feature_count, test, control);
}

double EvaluationMemory(std::size_t n, std::size_t class_count, const EvaluationOptions& options,
                        std::size_t threads) noexcept {
  const auto size = static_cast<double>(n);
  // The bands, and the predictions of one event.
  const double bands = static_cast<double>(options.reliability_classes.size() + 1) *
                       (8.0 * options.band_replicates * kMaxBandPoints + 32 * size);
  if (options.reliability_only) return bands + 64 * size * (1 + static_cast<double>(threads));
  double most = 0;
  for (const auto& [lens, kernel] : options.lenses) {
    most = std::max(most, LensTestMemory(std::min(n, options.test_rows), class_count, lens,
                                         TestOptions(options, kernel), threads));
  }
  // Rows that a thread draws, with their bins, and the cumulative sums; test locations; blocks.
  const auto m = static_cast<double>(class_count);
  const auto tested = static_cast<double>(std::min(n, options.test_rows));
  const double rows = static_cast<double>(threads) * (64 * size + 64 * m) + 8 * size * m;
  const double tables = 1 + 2 * static_cast<double>(threads);
  const double cme = static_cast<double>(options.cme_test_locations) * 8 * tables * (tested + m);
  const double running = SimulatesBlocks(n, options) ? 1.0 + static_cast<double>(threads) : 1.0;
  return std::max({most, rows, cme}) + bands +
         running * static_cast<double>(RunningLens::MaxMemory(
                       options.lenses.front().lens, class_count, options.block_sizes,
                       options.lenses.front().kernel.matrix.get()));
}

double EvaluationOperations(std::size_t n, std::size_t class_count,
                            const EvaluationOptions& options) noexcept {
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(class_count);
  const double diagrams = DiagramOperations(size, options);
  if (options.reliability_only) return diagrams;
  const std::size_t tested = std::min(n, options.test_rows);
  const auto tested_size = static_cast<double>(tested);
  double sum = (SimulatesBlocks(n, options) ? 1.0 + options.replicates : 1.0) *
                   BlockOperations(size, class_count, options) +
               BinnedOperations(size, m, MedianVarianceBins{});
  for (const auto& [lens, kernel] : options.lenses) {
    sum += LensTestOperations(tested, class_count, lens, TestOptions(options, kernel));
  }
  for (const BinnedErrorSpec& spec : options.binned_errors) sum += BinnedOperations(size, m, spec);
  if (!options.binned_errors.empty()) {
    sum += options.consistency_replicates *
           BinnedOperations(tested_size, m, options.binned_errors.front());
  }
  return sum + DecisionOperations(tested_size, m, options) + diagrams +
         static_cast<double>(options.lenses.size()) * CmeOperations(tested_size, m, options);
}

double EvaluationSeconds(std::size_t n, std::size_t class_count,
                         const EvaluationOptions& options) noexcept {
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(class_count);
  const double diagrams = kReliabilitySeconds * DiagramOperations(size, options);
  if (options.reliability_only) return diagrams;
  double bins = BinnedOperations(size, m, MedianVarianceBins{});
  for (const BinnedErrorSpec& spec : options.binned_errors) bins += BinnedOperations(size, m, spec);
  const std::size_t tested = std::min(n, options.test_rows);
  const auto tested_size = static_cast<double>(tested);
  double seconds = 0;
  for (const auto& [lens, kernel] : options.lenses) {
    seconds += LensTestSeconds(tested, class_count, lens, TestOptions(options, kernel));
    if (options.cme_test_locations == 0 || options.replicates == 0) continue;
    if (lens.parts(class_count) > 1 || kernel.matrix != nullptr) continue;
    seconds += CmeSeconds(tested_size, static_cast<double>(lens.reduced_class_count(class_count)),
                          options);
  }
  return seconds +
         kBlockSeconds * (SimulatesBlocks(n, options) ? 1.0 + options.replicates : 1.0) *
             BlockOperations(size, class_count, options) +
         kBinSeconds * bins + ConsistencySeconds(tested_size, m, options) +
         kDecisionSeconds * DecisionOperations(tested_size, m, options) + diagrams;
}

}  // namespace calibd
