#ifndef CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_
#define CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace calibd::client {

// The code and message of a call's status with the decoded BadRequest appended
// as "; field: description" where the message does not say it already. The
// details ride along as payloads under their type URLs.
[[nodiscard]] absl::Status FromGrpcStatus(const grpc::Status& status);
[[nodiscard]] absl::Status FromRpcStatus(const rpc::Status& status);

// The details of a status, decoded from its payloads.
[[nodiscard]] std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status);
[[nodiscard]] std::vector<rpc::BadRequest::FieldViolation> FieldViolations(
    const absl::Status& status);
// ErrorInfo.reason; empty when calibd did not write the status, i.e. when it
// comes from the transport.
[[nodiscard]] std::string ErrorReason(const absl::Status& status);

// True when the same call may succeed later and it is safe to repeat: UNAVAILABLE,
// or RESOURCE_EXHAUSTED with a delay.
[[nodiscard]] bool IsRetryable(const absl::Status& status);
// True for an error of the transport that interrupted a running call: the server may or may not
// have seen the call.
[[nodiscard]] bool IsCutOff(const absl::Status& status);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_STATUS_CONVERSION_H_
