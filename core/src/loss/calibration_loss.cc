#include "calibd/core/calibration_loss.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "loss/class_pairs.h"
#include "loss/distribution_matching.h"
#include "loss/kernel_density_error.h"
#include "loss/number_pairs.h"

namespace calibd {
namespace {

// The bound of Scores.log_loss.
constexpr double kMinProbability = 0x1p-52;

// Sums the pairs of forecasts of numbers. The draws of samples are sorted here, and the gradient is
// not.
absl::StatusOr<PairSums> SumNumbers(const ForecastBatch& batch, const LossOptions& options,
                                    const RunControl& control, CalibrationLoss& loss) {
  const AscendingForecasts ascending(batch);
  CALIBD_ASSIGN_OR_RETURN(
      const NumberPairs pairs,
      MakeNumberPairs(ascending.batch(), control, loss.outcome_kernel, loss.condition));
  const double operations = LossPairOperations(batch, options);
  if (!options.gradient) return SumPairs(batch.size(), *pairs.products, operations, control);
  CALIBD_ASSIGN_OR_RETURN(const PairSums sums,
                          SumPairsWithGradient(batch.size(), *pairs.terms, *pairs.condition,
                                               options.biased, operations, loss.gradient, control));
  ascending.RestoreOrder(loss.gradient);
  return sums;
}

// One part of predictions of classes that a lens shows.
struct ClassPart {
  Points shown;
  Points residuals;
  // The class of each row that is shown; empty: all.
  std::vector<std::size_t> columns;
};

ClassPart AllClasses(const PredictionBatch& batch) {
  ClassPart part;
  part.shown = {{batch.probabilities.begin(), batch.probabilities.end()}, batch.class_count};
  part.residuals = part.shown;
  for (double& value : part.residuals.values) value = -value;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    part.residuals.values[i * batch.class_count + static_cast<std::size_t>(batch.labels[i])] += 1;
  }
  return part;
}

// class_of(i): the class that is shown of row i.
template <typename ClassOf>
ClassPart OneClassEach(const PredictionBatch& batch, const ClassOf& class_of) {
  ClassPart part{.shown = {{}, 1}, .residuals = {{}, 1}, .columns = {}};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::size_t k = class_of(i);
    const double probability = batch.row(i)[k];
    part.columns.push_back(k);
    part.shown.values.push_back(probability);
    part.residuals.values.push_back((static_cast<std::size_t>(batch.labels[i]) == k ? 1.0 : 0.0) -
                                    probability);
  }
  return part;
}

// The kernel of the shown predictions; sets the bandwidth if it is chosen. Unset if all predictions
// are equal, or there is only one.
absl::StatusOr<std::optional<Kernel>> MakeClassKernel(const PredictionBatch& batch,
                                                      const Lens& lens,
                                                      ForecastCondition& condition,
                                                      const RunControl& control) {
  const bool squared = condition.distance == Distance::kSquaredEuclidean;
  Distance distance = condition.distance;
  if (lens.is_scalar()) {
    if (!squared) distance = Distance::kCityblock;
    if (!condition.bandwidth.has_value()) {
      condition.bandwidth = squared ? kScalarBandwidth * kScalarBandwidth : kScalarBandwidth;
    }
  } else if (!condition.bandwidth.has_value()) {
    const absl::StatusOr<double> median =
        MedianBandwidth(batch.probabilities, batch.class_count, control, distance);
    if (absl::IsFailedPrecondition(median.status())) return std::nullopt;
    if (!median.ok()) return median.status();
    condition.bandwidth = *median;
  }
  CALIBD_ASSIGN_OR_RETURN(const Kernel kernel, Kernel::Over(distance, *condition.bandwidth));
  return kernel;
}

// The class of row i that part p of a scalar lens shows.
std::size_t ShownClass(const PredictionBatch& batch, const Lens& lens, std::size_t p,
                       std::size_t i) {
  return std::holds_alternative<TopLabelLens>(lens.kind()) ? PredictedClass(batch.row(i)) : p;
}

