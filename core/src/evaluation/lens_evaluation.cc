#include "calibd/core/lens_evaluation.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/status/status.h"
#include "calibd/core/fourier_size.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/label_skce.h"
#include "hypothesis/replicates.h"
#include "kernels/matrix_tile_engine.h"

namespace calibd {
namespace {

absl::StatusOr<BootstrapTestResult> Test(const PredictionBatch& batch, const LensBatch& seen,
                                         const RunningKernel& kernel,
                                         const LensTestOptions& options,
                                         const RunControl& control) {
  const MatrixKernel* const matrix = MatrixOf(kernel);
  const auto* const scalar = std::get_if<Kernel>(&kernel);
  const BootstrapOptions bootstrap{
      .replicates = options.replicates, .seed = options.seed, .null = options.null};
  const bool simulates = options.null == NullHypothesis::kForecast;
  if (options.replicates != 0 && options.null == NullHypothesis::kForm) {
    return matrix != nullptr ? BootstrapTest(seen.parts.front().view(), *matrix, bootstrap, control)
                             : BootstrapTest(seen, *scalar, bootstrap, control, options.precision);
  }
  const RunControl stage = simulates ? control.WithoutProgress() : control;
  CALIBD_ASSIGN_OR_RETURN(const QuadraticSkce skce,
                          matrix != nullptr
                              ? EstimateQuadraticSkce(seen.parts.front().view(), *matrix, stage)
                              : EstimateQuadraticSkce(seen, *scalar, stage, options.precision));
  if (options.replicates == 0) return BootstrapTestResult{{}, skce, BootstrapStatistic(skce)};
  if (!simulates) return BootstrapTestResult{{}, skce, skce.unbiased};
  CALIBD_ASSIGN_OR_RETURN(const LabelSkce statistic, LabelSkce::Create(seen, kernel, stage));
  // The labels of one part are drawn from its own predictions; several parts share the classes.
  const PredictionBatch labelled = seen.parts.size() == 1 ? seen.parts.front().view() : batch;
  CALIBD_ASSIGN_OR_RETURN(const ResamplingResult result,
                          SimulateTest(labelled, statistic, bootstrap, control));
  return BootstrapTestResult{result, skce, statistic(LabelledRows(labelled))};
}

absl::StatusOr<NullMoments> Moments(const LensBatch& seen, const RunningKernel& kernel,
                                    const RunControl& control) {
  const MatrixKernel* const matrix = MatrixOf(kernel);
  return matrix != nullptr ? EstimateNullMoments(seen.parts.front().view(), *matrix, control)
                           : EstimateNullMoments(seen, *std::get_if<Kernel>(&kernel), control);
}

bool HasPearsonCurve(const LensTestOptions& options) {
  return options.null == NullHypothesis::kPearson && options.replicates > 0;
}

// The options without the test.
LensTestOptions OnlyEstimates(const LensTestOptions& options) {
  LensTestOptions estimates = options;
  estimates.replicates = 0;
  return estimates;
}

// The test by a Pearson curve.
ResamplingResult CompareWithPearson(double statistic, const NullMoments& moments) {
  const NoiseFloor floor = moments.Unbiased();
  return {.p_value = moments.PearsonPValue(statistic),
          .null = NullHypothesis::kPearson,
          .replicate_mean = floor.mean,
          .replicate_standard_deviation = floor.standard_deviation,
          .replicate_upper_quantile = floor.upper_quantile};
}

bool AreEqual(const PredictionSet& set) {
  const PredictionBatch batch = set.view();
  for (std::size_t i = 1; i < batch.size(); ++i) {
    if (!std::ranges::equal(batch.row(i), batch.row(0))) return false;
  }
  return true;
}

// Computes the results of each single class of a class-wise batch.
absl::Status EstimateClasses(const LensBatch& seen, const Kernel& kernel, const RunControl& control,
                             std::vector<LensTestResult::OneClass>& classes) {
  for (std::size_t k = 0; k < seen.parts.size(); ++k) {
    const PredictionBatch part = seen.parts[k].view();
    CALIBD_ASSIGN_OR_RETURN(
        const QuadraticSkce skce,
        EstimateQuadraticSkce(std::span(&part, 1), seen.weight, kernel, control));
    CALIBD_ASSIGN_OR_RETURN(const NullMoments moments, EstimateNullMoments(part, kernel, control));
    classes.push_back(
        {.class_index = k, .skce = skce, .null_moments = moments.Scaled(seen.weight)});
  }
  if (classes.size() <= kMaxReportedClasses) return absl::OkStatus();
  const auto end = classes.begin() + static_cast<std::ptrdiff_t>(kMaxReportedClasses);
  std::nth_element(classes.begin(), end, classes.end(),
                   [](const auto& a, const auto& b) { return a.skce.unbiased > b.skce.unbiased; });
  classes.erase(end, classes.end());
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return a.class_index < b.class_index; });
  return absl::OkStatus();
}

