#ifndef CALIBD_CLI_TIME_OPTION_H_
#define CALIBD_CLI_TIME_OPTION_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// Parses "2026-01-31", "2026-01-31T12:30:00Z" (RFC 3339, also with an offset), or a duration before
// `now` such as "7d", see ParseDuration. Errors: InvalidArgument saying what was expected.
[[nodiscard]] absl::StatusOr<google::protobuf::Timestamp> ParseTime(
    std::string_view text, const google::protobuf::Timestamp& now);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_TIME_OPTION_H_
