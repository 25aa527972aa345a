#include "client/cli/reports/forecast_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/forecast_test.h"
#include "calibd/text/printable.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/verdict_report.h"

namespace calibd::cli {
namespace {

using Central = google::protobuf::RepeatedPtrField<v1::CentralCoverage>;

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }

// About the widest central interval whose promise lies outside the interval of its coverage, or the
// widest at all, which people trust most.
std::string Headline(const Central& central) {
  if (central.empty()) return "";
  const v1::CentralCoverage* shown = &*central.rbegin();
  const char* width = shown->upper() - shown->lower() < 0.5
                          ? "No error in the width of the intervals is visible"
                          : "There are too few outcomes to judge the width of the intervals";
  for (const v1::CentralCoverage& one : central) {
    const bool is_narrow = one.upper() < one.promised();
    if (!is_narrow && one.lower() <= one.promised()) continue;
    width = is_narrow ? "The intervals are too narrow" : "The intervals are too wide";
    shown = &one;
  }
  return absl::StrFormat("%s: the %s intervals contain %s of the outcomes (%s to %s).\n", width,
                         Percent(shown->promised()), Percent(shown->coverage()),
                         Percent(shown->lower()), Percent(shown->upper()));
}

std::string CellText(const v1::ForecastCell& cell) {
  return absl::StrCat(CellPlace(cell), " ", cell.observations(), ", expected ",
                      ExpectedCount(cell.expected()));
}

// The cells that stand out most, which a width of the intervals does not show. Empty without one.
std::string CellSentence(const v1::ForecastEvaluation& evaluation) {
  constexpr std::size_t kMostCells = 2;
  std::vector<v1::ForecastCell> cells;
  std::ranges::copy_if(evaluation.cells(), std::back_inserter(cells),
                       &v1::ForecastCell::stands_out);
  std::ranges::stable_sort(cells, std::ranges::greater(),
                           [](const v1::ForecastCell& cell) { return std::abs(cell.z()); });
  cells.resize(std::min(cells.size(), kMostCells));
  std::vector<std::string> texts(cells.size());
  std::ranges::transform(cells, texts.begin(), CellText);
  return texts.empty() ? "" : absl::StrCat("Outcomes ", absl::StrJoin(texts, "; "), ".\n");
}

std::string BiasSentence(const v1::ForecastEvaluation& evaluation) {
  const v1::ForecastScores& scores = evaluation.scores();
  const std::string bias =
      scores.has_residual_mean()
          ? BiasText(scores.residual_mean(), scores.residual_standard_deviation(),
                     scores.observations())
          : BiasText(evaluation.direction(), scores.observations());
  return bias.empty() ? "" : absl::StrCat("The forecasts are ", bias, ".\n");
}

std::string Scores(const std::string& kind, const v1::ForecastEvaluation& evaluation) {
  const v1::ForecastScores& scores = evaluation.scores();
  std::string text;
  if (kind == "quantiles") {
    absl::StrAppendFormat(&text, "score       %s, the mean of twice the pinball loss\n",
                          Number(scores.crps()));
  } else {
    absl::StrAppendFormat(&text, "CRPS        %s, in the unit of the outcomes\n",
                          Number(scores.crps()));
  }
  if (scores.has_log_score()) {
    absl::StrAppendFormat(&text, "log score   %s nats\n", Number(scores.log_score()));
  }
  if (scores.has_residual_mean()) {
    absl::StrAppendFormat(
        &text,
        "errors      (outcome - mean) / standard deviation has the mean %+.3g and the standard "
        "deviation %.3g; calibrated forecasts have 0 and 1\n",
        scores.residual_mean(), scores.residual_standard_deviation());
  }
  if (evaluation.has_decision()) {
    const v1::ForecastEvaluation::Decision& decision = evaluation.decision();
    // An earlier server does not say the costs.
    const auto is_1 = [](double cost) { return cost == 0 || cost == 1; };
    if (is_1(decision.false_alarm_cost()) && is_1(decision.miss_cost())) {
      absl::StrAppendFormat(
          &text, "decision    at %s: %s of the decisions were wrong, the forecasts expected %s\n",
          convert::Exact(decision.threshold()), Percent(decision.realised_loss()),
          Percent(decision.expected_loss()));
    } else {
      absl::StrAppendFormat(&text,
                            "decision    at %s: they cost %s each, the forecasts expected %s (a "
                            "false alarm %g, a miss %g)\n",
                            convert::Exact(decision.threshold()), Number(decision.realised_loss()),
                            Number(decision.expected_loss()), decision.false_alarm_cost(),
                            decision.miss_cost());
    }
  }
  return text;
}

std::string CoverageTable(const v1::ForecastEvaluation& evaluation) {
  std::vector<std::vector<std::string>> rows = {
      {"central interval", "promised", "outcomes inside", "between"}};
  for (const v1::CentralCoverage& one : evaluation.scores().central_coverage()) {
    rows.push_back({absl::StrCat(Percent(one.lower_level()), " to ", Percent(one.upper_level())),
                    Percent(one.promised()), Percent(one.coverage()),
                    absl::StrCat(Percent(one.lower()), " and ", Percent(one.upper()))});
  }
  std::string text = rows.size() > 1 ? FormatTable(rows) : "";
  const double lower = evaluation.coverage_error_lower();
  const double upper = evaluation.coverage_error_upper();
  absl::StrAppend(
      &text, "Coverage error over ", evaluation.coverage_cells(), " cells: ",
      convert::SaysLittle(lower, upper)
          ? absl::StrFormat("0 to %s points, too few outcomes to say more.", Number(100 * upper))
          : absl::StrFormat("%s points (%s to %s), biased upwards.",
                            Number(100 * evaluation.coverage_error()), Number(100 * lower),
                            Number(100 * upper)),
      " All these intervals hold together with 95 %.\n");
  return text;
}

std::string TestTable(const v1::ForecastEvaluation& evaluation) {
  std::vector<std::vector<std::string>> rows = {
      {"test", "value", "calibrated: mean", "95 % below", "p (one look)"}};
  const auto add = [&rows](const std::string& name, const v1::SimulatedStatistic& test) {
    rows.push_back({name, Number(test.value()), Number(test.replicate_mean()),
                    Number(test.replicate_upper_quantile()), PValue(test.p_value())});
  };
  if (evaluation.has_quantile_calibration_error()) {
    add("quantile calibration error", evaluation.quantile_calibration_error());
    add("mean squared error of 19 levels", evaluation.quantile_level_error());
    add("Cramer-von Mises", evaluation.cramer_von_mises());
  }
  if (evaluation.has_level_error()) {
    add("mean squared error of the levels", evaluation.level_error());
  }
  if (evaluation.decision().has_calibration_error()) {
    add("decision calibration error", evaluation.decision().calibration_error());
  }
  std::vector<std::string> exact;
  for (const auto& discrepancy : evaluation.discrepancies()) {
    const bool approximate = discrepancy.test().value() != discrepancy.mmd_squared();
    add(absl::StrCat("discrepancy (MMD^2), ", discrepancy.form(), approximate ? " *" : ""),
        discrepancy.test());
    if (approximate) {
      exact.push_back(absl::StrCat(discrepancy.form(), " ", Number(discrepancy.mmd_squared())));
    }
  }
  if (evaluation.has_local()) add("local calibration error", evaluation.local().mean_error());
  std::string text = FormatTable(rows);
  if (!exact.empty()) {
    absl::StrAppendFormat(&text,
                          "* %d random features, with which the test is exact too. Over all pairs, "
                          "MMD^2 is: %s.\n",
                          kTestFrequencies, absl::StrJoin(exact, ", "));
  }
  const bool are_equal = std::ranges::any_of(
      evaluation.discrepancies(), [](const v1::ForecastEvaluation::TestedDiscrepancy& discrepancy) {
        return discrepancy.form() == "distribution" && discrepancy.condition().has_none();
      });
  if (are_equal) {
    absl::StrAppend(&text, "The ",
                    evaluation.scores().observations() > std::int64_t{kParameterRows}
                        ? absl::StrCat("first ", kParameterRows, " ")
                        : "",
                    "forecasts do not differ, so that the discrepancy distribution has no "
                    "condition.\n");
  }
  for (const auto& form : evaluation.left_out()) {
    absl::StrAppend(&text, "discrepancy (MMD^2), ", form.form(), ": not tested, because ",
                    form.reason(), "\n");
  }
  return text;
}

// The places at which an error is significant. Empty without features.
std::string LocalErrors(const v1::LocalCalibration& local) {
  constexpr double kSignificance = 0.05;
  constexpr int kMostFeatures = 5;
  std::string text;
  for (const v1::LocalCalibration::Place& place : local.places()) {
    if (place.p_value() > kSignificance) continue;
    std::vector<std::string> features;
    for (int k = 0; k < std::min(place.features_size(), kMostFeatures); ++k) {
      features.push_back(
          absl::StrCat(EscapeUnprintable(local.feature_names(k)), " ", Number(place.features(k))));
    }
    if (place.features_size() > kMostFeatures) features.emplace_back("...");
    absl::StrAppendFormat(
        &text,
        "  near %s: the 90 %% intervals contain %s of the outcomes, the 50 %% intervals %s, and %s "
        "are below the median; about %d similar cases, p = %s\n",
        absl::StrJoin(features, ", "), Percent(place.inside_90()), Percent(place.inside_50()),
        Percent(place.below_median()), std::llround(place.effective_observations()),
        PValue(place.p_value()));
  }
  if (text.empty()) {
    return absl::StrFormat("No error is significant at any of %d cases by their features.\n",
                           local.place_count());
  }
  return absl::StrFormat(
      "Where the forecasts are wrong, of %d cases, the largest error first (the p-values hold for "
      "all of them together):\n%s",
      local.place_count(), text);
}

// A mean this many standard errors from 0 is named, as by the server. The residuals of calibrated
// forecasts have the standard deviation 1, and that of a few rows may be far smaller by chance.
constexpr double kNamedErrors = 4;

bool IsNamed(double mean, double standard_deviation, std::int64_t observations) {
  return observations > 0 && std::abs(mean) > kNamedErrors * std::max(1.0, standard_deviation) /
                                                  std::sqrt(static_cast<double>(observations));
}

std::string TooHighOrLow(double mean) {
  return absl::StrCat(" standard deviations too ", mean < 0 ? "high" : "low");
}

}  // namespace

