#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/estimate.h"
#include "calibd/core/estimator_selection.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/lens_option.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/text_row.h"
#include "client/cli/reports/estimate_report.h"
#include "client/offline/classes.h"
#include "client/offline/threads.h"

namespace calibd::cli {
namespace {

struct EstimateOptions {
  InputOptions input;
  // If set, this model of the server is used instead of files.
  std::string model;
  std::string lens = "top_label";
  std::vector<std::string> estimators;
  std::int32_t window = 0;
  std::int32_t folds = 5;
  double test_share = 0.2;
  std::int32_t replicates = 0;
  std::optional<std::uint64_t> seed;
  // Used for files.
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
};

absl::StatusOr<v1::EstimateCalibrationErrorRequest> MakeRequest(const EstimateOptions& options) {
  v1::EstimateCalibrationErrorRequest request;
  CALIBD_ASSIGN_OR_RETURN(*request.mutable_lens(), OrUsageFault(ParseLens(options.lens)));
  request.set_window(options.window);
  for (const std::string& name : options.estimators) request.add_estimators(EstimatorOf(name));
  request.set_folds(options.folds);
  request.set_test_share(options.test_share);
  request.set_replicates(options.replicates);
  if (options.seed.has_value()) request.set_seed(*options.seed);
  return request;
}

absl::StatusOr<ExitCode> EstimateServed(const Context& context, const EstimateOptions& options,
                                        v1::EstimateCalibrationErrorRequest request) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  request.set_model(ModelArgument(options.model));
  CALIBD_ASSIGN_OR_RETURN(
      const v1::CalibrationErrorEstimate estimate,
      CallWithProgress(context, "estimating", kTestTimeout, [&](const auto& long_call) {
        return client->EstimateCalibrationError(request, long_call);
      }));
  if (context.json()) {
    PrintJson(ToJson(estimate));
  } else {
    Print(request.model() + ": " + DescribeEstimate(estimate));
  }
  return ExitCode::kOk;
}

// Announces an estimate that takes long. batch: all rows.
void TellDurationOf(const PredictionBatch& batch, const EstimateOptions& options,
                    const v1::EstimateCalibrationErrorRequest& request,
                    const std::stop_token& stop) {
  // Multiplications of one thread in a second, roughly.
  constexpr double kOperationsPerSecond = 1e10;
  // With replicates, even a few rows would take long, and few rows say little about many.
  v1::EstimateCalibrationErrorRequest fewer = request;
  fewer.set_replicates(0);
  const auto whole = convert::FromProto(request, batch.class_count);
  const auto part = convert::FromProto(fewer, batch.class_count);
  // The estimate says what is wrong with the options.
  if (!whole.ok() || !part.ok()) return;
  const auto operations = [&](std::size_t rows, const SelectionOptions& selection) {
    return SelectionOperations(rows, batch.class_count, selection);
  };
  const char* const fast = request.estimators_size() > 0 ? "fewer --estimators"
                           : whole->lens.is_canonical()  ? "--estimators function_ridge"
                                                         : "--estimators bins";
  TellDuration({.rows = batch.size(),
                .seconds =
                    [&](std::size_t rows) {
                      return operations(rows, *part) / (kOperationsPerSecond * options.threads);
                    },
                .measure =
                    [&](std::size_t rows) {
                      return SecondsOf([&] {
                        return offline::EstimateOffline(
                                   batch.rows(0, rows), {}, fewer, options.threads,
                                   offline::ControlOf(options.threads, stop, nullptr))
                            .ok();
                      });
                    },
                .scale = operations(batch.size(), *whole) / operations(batch.size(), *part)},
               absl::StrCat(request.replicates() > 0 ? "fewer --replicates, or " : "", fast));
}

absl::StatusOr<ExitCode> EstimateFiles(const Context& context, const EstimateOptions& options,
                                       v1::EstimateCalibrationErrorRequest request) {
  if (const auto fault = FindUsageFault(options.input)) return UsageFault(*fault);
  if (const std::string& group = options.input.columns.group; !group.empty()) {
    return UsageFault(absl::StrCat(
        "estimate has no answer for each group: leave the column out with "
        "--drop-column ",
        OptionValue(group), ", or use calibctl evaluate --group-column ", OptionValue(group)));
  }
  const absl::StatusOr<Input> input = ReadObservations(options.input, 0);
  if (absl::IsNotFound(input.status()) && options.input.labels.empty()) {
    return absl::NotFoundError(absl::StrCat(input.status().message(),
                                            "; for a model on a server, give --model ",
                                            options.input.predictions));
  }
  if (!input.ok()) return input.status();
  if (!request.has_seed()) request.set_seed(std::random_device{}());
  const PredictionBatch batch{input->values, input->labels, input->class_count};
  TellDurationOf(batch, options, request, context.stop);
  CALIBD_ASSIGN_OR_RETURN(
      const v1::CalibrationErrorEstimate estimate,
      CallWithProgress(context, "estimating", kTestTimeout, [&](const auto& call) {
        return offline::EstimateOffline(
            batch, input->class_names, request, options.threads,
            offline::ControlOf(options.threads, call.stop, call.on_progress));
      }));
  if (context.json()) {
    Json json = ToJson(estimate);
    json["fileRows"] = ToJson(ToProto(input->changes));
    PrintJson(json);
  } else {
    Print(DescribeEstimate(estimate) + Describe(input->changes));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Run(const Context& context, const EstimateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto request, MakeRequest(options));
  if (options.model.empty()) return EstimateFiles(context, options, request);
  if (!options.input.predictions.empty()) return UsageFault("give files or --model, not both");
  return EstimateServed(context, options, request);
}

}  // namespace

void AddEstimateCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<EstimateOptions>(
      app, context, "estimate",
      "Estimate how large the calibration error is, with the estimator that suits the data best, "
      "for predictions in files (no server needed) or for a model's newest observations",
      Run);
  command->footer(
      "Examples: calibctl estimate predictions.csv labels.csv --label-base 0\n"
      "          calibctl estimate --model resnet18 --lens canonical\n"
      "Tries several estimators, tunes each by cross-validation, and compares how well they "
      "predict "
      "the errors of new observations. Ctrl-C also stops it on the server.");
  AddInputOptions(*command, options->input);
  AddModelSource(
      *command, options->model, options->window,
      "estimate the error of this model on the server, NAME or NAME@VERSION, instead of files");
  command->add_option("--lens", options->lens,
                      "the part of the predictions whose error is estimated: canonical, "
                      "top_label, class_wise (one number over all classes) or class:K, with K "
                      "counted from 0; default top_label");
  command
      ->add_option("--estimators", options->estimators,
                   absl::StrCat("only these: a list of ", absl::StrJoin(EstimatorNames(), ", "),
                                "; default: all that suit the lens"))
      ->delimiter(',')
      ->check(CLI::IsMember(EstimatorNames()));
  command->add_option("--folds", options->folds, "folds of the cross-validation, 2..20; default 5")
      ->check(CLI::Range(2, 20));
  command
      ->add_option("--test-share", options->test_share,
                   "share of the observations that is kept for the final estimates; default 20%")
      ->transform(ProbabilityRange(0.001, 0.999));
  command
      ->add_option("--replicates", options->replicates,
                   "also simulate a calibrated model this many times: a p-value and the estimates "
                   "to expect without an error; 99..100000, default none")
      ->check(CLI::Range(99, 100000));
  AddSeedOption(
      *command, options->seed,
      "seed of the order of the observations and of the replicates; default: random, and shown "
      "with the result");
  AddThreadsOption(*command, options->threads);
}

}  // namespace calibd::cli
