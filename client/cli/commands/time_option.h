#ifndef CALIBD_CLIENT_CLI_COMMANDS_TIME_OPTION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_TIME_OPTION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// Parses "90s", "1.5h", "7d": a number > 0 and one of the units s, m, h, d, with a resolution of a
// nanosecond. Errors: InvalidArgument saying what was expected.
[[nodiscard]] absl::StatusOr<google::protobuf::Duration> ParseDuration(std::string_view text);

// Formats the duration in the largest unit of which it has at least one, with six digits.
[[nodiscard]] std::string ShortDuration(const google::protobuf::Duration& duration);

// Parses "2026-01-31", "2026-01-31T12:30:00Z" (RFC 3339, also with an offset), or a duration before
// `now` such as "7d", see ParseDuration. Errors: InvalidArgument saying what was expected.
[[nodiscard]] absl::StatusOr<google::protobuf::Timestamp> ParseTime(
    std::string_view text, const google::protobuf::Timestamp& now);

// Parses the time of a prediction: RFC 3339 with a zone ("2026-01-31T12:30:00Z", also with a blank
// instead of the T), or seconds since 1970. Errors: InvalidArgument saying what was expected.
[[nodiscard]] absl::StatusOr<google::protobuf::Timestamp> ParseTimestamp(std::string_view text);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_TIME_OPTION_H_
