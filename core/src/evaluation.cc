#include "calibd/core/evaluation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "binned_error_rows.h"
#include "calibd/core/binary_predictions.h"

namespace calibd {
namespace {

constexpr std::size_t kMurphyBins = 15;

// Approximate number of multiplications of the stages that do not belong to a lens.
double BinnedOperations(double n, double m, const BinnedErrorSpec& spec) {
  const double splits = std::holds_alternative<MedianVarianceBins>(spec) ? std::log2(n + 1) : 1;
  return 8 * n * m * splits;
}

double ReliabilityOperations(double n, const EvaluationOptions& options) {
  return 8 * n * (options.band_replicates + 2 * std::log2(n + 1));
}

double CmeOperations(double n, double m, const EvaluationOptions& options) {
  const auto locations = static_cast<double>(options.cme_test_locations);
  return n * locations * (2 * m + locations) + locations * locations * locations;
}

double BlockOperations(double n, std::size_t class_count, const EvaluationOptions& options) {
  const auto& [lens, kernel] = options.lenses.front();
  return n *
         RunningLens::OperationsPerRow(lens, class_count, options.block_sizes, kernel.matrix.get());
}

// Divides the progress among the stages in proportion to their operations.
class Stages {
 public:
  Stages(const RunControl& control, double total,
         const std::function<void(const std::string&)>& on_stage)
      : control_(control), total_(total), on_stage_(on_stage) {}

