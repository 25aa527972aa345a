#ifndef CALIBD_SERVER_WATCH_DEPENDENCE_STATE_H_
#define CALIBD_SERVER_WATCH_DEPENDENCE_STATE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "calibd/core/serial_dependence.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// Writes the evidence of serial dependence, if there is any.
void SaveDependence(const SerialDependence& dependence, store::v1::MonitorState& out);
// shape: of the rows. Errors: InvalidArgument; `dependence` is unchanged then.
[[nodiscard]] absl::Status RestoreDependence(const store::v1::MonitorState& stored,
                                             const SerialDependence::Shape& shape,
                                             SerialDependence& dependence);
// Maximum number of bytes beside the object itself, with those of a state that is being saved.
inline constexpr std::size_t kDependenceMemory =
    2 *
    (SerialDependence::kLag * sizeof(SerialDependence::Row) +
     SerialDependence::kMostSequences * (sizeof(std::int32_t) + 2 * sizeof(SerialDependence::Run)));

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_DEPENDENCE_STATE_H_
