#include "client/cli/reports/report.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/text.h"
#include "calibd/core/lens.h"
#include "calibd/core/p_value.h"
#include "client/cli/commands/time_option.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;
using Rows = std::vector<std::vector<std::string>>;

constexpr char kOneLook[] =
    "p-values and bounds are for ONE look at a chosen n: watching them until one is small is not "
    "a test.\n";

std::string KernelText(const v1::Kernel& kernel) {
  if (kernel.has_matrix()) {
    return absl::StrCat("matrix-valued kernel of ", kernel.matrix().terms_size(), " terms");
  }
  if (kernel.has_gaussian()) return "Gaussian kernel";
  return absl::StrCat("exponential kernel over ", DistanceText(kernel.exponential().distance()));
}

// which: of the predictions that decided the bandwidth.
std::string RuleText(const v1::BandwidthRule& rule, const char* which = "the first") {
  switch (rule.rule_case()) {
    case v1::BandwidthRule::kFixed:
      return "given";
    case v1::BandwidthRule::kMedianOffDiagonal:
      return absl::StrCat("median of different pairs over ", which, " ",
                          rule.median_off_diagonal().warmup(), " predictions");
    case v1::BandwidthRule::kMeanTotalVariation:
      return "mean total variation of Dirichlet predictions";
    default:
      return absl::StrCat("median over ", which, " ", rule.median().warmup(), " predictions");
  }
}

std::string BandwidthText(const v1::Classes& classes) {
  const v1::BandwidthRule& rule = classes.bandwidth();
  if (classes.kernel().has_matrix()) return "-";
  return rule.has_fixed() ? Number(rule.fixed()) : RuleText(rule);
}

std::string LensesText(const v1::Classes& classes) {
  const auto class_count = static_cast<std::size_t>(classes.count());
  std::vector<std::string> lenses = {"canonical"};
  for (const v1::Lens& lens : classes.lenses()) {
    lenses.push_back(convert::FromProto(lens, class_count).value_or(Lens::Canonical()).name());
  }
  return absl::StrJoin(lenses, ",");
}

std::string EstimatorName(const v1::BlockEstimate& estimate) {
  return estimate.block_size() == 2 ? "SKCE_ul (b = 2)"
                                    : absl::StrCat("blocks of ", estimate.block_size());
}

std::string DescribeRunningScores(const v1::RunningScores& scores, std::int64_t observations) {
  return absl::StrFormat(
      "Scores: Brier %.3f, log loss %.3f, ECE %.3f, of %s %s; the ECE of a calibrated model is "
      "above 0 too, and larger with fewer observations.\n",
      scores.brier_score(), scores.log_loss(), scores.ece(),
      scores.observations() == observations ? "all" : "the newest",
      convert::CountText(scores.observations(), "observation"));
}

std::string DescribeForecastScores(const v1::ForecastScores& scores, std::int64_t observations) {
  std::string text = absl::StrFormat("Scores: CRPS %.3g", scores.crps());
  if (scores.has_log_score()) absl::StrAppendFormat(&text, ", log score %.3g", scores.log_score());
  absl::StrAppend(&text, ", of ", scores.observations() == observations ? "all " : "the newest ",
                  convert::CountText(scores.observations(), "observation"));
  for (const v1::CentralCoverage& one : scores.central_coverage()) {
    absl::StrAppendFormat(&text, "; the %.3g %% intervals cover %.1f %%", 100 * one.promised(),
                          100 * one.coverage());
  }
  for (const v1::LevelCoverage& one : scores.level_coverage()) {
    absl::StrAppend(&text, "; ", convert::LevelText(one));
  }
  return text + ".\n";
}

// "quantiles at 0.05, 0.5, 0.95".
std::string ForecastText(const v1::Forecast& forecast) {
  if (forecast.has_normal()) return "normal";
  if (forecast.has_samples()) return absl::StrCat(forecast.samples().draws(), " samples");
  return absl::StrCat("quantiles at ", absl::StrJoin(forecast.quantiles().levels(), ", "));
}

