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

// Answers HTTP requests (AnswerRequest) on a thread of its own. Headers of up to 8 KiB must arrive
// within 5 seconds; bodies are refused. A connection is idle, and may be evicted for another one,
// unless it has sent a complete request and not yet taken the response.
class HttpEndpoint {
 public:
  // max_connections: at most half of them from one address (ConnectionSlots). handlers: called on
  // the endpoint's thread. Errors: InvalidArgument or Unavailable naming the address.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& listen, std::size_t max_connections, HttpHandlers handlers);
  // Closes every connection and joins the thread.
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
  // Destroying the context destroys the sessions, which refer to the members above.
  ConnectionSlots slots_;
  boost::asio::io_context context_{1};
  std::string address_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ENDPOINT_H_
