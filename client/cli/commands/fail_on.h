#ifndef CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_
#define CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "calibd/v1/calibration_service.pb.h"
#include "client/cli/commands/command.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {

// --fail-on over-limit|miscalibration|drift|undecided: converts a verdict to an exit code, so that
// calibctl can be a gate in a pipeline.
using VerdictGate = std::vector<std::string>;
void AddVerdictGate(CLI::App& command, VerdictGate& gate);

// What a verdict and its alarms fail on, among the names of the gate and in their order.
[[nodiscard]] std::vector<std::string> FailuresOf(
    const v1::Verdict& verdict, const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms,
    const VerdictGate& gate);
[[nodiscard]] Gate ToGate(const VerdictGate& gate, const std::vector<std::string>& failures);

// --fail-on p-value|over-limit: the same for the result of one computation.
struct ResultGate {
  // "p-value", "over-limit", or empty if no decision is wanted.
  std::string what;
  double significance_level = 0.05;
};
// Adds --fail-on p-value [--significance-level A] to a command that only tests.
void AddPValueGate(CLI::App& command, ResultGate& gate);
// Adds --fail-on p-value|over-limit [--significance-level A].
void AddEvaluationGate(CLI::App& command, ResultGate& gate);

struct Decision {
  bool fails = false;
  // Such as "NOT_REJECTED: p = 0.4, above the significance level 0.05 (one look)"; may be empty.
  std::string sentence;
  // What JSON says about the decision.
  Gate gate;

  [[nodiscard]] ExitCode exit_code() const { return fails ? ExitCode::kFailOn : ExitCode::kOk; }
};

// Fails if p is at most the level.
[[nodiscard]] Decision DecideByPValue(const v1::QuadraticTestResult& result,
                                      double significance_level);
// Fails if the answer is OVER_LIMIT. The reading of the evaluation says it first, so the sentence
// is empty unless it fails. evaluation: with `error`, or of forecasts.
[[nodiscard]] Decision DecideByLimit(const v1::Evaluation& evaluation, double error_limit);

// The reason why a bootstrap with this many replicates cannot be the basis of a decision:
// no replicates, or too few to reach the level. Unset if there is no such reason.
[[nodiscard]] std::optional<std::string> FindUsageFault(const ResultGate& gate, int replicates);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_
