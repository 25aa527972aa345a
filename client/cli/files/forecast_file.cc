#include "client/cli/files/forecast_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/cli/files/column_names.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr UsualNames kUsualColumns{.truth = "outcome", .id = "id", .time = "time", .group = ""};

// 0: as many as the file has.
std::size_t WidthOf(const v1::Forecast& forecast) {
  if (forecast.has_normal()) return 2;
  return forecast.has_quantiles() ? static_cast<std::size_t>(forecast.quantiles().levels_size())
                                  : static_cast<std::size_t>(forecast.samples().draws());
}

// Finds the columns of Normal forecasts by their names.
absl::Status FindNormal(const std::string& source, std::span<const std::string> names,
                        ColumnPlan& plan) {
  plan.values.clear();
  for (const char* const name : {"mean", "standard_deviation"}) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      return FileError(source, absl::StrCat("has no column named ", name, ": the columns are ",
                                            ListNames(names), DelimiterHint(names)));
    }
    plan.values.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return absl::OkStatus();
}

std::vector<std::string> NamesOfValues(const ColumnPlan& plan) {
  std::vector<std::string> names;
  for (const std::size_t column : plan.values) names.push_back(plan.names[column]);
  return names;
}

// Finds the columns of quantiles by the levels in which their names end, such as q0.1 or p10.
// Without such names, the columns are in the order of the levels. Errors: InvalidArgument if the
// names state other levels.
absl::Status FindQuantiles(const v1::Forecast& forecast, const std::string& source,
                           ColumnPlan& plan) {
  const std::vector<std::string> names = NamesOfValues(plan);
  const std::vector<double> levels(forecast.quantiles().levels().begin(),
                                   forecast.quantiles().levels().end());
  const std::vector<std::size_t> found = FindLevels(names, levels);
  const std::vector<double> named = LevelsOf(names);
  if (found.empty()) {
    if (named.empty()) return absl::OkStatus();
    return FileError(
        source, absl::StrCat("the columns ", ListNames(names),
                             " are named after other levels than the forecast has: the levels are ",
                             absl::StrJoin(levels, ","), ", and those of the names ",
                             absl::StrJoin(named, ",")));
  }
  std::vector<std::size_t> columns;
  columns.reserve(found.size());
  for (const std::size_t index : found) columns.push_back(plan.values[index]);
  std::vector<std::string> unused;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (std::ranges::find(found, k) == found.end()) unused.push_back(names[k]);
  }
  plan.values = std::move(columns);
  if (!named.empty() && !unused.empty()) {
    return FileError(
        source,
        absl::StrCat("has ", names.size(), " columns of quantiles, ", ListNames(names),
                     ", but there are ", levels.size(), " levels: ", absl::StrJoin(levels, ","),
                     "; leave columns out with --drop-column ", absl::StrJoin(unused, ",")));
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument if a draw or a quantile is named as a mean or a standard deviation.
absl::Status RefuseMoments(const std::string& source, const ColumnPlan& plan) {
  constexpr std::string_view kMoments[] = {
      "mean", "mu", "standard_deviation", "std", "std_dev", "stddev", "stdev", "sd", "sigma"};
  std::vector<std::string> moments;
  for (const std::string& name : NamesOfValues(plan)) {
    const std::string lower = absl::AsciiStrToLower(name);
    if (std::ranges::find(kMoments, lower) != std::end(kMoments)) moments.push_back(name);
  }
  if (moments.empty()) return absl::OkStatus();
  if (moments.size() == plan.values.size()) {
    return FileError(
        source,
        absl::StrCat("has the columns ", ListNames(moments),
                     ", which are Normal forecasts and no draws or quantiles: call them mean and "
                     "standard_deviation and use --normals; for calibctl send, use a model of "
                     "calibctl model create --forecast normal"));
  }
  const bool one = moments.size() == 1;
  return FileError(
      source, absl::StrCat("the column", one ? " " : "s ", ListNames(moments), one ? " is" : " are",
                           " no draw and no quantile: leave it out with --drop-column ",
                           absl::StrJoin(moments, ",")));
}

absl::StatusOr<ColumnPlan> Plan(const InputOptions& options, const v1::Forecast& forecast,
                                const std::string& source, const TableHead& head) {
  CALIBD_ASSIGN_OR_RETURN(ColumnPlan plan,
                          AssignColumns(options.columns, kUsualColumns, !options.labels.empty(),
                                        source, head.names, head.column_count, head.predictions));
  if (forecast.has_normal() && !head.names.empty()) {
    CALIBD_RETURN_IF_ERROR(FindNormal(source, head.names, plan));
    return plan;
  }
  if (!head.names.empty()) {
    if (forecast.has_quantiles()) CALIBD_RETURN_IF_ERROR(FindQuantiles(forecast, source, plan));
    CALIBD_RETURN_IF_ERROR(RefuseMoments(source, plan));
  }
  const std::size_t width = WidthOf(forecast);
  const bool one_more = width == 0 ? options.labels_needed && plan.values.size() > 1
                                   : plan.values.size() == width + 1;
  if (one_more && plan.truths.empty() && options.labels.empty() && head.names.empty()) {
    plan.truths = {plan.values.back()};
    plan.values.pop_back();
  }
  if (plan.values.size() == width || (width == 0 && !plan.values.empty())) return plan;
  return FileError(
      source,
      absl::StrCat("has ", convert::CountText(plan.values.size(), "column"),
                   " of forecasts, expected ", width,
                   " and the outcome: --label-column states it, --drop-column leaves out others"));
}

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

std::optional<Violation> FindRowViolation(const NumberForecasts& forecasts, std::size_t i) {
  const std::size_t width = forecasts.width;
  const auto row = std::span(forecasts.values).subspan(i * width, width);
  std::optional<Violation> violation = FindForecastViolation(forecasts.kind, row);
  if (violation.has_value() || forecasts.truths.empty()) return violation;
  return FindOutcomeViolation(forecasts.kind, row, forecasts.truths[i]);
}

absl::Status CheckRows(const NumberForecasts& forecasts) {
  for (std::size_t i = 0; i < forecasts.row_count; ++i) {
    std::optional<Violation> violation = FindRowViolation(forecasts, i);
    if (!violation.has_value()) continue;
    violation->row = i;
    return DescribeFaults(forecasts, {&*violation, 1});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Table> ReadForecasts(const InputOptions& options, const v1::Forecast& forecast) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.predictions));
  if (file.format == FileFormat::kNpz) {
    return FileError(file.name, "is an NPZ file, expected CSV, JSON Lines or NPY");
  }
  const TableSchema schema{
      .options = options.columns,
      .is_header =
          [&](std::span<const std::string_view> row) {
            return HoldsNames(options.columns, kUsualColumns, row);
          },
      .plan = [&](const TableHead& head) { return Plan(options, forecast, file.name, head); },
      .truths = "outcomes"};
  CALIBD_ASSIGN_OR_RETURN(Table table, ReadTable(file, schema));
  if (table.row_count == 0) return FileError(file.name, "has no forecasts");
  if (!options.labels.empty()) {
    CALIBD_ASSIGN_OR_RETURN(InputFile outcomes, OpenInput(options.labels));
    CALIBD_RETURN_IF_ERROR(ReadTruthFile(outcomes, options.columns, "outcome", nullptr, table));
  }
  CALIBD_RETURN_IF_ERROR(ReadOtherFiles(options, table));
  return table;
}

