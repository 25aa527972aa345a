#ifndef CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
#define CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/http/http_answer.h"
#include "server/net/connection_slots.h"
#include "server/net/listener.h"

namespace calibd::server {

// Answers HTTP requests (AnswerRequest) on a thread of its own. Headers up to 8 KiB that come
// within 5 seconds; no bodies. A connection is idle, and may be evicted for another, unless it has
// sent a complete request whose answer it has not taken yet.
class HttpEndpoint {
 public:
  // max_connections: half as many from one address (ConnectionSlots). handlers: called on the
  // endpoint's thread.
  // Errors: InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& listen, std::size_t max_connections, HttpHandlers handlers);
  // Closes every connection and joins.
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  class Session;

  HttpEndpoint(std::size_t max_connections, HttpHandlers handlers);
  void OnConnection(boost::asio::ip::tcp::socket socket, const std::string& peer);
  void Run();

  const HttpHandlers handlers_;
  // Sessions are destroyed with the context and refer to what is above it.
  ConnectionSlots slots_;
  boost::asio::io_context context_{1};
  std::shared_ptr<Listener> listener_;
  std::string address_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
