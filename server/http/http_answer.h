#ifndef CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
#define CALIBD_SERVER_HTTP_HTTP_ANSWER_H_

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/api/health.h"
#include "server/observability/http_statistics.h"

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
  // Counts the requests. Must outlive the endpoint.
  HttpStatistics& requests;
  // Names by which clients reach this server; see IsAllowedHost.
  std::vector<std::string> hosts;
};

// Sets the limits for a request. A request with a longer body is refused as soon as its header was
// read.
void LimitRequest(HttpParser& parser, std::uint64_t max_body_bytes);

// Returns an error if the request, whose header was read, has a body.
[[nodiscard]] boost::beast::error_code CheckNoBody(const HttpParser& parser);

// The route of a request that AnswerRequest serves, for statistics.
[[nodiscard]] HttpRoute RouteOf(const HttpRequest& request);

// True if the request asks for /healthz or /readyz.
[[nodiscard]] bool IsHealthCheck(const HttpRequest& request);

// Returns the refusal of a request to the API over HTTP, if it must be refused: because of its
// Host; because it is not a GET or POST; because the connection is restricted; or, for a POST,
// because its body is not JSON (event: not a CloudEvent either), is compressed or has no declared
// length, or because a web page of another origin sends it, which therefore cannot write to calibd.
// event: the path takes CloudEvents.
[[nodiscard]] std::optional<HttpResponse> RefuseJsonRequest(const HttpRequest& request,
                                                            const std::vector<std::string>& hosts,
                                                            bool restricted, bool event);

// A response that is not stored by caches and that browsers do not interpret as another type.
[[nodiscard]] HttpResponse MakeHttpResponse(boost::beast::http::status status, std::string body,
                                            const char* type = "text/plain; charset=utf-8");

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
