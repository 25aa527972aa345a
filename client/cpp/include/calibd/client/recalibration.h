#ifndef CALIBD_CLIENT_RECALIBRATION_H_
#define CALIBD_CLIENT_RECALIBRATION_H_

#include <span>

#include "absl/status/status.h"
#include "calibd/v1/recalibration.pb.h"

namespace calibd::client {

// Replaces rows of probabilities in place by recalibrated ones, without a server. map: from
// Client::Recalibrate, or read from the JSON of `calibctl recalibrate --export` by
// google::protobuf::util::JsonStringToMessage. rows: map.class_count() probabilities each, which
// are in [0, 1] and sum to 1. Errors: InvalidArgument if the map is invalid or the last row is
// incomplete; the rows are then unchanged. Cost: O(m) a row, isotonic O(m log n).
[[nodiscard]] absl::Status ApplyRecalibration(const v1::RecalibrationMap& map,
                                              std::span<double> rows);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_RECALIBRATION_H_
