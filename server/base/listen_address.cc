#include "server/base/listen_address.h"

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {

using boost::asio::ip::tcp;

absl::StatusOr<tcp::endpoint> ParseListenAddress(std::string_view text) {
  const auto error = [text] {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text), " is not a listen address, expected ADDRESS:PORT such as 127.0.0.1:8460"));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return error();
  std::string host(text.substr(0, colon));
  const std::string_view port_text = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, failure] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (failure != std::errc() || end != port_text.data() + port_text.size()) return error();
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host == "localhost") {
    host = "127.0.0.1";
  }
  boost::system::error_code code;
  const boost::asio::ip::address address = boost::asio::ip::make_address(host, code);
  if (code) return error();
  return tcp::endpoint(address, port);
}

std::string FormatAddress(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? absl::StrCat("[", host, "]:", endpoint.port())
                                    : absl::StrCat(host, ":", endpoint.port());
}

absl::StatusOr<tcp::acceptor> Listen(boost::asio::io_context& context,
                                     const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(context);
  boost::system::error_code code;
  acceptor.open(endpoint.protocol(), code);
  if (!code) {
    // A restarted server can bind while old connections are in TIME_WAIT. Two listeners on one port
    // are still impossible.
    acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  }
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(boost::asio::socket_base::max_listen_connections, code);
  if (code) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", FormatAddress(endpoint), ": ", code.message()));
  }
  return acceptor;
}

}  // namespace calibd::server
