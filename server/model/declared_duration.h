#ifndef CALIBD_SERVER_MODEL_DECLARED_DURATION_H_
#define CALIBD_SERVER_MODEL_DECLARED_DURATION_H_

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/duration.pb.h"

namespace calibd::server {

// Converts a duration of a declaration. Errors: InvalidArgument with the description of a
// violation, if it is less than a microsecond or more than `most`.
[[nodiscard]] inline absl::StatusOr<std::chrono::microseconds> DeclaredDuration(
    const google::protobuf::Duration& proto, std::chrono::seconds most) {
  // Larger values might not fit into a count of microseconds.
  const bool in_range = proto.seconds() >= 0 && proto.seconds() <= most.count() &&
                        proto.nanos() >= 0 && proto.nanos() < 1000000000;
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::seconds(in_range ? proto.seconds() : 0) +
      std::chrono::nanoseconds(in_range ? proto.nanos() : 0));
  if (duration.count() <= 0 || duration > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", proto.seconds(), " s and ", proto.nanos(),
                     " ns, expected at least a microsecond and at most ", most.count(), " s"));
  }
  return duration;
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_DECLARED_DURATION_H_
