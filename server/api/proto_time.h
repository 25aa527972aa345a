#ifndef CALIBD_SERVER_API_PROTO_TIME_H_
#define CALIBD_SERVER_API_PROTO_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <chrono>

namespace calibd::server {

// Converts a duration >= 0, or a time since the epoch, to its proto.
template <typename Proto>
void SetProto(std::chrono::nanoseconds value, Proto& proto) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(value);
  proto.set_seconds(seconds.count());
  proto.set_nanos(static_cast<std::int32_t>((value - seconds).count()));
}

inline void SetProto(std::chrono::system_clock::time_point time,
                     google::protobuf::Timestamp& proto) {
  SetProto<google::protobuf::Timestamp>(time.time_since_epoch(), proto);
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_PROTO_TIME_H_
