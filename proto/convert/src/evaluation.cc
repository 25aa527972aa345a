#include "calibd/convert/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/text.h"
#include "calibd/core/p_value.h"
#include "calibd/core/status_macros.h"
#include "count.h"
#include "prefixed_error.h"

namespace calibd::convert {
namespace {

constexpr double kConfidenceLevel = 0.95;
constexpr int kMaxLenses = 16;
constexpr int kMaxBinnedErrors = 8;

void ToProto(const NoiseFloor& floor, v1::NoiseFloor& proto) {
  proto.set_mean(floor.mean);
  proto.set_standard_deviation(floor.standard_deviation);
  proto.set_upper_quantile(floor.upper_quantile);
}

void ToProto(const CorpDecomposition& corp, v1::CorpDecomposition& proto) {
  proto.set_score(corp.score);
  proto.set_miscalibration(corp.miscalibration);
  proto.set_discrimination(corp.discrimination);
  proto.set_uncertainty(corp.uncertainty);
}

void ToProto(const Band& band, v1::Reliability::Band& proto) {
  proto.set_lower(band.lower);
  proto.set_upper(band.upper);
}

void AddBins(std::span<const ReliabilityBin> bins, double band_level, v1::Reliability& proto) {
  for (const ReliabilityBin& bin : bins) {
    v1::Reliability::Bin& out = *proto.add_bins();
    out.set_lower(bin.lower);
    out.set_upper(bin.upper);
    out.set_n(static_cast<std::int64_t>(bin.n));
    out.set_mean_prediction(bin.mean_prediction);
    out.set_frequency(bin.frequency);
    ToProto(bin.consistency, *out.mutable_consistency());
    ToProto(bin.confidence, *out.mutable_confidence());
    out.set_outside(bin.frequency < bin.consistency.lower || bin.frequency > bin.consistency.upper);
  }
  proto.set_band_level(band_level);
}

void ToProto(const EventReliability& reliability, double band_level, v1::Reliability& proto) {
  if (reliability.class_index.has_value()) {
    proto.set_class_index(static_cast<std::int32_t>(*reliability.class_index));
  }
  AddBins(reliability.bins, band_level, proto);
  for (const ReliabilityBlock& block : reliability.corp.blocks) {
    *proto.add_corp_blocks() = convert::ToProto(block);
  }
  for (const BandPoint& point : reliability.corp.band) {
    v1::Reliability::BandPoint& out = *proto.add_corp_band();
    out.set_prediction(point.prediction);
    ToProto(point.consistency, *out.mutable_consistency());
  }
  ToProto(reliability.brier, *proto.mutable_corp());
}

void ToProto(const absl::StatusOr<CmeTestResult>& cme, std::uint64_t seed, v1::CmeTest& proto) {
  if (!cme.ok()) {
    proto.set_error(std::string(cme.status().message()));
    return;
  }
  proto.set_test_locations(static_cast<std::int32_t>(cme->test_locations));
  proto.set_statistic(cme->statistic);
  proto.set_p_value(cme->p_value);
  proto.set_condition(cme->condition);
  proto.set_seed(seed);
  proto.set_null(convert::ToProto(cme->simulation.null));
  proto.set_null_description(std::string(Describe(cme->simulation.null)));
  proto.set_replicates(cme->simulation.replicates);
  proto.set_exceedances(cme->simulation.exceedances);
}

v1::BinnedErrorSpec ToProto(const BinnedErrorSpec& spec) {
  v1::BinnedErrorSpec proto;
  if (const auto* const uniform = std::get_if<UniformBins>(&spec)) {
    proto.mutable_uniform()->set_bins_per_class(static_cast<std::int32_t>(uniform->bins_per_class));
    proto.mutable_uniform()->set_distance(convert::ToProto(uniform->distance));
  } else if (const auto* const variance = std::get_if<MedianVarianceBins>(&spec)) {
    proto.mutable_median_variance()->set_min_size(static_cast<std::int32_t>(variance->min_size));
    proto.mutable_median_variance()->set_max_bins(static_cast<std::int32_t>(variance->max_bins));
    proto.mutable_median_variance()->set_distance(convert::ToProto(variance->distance));
  } else if (const auto* const top_label = std::get_if<TopLabelBins>(&spec)) {
    proto.mutable_top_label()->set_bins(static_cast<std::int32_t>(top_label->bins));
  } else if (const auto* const class_wise = std::get_if<ClassWiseBins>(&spec)) {
    proto.mutable_class_wise()->set_bins(static_cast<std::int32_t>(class_wise->bins));
  }
  return proto;
}

absl::StatusOr<BinnedErrorSpec> FromProto(const v1::BinnedErrorSpec& proto) {
  switch (proto.bins_case()) {
    case v1::BinnedErrorSpec::kUniform: {
      CALIBD_ASSIGN_OR_RETURN(const Distance distance,
                              convert::FromProto(proto.uniform().distance()));
      return UniformBins{Count(proto.uniform().bins_per_class(), UniformBins{}.bins_per_class),
                         distance};
    }
    case v1::BinnedErrorSpec::kMedianVariance: {
      const v1::BinnedErrorSpec::MedianVariance& bins = proto.median_variance();
      CALIBD_ASSIGN_OR_RETURN(const Distance distance, convert::FromProto(bins.distance()));
      if (bins.min_size() < 0 || bins.max_bins() < 0) {
        return absl::InvalidArgumentError(absl::StrCat("min_size is ", bins.min_size(),
                                                       " and max_bins is ", bins.max_bins(),
                                                       ", expected >= 0"));
      }
      return MedianVarianceBins{Count(bins.min_size(), MedianVarianceBins{}.min_size),
                                Count(bins.max_bins(), 0), distance};
    }
    case v1::BinnedErrorSpec::kTopLabel:
      return TopLabelBins{Count(proto.top_label().bins(), TopLabelBins{}.bins)};
    case v1::BinnedErrorSpec::kClassWise:
      return ClassWiseBins{Count(proto.class_wise().bins(), ClassWiseBins{}.bins)};
    case v1::BinnedErrorSpec::BINS_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("bins is unset");
}

// Errors: InvalidArgument whose message begins with the field.
absl::Status AddLosses(const v1::EvaluateRequest& request, std::size_t class_count,
                       EvaluationOptions& options) {
  if (static_cast<std::size_t>(request.actions_size()) > kMaxActions) {
    return absl::InvalidArgumentError(absl::StrCat("actions has ", request.actions_size(),
                                                   " elements, expected at most ", kMaxActions));
  }
  for (int a = 0; a < request.actions_size(); ++a) {
    const auto& losses = request.actions(a).losses();
    if (static_cast<std::size_t>(losses.size()) != class_count) {
      return absl::InvalidArgumentError(absl::StrCat("actions[", a, "].losses has ", losses.size(),
                                                     " values, expected one for each of the ",
                                                     class_count, " classes"));
    }
    for (int k = 0; k < losses.size(); ++k) {
      // Written so that NaN fails the check too.
      if (std::abs(losses[k]) <= 1e150) continue;
      return absl::InvalidArgumentError(absl::StrCat("actions[", a, "].losses[", k, "] is ",
                                                     losses[k],
                                                     ", expected a number in [-1e150, 1e150]"));
    }
    options.loss.insert(options.loss.end(), losses.begin(), losses.end());
  }
  return absl::OkStatus();
}

// Refuses fields that ask for another computation.
absl::Status CheckOnlyReliability(const v1::EvaluateRequest& request) {
  const char* const other = request.lenses_size() > 0              ? "lenses"
                            : request.binned_errors_size() > 0     ? "binned_errors"
                            : request.consistency_replicates() > 0 ? "consistency_replicates"
                            : request.cme_test_locations() > 0     ? "cme_test_locations"
                            : request.actions_size() > 0           ? "actions"
                            : request.replicates() > 0             ? "replicates"
                                                                   : nullptr;
  if (other == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("reliability_only is set together with ", other,
                                                 ", expected at most one of them"));
}

v1::DecisionEvaluation ToProto(const DecisionTestResult& decision) {
  v1::DecisionEvaluation proto;
  for (const ActionLoss& action : decision.actions) {
    v1::DecisionEvaluation::ActionLoss& out = *proto.add_actions();
    out.set_observations(action.count);
    out.set_realised_loss(action.realised_loss);
    out.set_expected_loss(action.expected_loss);
  }
  const DecisionCalibration& calibration = decision.calibration;
  proto.set_realised_loss(calibration.realised_loss);
  proto.set_expected_loss(calibration.expected_loss);
  proto.set_gap_lower_bound(decision.gap_lower);
  proto.set_gap_upper_bound(decision.gap_upper);
  proto.set_squared_error(calibration.squared_error);
  if (decision.test.has_value()) {
    *proto.mutable_test() = StatisticToProto(calibration.given_action_unbiased, *decision.test);
    *proto.mutable_calibration_error() =
        StatisticToProto(decision.calibration_error->value, decision.calibration_error->test);
  }
  return proto;
}

}  // namespace

v1::BlockEstimate ToProto(const RunningBlock& block, double bound) {
  v1::BlockEstimate proto;
  proto.set_block_size(static_cast<std::int32_t>(block.block_size));
  proto.set_block_count(block.moments.count);
  proto.set_pending_observations(static_cast<std::int32_t>(block.pending));
  if (block.moments.count < 1) return proto;
  proto.set_skce(block.moments.mean);
  proto.set_p_value_upper_bound(
      BlockPValueUpperBound(block.moments.mean, block.moments.count, block.block_size, bound));
  if (block.noise_floor.has_value()) ToProto(*block.noise_floor, *proto.mutable_noise_floor());
  if (block.moments.count >= 2) proto.set_standard_deviation(std::sqrt(block.moments.Variance()));
  if (const std::optional<BlockTest> test = TestBlocks(block.moments)) {
    proto.set_z(test->z);
    proto.set_p_value(test->p_value);
    proto.set_skce_lower_bound(test->skce_lower_bound);
  }
  return proto;
}

v1::Reliability::Block ToProto(const ReliabilityBlock& block) {
  v1::Reliability::Block proto;
  proto.set_lower(block.lower);
  proto.set_upper(block.upper);
  proto.set_mean_prediction(block.mean_prediction);
  proto.set_n(static_cast<std::int64_t>(block.n));
  proto.set_recalibrated(block.recalibrated);
  return proto;
}

v1::Reliability ToProto(const ReliabilitySums& sums) {
  constexpr double kBandLevel = 0.9;
  v1::Reliability proto;
  AddBins(BinnedReliability(sums, kBandLevel), kBandLevel, proto);
  return proto;
}

v1::ErrorInterval ToProto(const ErrorInterval& interval) {
  v1::ErrorInterval proto;
  proto.set_estimate(interval.estimate);
  proto.set_lower(interval.lower);
  proto.set_upper(interval.upper);
  proto.set_gap(interval.gap);
  proto.set_gap_lower(interval.gap_lower);
  proto.set_gap_upper(interval.gap_upper);
  if (interval.stated.has_value()) proto.set_stated(*interval.stated);
  return proto;
}

void ToProto(const RunningKernel& kernel, v1::Provenance& provenance) {
  const MatrixKernel* const matrix = MatrixOf(kernel);
  provenance.set_universal_kernel(matrix == nullptr || matrix->universal());
  if (const auto* const scalar = std::get_if<Kernel>(&kernel)) {
    provenance.set_bandwidth(scalar->bandwidth());
  }
}

void ToProto(const Lens& lens, const KernelSpec& spec, Precision precision,
             const LensTestResult& result, v1::QuadraticTestResult& proto) {
  const BootstrapTestResult& test = result.test;
  v1::Provenance& provenance = *proto.mutable_provenance();
  provenance.set_observations(static_cast<std::int64_t>(test.skce.n));
  provenance.set_lens(lens.name());
  *provenance.mutable_kernel() = KernelToProto(spec);
  if (spec.matrix == nullptr) {
    const BandwidthRule rule =
        result.is_constant
            ? BandwidthRule{.kind = BandwidthRule::Kind::kFixed, .fixed = 1, .alpha = {}}
            : spec.rule.bandwidth;
    *provenance.mutable_bandwidth_rule() = BandwidthToProto(rule, test.skce.n);
  }
  ToProto(result.kernel, provenance);
  const bool single =
      precision == Precision::kFloat32 && !lens.is_scalar() && spec.matrix == nullptr;
  provenance.set_precision(single ? v1::Provenance::FLOAT32 : v1::Provenance::FLOAT64);
  proto.set_skce_biased(test.skce.biased);
  proto.set_skce_unbiased(test.skce.unbiased);
  proto.set_statistic(test.statistic);
  if (test.replicates > 0) {
    ResamplingToProto(test, proto);
    proto.set_seed(test.seed);
  } else if (test.null == NullHypothesis::kPearson) {
    ResamplingToProto(test, proto);
    proto.clear_exceedances();
  }
  proto.set_p_value_upper_bound_biased(
      BiasedPValueUpperBound(test.skce.biased, test.skce.n, result.bound));
  proto.set_p_value_upper_bound_unbiased(
      UnbiasedPValueUpperBound(test.skce.unbiased, test.skce.n, result.bound));
  ToProto(result.null_moments.Biased(), *proto.mutable_noise_floor_biased());
  ToProto(result.null_moments.Unbiased(), *proto.mutable_noise_floor_unbiased());
  const double kce = std::sqrt(test.skce.biased);
  const double deviation = KceDeviation(test.skce.n, result.bound, kConfidenceLevel);
  proto.set_kce_lower_bound(std::max(0.0, kce - deviation));
  proto.set_kce_upper_bound(kce + deviation);
  for (const LensTestResult::OneClass& one : result.classes) {
    v1::QuadraticTestResult::OneClass& out = *proto.add_classes();
    out.set_class_index(static_cast<std::int32_t>(one.class_index));
    out.set_skce_biased(one.skce.biased);
    out.set_skce_unbiased(one.skce.unbiased);
    ToProto(one.null_moments.Unbiased(), *out.mutable_noise_floor_unbiased());
  }
}

absl::StatusOr<Precision> FromProto(v1::Provenance::Precision proto) {
  switch (proto) {
    case v1::Provenance::UNSPECIFIED:
    case v1::Provenance::FLOAT64:
      return Precision::kFloat64;
    case v1::Provenance::FLOAT32:
      return Precision::kFloat32;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "is ", static_cast<int>(proto), ", expected a value of calibd.v1.Provenance.Precision"));
  }
}

