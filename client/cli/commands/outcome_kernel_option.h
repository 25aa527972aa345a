#ifndef CALIBD_CLIENT_CLI_COMMANDS_OUTCOME_KERNEL_OPTION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_OUTCOME_KERNEL_OPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/outcome_kernel.h"

namespace calibd::cli {

// The texts that ParseOutcomeKernel reads.
inline constexpr char kOutcomeKernelHelp[] =
    "rbf[:GAMMA], energy, pit_rbf[:GAMMA], pit_min, moments:CENTER:SCALE, threshold:C or "
    "tanh:C:WIDTH";

// Numbers in the unit of the outcomes have no default, because none suits all units. Reads the name
// and the numbers of an outcome kernel, the value of --outcome-kernel. Errors: a usage fault.
[[nodiscard]] absl::StatusOr<OutcomeKernel> ParseOutcomeKernel(const std::string& text);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_OUTCOME_KERNEL_OPTION_H_