absl::StatusOr<NumberForecasts> ReadNumberForecasts(const InputOptions& input,
                                                    NumberForecastKind kind) {
  NumberForecasts forecasts;
  CALIBD_ASSIGN_OR_RETURN(static_cast<Table&>(forecasts), ReadForecasts(input, DescribeKind(kind)));
  const std::string& path = forecasts.places.path;
  if (forecasts.truths.empty() && input.labels_needed) {
    return FileError(
        path, "has no outcomes: add a column named outcome, or state it with --label-column");
  }
  if (auto* const samples = std::get_if<SampleForecasts>(&kind)) samples->draws = forecasts.width;
  if (const absl::Status status = CheckForecastKind(kind); !status.ok()) {
    return FileError(path, std::string(status.message()));
  }
  forecasts.kind = std::move(kind);
  if (input.columns.drop_invalid) {
    DropInvalidRows([&](std::size_t i) { return !FindRowViolation(forecasts, i).has_value(); },
                    forecasts);
    if (forecasts.row_count == 0) return FileError(path, "has no valid rows");
  } else {
    CALIBD_RETURN_IF_ERROR(CheckRows(forecasts));
  }
  forecasts.covariates = {.groups = NumberGroups(forecasts.groups),
                          .features = std::move(forecasts.features),
                          .feature_count = input.columns.features.size(),
                          .local_features = {}};
  return forecasts;
}

}  // namespace calibd::cli
