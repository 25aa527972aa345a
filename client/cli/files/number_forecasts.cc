#include "client/cli/files/number_forecasts.h"

#include <algorithm>
#include <cmath>
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
#include "client/cli/files/row_faults.h"
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

std::optional<Violation> FindRowViolation(const NumberForecastKind& kind, const Table& table,
                                          std::size_t i) {
  const auto row = std::span(table.values).subspan(i * table.width, table.width);
  std::optional<Violation> violation = FindForecastViolation(kind, row);
  if (violation.has_value()) return violation;
  return FindOutcomeViolation(kind, row, table.truths[i]);
}

absl::Status CheckRows(const NumberForecastKind& kind, const Table& table) {
  for (std::size_t i = 0; i < table.row_count; ++i) {
    std::optional<Violation> violation = FindRowViolation(kind, table, i);
    if (!violation.has_value()) continue;
    violation->field = absl::StrCat("rows[", i, "].", violation->field);
    return DescribeFaults(table, absl::InvalidArgumentError(DescribeViolations({&*violation, 1})));
  }
  return absl::OkStatus();
}

// Returns the number of removed rows.
std::size_t DropInvalidRows(const NumberForecastKind& kind, Table& table) {
  const std::size_t feature_count = table.features.size() / table.row_count;
  std::vector<bool> valid(table.row_count);
  for (std::size_t i = 0; i < table.row_count; ++i) {
    const auto features = std::span(table.features).subspan(i * feature_count, feature_count);
    valid[i] = !FindRowViolation(kind, table, i).has_value() &&
               std::ranges::all_of(features, [](double value) { return std::isfinite(value); });
  }
  return KeepRows(valid, table);
}

}  // namespace

absl::StatusOr<NumberForecasts> ReadNumberForecasts(const InputOptions& input,
                                                    NumberForecastKind kind) {
  CALIBD_ASSIGN_OR_RETURN(Table file, ReadForecasts(input, DescribeKind(kind)));
  if (file.truths.empty()) {
    return FileError(
        file.places.path,
        "has no outcomes: add a column named outcome, or state it with --label-column");
  }
  if (auto* const samples = std::get_if<SampleForecasts>(&kind)) samples->draws = file.width;
  if (const absl::Status status = CheckForecastKind(kind); !status.ok()) {
    return FileError(file.places.path, std::string(status.message()));
  }
  NumberForecasts forecasts;
  if (input.columns.drop_invalid) {
    forecasts.dropped_rows = DropInvalidRows(kind, file);
  } else {
    CALIBD_RETURN_IF_ERROR(CheckRows(kind, file));
  }
  forecasts.kind = std::move(kind);
  forecasts.values = std::move(file.values);
  forecasts.width = file.width;
  forecasts.outcomes = std::move(file.truths);
  forecasts.covariates = {.groups = NumberGroups(file.groups),
                          .features = std::move(file.features),
                          .feature_count = input.columns.features.size(),
                          .local_features = {}};
  return forecasts;
}

}  // namespace calibd::cli
