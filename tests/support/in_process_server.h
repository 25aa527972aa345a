#ifndef CALIBD_TESTS_SUPPORT_IN_PROCESS_SERVER_H_
#define CALIBD_TESTS_SUPPORT_IN_PROCESS_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace calibd::testing {

// Serves a test's service in the test's own process, on a free port. Make it the last member of the
// service, so that calls end before the members that they use are destroyed.
class InProcessServer {
 public:
  explicit InProcessServer(grpc::Service& service) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    // Without this, the server would disconnect test clients that ping more often than every 5
    // minutes. The server itself pings to measure the bandwidth.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~InProcessServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  InProcessServer(const InProcessServer&) = delete;
  InProcessServer& operator=(const InProcessServer&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_IN_PROCESS_SERVER_H_