// "at 110; costs of a false alarm 1, of a miss 5".
std::string DecisionText(const v1::ThresholdDecision& decision) {
  return absl::StrCat("at ", convert::Exact(decision.threshold()), "; costs of a false alarm ",
                      convert::Exact(decision.false_alarm_cost()), ", of a miss ",
                      convert::Exact(decision.miss_cost()));
}

}  // namespace

std::string DistanceText(v1::ExponentialKernel::Distance distance) {
  switch (distance) {
    case v1::ExponentialKernel::CITYBLOCK:
      return "cityblock distance";
    case v1::ExponentialKernel::EUCLIDEAN:
      return "Euclidean distance";
    case v1::ExponentialKernel::SQUARED_EUCLIDEAN:
      return "squared Euclidean distance";
    default:
      return "total variation";
  }
}

std::string BandwidthText(const v1::Provenance& provenance) {
  return provenance.has_bandwidth() ? Number(provenance.bandwidth()) : "-";
}

std::string Number(double value) { return absl::StrFormat("%.3g", value); }
std::string PValue(double p) { return p == 0 ? "<1e-300" : Number(p); }
std::string Signed(double value) { return absl::StrFormat("%+.2e", value); }

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t k = 0; k < row.size(); ++k) {
      widths[k] = std::max(widths[k], convert::CountCharacters(row[k]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string padding(widths[k] - convert::CountCharacters(row[k]), ' ');
      absl::StrAppend(&line, k == 0 ? "" : "  ", k == 0 ? row[k] + padding : padding + row[k]);
    }
    absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return text;
}

std::string DescribeModel(const v1::Model& model) {
  const bool has_grace = model.has_label_grace();
  const v1::Classes& classes = model.classes();
  // What only models of classes have.
  const auto of_classes = [&model](std::string text) {
    return model.has_classes() ? std::move(text) : std::string();
  };
  std::vector<std::pair<std::string, std::string>> settings = {
      {"model", model.name()},
      {"description", model.description()},
      {"forecast", model.has_forecast() ? ForecastText(model.forecast()) : ""},
      {"decision",
       model.forecast().has_decision() ? DecisionText(model.forecast().decision()) : ""},
      {"labels", model.has_labels() ? absl::StrCat(model.labels().names_size(), ": ",
                                                   absl::StrJoin(model.labels().names(), ", "))
                                    : ""},
      {"classes", of_classes(absl::StrCat(classes.count(), classes.names().empty() ? "" : ": ",
                                          absl::StrJoin(classes.names(), ", ")))},
      {"kernel", of_classes(KernelText(classes.kernel()))},
      {"bandwidth", of_classes(BandwidthText(classes))},
      {"lenses", of_classes(LensesText(classes))},
      {"block sizes", absl::StrJoin(classes.block_sizes(), ", ")},
      {"window", convert::CountText(model.window(), "newest observation")},
      {"baseline", classes.baseline()},
      {"features", absl::StrJoin(model.feature_names(), ", ")},
      {"row sum tolerance", of_classes(Number(classes.row_sum_tolerance()))},
      {"label grace", has_grace ? ShortDuration(model.label_grace()) : "none"},
      {"max pending", has_grace ? absl::StrCat(model.max_pending()) : ""}};
  const v1::Monitoring& monitoring = model.monitoring();
  if (monitoring.disabled()) {
    settings.emplace_back("monitoring", "none");
  } else {
    const bool grouped = !monitoring.group_tag().empty();
    settings.insert(
        settings.end(),
        {{"error limit", Number(monitoring.error_limit())},
         {"significance level", Number(monitoring.significance_level())},
         {"average run length", absl::StrFormat("%g", monitoring.average_run_length())},
         {"tolerance", Number(monitoring.tolerance())},
         {"stale after", ShortDuration(monitoring.stale_after())},
         {"min observations", absl::StrCat(monitoring.min_observations())},
         {"reference rows",
          monitoring.reference_rows() == 0 ? "" : absl::StrCat(monitoring.reference_rows())},
         {"group tag", grouped ? monitoring.group_tag() : "none"},
         {"max groups", grouped ? absl::StrCat(monitoring.max_groups()) : ""},
         {"min group obs.", grouped ? absl::StrCat(monitoring.min_group_observations()) : ""}});
  }
  if (model.has_inference_output()) {
    const v1::InferenceOutput& output = model.inference_output();
    settings.emplace_back("inference output",
                          output.name().empty() ? "the only one" : output.name());
    settings.emplace_back("inference transf.",
                          output.transform() == v1::InferenceOutput::SOFTMAX   ? "softmax"
                          : output.transform() == v1::InferenceOutput::SIGMOID ? "sigmoid"
                                                                               : "none");
    settings.emplace_back("inference baseline", output.baseline_name());
    settings.emplace_back("inference columns", absl::StrJoin(output.column_classes(), ", "));
  }
  settings.emplace_back("created", MinuteText(model.create_time()));
  std::string text;
  for (const auto& [name, value] : settings) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-20s%s\n", name, value);
  }
  return text;
}

