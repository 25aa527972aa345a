#include "number_forecasts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "column_plan.h"
#include "file_format.h"
#include "npy_reader.h"
#include "text_predictions.h"
#include "text_row.h"

namespace calibd::cli {
namespace {

constexpr char kOutcome[] = "outcome";

// The columns of a row, counted from 0: those of the forecast, and then the outcome.
using Columns = std::vector<std::size_t>;

// names: of the header; empty without one.
absl::StatusOr<Columns> Plan(const std::string& source, const NumberForecastKind& kind,
                             std::span<const std::string> names, std::size_t column_count) {
  const bool normal = std::holds_alternative<NormalForecasts>(kind);
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (normal                 ? names.empty() && column_count != 3
      : quantiles != nullptr ? column_count != quantiles->levels.size() + 1
                             : column_count < 3) {
    return FileError(source,
                     absl::StrCat("has ", column_count, " columns, expected ",
                                  normal ? "mean, standard_deviation and outcome"
                                  : quantiles != nullptr
                                      ? absl::StrCat("the quantiles of ", quantiles->levels.size(),
                                                     " levels and the outcome")
                                      : "at least two draws and the outcome"));
  }
  Columns columns;
  if (names.empty()) {
    columns.resize(column_count);
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    return columns;
  }
  if (normal) {
    for (const char* const name : {"mean", "standard_deviation", kOutcome}) {
      CALIBD_ASSIGN_OR_RETURN(const std::size_t column,
                              FindColumn(source, "a needed column", name, names, column_count));
      columns.push_back(column);
    }
    return columns;
  }
  CALIBD_ASSIGN_OR_RETURN(const std::size_t outcome,
                          FindColumn(source, "a needed column", kOutcome, names, column_count));
  for (std::size_t k = 0; k < column_count; ++k) {
    if (k != outcome) columns.push_back(k);
  }
  columns.push_back(outcome);
  return columns;
}

// row: the values of all columns.
void AddRow(std::span<const double> row, const Columns& columns, NumberForecasts& forecasts) {
  for (std::size_t k = 0; k + 1 < columns.size(); ++k) {
    forecasts.values.push_back(row[columns[k]]);
  }
  forecasts.outcomes.push_back(row[columns.back()]);
}

absl::Status ReadText(InputFile& file, NumberForecasts& forecasts) {
  std::optional<Columns> columns;
  std::size_t column_count = 0;
  std::vector<double> values;
  CALIBD_RETURN_IF_ERROR(
      ReadRows(file.stream, file.format, {}, file.name, [&](const TextRow& row) -> absl::Status {
        if (!columns.has_value()) {
          column_count = row.cells.size();
          double ignored = 0;
          const bool header = !ParseDouble(row.cells[0], ignored);
          std::vector<std::string> names;
          if (header) names.assign(row.cells.begin(), row.cells.end());
          CALIBD_ASSIGN_OR_RETURN(columns, Plan(file.name, forecasts.kind, names, column_count));
          if (header) return absl::OkStatus();
        }
        if (row.cells.size() != column_count) {
          return CellError(
              file.name, row.line, std::min(row.cells.size(), column_count),
              absl::StrCat("the line has ", row.cells.size(), " columns, expected ", column_count));
        }
        values.assign(column_count, 0);
        for (const std::size_t column : *columns) {
          if (ParseDouble(row.cells[column], values[column])) continue;
          return CellError(file.name, row.line, column + 1,
                           absl::StrCat(Quote(row.cells[column]), " is not a number"));
        }
        AddRow(values, *columns, forecasts);
        return absl::OkStatus();
      }));
  if (columns.has_value()) forecasts.width = columns->size() - 1;
  return absl::OkStatus();
}

absl::Status ReadArray(InputFile& file, NumberForecasts& forecasts) {
  CALIBD_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(file.stream, file.name));
  if (!array.texts.empty()) return FileError(file.name, "has texts, expected numbers");
  CALIBD_ASSIGN_OR_RETURN(const Columns columns,
                          Plan(file.name, forecasts.kind, {}, array.column_count));
  const std::span<const double> values(array.values);
  for (std::size_t i = 0; i < array.row_count; ++i) {
    AddRow(values.subspan(i * array.column_count, array.column_count), columns, forecasts);
  }
  forecasts.width = columns.size() - 1;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NumberForecasts> ReadNumberForecasts(const std::string& path,
                                                    NumberForecastKind kind) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  NumberForecasts forecasts;
  forecasts.kind = std::move(kind);
  if (file.format == FileFormat::kNpz) {
    return FileError(file.name, "is an NPZ file, expected CSV, JSON Lines or NPY");
  }
  CALIBD_RETURN_IF_ERROR(file.format == FileFormat::kNpy ? ReadArray(file, forecasts)
                                                         : ReadText(file, forecasts));
  if (forecasts.outcomes.empty()) return FileError(file.name, "has no rows");
  if (auto* const samples = std::get_if<SampleForecasts>(&forecasts.kind)) {
    samples->draws = forecasts.width;
  }
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(forecasts.kind));
  const std::span<const double> values(forecasts.values);
  for (std::size_t i = 0; i < forecasts.outcomes.size(); ++i) {
    const auto row = values.subspan(i * forecasts.width, forecasts.width);
    std::optional<Violation> violation = FindForecastViolation(forecasts.kind, row);
    if (!violation.has_value()) {
      violation = FindOutcomeViolation(forecasts.kind, row, forecasts.outcomes[i]);
    }
    if (!violation.has_value()) continue;
    violation->field = absl::StrCat("rows[", i, "].", violation->field);
    return FileError(file.name, DescribeViolations({&*violation, 1}));
  }
  return forecasts;
}

}  // namespace calibd::cli
