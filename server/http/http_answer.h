#ifndef CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
#define CALIBD_SERVER_HTTP_HTTP_ANSWER_H_

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/api/health.h"

namespace calibd::server {

// The responses of the HTTP endpoint, without sockets.

using HttpParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
using HttpRequest = boost::beast::http::request<boost::beast::http::empty_body>;
using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

// Maximum size of the request line and the header together.
inline constexpr std::uint32_t kMaxHttpHeaderBytes = 8 << 10;

struct HttpHandlers {
  // The Prometheus text format.
  std::function<std::string()> metrics;
  // Must outlive the endpoint.
  const Health& health;
  // Names by which clients reach this server; see IsAllowedHost.
  std::vector<std::string> hosts;
};

// Sets the limits for a request.
void LimitRequest(HttpParser& parser);

// Returns an error if the request, whose header was read, has a body.
[[nodiscard]] boost::beast::error_code CheckNoBody(const HttpParser& parser);

// True if the request asks for /healthz or /readyz.
[[nodiscard]] bool IsHealthCheck(const HttpRequest& request);

// Serves GET and HEAD of /metrics, /healthz (200 while the process runs) and /readyz (200 while
// calibd is ready, otherwise 503 with the reason). Returns 403 if Host is neither an IP address,
// nor localhost, nor in handlers.hosts. restricted: only health checks are served, and everything
// else gets 503. Throws what the handlers throw.
[[nodiscard]] HttpResponse AnswerRequest(const HttpRequest& request, const HttpHandlers& handlers,
                                         bool restricted);

// The response to a request that the parser refused with this error. Returns nothing if no response
// can be sent: the peer has disconnected or was too slow.
[[nodiscard]] std::optional<HttpResponse> AnswerParseError(const boost::beast::error_code& error);

// The response to a request whose handler threw.
[[nodiscard]] HttpResponse AnswerInternalError();

// Sets Content-Length and whether the connection stays open. head: leaves out the body, but not its
// length.
void FinishResponse(HttpResponse& response, bool keep_alive, bool head);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
