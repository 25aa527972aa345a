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

// What the HTTP endpoint answers to a request, without sockets.

using HttpParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
using HttpRequest = boost::beast::http::request<boost::beast::http::empty_body>;
using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

// Most bytes of the request line and the header together.
inline constexpr std::uint32_t kMaxHttpHeaderBytes = 8 << 10;

struct HttpHandlers {
  // The Prometheus text format.
  std::function<std::string()> metrics;
  // Must live longer than the endpoint.
  const Health& health;
  // Names by which clients reach this server, see IsAllowedHost.
  std::vector<std::string> hosts;
};

// Sets the limits of a request.
void LimitRequest(HttpParser& parser);

// An error if the request, whose header was read, has a body.
[[nodiscard]] boost::beast::error_code CheckNoBody(const HttpParser& parser);

// True if the request asks for /healthz or /readyz.
[[nodiscard]] bool IsHealthCheck(const HttpRequest& request);

// GET and HEAD of /metrics, /healthz (the process runs) and /readyz (it serves; 503 with the reason
// while it does not). 403 if Host is neither an IP address, nor localhost, nor in handlers.hosts.
// restricted: whether only health checks are served; 503 for all else. Throws what handlers throw.
[[nodiscard]] HttpResponse AnswerRequest(const HttpRequest& request, const HttpHandlers& handlers,
                                         bool restricted);

// The answer to a request that the parser refused with this error; none if there is nobody to
// answer: the peer has gone, or was too slow.
[[nodiscard]] std::optional<HttpResponse> AnswerParseError(const boost::beast::error_code& error);

// The answer to a request that a handler failed.
[[nodiscard]] HttpResponse AnswerInternalError();

// Sets the length and whether the connection stays open. head: the body is left out, and its length
// stays.
void FinishResponse(HttpResponse& response, bool keep_alive, bool head);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