v1::QuadraticTestResult::NullHypothesis ToProto(NullHypothesis null) {
  switch (null) {
    case NullHypothesis::kForm:
      return v1::QuadraticTestResult::FORM;
    case NullHypothesis::kForecast:
      return v1::QuadraticTestResult::FORECAST;
    case NullHypothesis::kPearson:
      break;
  }
  return v1::QuadraticTestResult::PEARSON;
}

absl::StatusOr<NullHypothesis> FromProto(v1::QuadraticTestResult::NullHypothesis proto) {
  switch (proto) {
    case v1::QuadraticTestResult::FORM:
      return NullHypothesis::kForm;
    case v1::QuadraticTestResult::UNSPECIFIED:
    case v1::QuadraticTestResult::FORECAST:
      return NullHypothesis::kForecast;
    case v1::QuadraticTestResult::PEARSON:
      return NullHypothesis::kPearson;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("is ", static_cast<int>(proto),
                       ", expected a value of calibd.v1.QuadraticTestResult.NullHypothesis"));
  }
}

absl::StatusOr<NullHypothesis> NumberNullFromProto(v1::QuadraticTestResult::NullHypothesis proto) {
  if (proto != v1::QuadraticTestResult::PEARSON) return FromProto(proto);
  return absl::InvalidArgumentError(
      "is PEARSON, which only predictions of classes have: expected FORM or FORECAST");
}

