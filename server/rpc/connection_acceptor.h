#ifndef CALIBD_SERVER_RPC_CONNECTION_ACCEPTOR_H_
#define CALIBD_SERVER_RPC_CONNECTION_ACCEPTOR_H_

#include <grpcpp/server_builder.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <thread>

namespace calibd::server {

// Accepts connections for gRPC on a thread of its own. gRPC's own listener never
// recovers from running out of file descriptors; this one closes connections
// beyond the cap and goes on.
class ConnectionAcceptor {
 public:
  // acceptor: listening, on `context`. max_descriptor: a connection whose file
  // descriptor has a higher number is closed; the system gives out the lowest
  // free number, so this caps the descriptors in use.
  ConnectionAcceptor(std::unique_ptr<boost::asio::io_context> context,
                     boost::asio::ip::tcp::acceptor acceptor,
                     std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server,
                     int max_descriptor);
  // Stops accepting and joins.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Call once the gRPC server is started.
  void Start();

 private:
  void Accept();
  void HandOver(boost::asio::ip::tcp::socket socket);

  const std::unique_ptr<boost::asio::io_context> context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  const int max_descriptor_;
  std::chrono::steady_clock::time_point next_warning_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_CONNECTION_ACCEPTOR_H_
