#include "server/http/http_answer.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/http/http_error.h"
#include "server/http/http_hosts.h"
#include "server/http/json_api.h"
#include "server/http/login.h"
#include "server/http/open_api.h"
#include "server/http/page.h"
#include "server/intake/inference_event.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

HttpResponse AnswerReady(const HttpRequest& /*request*/, const HttpHandlers& handlers) {
  const std::string reason = handlers.health.Unready();
  return reason.empty()
             ? MakeHttpResponse(http::status::ok, "ready\n")
             : MakeHttpResponse(http::status::service_unavailable, "not ready: " + reason + "\n");
}

// What the caller needs.
enum class Need { kNothing, kIdentity, kReaderOfAll };

// The answer to GET of a path.
struct Route {
  std::string_view path;
  HttpResponse (*answer)(const HttpRequest& request, const HttpHandlers& handlers);
  // Served on restricted connections too.
  bool health_check = false;
  Need need = Need::kReaderOfAll;
};

HttpResponse AnswerFile(const HttpRequest& request, const HttpHandlers& /*handlers*/) {
  return AnswerPage(request);
}

constexpr std::array<Route, 7> kRoutes{{
    {.path = "/", .answer = AnswerFile, .need = Need::kIdentity},
    // They are the same for everybody.
    {.path = "/page.css", .answer = AnswerFile, .need = Need::kNothing},
    {.path = "/page.js", .answer = AnswerFile, .need = Need::kNothing},
    {.path = "/metrics",
     .answer =
         [](const HttpRequest& /*request*/, const HttpHandlers& handlers) {
           return MakeHttpResponse(http::status::ok, handlers.metrics(),
                                   "text/plain; version=0.0.4; charset=utf-8");
         }},
    {.path = "/healthz",
     .answer =
         [](const HttpRequest& /*request*/, const HttpHandlers& /*handlers*/) {
           return MakeHttpResponse(http::status::ok, "ok\n");
         },
     .health_check = true,
     .need = Need::kNothing},
    {.path = "/readyz", .answer = AnswerReady, .health_check = true, .need = Need::kNothing},
    {.path = kOpenApiPath,
     .answer =
         [](const HttpRequest& /*request*/, const HttpHandlers& /*handlers*/) {
           return MakeHttpResponse(http::status::ok, std::string(OpenApiText()), kJsonType);
         },
     .need = Need::kIdentity},
}};

// The route of a request; null if its path is unknown.
const Route* FindRoute(const HttpRequest& request) {
  const beast::string_view target = request.target();
  const beast::string_view path = target.substr(0, target.find('?'));
  const auto* const route = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& one) {
    return one.path == std::string_view(path.data(), path.size());
  });
  return route == kRoutes.end() ? nullptr : route;
}

absl::Status MalformedError(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST", what);
}

absl::Status UnsupportedTypeError(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "UNSUPPORTED_MEDIA_TYPE", what);
}

absl::Status CheckHost(const HttpRequest& request, const std::vector<std::string>& names) {
  const auto hosts = request.equal_range(http::field::host);
  if (hosts.first == hosts.second) {
    // HTTP/1.0 does not have this header, and browsers do not use HTTP/1.0.
    return request.version() < 11 ? absl::OkStatus()
                                  : MalformedError("HTTP/1.1 needs a Host header");
  }
  if (std::next(hosts.first) != hosts.second) return MalformedError("more than one Host header");
  const beast::string_view host = hosts.first->value();
  if (!IsAllowedHost({host.data(), host.size()}, names)) {
    return MakeError(absl::StatusCode::kPermissionDenied, "FOREIGN_HOST",
                     "the Host header is neither an IP address nor localhost nor a name that "
                     "calibd --http-hosts lists");
  }
  return absl::OkStatus();
}

// True if no page of another origin sent the request. Browsers send the origin with every POST. All
// of several origins count.
bool IsSameOrigin(const HttpRequest& request, bool tls) {
  const std::string host(request[http::field::host]);
  const auto origins = request.equal_range(http::field::origin);
  return std::all_of(origins.first, origins.second, [&host, tls](const auto& origin) {
    return origin.value() == "https://" + host || (!tls && origin.value() == "http://" + host);
  });
}

