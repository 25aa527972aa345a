#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/lens.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/kernel_option.h"
#include "client/cli/commands/lens_option.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/history_report.h"

namespace calibd::cli {
namespace {

// Time between two looks for Ctrl-C.
constexpr int kStopCheckMs = 100;

struct ModelOptions {
  // The fields that options set directly. 0: chosen by the server.
  v1::Model model;
  v1::Classes classes;
  std::string name;
  std::optional<std::int32_t> class_count;
  std::vector<std::string> class_names;
  KernelOptions kernel;
  std::optional<std::int32_t> warmup;
  std::vector<std::string> lenses;
  std::vector<std::int32_t> block_sizes;
  // The names of several labels.
  std::vector<std::string> labels;
  // "normal", "quantiles" or "samples", with what these need.
  std::string forecast;
  std::vector<double> levels;
  std::optional<std::int32_t> draws;
  // Set: a decision is declared.
  std::optional<double> decision_threshold;
  v1::ThresholdDecision decision;
  // The options that only a model of classes has.
  std::vector<CLI::Option*> of_classes;
  std::string label_grace;
  // The fields that `model update` changes.
  google::protobuf::FieldMask mask;
  bool no_monitoring = false;
  std::string stale_after;
  std::string group_tag;
};

// Adds an option that sets a number in a message, which outlives the command.
template <typename Message, typename Value>
CLI::Option* AddNumber(CLI::App& command, const char* name, Message& message,
                       void (Message::*set)(Value), const std::string& help) {
  return command.add_option_function<Value>(
      name, [&message, set](const Value& value) { (message.*set)(value); }, help);
}

absl::StatusOr<ExitCode> PrintModel(const Context& context,
                                    const absl::StatusOr<v1::Model>& model) {
  if (!model.ok()) return model.status();
  if (context.json()) {
    PrintJson(ToJson(*model));
  } else {
    Print(DescribeModel(*model));
  }
  return ExitCode::kOk;
}

// Returns the name and the fields that can be updated.
absl::StatusOr<v1::Model> Settings(const ModelOptions& options) {
  v1::Model model = options.model;
  model.set_name(ModelArgument(options.name));
  if (!options.label_grace.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*model.mutable_label_grace(),
                            OrUsageFault(ParseDuration(options.label_grace), "--label-grace: "));
  }
  if (!options.stale_after.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*model.mutable_monitoring()->mutable_stale_after(),
                            OrUsageFault(ParseDuration(options.stale_after), "--stale-after: "));
  }
  return model;
}

// kind: the option that declares another kind than classes. Errors: a usage fault.
absl::Status CheckNoClassOption(const ModelOptions& options, const char* kind) {
  for (const CLI::Option* const option : options.of_classes) {
    if (option->count() == 0) continue;
    return UsageFault(
        absl::StrCat(option->get_name(), " is for models of classes, not for ", kind));
  }
  return absl::OkStatus();
}

// Sets the names of several labels. Errors: a usage fault.
absl::Status SetLabels(const ModelOptions& options, v1::Model& model) {
  CALIBD_RETURN_IF_ERROR(CheckNoClassOption(options, "--labels"));
  if (!options.forecast.empty()) {
    return UsageFault("--labels and --forecast declare different kinds of models");
  }
  model.mutable_labels()->mutable_names()->Add(options.labels.begin(), options.labels.end());
  return absl::OkStatus();
}

