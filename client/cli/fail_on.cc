#include "fail_on.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace calibd::cli {
namespace {

constexpr char kNoVerdict[] = "not enough data to decide, which --fail-on treats as an error\n";

}  // namespace

void AddFailOnOptions(CLI::App& command, FailOnOptions& options, const std::string& basis) {
  CLI::Option* const what =
      command
          .add_option("--fail-on", options.what,
                      "\"miscalibration\": exit with 3 when the model is found miscalibrated, and "
                      "with 1 when there is too little data to tell. The decision uses " +
                          basis)
          ->check(CLI::IsMember({"miscalibration"}));
  command
      .add_option("--significance-level", options.significance_level,
                  "probability of finding a calibrated model miscalibrated, in one look; default "
                  "0.05")
      ->check(CLI::Range(1e-12, 0.5))
      ->needs(what);
}

ExitCode Decision::exit_code() const {
  if (!miscalibrated.has_value()) return ExitCode::kError;
  return *miscalibrated ? ExitCode::kMiscalibrated : ExitCode::kOk;
}

Decision Decide(const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates,
                const FailOnOptions& options) {
  int tests = 0;
  double smallest = 1;
  for (const auto& estimate : estimates) {
    if (!estimate.has_p_value()) continue;
    ++tests;
    smallest = std::min(smallest, estimate.p_value());
  }
  Decision decision{.miscalibrated = {},
                    .significance_level = options.significance_level,
                    .sentence = kNoVerdict};
  if (tests == 0) return decision;
  decision.miscalibrated = smallest <= options.significance_level / tests;
  decision.sentence = absl::StrFormat(
      "%s: smallest of %d p-values %.6g, %s %.6g = significance level %.6g / %d (one look)\n",
      *decision.miscalibrated ? "MISCALIBRATED" : "NOT REJECTED", tests, smallest,
      *decision.miscalibrated ? "at most" : "above", options.significance_level / tests,
      options.significance_level, tests);
  return decision;
}

Decision Decide(const v1::QuadraticTestResult& result, const FailOnOptions& options) {
  const bool miscalibrated = result.p_value() <= options.significance_level;
  return {.miscalibrated = miscalibrated,
          .significance_level = options.significance_level,
          .sentence =
              absl::StrFormat("%s: p = %.6g, %s the significance level %.6g (one look)\n",
                              miscalibrated ? "MISCALIBRATED" : "NOT REJECTED", result.p_value(),
                              miscalibrated ? "at most" : "above", options.significance_level)};
}

std::optional<std::string> FindUsageFault(const FailOnOptions& options, int replicates) {
  if (!options.active()) return std::nullopt;
  if (replicates == 0) return "--fail-on needs the bootstrap test: --replicates must not be 0";
  const double smallest = 1.0 / (1.0 + replicates);
  if (smallest <= options.significance_level) return std::nullopt;
  return absl::StrFormat(
      "with --replicates %d no p-value is below %.6g: --significance-level %.6g cannot be reached",
      replicates, smallest, options.significance_level);
}

Json ToJson(const Decision& decision) {
  return {{"fail_on", "miscalibration"},
          {"significance_level", decision.significance_level},
          {"decision", !decision.miscalibrated.has_value() ? "INSUFFICIENT_DATA"
                       : *decision.miscalibrated           ? "MISCALIBRATED"
                                                           : "NOT_REJECTED"}};
}

}  // namespace calibd::cli
