#ifndef CALIBD_SERVER_MODEL_DECLARED_DURATION_H_
#define CALIBD_SERVER_MODEL_DECLARED_DURATION_H_

#include <chrono>

#include "google/protobuf/duration.pb.h"

namespace calibd::server {

// Converts a duration that is valid by the rules of a declaration.
[[nodiscard]] inline std::chrono::microseconds MicrosecondsOf(
    const google::protobuf::Duration& proto) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::seconds(proto.seconds()) + std::chrono::nanoseconds(proto.nanos()));
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_DECLARED_DURATION_H_