  // Errors: Cancelled.
  absl::StatusOr<RunControl> Begin(const std::string& name, double operations) {
    if (absl::Status status = control_.CheckCancelled(); !status.ok()) return status;
    if (on_stage_) on_stage_(name);
    RunControl control = control_;
    const double begin = done_ / total_;
    done_ += operations;
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
          .seed = options.seed};
}

absl::Status EvaluateLenses(const PredictionBatch& batch, const EvaluationOptions& options,
                            Stages& stages, Evaluation& evaluation) {
  for (const auto& [lens, kernel] : options.lenses) {
    const LensTestOptions test = TestOptions(options, kernel);
    const absl::StatusOr<RunControl> control =
        stages.Begin(lens.name(), LensTestOperations(batch.size(), batch.class_count, lens, test));
    if (!control.ok()) return control.status();
    absl::StatusOr<LensTestResult> result = TestLens(batch, lens, test, *control);
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
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(first.lens, batch.class_count, first.result->kernel, options.block_sizes);
  if (!running.ok()) return running.status();
  for (std::size_t i = 0; i < batch.size(); i += rows_per_check) {
    if (absl::Status status = control.CheckCancelled(); !status.ok()) return status;
    running->Add(batch.rows(i, std::min(rows_per_check, batch.size() - i)));
  }
  evaluation.blocks = running->Blocks();
  return absl::OkStatus();
}

absl::Status EvaluateScores(const PredictionBatch& batch, const RunControl& control,
                            Evaluation& evaluation) {
  const absl::StatusOr<Scores> scores = ComputeScores(batch);
  if (!scores.ok()) return scores.status();
  evaluation.scores = *scores;
  const absl::StatusOr<CorpDecomposition> brier = DecomposeCorpClassWise(batch, control);
  if (!brier.ok()) return brier.status();
  evaluation.brier = *brier;
  return absl::OkStatus();
}

absl::Status EvaluateBinnedError(const PredictionBatch& batch, const BinnedErrorSpec& spec,
                                 Evaluation& evaluation) {
  const absl::StatusOr<BinnedError> error = EstimateBinnedError(batch, spec);
  if (!error.ok()) return error.status();
  Evaluation::OneBinnedError& out = evaluation.binned_errors.emplace_back();
  out.spec = spec;
  out.error = *error;
  const auto* const class_wise = std::get_if<ClassWiseBins>(&spec);
  if (class_wise != nullptr && batch.class_count <= kMaxReportedClasses) {
    absl::StatusOr<std::vector<BinnedError>> classes = EstimateClassWiseError(batch, *class_wise);
    if (!classes.ok()) return classes.status();
    out.classes = *std::move(classes);
  }
  return absl::OkStatus();
}

absl::StatusOr<EventReliability> EvaluateReliability(const BinaryPredictions& predictions,
                                                     std::optional<std::size_t> class_index,
                                                     const EvaluationOptions& options,
                                                     const RunControl& control) {
  EventReliability reliability;
  reliability.class_index = class_index;
  absl::StatusOr<std::vector<ReliabilityBin>> bins =
      BinnedReliability(predictions, {.bins = 0, .level = options.band_level});
  if (!bins.ok()) return bins.status();
  absl::StatusOr<CorpReliability> corp = EstimateCorpReliability(
      predictions,
      {.level = options.band_level, .replicates = options.band_replicates, .seed = options.seed},
      control);
  if (!corp.ok()) return corp.status();
  const absl::StatusOr<MurphyDecomposition> murphy = DecomposeByBins(predictions, kMurphyBins);
  if (!murphy.ok()) return murphy.status();
  const absl::StatusOr<CorpDecomposition> brier = DecomposeCorp(predictions);
  if (!brier.ok()) return brier.status();
  reliability.bins = *std::move(bins);
  reliability.corp = *std::move(corp);
  reliability.murphy = *murphy;
  reliability.brier = *brier;
  return reliability;
}

absl::StatusOr<CmeTestResult> RunCmeTest(const PredictionBatch& batch, const Lens& lens,
                                         const EvaluationOptions& options, const Kernel& kernel,
                                         const RunControl& control) {
  const absl::StatusOr<LensBatch> seen = ApplyLens(batch, lens);
  if (!seen.ok()) return seen.status();
  const PredictionBatch part = seen->parts.front().view();
  const absl::StatusOr<PredictionSet> locations =
      DrawTestLocations(options.cme_test_locations, part.class_count, options.seed);
  if (!locations.ok()) return locations.status();
  return CmeTest(part, kernel, locations->view(), control);
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
    const absl::StatusOr<RunControl> stage =
        stages.Begin("CME test", CmeOperations(size, m, options));
    if (!stage.ok()) return stage.status();
    absl::StatusOr<CmeTestResult> cme = RunCmeTest(batch, one.lens, options, *kernel, *stage);
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

absl::Status CheckEvaluation(const EvaluationOptions& options, std::size_t class_count) {
  if (options.lenses.empty()) {
    return absl::InvalidArgumentError("lenses is empty, expected at least 1");
  }
  for (const auto& [lens, kernel] : options.lenses) {
    if (absl::Status status = lens.Check(class_count); !status.ok()) return status;
    if (kernel.matrix != nullptr) continue;
    if (absl::Status status = CheckKernelRule(kernel.rule, class_count); !status.ok()) {
      return status;
    }
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
  for (absl::Status status :
       {CheckReplicates("replicates", options.replicates),
        CheckReplicates("consistency_replicates", options.consistency_replicates)}) {
    if (!status.ok()) return status;
  }
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
  for (const std::size_t k : options.reliability_classes) {
    if (k >= class_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("reliability_classes holds ", k, ", expected [0, ", class_count, ")"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Evaluation> Evaluate(const PredictionBatch& batch, const EvaluationOptions& options,
                                    const RunControl& control,
                                    const std::function<void(const std::string&)>& on_stage) {
  const std::size_t n = batch.size();
  if (absl::Status status = CheckEvaluation(options, batch.class_count); !status.ok()) {
    return status;
  }
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(batch.class_count);
  Stages stages(control, EvaluationOperations(n, batch.class_count, options), on_stage);
  Evaluation evaluation;
  evaluation.n = n;
  if (absl::Status status = EvaluateLenses(batch, options, stages, evaluation); !status.ok()) {
    return status;
  }

  absl::StatusOr<RunControl> stage =
      stages.Begin("blocks", BlockOperations(size, batch.class_count, options));
  if (!stage.ok()) return stage.status();
  if (absl::Status status = EvaluateBlocks(batch, options, *stage, evaluation); !status.ok()) {
    return status;
  }

  stage = stages.Begin("scores", BinnedOperations(size, m, MedianVarianceBins{}));
  if (!stage.ok()) return stage.status();
  if (absl::Status status = EvaluateScores(batch, *stage, evaluation); !status.ok()) return status;

  for (const BinnedErrorSpec& spec : options.binned_errors) {
    // With too few observations, median-variance bins do not exist.
    const auto* const bins = std::get_if<MedianVarianceBins>(&spec);
    if (bins != nullptr && n < bins->min_size) continue;
    stage = stages.Begin("binned errors", BinnedOperations(size, m, spec));
    if (!stage.ok()) return stage.status();
    if (absl::Status status = EvaluateBinnedError(batch, spec, evaluation); !status.ok()) {
      return status;
    }
  }

  for (std::size_t r = 0; r <= options.reliability_classes.size(); ++r) {
    stage = stages.Begin("reliability", ReliabilityOperations(size, options));
    if (!stage.ok()) return stage.status();
    std::optional<std::size_t> class_index;
    absl::StatusOr<BinaryPredictions> predictions = BinaryPredictions{};
    if (r == 0) {
      predictions = TopLabelPredictions(batch);
    } else {
      class_index = options.reliability_classes[r - 1];
      predictions = ClassPredictions(batch, *class_index);
    }
    if (!predictions.ok()) return predictions.status();
    absl::StatusOr<EventReliability> reliability =
        EvaluateReliability(*predictions, class_index, options, *stage);
    if (!reliability.ok()) return reliability.status();
    evaluation.reliability.push_back(*std::move(reliability));
  }

  const auto* const splits = options.binned_errors.empty()
                                 ? nullptr
                                 : std::get_if<MedianVarianceBins>(&options.binned_errors.front());
  const bool first_exists = splits == nullptr || n >= splits->min_size;
  if (options.consistency_replicates != 0 && first_exists) {
    const BinnedErrorSpec& spec = options.binned_errors.front();
    stage = stages.Begin("consistency resampling",
                         options.consistency_replicates * BinnedOperations(size, m, spec));
    if (!stage.ok()) return stage.status();
    absl::StatusOr<ConsistencyTestResult> consistency = ConsistencyTest(
        batch, spec, {.replicates = options.consistency_replicates, .seed = options.seed}, *stage);
    if (!consistency.ok()) return consistency.status();
    evaluation.consistency = *std::move(consistency);
  }

  if (options.cme_test_locations != 0) {
    const absl::Status status = EvaluateCmeTests(batch, options, stages, evaluation);
    if (!status.ok()) return status;
  }
  if (control.progress) control.progress(1);
  return evaluation;
}

double EvaluationMemory(std::size_t n, std::size_t class_count, const EvaluationOptions& options,
                        std::size_t threads) noexcept {
  const auto size = static_cast<double>(n);
  double most = 0;
  for (const auto& [lens, kernel] : options.lenses) {
    most =
        std::max(most, LensTestMemory(n, class_count, lens, TestOptions(options, kernel), threads));
  }
  // Rows that a thread draws, with the bins of them; test locations; bands; blocks.
  const auto m = static_cast<double>(class_count);
  const double rows = static_cast<double>(threads) * (64 * size + 64 * m);
  const double cme = static_cast<double>(options.cme_test_locations) * 8 * (size + m);
  const double bands = static_cast<double>(options.reliability_classes.size() + 1) *
                       (8.0 * options.band_replicates * kMaxBandPoints + 32 * size);
  return std::max({most, rows, cme}) + bands +
         static_cast<double>(RunningLens::MaxMemory(options.lenses.front().lens, class_count,
                                                    options.block_sizes,
                                                    options.lenses.front().kernel.matrix.get()));
}

double EvaluationOperations(std::size_t n, std::size_t class_count,
                            const EvaluationOptions& options) noexcept {
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(class_count);
  double sum =
      BlockOperations(size, class_count, options) + BinnedOperations(size, m, MedianVarianceBins{});
  for (const auto& [lens, kernel] : options.lenses) {
    sum += LensTestOperations(n, class_count, lens, TestOptions(options, kernel));
  }
  for (const BinnedErrorSpec& spec : options.binned_errors) sum += BinnedOperations(size, m, spec);
  if (!options.binned_errors.empty()) {
    sum +=
        options.consistency_replicates * BinnedOperations(size, m, options.binned_errors.front());
  }
  return sum +
         static_cast<double>(options.reliability_classes.size() + 1) *
             ReliabilityOperations(size, options) +
         static_cast<double>(options.lenses.size()) * CmeOperations(size, m, options);
}

}  // namespace calibd
