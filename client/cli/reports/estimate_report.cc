#include "client/cli/reports/estimate_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/estimator_selection.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using convert::Points;
using convert::PointsText;

// At most this share of the calibrated models has such a small p-value.
constexpr double kLevel = 0.05;

std::string NameOf(v1::EstimatorOutcome::Estimator estimator) {
  return absl::AsciiStrToLower(v1::EstimatorOutcome::Estimator_Name(estimator));
}

std::string ParameterText(const v1::EstimatorOutcome& outcome) {
  const char* unit = "penalty";
  switch (outcome.estimator()) {
    case v1::EstimatorOutcome::FIFTEEN_BINS:
    case v1::EstimatorOutcome::BINS:
      return absl::StrCat(outcome.parameter(), " bins", outcome.at_end_of_grid() ? "*" : "");
    case v1::EstimatorOutcome::KERNEL_DENSITY:
      unit = "bandwidth";
      break;
    default:
      break;
  }
  return absl::StrCat(unit, " ", Number(outcome.parameter()), outcome.at_end_of_grid() ? "*" : "");
}

std::string Conclusion(const v1::EstimatorOutcome& outcome) {
  if (outcome.better_than_zero()) return "better";
  return outcome.worse_than_zero() ? "worse" : "unclear";
}

// What is off, as the beginning of a sentence.
std::string Subject(const std::string& lens) {
  if (lens == "canonical") return "The vector of probabilities";
  return lens == "top_label" ? "The probability of the top label" : "The probability of this class";
}

// What follows if no estimator is better than 0. The simulation may see an error that the
// comparison of risks does not see.
std::string DescribeNone(const v1::CalibrationErrorEstimate& estimate) {
  const std::int64_t n = estimate.provenance().observations();
  const bool comparable = estimate.tuning_observations() / estimate.folds() >=
                          static_cast<std::int64_t>(kMinComparedRows);
  std::string text =
      comparable
          ? absl::StrCat("No estimator is better than 0 here: with ", n,
                         " observations, none predicts the errors of new observations better than "
                         "the statement that there is no error.")
          : absl::StrCat("No estimator is better than 0 here: ", n,
                         " observations are too few to say. Each of the ", estimate.folds(),
                         " folds needs ", kMinComparedRows, " of them.");
  if (estimate.has_simulation() && estimate.simulation().p_value() <= kLevel) {
    return absl::StrCat(text, " But the simulation below rejects that there is no error, at level ",
                        kLevel, ".\n");
  }
  return text + " This does not prove calibration. The estimates below may be noise.\n";
}

// Whether the error that the chosen estimator sees is real.
std::string CompareWithZero(const v1::CalibrationErrorEstimate& estimate,
                            const v1::EstimatorOutcome& chosen) {
  if (chosen.better_than_zero()) return ", and better than the statement that there is no error.\n";
  std::vector<std::string> better;
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    if (outcome.better_than_zero()) better.push_back(NameOf(outcome.estimator()));
  }
  return absl::StrCat(", but only ", absl::StrJoin(better, ", "),
                      better.size() == 1 ? " is" : " are",
                      " clearly better than the statement that there is no error.\n");
}

std::string DescribeChoice(const v1::CalibrationErrorEstimate& estimate,
                           const v1::EstimatorOutcome& chosen) {
  if (!estimate.any_better_than_zero()) return DescribeNone(estimate);
  std::string text = absl::StrCat(
      Subject(estimate.provenance().lens()), " is off by ", PointsText(chosen.error()),
      " (percentage points, root mean square), according to ", NameOf(chosen.estimator()),
      ". This estimator predicts the errors of new observations best",
      CompareWithZero(estimate, chosen));
  std::vector<std::string> similar;
  double least = chosen.error();
  double most = chosen.error();
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    if (!outcome.as_good_as_chosen() || outcome.estimator() == chosen.estimator()) continue;
    similar.push_back(NameOf(outcome.estimator()));
    least = std::min(least, outcome.error());
    most = std::max(most, outcome.error());
  }
  if (estimate.estimators_size() == 1) return text;
  if (similar.empty()) return text + "All others are clearly worse.\n";
  absl::StrAppend(&text,
                  "The data cannot tell whether these are as good: ", absl::StrJoin(similar, ", "),
                  ". ");
  if (Points(least) == Points(most)) return text + "They give the same estimate.\n";
  absl::StrAppend(&text, "With them, the estimates range from ", Points(least), " to ",
                  PointsText(most), ".\n");
  return text;
}

