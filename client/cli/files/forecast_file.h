#ifndef CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "client/cli/files/prediction_file.h"

namespace calibd::cli {

// Forecasts of a number with their own memory.
struct ForecastFile {
  // n x width, row-major.
  std::vector<double> values;
  std::size_t width = 0;
  // n outcomes, or empty.
  std::vector<double> outcomes;
  // n ids, or empty.
  std::vector<std::string> ids;
  // n group values, or empty; an empty value means that the row has no group.
  std::vector<std::string> groups;
  // n times of the forecasts as the file states them, or empty.
  std::vector<std::string> times;
  // n values for each of ColumnOptions::features, row-major.
  std::vector<double> features;
  RowPlaces places;
};

// What an option says that forecasts do not have; unset if there is no such option.
[[nodiscard]] std::optional<std::string> FindForecastUsageFault(const InputOptions& input);

// Reads CSV, JSON Lines or NPY. The forecast columns of a file with names are mean and
// standard_deviation for Normal forecasts, and otherwise all columns, in their order, that are not
// of the outcome, the id, the time, the group or a feature. The outcome is the column of
// --label-column, or the one with the name outcome; the id that of --id-column, or the one with the
// name id; the time that of --time-column, or the one with the name time; the group that of
// --group-column, and the features those of --feature-column. Without names, the columns are those
// of the forecast, and then the outcome if there is one more. The outcomes may be in a file of
// their own, with one column; there may be none. forecast: samples may have 0 draws, which are then
// as many as the file has. Errors: as ReadInput; the values are not checked.
[[nodiscard]] absl::StatusOr<ForecastFile> ReadForecasts(const InputOptions& options,
                                                         const v1::Forecast& forecast);

// Reads a table of numbers alone: CSV, JSON Lines or NPY. The first line of a CSV may hold names.
struct NumberTable {
  // Row-major.
  std::vector<double> values;
  std::size_t column_count = 0;
};
[[nodiscard]] absl::StatusOr<NumberTable> ReadNumbers(const std::string& path,
                                                      const ColumnOptions& columns);

// Reads the outcomes of forecasts by id: CSV or JSON Lines with the columns id and outcome, or
// those of --id-column and --label-column, or the first and the second one of two.
struct OutcomesById {
  std::vector<std::string> ids;
  std::vector<double> outcomes;
  RowPlaces places;
};
[[nodiscard]] absl::StatusOr<OutcomesById> ReadOutcomes(const LabelFileOptions& options);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_