std::string DescribeModels(const std::vector<v1::Model>& models) {
  if (models.empty()) return "no models\n";
  Rows rows = {
      {"model", "classes", "kernel", "bandwidth", "lenses", "blocks", "window", "created"}};
  // The columns of label graces are shown only if a model has one.
  const bool any_grace = std::any_of(models.begin(), models.end(),
                                     [](const auto& model) { return model.has_label_grace(); });
  if (any_grace) rows[0].insert(rows[0].end() - 1, {"label grace", "max pending"});
  for (const auto& model : models) {
    const v1::Classes& classes = model.classes();
    if (!model.has_classes()) {
      rows.push_back({model.name(),
                      model.has_labels() ? convert::CountText(model.labels().names_size(), "label")
                                         : ForecastText(model.forecast()),
                      "-", "-", "-", "-", absl::StrCat(model.window()),
                      MinuteText(model.create_time())});
    } else {
      rows.push_back({model.name(), absl::StrCat(classes.count()), KernelText(classes.kernel()),
                      BandwidthText(classes), LensesText(classes),
                      absl::StrJoin(classes.block_sizes(), ","), absl::StrCat(model.window()),
                      MinuteText(model.create_time())});
    }
    if (!any_grace) continue;
    const bool has_grace = model.has_label_grace();
    rows.back().insert(rows.back().end() - 1,
                       {has_grace ? ShortDuration(model.label_grace()) : "-",
                        has_grace ? absl::StrCat(model.max_pending()) : "-"});
  }
  return FormatTable(rows);
}

std::string DescribeProvenance(const v1::Provenance& provenance) {
  // Forecasts of a number have no classes, and their kernels are in the result.
  if (provenance.class_count() == 0) {
    return absl::StrFormat("%s (numbers %d to %d), form %s\n",
                           convert::CountText(provenance.observations(), "observation"),
                           provenance.first_observation(), provenance.last_observation(),
                           provenance.lens());
  }
  const bool is_drawn = provenance.observations() <
                        provenance.last_observation() - provenance.first_observation() + 1;
  std::string text =
      absl::StrFormat("%s (%snumbers %d to %d) of %d classes, lens %s, %s",
                      convert::CountText(provenance.observations(), "observation"),
                      is_drawn ? "drawn at random from " : "", provenance.first_observation(),
                      provenance.last_observation(), provenance.class_count(), provenance.lens(),
                      KernelText(provenance.kernel()));
  if (provenance.has_bandwidth()) {
    absl::StrAppendFormat(&text, ", bandwidth %s (%s)", Number(provenance.bandwidth()),
                          RuleText(provenance.bandwidth_rule(), is_drawn ? "these" : "the first"));
  }
  if (!provenance.universal_kernel()) text += ", not universal";
  if (provenance.precision() == v1::Provenance::FLOAT32) text += ", in float32";
  return text + "\n";
}

