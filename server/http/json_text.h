#ifndef CALIBD_SERVER_HTTP_JSON_TEXT_H_
#define CALIBD_SERVER_HTTP_JSON_TEXT_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace calibd::server {

// Messages and errors as JSON. Messages are in the JSON mapping of protobuf, on one line, and their
// fields without presence are always included. protobuf's own printer builds a tree of such a
// message, which takes hundreds of bytes for each number.

// Upper bound of the length of the JSON of a message. Allocates no memory that grows with it.
[[nodiscard]] std::size_t MaxJsonLength(const google::protobuf::Message& message);
void AppendJson(const google::protobuf::Message& message, std::string& text);
[[nodiscard]] std::string ToJsonText(const google::protobuf::Message& message);

// Reads a message from JSON in the same mapping. what: "the body" or other, for errors. Errors:
// InvalidArgument that names the field, what it is and what is expected, or the position of a fault
// of the JSON.
[[nodiscard]] absl::Status ParseJsonText(const std::string& text, std::string_view what,
                                         google::protobuf::Message& message);

// {"error": {"code", "status", "message", "details"}}, as in Google's APIs.
[[nodiscard]] std::string JsonErrorText(const absl::Status& status);

// HTTP's status for an error. Some reasons have one of their own; otherwise the code has one, as in
// Google's APIs.
[[nodiscard]] unsigned HttpStatusOf(const absl::Status& status);

// The seconds after which the same call may succeed; nothing if it cannot.
[[nodiscard]] std::optional<std::int64_t> RetrySeconds(const absl::Status& status);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_JSON_TEXT_H_
