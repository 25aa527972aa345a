#ifndef CALIBD_SERVER_RPC_GRPC_STATUS_H_
#define CALIBD_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace calibd::server {

// An error as gRPC sends it (ToRpcStatus). Without memory for the message and details, the status
// has only its code.
[[nodiscard]] grpc::Status ToGrpcStatus(const absl::Status& status) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_STATUS_H_
