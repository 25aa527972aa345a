#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/reading.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/lens.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/kernel_option.h"
#include "client/cli/commands/lens_option.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/action_file.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/report_file.h"
#include "client/cli/files/row_order.h"
#include "client/cli/files/text_row.h"
#include "client/cli/reports/evaluation_report.h"
#include "client/offline/classes.h"
#include "client/offline/threads.h"

namespace calibd::cli {
namespace {

struct EvaluateOptions {
  InputOptions input;
  // If set, this model of the server is evaluated instead of files.
  std::string model;
  std::int32_t window = 0;
  KernelOptions kernel;
  offline::OfflineOptions offline;
  // Empty: top_label and class_wise, or the lenses of the model.
  std::vector<std::string> lenses;
  // Empty: chosen by the server.
  std::vector<std::string> binned_errors;
  std::optional<std::int32_t> replicates;
  std::int32_t test_rows = static_cast<std::int32_t>(kDefaultTestRows);
  NullHypothesis null = NullHypothesis::kForecast;
  std::int32_t consistency_replicates = 999;
  std::int32_t cme_test_locations = 10;
  std::vector<std::int32_t> reliability_classes;
  double band_level = 0.9;
  // A file for ReadActions; empty: no decision.
  std::string actions;
  bool predictions_follow_labels = false;
  bool float32 = false;
  std::optional<std::uint64_t> seed;
  // 0: the default for the number of classes.
  double row_sum_tolerance = 0;
  EvaluationGate fail_on;
  // Where a report is written; empty: nowhere.
  std::string report;
  // By default the limit of the model, or kDefaultErrorLimit for files.
  std::optional<double> error_limit;
};

std::int32_t Replicates(const EvaluateOptions& options) {
  return options.replicates.value_or(kDefaultReplicates);
}

// Builds the request for both the server and the offline evaluation.
absl::StatusOr<v1::EvaluateRequest> MakeRequest(const EvaluateOptions& options) {
  v1::EvaluateRequest request;
  for (const std::string& text : options.lenses) {
    CALIBD_ASSIGN_OR_RETURN(const auto lens, ParseLens(text));
    *request.add_lenses() = lens;
  }
  for (const std::string& text : options.binned_errors) {
    CALIBD_ASSIGN_OR_RETURN(const auto spec, ParseBins(text));
    *request.add_binned_errors() = spec;
  }
  request.set_replicates(Replicates(options));
  request.set_test_rows(options.test_rows);
  request.set_null(convert::ToProto(options.null));
  if (options.seed.has_value()) request.set_seed(*options.seed);
  if (options.float32) request.set_precision(v1::Provenance::FLOAT32);
  request.set_consistency_replicates(options.consistency_replicates);
  request.set_cme_test_locations(options.cme_test_locations);
  request.mutable_reliability_classes()->Add(options.reliability_classes.begin(),
                                             options.reliability_classes.end());
  request.set_band_level(options.band_level);
  request.set_predictions_follow_labels(options.predictions_follow_labels);
  return request;
}

// class_names: empty if unknown. Errors: a usage fault.
absl::Status AddActions(const EvaluateOptions& options, std::span<const std::string> class_names,
                        v1::EvaluateRequest& request) {
  if (options.actions.empty()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(const std::vector<v1::Action> actions,
                          OrUsageFault(ReadActions(options.actions, class_names)));
  request.mutable_actions()->Add(actions.begin(), actions.end());
  return absl::OkStatus();
}

// The lenses of files, if the request has none: canonical, top_label and class_wise.
constexpr std::size_t kDefaultLenses = 3;

// Errors: a usage fault if the tests cannot reach the level of the gate. default_lenses: number of
// lenses if the request has none. has_groups: the level is shared with groups.
absl::Status CheckGate(const EvaluateOptions& options, const v1::EvaluateRequest& request,
                       std::size_t default_lenses, bool has_groups) {
  const std::size_t lenses = request.lenses_size() == 0
                                 ? default_lenses
                                 : 1 + static_cast<std::size_t>(request.lenses_size());
  const double level = convert::LevelOfLens(
      {.significance_level = options.fail_on.significance_level}, lenses, has_groups);
  // A Pearson curve has p-values of any size.
  const bool has_curve = options.null == NullHypothesis::kPearson && Replicates(options) > 0;
  const auto fault =
      FindUsageFault(options.fail_on, has_curve ? kMaxReplicates : Replicates(options), level);
  return fault.has_value() ? UsageFault(*fault) : absl::OkStatus();
}

// A report has the diagram of class 1 of two classes, unless the user chose others.
void AddDiagrams(const EvaluateOptions& options, std::size_t class_count,
                 v1::EvaluateRequest& request) {
  if (!options.report.empty() && options.reliability_classes.empty() && class_count == 2) {
    request.add_reliability_classes(1);
  }
}

// Prints the result and the decision, and returns the exit code. changes: unset without files.
absl::StatusOr<ExitCode> Report(const Context& context, const EvaluateOptions& options,
                                v1::Evaluation evaluation,
                                const std::optional<FileChanges>& changes,
                                const convert::EvaluationCriteria& criteria) {
  convert::Judge(criteria, evaluation);
  CALIBD_RETURN_IF_ERROR(ReportEvaluation(
      options.report, options.model.empty() ? options.input.predictions : options.model,
      "evaluation", evaluation));
  const std::optional<Decision> decision = DecideByVerdict(convert::VerdictOf(evaluation, criteria),
                                                           options.fail_on, criteria.error_limit);
  if (context.json()) {
    Json json = ToJson(evaluation);
    if (changes.has_value()) json["fileRows"] = ToJson(ToProto(*changes));
    if (decision.has_value()) json["gate"] = ToJson(decision->gate);
    PrintJson(json);
  } else {
    Print(DescribeEvaluation(evaluation));
    if (changes.has_value()) Print(Describe(*changes));
    if (decision.has_value()) Print("\n" + decision->sentence);
  }
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

absl::StatusOr<ExitCode> EvaluateServed(const Context& context, const EvaluateOptions& options,
                                        v1::EvaluateRequest request) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  request.set_model(ModelArgument(options.model));
  request.set_window(options.window);
  CALIBD_ASSIGN_OR_RETURN(const v1::Model model, client->GetModel(request.model()));
  if (model.has_forecast()) {
    return UsageFault(absl::StrCat(ShortName(model.name()),
                                   " forecasts a number: use `calibctl evaluate-forecasts --model ",
                                   options.model, "`"));
  }
  const std::vector<std::string> class_names(model.classes().names().begin(),
                                             model.classes().names().end());
  CALIBD_RETURN_IF_ERROR(AddActions(options, class_names, request));
  AddDiagrams(options, static_cast<std::size_t>(model.classes().count()), request);
  const auto declared = static_cast<std::size_t>(model.classes().lenses_size());
  CALIBD_RETURN_IF_ERROR(CheckGate(options, request, declared == 0 ? kDefaultLenses : 1 + declared,
                                   !model.monitoring().group_tag().empty()));
  CALIBD_ASSIGN_OR_RETURN(
      const v1::Evaluation evaluation,
      CallWithProgress(context, "evaluating", kTestTimeout, [&](const auto& long_call) {
        return client->Evaluate(request, long_call);
      }));
  return Report(
      context, options, evaluation, std::nullopt,
      {.error_limit = options.error_limit.value_or(ErrorLimitOf(model, kDefaultErrorLimit)),
       .significance_level = options.fail_on.significance_level});
}

// Announces an evaluation that takes long. batch: all rows.
void TellDurationOf(const PredictionBatch& batch, const offline::OfflineOptions& offline,
                    const std::stop_token& stop) {
  const auto options = EvaluationOptionsOf(offline, batch.class_count);
  // The evaluation says what is wrong with the options.
  if (!options.ok()) return;
  offline::OfflineOptions part = offline;
  part.groups.clear();
  const RunControl control = offline::ControlOf(part.threads, stop, nullptr);
  TellDuration({.rows = batch.size(),
                .seconds =
                    [&](std::size_t rows) {
                      return EvaluationSeconds(rows, batch.class_count, *options) / offline.threads;
                    },
                .measure =
                    [&](std::size_t rows) {
                      part.features.assign(
                          offline.features.begin(),
                          offline.features.begin() +
                              static_cast<std::ptrdiff_t>(rows * offline.feature_count));
                      return SecondsOf(
                          [&] { return EvaluateOffline(batch.rows(0, rows), part, control).ok(); });
                    }},
               "fewer --test-rows or --replicates");
}

absl::StatusOr<ExitCode> EvaluateFiles(const Context& context, const EvaluateOptions& options,
                                       const v1::EvaluateRequest& request) {
  if (const auto fault = FindUsageFault(options.input)) return UsageFault(*fault);
  const bool has_groups = !options.input.columns.group.empty();
  CALIBD_RETURN_IF_ERROR(CheckGate(options, request, kDefaultLenses, has_groups));
  CALIBD_ASSIGN_OR_RETURN(Input input, ReadObservations(options.input, options.row_sum_tolerance));
  SortByTime(input);
  if (input.labels.size() < 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        "not enough valid observations: ", input.labels.size(), ", at least 2 are needed"));
  }
  offline::OfflineOptions offline = options.offline;
  CALIBD_RETURN_IF_ERROR(
      ParseKernel(options.kernel, input.class_count, offline.kernel, offline.bandwidth));
  offline.request = request;
  CALIBD_RETURN_IF_ERROR(AddActions(options, input.class_names, offline.request));
  AddDiagrams(options, input.class_count, offline.request);
  offline.feature_count = input.features.size() / input.row_count;
  offline.features = std::move(input.features);
  offline.criteria = {.error_limit = options.error_limit.value_or(kDefaultErrorLimit),
                      .significance_level = options.fail_on.significance_level};
  offline.class_names = input.class_names;
  if (has_groups) offline.groups = std::move(input.groups);
  if (!options.seed.has_value()) offline.request.set_seed(std::random_device{}());
  const PredictionBatch batch{input.values, input.labels, input.class_count};
  TellDurationOf(batch, offline, context.stop);
  CALIBD_ASSIGN_OR_RETURN(
      v1::Evaluation evaluation,
      CallWithProgress(context, "evaluating", kTestTimeout, [&](const auto& progress) {
        return EvaluateOffline(
            batch, offline,
            offline::ControlOf(offline.threads, progress.stop, progress.on_progress));
      }));
  return Report(context, options, std::move(evaluation), input.changes, offline.criteria);
}

absl::StatusOr<ExitCode> Run(const Context& context, const EvaluateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const v1::EvaluateRequest request, OrUsageFault(MakeRequest(options)));
  if (options.model.empty()) return EvaluateFiles(context, options, request);
  if (!options.input.predictions.empty()) return UsageFault("give files or --model, not both");
  if (!options.input.features.empty()) return UsageFault("--features needs files, not --model");
  if (!options.input.columns.group.empty() || !options.input.columns.time.empty()) {
    return UsageFault("--group-column and --time-column need files, not --model");
  }
  for (const char* const limit : {"over-limit", "undecided"}) {
    if (!options.fail_on.Has(limit)) continue;
    return UsageFault(absl::StrCat("--fail-on ", limit,
                                   " would judge only the newest observations of the model: use "
                                   "`calibctl show ",
                                   options.model, " --fail-on ", limit,
                                   "`, which follows its verdict"));
  }
  return EvaluateServed(context, options, request);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<EvaluateOptions>(
      app, context, "evaluate",
      "Compute all estimates and tests for predictions in files (no server "
      "needed) or for a model's newest observations",
      Run);
  offline::OfflineOptions& offline = options->offline;
  offline.threads = std::max(1U, std::thread::hardware_concurrency());
  command->footer(
      "Examples: calibctl evaluate predictions.csv labels.csv --label-base 0\n"
      "          calibctl evaluate scored.csv --label-column species\n"
      "          calibctl evaluate positives.npy labels.npy --positive-class 1\n"
      "          calibctl evaluate scored.csv --label-column species --fail-on over-limit\n"
      "          calibctl evaluate --model resnet18\n"
      "The estimates of the SKCE, the binned errors and the scores equal those of a server that "
      "received the same rows in the same order with the same bandwidth. The verdict, the interval "
      "of the error and the tests are for one look at these rows, and differ from those of a "
      "server, which looks at every row.");
  AddInputOptions(*command, options->input);
  AddModelSource(*command, options->model, options->window,
                 "evaluate this model on the server, NAME or NAME@VERSION, instead of "
                 "files, with the model's kernel and block sizes");
  AddKernelOptions(*command, options->kernel);
  command
      ->add_option("--block-sizes", offline.block_sizes,
                   "sizes of the block estimators, 2..1000; default 2,10,100")
      ->delimiter(',')
      ->check(CLI::Range(2, 1000));
  command
      ->add_option(
          "--lens", options->lenses,
          absl::StrCat("further lenses besides the canonical one: ", Lens::Syntax(),
                       "; default: the lenses of the model, or top_label,class_wise for files"))
      ->delimiter(',');
  command
      ->add_option("--binned-errors", options->binned_errors,
                   absl::StrCat("ECE and MCE over these bins: ", kBinsSyntax,
                                "; default top_label:15,class_wise:15,uniform:10,"
                                "median_variance:100"))
      ->delimiter(',');
  command
      ->add_option("--replicates", options->replicates,
                   "replicates of the test of each lens, 99..100000, or 0 for no test; default "
                   "999")
      ->check(CLI::Range(99, 100000) | CLI::IsMember({0}));
  AddNullOption(*command, options->null);
  command
      ->add_option(
          "--test-rows", options->test_rows,
          "number of rows that the estimates and tests of lenses and the other simulated tests "
          "use. If there are more, they are drawn at random with --seed. The error with its "
          "interval, the scores, the diagrams, the block estimates and the groups use all rows; "
          "default 10000")
      ->check(CLI::Range(2, 1000000000));
  command
      ->add_option("--consistency-replicates", options->consistency_replicates,
                   "replicates of consistency resampling with the first binned error, 99..100000, "
                   "or 0 for none; default 999")
      ->check(CLI::Range(99, 100000) | CLI::IsMember({0}));
  command
      ->add_option(
          "--cme-locations", options->cme_test_locations,
          "test locations of the CME test of each lens, 1..256, or 0 for no CME test; default 10. "
          "Its p-value is simulated, so it needs --replicates")
      ->check(CLI::Range(0, 256));
  command
      ->add_option("--reliability-classes", options->reliability_classes,
                   "classes, counted from 0, whose reliability diagrams are shown besides that of "
                   "the top label")
      ->delimiter(',');
  command
      ->add_option("--band-level", options->band_level,
                   "level of the bands of reliability diagrams; default 0.9")
      ->check(CLI::Range(0.5, 0.999));
  command->add_option(
      "--actions", options->actions,
      "CSV file of the actions that the predictions decide between: in each line a "
      "name and the loss of this action for each class; compares what the decisions "
      "cost with what the predictions promise");
  command->add_option("--features", options->input.features,
                      "file of numbers that are known of each case, one row per prediction: CSV or "
                      "NumPy; tests whether similar cases are calibrated");
  AddReportOption(*command, options->report);
  AddFollowOption(*command, options->predictions_follow_labels);
  AddFloat32Option(*command, options->float32);
  AddSeedOption(*command, options->seed);
  AddThreadsOption(*command, offline.threads);
  command
      ->add_option("--row-sum-tolerance", options->row_sum_tolerance,
                   "a row is valid when |sum - 1| is at most this; default 0.001, and 5e-5 per "
                   "class above 20 classes")
      ->check(CLI::Range(1e-12, 0.1));
  AddEvaluationGate(*command, options->fail_on,
                    "the probability with which the tests of the verdict reject a calibrated "
                    "model: all lenses share it, and with --group-column the groups have half");
  command->get_option("--group-column")
      ->description("column or key with the group of each row: there is an answer for each group");
  command->get_option("--time-column")
      ->description(
          "column or key with the times of the predictions: RFC 3339, such as "
          "2026-01-31T12:30:00Z, or seconds since 1970; rows are put in their order");
  command
      ->add_option("--error-limit", options->error_limit,
                   "the acceptable error of the top label and, for two classes, also of the "
                   "probability of class 1; default: that of the model, or 0.02 for files")
      ->transform(ProbabilityRange(1e-4, 0.5));
}

}  // namespace calibd::cli
