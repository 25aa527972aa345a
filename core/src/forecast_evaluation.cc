#include "calibd/core/forecast_evaluation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_metrics.h"
#include "calibd/core/status_macros.h"
#include "scaled_features.h"

namespace calibd {
namespace {

// The part of the progress that ends with each step.
constexpr double kAfterPit = 0.2;

// Progress in the part [from, to] of the whole.
RunControl Part(const RunControl& control, double from, double to) {
  RunControl part = control.WithoutProgress();
  if (control.progress) {
    part.progress = [&control, from, to](double done) {
      control.progress(from + (to - from) * done);
    };
  }
  return part;
}

void SetScores(const NumberForecastKind& kind, const ForecastCounts& counts,
               ForecastEvaluation& evaluation) {
  const auto n = static_cast<double>(evaluation.count);
  evaluation.crps = counts.crps / n;
  if (!std::holds_alternative<NormalForecasts>(kind)) return;
  evaluation.log_score = counts.log_score / n;
  const double mean = counts.t / n;
  evaluation.mean_t = mean;
  evaluation.deviation_t = std::sqrt(std::max(0.0, counts.t_square / n - mean * mean));
}

struct Form {
  const char* name;
  OutcomeKernel kernel;
  Condition condition;
};

absl::StatusOr<std::vector<Form>> FormsOf(const ForecastBatch& batch,
                                          const ForecastEvaluationOptions& options,
                                          const ForecastCovariates& covariates) {
  std::vector<Form> forms = {{"distribution", RbfKernel(), ForecastCondition()},
                             {"marginal", RbfKernel(), NoCondition()}};
  // A single group has all rows, as marginal has.
  if (std::ranges::adjacent_find(covariates.groups, std::not_equal_to<>()) !=
      covariates.groups.end()) {
    forms.push_back({"group", RbfKernel(), GroupCondition{covariates.groups}});
  }
  if (!covariates.features.empty()) {
    std::vector<std::size_t> all(covariates.feature_count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    CALIBD_ASSIGN_OR_RETURN(FeatureCondition condition,
                            ScaleFeatures(covariates.features, covariates.feature_count, all));
    forms.push_back({"individual", RbfKernel(), std::move(condition)});
  }
  if (!covariates.local_features.empty()) {
    CALIBD_ASSIGN_OR_RETURN(
        FeatureCondition condition,
        ScaleFeatures(covariates.features, covariates.feature_count, covariates.local_features));
    forms.push_back({"local", RbfKernel(), std::move(condition)});
  }
  if (options.threshold.has_value() && batch.kind == ForecastKind::kNormal) {
    GroupCondition sides;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      sides.groups.push_back(batch.row(i)[0] >= *options.threshold ? 1 : 0);
    }
    forms.push_back({"threshold", PitRbfKernel(), std::move(sides)});
  }
  return forms;
}

absl::Status AddDiscrepancies(const ForecastBatch& batch, const ForecastEvaluationOptions& options,
                              const ForecastCovariates& covariates, const RunControl& control,
                              ForecastEvaluation& evaluation) {
  CALIBD_ASSIGN_OR_RETURN(const std::vector<Form> forms, FormsOf(batch, options, covariates));
  const double step =
      (1 - kAfterPit) / static_cast<double>(forms.size() + (options.threshold.has_value() ? 1 : 0));
  for (std::size_t k = 0; k < forms.size(); ++k) {
    const double from = kAfterPit + step * static_cast<double>(k);
    CALIBD_ASSIGN_OR_RETURN(ForecastTestResult result,
                            TestForecasts(batch,
                                          {.outcome_kernel = forms[k].kernel,
                                           .condition = forms[k].condition,
                                           .resampling = options.resampling},
                                          Part(control, from, from + step)));
    evaluation.discrepancies.push_back({forms[k].name, std::move(result)});
  }
  if (options.threshold.has_value()) {
    CALIBD_ASSIGN_OR_RETURN(
        ForecastTestResult result,
        TestThreshold(batch, *options.threshold, options.resampling, Part(control, 1 - step, 1)));
    evaluation.discrepancies.push_back({"decision", std::move(result)});
  }
  return absl::OkStatus();
}

absl::Status CheckCovariates(const ForecastCovariates& covariates, std::size_t n,
                             bool of_quantiles) {
  const std::size_t d = covariates.feature_count;
  if (!covariates.groups.empty() && covariates.groups.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups has ", covariates.groups.size(), " values, expected ", n));
  }
  CALIBD_RETURN_IF_ERROR(CheckFeatures(covariates.features, n, d));
  for (const std::size_t k : covariates.local_features) {
    if (k < d) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("local_features has ", k, ", expected less than ", d));
  }
  if (of_quantiles && (!covariates.groups.empty() || d > 0)) {
    return absl::InvalidArgumentError(
        "groups or features are set, but quantiles are tested at their levels alone: expected "
        "Normal forecasts or samples");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ForecastEvaluation> EvaluateForecasts(const NumberForecastKind& kind,
                                                     const NumberForecastBatch& batch,
                                                     const ForecastEvaluationOptions& options,
                                                     const ForecastCovariates& covariates,
                                                     const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  CALIBD_RETURN_IF_ERROR(CheckCovariates(covariates, batch.size(), quantiles != nullptr));
  if (options.threshold.has_value() && quantiles != nullptr) {
    return absl::InvalidArgumentError(
        "threshold is set, but quantiles do not give the probability of a decision: expected "
        "Normal forecasts or samples");
  }
  CALIBD_ASSIGN_OR_RETURN(const auto cells,
                          ForecastCells::Create(kind, StrataOfForecasts(kind, batch.forecasts),
                                                options.resampling.seed, kDefaultTolerance));
  std::vector<ForecastRow> rows(batch.size());
  cells->Describe(batch, 1, rows);
  ForecastCounts counts(cells->cell_count());
  for (const ForecastRow& row : rows) counts.Add(row);
  ForecastEvaluation evaluation;
  evaluation.count = counts.count();
  SetScores(kind, counts, evaluation);
  evaluation.coverage = CoverageOf(*cells, counts, options.levels).value_or(ForecastCoverage());
  evaluation.log10_e_value = EvidenceOf(*cells, counts).log10_e_value;
  evaluation.direction = DirectionOf(*cells, counts.Cells());
  BootstrapOptions exact = options.resampling;
  exact.null = NullHypothesis::kForecast;
  if (quantiles != nullptr) {
    CALIBD_ASSIGN_OR_RETURN(evaluation.level_error,
                            TestLevels(counts.Cells(), quantiles->levels, exact, control));
    return evaluation;
  }
  const bool normal = std::holds_alternative<NormalForecasts>(kind);
  const ForecastBatch forecasts{normal ? ForecastKind::kNormal : ForecastKind::kSamples,
                                batch.forecasts,
                                cells->width(),
                                {},
                                batch.outcomes};
  CALIBD_ASSIGN_OR_RETURN(evaluation.pit,
                          TestPit(ProbabilityIntegralTransforms(forecasts, options.resampling.seed),
                                  exact, Part(control, 0, kAfterPit)));
  if (options.threshold.has_value()) {
    CALIBD_ASSIGN_OR_RETURN(evaluation.decision, EvaluateThreshold(forecasts, *options.threshold));
    evaluation.decision->actions.clear();
  }
  if (batch.size() > 1) {
    CALIBD_RETURN_IF_ERROR(AddDiscrepancies(forecasts, options, covariates, control, evaluation));
  }
  return evaluation;
}

double ForecastEvaluationMemory(std::size_t n, const NumberForecastKind& kind,
                                const ForecastEvaluationOptions& options,
                                std::size_t threads) noexcept {
  const auto rows = static_cast<double>(n);
  const auto width = static_cast<double>(ForecastWidth(kind));
  const auto copies = static_cast<double>(threads + 4);
  // The discrepancies choose their parameters from pairs, have features of each row, and each
  // thread has a replicate of the rows; signs are drawn for 256 replicates at once.
  const double signs =
      options.resampling.null == NullHypothesis::kForm ? 256 * sizeof(float) * rows : 0;
  return sizeof(double) * (kParameterRows * kParameterRows + rows * (2 * kTestFrequencies + 8)) +
         sizeof(double) * copies * rows * (width + 4) + signs;
}

double ForecastEvaluationOperations(std::size_t n, const NumberForecastKind& kind,
                                    const ForecastEvaluationOptions& options) noexcept {
  const auto rows = static_cast<double>(n);
  const auto width = static_cast<double>(ForecastWidth(kind));
  const auto replicates = static_cast<double>(options.resampling.replicates);
  if (std::holds_alternative<QuantileForecasts>(kind)) return rows * replicates * 10;
  const bool normal = std::holds_alternative<NormalForecasts>(kind);
  const double pair = normal ? 15 : 30 + 3 * width + 40 * width * width;
  // A matrix product in single precision does 8 multiplications in the time of one.
  const double each = options.resampling.null == NullHypothesis::kForm
                          ? rows * rows / 16
                          : rows * (20.0 * kTestFrequencies + 2 * width);
  // The metrics of the probability integral transform sort the rows.
  const double pit = replicates * rows * 40;
  // distribution, marginal, threshold and decision; each of the covariates adds one.
  const double forms = options.threshold.has_value() ? 4 : 2;
  return pit + forms * (rows * rows / 2 * pair + replicates * each);
}

}  // namespace calibd