// Sets how the model forecasts a number, and its decision. Errors: a usage fault.
absl::Status SetForecast(const ModelOptions& options, v1::Model& model) {
  v1::Forecast& forecast = *model.mutable_forecast();
  CALIBD_RETURN_IF_ERROR(CheckNoClassOption(options, "--forecast"));
  if (options.levels.empty() == (options.forecast == "quantiles")) {
    return UsageFault("--forecast quantiles and --levels need each other, e.g. --levels .1,.5,.9");
  }
  if (options.draws.has_value() != (options.forecast == "samples")) {
    return UsageFault("--forecast samples and --draws need each other, e.g. --draws 100");
  }
  if (options.forecast == "normal") forecast.mutable_normal();
  if (options.draws.has_value()) forecast.mutable_samples()->set_draws(*options.draws);
  if (!options.levels.empty()) {
    forecast.mutable_quantiles()->mutable_levels()->Add(options.levels.begin(),
                                                        options.levels.end());
  }
  if (options.decision_threshold.has_value()) {
    *forecast.mutable_decision() = options.decision;
    forecast.mutable_decision()->set_threshold(*options.decision_threshold);
  }
  return absl::OkStatus();
}

// Sets the fields that describe classes. Errors: a usage fault.
absl::Status SetClasses(const ModelOptions& options, v1::Model& model) {
  if (!options.class_count.has_value() && options.class_names.empty()) {
    return UsageFault(
        "say how many classes the model has: --classes M or --class-names a,b,c; or how it "
        "forecasts a number: --forecast normal, quantiles or samples; or which labels it "
        "predicts: --labels a,b,c");
  }
  v1::Classes& classes = *model.mutable_classes();
  classes = options.classes;
  if (options.class_count.has_value()) classes.set_count(*options.class_count);
  for (const std::string& name : options.class_names) classes.add_names(name);
  const std::size_t class_count = options.class_count.has_value()
                                      ? static_cast<std::size_t>(*options.class_count)
                                      : options.class_names.size();
  CALIBD_RETURN_IF_ERROR(ParseKernel(options.kernel, class_count, *classes.mutable_kernel(),
                                     *classes.mutable_bandwidth()));
  if (classes.kernel().has_matrix()) classes.clear_bandwidth();
  if (options.warmup.has_value()) {
    v1::BandwidthRule& rule = *classes.mutable_bandwidth();
    if (rule.has_median_off_diagonal()) {
      rule.mutable_median_off_diagonal()->set_warmup(*options.warmup);
    } else if (rule.has_median()) {
      rule.mutable_median()->set_warmup(*options.warmup);
    } else {
      return UsageFault("--warmup requires the bandwidth rule median or median_off_diagonal");
    }
  }
  for (const std::string& text : options.lenses) {
    CALIBD_ASSIGN_OR_RETURN(const v1::Lens lens, OrUsageFault(ParseLens(text)));
    if (!lens.has_canonical()) *classes.add_lenses() = lens;
  }
  for (const std::int32_t size : options.block_sizes) classes.add_block_sizes(size);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Create(const Context& context, const ModelOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(v1::Model model, Settings(options));
  CALIBD_RETURN_IF_ERROR(!options.labels.empty()    ? SetLabels(options, model)
                         : options.forecast.empty() ? SetClasses(options, model)
                                                    : SetForecast(options, model));
  v1::Monitoring& monitoring = *model.mutable_monitoring();
  monitoring.set_disabled(options.no_monitoring);
  monitoring.set_group_tag(options.group_tag);
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  return PrintModel(context, client->CreateModel(model));
}

// The options of `model update`, and the fields that they change.
constexpr std::pair<const char*, const char*> kUpdatable[] = {
    {"--average-run-length", "monitoring.average_run_length"},
    {"--description", "description"},
    {"--error-limit", "monitoring.error_limit"},
    {"--inference-output", "inference_output.name"},
    {"--inference-baseline", "inference_output.baseline_name"},
    {"--inference-transform", "inference_output.transform"},
    {"--label-grace", "label_grace"},
    {"--max-pending", "max_pending"},
    {"--reference-rows", "monitoring.reference_rows"},
    {"--row-sum-tolerance", "classes.row_sum_tolerance"},
    {"--significance-level", "monitoring.significance_level"},
    {"--stale-after", "monitoring.stale_after"},
    {"--tolerance", "monitoring.tolerance"},
};

absl::StatusOr<ExitCode> Update(const Context& context, const ModelOptions& options) {
  if (options.mask.paths().empty()) {
    return UsageFault("say what to change, for example --description or --tolerance");
  }
  v1::UpdateModelRequest request;
  CALIBD_ASSIGN_OR_RETURN(*request.mutable_model(), Settings(options));
  if (options.classes.ByteSizeLong() > 0) {
    *request.mutable_model()->mutable_classes() = options.classes;
  }
  *request.mutable_update_mask() = options.mask;
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const v1::UpdateModelResponse response, client->UpdateModel(request));
  if (context.json()) {
    PrintJson(ToJson(response));
  } else {
    const v1::ModelUpdate& update = response.update();
    Print(update.changes().empty() ? "nothing changes: these values are in force already\n"
                                   : absl::StrCat("updated ", request.model().name(), ": ",
                                                  DescribeUpdate(update), "\n"));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> List(const Context& context) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto models, client->ListModels());
  if (context.json()) {
    v1::ListModelsResponse response;
    response.mutable_models()->Add(models.begin(), models.end());
    PrintJson(ToJson(response));
  } else {
    Print(DescribeModels(models));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Show(const Context& context, const std::string& name) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  return PrintModel(context, client->GetModel(ModelArgument(name)));
}

struct DeleteOptions {
  std::string name;
  std::string confirm;
};

// Returns the name that the user types again, without spaces around it. Errors: a usage fault if
// standard input is no terminal; Cancelled after Ctrl-C.
absl::StatusOr<std::string> AskForName(const Context& context, const std::string& name) {
  if (isatty(STDIN_FILENO) == 0) {
    return UsageFault(absl::StrCat(
        "a model cannot be restored after its deletion: confirm it with --confirm ", name));
  }
  std::cerr << name << " cannot be restored after its deletion. Type its name again to delete it: "
            << std::flush;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!context.stop.stop_requested()) {
    if (poll(&input, 1, kStopCheckMs) <= 0) continue;
    std::string line;
    std::getline(std::cin, line);
    return std::string(absl::StripAsciiWhitespace(line));
  }
  return absl::CancelledError("the model was not deleted");
}

