#include "forecast_report.h"

#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "verdict_report.h"

namespace calibd::cli {
namespace {

// A share of outcomes must differ from the promise by more than its interval.
enum class Width { kUnclear, kNarrow, kWide };

const char* KindName(const NumberForecastKind& kind) {
  if (std::holds_alternative<NormalForecasts>(kind)) return "normal";
  return std::holds_alternative<QuantileForecasts>(kind) ? "quantiles" : "samples";
}

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }

Width WidthOf(const ForecastCoverage& coverage) {
  Width width = Width::kUnclear;
  for (const auto& central : coverage.central) {
    if (!central.has_value()) continue;
    if (central->upper < central->promised) width = Width::kNarrow;
    if (central->lower > central->promised) width = Width::kWide;
  }
  return width;
}

// The widest central interval, in which people trust most.
const CentralCoverage* WidestOf(const ForecastCoverage& coverage) {
  const CentralCoverage* widest = nullptr;
  for (const auto& central : coverage.central) {
    if (central.has_value()) widest = &*central;
  }
  return widest;
}

std::string Headline(const ForecastEvaluation& evaluation) {
  const CentralCoverage* const widest = WidestOf(evaluation.coverage);
  if (widest == nullptr) return "";
  const Width width = WidthOf(evaluation.coverage);
  return absl::StrFormat("%s: the %s intervals contain %s of the outcomes (%s to %s).\n",
                         width == Width::kNarrow ? "The intervals are too narrow"
                         : width == Width::kWide
                             ? "The intervals are too wide"
                             : "The width of the intervals cannot be told to be wrong",
                         Percent(widest->promised), Percent(widest->coverage),
                         Percent(widest->lower), Percent(widest->upper));
}

std::string Scores(const NumberForecastKind& kind, const ForecastEvaluation& evaluation) {
  std::string text;
  if (std::holds_alternative<QuantileForecasts>(kind)) {
    absl::StrAppendFormat(&text, "score       %s, the mean of twice the pinball loss\n",
                          Number(evaluation.crps));
  } else {
    absl::StrAppendFormat(&text, "CRPS        %s, in the unit of the outcomes\n",
                          Number(evaluation.crps));
  }
  if (evaluation.log_score.has_value()) {
    absl::StrAppendFormat(&text, "log score   %s nats\n", Number(*evaluation.log_score));
  }
  if (evaluation.mean_t.has_value()) {
    absl::StrAppendFormat(
        &text,
        "errors      (outcome - mean) / standard deviation has the mean %+.3g and the standard "
        "deviation %.3g; calibrated forecasts have 0 and 1\n",
        *evaluation.mean_t, *evaluation.deviation_t);
  }
  if (evaluation.decision.has_value()) {
    absl::StrAppendFormat(
        &text, "decision    %s of the decisions were wrong, the forecasts expected %s\n",
        Percent(evaluation.decision->realised_loss), Percent(evaluation.decision->expected_loss));
  }
  return text;
}

std::string CoverageTable(const ForecastCoverage& coverage) {
  std::vector<std::vector<std::string>> rows = {
      {"central interval", "promised", "outcomes inside", "95 % interval"}};
  for (const auto& central : coverage.central) {
    if (!central.has_value()) continue;
    rows.push_back(
        {absl::StrCat(Percent(central->lower_level), " to ", Percent(central->upper_level)),
         Percent(central->promised), Percent(central->coverage),
         absl::StrCat(Percent(central->lower), " to ", Percent(central->upper))});
  }
  std::string text = rows.size() > 1 ? FormatTable(rows) : "";
  absl::StrAppendFormat(&text,
                        "Coverage error over %d cells: %s points (%s to %s), biased upwards.\n",
                        coverage.error.cell_count, Number(100 * coverage.error.estimate),
                        Number(100 * coverage.error.lower), Number(100 * coverage.error.upper));
  return text;
}

void AddTest(const char* name, double value, const ResamplingResult& test,
             std::vector<std::vector<std::string>>& rows) {
  rows.push_back({name, Number(value), Number(test.replicate_mean),
                  Number(test.replicate_upper_quantile), PValue(test.p_value)});
}

std::string TestTable(const ForecastEvaluation& evaluation) {
  std::vector<std::vector<std::string>> rows = {
      {"test", "value", "calibrated: mean", "95 % below", "p (one look)"}};
  if (evaluation.pit.has_value()) {
    const auto add = [&](const char* name, const PitTest& test) {
      AddTest(name, test.value, test.test, rows);
    };
    add("quantile calibration error", evaluation.pit->quantile_calibration_error);
    add("mean squared error of 19 levels", evaluation.pit->quantile_level_error);
    add("Cramer-von Mises", evaluation.pit->cramer_von_mises);
  }
  if (evaluation.level_error.has_value()) {
    AddTest("mean squared error of the levels", evaluation.level_error->value,
            evaluation.level_error->test, rows);
  }
  for (const NamedDiscrepancy& named : evaluation.discrepancies) {
    AddTest(absl::StrCat("discrepancy (MMD^2), ", named.form).c_str(), named.result.statistic,
            named.result, rows);
  }
  return FormatTable(rows);
}

Json ResamplingJson(const ResamplingResult& test) {
  return {{"p_value", test.p_value},
          {"replicates", test.replicates},
          {"exceedances", test.exceedances},
          {"seed", std::to_string(test.seed)},
          {"null", test.null == NullHypothesis::kForecast ? "forecast" : "form"},
          {"replicate_mean", test.replicate_mean},
          {"replicate_standard_deviation", test.replicate_standard_deviation},
          {"replicate_upper_quantile", test.replicate_upper_quantile}};
}

Json PitJson(const PitTest& test) {
  return {{"value", test.value}, {"test", ResamplingJson(test.test)}};
}

Json CoverageJson(const ForecastCoverage& coverage) {
  Json json = {{"error",
                {{"cell_count", coverage.error.cell_count},
                 {"estimate", coverage.error.estimate},
                 {"lower", coverage.error.lower},
                 {"upper", coverage.error.upper}}}};
  json["central"] = Json::array();
  for (const auto& central : coverage.central) {
    if (!central.has_value()) continue;
    json["central"].push_back({{"nominal", central->nominal},
                               {"lower_level", central->lower_level},
                               {"upper_level", central->upper_level},
                               {"promised", central->promised},
                               {"coverage", central->coverage},
                               {"lower", central->lower},
                               {"upper", central->upper}});
  }
  return json;
}

const ResamplingResult& AnyTest(const ForecastEvaluation& evaluation) {
  return evaluation.pit.has_value() ? evaluation.pit->cramer_von_mises.test
                                    : evaluation.level_error->test;
}

}  // namespace

