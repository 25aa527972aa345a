#include "client/cli/files/forecast_file.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/npy_reader.h"
#include "client/cli/files/text_predictions.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr char kOutcomeName[] = "outcome";

// Whether the first line of a CSV file names its columns. A line of data may have an odd cell, so
// that a text alone does not make a header: all cells are names, or one is the name of a column.
bool IsForecastHeader(const ColumnOptions& stated, std::span<const std::string_view> first_row) {
  if (stated.header.has_value()) return *stated.header;
  ColumnOptions columns = stated;
  if (columns.label.empty()) columns.label = kOutcomeName;
  if (columns.id.empty()) columns.id = "id";
  if (columns.time.empty()) columns.time = "time";
  return HoldsNames(columns, first_row);
}

// 0: as many as the file has.
std::size_t WidthOf(const v1::Forecast& forecast) {
  if (forecast.has_normal()) return 2;
  return forecast.has_quantiles() ? static_cast<std::size_t>(forecast.quantiles().levels_size())
                                  : static_cast<std::size_t>(forecast.samples().draws());
}

// The columns of a row, counted from 0.
struct ForecastPlan {
  std::size_t column_count = 0;
  std::vector<std::size_t> forecast;
  std::optional<std::size_t> outcome, id, group, time;
  std::vector<std::size_t> features;
};

absl::StatusOr<std::vector<std::size_t>> FindColumns(const std::string& source, const char* option,
                                                     std::span<const std::string> stated,
                                                     std::span<const std::string> names,
                                                     std::size_t column_count) {
  std::vector<std::size_t> columns;
  for (const std::string& name : stated) {
    CALIBD_ASSIGN_OR_RETURN(const std::size_t column,
                            FindColumn(source, option, name, names, column_count));
    columns.push_back(column);
  }
  return columns;
}

// Returns the column that an option states, or the one with the default name if there is one.
absl::StatusOr<std::optional<std::size_t>> PlanColumn(const std::string& source, const char* option,
                                                      const std::string& stated,
                                                      std::string_view otherwise,
                                                      std::span<const std::string> names,
                                                      std::size_t column_count) {
  std::string name = stated;
  if (name.empty() && std::ranges::find(names, otherwise) != names.end()) name = otherwise;
  if (name.empty()) return std::optional<std::size_t>();
  CALIBD_ASSIGN_OR_RETURN(const std::size_t column,
                          FindColumn(source, option, name, names, column_count));
  return std::optional(column);
}

absl::StatusOr<ForecastPlan> Plan(const InputOptions& options, const v1::Forecast& forecast,
                                  const std::string& source, std::span<const std::string> names,
                                  std::size_t column_count) {
  const std::size_t width = WidthOf(forecast);
  ForecastPlan plan;
  plan.column_count = column_count;
  const ColumnOptions& columns = options.columns;
  CALIBD_ASSIGN_OR_RETURN(plan.outcome, PlanColumn(source, "--label-column", columns.label,
                                                   kOutcomeName, names, column_count));
  const auto unless_dropped = [&columns](const char* name) {
    return std::ranges::find(columns.dropped, name) == columns.dropped.end() ? name : "";
  };
  CALIBD_ASSIGN_OR_RETURN(plan.id, PlanColumn(source, "--id-column", columns.id,
                                              unless_dropped("id"), names, column_count));
  CALIBD_ASSIGN_OR_RETURN(plan.time, PlanColumn(source, "--time-column", columns.time,
                                                unless_dropped("time"), names, column_count));
  CALIBD_ASSIGN_OR_RETURN(
      plan.group, PlanColumn(source, "--group-column", columns.group, "", names, column_count));
  CALIBD_ASSIGN_OR_RETURN(plan.features, FindColumns(source, columns.feature_option,
                                                     columns.features, names, column_count));
  if (forecast.has_normal() && !names.empty()) {
    for (const char* const name : {"mean", "standard_deviation"}) {
      if (std::ranges::find(names, name) == names.end()) {
        return FileError(
            source, absl::StrCat("has no column named ", name, ": ",
                                 names.size() == 1
                                     ? "if the columns are not separated by commas, use --delimiter"
                                     : absl::StrCat("the columns are ", ListNames(names))));
      }
      CALIBD_ASSIGN_OR_RETURN(const std::size_t column,
                              FindColumn(source, "a forecast", name, names, column_count));
      plan.forecast.push_back(column);
    }
    return plan;
  }
  CALIBD_ASSIGN_OR_RETURN(
      std::vector<std::size_t> dropped,
      FindColumns(source, "--drop-column", columns.dropped, names, column_count));
  dropped.insert(dropped.end(), plan.features.begin(), plan.features.end());
  for (std::size_t k = 0; k < column_count; ++k) {
    const bool taken = plan.outcome == k || plan.id == k || plan.group == k || plan.time == k ||
                       std::ranges::find(dropped, k) != dropped.end();
    if (!taken) plan.forecast.push_back(k);
  }
  const bool one_more = width == 0 ? plan.forecast.size() > 1 : plan.forecast.size() == width + 1;
  if (one_more && !plan.outcome.has_value() && names.empty()) {
    plan.outcome = plan.forecast.back();
    plan.forecast.pop_back();
  }
  if (plan.forecast.size() == width || (width == 0 && !plan.forecast.empty())) return plan;
  return FileError(
      source,
      absl::StrCat("has ", plan.forecast.size(), " columns of forecasts, expected ", width,
                   " and the outcome: --label-column states it, --drop-column leaves out others"));
}

