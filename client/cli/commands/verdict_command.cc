#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/commands/terminal.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/color.h"
#include "client/cli/reports/history_report.h"
#include "client/cli/reports/list_report.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/verdict_report.h"

namespace calibd::cli {
namespace {

struct ListOptions {
  double false_discovery_rate = 0.05;
  bool wide = false;
  VerdictGate fail_on;
};

struct AcknowledgeOptions {
  std::string model;
  std::int64_t alarm = 0;
  std::string note;
  // 0: unchanged.
  double error_limit = 0;
};

absl::StatusOr<ExitCode> ListVerdicts(const Context& context, const ListOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto response, client->ListVerdicts(options.false_discovery_rate));
  std::vector<std::string> failures;
  std::string reasons;
  for (const auto& model : response.models()) {
    if (!model.has_verdict()) continue;
    const std::string name = ShortName(model.model());
    for (const std::string& what : FailuresOf(model.verdict(), model.error(), model.watch(),
                                              model.alarms(), options.fail_on)) {
      failures.push_back(absl::StrCat(what, " of ", name));
      if (what != kInsufficientData) continue;
      reasons += DescribeInsufficientData(name, options.fail_on, model.verdict(), model.error(),
                                          model.watch(), model.observations());
    }
  }
  if (context.json()) {
    Json json = ToJson(response);
    if (!options.fail_on.empty()) json["gate"] = ToJson(ToGate(options.fail_on, failures));
    PrintJson(json);
  } else {
    const auto size = options.wide ? std::nullopt : StandardOutputSize();
    const std::string text =
        size.has_value()
            ? DescribeVerdictsWithin(size->columns, response, options.false_discovery_rate)
            : DescribeVerdicts(response, options.false_discovery_rate);
    Print(HasColors() ? PaintStatuses(text) : text);
    if (!failures.empty()) Print(absl::StrCat("failed on ", absl::StrJoin(failures, ", "), "\n"));
    Print(reasons);
  }
  return failures.empty() ? ExitCode::kOk : ExitCode::kFailOn;
}

absl::StatusOr<ExitCode> ListAlarms(const Context& context, const std::string& model) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto response, client->GetCalibration(ModelArgument(model)));
  if (context.json()) {
    ModelAlarms alarms;
    alarms.set_model(response.model());
    *alarms.mutable_alarms() = response.alarms();
    PrintJson(ToJson(alarms));
  } else {
    const std::string text = DescribeAlarms(response.model(), response.alarms());
    Print(HasColors() ? PaintStatuses(text) : text);
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Acknowledge(const Context& context, const AcknowledgeOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string model = ModelArgument(options.model);
  v1::ModelUpdate update;
  if (options.error_limit > 0) {
    v1::UpdateModelRequest request;
    request.mutable_model()->set_name(model);
    request.mutable_model()->mutable_monitoring()->set_error_limit(options.error_limit);
    request.mutable_update_mask()->add_paths("monitoring.error_limit");
    CALIBD_ASSIGN_OR_RETURN(const auto updated, client->UpdateModel(request));
    update = updated.update();
    if (!context.json() && !update.changes().empty()) {
      Print(absl::StrCat("updated ", model, ": ", DescribeUpdate(update), "\n"));
    }
  }
  CALIBD_ASSIGN_OR_RETURN(const auto response,
                          client->AcknowledgeAlarm(model, options.alarm, options.note));
  if (context.json()) {
    Acknowledgement acknowledgement;
    acknowledgement.set_model(model);
    *acknowledgement.mutable_alarm() = response.alarm();
    acknowledgement.set_effect(response.effect());
    *acknowledgement.mutable_reading() = response.reading();
    if (options.error_limit > 0) *acknowledgement.mutable_update() = update;
    PrintJson(ToJson(acknowledgement));
  } else {
    const std::string text = DescribeAcknowledged(model, response);
    Print(HasColors() ? PaintStatuses(text) : text);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddVerdictCommands(CLI::App& app, Context& context) {
  const auto [list, list_options] =
      AddCommand(app, context, "list",
                 "Show the verdicts of all models, and the models that e-BH rejects (e-BH is the "
                 "Benjamini-Hochberg procedure for e-values: it allows for the number of models)",
                 ListVerdicts);
  list->add_option("--false-discovery-rate", list_options->false_discovery_rate,
                   "level of e-BH over all models: the expected share of calibrated models among "
                   "the rejected ones; default 0.05")
      ->transform(ProbabilityRange(1e-9, 0.25));
  list->add_flag("--wide", list_options->wide,
                 "show each model in one line with all columns, as in a file or a pipe; default: a "
                 "table as wide as the terminal");
  AddVerdictGate(*list, list_options->fail_on);

  const auto [alarms, model] =
      AddCommand(app, context, "alarms", "Show a model's alarms, newest first", ListAlarms);
  AddModelArgument(*alarms, *model);

  const auto [command, options] = AddCommand(
      app, context, "acknowledge",
      "Acknowledge an alarm. Restarts the error interval, the evidence or the drift detectors, "
      "depending on its kind",
      Acknowledge);
  command->footer("Example: calibctl acknowledge resnet18 1 --note \"recalibrated, T = 1.7\"");
  AddModelArgument(*command, options->model);
  command->add_option("ALARM", options->alarm, "number of the alarm, as shown by `calibctl alarms`")
      ->required()
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--error-limit", options->error_limit,
          "first set the model's error limit, as `calibctl model update` does. Until the "
          "error is within it, the next alarm OVER_LIMIT is raised above this limit or the "
          "upper end of the interval at the acknowledgement, whichever is larger")
      ->transform(ProbabilityRange(1e-4, 0.5));
  command->add_option(
      "--note", options->note,
      "a note of at most 500 bytes that is kept with the alarm, such as what was done and by whom");
}

}  // namespace calibd::cli