// The weights of kWeightedMmce; all 0 if all rows are correct, or all are wrong.
std::vector<double> CorrectnessWeights(const PredictionBatch& batch, const ClassPart& part) {
  const std::size_t n = batch.size();
  const auto is_correct = [&](std::size_t i) {
    return static_cast<std::size_t>(batch.labels[i]) == part.columns[i];
  };
  std::size_t correct = 0;
  for (std::size_t i = 0; i < n; ++i) correct += is_correct(i) ? 1U : 0U;
  std::vector<double> weights(n);
  if (correct == 0 || correct == n) return weights;
  for (std::size_t i = 0; i < n; ++i) {
    weights[i] =
        static_cast<double>(n) / static_cast<double>(is_correct(i) ? correct : n - correct);
  }
  return weights;
}

// Sums the pairs of predictions of classes, over the parts of the lens.
absl::StatusOr<PairSums> SumClasses(const PredictionBatch& batch, const ForecastBatch& given,
                                    const LossOptions& options, const RunControl& control,
                                    CalibrationLoss& loss) {
  const std::size_t n = batch.size();
  const bool scalar = options.lens.is_scalar();
  // The MMCE is a mean over all pairs.
  const bool biased = options.biased || IsMmce(options.penalty);
  // Equal and different classes differ by this factor in k_y, see MakeClassTerms.
  double scale = scalar && options.penalty == Penalty::kMmd ? 2 : 1;
  if (options.outcome_kernel.has_value()) {
    const double gamma = std::get<RbfKernel>(*options.outcome_kernel).gamma.value();
    scale *= -std::expm1(scalar ? -gamma : -2 * gamma);
  }
  ConditionPtr fixed;
  std::optional<Kernel> kernel;
  if (auto* const forecast = std::get_if<ForecastCondition>(&loss.condition)) {
    CALIBD_ASSIGN_OR_RETURN(kernel, MakeClassKernel(batch, options.lens, *forecast, control));
    if (!kernel.has_value()) fixed = MakeNoCondition();
  } else {
    CALIBD_ASSIGN_OR_RETURN(fixed, MakeCondition(given, control, loss.condition));
  }
  if (!scalar && kernel.has_value()) {
    return SumClassPairs(batch, *kernel, scale, biased, loss.gradient, control);
  }
  PairSums total;
  std::vector<double> gradient(scalar && options.gradient ? n : 0);
  const std::size_t parts = options.lens.parts(batch.class_count);
  for (std::size_t p = 0; p < parts; ++p) {
    ClassPart part = !scalar ? AllClasses(batch) : OneClassEach(batch, [&](std::size_t i) {
      return ShownClass(batch, options.lens, p, i);
    });
    const ConditionPtr own =
        kernel.has_value() ? MakePointCondition(part.shown, *kernel, 1) : nullptr;
    std::vector<double> weights;
    if (options.penalty == Penalty::kWeightedMmce) weights = CorrectnessWeights(batch, part);
    const auto terms = MakeClassTerms(std::move(part.residuals), scale, std::move(weights));
    const std::span<double> out = scalar ? std::span<double>(gradient) : loss.gradient;
    const ConditionTerms& given_terms = own != nullptr ? *own : *fixed;
    const double operations = LossPairOperations(given, options);
    CALIBD_ASSIGN_OR_RETURN(
        const PairSums sums,
        options.gradient
            ? SumPairsWithGradient(n, *terms, given_terms, biased, operations, out, control)
            : SumPairs(n, *MakeProducts(*terms, given_terms), operations, control));
    total.off_diagonal += sums.off_diagonal;
    total.diagonal += sums.diagonal;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      loss.gradient[i * batch.class_count + part.columns[i]] += gradient[i];
    }
  }
  return total;
}

