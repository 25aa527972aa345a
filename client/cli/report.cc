#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/time_util.h"
#include "lens_option.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kOneLook[] =
    "p-values and bounds are for ONE look at a chosen n: watching them until one is small is not "
    "a test.\n";

std::string Number(double value) { return absl::StrFormat("%.6g", value); }
// A p-value of 0 is one too small for a double.
std::string PValue(double p) { return p == 0 ? "<1e-300" : Number(p); }
std::string Signed(double value) { return absl::StrFormat("%+.6e", value); }

// The contract has one kernel.
Json KernelJson() { return {{"family", "exponential"}, {"distance", "total_variation"}}; }

Json BandwidthRuleJson(const v1::BandwidthRule& rule) {
  Json json;
  if (rule.rule_case() == v1::BandwidthRule::kFixed) {
    json["rule"] = "fixed";
    json["fixed"] = rule.fixed();
  } else {
    json["rule"] = "median";
    json["warmup"] = rule.median().warmup();
  }
  return json;
}

std::string RuleText(const v1::BandwidthRule& rule) {
  if (rule.rule_case() == v1::BandwidthRule::kFixed) return "given";
  return absl::StrCat("median over the first ", rule.median().warmup(), " predictions");
}

std::string EstimatorName(const v1::BlockEstimate& estimate) {
  return estimate.block_size() == 2 ? "SKCE_ul (b = 2)"
                                    : absl::StrCat("blocks of ", estimate.block_size());
}

}  // namespace

Json ToJson(const v1::Model& model) {
  Json json;
  json["name"] = model.name();
  json["class_count"] = model.class_count();
  json["class_names"] =
      std::vector<std::string>(model.class_names().begin(), model.class_names().end());
  json["kernel"] = KernelJson();
  json["bandwidth"] = BandwidthRuleJson(model.bandwidth());
  json["block_sizes"] =
      std::vector<std::int32_t>(model.block_sizes().begin(), model.block_sizes().end());
  json["window"] = model.window();
  json["row_sum_tolerance"] = model.row_sum_tolerance();
  json["create_time"] =
      model.has_create_time() ? Json(TimeUtil::ToString(model.create_time())) : Json();
  return json;
}

Json ToJson(const v1::BlockEstimate& estimate) {
  const auto optional = [](bool has, double value) { return has ? Json(value) : Json(); };
  Json json;
  json["block_size"] = estimate.block_size();
  json["block_count"] = estimate.block_count();
  json["pending_observations"] = estimate.pending_observations();
  json["skce"] = optional(estimate.has_skce(), estimate.skce());
  json["standard_deviation"] =
      optional(estimate.has_standard_deviation(), estimate.standard_deviation());
  json["z"] = optional(estimate.has_z(), estimate.z());
  json["p_value"] = optional(estimate.has_p_value(), estimate.p_value());
  json["p_value_upper_bound"] =
      optional(estimate.has_p_value_upper_bound(), estimate.p_value_upper_bound());
  json["skce_lower_bound"] = optional(estimate.has_skce_lower_bound(), estimate.skce_lower_bound());
  return json;
}

Json ToJson(const v1::Provenance& provenance) {
  Json json;
  json["observations"] = provenance.observations();
  json["first_observation"] = provenance.first_observation();
  json["last_observation"] = provenance.last_observation();
  json["class_count"] = provenance.class_count();
  json["lens"] = provenance.lens();
  json["kernel"] = KernelJson();
  json["bandwidth_rule"] = BandwidthRuleJson(provenance.bandwidth_rule());
  json["bandwidth"] = provenance.bandwidth();
  json["compute_time"] =
      provenance.has_compute_time() ? Json(TimeUtil::ToString(provenance.compute_time())) : Json();
  json["valid_for_repeated_looks"] = provenance.valid_for_repeated_looks();
  json["version"] = provenance.version();
  return json;
}