absl::Status CheckOrigin(const HttpRequest& request, bool tls) {
  return IsSameOrigin(request, tls)
             ? absl::OkStatus()
             : MakeError(absl::StatusCode::kPermissionDenied, "FOREIGN_ORIGIN",
                         "pages of another origin may not write");
}

absl::Status CheckBodyLength(const HttpRequest& request) {
  if (request.count(http::field::transfer_encoding) > 0 ||
      request.count(http::field::content_length) != 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "LENGTH_REQUIRED",
                     "one Content-Length is needed, and no Transfer-Encoding");
  }
  return absl::OkStatus();
}

// Refuses a POST whose content type a web page may send to another origin without asking. Browsers
// send neither the others nor ce-id. event: the path takes CloudEvents.
absl::Status CheckContentType(const HttpRequest& request, bool event) {
  const beast::string_view encoding = request[http::field::content_encoding];
  if (!encoding.empty() && !beast::iequals(encoding, "identity")) {
    return UnsupportedTypeError("send the body without Content-Encoding");
  }
  const beast::string_view value = request[http::field::content_type];
  const std::string type = MediaType({value.data(), value.size()});
  if (type == "application/json" || (event && type == kStructuredEventType)) {
    return absl::OkStatus();
  }
  if (!event) return UnsupportedTypeError("the Content-Type must be application/json");
  // CloudEvents in batches, and in formats other than JSON.
  constexpr std::string_view kEvents = "application/cloudevents";
  if (std::string_view(type).substr(0, kEvents.size()) == kEvents) {
    return UnsupportedTypeError(
        "send each CloudEvent in a request of its own, with the Content-Type "
        "application/cloudevents+json or with ce- headers");
  }
  if (request.count("ce-id") > 0) return absl::OkStatus();
  return InvalidFieldError("ce-id",
                           "is missing: send the id of the event in this header, or the event with "
                           "the Content-Type application/cloudevents+json");
}

// The caller may make the request. Errors: Unauthenticated; PermissionDenied.
absl::Status CheckNeed(const Route& route, const HttpRequest& request, const HttpPeer& peer,
                       const AccessControl& access) {
  if (route.need == Need::kNothing) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(const Identity caller,
                          CallerOf(request, peer, std::string(route.path), access));
  if (route.need == Need::kIdentity) return absl::OkStatus();
  return access.Check(caller, peer.address, std::string(route.path).c_str(), Role::kReader,
                      std::string(kAllModels));
}

}  // namespace

absl::StatusOr<Identity> CallerOf(const HttpRequest& request, const HttpPeer& peer,
                                  const std::string& path, const AccessControl& access) {
  if (!access.enabled()) return Identity::Unrestricted();
  if (request.count(http::field::authorization) > 1) {
    return access.Refuse({.address = peer.address, .method = path},
                         MakeError(absl::StatusCode::kUnauthenticated, "NO_CREDENTIALS",
                                   "more than one Authorization header, expected one"));
  }
  const beast::string_view header = request[http::field::authorization];
  const std::string session = SessionOf(request, peer.tls);
  return access.Identify({.authorization = {header.data(), header.size()},
                          .session = session,
                          .certificate_names = peer.certificate_names,
                          .address = peer.address,
                          .method = path});
}

