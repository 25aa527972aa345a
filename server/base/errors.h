#ifndef CALIBD_SERVER_BASE_ERRORS_H_
#define CALIBD_SERVER_BASE_ERRORS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/validation.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::server {

// Errors inside the server: an absl::Status whose details are calibd.rpc messages, stored as
// payloads under the type URLs of google.rpc. The rpc layer converts them to the wire form.

// reason: UPPER_SNAKE_CASE, stable; becomes ErrorInfo.reason. metadata: that of the ErrorInfo.
using ErrorMetadata = std::map<std::string, std::string>;
[[nodiscard]] absl::Status MakeError(absl::StatusCode code, std::string_view reason,
                                     std::string_view message, const ErrorMetadata& metadata = {});

// INVALID_ARGUMENT with a BadRequest that names each field. The message joins the violations.
// violations: at least one.
[[nodiscard]] absl::Status InvalidFieldsError(std::string_view reason,
                                              std::span<const Violation> violations);
[[nodiscard]] absl::Status InvalidFieldError(std::string_view field, std::string_view description);
// status: a status whose message begins with the field and a space.
[[nodiscard]] absl::Status InvalidFieldError(const absl::Status& status);

// Adds a violation, unless enough are reported.
template <typename... Parts>
void Violate(std::vector<Violation>& violations, std::string_view field,
             const Parts&... description) {
  if (violations.size() >= kMaxReportedViolations) return;
  violations.push_back({.field = std::string(field), .description = absl::StrCat(description...)});
}

// INVALID_ARGUMENT for JSON that cannot be parsed. what: "the body" or other. why: what the parser
// says, with the position.
[[nodiscard]] absl::Status InvalidJsonError(std::string_view what, std::string_view why);

// code is NOT_FOUND or ALREADY_EXISTS; name is "models/...", valid.
[[nodiscard]] absl::Status ModelError(absl::StatusCode code, std::string_view reason,
                                      std::string_view name, std::string_view message);
[[nodiscard]] absl::Status ModelNotFoundError(std::string_view name);

// Returns the error with a RetryInfo added.
[[nodiscard]] absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay);

// The error of calls until the models are recovered: UNAVAILABLE with a retry delay.
[[nodiscard]] absl::Status StartingError();

// The error of calls that another process must answer, which owns the store: UNAVAILABLE with a
// retry delay. metadata: the owner and its epoch, if they are known.
[[nodiscard]] absl::Status NotOwnerError(std::string_view message,
                                         const ErrorMetadata& metadata = {});

// The error of calls while the server drains: UNAVAILABLE, so that clients retry elsewhere.
[[nodiscard]] absl::Status DrainingError();

// Returns the error. Its own message goes to the log, while clients get `message`. For errors of
// the store, whose messages contain file names.
[[nodiscard]] absl::Status WithClientMessage(absl::Status status, std::string_view message);
inline constexpr char kClientMessageUrl[] = "calibd/client-message";

// Returns the error with this reason and this metadata in its ErrorInfo.
[[nodiscard]] absl::Status WithReason(absl::Status status, std::string_view reason,
                                      const ErrorMetadata& metadata = {});

// The type URL of ErrorInfo payloads.
inline constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// The ErrorInfo of a status, if it has one.
[[nodiscard]] std::optional<rpc::ErrorInfo> GetErrorInfo(const absl::Status& status);

// Prepares text from a client for an error message or a log: escapes control characters and
// non-ASCII bytes, cuts it to max_length, and puts it in double quotes.
[[nodiscard]] std::string Quoted(std::string_view text, std::size_t max_length = 80);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_ERRORS_H_