v1::SimulatedStatistic StatisticToProto(double value, const ResamplingResult& result) {
  v1::SimulatedStatistic proto;
  proto.set_value(value);
  proto.set_p_value(result.p_value);
  proto.set_replicates(result.replicates);
  proto.set_exceedances(result.exceedances);
  proto.set_null(ToProto(result.null));
  proto.set_replicate_mean(result.replicate_mean);
  proto.set_replicate_standard_deviation(result.replicate_standard_deviation);
  proto.set_replicate_upper_quantile(result.replicate_upper_quantile);
  return proto;
}

absl::StatusOr<EvaluationOptions> FromProto(const v1::EvaluateRequest& request,
                                            const KernelSpec& kernel,
                                            std::span<const Lens> default_lenses,
                                            std::size_t class_count) {
  EvaluationOptions options;
  options.lenses = {{.lens = Lens::Canonical(), .kernel = kernel}};
  std::vector<Lens> lenses(default_lenses.begin(), default_lenses.end());
  if (request.lenses_size() > kMaxLenses) {
    return absl::InvalidArgumentError(absl::StrCat("lenses has ", request.lenses_size(),
                                                   " lenses, expected at most ", kMaxLenses));
  }
  if (request.lenses_size() > 0) lenses.clear();
  for (int i = 0; i < request.lenses_size(); ++i) {
    absl::StatusOr<Lens> lens = FromProto(request.lenses(i), class_count);
    if (!lens.ok()) return PrefixedError(absl::StrCat("lenses[", i, "] "), lens.status());
    lenses.push_back(*std::move(lens));
  }
  for (Lens& lens : lenses) {
    if (lens.is_canonical()) continue;
    const KernelSpec own = KernelOfLens(lens, kernel);
    options.lenses.push_back({.lens = std::move(lens), .kernel = own});
  }
  const absl::StatusOr<Precision> precision = FromProto(request.precision());
  if (!precision.ok()) return PrefixedError("precision ", precision.status());
  options.precision = *precision;
  const absl::StatusOr<NullHypothesis> null = FromProto(request.null());
  if (!null.ok()) return PrefixedError("null ", null.status());
  options.null = *null;
  options.replicates = request.has_replicates() ? request.replicates() : kDefaultReplicates;
  options.seed = request.seed();
  options.test_rows = Count(request.test_rows(), kDefaultTestRows);
  if (request.binned_errors_size() > kMaxBinnedErrors) {
    return absl::InvalidArgumentError(absl::StrCat("binned_errors has ",
                                                   request.binned_errors_size(),
                                                   " specs, expected at most ", kMaxBinnedErrors));
  }
  if (request.binned_errors_size() > 0) options.binned_errors.clear();
  for (int i = 0; i < request.binned_errors_size(); ++i) {
    absl::StatusOr<BinnedErrorSpec> spec = FromProto(request.binned_errors(i));
    if (!spec.ok()) return PrefixedError(absl::StrCat("binned_errors[", i, "] "), spec.status());
    options.binned_errors.push_back(*std::move(spec));
  }
  options.reliability_only = request.reliability_only();
  if (options.reliability_only) {
    CALIBD_RETURN_IF_ERROR(CheckOnlyReliability(request));
    options.replicates = 0;
  }
  options.consistency_replicates = request.consistency_replicates();
  options.cme_test_locations = Count(request.cme_test_locations(), 0);
  for (int i = 0; i < request.reliability_classes_size(); ++i) {
    // A negative number is also out of range after the conversion.
    options.reliability_classes.push_back(static_cast<std::size_t>(request.reliability_classes(i)));
  }
  if (request.predictions_follow_labels()) options.error_levels.looks = Looks::kOneInOrder;
  if (request.band_level() != 0) options.band_level = request.band_level();
  // The quantiles of a binomial distribution have no digits left at much smaller levels.
  constexpr double kLeastBandLevel = 0.01;
  constexpr double kMostBandLevel = 1 - 2.0 / kMaxBandReplicates;
  if (!(options.band_level >= kLeastBandLevel && options.band_level <= kMostBandLevel)) {
    return absl::InvalidArgumentError(absl::StrCat("band_level is ", options.band_level,
                                                   ", expected ", kLeastBandLevel, "..",
                                                   kMostBandLevel));
  }
  // A band needs at least this many samples.
  options.band_replicates = std::max(
      options.band_replicates, static_cast<std::int32_t>(std::ceil(2 / (1 - options.band_level))));
  CALIBD_RETURN_IF_ERROR(AddLosses(request, class_count, options));
  CALIBD_RETURN_IF_ERROR(CheckEvaluation(options, class_count));
  return options;
}

