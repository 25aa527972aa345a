#ifndef CALIBD_CLIENT_CLI_FILES_NUMBER_FORECASTS_H_
#define CALIBD_CLIENT_CLI_FILES_NUMBER_FORECASTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_evaluation.h"
#include "client/cli/files/input_options.h"

namespace calibd::cli {

// Forecasts of a number with their outcomes.
struct NumberForecasts {
  // Samples have the number of draws that the file has.
  NumberForecastKind kind;
  // n x width, row-major: see NumberForecastKind.
  std::vector<double> values;
  std::size_t width = 0;
  std::vector<double> outcomes;
  // local_features is empty.
  ForecastCovariates covariates;
  // Rows that --drop-invalid left out.
  std::size_t dropped_rows = 0;

  [[nodiscard]] ForecastBatch view() const { return WithKind(kind, {values, outcomes}); }
};

// Reads the file `input.predictions` with the columns that ReadForecasts describes, and its
// outcomes. kind: of samples, whatever number of draws it states, all that the file has. Errors: as
// ReadForecasts, also for invalid forecasts and outcomes.
[[nodiscard]] absl::StatusOr<NumberForecasts> ReadNumberForecasts(const InputOptions& input,
                                                                  NumberForecastKind kind);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_NUMBER_FORECASTS_H_