// drop_invalid: an empty cell is NaN, which makes the row invalid.
absl::Status ReadNumber(const std::string& source, const TextRow& row, std::size_t column,
                        bool drop_invalid, std::vector<double>& values) {
  double value = std::numeric_limits<double>::quiet_NaN();
  const bool missing = drop_invalid && row.cells[column].empty();
  if (!missing && !ParseDouble(row.cells[column], value)) {
    return CellError(source, row.line, column + 1,
                     row.cells[column].empty()
                         ? "is empty, expected a number"
                         : absl::StrCat(Quote(row.cells[column]), " is not a number"));
  }
  values.push_back(value);
  return absl::OkStatus();
}

// Reads the rows of a text file; the first one may be a header. plan: returns the number of columns
// for the names, which are empty without a header. add: called for each other row.
absl::Status ReadTable(InputFile& file, const ColumnOptions& columns,
                       const std::function<absl::StatusOr<std::size_t>(std::span<const std::string>,
                                                                       std::size_t)>& plan,
                       const std::function<absl::Status(const TextRow&)>& add) {
  std::optional<std::size_t> column_count;
  return ReadRows(
      file.stream, file.format, columns, file.name, [&](const TextRow& row) -> absl::Status {
        const bool first = !column_count.has_value();
        if (first) {
          const bool header =
              file.format == FileFormat::kJsonLines || IsForecastHeader(columns, row.cells);
          std::vector<std::string> names;
          if (header) names.assign(row.cells.begin(), row.cells.end());
          CALIBD_ASSIGN_OR_RETURN(column_count, plan(names, row.cells.size()));
          if (header) return absl::OkStatus();
        }
        if (row.cells.size() != *column_count) {
          return CellError(file.name, row.line, std::min(row.cells.size(), *column_count),
                           absl::StrCat("the line has ", row.cells.size(), " columns, expected ",
                                        *column_count));
        }
        absl::Status added = add(row);
        if (added.ok() || !first || columns.header.has_value()) return added;
        return absl::InvalidArgumentError(
            absl::StrCat(added.message(), "; if the first line holds names, say --header"));
      });
}

