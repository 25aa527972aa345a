#ifndef CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_evaluation.h"
#include "calibd/v1/model_service.pb.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// Reads forecasts of a number, with their outcomes as truths if there are any. The forecast columns
// of a file with names are mean and standard_deviation for Normal forecasts, and those whose names
// end in the levels for quantiles; otherwise they are all columns, in their order, that have no
// other role. The outcome is the column of --label-column, or
// the one with the name outcome; the id that of --id-column, or the one with the name id; the time
// that of --time-column, or the one with the name time. Without names, the columns are those of the
// forecast, and then the outcome if there is one more. forecast: samples may have 0 draws, which
// are then as many as the file has; without names, the last column is then the outcome if one is
// needed, and a draw otherwise. Errors: as ReadTable; the values are not checked.
[[nodiscard]] absl::StatusOr<Table> ReadForecasts(const InputOptions& options,
                                                  const v1::Forecast& forecast);

// Valid forecasts of a number with their outcomes, which are the truths. There may be no truths if
// labels_needed is false.
struct NumberForecasts : Table {
  // Samples have the number of draws that the file has.
  NumberForecastKind kind;
  // With the features of the table, which has none any more. local_features is empty.
  ForecastCovariates covariates;

  [[nodiscard]] ForecastBatch view() const { return WithKind(kind, {values, truths}); }
};

// Reads forecasts with their outcomes, and drops invalid rows if wanted. kind: of samples, whatever
// number of draws it states, all that the file has. Errors: as ReadForecasts, also for invalid
// forecasts and outcomes.
[[nodiscard]] absl::StatusOr<NumberForecasts> ReadNumberForecasts(const InputOptions& input,
                                                                  NumberForecastKind kind);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_FORECAST_FILE_H_
