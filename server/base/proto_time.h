#ifndef CALIBD_SERVER_BASE_PROTO_TIME_H_
#define CALIBD_SERVER_BASE_PROTO_TIME_H_

#include <google/protobuf/util/time_util.h>

#include <chrono>

namespace calibd::server {

inline google::protobuf::Timestamp ToTimestamp(std::chrono::system_clock::time_point time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(time.time_since_epoch()).count());
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_PROTO_TIME_H_