HttpResponse MakeHttpResponse(http::status status, std::string body, const char* type) {
  HttpResponse response(status, 11);
  response.set(http::field::content_type, type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.body() = std::move(body);
  return response;
}

void LimitRequest(HttpParser& parser, std::uint64_t max_body_bytes) {
  parser.header_limit(kMaxHttpHeaderBytes);
  parser.body_limit(max_body_bytes);
}

beast::error_code CheckNoBody(const HttpParser& parser) {
  return parser.is_done() ? beast::error_code() : http::error::unexpected_body;
}

absl::Status CheckRequest(const HttpRequest& request, const std::vector<std::string>& hosts,
                          bool restricted) {
  CALIBD_RETURN_IF_ERROR(CheckHost(request, hosts));
  if (!restricted) return absl::OkStatus();
  return WithRetryDelay(
      MakeError(absl::StatusCode::kUnavailable, "TOO_MANY_CONNECTIONS",
                "too many connections (calibd --max-http-connections): try again later"),
      std::chrono::seconds(1));
}

absl::Status CheckWrite(const HttpRequest& request, bool tls, bool event) {
  if (request.method() == http::verb::get || request.method() == http::verb::head) {
    return absl::OkStatus();
  }
  CALIBD_RETURN_IF_ERROR(CheckOrigin(request, tls));
  if (request.method() == http::verb::delete_) return absl::OkStatus();
  CALIBD_RETURN_IF_ERROR(CheckContentType(request, event));
  return CheckBodyLength(request);
}

absl::Status CheckLogin(const HttpRequest& request, const std::vector<std::string>& hosts, bool tls,
                        bool restricted) {
  CALIBD_RETURN_IF_ERROR(CheckRequest(request, hosts, restricted));
  CALIBD_RETURN_IF_ERROR(CheckOrigin(request, tls));
  return CheckBodyLength(request);
}

HttpRoute RouteOf(const HttpRequest& request) {
  HttpRoute label;
  for (const http::verb verb :
       {http::verb::get, http::verb::head, http::verb::post, http::verb::delete_}) {
    if (request.method() == verb) label.method = std::string(http::to_string(verb));
  }
  const Route* const route = FindRoute(request);
  if (route != nullptr) label.path = route->path;
  return label;
}

bool IsHealthCheck(const HttpRequest& request) {
  const Route* const route = FindRoute(request);
  return route != nullptr && route->health_check;
}

HttpResponse AnswerRequest(const HttpRequest& request, const HttpHandlers& handlers,
                           const HttpPeer& peer, bool restricted) {
  const Route* const route = FindRoute(request);
  const bool health_check = route != nullptr && route->health_check;
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  absl::Status error = CheckRequest(request, handlers.hosts, restricted && !health_check);
  if (error.ok() && !reads) {
    error = MakeError(absl::StatusCode::kUnimplemented, "METHOD_NOT_ALLOWED", "GET and HEAD only");
  }
  if (error.ok() && route == nullptr) {
    error = MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PATH", "not found");
  }
  if (error.ok()) error = CheckNeed(*route, request, peer, handlers.access);
  if (absl::IsUnauthenticated(error) && route->path == "/") return AnswerLogin();
  const beast::string_view target = request.target();
  return error.ok() ? route->answer(request, handlers)
                    : AnswerError(error, {target.data(), target.size()});
}

HttpResponse AnswerError(const absl::Status& error, std::string_view target) {
  const http::status status = http::int_to_status(HttpStatusOf(error));
  const bool text = !target.empty() && target.substr(0, kApiPrefix.size()) != kApiPrefix;
  HttpResponse response = text ? MakeHttpResponse(status, std::string(error.message()) + "\n")
                               : MakeHttpResponse(status, JsonErrorText(error) + "\n", kJsonType);
  if (const std::optional<std::int64_t> seconds = RetrySeconds(error)) {
    response.set(http::field::retry_after, std::to_string(*seconds));
  }
  // RFC 9110, 11.6.1. Basic is not offered, because browsers would ask for a name and a password.
  if (status == http::status::unauthorized) {
    response.set(http::field::www_authenticate, "Bearer realm=\"calibd\"");
  }
  if (status == http::status::method_not_allowed) {
    response.set(http::field::allow, AllowedMethods(target));
  }
  return response;
}

absl::Status ReadError(const beast::error_code& error) {
  if (error.category() != make_error_code(http::error::bad_method).category() ||
      error == http::error::end_of_stream || error == http::error::partial_message) {
    return absl::CancelledError("the client has disconnected or was too slow");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return MakeError(absl::StatusCode::kInvalidArgument, "HEADER_TOO_LARGE", "header too large");
  }
  if (error == http::error::body_limit) {
    return MakeError(absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
                     "the body is larger than calibd --max-message-bytes: send smaller batches");
  }
  if (error == http::error::unexpected_body) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNEXPECTED_BODY",
                     "this method takes no body on this path");
  }
  return MalformedError("malformed request");
}

void FinishResponse(HttpResponse& response, bool keep_alive, bool head) {
  response.keep_alive(keep_alive);
  response.prepare_payload();
  // It would be that of the file.
  if (response.result() == http::status::not_modified) response.erase(http::field::content_length);
  if (head) response.body().clear();
}

}  // namespace calibd::server