// True if every part is computed by LineSkce.
bool IsOnLine(std::size_t class_count, const Lens& lens, const LensTestOptions& options) {
  return lens.reduced_class_count(class_count) == 2 && options.kernel.matrix == nullptr &&
         options.kernel.rule.distance != Distance::kSquaredEuclidean;
}

// The width of the factors of a LabelSkce for each observation, and their total rank.
struct FactorSize {
  double width;
  double rank;
};

FactorSize FactorSizeOf(double n, const LensTestOptions& options) {
  const bool exact = n <= static_cast<double>(kMaxExactRows);
  const double width = exact ? n : static_cast<double>(kFourierCount);
  const MatrixKernel* const matrix = options.kernel.matrix.get();
  if (matrix == nullptr) return {width, 1};
  return {width * static_cast<double>(matrix->factors().size()),
          static_cast<double>(matrix->rank())};
}

double SimulationMemory(double n, std::size_t class_count, const Lens& lens,
                        const LensTestOptions& options, std::size_t threads) {
  const auto m = static_cast<double>(lens.reduced_class_count(class_count));
  const auto parts = static_cast<double>(lens.parts(class_count));
  const auto share = static_cast<double>(threads);
  // The cumulative sums of the predictions, and the labels of the threads.
  const double labels = 8 * n * static_cast<double>(class_count) + 8 * share * n;
  if (IsOnLine(class_count, lens, options)) return labels + 32 * n * parts;
  const FactorSize size = FactorSizeOf(n, options);
  // The factors, their centres and the diagonal, twice while they are computed; the sums of the
  // threads.
  return labels + 16 * parts * (n * size.width + 2 * n * m + m * size.width) +
         16 * share * m * size.width;
}

// Of the triples of a Pearson curve: all of them, or as many as the work limit allows.
double TripleOperations(std::size_t n, std::size_t class_count, const Lens& lens) {
  const auto size = static_cast<double>(n);
  const auto width =
      static_cast<double>(lens.parts(class_count) * lens.reduced_class_count(class_count));
  return 4 * std::min(width * size * size * size / 2, std::max(kNullPairWork, 3000 * width));
}

double SimulationOperations(double n, std::size_t class_count, const Lens& lens,
                            const LensTestOptions& options) {
  const auto m = static_cast<double>(lens.reduced_class_count(class_count));
  const auto parts = static_cast<double>(lens.parts(class_count));
  const double draw = 8 * std::log2(static_cast<double>(class_count) + 1);
  if (IsOnLine(class_count, lens, options)) return options.replicates * n * (draw + 8 * parts);
  const FactorSize size = FactorSizeOf(n, options);
  const double factor = n <= static_cast<double>(kMaxExactRows) ? n * n * (n / 3 + 2 * m) : 0;
  return parts * (factor + n * m * size.width) +
         options.replicates * (n * draw + parts * size.width * (n + m * size.rank));
}

}  // namespace

