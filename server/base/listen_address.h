#ifndef CALIBD_SERVER_BASE_LISTEN_ADDRESS_H_
#define CALIBD_SERVER_BASE_LISTEN_ADDRESS_H_

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace calibd::server {

// Parses "host:port", where host is an IPv4 address, an IPv6 address in
// brackets, or "localhost" (127.0.0.1). Port 0 lets the system choose.
// Errors: InvalidArgument naming the text.
[[nodiscard]] absl::StatusOr<boost::asio::ip::tcp::endpoint> ParseListenAddress(
    std::string_view text);

// Formats an address, such as "127.0.0.1:8460" or "[::1]:8460".
[[nodiscard]] std::string FormatAddress(const boost::asio::ip::tcp::endpoint& endpoint);

// Binds and listens; a second process cannot share the port.
// Errors: Unavailable naming the address and the system's reason.
[[nodiscard]] absl::StatusOr<boost::asio::ip::tcp::acceptor> Listen(
    boost::asio::io_context& context, const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_LISTEN_ADDRESS_H_
