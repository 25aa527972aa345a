#include "client/cli/commands/outcome_kernel_option.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/command.h"

namespace calibd::cli {

absl::StatusOr<OutcomeKernel> ParseOutcomeKernel(const std::string& text) {
  const absl::Status error =
      UsageFault(absl::StrCat("--outcome-kernel is '", text, "', expected ", kOutcomeKernelHelp));
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  std::vector<double> numbers(parts.size() - 1);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (!absl::SimpleAtod(parts[k + 1], &numbers[k])) return error;
  }
  const std::string& name = parts[0];
  const auto has = [&](std::size_t least, std::size_t most) {
    return numbers.size() >= least && numbers.size() <= most;
  };
  const auto number = [&](std::size_t k, double otherwise) {
    return k < numbers.size() ? numbers[k] : otherwise;
  };
  if (name == "rbf" && has(0, 1)) {
    return RbfKernel{numbers.empty() ? std::nullopt : std::optional(numbers[0])};
  }
  if (name == "energy" && has(0, 0)) return EnergyKernel();
  if (name == "moments" && has(2, 2)) return MomentsKernel{numbers[0], numbers[1]};
  if (name == "threshold" && has(1, 1)) return ThresholdKernel{numbers[0]};
  if (name == "tanh" && has(2, 2)) return TanhKernel{numbers[0], numbers[1]};
  if (name == "pit_rbf" && has(0, 1)) return PitRbfKernel{number(0, PitRbfKernel().gamma)};
  if (name == "pit_min" && has(0, 0)) return PitMinKernel();
  return error;
}

}  // namespace calibd::cli