std::string DescribeForecasts(const NumberForecastKind& kind,
                              const ForecastEvaluation& evaluation) {
  const ResamplingResult& exact = AnyTest(evaluation);
  std::string text =
      absl::StrFormat("%d forecasts (%s) with outcomes\n", evaluation.count, KindName(kind));
  absl::StrAppend(&text, Headline(evaluation), "\n", Scores(kind, evaluation), "\n",
                  CoverageTable(evaluation.coverage), "\n", TestTable(evaluation));
  absl::StrAppendFormat(
      &text,
      "e-value %s of the cells of the outcomes: %s.\n"
      "calibrated: simulated %d times with outcomes drawn from the forecasts, which is exact for "
      "every number of rows; seed %d.\n",
      PowerOfTen(evaluation.log10_e_value),
      evaluation.log10_e_value >= std::log10(20.0)
          ? "at least 20, so calibration is rejected at 5 %"
          : "below 20, so calibration is not rejected",
      exact.replicates, exact.seed);
  return text;
}

Json ForecastJson(const NumberForecastKind& kind, const ForecastEvaluation& evaluation) {
  Json json = {{"kind", KindName(kind)},
               {"count", evaluation.count},
               {"crps", evaluation.crps},
               {"coverage", CoverageJson(evaluation.coverage)},
               {"log10_e_value", evaluation.log10_e_value},
               {"direction",
                {{"shift", evaluation.direction.best.shift},
                 {"scale", evaluation.direction.best.scale},
                 {"share", evaluation.direction.share}}}};
  if (evaluation.log_score.has_value()) json["log_score"] = *evaluation.log_score;
  if (evaluation.mean_t.has_value()) {
    json["mean_t"] = *evaluation.mean_t;
    json["standard_deviation_t"] = *evaluation.deviation_t;
  }
  if (evaluation.pit.has_value()) {
    json["quantile_calibration_error"] = PitJson(evaluation.pit->quantile_calibration_error);
    json["quantile_level_error"] = PitJson(evaluation.pit->quantile_level_error);
    json["cramer_von_mises"] = PitJson(evaluation.pit->cramer_von_mises);
  }
  if (evaluation.level_error.has_value()) {
    json["level_error"] = PitJson(*evaluation.level_error);
  }
  json["discrepancies"] = Json::array();
  for (const NamedDiscrepancy& named : evaluation.discrepancies) {
    json["discrepancies"].push_back({{"form", named.form},
                                     {"mmd_squared", named.result.mmd_squared},
                                     {"biased_mmd_squared", named.result.biased_mmd_squared},
                                     {"statistic", named.result.statistic},
                                     {"test", ResamplingJson(named.result)}});
  }
  if (evaluation.decision.has_value()) {
    json["decision"] = {{"realised_loss", evaluation.decision->realised_loss},
                        {"expected_loss", evaluation.decision->expected_loss},
                        {"squared_error", evaluation.decision->squared_error},
                        {"squared_error_unbiased", evaluation.decision->squared_error_unbiased}};
  }
  return json;
}

}  // namespace calibd::cli