absl::Status ReadText(InputFile& file, const InputOptions& options, const v1::Forecast& forecast,
                      ForecastFile& out) {
  ForecastPlan plan;
  const auto make_plan = [&](std::span<const std::string> names,
                             std::size_t column_count) -> absl::StatusOr<std::size_t> {
    CALIBD_ASSIGN_OR_RETURN(plan, Plan(options, forecast, file.name, names, column_count));
    return plan.column_count;
  };
  return ReadTable(file, options.columns, make_plan, [&](const TextRow& row) -> absl::Status {
    for (const std::size_t column : plan.forecast) {
      CALIBD_RETURN_IF_ERROR(ReadNumber(file.name, row, column, options.drop_invalid, out.values));
    }
    if (plan.outcome.has_value()) {
      CALIBD_RETURN_IF_ERROR(
          ReadNumber(file.name, row, *plan.outcome, options.drop_invalid, out.outcomes));
    }
    for (const std::size_t column : plan.features) {
      CALIBD_RETURN_IF_ERROR(
          ReadNumber(file.name, row, column, options.drop_invalid, out.features));
    }
    if (plan.id.has_value()) out.ids.emplace_back(row.cells[*plan.id]);
    if (plan.group.has_value()) out.groups.emplace_back(row.cells[*plan.group]);
    if (plan.time.has_value()) out.times.emplace_back(row.cells[*plan.time]);
    out.places.lines.push_back(row.line);
    out.width = plan.forecast.size();
    return absl::OkStatus();
  });
}

absl::Status ReadArray(InputFile& file, const InputOptions& options, const v1::Forecast& forecast,
                       ForecastFile& out) {
  const ColumnOptions& columns = options.columns;
  if (!columns.id.empty() || !columns.time.empty() || !columns.group.empty()) {
    return UsageFault(absl::StrCat(file.name,
                                   " is a NumPy file: --id-column, --time-column and "
                                   "--group-column are for CSV and JSON Lines"));
  }
  CALIBD_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(file.stream, file.name));
  if (!array.texts.empty()) return FileError(file.name, "has texts, expected numbers");
  CALIBD_ASSIGN_OR_RETURN(const ForecastPlan plan,
                          Plan(options, forecast, file.name, {}, array.column_count));
  for (std::size_t i = 0; i < array.row_count; ++i) {
    const double* const row = array.values.data() + i * array.column_count;
    for (const std::size_t column : plan.forecast) out.values.push_back(row[column]);
    if (plan.outcome.has_value()) out.outcomes.push_back(row[*plan.outcome]);
    for (const std::size_t column : plan.features) out.features.push_back(row[column]);
  }
  out.width = plan.forecast.size();
  return absl::OkStatus();
}

// Reads outcomes in a file of their own.
absl::Status ReadOutcomeColumn(const std::string& path, const ColumnOptions& columns,
                               ForecastFile& out) {
  CALIBD_ASSIGN_OR_RETURN(NumberTable table, ReadNumbers(path, columns));
  if (table.column_count != 1) {
    return FileError(
        path, absl::StrCat("has ", table.column_count, " columns, expected one of outcomes"));
  }
  out.outcomes = std::move(table.values);
  return absl::OkStatus();
}

absl::Status ReadTextColumn(const std::string& path, const char* noun, const ColumnOptions& columns,
                            std::vector<std::string>& out) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  RowPlaces places;
  places.path = file.name;
  CALIBD_ASSIGN_OR_RETURN(out, ReadTexts(file.stream, noun, columns, places));
  return absl::OkStatus();
}

absl::Status CheckCount(const RowPlaces& places, std::size_t rows, const char* noun,
                        std::size_t count) {
  if (count == 0 || count == rows) return absl::OkStatus();
  return FileError(places.path, absl::StrCat("has ", rows, " forecasts, and there are ", count, " ",
                                             noun, ", expected as many"));
}

}  // namespace

absl::StatusOr<NumberTable> ReadNumbers(const std::string& path, const ColumnOptions& columns) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  NumberTable table;
  if (file.format == FileFormat::kNpy) {
    CALIBD_ASSIGN_OR_RETURN(NpyArray array, ReadNpy(file.stream, file.name));
    if (!array.texts.empty()) return FileError(file.name, "has texts, expected numbers");
    table.column_count = array.column_count;
    table.values = std::move(array.values);
    return table;
  }
  const auto plan = [&table](std::span<const std::string> /*names*/,
                             std::size_t column_count) -> absl::StatusOr<std::size_t> {
    table.column_count = column_count;
    return column_count;
  };
  const auto add = [&](const TextRow& row) -> absl::Status {
    for (std::size_t k = 0; k < row.cells.size(); ++k) {
      CALIBD_RETURN_IF_ERROR(ReadNumber(file.name, row, k, /*drop_invalid=*/false, table.values));
    }
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadTable(file, columns, plan, add));
  return table;
}

