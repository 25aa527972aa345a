#ifndef CALIBD_CORE_SRC_REPLICATES_H_
#define CALIBD_CORE_SRC_REPLICATES_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Runs body(0) .. body(count - 1) as control says, each on one thread; tells the
// progress and stops between them when cancelled. Errors: Cancelled.
[[nodiscard]] absl::Status RunReplicates(std::size_t count, const RunControl& control,
                                         const std::function<void(std::size_t)>& body);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_REPLICATES_H_