v1::Evaluation ToProto(const Evaluation& evaluation, const EvaluationOptions& options) {
  v1::Evaluation proto;
  proto.set_observations(static_cast<std::int64_t>(evaluation.n));
  for (const EventReliability& reliability : evaluation.reliability) {
    ToProto(reliability, options.band_level, *proto.add_reliability());
  }
  if (options.reliability_only) return proto;
  proto.set_tested_observations(static_cast<std::int64_t>(evaluation.tested));
  for (std::size_t i = 0; i < evaluation.lenses.size(); ++i) {
    const Evaluation::OneLens& one = evaluation.lenses[i];
    v1::LensEvaluation& out = *proto.add_lenses();
    out.set_lens(one.lens.name());
    if (one.result.ok()) {
      ToProto(one.lens, options.lenses[i].kernel, options.precision, *one.result,
              *out.mutable_result());
    } else {
      out.set_error(std::string(one.result.status().message()));
    }
    if (one.cme.has_value()) ToProto(*one.cme, options.seed, *out.mutable_cme_test());
  }
  const double bound = evaluation.lenses.front().result->bound;
  for (const RunningBlock& block : evaluation.blocks) {
    *proto.add_estimates() = ToProto(block, bound);
  }
  for (std::size_t b = 0; b < evaluation.block_tests.size(); ++b) {
    v1::BlockEstimate& estimate = *proto.mutable_estimates(static_cast<int>(b));
    if (!estimate.has_skce()) continue;
    estimate.set_p_value(evaluation.block_tests[b].p_value);
    estimate.set_null(ToProto(evaluation.block_tests[b].null));
  }
  v1::Scores& scores = *proto.mutable_scores();
  scores.set_brier(evaluation.scores.brier);
  scores.set_log_loss(evaluation.scores.log_loss);
  scores.set_accuracy(evaluation.scores.accuracy);
  scores.set_mean_entropy(evaluation.scores.mean_entropy);
  scores.set_mean_confidence(evaluation.scores.mean_confidence);
  scores.set_confidence_minus_accuracy(evaluation.scores.confidence_minus_accuracy);
  ToProto(evaluation.brier, *proto.mutable_brier());
  *proto.mutable_error() = ToProto(evaluation.error.top_label);
  if (evaluation.error.class_1.has_value()) {
    *proto.mutable_class_1_error() = ToProto(*evaluation.error.class_1);
  }
  for (const Evaluation::OneBinnedError& one : evaluation.binned_errors) {
    v1::BinnedError& out = *proto.add_binned_errors();
    *out.mutable_spec() = ToProto(one.spec);
    out.set_ece(one.error.ece);
    out.set_mce(one.error.mce);
    out.set_bins(static_cast<std::int64_t>(one.error.bins));
  }
  if (evaluation.consistency.has_value()) {
    const ConsistencyTestResult& consistency = *evaluation.consistency;
    v1::ConsistencyTest& out = *proto.mutable_consistency_test();
    *out.mutable_spec() = ToProto(evaluation.binned_errors.front().spec);
    ResamplingToProto(consistency, out);
    out.set_seed(consistency.seed);
    out.set_caveat(std::string(consistency.null == NullHypothesis::kForecast
                                   ? kSimulationCaveat
                                   : kConsistencyTestCaveat));
  }
  if (evaluation.decision.has_value()) {
    *proto.mutable_decision_loss() = ToProto(*evaluation.decision);
  }
  proto.set_dependence_found_at(evaluation.dependence_found_at);
  return proto;
}

