#ifndef CALIBD_CONVERT_DATED_CHANGE_H_
#define CALIBD_CONVERT_DATED_CHANGE_H_

#include <cstdint>

#include "calibd/core/dated_change.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::convert {

// Does not set the event. first_observation: number of the first row of the stream, from 1. rows:
// number of rows of the stream, the newest of which ends the stretch after the change.
[[nodiscard]] v1::DatedChange ToProto(const DatedChange& change, std::int64_t first_observation,
                                      std::int64_t rows);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_DATED_CHANGE_H_
