#ifndef CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
#define CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace calibd::server {

// GET and HEAD of /metrics, /healthz (the process runs) and /readyz (it serves;
// 503 with the reason while it does not), on a thread of its own. Headers up to
// 8 KiB that come within 5 seconds; no bodies.
class HttpEndpoint {
 public:
  struct Handlers {
    // The Prometheus text format. Called on the endpoint's thread.
    std::function<std::string()> metrics;
    // Why it does not serve, one line of text; empty when it does.
    std::function<std::string()> unready;
  };

  // Errors: InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& listen, std::size_t max_connections, Handlers handlers);
  // Closes every connection and joins.
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  class Session;

  HttpEndpoint(std::unique_ptr<boost::asio::io_context> context,
               boost::asio::ip::tcp::acceptor acceptor, std::size_t max_connections,
               Handlers handlers);
  void Accept();

  const Handlers handlers_;
  const std::size_t max_connections_;
  // Its sessions go with it, and they refer to what is above.
  std::size_t connections_ = 0;
  std::unique_ptr<boost::asio::io_context> context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::string address_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
