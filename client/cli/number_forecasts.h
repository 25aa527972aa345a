#ifndef CALIBD_CLI_NUMBER_FORECASTS_H_
#define CALIBD_CLI_NUMBER_FORECASTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"

namespace calibd::cli {

// Forecasts of a number with their outcomes.
struct NumberForecasts {
  ForecastKind kind = ForecastKind::kNormal;
  // n x width, row-major: see ForecastBatch.
  std::vector<double> values;
  std::size_t width = 0;
  std::vector<double> outcomes;

  [[nodiscard]] ForecastBatch view() const { return {kind, values, width, {}, outcomes}; }
};

// Reads CSV, JSON Lines or NPY. kind: kNormal or kSamples. The columns of Normal forecasts are
// mean, standard_deviation and outcome: by name if there are names, and otherwise in this order.
// The last column of samples, or the one with the name outcome, is the outcome; all others are
// draws. path: "-" is standard input. Errors: InvalidArgument naming the file, and the line and
// column or the row, also of forecasts that FindViolations refuses; the status of the system's
// error.
[[nodiscard]] absl::StatusOr<NumberForecasts> ReadNumberForecasts(const std::string& path,
                                                                  ForecastKind kind);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_NUMBER_FORECASTS_H_
