#ifndef CALIBD_SERVER_KINDS_DESCRIBE_STRETCH_H_
#define CALIBD_SERVER_KINDS_DESCRIBE_STRETCH_H_

#include <optional>

#include "calibd/v1/monitoring.pb.h"
#include "server/base/proto_time.h"
#include "server/watch/limit.h"

namespace calibd::server {

// Writes the stretch of newest observations with the largest error.
inline void DescribeStretch(const std::optional<ErrorStretch>& stretch,
                            v1::CalibrationError::RecentError& proto) {
  if (!stretch.has_value()) return;
  proto.set_first_observation(stretch->first_observation);
  if (stretch->start_time.has_value()) {
    *proto.mutable_start_time() = ToTimestamp(*stretch->start_time);
  }
  proto.set_observations(stretch->observations);
  proto.set_estimate(stretch->interval.estimate);
  proto.set_gap(stretch->interval.gap);
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_DESCRIBE_STRETCH_H_
