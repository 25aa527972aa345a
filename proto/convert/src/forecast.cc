#include "calibd/convert/forecast.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/loss.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/status_macros.h"
#include "count.h"

namespace calibd::convert {
namespace {

// A place with a larger p-value is not shown as an error.
constexpr double kPlaceSignificance = 0.05;

absl::Status Unused(const char* field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is set, but the model forecasts a number: leave it unset"));
}

// Errors: InvalidArgument for a field that needs classes.
absl::Status CheckUnused(const v1::EvaluateRequest& request) {
  if (request.lenses_size() > 0) return Unused("lenses");
  if (request.precision() != v1::Provenance::UNSPECIFIED) return Unused("precision");
  if (request.binned_errors_size() > 0) return Unused("binned_errors");
  if (request.consistency_replicates() != 0) return Unused("consistency_replicates");
  if (request.cme_test_locations() != 0) return Unused("cme_test_locations");
  if (request.reliability_classes_size() > 0) return Unused("reliability_classes");
  if (request.band_level() != 0) return Unused("band_level");
  if (request.actions_size() > 0) return Unused("actions");
  if (request.predictions_follow_labels()) return Unused("predictions_follow_labels");
  if (request.reliability_only()) return Unused("reliability_only");
  return absl::OkStatus();
}

v1::LocalCalibration ToProto(const LocalCalibration& local, const ForecastCovariates& covariates,
                             std::span<const std::string> feature_names) {
  const std::vector<std::size_t> features = covariates.LocalFeatures();
  v1::LocalCalibration proto;
  for (const std::size_t k : features) proto.add_feature_names(feature_names[k]);
  *proto.mutable_mean_error() = StatisticToProto(local.mean_error.value, local.mean_error.test);
  proto.set_place_count(static_cast<std::int32_t>(local.place_count));
  for (const LocalPlace& place : local.worst) {
    v1::LocalCalibration::Place& out = *proto.add_places();
    for (const std::size_t k : features) {
      out.add_features(covariates.features[place.row * covariates.feature_count + k]);
    }
    out.set_error(place.error);
    out.set_effective_observations(place.effective_rows);
    out.set_below_median(place.below_median);
    out.set_inside_50(place.inside_50);
    out.set_inside_90(place.inside_90);
    out.set_p_value(place.p_value);
    out.set_significant(place.p_value <= kPlaceSignificance);
  }
  return proto;
}

}  // namespace

v1::CentralCoverage ToProto(const CentralCoverage& coverage) {
  v1::CentralCoverage proto;
  proto.set_nominal(coverage.nominal);
  proto.set_lower_level(coverage.lower_level);
  proto.set_upper_level(coverage.upper_level);
  proto.set_promised(coverage.promised);
  proto.set_coverage(coverage.coverage);
  proto.set_lower(coverage.lower);
  proto.set_upper(coverage.upper);
  return proto;
}

v1::LevelCoverage ToProto(const LevelCoverage& coverage) {
  v1::LevelCoverage proto;
  proto.set_level(coverage.level);
  proto.set_below(coverage.below);
  proto.set_at_most(coverage.at_most);
  proto.set_lower(coverage.lower);
  proto.set_upper(coverage.upper);
  return proto;
}

v1::ForecastCell ToProto(const CellDeviation& cell) {
  v1::ForecastCell proto;
  proto.set_lower(cell.lower);
  proto.set_upper(cell.upper);
  proto.set_observations(cell.count);
  proto.set_expected(cell.expected);
  proto.set_z(cell.z);
  proto.set_stands_out(cell.stands_out);
  return proto;
}

absl::StatusOr<ForecastEvaluationOptions> ForecastOptionsFromProto(
    const v1::EvaluateRequest& request, const NumberForecastKind& kind,
    const std::optional<ThresholdDecision>& declared) {
  CALIBD_RETURN_IF_ERROR(CheckUnused(request));
  ForecastEvaluationOptions options;
  const absl::StatusOr<NullHypothesis> null = NumberNullFromProto(request.null());
  if (!null.ok()) return absl::InvalidArgumentError(absl::StrCat("null ", null.status().message()));
  options.resampling.null = *null;
  if (request.has_replicates()) options.resampling.replicates = request.replicates();
  if (options.resampling.replicates < kMinReplicates ||
      options.resampling.replicates > kMaxReplicates) {
    return absl::InvalidArgumentError(absl::StrCat("replicates is ", options.resampling.replicates,
                                                   ", expected ", kMinReplicates, "..",
                                                   kMaxReplicates));
  }
  options.resampling.seed = request.seed();
  options.test_rows = Count(request.test_rows(), kDefaultTestRows);
  options.decision = declared;
  if (request.has_threshold()) options.decision = ThresholdDecision{request.threshold()};
  if (request.has_threshold_alpha()) options.threshold_alpha = request.threshold_alpha();
  if (request.outcome_kernel().kind_case() != v1::OutcomeKernel::KIND_NOT_SET) {
    options.outcome_kernel = FromProto(request.outcome_kernel());
  }
  CALIBD_RETURN_IF_ERROR(CheckForecastOptions(kind, options));
  return options;
}

void ToProto(const ForecastTestResult& tested, std::uint64_t seed, v1::QuadraticTestResult& proto) {
  v1::Provenance& provenance = *proto.mutable_provenance();
  provenance.set_lens("distribution");
  provenance.set_precision(v1::Provenance::FLOAT64);
  proto.set_skce_biased(tested.biased_mmd_squared);
  proto.set_skce_unbiased(tested.mmd_squared);
  proto.set_statistic(tested.statistic);
  ResamplingToProto(tested, proto);
  proto.set_null_description(
      tested.null == NullHypothesis::kForecast
          ? "outcomes drawn from the forecasts themselves (exact for every number of observations)"
          : "forecasts that are calibrated in this form (approximate: terms with random signs)");
  proto.set_seed(seed);
  *proto.mutable_outcome_kernel() = ToProto(tested.outcome_kernel);
  *proto.mutable_condition() = ToProto(tested.condition);
}

v1::Evaluation ToProto(const ForecastEvaluation& evaluation,
                       const ForecastEvaluationOptions& options,
                       const ForecastCovariates& covariates,
                       std::span<const std::string> feature_names) {
  v1::Evaluation answer;
  answer.set_observations(evaluation.count);
  answer.set_tested_observations(evaluation.tested);
  v1::ForecastEvaluation& proto = *answer.mutable_forecast();
  v1::ForecastScores& scores = *proto.mutable_scores();
  scores.set_observations(evaluation.count);
  scores.set_crps(evaluation.crps);
  if (evaluation.log_score.has_value()) scores.set_log_score(*evaluation.log_score);
  v1::ForecastDirection& direction = *proto.mutable_direction();
  direction.set_shift(evaluation.direction.best.shift);
  direction.set_scale(evaluation.direction.best.scale);
  if (evaluation.mean_t.has_value()) {
    scores.set_residual_mean(*evaluation.mean_t);
    scores.set_residual_standard_deviation(*evaluation.deviation_t);
    direction.set_residual_mean(*evaluation.mean_t);
    direction.set_residual_standard_deviation(*evaluation.deviation_t);
  }
  SetCoverage(evaluation.coverage, scores);
  const CoverageError& error = evaluation.coverage.error;
  proto.set_coverage_error(error.estimate);
  proto.set_coverage_error_lower(error.lower);
  proto.set_coverage_error_upper(error.upper);
  proto.set_coverage_cells(static_cast<std::int32_t>(error.cell_count));
  proto.set_log10_e_value(evaluation.log10_e_value);
  for (const CellDeviation& cell : evaluation.cells) *proto.add_cells() = ToProto(cell);
  const auto of = [](const SimulatedStatistic& test) {
    return StatisticToProto(test.value, test.test);
  };
  if (evaluation.pit.has_value()) {
    *proto.mutable_quantile_calibration_error() = of(evaluation.pit->quantile_calibration_error);
    *proto.mutable_quantile_level_error() = of(evaluation.pit->quantile_level_error);
    *proto.mutable_cramer_von_mises() = of(evaluation.pit->cramer_von_mises);
  }
  if (evaluation.level_error.has_value()) {
    *proto.mutable_level_error() = of(*evaluation.level_error);
  }
  for (const NamedDiscrepancy& named : evaluation.discrepancies) {
    v1::ForecastEvaluation::TestedDiscrepancy& out = *proto.add_discrepancies();
    out.set_form(named.form);
    out.set_mmd_squared(named.result.mmd_squared);
    *out.mutable_test() = StatisticToProto(named.result.statistic, named.result);
    *out.mutable_outcome_kernel() = ToProto(named.result.outcome_kernel);
    *out.mutable_condition() = ToProto(named.result.condition);
  }
  for (const LeftOutForm& form : evaluation.left_out) {
    v1::ForecastEvaluation::LeftOut& out = *proto.add_left_out();
    out.set_form(form.form);
    out.set_reason(form.reason);
  }
  if (evaluation.local.has_value()) {
    *proto.mutable_local() = ToProto(*evaluation.local, covariates, feature_names);
  }
  if (evaluation.decision.has_value()) {
    v1::ForecastEvaluation::Decision& out = *proto.mutable_decision();
    const ThresholdDecision decided = options.decision.value_or(ThresholdDecision());
    out.set_threshold(decided.threshold);
    out.set_false_alarm_cost(decided.false_alarm_cost);
    out.set_miss_cost(decided.miss_cost);
    out.set_realised_loss(evaluation.decision->realised_loss);
    out.set_expected_loss(evaluation.decision->expected_loss);
    out.set_squared_error(evaluation.decision->squared_error);
    if (evaluation.decision_error.has_value()) {
      *out.mutable_calibration_error() = of(*evaluation.decision_error);
    }
  }
  proto.set_seed(options.resampling.seed);
  proto.set_dependence_found_at(evaluation.dependence_found_at);
  return answer;
}

}  // namespace calibd::convert
