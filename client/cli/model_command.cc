#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "command.h"
#include "kernel_option.h"
#include "lens_option.h"
#include "time_option.h"

namespace calibd::cli {
namespace {

// Fields of v1.Monitoring; 0 or empty: chosen by the server.
struct MonitoringOptions {
  bool disabled = false;
  double significance_level = 0;
  double average_run_length = 0;
  double tolerance = 0;
  std::string stale_after;
  std::string group_tag;
  std::int32_t max_groups = 0;
  std::int64_t min_observations = 0;
  std::int64_t min_group_observations = 0;
};

struct CreateOptions {
  std::string name;
  std::optional<std::int32_t> class_count;
  std::vector<std::string> class_names;
  KernelOptions kernel;
  std::optional<std::int32_t> warmup;
  std::vector<std::string> lenses;
  std::vector<std::int32_t> block_sizes;
  std::int32_t window = 0;
  double row_sum_tolerance = 0;
  std::string label_grace;
  std::int32_t max_pending = 0;
  MonitoringOptions monitoring;
};

absl::StatusOr<ExitCode> PrintModel(const Context& context,
                                    const absl::StatusOr<v1::Model>& model) {
  if (!model.ok()) return model.status();
  if (context.json()) {
    PrintJson(ToJson(*model));
  } else {
    Print(DescribeModels({*model}));
    for (int k = 0; k < model->class_names_size(); ++k) {
      Print(absl::StrCat(k == 0 ? "classes: " : ", ", model->class_names(k)));
    }
    if (model->class_names_size() > 0) Print("\n");
  }
  return ExitCode::kOk;
}

absl::Status ParseMonitoring(const MonitoringOptions& options, v1::Monitoring& monitoring) {
  monitoring.set_disabled(options.disabled);
  monitoring.set_significance_level(options.significance_level);
  monitoring.set_average_run_length(options.average_run_length);
  monitoring.set_tolerance(options.tolerance);
  if (!options.stale_after.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*monitoring.mutable_stale_after(),
                            OrUsageFault(ParseDuration(options.stale_after), "--stale-after: "));
  }
  monitoring.set_group_tag(options.group_tag);
  monitoring.set_max_groups(options.max_groups);
  monitoring.set_min_observations(options.min_observations);
  monitoring.set_min_group_observations(options.min_group_observations);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Create(const Context& context, const CreateOptions& options) {
  if (!options.class_count.has_value() && options.class_names.empty()) {
    return UsageFault("say how many classes the model has: --classes M or --class-names a,b,c");
  }
  v1::Model model;
  model.set_name(ModelArgument(options.name));
  if (options.class_count.has_value()) model.set_class_count(*options.class_count);
  for (const std::string& name : options.class_names) model.add_class_names(name);
  const std::size_t class_count = options.class_count.has_value()
                                      ? static_cast<std::size_t>(*options.class_count)
                                      : options.class_names.size();
  CALIBD_RETURN_IF_ERROR(ParseKernel(options.kernel, class_count, *model.mutable_kernel(),
                                     *model.mutable_bandwidth()));
  if (model.kernel().has_matrix()) model.clear_bandwidth();
  if (options.warmup.has_value()) {
    v1::BandwidthRule& rule = *model.mutable_bandwidth();
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
    if (!lens.has_canonical()) *model.add_lenses() = lens;
  }
  for (const std::int32_t size : options.block_sizes) model.add_block_sizes(size);
  model.set_window(options.window);
  model.set_row_sum_tolerance(options.row_sum_tolerance);
  if (!options.label_grace.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*model.mutable_label_grace(),
                            OrUsageFault(ParseDuration(options.label_grace), "--label-grace: "));
  }
  model.set_max_pending(options.max_pending);
  CALIBD_RETURN_IF_ERROR(ParseMonitoring(options.monitoring, *model.mutable_monitoring()));
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  return PrintModel(context, client->CreateModel(model));
}

absl::StatusOr<ExitCode> List(const Context& context) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto models, client->ListModels());
  if (context.json()) {
    Json json;
    json["models"] = Json::array();
    for (const v1::Model& model : models) json["models"].push_back(ToJson(model));
    PrintJson(json);
  } else {
    Print(DescribeModels(models));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Show(const Context& context, const std::string& name) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  return PrintModel(context, client->GetModel(ModelArgument(name)));
}

absl::StatusOr<ExitCode> Delete(const Context& context, const std::string& name) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string model = ModelArgument(name);
  CALIBD_RETURN_IF_ERROR(client->DeleteModel(model));
  if (context.json()) {
    PrintJson({{"deleted", model}});
  } else {
    Print(absl::StrCat("deleted ", model, "\n"));
  }
  return ExitCode::kOk;
}

