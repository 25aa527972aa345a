#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calibd/core/forecast_evaluation.h"
#include "command.h"
#include "forecast_report.h"
#include "null_option.h"
#include "number_forecasts.h"
#include "offline_evaluation.h"

namespace calibd::cli {
namespace {

struct EvaluateForecastsOptions {
  // One of them is set.
  std::string normals;
  std::string samples;
  std::string quantiles;
  std::vector<double> levels;
  std::optional<double> threshold;
  std::int32_t replicates = DefaultReplicates(NullHypothesis::kForecast);
  NullHypothesis null = NullHypothesis::kForecast;
  std::optional<std::uint64_t> seed;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
};

// The file and its kind.
absl::StatusOr<std::pair<std::string, NumberForecastKind>> Choose(
    const EvaluateForecastsOptions& options) {
  const int given = static_cast<int>(!options.normals.empty()) +
                    static_cast<int>(!options.samples.empty()) +
                    static_cast<int>(!options.quantiles.empty());
  if (given != 1) return UsageFault("give one of --normals, --samples and --quantiles");
  if (options.quantiles.empty() != options.levels.empty()) {
    return UsageFault("--quantiles needs --levels, and --levels needs --quantiles");
  }
  if (!options.normals.empty()) return std::pair(options.normals, NormalForecasts());
  if (!options.samples.empty()) return std::pair(options.samples, SampleForecasts());
  QuantileForecasts kind{options.levels};
  if (const absl::Status status = CheckForecastKind(kind); !status.ok()) {
    return UsageFault("--levels: " + std::string(status.message()));
  }
  return std::pair(options.quantiles, std::move(kind));
}

absl::StatusOr<ExitCode> Run(const Context& context, const EvaluateForecastsOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(auto chosen, Choose(options));
  if (options.threshold.has_value() && !options.quantiles.empty()) {
    return UsageFault("--threshold is for --normals and --samples");
  }
  CALIBD_ASSIGN_OR_RETURN(const NumberForecasts forecasts,
                          ReadNumberForecasts(chosen.first, std::move(chosen.second)));
  ForecastEvaluationOptions evaluation_options;
  evaluation_options.resampling = {.replicates = options.replicates,
                                   .seed = options.seed.value_or(std::random_device{}()),
                                   .null = options.null};
  evaluation_options.threshold = options.threshold;
  CALIBD_ASSIGN_OR_RETURN(
      const ForecastEvaluation evaluation,
      CallWithProgress(context, "evaluating", kTestTimeout, [&](const auto& call) {
        const RunControl control{.parallel_for = LoopOnThreads(options.threads),
                                 .progress = call.on_progress,
                                 .cancelled = [&context] { return context.stop.stop_requested(); }};
        return EvaluateForecasts(forecasts.kind, {forecasts.values, forecasts.outcomes},
                                 evaluation_options, control);
      }));
  if (context.json()) {
    PrintJson(ForecastJson(forecasts.kind, evaluation));
  } else {
    Print(DescribeForecasts(forecasts.kind, evaluation));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddEvaluateForecastsCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<EvaluateForecastsOptions>(
      app, context, "evaluate-forecasts",
      "Compute coverage, scores and tests for forecasts of a number in a file (no server needed)",
      Run);
  command->footer(
      "Examples: calibctl evaluate-forecasts --normals demand.csv\n"
      "          calibctl evaluate-forecasts --quantiles demand.csv --levels 0.1,0.5,0.9\n"
      "          calibctl evaluate-forecasts --samples draws.npy --threshold 100\n"
      "Files are CSV, JSON Lines or NPY. The last column, or the one with the name outcome, is the "
      "outcome.");
  command->add_option("--normals", options->normals,
                      "file of Normal forecasts: mean, standard_deviation and outcome");
  command->add_option("--samples", options->samples,
                      "file of forecasts as independent draws: two or more draws and the outcome");
  command->add_option("--quantiles", options->quantiles,
                      "file of quantiles, in the order of --levels, and the outcome");
  command
      ->add_option("--levels", options->levels,
                   "levels of the quantiles, increasing, between 0 and 1, such as 0.1,0.5,0.9")
      ->delimiter(',');
  command->add_option("--threshold", options->threshold,
                      "also evaluate the decision whether the outcome reaches this value");
  command
      ->add_option("--replicates", options->replicates,
                   "replicates of each test, 99..100000; default 999")
      ->check(CLI::Range(99, 100000));
  AddNullOption(
      *command, options->null,
      "what the tests of the discrepancies reject: forecast, that outcomes are drawn from "
      "the forecasts (simulation, exact for every number of rows), or form, that the "
      "forecasts are calibrated in the tested form (random signs, approximate); default "
      "forecast");
  command->add_option("--seed", options->seed,
                      "seed of all random draws; default: random, and shown with the result");
  command
      ->add_option("--threads", options->threads,
                   "number of threads; default: one per CPU. The results do not depend on it")
      ->check(CLI::Range(1, 1024));
}

}  // namespace calibd::cli
