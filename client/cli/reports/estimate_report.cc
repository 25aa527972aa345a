#include "client/cli/reports/estimate_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using convert::Points;
using convert::PointsText;

std::string ParameterText(const v1::EstimatorOutcome& outcome) {
  const char* unit = "penalty";
  switch (outcome.estimator()) {
    case v1::EstimatorOutcome::FIFTEEN_BINS:
    case v1::EstimatorOutcome::BINS:
    case v1::EstimatorOutcome::DEBIASED_BINS:
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
                      convert::CountText(simulation.replicates(), "simulation"),
                      " with the same predictions). p = ", PValue(simulation.p_value()),
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
      estimate.provenance().lens() == "canonical"    ? "; of a vector, its length"
      : estimate.provenance().lens() == "class_wise" ? "; the mean is over rows and classes"
                                                     : "",
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
    absl::StrAppend(&text, convert::EstimatorName(left_out.estimator()),
                    " was left out: ", left_out.reason(), ".\n");
  }
  return text;
}

}  // namespace

std::vector<std::string> EstimatorNames() {
  std::vector<std::string> names;
  for (int value = 1; v1::EstimatorOutcome::Estimator_IsValid(value); ++value) {
    names.push_back(convert::EstimatorName(static_cast<v1::EstimatorOutcome::Estimator>(value)));
  }
  return names;
}

v1::EstimatorOutcome::Estimator EstimatorOf(const std::string& name) {
  v1::EstimatorOutcome::Estimator estimator = v1::EstimatorOutcome::UNSPECIFIED;
  v1::EstimatorOutcome::Estimator_Parse(absl::AsciiStrToUpper(name), &estimator);
  return estimator;
}

std::string DescribeEstimate(const v1::CalibrationErrorEstimate& estimate) {
  std::vector<std::vector<std::string>> rows = {
      {"estimator", "error", "+-", "squared error", "parameter", "risk - risk of 0", "than 0"}};
  for (const v1::EstimatorOutcome& outcome : estimate.estimators()) {
    rows.push_back({convert::EstimatorName(outcome.estimator()), Points(outcome.error()),
                    Points(outcome.error_standard_error()), Signed(outcome.squared_error()),
                    ParameterText(outcome),
                    absl::StrFormat("%+.1e +- %.1e", outcome.excess_risk(),
                                    outcome.excess_risk_standard_error()),
                    Conclusion(outcome)});
  }
  return absl::StrCat(
      convert::Plain(estimate.text()), "\n",
      estimate.has_simulation() ? DescribeSimulation(estimate.simulation()) : "", "\n",
      FormatTable(rows), "\n", DescribeColumns(estimate), "Computed from observations ",
      estimate.provenance().first_observation(), " to ", estimate.provenance().last_observation(),
      ", of which ", estimate.tuning_observations(), " are for tuning and ",
      estimate.test_observations(), " for the errors; seed ", estimate.seed(), ".\n");
}

}  // namespace calibd::cli
