#include "server/rpc/connection_acceptor.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace calibd::server {
namespace {

// How long to wait after a failed accept, as when the process has no descriptor left.
constexpr std::chrono::milliseconds kRetryDelay{100};
// A flood of connections must not become a flood of log lines.
constexpr std::chrono::seconds kWarningInterval{10};

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(
    std::unique_ptr<boost::asio::io_context> context, boost::asio::ip::tcp::acceptor acceptor,
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server, int max_descriptor)
    : context_(std::move(context)),
      acceptor_(std::move(acceptor)),
      retry_(*context_),
      server_(std::move(server)),
      max_descriptor_(max_descriptor) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  context_->stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ConnectionAcceptor::Start() {
  Accept();
  thread_ = std::thread([this] { context_->run(); });
}

void ConnectionAcceptor::Accept() {
  acceptor_.async_accept(
      [this](const boost::system::error_code& error, boost::asio::ip::tcp::socket socket) {
        if (error) {
          retry_.expires_after(kRetryDelay);
          retry_.async_wait([this](const boost::system::error_code& cancelled) {
            if (!cancelled) {
              Accept();
            }
          });
          return;
        }
        HandOver(std::move(socket));
        Accept();
      });
}

void ConnectionAcceptor::HandOver(boost::asio::ip::tcp::socket socket) {
  if (socket.native_handle() > max_descriptor_) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_warning_) {
      next_warning_ = now + kWarningInterval;
      spdlog::warn("connections are closed at once: there are too many");
    }
    return;
  }
  boost::system::error_code error;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), error);
  if (error) {
    return;  // The peer is gone already.
  }
  socket.native_non_blocking(true, error);
  const int fd = socket.release(error);
  if (error) {
    return;
  }
  static_cast<void>(fcntl(fd, F_SETFD, FD_CLOEXEC));
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd;
  server_->HandleNewConnection(&connection);
}

}  // namespace calibd::server
