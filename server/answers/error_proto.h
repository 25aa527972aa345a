#ifndef CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_
#define CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_

#include <string>

#include "calibd/v1/monitoring.pb.h"
#include "server/watch/error_watch.h"
#include "server/watch/model_monitor.h"

namespace calibd::server {

// Fills in the answer to how far off a model or a group is.
void DescribeError(const ErrorSnapshot& error, v1::CalibrationError& proto);

// "(other groups)" for the overflow group, "(no value)" for the empty value.
[[nodiscard]] std::string GroupName(const GroupId& group);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_
