#ifndef CALIBD_CLI_NUMBER_FORECASTS_H_
#define CALIBD_CLI_NUMBER_FORECASTS_H_

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/forecast_cells.h"

namespace calibd::cli {

// Forecasts of a number with their outcomes.
struct NumberForecasts {
  // Of samples with the number of draws in the file.
  NumberForecastKind kind;
  // n x width, row-major: see NumberForecastKind.
  std::vector<double> values;
  std::size_t width = 0;
  std::vector<double> outcomes;

  // kind: not quantiles.
  [[nodiscard]] ForecastBatch view() const {
    const bool normal = std::holds_alternative<NormalForecasts>(kind);
    return {normal ? ForecastKind::kNormal : ForecastKind::kSamples, values, width, {}, outcomes};
  }
};

// Reads CSV, JSON Lines or NPY. The columns of Normal forecasts are mean, standard_deviation and
// outcome: by name if there are names, and otherwise in this order. The last column of samples and
// quantiles, or the one with the name outcome, is the outcome; all others are draws, whatever the
// kind says of their number, or the quantiles in the order of their levels. path: "-" is standard
// input. Errors: InvalidArgument naming the file, and the line and column or the row, also of
// invalid forecasts and outcomes; the status of the system's error.
[[nodiscard]] absl::StatusOr<NumberForecasts> ReadNumberForecasts(const std::string& path,
                                                                  NumberForecastKind kind);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_NUMBER_FORECASTS_H_