absl::StatusOr<ExitCode> Delete(const Context& context, const DeleteOptions& options) {
  std::string confirmation = options.confirm;
  if (confirmation.empty()) {
    CALIBD_ASSIGN_OR_RETURN(confirmation, AskForName(context, options.name));
  }
  const std::string model = ModelArgument(options.name);
  if (ModelArgument(confirmation) != model) {
    return UsageFault(absl::StrCat(options.confirm.empty() ? "the typed name" : "--confirm", " is ",
                                   confirmation,
                                   ", expected the name of the model again: ", options.name));
  }
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_RETURN_IF_ERROR(client->DeleteModel(model, model));
  if (context.json()) {
    DeletedModel deletion;
    deletion.set_deleted(model);
    PrintJson(ToJson(deletion));
  } else {
    Print(absl::StrCat("deleted ", model, "\n"));
  }
  return ExitCode::kOk;
}

// Options of `model create` and `model update`. Returns those of the monitoring. with_defaults:
// whether an option that is left out has a default, as in `model create`.
std::vector<CLI::Option*> AddSettings(CLI::App& command, ModelOptions& options,
                                      bool with_defaults) {
  using v1::Monitoring;
  const auto help = [&](const char* text, const char* otherwise) {
    return absl::StrCat(text, with_defaults ? "; default: " : "", with_defaults ? otherwise : "");
  };
  AddNumber(command, "--row-sum-tolerance", options.classes, &v1::Classes::set_row_sum_tolerance,
            help("a row is valid when |sum - 1| is at most this",
                 "0.001, and 5e-5 per class above 20 classes"))
      ->transform(ProbabilityRange(1e-12, 0.1));
  command.add_option("--label-grace", options.label_grace,
                     help("how long a prediction with an id waits for its label: a number and a "
                          "unit s, m, h or d, e.g. 90s, 1.5h, 7d. Choose it so that nearly all "
                          "labels arrive in time",
                          "labels come with their predictions"));
  AddNumber(command, "--max-pending", options.model, &v1::Model::set_max_pending,
            help("maximum number of pending predictions",
                 "100000, or fewer if these exceed the server's disk limit per model"))
      ->check(CLI::Range(1, 10'000'000));
  command.add_option_function<std::string>(
      "--description", [&options](const std::string& text) { options.model.set_description(text); },
      "one line of text for people");
  command.add_option_function<std::string>(
      "--inference-output",
      [&options](const std::string& name) {
        options.model.mutable_inference_output()->set_name(name);
      },
      help("the output of a model server that contains the predictions, for POST :inference",
           "its only one"));
  command.add_option_function<std::string>(
      "--inference-baseline",
      [&options](const std::string& name) {
        options.model.mutable_inference_output()->set_baseline_name(name);
      },
      help("the output that contains the predictions of the baseline", "none"));
  command
      .add_option_function<std::string>(
          "--inference-transform",
          [&options](const std::string& name) {
            v1::InferenceOutput::Transform transform{};
            v1::InferenceOutput::Transform_Parse(absl::AsciiStrToUpper(name), &transform);
            options.model.mutable_inference_output()->set_transform(transform);
          },
          help("what turns the values of this output into probabilities", "none"))
      ->check(CLI::IsMember({"none", "softmax", "sigmoid"}));
  Monitoring& monitoring = *options.model.mutable_monitoring();
  return {
      AddNumber(command, "--significance-level", monitoring, &Monitoring::set_significance_level,
                help("upper bound of the probability that a calibrated model ever raises the "
                     "evidence alarm",
                     "0.05"))
          ->transform(ProbabilityRange(1e-9, 0.25)),
      AddNumber(command, "--average-run-length", monitoring, &Monitoring::set_average_run_length,
                help("a calibrated model raises on average at most one drift alarm in this many "
                     "predictions",
                     "1e6"))
          ->check(CLI::Range(100.0, 1e12)),
      AddNumber(command, "--tolerance", monitoring, &Monitoring::set_tolerance,
                help("errors of a probability up to this divided by the number of classes, such "
                     "as rounding errors, are not evidence",
                     "1e-5"))
          ->transform(ProbabilityRange(1e-9, 0.5)),
      AddNumber(command, "--error-limit", monitoring, &Monitoring::set_error_limit,
                help("acceptable calibration error, as a probability or a percentage; the alarm "
                     "OVER_LIMIT is raised above it",
                     "0.02, which is 2 %; for forecasts 0.05"))
          ->transform(ProbabilityRange(1e-4, 0.5)),
      AddNumber(command, "--reference-rows", monitoring, &Monitoring::set_reference_rows,
                help("the first so many rows, 1000 to 1000000, are a reference, and an alarm is "
                     "raised when the error is no longer what it was in them; 3000 suits most "
                     "models, and 0 is none; an update begins a new reference",
                     "0"))
          ->check(CLI::Range(0, 1000000)),
      command.add_option("--stale-after", options.stale_after,
                         help("the verdict becomes stale when no observation is counted for this "
                              "long, e.g. 12h",
                              "1d, but at least twice the label grace"))};
}