std::optional<std::string> FindForecastUsageFault(const InputOptions& input) {
  const std::pair<bool, const char*> of_classes[] = {
      {input.label_base.has_value(), "--label-base"},
      {input.labels_last_column, "--labels-last-column"},
      {!input.class_names.empty(), "--class-names"},
      {!input.positive_class.empty(), "--positive-class"},
      {!input.columns.predictions.empty(), "--predictions-key"},
      {input.logits, "--logits"},
      {input.renormalise, "--renormalise"}};
  for (const auto& [is_set, option] : of_classes) {
    if (!is_set) continue;
    return absl::StrCat(option, " is for models of classes, this one forecasts a number");
  }
  return std::nullopt;
}

absl::StatusOr<ForecastFile> ReadForecasts(const InputOptions& options,
                                           const v1::Forecast& forecast) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.predictions));
  if (file.format == FileFormat::kNpz) {
    return FileError(file.name, "is an NPZ file, expected CSV, JSON Lines or NPY");
  }
  ForecastFile out;
  out.places.path = file.name;
  CALIBD_RETURN_IF_ERROR(file.format == FileFormat::kNpy ? ReadArray(file, options, forecast, out)
                                                         : ReadText(file, options, forecast, out));
  if (!options.labels.empty()) {
    CALIBD_RETURN_IF_ERROR(ReadOutcomeColumn(options.labels, options.columns, out));
  }
  if (!options.ids.empty()) {
    CALIBD_RETURN_IF_ERROR(ReadTextColumn(options.ids, "id", options.columns, out.ids));
  }
  if (!options.groups.empty()) {
    CALIBD_RETURN_IF_ERROR(
        ReadTextColumn(options.groups, "group value", options.columns, out.groups));
  }
  if (out.values.empty()) return FileError(file.name, "has no forecasts");
  const std::size_t rows = out.values.size() / out.width;
  CALIBD_RETURN_IF_ERROR(CheckCount(out.places, rows, "outcomes", out.outcomes.size()));
  CALIBD_RETURN_IF_ERROR(CheckCount(out.places, rows, "ids", out.ids.size()));
  CALIBD_RETURN_IF_ERROR(CheckCount(out.places, rows, "group values", out.groups.size()));
  return out;
}

absl::StatusOr<OutcomesById> ReadOutcomes(const LabelFileOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.path));
  if (file.format == FileFormat::kNpy || file.format == FileFormat::kNpz) {
    return FileError(file.name,
                     "is a NumPy file, expected CSV or JSON Lines with ids and outcomes");
  }
  OutcomesById out;
  out.places.path = file.name;
  std::optional<std::size_t> id;
  std::optional<std::size_t> outcome;
  const auto plan = [&](std::span<const std::string> names,
                        std::size_t column_count) -> absl::StatusOr<std::size_t> {
    CALIBD_ASSIGN_OR_RETURN(
        id, PlanColumn(file.name, "--id-column", options.columns.id, "id", names, column_count));
    CALIBD_ASSIGN_OR_RETURN(outcome, PlanColumn(file.name, "--label-column", options.columns.label,
                                                kOutcomeName, names, column_count));
    if (id.has_value() && outcome.has_value()) return column_count;
    if (column_count != 2) {
      return FileError(file.name,
                       absl::StrCat("has ", column_count,
                                    " columns, expected two: an id and an outcome; otherwise state "
                                    "both with --id-column and --label-column"));
    }
    if (!id.has_value()) id = outcome.has_value() ? 1 - *outcome : 0;
    if (!outcome.has_value()) outcome = 1 - *id;
    return column_count;
  };
  CALIBD_RETURN_IF_ERROR(ReadTable(file, options.columns, plan, [&](const TextRow& row) {
    out.ids.emplace_back(row.cells[*id]);
    out.places.lines.push_back(row.line);
    return ReadNumber(file.name, row, *outcome, options.drop_invalid, out.outcomes);
  }));
  return out;
}

}  // namespace calibd::cli
