#ifndef CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SOURCE_H_
#define CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SOURCE_H_

#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "calibd/core/forecast_cells.h"

namespace calibd::cli {

// The options that name a file of forecasts of a number and say what it holds.
struct ForecastSource {
  std::string normals;
  std::string samples;
  std::string quantiles;
  std::vector<double> levels;

  [[nodiscard]] bool is_given() const noexcept {
    return !normals.empty() || !samples.empty() || !quantiles.empty();
  }
};

// Adds --normals, --samples, --quantiles and --levels. source: must outlive the command.
void AddForecastSource(CLI::App& command, ForecastSource& source);

// The file and its kind; samples have no number of draws yet. source: is given. Errors: a usage
// fault.
[[nodiscard]] absl::StatusOr<std::pair<std::string, NumberForecastKind>> ChooseForecasts(
    const ForecastSource& source);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SOURCE_H_
