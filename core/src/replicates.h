#ifndef CALIBD_CORE_SRC_REPLICATES_H_
#define CALIBD_CORE_SRC_REPLICATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Errors: InvalidArgument unless replicates is in [kMinReplicates, kMaxReplicates].
[[nodiscard]] absl::Status CheckReplicates(const BootstrapOptions& options);

// Runs body(0) .. body(count - 1) on the threads of control, each call on one thread; reports
// progress, and stops between calls if cancelled. Errors: Cancelled.
[[nodiscard]] absl::Status RunReplicates(std::size_t count, const RunControl& control,
                                         const std::function<void(std::size_t)>& body);

// replicates: values of the statistic under the null hypothesis.
[[nodiscard]] ResamplingResult CompareWithReplicates(double statistic,
                                                     std::span<const double> replicates,
                                                     std::uint64_t seed);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_REPLICATES_H_
