#include "calibd/core/forecast_evaluation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
#include "base/normal_quantile.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_metrics.h"
#include "calibd/core/local_calibration.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/core/status_macros.h"
#include "loss/scaled_features.h"

namespace calibd {
namespace {

// The part of the progress that ends with each step.
constexpr double kAfterPit = 0.2;

// The width of the local kernel is a quarter of that of the form.
constexpr double kLocalGamma = 16;

// The draws both form the condition and stand in for the forecast's expectation, so the mean of the
// discrepancy given the condition is not 0, and calibrated draws would be rejected.
constexpr char kNoFormOfDraws[] =
    "random signs need a condition that does not depend on the draws: test samples with the null "
    "forecast";

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
  // Whether the probability integral transforms are tested in place of the rows.
  bool of_pit = false;
};

// Forecasts with these probability integral transforms. They are Normal, with one mean and standard
// deviation.
struct StandardForecasts {
  explicit StandardForecasts(std::span<const double> pit) {
    for (const double u : pit) {
      forecasts.insert(forecasts.end(), {0, 1});
      outcomes.push_back(NormalQuantile(std::clamp(u, 1e-300, 1 - 0x1p-53)));
    }
  }
  [[nodiscard]] ForecastBatch batch() const {
    return {ForecastKind::kNormal, forecasts, 2, {}, outcomes};
  }
  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

bool IsOfQuantiles(const OutcomeKernel& kernel) {
  return std::holds_alternative<PitRbfKernel>(kernel) ||
         std::holds_alternative<PitMinKernel>(kernel) ||
         std::holds_alternative<LevelsKernel>(kernel);
}

const char* UnconditionalForm(const OutcomeKernel& kernel) {
  if (IsOfQuantiles(kernel)) return "quantile";
  const bool of_distribution =
      std::holds_alternative<RbfKernel>(kernel) || std::holds_alternative<EnergyKernel>(kernel);
  return of_distribution ? "marginal" : "decision_marginal";
}

// The probability that divides the forecasts of threshold calibration. options: with a decision.
// If unset, the threshold at which both actions cost the same.
double ThresholdAlpha(const ForecastEvaluationOptions& options) {
  const ThresholdDecision& decision = *options.decision;
  return options.threshold_alpha.value_or(1 / (1 + decision.false_alarm_cost / decision.miss_cost));
}

void AddThresholdForm(const ForecastBatch& batch, const ForecastEvaluationOptions& options,
                      const OutcomeKernel& kernel, std::vector<Form>& forms) {
  const ThresholdDecision& decision = *options.decision;
  const double alpha = ThresholdAlpha(options);
  const auto* const levels = std::get_if<LevelsKernel>(&kernel);
  forms.push_back(
      {"threshold", IsOfQuantiles(kernel) ? kernel : OutcomeKernel(PitRbfKernel()),
       ThresholdCondition(batch, decision.threshold, alpha,
                          levels != nullptr ? levels->levels : std::span<const double>()),
       batch.kind == ForecastKind::kSamples});
}

// Adds a form given these features, unless they do not differ.
void AddFeatureForm(const char* name, const OutcomeKernel& kernel,
                    const ForecastCovariates& covariates, std::span<const std::size_t> features,
                    std::vector<Form>& forms, std::vector<LeftOutForm>& left_out) {
  absl::StatusOr<FeatureCondition> condition =
      ScaleFeatures(covariates.features, covariates.feature_count, features);
  if (condition.ok()) {
    forms.push_back({name, kernel, *std::move(condition)});
  } else {
    left_out.push_back({name, std::string(condition.status().message())});
  }
}

std::vector<Form> FormsOf(const ForecastBatch& batch, const ForecastEvaluationOptions& options,
                          const OutcomeKernel& kernel, const ForecastCovariates& covariates,
                          std::vector<LeftOutForm>& left_out) {
  std::vector<Form> forms = {{"distribution", kernel, ForecastCondition()}};
  // The error of the levels is that of quantiles.
  if (batch.kind != ForecastKind::kQuantiles) {
    forms.push_back({UnconditionalForm(kernel), kernel, NoCondition()});
  }
  // A single group has all rows, as marginal has.
  if (std::ranges::adjacent_find(covariates.groups, std::not_equal_to<>()) !=
      covariates.groups.end()) {
    forms.push_back({"group", kernel, GroupCondition{covariates.groups}});
  }
  if (!covariates.features.empty()) {
    std::vector<std::size_t> all(covariates.feature_count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    AddFeatureForm("individual", kernel, covariates, all, forms, left_out);
  }
  if (!covariates.local_features.empty()) {
    AddFeatureForm("local", kernel, covariates, covariates.local_features, forms, left_out);
  }
  if (options.decision.has_value()) AddThresholdForm(batch, options, kernel, forms);
  return forms;
}

// The form whose kernel of the cases measures the local calibration error.
std::string_view LocalForm(const ForecastCovariates& covariates) {
  return covariates.local_features.empty() ? "individual" : "local";
}

// Why these forecasts have no kernel, or no finite discrepancy.
std::string WhyNoKernel(const ForecastBatch& batch) {
  // Draws without demand, and none in fact.
  const std::size_t rows = std::min(batch.size(), kParameterRows);
  const auto differs = [&batch](double value) { return value != batch.values[0]; };
  if (batch.kind == ForecastKind::kSamples &&
      std::ranges::none_of(batch.values.first(rows * batch.width), differs) &&
      std::ranges::none_of(batch.outcomes.first(rows), differs)) {
    return absl::StrCat("all draws and outcomes of the first ", rows, " rows are equal");
  }
  return "squares of the forecasts exceed the range of double: give the forecasts in another unit";
}

absl::Status AddDiscrepancies(const ForecastBatch& batch, std::span<const double> pit,
                              const ForecastEvaluationOptions& options, const OutcomeKernel& kernel,
                              const ForecastCovariates& covariates, const RunControl& control,
                              ForecastEvaluation& evaluation) {
  const std::vector<Form> forms = FormsOf(batch, options, kernel, covariates, evaluation.left_out);
  const bool decides = options.decision.has_value() && batch.kind != ForecastKind::kQuantiles;
  const double step = (1 - kAfterPit) / static_cast<double>(forms.size() + (decides ? 1 : 0));
  const bool drawn_form =
      batch.kind == ForecastKind::kSamples && options.resampling.null == NullHypothesis::kForm;
  for (std::size_t k = 0; k < forms.size(); ++k) {
    const Form& form = forms[k];
    const double from = kAfterPit + step * static_cast<double>(k);
    if (drawn_form && (form.of_pit || std::holds_alternative<ForecastCondition>(form.condition))) {
      evaluation.left_out.push_back({form.name, kNoFormOfDraws});
      continue;
    }
    const StandardForecasts standard(form.of_pit ? pit : std::span<const double>());
    absl::StatusOr<ForecastTestResult> result =
        TestForecasts(form.of_pit ? standard.batch() : batch,
                      {.outcome_kernel = form.kernel,
                       .condition = form.condition,
                       .resampling = options.resampling},
                      Part(control, from, from + step));
    const auto* const features = std::get_if<FeatureCondition>(&form.condition);
    if (absl::IsFailedPrecondition(result.status())) {
      evaluation.left_out.push_back({form.name, features != nullptr
                                                    ? std::string(result.status().message())
                                                    : WhyNoKernel(batch)});
      continue;
    }
    CALIBD_RETURN_IF_ERROR(result.status());
    // The local form comes after the individual one.
    if (features != nullptr && form.name == LocalForm(covariates) && !pit.empty()) {
      BootstrapOptions exact = options.resampling;
      exact.null = NullHypothesis::kForecast;
      const double gamma = kLocalGamma * *std::get<FeatureCondition>(result->condition).gamma;
      CALIBD_ASSIGN_OR_RETURN(
          evaluation.local,
          TestLocalCalibration(pit, {features->values, gamma}, exact, control.WithoutProgress()));
    }
    evaluation.discrepancies.push_back({form.name, *std::move(result)});
  }
  if (!decides) return absl::OkStatus();
  BootstrapOptions resampling = options.resampling;
  if (drawn_form) resampling.null = NullHypothesis::kForecast;
  CALIBD_ASSIGN_OR_RETURN(ThresholdTest decided, TestThreshold(batch, *options.decision, resampling,
                                                               Part(control, 1 - step, 1)));
  evaluation.decision_error = decided.calibration_error;
  if (drawn_form) {
    evaluation.left_out.push_back({"decision", kNoFormOfDraws});
  } else {
    evaluation.discrepancies.push_back({"decision", std::move(decided.given_action)});
  }
  return absl::OkStatus();
}

// The number of outcomes in each cell.
std::vector<std::int64_t> CellCounts(const ForecastCells& cells, const NumberForecastBatch& batch) {
  std::vector<ForecastRow> rows(batch.size());
  cells.Describe(batch, 1, rows);
  ForecastCounts counts(cells.cell_count());
  for (const ForecastRow& row : rows) counts.Add(row);
  return counts.Cells();
}

// The rows that are tested, with what is known of them.
class TestedRows {
 public:
  // The arguments are used later.
  TestedRows(const NumberForecastBatch& batch, const ForecastCovariates& covariates,
             const ForecastEvaluationOptions& options)
      : batch_(batch), covariates_(covariates) {
    if (batch.size() <= options.test_rows) return;
    rows_ = DrawTestRows(batch.size(), options.test_rows, options.resampling.seed);
    const std::size_t width = batch.forecasts.size() / batch.size();
    CopyRows(batch.forecasts, width, forecasts_);
    CopyRows(batch.outcomes, 1, outcomes_);
    batch_ = {forecasts_, outcomes_};
    drawn_.feature_count = covariates.feature_count;
    drawn_.local_features = covariates.local_features;
    if (!covariates.groups.empty()) CopyRows(std::span(covariates.groups), 1, drawn_.groups);
    CopyRows(std::span(covariates.features), covariates.feature_count, drawn_.features);
  }
  TestedRows(const TestedRows&) = delete;
  TestedRows& operator=(const TestedRows&) = delete;

  [[nodiscard]] const NumberForecastBatch& batch() const noexcept { return batch_; }
  [[nodiscard]] const ForecastCovariates& covariates() const noexcept {
    return rows_.empty() ? covariates_ : drawn_;
  }
  // The row of the batch that is this one of those that are tested.
  [[nodiscard]] std::size_t RowOf(std::size_t tested) const {
    return rows_.empty() ? tested : rows_[tested];
  }

 private:
  template <typename Value>
  void CopyRows(std::span<const Value> from, std::size_t width, std::vector<Value>& to) const {
    to.reserve(rows_.size() * width);
    for (const std::size_t row : rows_) {
      const std::span<const Value> values = from.subspan(row * width, width);
      to.insert(to.end(), values.begin(), values.end());
    }
  }

  NumberForecastBatch batch_;
  const ForecastCovariates& covariates_;
  // Empty if all rows are tested.
  std::vector<std::size_t> rows_;
  std::vector<double> forecasts_;
  std::vector<double> outcomes_;
  ForecastCovariates drawn_;
};

absl::Status CheckCovariates(const ForecastCovariates& covariates, std::size_t n) {
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
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckForecastOptions(const NumberForecastKind& kind,
                                  const ForecastEvaluationOptions& options) {
  if (options.test_rows < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_rows is ", options.test_rows, ", expected at least 2"));
  }
  if (options.decision.has_value()) {
    if (const std::optional<Violation> violation = FindDecisionViolation(*options.decision)) {
      return absl::InvalidArgumentError(
          absl::StrCat(violation->field, " ", violation->description));
    }
  }
  if (options.threshold_alpha.has_value() &&
      (!options.decision.has_value() || !(*options.threshold_alpha > 0) ||
       !(*options.threshold_alpha < 1))) {
    return absl::InvalidArgumentError(absl::StrCat("threshold_alpha is ", *options.threshold_alpha,
                                                   ", expected a number in (0, 1) with a "
                                                   "threshold"));
  }
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles == nullptr) {
    ForecastBatch none;
    none.kind = std::holds_alternative<NormalForecasts>(kind) ? ForecastKind::kNormal
                                                              : ForecastKind::kSamples;
    return CheckLossOptions(none, {.lens = Lens::Canonical(),
                                   .outcome_kernel = options.outcome_kernel,
                                   .condition = NoCondition(),
                                   .penalty_weight = {}});
  }
  if (options.outcome_kernel.has_value()) {
    return absl::InvalidArgumentError(
        "outcome_kernel is set, expected none for quantiles, which are compared at their levels");
  }
  if (options.decision.has_value() &&
      std::ranges::find(quantiles->levels, ThresholdAlpha(options)) == quantiles->levels.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("threshold_alpha is ", ThresholdAlpha(options),
                     ", expected one of the levels of the quantiles, which give no other "
                     "probability: set it, or leave threshold unset"));
  }
  return absl::OkStatus();
}

std::vector<std::size_t> ForecastCovariates::LocalFeatures() const {
  if (!local_features.empty()) return local_features;
  std::vector<std::size_t> all(feature_count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

absl::StatusOr<ForecastEvaluation> EvaluateForecasts(const NumberForecastKind& kind,
                                                     const NumberForecastBatch& batch,
                                                     const ForecastEvaluationOptions& options,
                                                     const ForecastCovariates& covariates,
                                                     const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  CALIBD_RETURN_IF_ERROR(CheckCovariates(covariates, batch.size()));
  CALIBD_RETURN_IF_ERROR(CheckForecastOptions(kind, options));
  CALIBD_ASSIGN_OR_RETURN(const auto cells,
                          ForecastCells::Create(kind, StrataOfForecasts(kind, batch.forecasts),
                                                options.resampling.seed, kDefaultTolerance));
  std::vector<ForecastRow> rows(batch.size());
  cells->Describe(batch, 1, rows);
  ForecastCounts counts(cells->cell_count());
  for (const ForecastRow& row : rows) counts.Add(row);
  ForecastEvaluation evaluation;
  evaluation.count = counts.count();
  evaluation.tested = static_cast<std::int64_t>(std::min(batch.size(), options.test_rows));
  SetScores(kind, counts, evaluation);
  SerialDependence dependence;
  AddToSeries(*cells, batch, rows, dependence);
  evaluation.dependence_found_at = dependence.reached_at();
  evaluation.coverage = CoverageOf(*cells, counts, {.one_look = true}).value_or(ForecastCoverage());
  // The others take each outcome for one in a known cell.
  if (counts.has_ties()) {
    ForecastEvidence evidence(cells);
    evidence.Add(rows);
    evaluation.log10_e_value = evidence.Read().evidence.log10_e_value;
    evaluation.left_out.push_back(
        {.form = "levels",
         .reason =
             "outcomes equal quantiles, so that nobody knows on which side of these they are"});
    return evaluation;
  }
  evaluation.log10_e_value = EvidenceOf(*cells, counts).log10_e_value;
  evaluation.direction = DirectionOf(*cells, counts.Cells());
  evaluation.cells = CellDeviations(*cells, counts.Cells());
  BootstrapOptions exact = options.resampling;
  exact.null = NullHypothesis::kForecast;
  const TestedRows tested(batch, covariates, options);
  const ForecastBatch forecasts = WithKind(kind, tested.batch());
  std::vector<double> pit;
  OutcomeKernel kernel = options.outcome_kernel.value_or(RbfKernel());
  if (quantiles != nullptr) {
    kernel = LevelsKernel{quantiles->levels};
    CALIBD_ASSIGN_OR_RETURN(evaluation.level_error,
                            TestLevels(CellCounts(*cells, tested.batch()), quantiles->levels, exact,
                                       Part(control, 0, kAfterPit)));
  } else {
    pit = ProbabilityIntegralTransforms(forecasts, options.resampling.seed);
    CALIBD_ASSIGN_OR_RETURN(evaluation.pit, TestPit(pit, exact, Part(control, 0, kAfterPit)));
    if (options.decision.has_value()) {
      CALIBD_ASSIGN_OR_RETURN(evaluation.decision,
                              EvaluateThreshold(WithKind(kind, batch), *options.decision));
      evaluation.decision->actions.clear();
    }
  }
  if (tested.batch().size() < 2) return evaluation;
  CALIBD_RETURN_IF_ERROR(
      AddDiscrepancies(forecasts, pit, options, kernel, tested.covariates(), control, evaluation));
  if (evaluation.local.has_value()) {
    for (LocalPlace& place : evaluation.local->worst) place.row = tested.RowOf(place.row);
  }
  return evaluation;
}

double ForecastEvaluationMemory(std::size_t n, const NumberForecastKind& kind,
                                const ForecastEvaluationOptions& options,
                                const CovariateSizes& covariates, std::size_t threads) noexcept {
  const std::size_t tested = std::min(n, options.test_rows);
  const auto rows = static_cast<double>(tested);
  const auto width = static_cast<double>(ForecastWidth(kind));
  const auto copies = static_cast<double>(threads + 4);
  // The scale and the location of all forecasts, which are sorted, and their descriptions.
  const double described =
      static_cast<double>(n) * static_cast<double>(2 * sizeof(double) + sizeof(ForecastRow));
  // The discrepancies choose their parameters from pairs, have features of each row, and each
  // thread has a replicate of the rows; signs are drawn for 256 replicates at once.
  const double signs =
      options.resampling.null == NullHypothesis::kForm ? 256 * sizeof(float) * rows : 0;
  return described +
         sizeof(double) * (kParameterRows * kParameterRows + rows * (2 * kFrequencyCount + 8)) +
         sizeof(double) * copies * rows * (width + 4) + signs +
         // Scaled copies of the features, for their forms and for the tests of them; the weights of
         // the rows at each place.
         3 * sizeof(double) * rows *
             static_cast<double>(covariates.features + covariates.local_features) +
         (covariates.features > 0
              ? sizeof(float) * rows * static_cast<double>(LocalPlaceCount(tested))
              : 0);
}

namespace {

// Whether each replicate is a sum over the pairs.
bool SimulatesPairs(const ForecastEvaluationOptions& options) {
  return options.outcome_kernel.has_value() &&
         (std::holds_alternative<EnergyKernel>(*options.outcome_kernel) ||
          std::holds_alternative<PitMinKernel>(*options.outcome_kernel));
}

// Multiplications of a pair of Normal forecasts, see LossPairOperations.
double PairOperations(const ForecastEvaluationOptions& options) {
  const bool special = !options.outcome_kernel.has_value() ||
                       std::holds_alternative<RbfKernel>(*options.outcome_kernel) ||
                       std::holds_alternative<EnergyKernel>(*options.outcome_kernel);
  return special ? 15 : 100;
}

}  // namespace

double ForecastEvaluationOperations(std::size_t n, const NumberForecastKind& kind,
                                    const ForecastEvaluationOptions& options,
                                    const CovariateSizes& covariates) noexcept {
  const std::size_t tested = std::min(n, options.test_rows);
  const auto rows = static_cast<double>(tested);
  const auto width = static_cast<double>(ForecastWidth(kind));
  // Of each row of all, which is described and sorted.
  const double described = static_cast<double>(n) * (1000 + 20 * width);
  const auto replicates = static_cast<double>(options.resampling.replicates);
  const bool quantiles = std::holds_alternative<QuantileForecasts>(kind);
  const bool normal = std::holds_alternative<NormalForecasts>(kind);
  const double pair = normal      ? PairOperations(options)
                      : quantiles ? 30 + 4 * width
                                  : 30 + 3 * width + 40 * width * width;
  const bool flips_signs = options.resampling.null == NullHypothesis::kForm;
  // Signs are flipped for some replicates at once, which compute the pairs again.
  const double passes = flips_signs ? 1 + std::ceil(replicates / kSignReplicates) : 1;
  // A matrix product in single precision does 8 multiplications in the time of one.
  const double each = flips_signs ? rows * rows / 16
                      : SimulatesPairs(options)
                          ? rows * rows / 2 * pair
                          : rows * (20.0 * kFrequencyCount + 2 * width +
                                    (quantiles ? 2 * kFrequencyCount * width : 0));
  // The metrics of the probability integral transform sort the rows.
  const double pit = replicates * rows * 40;
  // distribution and marginal; threshold and decision; group, individual and local.
  double forms = options.decision.has_value() ? 4 : 2;
  double local = 0;
  double distances = 0;
  double phases = 0;
  if (covariates.groups) ++forms;
  for (const std::size_t features : {covariates.features, covariates.local_features}) {
    if (features == 0) continue;
    ++forms;
    distances += rows * rows / 2 * static_cast<double>(features);
    if (!flips_signs) phases += replicates * rows * kFrequencyCount * static_cast<double>(features);
    if (!quantiles) local = replicates * rows * static_cast<double>(LocalPlaceCount(tested));
  }
  return described + pit + local + passes * distances + phases +
         forms * (passes * rows * rows / 2 * pair + replicates * each);
}

}  // namespace calibd
