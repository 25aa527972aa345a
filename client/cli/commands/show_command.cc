#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/commands/terminal.h"
#include "client/cli/reports/bins_report.h"
#include "client/cli/reports/color.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/report.h"
#include "client/cli/reports/verdict_report.h"

namespace calibd::cli {
namespace {

struct ShowOptions {
  std::string model;
  bool verbose = false;
  bool bins = false;
  VerdictGate fail_on;
};

std::string Text(const v1::GetCalibrationResponse& response, const ShowOptions& options) {
  const std::size_t columns = StandardOutputSize().value_or(TerminalSize{kReadingWidth}).columns;
  std::string text = DescribeShow(response, std::min(columns, kReadingWidth));
  if (response.has_labels()) absl::StrAppend(&text, "\n", DescribeTable(response.labels().table()));
  if (options.verbose) {
    // A model without rows has no numbers yet.
    const std::string numbers = DescribeNumbers(response);
    if (!numbers.empty()) absl::StrAppend(&text, "\n", numbers);
    absl::StrAppend(&text, "\n", DescribeCalibration(response));
  }
  if (options.bins) absl::StrAppend(&text, "\n", DescribeBins(response));
  return text;
}

absl::StatusOr<ExitCode> Run(const Context& context, const ShowOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  v1::GetCalibrationRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_whole_table(options.verbose);
  CALIBD_ASSIGN_OR_RETURN(const auto response, client->GetCalibration(request));
  if (!options.fail_on.empty() && !response.has_verdict()) {
    return absl::FailedPreconditionError(
        absl::StrCat(response.model(),
                     " is not monitored, so --fail-on has no verdict: create the model without "
                     "--no-monitoring"));
  }
  const std::vector<std::string> failures = FailuresOf(
      response.verdict(), response.error(), response.watch(), response.alarms(), options.fail_on);
  if (context.json()) {
    Json json = ToJson(response);
    if (!options.fail_on.empty()) json["gate"] = ToJson(ToGate(options.fail_on, failures));
    PrintJson(json);
  } else {
    const std::string text = Text(response, options);
    Print(HasColors() ? PaintReading(text) : text);
    if (!failures.empty()) Print(absl::StrCat("failed on ", absl::StrJoin(failures, ", "), "\n"));
    if (!failures.empty() && failures.back() == kInsufficientData) {
      Print(DescribeInsufficientData(ShortName(response.model()), options.fail_on,
                                     response.verdict(), response.error(), response.watch(),
                                     response.observations()));
    }
  }
  return failures.empty() ? ExitCode::kOk : ExitCode::kFailOn;
}

}  // namespace

void AddShowCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<ShowOptions>(
      app, context, "show", "Show the verdict on a model: how far off it is, where, and since when",
      Run);
  command->footer(
      "The verdict and its intervals stay valid however often you look at them.\n"
      "Examples: calibctl show resnet18 --fail-on over-limit\n"
      "          calibctl show resnet18 --output json");
  AddModelArgument(*command, options->model);
  command->add_flag("--verbose", options->verbose,
                    "also show the evidence, alarms, groups, estimators, kernels and p-values");
  command->add_flag(
      "--bins", options->bins,
      "also show the reliability diagram as a table; of forecasts of a number, how often "
      "outcomes fall between their quantiles");
  AddVerdictGate(*command, options->fail_on);
}

}  // namespace calibd::cli