void AddCreateOptions(CLI::App& command, ModelOptions& options) {
  using v1::Monitoring;
  Monitoring& monitoring = *options.model.mutable_monitoring();
  const CLI::Range at_least_one(std::int64_t{1}, std::int64_t{1'000'000'000});
  std::vector<CLI::Option*> watched = AddSettings(command, options, true);
  command.get_option("--max-pending")->needs(command.get_option("--label-grace"));
  command
      .add_flag_callback(
          "--labels-come-with-predictions",
          [&options] { options.model.set_labels_come_with_predictions(true); },
          "count predictions with ids at once: all of them come with their labels, and the ids "
          "only identify duplicates")
      ->needs(command.get_option("--label-grace"));
  command.add_option_function<std::string>(
      "--baseline", [&options](const std::string& name) { options.classes.set_baseline(name); },
      "compare the model with a baseline all the time: each batch then holds the predictions of "
      "both, see `calibctl send --baseline-probabilities`. The text, e.g. 3 for version 3, names "
      "the "
      "baseline for people; default: none");
  command
      .add_option_function<std::vector<std::string>>(
          "--feature-names",
          [&options](const std::vector<std::string>& names) {
            options.model.mutable_feature_names()->Add(names.begin(), names.end());
          },
          "numbers that are known of each case, such as temperature,hour, at most 256: each batch "
          "then holds them, see `calibctl send --features`, and evaluations test whether similar "
          "cases are calibrated; default: none")
      ->delimiter(',')
      ->allow_extra_args(false);
  watched.push_back(
      AddNumber(command, "--min-observations", monitoring, &Monitoring::set_min_observations,
                "labelled predictions needed before a verdict and an alarm; default 100")
          ->check(at_least_one));
  watched.push_back(
      command.add_option("--group-tag", options.group_tag,
                         "the tag whose values form groups of predictions that are monitored "
                         "separately, e.g. region; see `calibctl send --groups`; default: none"));
  AddNumber(command, "--max-groups", monitoring, &Monitoring::set_max_groups,
            "number of values with a group of their own: the first ones to arrive; all other "
            "values share one group; default 64")
      ->needs(watched.back())
      ->check(CLI::Range(1, 64));
  AddNumber(
      command, "--min-group-observations", monitoring, &Monitoring::set_min_group_observations,
      "observations needed before a group is tested; default: the value of --min-observations")
      ->needs(watched.back())
      ->check(at_least_one);
  CLI::Option* const none = command.add_flag(
      "--no-monitoring", options.no_monitoring,
      "compute no evidence, verdict, alarms or groups, only estimates, history and tests");
  for (CLI::Option* const option : watched) none->excludes(option);
}

void AddCreate(CLI::App& model, Context& context) {
  const auto [command, options] = AddCommand(
      model, context, "create",
      "Create a model. Repeating the command with the same settings does nothing", Create);
  command->footer(
      "Examples: calibctl model create resnet18 --classes 10\n"
      "          calibctl model create clicks --classes 2 --label-grace 7d\n"
      "          calibctl model create loans --classes 2 --group-tag region\n"
      "          calibctl model create demand --forecast normal\n"
      "          calibctl model create delays --forecast quantiles --levels .05,.5,.95\n"
      "          calibctl model create topics --labels politics,sports,science");
  command->add_option("NAME", options->name, "name, or NAME@VERSION")->required();
  CLI::Option* const classes =
      command->add_option("--classes", options->class_count, "number of classes, 2..100000");
  command
      ->add_option("--class-names", options->class_names,
                   "names of the classes in the order of the probabilities: a,b,c")
      ->delimiter(',')
      ->excludes(classes);
  command
      ->add_option("--labels", options->labels,
                   "names of several labels that do not exclude each other, in the order of the "
                   "probabilities: a,b,c; each label has a limit of its own")
      ->delimiter(',')
      ->excludes(classes);
  command
      ->add_option("--forecast", options->forecast,
                   "the model forecasts a number instead of classes: normal (mean and standard "
                   "deviation), quantiles (at --levels) or samples (--draws)")
      ->check(CLI::IsMember({"normal", "quantiles", "samples"}));
  command
      ->add_option("--levels", options->levels,
                   "levels of the quantiles, ascending in (0, 1), at most 63: .05,.5,.95")
      ->delimiter(',');
  command
      ->add_option("--draws", options->draws,
                   "number of draws of each forecast by samples, 2..1000")
      ->check(CLI::Range(2, 1000));
  CLI::Option* const decision = command->add_option(
      "--decision-threshold", options->decision_threshold,
      "the forecasts decide whether the outcome will reach this value; show compares what these "
      "decisions cost with what the forecasts promise (normal and samples)");
  decision->needs("--forecast");
  // Also refuses NaN.
  const CLI::Validator above_zero(
      [](const std::string& text) {
        double value = 0;
        return absl::SimpleAtod(text, &value) && value > 0
                   ? std::string()
                   : "is " + text + ", expected more than 0";
      },
      "> 0");
  AddNumber<v1::ThresholdDecision, double>(
      *command, "--false-alarm-cost", options->decision,
      &v1::ThresholdDecision::set_false_alarm_cost,
      "cost of deciding that it does although it does not; default: 1")
      ->needs(decision)
      ->check(above_zero);
  AddNumber<v1::ThresholdDecision, double>(
      *command, "--miss-cost", options->decision, &v1::ThresholdDecision::set_miss_cost,
      "cost of deciding that it does not although it does; default: 1")
      ->needs(decision)
      ->check(above_zero);
  const std::vector<CLI::Option*> before = command->get_options();
  AddKernelOptions(*command, options->kernel);
  command
      ->add_option(
          "--warmup", options->warmup,
          "number of first predictions from which the bandwidth is chosen; default: up to 500")
      ->check(CLI::Range(2, 1000000));
  command
      ->add_option("--lens", options->lenses,
                   absl::StrCat("further lenses besides the canonical one, at most 8: ",
                                Lens::Syntax(), "; default: none"))
      ->delimiter(',');
  command
      ->add_option(
          "--block-sizes", options->block_sizes,
          "sizes of the running block estimators, at most 4 values in 2..1000; default 2,100")
      ->delimiter(',')
      ->check(CLI::Range(2, 1000));
  for (CLI::Option* const option : command->get_options()) {
    if (std::ranges::find(before, option) == before.end()) options->of_classes.push_back(option);
  }
  AddNumber(*command, "--window", options->model, &v1::Model::set_window,
            "newest observations kept for `calibctl test`; default 10000")
      ->check(CLI::Range(2, 1000000));
  AddCreateOptions(*command, *options);
  for (const char* const name : {"--classes", "--class-names", "--row-sum-tolerance", "--baseline",
                                 "--inference-baseline", "--inference-transform"}) {
    options->of_classes.push_back(command->get_option(name));
  }
}

void AddUpdate(CLI::App& model, Context& context) {
  const auto [command, options] = AddCommand(
      model, context, "update",
      "Change settings of a model without deleting its data. A new significance level or "
      "tolerance begins the evidence anew; a new average run length restarts the drift detectors",
      Update);
  command->footer(
      "A setting whose option is left out keeps its value.\n"
      "Example: calibctl model update resnet18 --tolerance 1e-3 --stale-after 12h");
  command->add_option("MODEL", options->name, "name, or NAME@VERSION")->required();
  AddSettings(*command, *options, false);
  command->parse_complete_callback([command = command, options = options] {
    for (const auto& [option, path] : kUpdatable) {
      if (command->count(option) > 0) options->mask.add_paths(path);
    }
  });
}

}  // namespace

void AddModelCommand(CLI::App& app, Context& context) {
  CLI::App* const model =
      app.add_subcommand("model", "Create, update, list, show and delete models");
  RequireCommand(*model, context);
  AddCreate(*model, context);
  AddUpdate(*model, context);
  SetRun(*model->add_subcommand("list", "List the models"), context,
         [&context] { return List(context); });
  const auto add = [&](const char* name, const char* description, auto run) {
    const auto [command, argument] =
        AddCommand<std::string>(*model, context, name, description, run);
    command->add_option("MODEL", *argument, "name, or NAME@VERSION")->required();
  };
  add("show", "Show the settings of a model", Show);
  const auto [deletion, options] =
      AddCommand(*model, context, "delete", "Delete a model and all its data", Delete);
  deletion->add_option("MODEL", options->name, "name, or NAME@VERSION")->required();
  deletion->add_option("--confirm", options->confirm,
                       "the name again, because a model cannot be restored after its deletion; "
                       "without it, the command asks for the name on a terminal");
}

}  // namespace calibd::cli