// The square root of a squared error in percentage points; 0 if it is negative.
std::string RootText(double squared_error) {
  return PointsText(std::sqrt(std::max(0.0, squared_error)));
}

std::string DescribeSimulation(const v1::CalibrationErrorSimulation& simulation) {
  const std::int32_t reached = simulation.exceedances();
  const std::string which = reached == 0   ? "none of them reaches"
                            : reached == 1 ? "1 of them reaches"
                                           : absl::StrCat(reached, " of them reach");
  return absl::StrCat("If the model were calibrated, the same procedure would give ",
                      RootText(simulation.replicate_mean()), " on average, and at most ",
                      RootText(simulation.replicate_upper_quantile()), " in 95 % of the cases (",
                      simulation.replicates(),
                      " simulations with the same predictions). p = ", PValue(simulation.p_value()),
                      " (one look): ", which, " the estimate from the data.\n");
}

std::string DescribeColumns(const v1::CalibrationErrorEstimate& estimate) {
  const auto has = [&](auto property) {
    return std::any_of(estimate.estimators().begin(), estimate.estimators().end(), property);
  };
  std::string text = absl::StrCat(
      "error: root mean square difference between predicted and true probabilities, in percentage "
      "points, which is usually larger than the mean absolute difference that `calibctl show` "
      "gives",
      estimate.provenance().lens() == "canonical" ? "; of a vector, its length" : "",
      ".\n+-: how much the error varies between the ", estimate.folds(),
      " fits. They share data, so this is not a confidence interval.\n"
      "risk - risk of 0: how much worse the estimator predicts products of errors of new "
      "observations than 0 does, with its standard error; \"better\" or \"worse\" beyond two of "
      "them. It flatters an estimator for which many parameters were tried.\n");
  if (has([](const v1::EstimatorOutcome& outcome) { return outcome.at_end_of_grid(); })) {
    absl::StrAppend(&text, "*: the first or last of the tried values; others may be better.\n");
  }
  if (has([](const v1::EstimatorOutcome& outcome) { return outcome.squared_error() < 0; })) {
    absl::StrAppend(&text, "A squared error below 0 is noise around a small error.\n");
  }
  for (const v1::CalibrationErrorEstimate::LeftOut& left_out : estimate.left_out()) {
    absl::StrAppend(&text, NameOf(left_out.estimator()), " was left out: ", left_out.reason(),
                    ".\n");
  }
  return text;
}

}  // namespace

std::vector<std::string> EstimatorNames() {
  std::vector<std::string> names;
  for (int value = 1; v1::EstimatorOutcome::Estimator_IsValid(value); ++value) {
    names.push_back(NameOf(static_cast<v1::EstimatorOutcome::Estimator>(value)));
  }
  return names;
}

v1::EstimatorOutcome::Estimator EstimatorOf(const std::string& name) {
  v1::EstimatorOutcome::Estimator estimator = v1::EstimatorOutcome::UNSPECIFIED;
  v1::EstimatorOutcome::Estimator_Parse(absl::AsciiStrToUpper(name), &estimator);
  return estimator;
}

std::string DescribeEstimate(const v1::CalibrationErrorEstimate& estimate) {
  const auto chosen =
      std::find_if(estimate.estimators().begin(), estimate.estimators().end(),
                   [&](const auto& outcome) { return outcome.estimator() == estimate.chosen(); });
  if (chosen == estimate.estimators().end()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"estimator", "error", "+-", "squared error", "parameter", "risk - risk of 0", "than 0"}};
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    rows.push_back({NameOf(outcome.estimator()), Points(outcome.error()),
                    Points(outcome.error_standard_error()), Signed(outcome.squared_error()),
                    ParameterText(outcome),
                    absl::StrFormat("%+.1e +- %.1e", outcome.excess_risk(),
                                    outcome.excess_risk_standard_error()),
                    Conclusion(outcome)});
  }
  return absl::StrCat(
      DescribeChoice(estimate, *chosen),
      estimate.has_simulation() ? DescribeSimulation(estimate.simulation()) : "", "\n",
      FormatTable(rows), "\n", DescribeColumns(estimate), "Computed from observations ",
      estimate.provenance().first_observation(), " to ", estimate.provenance().last_observation(),
      ", of which ", estimate.tuning_observations(), " are for tuning and ",
      estimate.test_observations(), " for the errors; seed ", estimate.seed(), ".\n");
}

}  // namespace calibd::cli