Json ToJson(const v1::QuadraticTestResult& result) {
  Json json;
  json["skce_biased"] = result.skce_biased();
  json["skce_unbiased"] = result.skce_unbiased();
  json["statistic"] = result.statistic();
  json["p_value"] = result.p_value();
  json["replicates"] = result.replicates();
  json["exceedances"] = result.exceedances();
  json["seed"] = result.seed();
  json["replicate_mean"] = result.replicate_mean();
  json["replicate_standard_deviation"] = result.replicate_standard_deviation();
  json["p_value_upper_bound_biased"] = result.p_value_upper_bound_biased();
  json["p_value_upper_bound_unbiased"] = result.p_value_upper_bound_unbiased();
  if (result.replicates() == 0) {
    for (const char* key :
         {"p_value", "exceedances", "seed", "replicate_mean", "replicate_standard_deviation"}) {
      json[key] = nullptr;
    }
  }
  const auto floor = [](bool has, const v1::NoiseFloor& value) {
    return has ? Json{{"mean", value.mean()},
                      {"standard_deviation", value.standard_deviation()},
                      {"upper_quantile", value.upper_quantile()}}
               : Json();
  };
  json["noise_floor_biased"] = floor(result.has_noise_floor_biased(), result.noise_floor_biased());
  json["noise_floor_unbiased"] =
      floor(result.has_noise_floor_unbiased(), result.noise_floor_unbiased());
  json["kce_lower_bound"] = result.kce_lower_bound();
  json["kce_upper_bound"] = result.kce_upper_bound();
  json["elapsed_seconds"] =
      static_cast<double>(TimeUtil::DurationToNanoseconds(result.elapsed())) * 1e-9;
  return json;
}

Json ToJson(const v1::GetCalibrationResponse& response) {
  Json json;
  json["model"] = response.model();
  json["observations"] = response.observations();
  json["rejected_rows"] = response.rejected_rows();
  json["dropped_rows"] = response.dropped_rows();
  json["last_observation_time"] = response.has_last_observation_time()
                                      ? Json(TimeUtil::ToString(response.last_observation_time()))
                                      : Json();
  json["insufficient_data"] = nullptr;
  if (response.has_insufficient_data()) {
    const auto& insufficient = response.insufficient_data();
    json["insufficient_data"] = {{"observations", insufficient.observations()},
                                 {"needed", insufficient.needed()},
                                 {"reason", insufficient.reason()}};
  }
  json["bandwidth_error"] =
      response.bandwidth_error().empty() ? Json() : Json(response.bandwidth_error());
  json["estimates"] = Json::array();
  for (const auto& estimate : response.estimates()) json["estimates"].push_back(ToJson(estimate));
  json["provenance"] = response.has_provenance() ? ToJson(response.provenance()) : Json();
  return json;
}

Json ToJson(const Scores& scores) {
  return {{"brier", scores.brier},
          {"log_loss", scores.log_loss},
          {"accuracy", scores.accuracy},
          {"mean_entropy", scores.mean_entropy},
          {"mean_confidence", scores.mean_confidence},
          {"confidence_minus_accuracy", scores.confidence_minus_accuracy}};
}

Json ToJson(const BinnedError& error) {
  return {{"ece", error.ece}, {"mce", error.mce}, {"bins", error.bins}};
}

Json ToJson(const CorpDecomposition& decomposition) {
  return {{"score", decomposition.score},
          {"miscalibration", decomposition.miscalibration},
          {"discrimination", decomposition.discrimination},
          {"uncertainty", decomposition.uncertainty}};
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string padding(widths[k] - row[k].size(), ' ');
      absl::StrAppend(&line, k == 0 ? "" : "  ", k == 0 ? row[k] + padding : padding + row[k]);
    }
    absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return text;
}