std::string CellPlace(const v1::ForecastCell& cell) {
  if (cell.lower() <= 0) return absl::StrFormat("below the %.3g %% quantile", 100 * cell.upper());
  if (cell.upper() >= 1) return absl::StrFormat("above the %.3g %% quantile", 100 * cell.lower());
  return absl::StrFormat("between the %.3g and the %.3g %% quantile", 100 * cell.lower(),
                         100 * cell.upper());
}

std::string ExpectedCount(double count) {
  return count < 9.95 ? absl::StrFormat("%.2g", count) : absl::StrFormat("%.0f", count);
}

std::string DescribeCells(const v1::GetCalibrationResponse& response) {
  if (!response.has_verdict()) return "no cells of outcomes: only a monitored model has them\n";
  const v1::Whereabouts& whereabouts = response.verdict().whereabouts();
  const std::int64_t first = response.watch().first_observation();
  std::int64_t total = 0;
  for (const v1::ForecastCell& cell : whereabouts.cells()) total += cell.observations();
  if (total == 0) {
    return first > 1 ? absl::StrCat("no labelled row since row ", first, "\n")
                     : "no labelled row yet\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {"between the quantiles", "rows", "outcomes %", "promised %", "gap (points)"}};
  for (const v1::ForecastCell& cell : whereabouts.cells()) {
    const auto percent = [total](double count) { return 100 * count / static_cast<double>(total); };
    const double share = percent(static_cast<double>(cell.observations()));
    const double promised = percent(cell.expected());
    rows.push_back({absl::StrCat(Percent(cell.lower()), " to ", Percent(cell.upper())),
                    absl::StrCat(cell.observations()), convert::Fixed(share, 1),
                    convert::Fixed(promised, 1), convert::SignedFixed(share - promised, 1)});
  }
  return absl::StrCat(FormatTable(rows),
                      first > 1 ? absl::StrCat("rows ", first, " and later\n") : "");
}

std::string BiasText(double mean, double standard_deviation, std::int64_t observations) {
  if (!IsNamed(mean, standard_deviation, observations)) return "";
  return absl::StrFormat("%.2g", std::abs(mean)) + TooHighOrLow(mean);
}

std::string BiasText(const v1::ForecastDirection& direction, std::int64_t observations) {
  if (!IsNamed(direction.shift(), direction.scale(), observations)) return "";
  return absl::StrFormat("about %.2g", std::abs(direction.shift())) +
         TooHighOrLow(direction.shift());
}

std::string DescribeForecasts(const std::string& kind, const v1::ForecastEvaluation& evaluation,
                              std::int64_t first_observation) {
  const auto count = evaluation.scores().observations();
  std::string text = absl::StrFormat("%d %s (%s) with outcomes", count,
                                     count == 1 ? "forecast" : "forecasts", kind);
  if (first_observation > 0) {
    absl::StrAppend(&text, ", rows ", first_observation, " to ", first_observation + count - 1);
  }
  absl::StrAppend(&text, "\n", Headline(evaluation.scores().central_coverage()),
                  BiasSentence(evaluation), CellSentence(evaluation), "\n",
                  Scores(kind, evaluation), "\n", CoverageTable(evaluation), "\n",
                  TestTable(evaluation));
  if (evaluation.has_local()) absl::StrAppend(&text, LocalErrors(evaluation.local()), "\n");
  const bool rejected = evaluation.log10_e_value() >= std::log10(20.0);
  absl::StrAppendFormat(&text, "e-value %s of the cells of the outcomes: %s.\n",
                        PowerOfTen(evaluation.log10_e_value()),
                        rejected ? "at least 20, so calibration is rejected at 5 %"
                                 : "below 20, so calibration is not rejected");
  const bool exact = evaluation.discrepancies().empty() ||
                     evaluation.discrepancies(0).test().null() == v1::QuadraticTestResult::FORECAST;
  const v1::SimulatedStatistic& first = evaluation.has_level_error()
                                            ? evaluation.level_error()
                                            : evaluation.quantile_calibration_error();
  absl::StrAppendFormat(
      &text,
      "calibrated: simulated %d times with outcomes drawn from the forecasts, which is exact for "
      "every number of rows; seed %d.\n",
      first.replicates(), evaluation.seed());
  if (!exact) {
    absl::StrAppend(&text,
                    "The discrepancies are tested by random signs instead, for their own form of "
                    "calibration (approximate).\n");
  }
  return text;
}

}  // namespace calibd::cli
