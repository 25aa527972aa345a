#ifndef CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SIMULATION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/forecast_generator.h"
#include "calibd/v1/model_service.pb.h"
#include "client/cli/output.pb.h"

namespace calibd::cli {

// The options of `simulate` for a model that forecasts a number. Unset: calibrated forecasts.
struct ForecastErrorOptions {
  std::optional<double> shift;
  std::optional<double> scale;
  std::optional<std::int64_t> drift_at;

  // The first option that is set, or empty.
  [[nodiscard]] std::string SetOption() const;
};

// model: forecasts a number.
[[nodiscard]] ForecastGeneratorSpec ForecastSpec(const v1::Forecast& model,
                                                 const ForecastErrorOptions& options);
// The exact coverage of the generator. rows: the number of all rows.
[[nodiscard]] SimulatedTruth ForecastTruth(const ForecastGeneratorSpec& spec, std::int64_t rows);
// Says it in a sentence.
[[nodiscard]] std::string ForecastTruthText(const ForecastGeneratorSpec& spec);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_FORECAST_SIMULATION_H_