// The error by a kernel density estimate, summed over the parts of the lens, and its gradient.
absl::Status ComputeDensityError(const PredictionBatch& batch, const LossOptions& options,
                                 const RunControl& control, CalibrationLoss& loss) {
  const bool scalar = options.lens.is_scalar();
  std::vector<KernelDensityError> parts;
  std::vector<std::vector<std::size_t>> columns;
  const std::size_t count = scalar ? options.lens.parts(batch.class_count) : 1;
  for (std::size_t p = 0; p < count; ++p) {
    std::vector<std::size_t> labels(batch.labels.begin(), batch.labels.end());
    if (!scalar) {
      parts.emplace_back(batch.probabilities, batch.class_count, std::move(labels));
      continue;
    }
    ClassPart part =
        OneClassEach(batch, [&](std::size_t i) { return ShownClass(batch, options.lens, p, i); });
    for (std::size_t i = 0; i < batch.size(); ++i) labels[i] = labels[i] == part.columns[i] ? 0 : 1;
    parts.emplace_back(part.shown.values, 1, std::move(labels));
    columns.push_back(std::move(part.columns));
  }
  std::optional<double>& bandwidth = std::get<ForecastCondition>(loss.condition).bandwidth;
  if (!bandwidth.has_value()) {
    const std::vector<double> bandwidths = DensityBandwidths();
    std::vector<double> likelihoods(bandwidths.size());
    for (const KernelDensityError& part : parts) {
      CALIBD_ASSIGN_OR_RETURN(const std::vector<double> own,
                              part.LogLikelihoods(bandwidths, control));
      for (std::size_t h = 0; h < own.size(); ++h) likelihoods[h] += own[h];
    }
    const auto best = std::max_element(likelihoods.begin(), likelihoods.end());
    bandwidth = bandwidths[static_cast<std::size_t>(best - likelihoods.begin())];
  }
  const int norm = options.penalty == Penalty::kKernelDensityL1 ? 1 : 2;
  std::vector<double> gradient(scalar && options.gradient ? batch.size() : 0);
  for (std::size_t p = 0; p < count; ++p) {
    const std::span<double> out = scalar ? std::span<double>(gradient) : loss.gradient;
    CALIBD_ASSIGN_OR_RETURN(const double error, parts[p].Compute(*bandwidth, norm, out, control));
    loss.penalty_value += error;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      loss.gradient[i * batch.class_count + columns[p][i]] += gradient[i];
    }
  }
  return absl::OkStatus();
}

// Sets the penalty and its gradient with respect to the values, or to the probabilities of classes.
absl::Status ComputePenalty(const ForecastBatch& batch, const PredictionBatch& classes,
                            const LossOptions& options, const RunControl& control,
                            CalibrationLoss& loss) {
  if (IsKernelDensity(options.penalty)) return ComputeDensityError(classes, options, control, loss);
  CALIBD_ASSIGN_OR_RETURN(const PairSums sums,
                          batch.predicts_classes()
                              ? SumClasses(classes, batch, options, control, loss)
                              : SumNumbers(batch, options, control, loss));
  const auto size = static_cast<double>(batch.size());
  const double biased = (sums.off_diagonal + sums.diagonal) / size / size;
  if (options.penalty == Penalty::kMmd) {
    loss.penalty_value = options.biased ? biased : sums.off_diagonal / size / (size - 1);
    return absl::OkStatus();
  }
  // Rounding may make a sum of 0 negative.
  loss.penalty_value = std::sqrt(std::max(biased, 0.0));
  const double slope = loss.penalty_value > 0 ? 0.5 / loss.penalty_value : 0;
  for (double& value : loss.gradient) value *= slope;
  return absl::OkStatus();
}