std::string DescribeEstimates(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates) {
  Rows rows = {{"estimator", "blocks", "pending", "SKCE", "calibrated: 95 % below", "z",
                "p (one look)", "p bound (one look)", "SKCE >= (95 %)"}};
  std::string reasons;
  for (const auto& estimate : estimates) {
    rows.push_back(
        {EstimatorName(estimate), absl::StrCat(estimate.block_count()),
         absl::StrCat(estimate.pending_observations()),
         estimate.has_skce() ? Signed(estimate.skce()) : "-",
         estimate.has_noise_floor() ? Signed(estimate.noise_floor().upper_quantile()) : "-",
         estimate.has_z() ? Number(estimate.z()) : "-",
         estimate.has_p_value() ? PValue(estimate.p_value()) : "-",
         estimate.has_p_value_upper_bound() ? PValue(estimate.p_value_upper_bound()) : "-",
         estimate.has_skce_lower_bound() ? Signed(estimate.skce_lower_bound()) : "-"});
    if (estimate.has_p_value()) continue;
    absl::StrAppend(&reasons, EstimatorName(estimate), ": z, p and bound not computed: ");
    if (estimate.block_count() < kMinTestedBlocks) {
      absl::StrAppend(&reasons, "needs ", kMinTestedBlocks, " blocks, ",
                      kMinTestedBlocks * estimate.block_size(), " observations.\n");
    } else {
      absl::StrAppend(&reasons, "all blocks are equal.\n");
    }
  }
  return FormatTable(rows) + reasons + kOneLook;
}

std::string DescribeQuadratic(const v1::QuadraticTestResult& result) {
  Rows rows = {{"estimator", "SKCE", "calibrated: mean", "95 % below", "p bound (one look)"}};
  const auto add = [&rows](const char* name, double skce, const v1::NoiseFloor& floor,
                           double bound) {
    rows.push_back(
        {name, Signed(skce), Signed(floor.mean()), Signed(floor.upper_quantile()), PValue(bound)});
  };
  if (result.has_outcome_kernel()) {
    rows = {{"estimator", "squared discrepancy"},
            {"biased", Signed(result.skce_biased())},
            {"unbiased", Signed(result.skce_unbiased())}};
  } else {
    add("SKCE_b (biased)", result.skce_biased(), result.noise_floor_biased(),
        result.p_value_upper_bound_biased());
    add("SKCE_uq (unbiased)", result.skce_unbiased(), result.noise_floor_unbiased(),
        result.p_value_upper_bound_unbiased());
  }
  std::string text = FormatTable(rows);
  if (result.null() == v1::QuadraticTestResult::PEARSON) {
    absl::StrAppendFormat(&text,
                          "Pearson curve: p = %s (one look)\ntested against: %s; 95 %% of the "
                          "curve is at most %s\n",
                          PValue(result.p_value()), result.null_description(),
                          Signed(result.replicate_upper_quantile()));
  } else if (result.has_p_value()) {
    absl::StrAppendFormat(
        &text, "%s test: p = %s (one look); %d of %d replicates reach the statistic %s; seed %d\n",
        result.null() == v1::QuadraticTestResult::FORECAST ? "simulation" : "approximate",
        Number(result.p_value()), result.exceedances(), result.replicates(),
        Signed(result.statistic()), result.seed());
    // Earlier servers do not say it.
    if (!result.null_description().empty()) {
      absl::StrAppend(&text, "tested against: ", result.null_description(),
                      "; 95 % of the replicates are at most ",
                      Signed(result.replicate_upper_quantile()), "\n");
    }
  }
  return text;
}

