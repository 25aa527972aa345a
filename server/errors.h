#ifndef CALIBD_SERVER_ERRORS_H_
#define CALIBD_SERVER_ERRORS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "calibd/core/validation.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::server {

// Errors as they travel inside the server: an absl::Status whose details are
// calibd.rpc messages, kept as payloads under google.rpc's type URLs. The rpc
// layer turns them into the wire form once, at the edge.

// reason: UPPER_SNAKE_CASE, stable; becomes ErrorInfo.reason.
[[nodiscard]] absl::Status MakeError(absl::StatusCode code, std::string_view reason,
                                     std::string_view message);

// INVALID_ARGUMENT with a BadRequest that names each field. The message joins
// them. violations: at least one.
[[nodiscard]] absl::Status InvalidFieldsError(std::string_view reason,
                                              std::span<const Violation> violations);
[[nodiscard]] absl::Status InvalidFieldError(std::string_view field, std::string_view description);

// code is NOT_FOUND or ALREADY_EXISTS; name is "models/...", valid.
[[nodiscard]] absl::Status ModelError(absl::StatusCode code, std::string_view reason,
                                      std::string_view name, std::string_view message);
[[nodiscard]] absl::Status ModelNotFoundError(std::string_view name);

// The same error with a RetryInfo.
[[nodiscard]] absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay);

// The answer until the models are recovered: UNAVAILABLE, with a delay for the retry.
[[nodiscard]] absl::Status StartingError();

// The answer of a draining server: UNAVAILABLE, so that the call is made elsewhere.
[[nodiscard]] absl::Status DrainingError();

// The same error, of which clients are told this instead of its message, which goes to the log: for
// errors of the store, whose messages name files.
[[nodiscard]] absl::Status WithClientMessage(absl::Status status, std::string_view message);
inline constexpr char kClientMessageUrl[] = "calibd/client-message";

// The same error with this ErrorInfo.
[[nodiscard]] absl::Status WithReason(absl::Status status, std::string_view reason);

// The type URL of ErrorInfo payloads.
inline constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// The ErrorInfo of a status, if it has one.
[[nodiscard]] std::optional<rpc::ErrorInfo> GetErrorInfo(const absl::Status& status);

// Text from a client, made fit for an error message or a log: control
// characters and non-ASCII bytes escaped, cut to max_length, in double quotes.
[[nodiscard]] std::string Quoted(std::string_view text, std::size_t max_length = 80);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ERRORS_H_
