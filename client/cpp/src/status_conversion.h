#ifndef CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_
#define CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/violation.h"
#include "calibd/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace calibd::client {

// A text of a server, cut to 10000 bytes and with its control characters and other unprintable
// parts escaped.
[[nodiscard]] std::string ServerText(std::string_view text);

// Converts the status of a call. Its texts are those of ServerText. The message gets the violations
// of the BadRequest appended as "; field: description", unless it already contains them. The
// details become payloads under their type URLs.
[[nodiscard]] absl::Status FromGrpcStatus(const grpc::Status& status);
[[nodiscard]] absl::Status FromRpcStatus(const rpc::Status& status);

// The details of a status, decoded from its payloads.
[[nodiscard]] std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status);
[[nodiscard]] std::vector<Violation> FieldViolations(const absl::Status& status);
[[nodiscard]] std::vector<Violation> ViolationsOf(
    const google::protobuf::RepeatedPtrField<rpc::BadRequest::FieldViolation>& fields);
// InvalidArgument with a BadRequest that names the violations, as a server's error does. more: the
// number of further rows, which the message states.
[[nodiscard]] absl::Status InvalidRowsError(std::span<const Violation> violations,
                                            std::int64_t more);
// ErrorInfo.reason; empty if calibd did not create the status, i.e. if it comes from the transport.
[[nodiscard]] std::string ErrorReason(const absl::Status& status);

// True if the same call may succeed later and is safe to repeat: UNAVAILABLE, or RESOURCE_EXHAUSTED
// with a delay.
[[nodiscard]] bool IsRetryable(const absl::Status& status);
// True for an error of the transport that interrupted a running call: the server may or may not
// have seen the call.
[[nodiscard]] bool IsCutOff(const absl::Status& status);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_