std::string DescribeLabelArrivals(const v1::LabelArrivals& arrivals) {
  const auto with_rate = [](std::int64_t count, double rate) {
    return count == 0 ? "0" : absl::StrFormat("%d (%.3g %%)", count, 100 * rate);
  };
  std::string text = absl::StrFormat(
      "predictions with ids: %d accepted, %d duplicates; %s pending, %d of them labelled",
      arrivals.predictions(), arrivals.duplicate_predictions(),
      with_rate(arrivals.pending(), arrivals.pending_rate()), arrivals.pending_labelled());
  if (arrivals.has_oldest_pending_time()) {
    absl::StrAppend(&text, ", the oldest from ", TimeUtil::ToString(arrivals.oldest_pending_time()),
                    ", which will count on ", TimeUtil::ToString(arrivals.next_maturation_time()));
  }
  absl::StrAppendFormat(&text, "; %d matured, %s of them without a label", arrivals.matured(),
                        with_rate(arrivals.missing(), arrivals.missing_rate()));
  const v1::LabelCounts& labels = arrivals.labels();
  absl::StrAppendFormat(
      &text,
      "\nlabels by id: %d matched, %d repeated, %s conflicting, %s late, %s unknown, %d waiting\n",
      labels.matched(), labels.repeated(),
      with_rate(labels.conflicting(), arrivals.conflicting_rate()),
      with_rate(labels.late(), arrivals.late_rate()),
      with_rate(labels.unknown(), arrivals.unknown_rate()), labels.waiting());
  Rows rows = {
      {"predicted class", "accepted", "pending", "matured", "missing", "late", "conflicting"}};
  for (const auto& one : arrivals.predicted_classes()) {
    rows.push_back({absl::StrCat(one.predicted_class()), absl::StrCat(one.predictions()),
                    with_rate(one.pending(), one.pending_rate()), absl::StrCat(one.matured()),
                    with_rate(one.missing(), one.missing_rate()),
                    with_rate(one.late(), one.late_rate()),
                    with_rate(one.conflicting(), one.conflicting_rate())});
  }
  if (rows.size() > 1) text += FormatTable(rows);
  if (arrivals.has_missing_p_value()) {
    absl::StrAppend(
        &text,
        "if labels were missing equally often for every predicted class, the probability "
        "of such differences would be p = ",
        PValue(arrivals.missing_p_value()), " (one look)\n");
  }
  return text;
}

std::string DescribeCalibration(const v1::GetCalibrationResponse& response) {
  std::string text =
      absl::StrCat(convert::CountText(response.observations(), "observation"), " accepted, ",
                   convert::CountText(response.rejected_rows(), "row"), " rejected, ",
                   response.dropped_rows(), " dropped");
  if (response.dropped_labels() > 0) {
    absl::StrAppend(&text, ", ", convert::CountText(response.dropped_labels(), "label"),
                    " dropped");
  }
  if (response.has_last_observation_time()) {
    absl::StrAppend(&text, ", newest at ", TimeUtil::ToString(response.last_observation_time()));
  }
  text += "\n";
  if (response.has_forecast()) {
    text += DescribeForecastScores(response.forecast(), response.observations());
  }
  if (response.has_scores()) {
    text += DescribeRunningScores(response.scores(), response.observations());
  }
  if (response.has_label_arrivals()) {
    const v1::LabelArrivals& arrivals = response.label_arrivals();
    text += DescribeLabelArrivals(arrivals);
    // The report of a monitored model shows these with its verdict.
    for (int i = 0; !response.has_verdict() && i < arrivals.warnings_size(); ++i) {
      absl::StrAppend(&text, "WARNING: ", arrivals.warnings(i), "\n");
    }
  }
  // The reading gives the reason if that is why there is no evidence.
  if (!absl::StrContains(response.reading().certain().text(), response.bandwidth_error())) {
    absl::StrAppend(&text, "The bandwidth cannot be chosen: ", response.bandwidth_error(), "\n");
  }
  const auto& insufficient = response.insufficient_data();
  // 0 if more observations would not help.
  if (insufficient.needed() > 0) {
    absl::StrAppend(&text, "Not enough data: ", insufficient.observations(), " observations, ",
                    insufficient.needed(), " more needed (", insufficient.reason(), ").\n");
  }
  if (response.has_provenance()) text += DescribeProvenance(response.provenance());
  if (response.estimates_size() > 0) text += DescribeEstimates(response.estimates());
  for (const v1::RunningLens& lens : response.lenses()) {
    if (!lens.bandwidth_error().empty()) {
      absl::StrAppend(&text, "\nlens ", lens.lens(), ": ", lens.bandwidth_error(), "\n");
      continue;
    }
    absl::StrAppend(&text, "\nlens ", lens.lens(), " (cannot detect ", BlindSpot(lens.lens()),
                    "), bandwidth ", BandwidthText(lens.provenance()), "\n",
                    DescribeEstimates(lens.estimates()));
  }
  return text;
}

}  // namespace calibd::cli
