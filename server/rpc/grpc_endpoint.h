#ifndef CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_
#define CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/support/server_interceptor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/options.h"
#include "server/rpc/connection_acceptor.h"

namespace calibd::server {

// The gRPC server: its address, limits, health service and life.
class GrpcEndpoint {
 public:
  // Binds the address and answers calls; the health service says NOT_SERVING. services: must
  // live longer than this.
  // Errors: InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GrpcEndpoint>> Start(
      const Options& options, const std::vector<grpc::Service*>& services,
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> interceptor);
  // Ends every call at once.
  ~GrpcEndpoint();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  // The health service says SERVING.
  void StartServing();
  // The health service says NOT_SERVING from now on.
  void StopServing();
  // Accepts no more connections, lets calls finish until the deadline, then
  // cancels them; returns when all have ended.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcEndpoint() = default;

  std::string address_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_
