#include <memory>

#include "command.h"
#include "verdict_report.h"

namespace calibd::cli {
namespace {

struct ListOptions {
  double false_discovery_rate = 0.05;
};

struct AcknowledgeOptions {
  std::string model;
  std::int64_t alarm = 0;
  std::string note;
};

ExitCode ListVerdicts(const Context& context, const ListOptions& options) {
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  const auto response = (*client)->ListVerdicts(options.false_discovery_rate);
  if (!response.ok()) return Fail(response.status());
  if (context.json()) {
    Json json = ToJson(*response);
    json.erase("next_page_token");
    PrintJson(json);
  } else {
    Print(DescribeVerdicts(*response, options.false_discovery_rate));
  }
  return ExitCode::kOk;
}

ExitCode ListAlarms(const Context& context, const std::string& model) {
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  const auto response = (*client)->GetCalibration(ModelArgument(model));
  if (!response.ok()) return Fail(response.status());
  if (context.json()) {
    const Json all = ToJson(*response);
    Json json;
    json["model"] = all["model"];
    json["alarms"] = all["alarms"];
    PrintJson(json);
  } else {
    Print(DescribeAlarms(response->model(), response->alarms()));
  }
  return ExitCode::kOk;
}

ExitCode Acknowledge(const Context& context, const AcknowledgeOptions& options) {
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  const std::string model = ModelArgument(options.model);
  const auto alarm = (*client)->AcknowledgeAlarm(model, options.alarm, options.note);
  if (!alarm.ok()) return Fail(alarm.status());
  if (context.json()) {
    Json json;
    json["model"] = model;
    json["alarm"] = ToJson(*alarm);
    PrintJson(json);
  } else {
    Print(DescribeAcknowledged(model, *alarm));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddVerdictCommands(CLI::App& app, Context& context) {
  auto list = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand(
      "list", "Show the verdicts of all models, and the models that e-BH rejects");
  command
      ->add_option("--false-discovery-rate", list->false_discovery_rate,
                   "level of e-BH over all models: the expected share of calibrated models among "
                   "the rejected ones; default 0.05")
      ->check(CLI::Range(1e-9, 0.25));
  command->callback([list, &context] { context.exit_code = ListVerdicts(context, *list); });

  auto model = std::make_shared<std::string>();
  command = app.add_subcommand("alarms", "Show a model's alarms, newest first");
  command->add_option("MODEL", *model, "name, or NAME@VERSION")->required();
  command->callback([model, &context] { context.exit_code = ListAlarms(context, *model); });

  auto acknowledge = std::make_shared<AcknowledgeOptions>();
  command = app.add_subcommand("acknowledge",
                               "Acknowledge an alarm. After an evidence alarm the watch restarts, "
                               "after a drift alarm the drift detectors restart");
  command->footer("Example: calibctl acknowledge resnet18 1 --note \"recalibrated, T = 1.7\"");
  command->add_option("MODEL", acknowledge->model, "name, or NAME@VERSION")->required();
  command
      ->add_option("ALARM", acknowledge->alarm,
                   "number of the alarm, as shown by `calibctl alarms`")
      ->required()
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--note", acknowledge->note,
      "a note of at most 500 bytes that is kept with the alarm, such as what was done and by whom");
  command->callback(
      [acknowledge, &context] { context.exit_code = Acknowledge(context, *acknowledge); });
}

}  // namespace calibd::cli
