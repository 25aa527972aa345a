#ifndef CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_
#define CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "calibd/convert/reading.h"
#include "calibd/v1/calibration_service.pb.h"
#include "client/cli/commands/command.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {

// --fail-on over-limit|miscalibration|drift|undecided|stale: converts a verdict to an exit code, so
// that calibctl can be a gate in a pipeline.
using VerdictGate = std::vector<std::string>;
void AddVerdictGate(CLI::App& command, VerdictGate& gate);

// The name of the failure of a gate that cannot be answered yet.
inline constexpr char kInsufficientData[] = "insufficient-data";

// What a verdict and its alarms fail on, among the names of the gate and in their order. If there
// are too few rows to answer one of them, kInsufficientData comes last: a model without data has
// shown nothing, so it does not pass. over-limit is answered by min_observations of `error` or of
// the evidence, changed by a complete reference, and the others by min_observations of the
// evidence, which an acknowledgement of its alarm begins anew.
[[nodiscard]] std::vector<std::string> FailuresOf(
    const v1::Verdict& verdict, const v1::CalibrationError& error, const v1::Watch& watch,
    const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms, const VerdictGate& gate);
// Why there is too little data, for a gate that failed on it, and how many more rows answer all its
// questions: a sentence with a line break.
[[nodiscard]] std::string DescribeInsufficientData(
    const std::string& model, const VerdictGate& gate, const v1::Verdict& verdict,
    const v1::CalibrationError& error, const v1::Watch& watch, std::int64_t observations);
[[nodiscard]] Gate ToGate(const VerdictGate& gate, const std::vector<std::string>& failures);

// --fail-on p-value of a command that computes one p-value.
struct PValueGate {
  // "p-value", or empty if no decision is wanted.
  std::string what;
  double significance_level = 0.05;
};
// Adds --fail-on p-value [--significance-level A].
void AddPValueGate(CLI::App& command, PValueGate& gate);

// --fail-on over-limit|miscalibration|undecided: the same for the verdict of one evaluation.
struct EvaluationGate {
  // Empty if no decision is wanted.
  std::vector<std::string> what;
  // Of the verdict, with and without a gate.
  double significance_level = 0.05;

  [[nodiscard]] bool Has(std::string_view name) const;
};
// Adds --fail-on LIST [--significance-level A]. level_help: says what the level is of.
void AddEvaluationGate(CLI::App& command, EvaluationGate& gate, const std::string& level_help);

struct Decision {
  bool fails = false;
  // Such as "NOT_REJECTED: p = 0.4, above the significance level 0.05 (one look)".
  std::string sentence;
  // What JSON says about the decision.
  Gate gate;

  [[nodiscard]] ExitCode exit_code() const { return fails ? ExitCode::kFailOn : ExitCode::kOk; }
};

// Fails if p is at most the level.
[[nodiscard]] Decision DecideByPValue(const v1::QuadraticTestResult& result,
                                      double significance_level);
// Fails on what the verdict says. Unset without a gate. verdict: the one that is printed.
[[nodiscard]] std::optional<Decision> DecideByVerdict(const convert::EvaluationVerdict& verdict,
                                                      const EvaluationGate& gate,
                                                      double error_limit);

// The reason why tests with this many replicates cannot be the basis of a decision: no replicates,
// or too few to reach the level. Unset if there is no such reason.
[[nodiscard]] std::optional<std::string> FindUsageFault(const PValueGate& gate, int replicates);
// lens_level: the level of each lens.
[[nodiscard]] std::optional<std::string> FindUsageFault(const EvaluationGate& gate, int replicates,
                                                        double lens_level);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_FAIL_ON_H_
