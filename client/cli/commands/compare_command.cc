#include <cstdint>
#include <string>

#include "client/cli/commands/command.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/reports/compare_report.h"

namespace calibd::cli {
namespace {

struct CompareOptions {
  std::string model;
  std::string baseline;
  std::int32_t window = 0;
};

absl::StatusOr<ExitCode> Run(const Context& context, const CompareOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  v1::CompareModelsRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_baseline(ModelArgument(options.baseline));
  request.set_window(options.window);
  CALIBD_ASSIGN_OR_RETURN(
      const v1::ModelComparison result,
      CallWithProgress(context, "comparing", kTestTimeout, [&](const auto& long_call) {
        return client->CompareModels(request, long_call);
      }));
  if (context.json()) {
    PrintJson(ToJson(result));
  } else {
    Print(DescribeComparison(ShortName(request.model()), ShortName(request.baseline()), result));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<CompareOptions>(
      app, context, "compare",
      "Compare a model's newest observations with those of a baseline: log loss, Brier score and "
      "binned error, or CRPS and log score of forecasts of a number",
      Run);
  command->footer(
      "If both models scored predictions with the same ids, exactly these are compared; otherwise\n"
      "all observations of both windows are, and the answer says so.\n"
      "Example: calibctl compare resnet18@2 resnet18@1");
  AddModelArgument(*command, options->model);
  command->add_option("BASELINE", options->baseline, "the model to compare with")->required();
  AddWindowOption(*command, options->window,
                  "use only this many of the newest observations of each; default: the whole "
                  "windows");
}

}  // namespace calibd::cli