void AddMonitoringOptions(CLI::App& command, MonitoringOptions& options) {
  const CLI::Range at_least_one(std::int64_t{1}, std::int64_t{1'000'000'000});
  const std::vector<CLI::Option*> watched = {
      command
          .add_option("--significance-level", options.significance_level,
                      "upper bound of the probability that a calibrated model ever raises the "
                      "evidence alarm; default 0.05")
          ->check(CLI::Range(1e-9, 0.25)),
      command
          .add_option("--average-run-length", options.average_run_length,
                      "a calibrated model raises on average at most one drift alarm in this many "
                      "predictions; default 1e6")
          ->check(CLI::Range(100.0, 1e12)),
      command
          .add_option("--tolerance", options.tolerance,
                      "errors of a probability up to this divided by the number of classes, such "
                      "as rounding errors, are not evidence; default 1e-5")
          ->check(CLI::Range(1e-9, 0.5)),
      command.add_option("--stale-after", options.stale_after,
                         "the verdict becomes stale when no observation is counted for this long, "
                         "e.g. 12h; default 1d, but at least twice the label grace"),
      command
          .add_option("--min-observations", options.min_observations,
                      "observations needed before the verdict can be NOT REJECTED; default 100")
          ->check(at_least_one),
      command.add_option("--group-tag", options.group_tag,
                         "the tag whose values form groups of predictions that are monitored "
                         "separately, e.g. region; see `calibctl send --groups`; default: none")};
  command
      .add_option("--max-groups", options.max_groups,
                  "number of values with a group of their own: the first ones to arrive; all other "
                  "values share one group; default 64")
      ->needs(watched.back())
      ->check(CLI::Range(1, 64));
  command
      .add_option(
          "--min-group-observations", options.min_group_observations,
          "observations needed before a group is tested; default: the value of --min-observations")
      ->needs(watched.back())
      ->check(at_least_one);
  CLI::Option* const none = command.add_flag(
      "--no-monitoring", options.disabled,
      "compute no evidence, verdict, alarms or groups, only estimates, history and tests");
  for (CLI::Option* const option : watched) none->excludes(option);
}

void AddCreate(CLI::App& model, Context& context) {
  auto options = std::make_shared<CreateOptions>();
  CLI::App* const command = model.add_subcommand(
      "create", "Create a model. Repeating the command with the same settings does nothing");
  command->footer(
      "Examples: calibctl model create resnet18 --classes 10\n"
      "          calibctl model create clicks --classes 2 --label-grace 7d\n"
      "          calibctl model create loans --classes 2 --group-tag region");
  command->add_option("NAME", options->name, "name, or NAME@VERSION")->required();
  CLI::Option* const classes =
      command->add_option("--classes", options->class_count, "number of classes, 2..100000");
  command
      ->add_option("--class-names", options->class_names,
                   "names of the classes in the order of the probabilities: a,b,c")
      ->delimiter(',')
      ->excludes(classes);
  AddKernelOptions(*command, options->kernel);
  command
      ->add_option(
          "--warmup", options->warmup,
          "number of first predictions from which the bandwidth is chosen; default: up to 500")
      ->check(CLI::Range(2, 1000000));
  command
      ->add_option("--lens", options->lenses,
                   absl::StrCat("further lenses besides the canonical one, at most 8: ",
                                kLensSyntax, "; default: none"))
      ->delimiter(',');
  command
      ->add_option(
          "--block-sizes", options->block_sizes,
          "sizes of the running block estimators, at most 4 values in 2..1000; default 2,100")
      ->delimiter(',')
      ->check(CLI::Range(2, 1000));
  command
      ->add_option("--window", options->window,
                   "newest observations kept for `calibctl test`; default 10000")
      ->check(CLI::Range(2, 1000000));
  command
      ->add_option("--row-sum-tolerance", options->row_sum_tolerance,
                   "a row is valid when |sum - 1| is at most this; default 0.001")
      ->check(CLI::Range(1e-12, 0.1));
  CLI::Option* const grace =
      command->add_option("--label-grace", options->label_grace,
                          "how long a prediction with an id waits for its label: a number and a "
                          "unit s, m, h or d, e.g. 90s, 1.5h, 7d. Choose it so that nearly all "
                          "labels arrive in time. Default: labels come with their predictions");
  command
      ->add_option("--max-pending", options->max_pending,
                   "maximum number of pending predictions; default 100000, or "
                   "fewer if these exceed the server's disk limit per model")
      ->needs(grace)
      ->check(CLI::Range(1, 10'000'000));
  AddMonitoringOptions(*command, options->monitoring);
  SetRun(*command, context, [options, &context] { return Create(context, *options); });
}

}  // namespace

void AddModelCommand(CLI::App& app, Context& context) {
  CLI::App* const model = app.add_subcommand("model", "Create, list, show and delete models");
  model->require_subcommand(1);
  AddCreate(*model, context);
  SetRun(*model->add_subcommand("list", "List the models"), context,
         [&context] { return List(context); });
  const auto add = [&](const char* name, const char* description, auto run) {
    auto argument = std::make_shared<std::string>();
    CLI::App* const command = model->add_subcommand(name, description);
    command->add_option("NAME", *argument, "name, or NAME@VERSION")->required();
    SetRun(*command, context, [argument, &context, run] { return run(context, *argument); });
  };
  add("show", "Show the settings of a model", Show);
  add("delete", "Delete a model and all its data", Delete);
}

}  // namespace calibd::cli