// Replaces derivatives with respect to softmax probabilities by those with respect to the logits.
void ToLogits(const PredictionBatch& batch, std::span<double> gradient) {
  const std::size_t m = batch.class_count;
  for (std::size_t i = 0; i < batch.size() && !gradient.empty(); ++i) {
    const std::span<const double> q = batch.row(i);
    const std::span<double> g = gradient.subspan(i * m, m);
    const double mean = std::inner_product(q.begin(), q.end(), g.begin(), 0.0);
    for (std::size_t k = 0; k < m; ++k) g[k] = q[k] * (g[k] - mean);
  }
}

// The negative log likelihood of row i. gradient: n x width, to which `weight` times the derivative
// is added; or empty. log_sum: of the exponentials of the logits.
double ClassLikelihood(const ForecastBatch& batch, std::size_t i, std::span<const double> q,
                       double log_sum, double weight, std::span<double> gradient) {
  const auto y = static_cast<std::size_t>(batch.labels[i]);
  const std::span<double> row =
      gradient.empty() ? gradient : gradient.subspan(i * batch.width, batch.width);
  if (batch.kind == ForecastKind::kLogits) {
    for (std::size_t k = 0; k < row.size(); ++k) row[k] += weight * (q[k] - (k == y ? 1.0 : 0.0));
    return log_sum - batch.row(i)[y];
  }
  if (!row.empty() && q[y] >= kMinProbability) row[y] -= weight / q[y];
  return -std::log(std::max(q[y], kMinProbability));
}

double NormalLikelihood(const ForecastBatch& batch, std::size_t i, double weight,
                        std::span<double> gradient) {
  const double sd = batch.row(i)[1];
  const double t = (batch.outcomes[i] - batch.row(i)[0]) / sd;
  if (!gradient.empty()) {
    gradient[2 * i] -= weight * t / sd;
    gradient[2 * i + 1] += weight * (1 - t * t) / sd;
  }
  return std::log(sd) + 0.5 * t * t + 0.5 * std::log(2 * std::numbers::pi);
}

// Whether a gamma is chosen as a median over the pairs.
bool NeedsMedian(const ForecastBatch& batch, const LossOptions& options) {
  if (const auto* const features = std::get_if<FeatureCondition>(&options.condition)) {
    if (!features->gamma.has_value()) return true;
  }
  if (batch.predicts_classes()) return false;
  const auto* const forecast = std::get_if<ForecastCondition>(&options.condition);
  if (forecast != nullptr && !forecast->gamma.has_value()) return true;
  if (!options.outcome_kernel.has_value()) return true;
  const auto* const rbf = std::get_if<RbfKernel>(&*options.outcome_kernel);
  return rbf != nullptr && !rbf->gamma.has_value();
}

absl::Status CheckFinite(const CalibrationLoss& loss) {
  const bool finite =
      std::isfinite(loss.value) && std::all_of(loss.gradient.begin(), loss.gradient.end(),
                                               [](double g) { return std::isfinite(g); });
  if (finite) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the loss of these rows, or its gradient, exceeds the range of double: give the forecasts in "
      "another unit");
}

}  // namespace

