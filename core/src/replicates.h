#ifndef CALIBD_CORE_SRC_REPLICATES_H_
#define CALIBD_CORE_SRC_REPLICATES_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Runs body(0) .. body(count - 1) on the threads of control, each call on one thread; reports
// progress, and stops between calls if cancelled. Errors: Cancelled.
[[nodiscard]] absl::Status RunReplicates(std::size_t count, const RunControl& control,
                                         const std::function<void(std::size_t)>& body);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_REPLICATES_H_
