#include "client/cli/reports/forecast_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/forecast_forms.h"
#include "calibd/core/fourier_size.h"
#include "calibd/text/printable.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }

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
  return text;
}

// Where outcomes equal quantiles; empty without levels.
std::string LevelTable(const google::protobuf::RepeatedPtrField<v1::LevelCoverage>& levels) {
  if (levels.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"level", "outcomes below the quantile", "at most equal to it", "a right level is between"}};
  for (const v1::LevelCoverage& one : levels) {
    rows.push_back({absl::StrFormat("%g", one.level()), Percent(one.below()),
                    Percent(one.at_most()),
                    absl::StrFormat("%.3g and %.3g", one.lower(), one.upper())});
  }
  return FormatTable(rows);
}

std::string CoverageTable(const v1::ForecastEvaluation& evaluation) {
  std::vector<std::vector<std::string>> rows = {
      {"central interval", "promised", "outcomes inside", "between"}};
  for (const v1::CentralCoverage& one : evaluation.scores().central_coverage()) {
    rows.push_back({absl::StrCat(Percent(one.lower_level()), " to ", Percent(one.upper_level())),
                    Percent(one.promised()), Percent(one.coverage()),
                    absl::StrCat(Percent(one.lower()), " and ", Percent(one.upper()))});
  }
  if (!evaluation.scores().level_coverage().empty()) {
    return LevelTable(evaluation.scores().level_coverage()) +
           "Outcomes equal quantiles. The error is the largest distance of a level from the range "
           "of "
           "these two\nshares. All these intervals hold together with 95 %, for one look.\n";
  }
  std::string text = rows.size() > 1 ? FormatTable(rows) : "";
  absl::StrAppend(
      &text, "Coverage error over ", evaluation.coverage_cells(),
      " cells, biased upwards. All these intervals hold together with 95 %, for one look.\n");
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
  std::string text = rows.size() > 1 ? FormatTable(rows) : "";
  if (!exact.empty()) {
    absl::StrAppendFormat(
        &text,
        "* %d Fourier frequencies, with which the test is exact too. Over all pairs, "
        "MMD^2 is: %s.\n",
        kFrequencyCount, absl::StrJoin(exact, ", "));
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
  constexpr int kMostFeatures = 5;
  std::string text;
  for (const v1::LocalCalibration::Place& place : local.places()) {
    if (!place.significant()) continue;
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

}  // namespace

std::string DescribeCells(const v1::GetCalibrationResponse& response) {
  if (!response.has_verdict()) return "no cells of outcomes: only a monitored model has them\n";
  const v1::Whereabouts& whereabouts = response.verdict().whereabouts();
  const v1::CalibrationError& error = response.error();
  const v1::ErrorMeasurement& current =
      error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
  if (!current.level_coverage().empty()) {
    return absl::StrCat(LevelTable(current.level_coverage()),
                        current.first_observation() > 1
                            ? absl::StrCat("rows ", current.first_observation(), " and later\n")
                            : "");
  }
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

std::string DescribeForecasts(const std::string& kind, const v1::Evaluation& answer) {
  const v1::ForecastEvaluation& evaluation = answer.forecast();
  const auto count = evaluation.scores().observations();
  std::string text =
      absl::StrCat(convert::CountText(count, "forecast"), " (", kind, ") with outcomes");
  if (const std::int64_t first = evaluation.first_observation(); first > 0) {
    absl::StrAppend(&text, ", rows ", first, " to ", first + count - 1);
  }
  absl::StrAppend(&text, "\n", DescribeReading("", answer.reading()), "\n",
                  Scores(kind, evaluation), "\n", CoverageTable(evaluation), "\n",
                  TestTable(evaluation));
  if (evaluation.has_local()) absl::StrAppend(&text, LocalErrors(evaluation.local()), "\n");
  const bool exact = evaluation.discrepancies().empty() ||
                     evaluation.discrepancies(0).test().null() == v1::QuadraticTestResult::FORECAST;
  const v1::SimulatedStatistic& first = evaluation.has_level_error()
                                            ? evaluation.level_error()
                                            : evaluation.quantile_calibration_error();
  if (first.replicates() == 0) return text;
  absl::StrAppendFormat(
      &text,
      "calibrated: simulated %d times with outcomes drawn from the forecasts, which is exact for "
      "every number of rows; seed %d.\n",
      first.replicates(), evaluation.seed());
  if (answer.tested_observations() < answer.observations()) {
    absl::StrAppendFormat(
        &text,
        "The tests%s use %d of the %d rows, drawn at random. All else uses all "
        "rows. --test-rows sets the number.\n",
        evaluation.has_local() ? " and the cases where the forecasts are wrong" : "",
        answer.tested_observations(), answer.observations());
  }
  if (!exact) {
    absl::StrAppend(&text,
                    "The discrepancies are tested by random signs instead, for their own form of "
                    "calibration (approximate).\n");
  }
  return text;
}

}  // namespace calibd::cli
