#ifndef CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_
#define CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include "server/observability/rpc_statistics.h"

namespace calibd::server {

// Counts every call of every service, the health service included.
class RpcInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // statistics: must outlive the gRPC server.
  explicit RpcInterceptorFactory(RpcStatistics& statistics) : statistics_(statistics) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  RpcStatistics& statistics_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_
