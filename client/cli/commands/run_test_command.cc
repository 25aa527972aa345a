
#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/core/lens.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/lens_option.h"
#include "client/cli/commands/shared_options.h"

namespace calibd::cli {
namespace {

struct TestOptions {
  std::string model;
  std::optional<std::int32_t> replicates;
  NullHypothesis null = NullHypothesis::kForecast;
  std::optional<std::uint64_t> seed;
  std::int32_t window = 0;
  std::optional<std::string> lens;
  bool float32 = false;
  PValueGate fail_on;
};

absl::StatusOr<ExitCode> Run(const Context& context, const TestOptions& options) {
  if (options.null == NullHypothesis::kPearson && options.replicates.has_value()) {
    return UsageFault("--replicates does not go with --null pearson, which has none");
  }
  // A curve has p-values of any size.
  const std::int32_t fewest = options.null == NullHypothesis::kPearson
                                  ? kMaxReplicates
                                  : options.replicates.value_or(kDefaultReplicates);
  if (const auto fault = FindUsageFault(options.fail_on, fewest)) return UsageFault(*fault);
  v1::RunTestRequest request;
  if (options.lens.has_value()) {
    CALIBD_ASSIGN_OR_RETURN(*request.mutable_lens(), OrUsageFault(ParseLens(*options.lens)));
  }
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  request.set_model(ModelArgument(options.model));
  if (options.replicates.has_value()) request.set_replicates(*options.replicates);
  request.set_null(convert::ToProto(options.null));
  if (options.seed.has_value()) request.set_seed(*options.seed);
  request.set_window(options.window);
  if (options.float32) request.set_precision(v1::Provenance::FLOAT32);

  CALIBD_ASSIGN_OR_RETURN(
      const v1::QuadraticTestResult result,
      CallWithProgress(context, "testing", kTestTimeout,
                       [&](const auto& long_call) { return client->RunTest(request, long_call); }));
  std::optional<Decision> decision;
  if (!options.fail_on.what.empty()) {
    decision = DecideByPValue(result, options.fail_on.significance_level);
  }
  if (context.json()) {
    Json json = ToJson(result);
    if (decision.has_value()) json["gate"] = ToJson(decision->gate);
    PrintJson(json);
  } else {
    Print(request.model() + ": " + DescribeProvenance(result.provenance()));
    Print(DescribeQuadratic(result));
    if (decision.has_value()) Print(decision->sentence);
  }
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

}  // namespace

void AddTestCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<TestOptions>(
      app, context, "test", "Run the quadratic test on a model's newest observations", Run);
  command->footer(
      "The test of a model that forecasts a number compares its outcomes with its forecasts, "
      "among\n"
      "similar forecasts; calibctl evaluate-forecasts --model has the other forms of calibration.\n"
      "Ctrl-C also stops the test on the server.\n"
      "Example: calibctl test resnet18 --fail-on p-value --significance-level 0.01");
  AddModelArgument(*command, options->model);
  command->add_option("--replicates", options->replicates, "replicates, 99..100000; default 999")
      ->check(CLI::Range(99, 100000));
  AddSeedOption(*command, options->seed,
                "seed of the replicates; default: chosen by the server and shown");
  AddWindowOption(*command, options->window);
  AddNullOption(
      *command, options->null,
      "what the test rejects: forecast, that labels or outcomes are drawn from the "
      "predictions (simulation, exact for every number of rows); pearson, the same with a "
      "Pearson curve instead of replicates (approximate, fast, only for classes); or "
      "form, that the model is calibrated in the tested part (approximate); default "
      "forecast");
  command->add_option("--lens", options->lens,
                      absl::StrCat("the part of the predictions that is tested: ", Lens::Syntax(),
                                   "; default canonical; none for forecasts of a number"));
  AddFloat32Option(*command, options->float32);
  AddPValueGate(*command, options->fail_on);
}

}  // namespace calibd::cli
