#include "client/cli/commands/forecast_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/text.h"

namespace calibd::cli {

std::string ForecastErrorOptions::SetOption() const {
  if (shift.has_value()) return "--shift";
  if (scale.has_value()) return "--scale";
  return drift_at.has_value() ? "--drift-at" : "";
}

ForecastGeneratorSpec ForecastSpec(const v1::Forecast& model, const ForecastErrorOptions& options) {
  ForecastGeneratorSpec spec;
  if (model.has_quantiles()) {
    const auto& levels = model.quantiles().levels();
    spec.kind = QuantileForecasts{{levels.begin(), levels.end()}};
  } else if (model.has_samples()) {
    spec.kind = SampleForecasts{static_cast<std::size_t>(model.samples().draws())};
  }
  spec.errors = {.shift = options.shift.value_or(0), .scale = options.scale.value_or(1)};
  spec.drift_at = options.drift_at.value_or(1);
  return spec;
}

SimulatedTruth ForecastTruth(const ForecastGeneratorSpec& spec, std::int64_t rows) {
  SimulatedTruth truth;
  const std::optional<ForecastCoverage> coverage = ExpectedCoverage(spec);
  if (!coverage.has_value()) return truth;
  const auto with_errors = static_cast<double>(std::max<std::int64_t>(0, rows - spec.drift_at + 1));
  truth.set_coverage_error(coverage->error.estimate);
  truth.set_mean_coverage_error(coverage->error.estimate * with_errors / static_cast<double>(rows));
  for (const std::optional<CentralCoverage>& one : coverage->central) {
    if (!one.has_value()) continue;
    SimulatedTruth::Interval& interval = *truth.add_central_coverage();
    interval.set_nominal(one->nominal);
    interval.set_promised(one->promised);
    interval.set_coverage(one->coverage);
  }
  return truth;
}

std::string ForecastTruthText(const ForecastGeneratorSpec& spec) {
  if (spec.errors == LocationScale{}) return "The generator's forecasts are calibrated.\n";
  const std::string from = spec.drift_at > 1
                               ? absl::StrCat("From row ", spec.drift_at, " of this run on, the")
                               : std::string("The");
  std::string text = absl::StrFormat(
      "%s generator's outcomes have the mean %+.3g and the standard deviation %.3g, in units in "
      "which the forecast has 0 and 1",
      from, spec.errors.shift, spec.errors.scale);
  const std::optional<ForecastCoverage> coverage = ExpectedCoverage(spec);
  if (!coverage.has_value()) return text + ".\n";
  absl::StrAppend(&text, ": the coverage error is ", convert::PointsText(coverage->error.estimate));
  if (const CentralCoverage* const widest = coverage->widest(); widest != nullptr) {
    absl::StrAppendFormat(&text, ", and the %.3g %% intervals cover %.1f %%",
                          100 * widest->promised, 100 * widest->coverage);
  }
  return text + ".\n";
}

}  // namespace calibd::cli
