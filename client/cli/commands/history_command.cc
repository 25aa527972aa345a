#include <string>
#include <vector>

#include "client/cli/commands/command.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/reports/history_report.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

struct HistoryOptions {
  std::string model;
  std::string resolution = "hour";
  std::string from;
  std::string to;
  std::vector<std::string> labels;
  bool csv = false;
  bool verbose = false;
};

v1::GetHistoryRequest::Resolution ResolutionOf(const std::string& name) {
  if (name == "minute") return v1::GetHistoryRequest::MINUTE;
  if (name == "day") return v1::GetHistoryRequest::DAY;
  return v1::GetHistoryRequest::HOUR;
}

absl::StatusOr<ExitCode> Run(const Context& context, const HistoryOptions& options) {
  v1::GetHistoryRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_resolution(ResolutionOf(options.resolution));
  const auto now = google::protobuf::util::TimeUtil::GetCurrentTime();
  if (!options.from.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*request.mutable_start_time(),
                            OrUsageFault(ParseTime(options.from, now), "--from: "));
  }
  if (!options.to.empty()) {
    CALIBD_ASSIGN_OR_RETURN(*request.mutable_end_time(),
                            OrUsageFault(ParseTime(options.to, now), "--to: "));
  }
  request.mutable_labels()->Add(options.labels.begin(), options.labels.end());
  if (options.csv && context.json()) return UsageFault("--csv excludes --output json");
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto history, client->GetHistory(request));
  if (context.json()) {
    PrintJson(ToJson(history));
  } else {
    Print(options.csv ? HistoryCsv(history)
                      : DescribeHistory(history, options.verbose, options.labels));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddHistoryCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<HistoryOptions>(
      app, context, "history", "Show how far off a model was over time", Run);
  command->footer(
      "Minutes are kept for 2 days, hours for 60 days, days for 1000 days.\n"
      "Examples: calibctl history resnet18 --from 7d\n"
      "          calibctl history resnet18 --resolution day --csv > days.csv");
  AddModelArgument(*command, options->model);
  command->add_option("--resolution", options->resolution, "minute, hour or day; default hour")
      ->check(CLI::IsMember({"minute", "hour", "day"}));
  command->add_option("--from", options->from,
                      "a time such as 2026-01-31 or 2026-01-31T12:30:00Z, or how long ago, such as "
                      "7d; default: all");
  command->add_option(
      "--to", options->to,
      "as --from; buckets that begin at or after this time are left out; default: now");
  command
      ->add_option("--label", options->labels,
                   "show this label of a model of several labels; may be repeated, up to 20 times; "
                   "default: the one furthest off in each row")
      ->allow_extra_args(false);
  command->add_flag("--verbose", options->verbose,
                    "also show the SKCE, the scores and the evidence");
  command->add_flag("--csv", options->csv, "print comma-separated values");
}

}  // namespace calibd::cli
