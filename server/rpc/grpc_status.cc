#include "server/rpc/grpc_status.h"

#include <string>

#include "server/base/status_mapping.h"

namespace calibd::server {

// The cast is right because absl promises that its codes have the numbers of gRPC's codes.
grpc::Status ToGrpcStatus(const absl::Status& status) noexcept {
  if (status.ok()) return grpc::Status::OK;
  try {
    const rpc::Status wire = ToRpcStatus(status);
    return {static_cast<grpc::StatusCode>(wire.code()), wire.message(), wire.SerializeAsString()};
  } catch (...) {
    return {static_cast<grpc::StatusCode>(status.code()), std::string()};
  }
}

}  // namespace calibd::server
