#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "command.h"
#include "estimate_report.h"
#include "lens_option.h"

namespace calibd::cli {
namespace {

struct EstimateOptions {
  std::string model;
  std::string lens = "top_label";
  std::vector<std::string> estimators;
  std::int32_t window = 0;
  std::int32_t folds = 5;
  double test_share = 0.2;
  std::int32_t replicates = 0;
  std::optional<std::uint64_t> seed;
};

absl::StatusOr<ExitCode> Run(const Context& context, const EstimateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const v1::Lens lens, OrUsageFault(ParseLens(options.lens)));
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  v1::EstimateCalibrationErrorRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_window(options.window);
  *request.mutable_lens() = lens;
  for (const std::string& name : options.estimators) request.add_estimators(EstimatorOf(name));
  request.set_folds(options.folds);
  request.set_test_share(options.test_share);
  request.set_replicates(options.replicates);
  if (options.seed.has_value()) request.set_seed(*options.seed);
  CALIBD_ASSIGN_OR_RETURN(
      const v1::CalibrationErrorEstimate estimate,
      CallWithProgress(context, "estimating", kTestTimeout, [&](const auto& long_call) {
        return client->EstimateCalibrationError(request, long_call);
      }));
  if (context.json()) {
    Json json = ToJson(estimate);
    json["model"] = request.model();
    PrintJson(json);
  } else {
    Print(request.model() + ": " + DescribeEstimate(estimate));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddEstimateCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<EstimateOptions>(
      app, context, "estimate",
      "Estimate how large a model's calibration error is, with the estimator that suits it best",
      Run);
  command->footer(
      "Tries several estimators on the newest observations, tunes each by cross-validation, and\n"
      "compares their predictions for new observations. Ctrl-C also stops it on the server.\n"
      "Example: calibctl estimate resnet18 --lens canonical");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION")->required();
  command->add_option("--lens", options->lens,
                      "the part of the predictions whose error is estimated: canonical, top_label "
                      "or class:K; default top_label");
  command
      ->add_option("--estimators", options->estimators,
                   absl::StrCat("only these: a list of ", absl::StrJoin(EstimatorNames(), ", "),
                                "; default: all that suit the lens"))
      ->delimiter(',')
      ->check(CLI::IsMember(EstimatorNames()));
  command
      ->add_option("--window", options->window,
                   "use only this many of the newest observations; default: the whole window")
      ->check(CLI::Range(2, 1000000));
  command->add_option("--folds", options->folds, "folds of the cross-validation, 2..20; default 5")
      ->check(CLI::Range(2, 20));
  command
      ->add_option("--test-share", options->test_share,
                   "share of the observations that is kept for the final estimates; default 20%")
      ->transform(ProbabilityRange(0.001, 0.999));
  command
      ->add_option("--replicates", options->replicates,
                   "also simulate a calibrated model this many times: a p-value and the estimates "
                   "to expect without an error; 99..100000, default none")
      ->check(CLI::Range(99, 100000));
  command->add_option(
      "--seed", options->seed,
      "seed of the order of the observations and of the replicates; default: chosen "
      "by the server and shown");
}

}  // namespace calibd::cli