std::string DescribeModels(const std::vector<v1::Model>& models) {
  if (models.empty()) return "no models\n";
  std::vector<std::vector<std::string>> rows = {
      {"model", "classes", "bandwidth", "blocks", "window", "created"}};
  for (const auto& model : models) {
    const auto& rule = model.bandwidth();
    rows.push_back({model.name(), absl::StrCat(model.class_count()),
                    rule.rule_case() == v1::BandwidthRule::kFixed
                        ? Number(rule.fixed())
                        : absl::StrCat("median of ", rule.median().warmup()),
                    absl::StrJoin(model.block_sizes(), ","), absl::StrCat(model.window()),
                    TimeUtil::ToString(model.create_time())});
  }
  return FormatTable(rows);
}

std::string DescribeProvenance(const v1::Provenance& provenance) {
  return absl::StrFormat(
      "%d observations (numbers %d to %d) of %d classes, lens %s, exponential kernel over total "
      "variation, bandwidth %s (%s)\n",
      provenance.observations(), provenance.first_observation(), provenance.last_observation(),
      provenance.class_count(), provenance.lens(), Number(provenance.bandwidth()),
      RuleText(provenance.bandwidth_rule()));
}

std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates) {
  std::vector<std::vector<std::string>> rows = {{"estimator", "blocks", "waiting", "SKCE", "sd",
                                                 "z", "p (one look)", "p bound (one look)",
                                                 "SKCE >= (95 %)"}};
  std::string too_few;
  for (const auto& estimate : estimates) {
    rows.push_back(
        {EstimatorName(estimate), absl::StrCat(estimate.block_count()),
         absl::StrCat(estimate.pending_observations()),
         estimate.has_skce() ? Signed(estimate.skce()) : "-",
         estimate.has_standard_deviation() ? Number(estimate.standard_deviation()) : "-",
         estimate.has_z() ? Number(estimate.z()) : "-",
         estimate.has_p_value() ? PValue(estimate.p_value()) : "-",
         estimate.has_p_value_upper_bound() ? PValue(estimate.p_value_upper_bound()) : "-",
         estimate.has_skce_lower_bound() ? Signed(estimate.skce_lower_bound()) : "-"});
    if (!estimate.has_p_value()) {
      const std::int64_t have =
          estimate.block_count() * estimate.block_size() + estimate.pending_observations();
      absl::StrAppend(&too_few, "Not enough data for the test with ", EstimatorName(estimate), ": ",
                      have, " observations, ", 2 * estimate.block_size(), " needed.\n");
    }
  }
  return FormatTable(rows) + too_few + kOneLook;
}

std::string DescribeQuadratic(const v1::QuadraticTestResult& result) {
  std::vector<std::vector<std::string>> rows = {
      {"estimator", "SKCE", "calibrated: mean", "95 % below", "p bound (one look)"}};
  const auto add = [&rows](const char* name, double skce, bool has_floor,
                           const v1::NoiseFloor& floor, double bound) {
    rows.push_back({name, Signed(skce), has_floor ? Signed(floor.mean()) : "-",
                    has_floor ? Signed(floor.upper_quantile()) : "-", PValue(bound)});
  };
  add("SKCE_b (biased)", result.skce_biased(), result.has_noise_floor_biased(),
      result.noise_floor_biased(), result.p_value_upper_bound_biased());
  add("SKCE_uq (unbiased)", result.skce_unbiased(), result.has_noise_floor_unbiased(),
      result.noise_floor_unbiased(), result.p_value_upper_bound_unbiased());
  std::string text = FormatTable(rows);
  if (result.replicates() > 0) {
    absl::StrAppendFormat(
        &text,
        "bootstrap test: p = %s (one look); %d of %d replicates reach the statistic %s; seed %d\n",
        Number(result.p_value()), result.exceedances(), result.replicates(),
        Signed(result.statistic()), result.seed());
  }
  return text;
}

