#include "server/net/listener.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

using boost::asio::ip::tcp;

// Delay after a failed accept; a file descriptor may be free then.
constexpr std::chrono::milliseconds kRetryDelay{100};
// Minimum time between two warnings, so that a flood of connections does not flood the log.
constexpr std::chrono::seconds kWarningInterval{10};

}  // namespace

void Listener::Start(tcp::acceptor acceptor, OnConnection on_connection) {
  // The handler of the pending operation owns it.
  std::shared_ptr<Listener>(new Listener(std::move(acceptor), std::move(on_connection)))->Accept();
}

Listener::Listener(tcp::acceptor acceptor, OnConnection on_connection)
    : acceptor_(std::move(acceptor)),
      retry_(acceptor_.get_executor()),
      on_connection_(std::move(on_connection)) {}

void Listener::Accept() {
  acceptor_.async_accept(
      [self = shared_from_this()](const boost::system::error_code& error, tcp::socket socket) {
        if (error) {
          self->RetryAfter(error);
          return;
        }
        self->HandOver(std::move(socket));
        self->Accept();
      });
}

void Listener::HandOver(tcp::socket socket) {
  boost::system::error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;  // The peer has disconnected.
  try {
    on_connection_(std::move(socket), PeerAddress(peer.address()));
  } catch (const std::exception& failure) {
    spdlog::error("a connection was dropped: {}", failure.what());
  }
}

void Listener::RetryAfter(const boost::system::error_code& error) {
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_warning_) {
    next_warning_ = now + kWarningInterval;
    spdlog::warn("no connection can be accepted for now: {}", error.message());
  }
  retry_.expires_after(kRetryDelay);
  retry_.async_wait(
      [self = shared_from_this()](const boost::system::error_code& /*none*/) { self->Accept(); });
}

std::string PeerAddress(const boost::asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const boost::asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6).to_string();
  }
  auto network = v6.to_bytes();
  std::fill(network.begin() + 8, network.end(), 0);
  return absl::StrCat(boost::asio::ip::make_address_v6(network).to_string(), "/64");
}

}  // namespace calibd::server