absl::StatusOr<v1::Evaluation::Individual> ToProto(
    const absl::StatusOr<IndividualTestResult>& result) {
  v1::Evaluation::Individual proto;
  if (absl::IsInvalidArgument(result.status()) || absl::IsFailedPrecondition(result.status())) {
    proto.set_left_out_reason(std::string(result.status().message()));
    return proto;
  }
  CALIBD_RETURN_IF_ERROR(result.status());
  proto.set_mmd_squared(result->mmd_squared);
  proto.set_gamma(result->gamma);
  *proto.mutable_test() = StatisticToProto(result->statistic, *result);
  return proto;
}

v1::EvaluatedGroup ToProto(const GroupResult& group, const std::string& name, double error_limit) {
  v1::EvaluatedGroup proto;
  proto.set_name(name);
  proto.set_observations(group.count);
  proto.set_mean_confidence(group.mean_confidence);
  proto.set_accuracy(group.accuracy);
  *proto.mutable_error() = ToProto(group.error.top_label);
  double lower = group.error.top_label.lower;
  double upper = group.error.top_label.upper;
  if (group.error.class_1.has_value()) {
    *proto.mutable_class_1_error() = ToProto(*group.error.class_1);
    lower = std::max(lower, group.error.class_1->lower);
    upper = std::max(upper, group.error.class_1->upper);
    proto.set_class_1_is_worse(Exceeds(proto.class_1_error(), proto.error()));
  }
  proto.set_status(StatusAgainst(error_limit, lower, upper));
  proto.set_log10_e_value(group.log10_e_value);
  proto.set_rejected(group.rejected);
  return proto;
}

void NameActions(const google::protobuf::RepeatedPtrField<v1::Action>& actions,
                 v1::Evaluation& evaluation) {
  if (!evaluation.has_decision_loss()) return;
  for (int a = 0; a < actions.size(); ++a) {
    evaluation.mutable_decision_loss()->mutable_actions(a)->set_name(actions[a].name());
  }
}

}  // namespace calibd::convert
