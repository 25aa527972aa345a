#include "client/cli/files/number_forecasts.h"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// Samples have as many draws as the file.
v1::Forecast DescribeKind(const NumberForecastKind& kind) {
  v1::Forecast forecast;
  if (std::holds_alternative<NormalForecasts>(kind)) {
    forecast.mutable_normal();
  } else if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    forecast.mutable_quantiles()->mutable_levels()->Add(quantiles->levels.begin(),
                                                        quantiles->levels.end());
  } else {
    forecast.mutable_samples();
  }
  return forecast;
}

// The number of each group, in the order of their first rows.
std::vector<std::int32_t> NumberGroups(const std::vector<std::string>& names) {
  std::unordered_map<std::string, std::int32_t> numbers;
  std::vector<std::int32_t> groups;
  for (const std::string& name : names) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    groups.push_back(numbers.try_emplace(name, next).first->second);
  }
  return groups;
}

}  // namespace

absl::StatusOr<NumberForecasts> ReadNumberForecasts(const InputOptions& input,
                                                    NumberForecastKind kind) {
  CALIBD_ASSIGN_OR_RETURN(ForecastFile file, ReadForecasts(input, DescribeKind(kind)));
  if (file.outcomes.empty()) {
    return FileError(
        file.places.path,
        "has no outcomes: add a column named outcome, or state it with --label-column");
  }
  NumberForecasts forecasts{.kind = std::move(kind),
                            .values = std::move(file.values),
                            .width = file.width,
                            .outcomes = std::move(file.outcomes),
                            .covariates = {.groups = NumberGroups(file.groups),
                                           .features = std::move(file.features),
                                           .feature_count = input.columns.features.size(),
                                           .local_features = {}}};
  if (auto* const samples = std::get_if<SampleForecasts>(&forecasts.kind)) {
    samples->draws = forecasts.width;
  }
  if (const absl::Status status = CheckForecastKind(forecasts.kind); !status.ok()) {
    return FileError(file.places.path, std::string(status.message()));
  }
  const std::span<const double> values(forecasts.values);
  for (std::size_t i = 0; i < forecasts.outcomes.size(); ++i) {
    const auto row = values.subspan(i * forecasts.width, forecasts.width);
    std::optional<Violation> violation = FindForecastViolation(forecasts.kind, row);
    if (!violation.has_value()) {
      violation = FindOutcomeViolation(forecasts.kind, row, forecasts.outcomes[i]);
    }
    if (!violation.has_value()) continue;
    violation->field = absl::StrCat("rows[", i, "].", violation->field);
    return DescribeFaults(file.places,
                          absl::InvalidArgumentError(DescribeViolations({&*violation, 1})));
  }
  return forecasts;
}

}  // namespace calibd::cli