std::string DescribeLenses(const std::vector<v1::QuadraticTestResult>& lenses) {
  std::vector<std::vector<std::string>> rows = {
      {"lens", "bandwidth", "SKCE_uq", "calibrated: 95 % below", "p (one look)", "cannot see"}};
  for (const auto& lens : lenses) {
    rows.push_back({lens.provenance().lens(), Number(lens.provenance().bandwidth()),
                    Signed(lens.skce_unbiased()),
                    lens.has_noise_floor_unbiased()
                        ? Signed(lens.noise_floor_unbiased().upper_quantile())
                        : "-",
                    lens.replicates() > 0 ? PValue(lens.p_value()) : "-",
                    BlindSpot(lens.provenance().lens())});
  }
  return FormatTable(rows);
}

std::string DescribeScores(const Evaluation& evaluation) {
  const Scores& scores = evaluation.scores;
  const CorpDecomposition& brier = evaluation.top_label_brier;
  return absl::StrFormat(
      "accuracy %s, mean confidence %s, confidence - accuracy %+.4f\n"
      "Brier %s, log loss %s, mean entropy %s\n"
      "top-label Brier %s = miscalibration %s - discrimination %s + uncertainty %s (CORP)\n"
      "ECE (15 bins): top label %s (MCE %s), mean over classes %s; biased upwards\n",
      Number(scores.accuracy), Number(scores.mean_confidence), scores.confidence_minus_accuracy,
      Number(scores.brier), Number(scores.log_loss), Number(scores.mean_entropy),
      Number(brier.score), Number(brier.miscalibration), Number(brier.discrimination),
      Number(brier.uncertainty), Number(evaluation.top_label_error.ece),
      Number(evaluation.top_label_error.mce), Number(evaluation.class_wise_error.ece));
}

std::string Summarize(const Evaluation& evaluation, double level) {
  std::vector<const v1::QuadraticTestResult*> lenses = {&evaluation.quadratic};
  for (const auto& lens : evaluation.lenses) lenses.push_back(&lens);
  std::vector<std::string> rejected;
  std::vector<std::string> passed;
  // Bonferroni: all lenses look at the same data.
  const double each = level / static_cast<double>(lenses.size());
  for (const auto* lens : lenses) {
    if (lens->replicates() == 0) return "";
    (lens->p_value() <= each ? rejected : passed).push_back(lens->provenance().lens());
  }
  const double gap = evaluation.scores.confidence_minus_accuracy;
  std::string text;
  if (!rejected.empty()) {
    text = absl::StrFormat(
        "Not calibrated: rejected by %s at level %s over %d lens%s; on average %s by %.1f "
        "points.\n",
        absl::StrJoin(rejected, ", "), Number(level), lenses.size(), lenses.size() == 1 ? "" : "es",
        gap > 0 ? "over-confident" : "under-confident", 100 * std::abs(gap));
  }
  if (!passed.empty()) {
    absl::StrAppend(&text, "Not rejected by ", absl::StrJoin(passed, ", "),
                    ": that is no proof of calibration, only too little evidence against it.\n");
  }
  return text;
}

std::string DescribeCalibration(const v1::GetCalibrationResponse& response) {
  std::string text = absl::StrFormat("%s: %d observations accepted, %d rows rejected, %d dropped",
                                     response.model(), response.observations(),
                                     response.rejected_rows(), response.dropped_rows());
  if (response.has_last_observation_time()) {
    absl::StrAppend(&text, ", newest at ", TimeUtil::ToString(response.last_observation_time()));
  }
  text += "\n";
  if (!response.bandwidth_error().empty()) {
    absl::StrAppend(&text, "The bandwidth cannot be chosen: ", response.bandwidth_error(), "\n");
  }
  if (response.has_insufficient_data()) {
    const auto& insufficient = response.insufficient_data();
    absl::StrAppend(&text, "Not enough data: ", insufficient.observations(), " observations, ",
                    insufficient.needed(), " more needed (", insufficient.reason(), ").\n");
  }
  if (response.has_provenance()) text += DescribeProvenance(response.provenance());
  if (response.estimates_size() > 0) text += DescribeEstimates(response.estimates());
  return text;
}

}  // namespace calibd::cli
