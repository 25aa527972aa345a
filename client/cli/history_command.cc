#include <memory>
#include <string>

#include "command.h"
#include "google/protobuf/util/time_util.h"
#include "history_report.h"
#include "time_option.h"

namespace calibd::cli {
namespace {

struct HistoryOptions {
  std::string model;
  std::string resolution = "hour";
  std::string from;
  std::string to;
  bool csv = false;
};

v1::GetHistoryRequest::Resolution ResolutionOf(const std::string& name) {
  if (name == "minute") return v1::GetHistoryRequest::RESOLUTION_MINUTE;
  if (name == "day") return v1::GetHistoryRequest::RESOLUTION_DAY;
  return v1::GetHistoryRequest::RESOLUTION_HOUR;
}

ExitCode Run(const Context& context, const HistoryOptions& options) {
  v1::GetHistoryRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_resolution(ResolutionOf(options.resolution));
  const auto now = google::protobuf::util::TimeUtil::GetCurrentTime();
  if (!options.from.empty()) {
    const auto from = ParseTime(options.from, now);
    if (!from.ok()) return UsageFault("--from: " + std::string(from.status().message()));
    *request.mutable_start_time() = *from;
  }
  if (!options.to.empty()) {
    const auto to = ParseTime(options.to, now);
    if (!to.ok()) return UsageFault("--to: " + std::string(to.status().message()));
    *request.mutable_end_time() = *to;
  }
  if (options.csv && context.json()) return UsageFault("--csv excludes --output json");
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  const auto history = (*client)->GetHistory(request);
  if (!history.ok()) return Fail(history.status());
  if (context.json()) {
    const Json found = ToJson(*history);
    Json json;
    json["model"] = request.model();
    json["resolution"] = options.resolution;
    json["buckets"] = found.at("buckets");
    json["total"] = found.at("total");
    PrintJson(json);
  } else {
    Print(options.csv ? HistoryCsv(*history) : DescribeHistory(*history));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddHistoryCommand(CLI::App& app, Context& context) {
  auto options = std::make_shared<HistoryOptions>();
  CLI::App* const command = app.add_subcommand("history", "Show a model's calibration over time");
  command->footer(
      "Minutes are kept for 2 days, hours for 60 days, days for 1000 days.\n"
      "Examples: calibctl history resnet18 --from 7d\n"
      "          calibctl history resnet18 --resolution day --csv > days.csv");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION")->required();
  command->add_option("--resolution", options->resolution, "minute, hour or day; default hour")
      ->check(CLI::IsMember({"minute", "hour", "day"}));
  command->add_option("--from", options->from,
                      "a time such as 2026-01-31 or 2026-01-31T12:30:00Z, or how long ago, such as "
                      "7d; default: all");
  command->add_option(
      "--to", options->to,
      "as --from; buckets that begin at or after this time are left out; default: now");
  command->add_flag("--csv", options->csv, "print comma-separated values");
  command->callback([options, &context] { context.exit_code = Run(context, *options); });
}

}  // namespace calibd::cli
