#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "calibd/convert/loss.h"
#include "calibd/convert/reading.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/forecast_evaluation.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/forecast_source.h"
#include "client/cli/commands/outcome_kernel_option.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/report_file.h"
#include "client/cli/reports/forecast_report.h"
#include "client/offline/threads.h"

namespace calibd::cli {
namespace {

// The speed of one CPU with 10000 Normal forecasts. It is measured again before long work.
constexpr double kOperationsPerSecond = 5e9;

struct EvaluateForecastsOptions {
  // If set, this model of the server is evaluated instead of a file.
  std::string model;
  std::int32_t window = 0;
  // A file otherwise.
  ForecastSource source;
  // The columns of the file.
  ColumnOptions columns;
  // Names of some of columns.features.
  std::vector<std::string> local_features;
  std::optional<double> threshold;
  std::optional<double> threshold_alpha;
  // Empty: those of the forms.
  std::string outcome_kernel;
  std::int32_t replicates = kDefaultReplicates;
  NullHypothesis null = NullHypothesis::kForecast;
  std::int32_t test_rows = static_cast<std::int32_t>(kDefaultTestRows);
  std::optional<std::uint64_t> seed;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  EvaluationGate fail_on;
  // Where a report is written; empty: nowhere.
  std::string report;
  // Unset: that of the model, or kDefaultLimit for files.
  std::optional<double> error_limit;
};

const char* KindName(const NumberForecastKind& kind) {
  if (std::holds_alternative<NormalForecasts>(kind)) return "normal";
  return std::holds_alternative<QuantileForecasts>(kind) ? "quantiles" : "samples";
}

absl::StatusOr<ExitCode> Report(const Context& context, const EvaluateForecastsOptions& options,
                                const std::string& kind, double default_limit,
                                v1::Evaluation answer, const FileChanges& changes) {
  const convert::EvaluationCriteria criteria{
      .error_limit = options.error_limit.value_or(default_limit),
      .significance_level = options.fail_on.significance_level};
  convert::Judge(criteria, answer);
  // One of them is set.
  const std::string source =
      options.model + options.source.normals + options.source.samples + options.source.quantiles;
  CALIBD_RETURN_IF_ERROR(ReportEvaluation(options.report, source, "evaluation", answer));
  const std::optional<Decision> decision =
      DecideByVerdict(convert::VerdictOf(answer, criteria), options.fail_on, criteria.error_limit);
  if (context.json()) {
    Json json = ToJson(answer.forecast());
    json["testedObservations"] = absl::StrCat(answer.tested_observations());
    if (options.columns.drop_invalid) json["fileRows"] = ToJson(ToProto(changes));
    if (decision.has_value()) json["gate"] = ToJson(decision->gate);
    PrintJson(json);
  } else {
    Print(DescribeForecasts(kind, answer));
    const auto is_of_groups = [](const auto& one) { return one.form() == "group"; };
    if (!options.columns.group.empty() &&
        std::ranges::any_of(answer.forecast().discrepancies(), is_of_groups)) {
      Print(
          "The groups enter only the test of the form group. A model of a server with "
          "--group-tag has an answer for each group.\n");
    }
    Print(Describe(changes));
    if (decision.has_value()) Print("\n" + decision->sentence);
  }
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

// Errors: a usage fault.
absl::StatusOr<v1::EvaluateRequest> MakeRequest(const EvaluateForecastsOptions& options) {
  v1::EvaluateRequest request;
  request.set_window(options.window);
  request.set_replicates(options.replicates);
  request.set_null(convert::ToProto(options.null));
  request.set_test_rows(options.test_rows);
  if (options.seed.has_value()) request.set_seed(*options.seed);
  if (options.threshold.has_value()) request.set_threshold(*options.threshold);
  if (options.threshold_alpha.has_value()) request.set_threshold_alpha(*options.threshold_alpha);
  if (!options.outcome_kernel.empty()) {
    CALIBD_ASSIGN_OR_RETURN(const OutcomeKernel kernel, ParseOutcomeKernel(options.outcome_kernel));
    *request.mutable_outcome_kernel() = convert::ToProto(kernel);
  }
  request.mutable_local_features()->Add(options.local_features.begin(),
                                        options.local_features.end());
  return request;
}

absl::StatusOr<ExitCode> EvaluateServed(const Context& context,
                                        const EvaluateForecastsOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(v1::EvaluateRequest request, MakeRequest(options));
  request.set_model(ModelArgument(options.model));
  CALIBD_ASSIGN_OR_RETURN(const v1::Model model, client->GetModel(request.model()));
  if (model.has_labels()) {
    return UsageFault(absl::StrCat(
        ShortName(model.name()),
        " predicts several labels: `calibctl show` has the error of each, and `calibctl "
        "evaluate-labels` evaluates a file"));
  }
  if (!model.has_forecast()) {
    return UsageFault(absl::StrCat(ShortName(model.name()),
                                   " predicts classes: use `calibctl evaluate --model ",
                                   options.model, "`"));
  }
  CALIBD_ASSIGN_OR_RETURN(
      const v1::Evaluation evaluation,
      CallWithProgress(context, "evaluating", kTestTimeout,
                       [&](const auto& call) { return client->Evaluate(request, call); }));
  const char* const kind = model.forecast().has_normal()      ? "normal"
                           : model.forecast().has_quantiles() ? "quantiles"
                                                              : "samples";
  return Report(context, options, kind, ErrorLimitOf(model, kDefaultCoverageLimit), evaluation,
                FileChanges());
}

// The positions of --local-feature among --feature-column. Errors: a usage fault.
absl::StatusOr<std::vector<std::size_t>> LocalFeatures(const EvaluateForecastsOptions& options) {
  const std::vector<std::string>& features = options.columns.features;
  std::vector<std::size_t> positions;
  for (const std::string& name : options.local_features) {
    const auto found = std::ranges::find(features, name);
    if (found == features.end()) {
      return UsageFault(absl::StrCat("--local-feature ", name, " is none of --feature-column"));
    }
    positions.push_back(static_cast<std::size_t>(found - features.begin()));
  }
  return positions;
}

absl::StatusOr<ExitCode> EvaluateFile(const Context& context,
                                      const EvaluateForecastsOptions& options) {
  if (!options.source.is_given()) {
    return UsageFault("give one of --normals, --samples, --quantiles and --model");
  }
  CALIBD_ASSIGN_OR_RETURN(auto chosen, ChooseForecasts(options.source));
  CALIBD_ASSIGN_OR_RETURN(const v1::EvaluateRequest request, MakeRequest(options));
  CALIBD_ASSIGN_OR_RETURN(
      ForecastEvaluationOptions evaluation_options,
      OrUsageFault(convert::ForecastOptionsFromProto(request, chosen.second, {})));
  if (!options.seed.has_value()) evaluation_options.resampling.seed = std::random_device{}();
  InputOptions input;
  input.predictions = chosen.first;
  input.columns = options.columns;
  CALIBD_ASSIGN_OR_RETURN(NumberForecasts forecasts,
                          ReadNumberForecasts(input, std::move(chosen.second)));
  CALIBD_ASSIGN_OR_RETURN(forecasts.covariates.local_features, LocalFeatures(options));
  const std::size_t n = forecasts.row_count;
  const CovariateSizes sizes{.groups = !options.columns.group.empty(),
                             .features = options.columns.features.size(),
                             .local_features = options.local_features.size()};
  const auto evaluate = [&](std::size_t rows, const RunControl& control) {
    ForecastCovariates covariates = forecasts.covariates;
    if (!covariates.groups.empty()) covariates.groups.resize(rows);
    covariates.features.resize(rows * covariates.feature_count);
    const std::size_t width = forecasts.values.size() / n;
    return EvaluateForecasts(
        forecasts.kind,
        {std::span(forecasts.values).first(rows * width), std::span(forecasts.truths).first(rows)},
        evaluation_options, covariates, control);
  };
  const auto control = [&](std::function<void(double)> progress) {
    return offline::ControlOf(options.threads, context.stop, std::move(progress));
  };
  TellDuration({.rows = n,
                .seconds =
                    [&](std::size_t rows) {
                      return ForecastEvaluationOperations(rows, forecasts.kind, evaluation_options,
                                                          sizes) /
                             kOperationsPerSecond / options.threads;
                    },
                .measure =
                    [&](std::size_t rows) {
                      return SecondsOf([&] { return evaluate(rows, control(nullptr)).ok(); });
                    }},
               "use fewer --test-rows, or fewer --replicates, at least 99");
  CALIBD_ASSIGN_OR_RETURN(
      const ForecastEvaluation evaluation,
      CallWithProgress(context, "evaluating", kTestTimeout,
                       [&](const auto& call) { return evaluate(n, control(call.on_progress)); }));
  return Report(context, options, KindName(forecasts.kind), kDefaultCoverageLimit,
                convert::ToProto(evaluation, evaluation_options, forecasts.covariates,
                                 options.columns.features),
                forecasts.changes);
}

absl::StatusOr<ExitCode> Run(const Context& context, const EvaluateForecastsOptions& options) {
  if (options.model.empty()) return EvaluateFile(context, options);
  if (options.source.is_given()) return UsageFault("give a file or --model, not both");
  if (!options.columns.features.empty() || !options.columns.group.empty()) {
    return UsageFault(
        "--feature-column and --group-column need a file: a model of the server has the features "
        "and groups of its declaration");
  }
  if (!options.fail_on.what.empty()) {
    return UsageFault(absl::StrCat(
        "--fail-on would judge only the newest observations of the model: use `calibctl show ",
        options.model, " --fail-on over-limit`, which follows its verdict"));
  }
  return EvaluateServed(context, options);
}

}  // namespace

void AddEvaluateForecastsCommand(CLI::App& app, Context& context) {
  const auto [command, options] =
      AddCommand<EvaluateForecastsOptions>(app, context, "evaluate-forecasts",
                                           "Compute coverage, scores and tests for forecasts of a "
                                           "number, in a file (no server needed) or "
                                           "for a model's newest observations",
                                           Run);
  command->footer(
      "Examples: calibctl evaluate-forecasts --normals demand.csv\n"
      "          calibctl evaluate-forecasts --quantiles demand.csv --levels 0.1,0.5,0.9\n"
      "          calibctl evaluate-forecasts --samples draws.npy --threshold 100\n"
      "          calibctl evaluate-forecasts --model demand\n"
      "Files are CSV, JSON Lines or NPY, as for calibctl send. The outcome is the column with this "
      "name, or without names the last one.");
  AddForecastSource(*command, options->source);
  AddTableOptions(*command, options->columns);
  command->get_option("--group-column")
      ->description(
          "column or key with the group of each row: adds a test of the form group, but no answer "
          "for each group");
  command
      ->add_option("--feature-column", options->columns.features,
                   "column with a number that is known of each forecast, such as the "
                   "temperature; may be repeated, or list several: a,b. Tests whether similar "
                   "cases keep their promises")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--local-feature", options->local_features,
                   "some of --feature-column, or of the model's features: also tests by these "
                   "alone, and finds the cases with the largest errors by them")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddModelSource(*command, options->model, options->window,
                 "evaluate this model on the server, NAME or NAME@VERSION, instead of a file");
  command->add_option(
      "--threshold", options->threshold,
      "also evaluate the decision whether the outcome reaches this value; default with "
      "--model: the decision that the model declares, with its costs");
  command
      ->add_option("--threshold-alpha", options->threshold_alpha,
                   "with --threshold: divide the forecasts by whether their probability of an "
                   "outcome up to the threshold is at most this; default 0.5; for quantiles one of "
                   "the levels")
      ->transform(ProbabilityRange(1e-9, 1 - 1e-9))
      ->needs("--threshold");
  command->add_option(
      "--outcome-kernel", options->outcome_kernel,
      absl::StrCat("kernel of the outcomes in the discrepancies: ", kOutcomeKernelHelp,
                   "; default: rbf, and pit_rbf for the form threshold; not for quantiles"));
  command
      ->add_option("--replicates", options->replicates,
                   "replicates of each test, 99..100000; default 999")
      ->check(CLI::Range(99, 100000));
  command
      ->add_option("--test-rows", options->test_rows,
                   "number of rows that the tests, the discrepancies and the local calibration "
                   "error use. If there are more, they are drawn at random with --seed. All else "
                   "uses all rows; default 10000")
      ->check(CLI::Range(2, 1000000000));
  AddEvaluationGate(*command, options->fail_on,
                    "the probability with which the e-value of the verdict rejects calibrated "
                    "forecasts");
  command
      ->add_option("--error-limit", options->error_limit,
                   "the acceptable coverage error; default: that of the model, or 0.05 for files")
      ->transform(ProbabilityRange(1e-4, 0.5));
  AddNullOption(
      *command, options->null,
      "what the tests of the discrepancies reject: forecast, that outcomes are drawn from "
      "the forecasts (simulation, exact for every number of rows), or form, that the "
      "forecasts are calibrated in the tested form (random signs, approximate); default "
      "forecast",
      {"form", "forecast"});
  AddReportOption(*command, options->report);
  AddSeedOption(*command, options->seed);
  AddThreadsOption(*command, options->threads);
}

}  // namespace calibd::cli
