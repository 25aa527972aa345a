
#include "command.h"
#include "fail_on.h"
#include "report.h"
#include "verdict_report.h"

namespace calibd::cli {
namespace {

struct ShowOptions {
  std::string model;
  FailOnOptions fail_on;
};

absl::StatusOr<ExitCode> Run(const Context& context, const ShowOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(const auto response,
                          client->GetCalibration(ModelArgument(options.model)));
  std::optional<Decision> decision;
  if (options.fail_on.active()) decision = Decide(response.estimates(), options.fail_on);
  if (context.json()) {
    Json json = ToJson(response);
    if (decision.has_value()) json["decision"] = ToJson(*decision);
    PrintJson(json);
  } else {
    Print(DescribeVerdict(response) + "\n" + DescribeCalibration(response));
    if (decision.has_value()) Print(decision->sentence);
  }
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

}  // namespace

void AddShowCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<ShowOptions>(
      app, context, "show", "Show the verdict on a model's calibration and the running estimates",
      Run);
  command->footer(
      "The verdict and its evidence stay valid however often you look at them. --fail-on uses "
      "p-values, which are valid for one look.\n"
      "SKCE is the squared kernel calibration error; its estimates are unbiased and may be "
      "negative.\n"
      "Example: calibctl show resnet18 --output json");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION")->required();
  AddFailOnOptions(*command, options->fail_on,
                   "the smallest of the k p-values shown, and the level divided by k");
}

}  // namespace calibd::cli
