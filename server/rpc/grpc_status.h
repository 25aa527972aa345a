#ifndef CALIBD_SERVER_RPC_GRPC_STATUS_H_
#define CALIBD_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace calibd::server {

// Converts an error to the form that gRPC sends (ToRpcStatus). If there is no memory for the
// message and details, the result has only the code.
[[nodiscard]] grpc::Status ToGrpcStatus(const absl::Status& status) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_STATUS_H_
