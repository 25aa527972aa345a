#ifndef CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_
#define CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/net/byte_budget.h"
#include "server/net/listener.h"
#include "server/net/relay.h"
#include "server/net/relay_statistics.h"
#include "server/process/options.h"
#include "server/rpc/grpc_log.h"

namespace calibd::server {

// The gRPC server behind its relay: its address, limits, health service and lifetime.
class GrpcEndpoint {
 public:
  // Binds the address and starts to answer calls; the health service reports NOT_SERVING. services,
  // call_memory and statistics: must outlive the endpoint. call_memory: also for requests that are
  // incomplete or unread. tls: null without encryption; must outlive the endpoint. Errors:
  // InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GrpcEndpoint>> Start(
      const Options& options, const std::vector<grpc::Service*>& services,
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> interceptor,
      ByteBudget& call_memory, RelayStatistics& statistics, TlsServer* tls = nullptr);
  // Ends every call at once.
  ~GrpcEndpoint();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  // The health service reports SERVING or NOT_SERVING, until StopServing. Thread-safe.
  void SetServing(bool serving);
  // The health service reports NOT_SERVING from now on.
  void StopServing();
  // Accepts no more connections, lets calls continue until the deadline, and then cancels them.
  // Returns when all have ended.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcEndpoint() = default;
  // Relays the connections that `listener` accepts on `context` to the server.
  void StartRelay(const Options& options, boost::asio::ip::tcp::acceptor listener,
                  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections,
                  ByteBudget& call_memory, RelayStatistics& statistics, TlsServer* tls);
  void StopListening();

  const GrpcLog log_;
  std::string address_;
  // Guards the end of server_ against SetServing.
  std::mutex server_mutex_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<Relay> relay_;
  // The io_context and the thread of the listener.
  std::unique_ptr<boost::asio::io_context> context_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_ENDPOINT_H_
