#ifndef CALIBD_CLI_FAIL_ON_H_
#define CALIBD_CLI_FAIL_ON_H_

#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "calibd/v1/calibration_service.pb.h"
#include "command.h"
#include "report.h"

namespace calibd::cli {

// --fail-on miscalibration [--significance-level A]: converts a result to an exit code, so that
// calibctl can be a gate in a pipeline.
struct FailOnOptions {
  // "miscalibration", or empty if no decision is wanted.
  std::string what;
  double significance_level = 0.05;

  [[nodiscard]] bool active() const { return !what.empty(); }
};

// basis: the p-value that decides, for the help text.
void AddFailOnOptions(CLI::App& command, FailOnOptions& options, const std::string& basis);

struct Decision {
  // Unset if there were too few observations to decide.
  std::optional<bool> miscalibrated;
  double significance_level = 0;
  // Such as "p = 0.004 <= 0.05: ...".
  std::string sentence;

  // Too little data is an error: a gate that cannot decide must not pass.
  [[nodiscard]] ExitCode exit_code() const;
};

// Uses the running estimates: rejects if the smallest of their k p-values is at most level /
// k (Bonferroni), which keeps the error rate at the level.
[[nodiscard]] Decision Decide(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates,
    const FailOnOptions& options);
// Uses the bootstrap test: rejects if p is at most the level.
[[nodiscard]] Decision Decide(const v1::QuadraticTestResult& result, const FailOnOptions& options);

// The reason why a bootstrap with this many replicates cannot be the basis of a decision:
// no replicates, or too few to reach the level. Unset if there is no such reason.
[[nodiscard]] std::optional<std::string> FindUsageFault(const FailOnOptions& options,
                                                        int replicates);

[[nodiscard]] Json ToJson(const Decision& decision);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_FAIL_ON_H_
