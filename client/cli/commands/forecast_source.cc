#include "client/cli/commands/forecast_source.h"

#include "client/cli/commands/command.h"

namespace calibd::cli {

void AddForecastSource(CLI::App& command, ForecastSource& source) {
  command.add_option("--normals", source.normals,
                     "file of Normal forecasts: mean, standard_deviation and outcome");
  command.add_option("--samples", source.samples,
                     "file of forecasts as independent draws: two or more draws and the outcome");
  command.add_option("--quantiles", source.quantiles,
                     "file of quantiles, in the order of --levels, and the outcome");
  command
      .add_option("--levels", source.levels,
                  "levels of the quantiles, increasing, between 0 and 1, such as 0.1,0.5,0.9")
      ->delimiter(',');
}

absl::StatusOr<std::pair<std::string, NumberForecastKind>> ChooseForecasts(
    const ForecastSource& source) {
  const int given = static_cast<int>(!source.normals.empty()) +
                    static_cast<int>(!source.samples.empty()) +
                    static_cast<int>(!source.quantiles.empty());
  if (given != 1) return UsageFault("give one of --normals, --samples and --quantiles");
  if (source.quantiles.empty() != source.levels.empty()) {
    return UsageFault("--quantiles needs --levels, and --levels needs --quantiles");
  }
  if (!source.normals.empty()) return std::pair(source.normals, NormalForecasts());
  if (!source.samples.empty()) return std::pair(source.samples, SampleForecasts());
  QuantileForecasts kind{source.levels};
  if (const absl::Status status = CheckForecastKind(kind); !status.ok()) {
    return UsageFault("--levels: " + std::string(status.message()));
  }
  return std::pair(source.quantiles, std::move(kind));
}

}  // namespace calibd::cli