absl::StatusOr<CalibrationLoss> ComputeLoss(const ForecastBatch& batch, const LossOptions& options,
                                            const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckLossOptions(batch, options));
  const std::size_t n = batch.size();
  if (n < 2 && !options.biased && !IsMmce(options.penalty)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "not enough data: ", n, " row, ",
        IsKernelDensity(options.penalty) ? "a kernel density" : "the unbiased estimator",
        " needs 2"));
  }
  CalibrationLoss loss;
  loss.penalty = options.penalty;
  loss.outcome_kernel = options.outcome_kernel;
  loss.condition = options.condition;
  if (options.gradient) loss.gradient.resize(batch.values.size());
  std::vector<double> probabilities;
  std::vector<double> log_sums(n);
  if (batch.predicts_classes()) {
    probabilities.assign(batch.values.begin(), batch.values.end());
    for (std::size_t i = 0; i < n && batch.kind == ForecastKind::kLogits; ++i) {
      log_sums[i] = Softmax(std::span(probabilities).subspan(i * batch.width, batch.width));
    }
  }
  const PredictionBatch classes{probabilities, batch.labels, batch.width};
  CALIBD_RETURN_IF_ERROR(ComputePenalty(batch, classes, options, control, loss));
  const auto size = static_cast<double>(n);
  loss.value = loss.penalty_value;
  if (batch.kind == ForecastKind::kLogits) ToLogits(classes, loss.gradient);
  if (options.penalty_weight.has_value()) {
    for (double& value : loss.gradient) value *= *options.penalty_weight;
    double likelihood = 0;
    for (std::size_t i = 0; i < n; ++i) {
      likelihood += batch.predicts_classes() ? ClassLikelihood(batch, i, classes.row(i),
                                                               log_sums[i], 1 / size, loss.gradient)
                                             : NormalLikelihood(batch, i, 1 / size, loss.gradient);
    }
    loss.negative_log_likelihood = likelihood / size;
    loss.value = *loss.negative_log_likelihood + *options.penalty_weight * loss.penalty_value;
  }
  CALIBD_RETURN_IF_ERROR(CheckFinite(loss));
  return loss;
}

double LossMemory(const ForecastBatch& batch, const LossOptions& options) noexcept {
  const auto n = static_cast<double>(batch.size());
  const auto values = static_cast<double>(batch.values.size());
  const auto* const features = std::get_if<FeatureCondition>(&options.condition);
  const double points = features != nullptr ? static_cast<double>(features->values.size()) : values;
  // The distances of the pairs, or the buffers of MedianBandwidth.
  const double median = NeedsMedian(batch, options) ? sizeof(double) * n * n / 2
                        : batch.predicts_classes()  ? 1 << 24
                                                    : 0;
  // Kernels of some rows with all others in each thread, of which there are at most 64.
  const double density = IsKernelDensity(options.penalty) ? 64 * 64 * n + 8 * values : 0;
  const bool has_tiles = batch.predicts_classes() && options.lens.is_canonical();
  const double tiles = has_tiles ? ClassGradientMemory(batch.size(), batch.width) : 0;
  return median + tiles + sizeof(double) * (density + 8 * values + 2 * points + 16 * n);
}

double LossPairOperations(const ForecastBatch& batch, const LossOptions& options) noexcept {
  const auto width = static_cast<double>(batch.width);
  if (IsKernelDensity(options.penalty)) {
    const double columns = options.lens.is_canonical() ? width : 2;
    return 60 + 4 * columns;
  }
  const double condition =
      std::holds_alternative<FeatureCondition>(options.condition)
          ? 3 * static_cast<double>(std::get<FeatureCondition>(options.condition).values.size()) /
                static_cast<double>(batch.size())
          : 3 * width;
  if (batch.predicts_classes()) {
    return options.lens.is_canonical() ? 30 + condition + 3 * width : 30 + condition / width;
  }
  if (batch.kind == ForecastKind::kQuantiles) return 30 + condition + 3 * width;
  const bool exponential =
      !options.outcome_kernel.has_value() || options.outcome_kernel->index() == 0;
  if (batch.kind == ForecastKind::kNormal) {
    const bool energy =
        !exponential && std::holds_alternative<EnergyKernel>(*options.outcome_kernel);
    const bool is_special = (exponential || energy) && !options.gradient &&
                            (std::holds_alternative<ForecastCondition>(options.condition) ||
                             std::holds_alternative<NoCondition>(options.condition));
    // See MakeNormalProducts.
    return is_special ? 15 : 100 + condition;
  }
  return 30 + condition + (exponential ? 40 : 3) * width * width;
}

double LossOperations(const ForecastBatch& batch, const LossOptions& options) noexcept {
  const auto n = static_cast<double>(batch.size());
  const auto parts =
      batch.predicts_classes() ? static_cast<double>(options.lens.parts(batch.width)) : 1.0;
  return n * n * parts * LossPairOperations(batch, options);
}

}  // namespace calibd
