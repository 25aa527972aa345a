#ifndef CALIBD_CLI_FAIL_ON_H_
#define CALIBD_CLI_FAIL_ON_H_

#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "calibd/v1/calibration_service.pb.h"
#include "command.h"
#include "report.h"

namespace calibd::cli {

// --fail-on miscalibration [--significance-level A]: turns a result into an exit
// code, so that calibctl works as a gate in a pipeline.
struct FailOnOptions {
  // "miscalibration", or empty: nothing is decided.
  std::string what;
  double significance_level = 0.05;

  [[nodiscard]] bool active() const { return !what.empty(); }
};

// basis: names the p-value that the decision rests on, for the help.
void AddFailOnOptions(CLI::App& command, FailOnOptions& options, const std::string& basis);

struct Decision {
  // Unset when there were too few observations to look.
  std::optional<bool> miscalibrated;
  double significance_level = 0;
  // "p = 0.004 <= 0.05: ...".
  std::string sentence;

  // Too little data is an error: a gate that could not look must not pass.
  [[nodiscard]] ExitCode exit_code() const;
};

// From the running estimates: rejects when the smallest of their k p-values is at
// most level / k (Bonferroni), which keeps the error rate at the level.
[[nodiscard]] Decision Decide(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates,
    const FailOnOptions& options);
// From the bootstrap test: rejects when p is at most the level.
[[nodiscard]] Decision Decide(const v1::QuadraticTestResult& result, const FailOnOptions& options);

// The reason why a bootstrap with this many replicates cannot be the basis of a decision:
// no replicates, or too few to reach the level. Unset if there is no such reason.
[[nodiscard]] std::optional<std::string> FindUsageFault(const FailOnOptions& options,
                                                        int replicates);

[[nodiscard]] Json ToJson(const Decision& decision);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_FAIL_ON_H_