absl::StatusOr<LensTestResult> TestLens(const PredictionBatch& batch, const Lens& lens,
                                        const LensTestOptions& options, const RunControl& control) {
  if (options.kernel.matrix != nullptr && !lens.is_canonical()) {
    return absl::InvalidArgumentError(
        "a matrix-valued kernel is over all classes, expected the canonical lens");
  }
  if (options.kernel.matrix != nullptr && HasPearsonCurve(options)) {
    return absl::InvalidArgumentError(
        "null is pearson, which needs a real-valued kernel: expected form or forecast");
  }
  CALIBD_ASSIGN_OR_RETURN(const LensBatch seen, ApplyLens(batch, lens));
  const PredictionSet& first = seen.parts.front();
  KernelSpec spec = options.kernel;
  const bool is_constant =
      spec.matrix == nullptr && spec.rule.bandwidth.needs_predictions() && AreEqual(first);
  const BandwidthRule any{.kind = BandwidthRule::Kind::kFixed, .fixed = 1, .alpha = {}};
  if (is_constant) spec.rule.bandwidth = any;
  CALIBD_ASSIGN_OR_RETURN(
      const RunningKernel kernel,
      MakeKernel(spec, first.probabilities, first.class_count, control.WithoutProgress()));
  const MatrixKernel* const matrix = MatrixOf(kernel);
  LensTestResult result{.kernel = kernel,
                        .is_constant = is_constant,
                        .bound = matrix != nullptr ? matrix->DistributionFreeBound() : seen.bound,
                        .test = {},
                        .null_moments = {},
                        .classes = {}};
  CALIBD_ASSIGN_OR_RETURN(result.test, Test(batch, seen, kernel, options, control));
  CALIBD_ASSIGN_OR_RETURN(result.null_moments, Moments(seen, kernel, control.WithoutProgress()));
  if (HasPearsonCurve(options)) {
    CALIBD_ASSIGN_OR_RETURN(
        result.null_moments.mean_cube,
        EstimateNullCube(seen, *std::get_if<Kernel>(&kernel), control.WithoutProgress()));
    static_cast<ResamplingResult&>(result.test) =
        CompareWithPearson(result.test.statistic, result.null_moments);
  }
  if (seen.parts.size() > 1) {
    CALIBD_RETURN_IF_ERROR(EstimateClasses(seen, *std::get_if<Kernel>(&kernel),
                                           control.WithoutProgress(), result.classes));
  }
  return result;
}

double LensTestMemory(std::size_t n, std::size_t class_count, const Lens& lens,
                      const LensTestOptions& options, std::size_t threads) noexcept {
  if (HasPearsonCurve(options)) {
    // The rows of the triples.
    const std::size_t width = lens.parts(class_count) * lens.reduced_class_count(class_count);
    return LensTestMemory(n, class_count, lens, OnlyEstimates(options), threads) +
           static_cast<double>(n * width * sizeof(double));
  }
  const std::size_t m = lens.reduced_class_count(class_count);
  const auto size = static_cast<double>(n);
  // The reduced batch and, for the noise floor, its squares.
  double bytes = size * static_cast<double>(lens.parts(class_count)) *
                 static_cast<double>(2 * m * sizeof(double) + sizeof(std::int32_t));
  if (options.kernel.matrix != nullptr) {
    for (const MatrixKernel::Factor& factor : options.kernel.matrix->factors()) {
      bytes += static_cast<double>(QuadraticMemory(n, m)) +
               size * static_cast<double>(factor.rank * sizeof(double));
    }
    // For the pairs of the noise floor.
    bytes += 3 * static_cast<double>(m * m * sizeof(double));
    // A tile of the kernel, of the product and of their sum, and packed residuals.
    const std::size_t values = kTileSize * (3 * kTileSize + options.kernel.matrix->rank() + 4 * m);
    bytes += static_cast<double>(threads * values * sizeof(double));
  }
  if (options.null == NullHypothesis::kForecast && options.replicates > 0) {
    bytes += SimulationMemory(size, class_count, lens, options, threads);
    return bytes + static_cast<double>(BootstrapMemory(n, m, 1, threads));
  }
  return bytes +
         static_cast<double>(BootstrapMemory(n, m, std::max(options.replicates, 1), threads));
}

