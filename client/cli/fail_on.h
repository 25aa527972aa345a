#ifndef CALIBD_CLI_FAIL_ON_H_
#define CALIBD_CLI_FAIL_ON_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "calibd/v1/calibration_service.pb.h"
#include "command.h"
#include "report.h"

namespace calibd::cli {

// --fail-on over-limit|miscalibration|drift|undecided: converts a verdict to an exit code, so that
// calibctl can be a gate in a pipeline.
using VerdictGate = std::vector<std::string>;
void AddVerdictGate(CLI::App& command, VerdictGate& gate);

// What a verdict and its alarms fail on, among the names of the gate and in their order.
[[nodiscard]] std::vector<std::string> FailuresOf(
    const v1::Verdict& verdict, const google::protobuf::RepeatedPtrField<v1::Alarm>& alarms,
    const VerdictGate& gate);
// {"fail_on": [...], "failed_on": [...]}.
[[nodiscard]] Json GateJson(const VerdictGate& gate, const std::vector<std::string>& failures);

// --fail-on p-value [--significance-level A]: the same for a bootstrap test.
struct PValueGate {
  // "p-value", or empty if no decision is wanted.
  std::string what;
  double significance_level = 0.05;

  [[nodiscard]] bool active() const { return !what.empty(); }
};
void AddPValueGate(CLI::App& command, PValueGate& gate);

struct Decision {
  bool rejected = false;
  double significance_level = 0;
  // Such as "NOT_REJECTED: p = 0.4, above the significance level 0.05 (one look)".
  std::string sentence;

  [[nodiscard]] ExitCode exit_code() const { return rejected ? ExitCode::kFailOn : ExitCode::kOk; }
};

// Rejects if p is at most the level.
[[nodiscard]] Decision Decide(const v1::QuadraticTestResult& result, const PValueGate& gate);

// The reason why a bootstrap with this many replicates cannot be the basis of a decision:
// no replicates, or too few to reach the level. Unset if there is no such reason.
[[nodiscard]] std::optional<std::string> FindUsageFault(const PValueGate& gate, int replicates);

[[nodiscard]] Json ToJson(const Decision& decision);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_FAIL_ON_H_
