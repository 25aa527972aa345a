#ifndef CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
#define CALIBD_SERVER_HTTP_HTTP_ANSWER_H_

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/api/health.h"
#include "server/http/http_message.h"
#include "server/observability/http_statistics.h"

namespace calibd::server {

// The responses of the HTTP endpoint, without sockets.

// Maximum size of the request line and the header together.
inline constexpr std::uint32_t kMaxHttpHeaderBytes = 8 << 10;

struct HttpHandlers {
  // The Prometheus text format.
  std::function<std::string()> metrics;
  // Must outlive the endpoint.
  const Health& health;
  // Counts the requests. Must outlive the endpoint.
  HttpStatistics& requests;
  // Must outlive the endpoint.
  AccessControl& access;
  // Names by which clients reach this server; see IsAllowedHost.
  std::vector<std::string> hosts;
};

// Who sends a request: by its header Authorization, by the session of the page, or by the client
// certificate of its connection. path: its template, for the audit log. Errors: Unauthenticated.
[[nodiscard]] absl::StatusOr<Identity> CallerOf(const HttpRequest& request, const HttpPeer& peer,
                                                const std::string& path,
                                                const AccessControl& access);

// Sets the limits for a request. A request with a longer body is refused as soon as its header was
// read.
void LimitRequest(HttpParser& parser, std::uint64_t max_body_bytes);

// Returns an error if the request, whose header was read, has a body.
[[nodiscard]] boost::beast::error_code CheckNoBody(const HttpParser& parser);

// The route of a request that AnswerRequest serves, for statistics.
[[nodiscard]] HttpRoute RouteOf(const HttpRequest& request);

// True if the request asks for /healthz or /readyz.
[[nodiscard]] bool IsHealthCheck(const HttpRequest& request);

// Errors: InvalidArgument or PermissionDenied if Host is neither an IP address, nor localhost, nor
// in hosts; Unavailable if only health checks are served.
[[nodiscard]] absl::Status CheckRequest(const HttpRequest& request,
                                        const std::vector<std::string>& hosts, bool restricted);

// Checks a GET, POST or DELETE of the API. tls: the connection is encrypted, so that pages of http
// are of another origin; without it, a proxy may have ended TLS. Errors: PermissionDenied if a web
// page of another origin sends it, which therefore cannot write to calibd; for a POST also
// InvalidArgument if its body is not JSON (event: not a CloudEvent either), is compressed or has no
// declared length.
[[nodiscard]] absl::Status CheckWrite(const HttpRequest& request, bool tls, bool event);

// Checks a POST of the form of AnswerLogin. tls: as for CheckWrite. Errors: those of CheckRequest;
// PermissionDenied if a web page of another origin sends it; InvalidArgument unless it declares the
// length of its body once.
[[nodiscard]] absl::Status CheckLogin(const HttpRequest& request,
                                      const std::vector<std::string>& hosts, bool tls,
                                      bool restricted);

inline constexpr char kJsonType[] = "application/json";

// A response that is not stored by caches and that browsers do not interpret as another type.
[[nodiscard]] HttpResponse MakeHttpResponse(boost::beast::http::status status, std::string body,
                                            const char* type = "text/plain; charset=utf-8");

// Serves GET and HEAD of the page (AnswerPage), /metrics, /healthz (200 while the process runs),
// /readyz (200 while calibd is ready, otherwise 503 with the reason) and the description of the
// API. Health checks need no identity, /metrics a reader of all models, and everything else any
// identity; browsers without one get a form for a token in place of the page. restricted: only
// health checks are served. Throws what the handlers throw.
[[nodiscard]] HttpResponse AnswerRequest(const HttpRequest& request, const HttpHandlers& handlers,
                                         const HttpPeer& peer, bool restricted);

// The response to a request that failed: in JSON for the paths of the API, and for a request whose
// target could not be read and is empty; a line of text for others.
[[nodiscard]] HttpResponse AnswerError(const absl::Status& error, std::string_view target);

// The error of a request that could not be read: Cancelled if the peer has disconnected or was too
// slow, so that no response can be sent.
[[nodiscard]] absl::Status ReadError(const boost::beast::error_code& error);

// Sets Content-Length and whether the connection stays open. head: leaves out the body, but not its
// length.
void FinishResponse(HttpResponse& response, bool keep_alive, bool head);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ANSWER_H_
