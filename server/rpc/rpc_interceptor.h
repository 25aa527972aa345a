#ifndef CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_
#define CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include "server/net/ending_calls.h"
#include "server/observability/rpc_statistics.h"

namespace calibd::server {

// Counts every call of every service, the health service included.
class RpcInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Both must outlive the gRPC server.
  RpcInterceptorFactory(RpcStatistics& statistics, EndingCalls& ending_calls)
      : statistics_(statistics), ending_calls_(ending_calls) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  RpcStatistics& statistics_;
  EndingCalls& ending_calls_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_RPC_INTERCEPTOR_H_