double LensTestOperations(std::size_t n, std::size_t class_count, const Lens& lens,
                          const LensTestOptions& options) noexcept {
  if (HasPearsonCurve(options)) {
    return LensTestOperations(n, class_count, lens, OnlyEstimates(options)) +
           TripleOperations(n, class_count, lens);
  }
  const auto size = static_cast<double>(n);
  const auto m = static_cast<double>(lens.reduced_class_count(class_count));
  if (options.null == NullHypothesis::kForecast && options.replicates > 0) {
    return LensTestOperations(n, class_count, lens, OnlyEstimates(options)) +
           SimulationOperations(size, class_count, lens, options);
  }
  if (lens.is_scalar() && options.kernel.rule.distance != Distance::kSquaredEuclidean) {
    // One recursion for each part and replicate.
    const auto parts = static_cast<double>(lens.parts(class_count));
    return 8 * size * parts * (options.replicates + 40.0) + (parts > 1 ? 4 * kNullPairWork : 0);
  }
  double pair = 4 * m;
  if (options.kernel.matrix != nullptr) {
    pair = 0;
    for (const MatrixKernel::Factor& factor : options.kernel.matrix->factors()) {
      pair += 3 * m + 2 * static_cast<double>(factor.rank);
    }
  }
  // The statistic, the replicates and the noise floor each make passes over the pairs.
  const double passes = 2 + BootstrapPasses(options.replicates);
  return size * size * static_cast<double>(lens.parts(class_count)) *
             (passes * pair + options.replicates) / 2 +
         (options.kernel.matrix != nullptr ? 4 * std::max(kNullPairWork, 1000 * m * m) : 0);
}

double LensTestSeconds(std::size_t n, std::size_t class_count, const Lens& lens,
                       const LensTestOptions& options) noexcept {
  if (HasPearsonCurve(options)) {
    constexpr double kTripleSeconds = 1.5e-9;
    return LensTestSeconds(n, class_count, lens, OnlyEstimates(options)) +
           kTripleSeconds * TripleOperations(n, class_count, lens);
  }
  // Measured with 1000 to 8000 rows of 2 to 1000 classes.
  constexpr double kPairSeconds = 4.4e-11;
  constexpr double kLineSeconds = 1.1e-9;
  constexpr double kDrawnPairSeconds = 2.3e-10;
  constexpr double kDrawnLineSeconds = 8e-10;
  constexpr double kDistanceSeconds = 2e-9;
  // The null moments of parts use a limited number of pairs.
  constexpr double kNullMomentSeconds = 0.6;
  constexpr double kNullPairSeconds = 1.5e-7;
  const auto size = static_cast<double>(n);
  const bool on_line = IsOnLine(class_count, lens, options);
  if (options.null == NullHypothesis::kForecast && options.replicates > 0) {
    return LensTestSeconds(n, class_count, lens, OnlyEstimates(options)) +
           SimulationOperations(size, class_count, lens, options) *
               (on_line ? kDrawnLineSeconds : kDrawnPairSeconds);
  }
  if (!on_line) return kPairSeconds * LensTestOperations(n, class_count, lens, options);
  const auto parts = static_cast<double>(lens.parts(class_count));
  const bool has_median = options.kernel.rule.bandwidth.needs_predictions();
  return kLineSeconds * 8 * size * parts * (options.replicates + 40.0) +
         (has_median ? kDistanceSeconds * size * size / 2 : 0) +
         (parts > 1 ? std::min(kNullMomentSeconds, kNullPairSeconds * size * size) : 0);
}

}  // namespace calibd
