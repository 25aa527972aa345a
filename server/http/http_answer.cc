#include "server/http/http_answer.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/api/inference_event.h"
#include "server/http/http_hosts.h"
#include "server/http/open_api.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

HttpResponse AnswerReady(const HttpHandlers& handlers) {
  const std::string reason = handlers.health.Unready();
  return reason.empty()
             ? MakeHttpResponse(http::status::ok, "ready\n")
             : MakeHttpResponse(http::status::service_unavailable, "not ready: " + reason + "\n");
}

// The answer to GET of a path.
struct Route {
  std::string_view path;
  HttpResponse (*answer)(const HttpHandlers& handlers);
  // Served on restricted connections too.
  bool health_check = false;
};

constexpr std::array<Route, 4> kRoutes{{
    {.path = "/metrics",
     .answer =
         [](const HttpHandlers& handlers) {
           return MakeHttpResponse(http::status::ok, handlers.metrics(),
                                   "text/plain; version=0.0.4; charset=utf-8");
         }},
    {.path = "/healthz",
     .answer = [](const HttpHandlers&) { return MakeHttpResponse(http::status::ok, "ok\n"); },
     .health_check = true},
    {.path = "/readyz", .answer = AnswerReady, .health_check = true},
    {.path = kOpenApiPath,
     .answer =
         [](const HttpHandlers&) {
           return MakeHttpResponse(http::status::ok, OpenApiText(), "application/json");
         }},
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

std::optional<HttpResponse> CheckHost(const HttpRequest& request,
                                      const std::vector<std::string>& names) {
  const auto hosts = request.equal_range(http::field::host);
  if (hosts.first == hosts.second) {
    // HTTP/1.0 does not have this header, and browsers do not use HTTP/1.0.
    return request.version() < 11
               ? std::nullopt
               : std::optional(
                     MakeHttpResponse(http::status::bad_request, "HTTP/1.1 needs a Host header\n"));
  }
  if (std::next(hosts.first) != hosts.second) {
    return MakeHttpResponse(http::status::bad_request, "more than one Host header\n");
  }
  const beast::string_view host = hosts.first->value();
  if (!IsAllowedHost({host.data(), host.size()}, names)) {
    return MakeHttpResponse(
        http::status::forbidden,
        "the Host header is neither an IP address nor localhost nor a name that "
        "calibd --http-hosts lists\n");
  }
  return std::nullopt;
}

HttpResponse RefuseRestricted() {
  HttpResponse response =
      MakeHttpResponse(http::status::service_unavailable,
                       "too many connections (calibd --max-http-connections): try again later\n");
  response.set(http::field::retry_after, "1");
  return response;
}

// True if no page of another origin sent the request. Browsers send the origin with every POST.
bool IsSameOrigin(const HttpRequest& request) {
  const auto origin = request.find(http::field::origin);
  if (origin == request.end()) return true;
  const beast::string_view host = request[http::field::host];
  return origin->value() == "http://" + std::string(host) ||
         origin->value() == "https://" + std::string(host);
}

// Refuses a POST whose content type a web page may send to another origin without asking. Browsers
// send neither the others nor ce-id. event: the path takes CloudEvents.
std::optional<HttpResponse> CheckContentType(const HttpRequest& request, bool event) {
  const beast::string_view encoding = request[http::field::content_encoding];
  if (!encoding.empty() && !beast::iequals(encoding, "identity")) {
    return MakeHttpResponse(http::status::unsupported_media_type,
                            "send the body without Content-Encoding\n");
  }
  const beast::string_view value = request[http::field::content_type];
  const std::string type = MediaType({value.data(), value.size()});
  if (type == "application/json" || (event && type == kStructuredEventType)) return std::nullopt;
  if (!event) {
    return MakeHttpResponse(http::status::unsupported_media_type,
                            "the Content-Type must be application/json\n");
  }
  // CloudEvents in batches, and in formats other than JSON.
  constexpr std::string_view kEvents = "application/cloudevents";
  if (std::string_view(type).substr(0, kEvents.size()) == kEvents) {
    return MakeHttpResponse(http::status::unsupported_media_type,
                            "send each CloudEvent in a request of its own, with the Content-Type "
                            "application/cloudevents+json or with ce- headers\n");
  }
  if (request.count("ce-id") > 0) return std::nullopt;
  return MakeHttpResponse(
      http::status::bad_request,
      "the header ce-id is missing: send the id of the event, or the event with "
      "the Content-Type application/cloudevents+json\n");
}

}  // namespace

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

std::optional<HttpResponse> RefuseJsonRequest(const HttpRequest& request,
                                              const std::vector<std::string>& hosts,
                                              bool restricted, bool event) {
  if (std::optional<HttpResponse> refusal = CheckHost(request, hosts)) return refusal;
  if (restricted) return RefuseRestricted();
  if (request.method() == http::verb::get) return std::nullopt;
  if (request.method() != http::verb::post && request.method() != http::verb::delete_) {
    HttpResponse response =
        MakeHttpResponse(http::status::method_not_allowed, "GET, POST and DELETE only\n");
    response.set(http::field::allow, "GET, POST, DELETE");
    return response;
  }
  if (!IsSameOrigin(request)) {
    return MakeHttpResponse(http::status::forbidden, "pages of another origin may not write\n");
  }
  if (request.method() == http::verb::delete_) return std::nullopt;
  if (std::optional<HttpResponse> refusal = CheckContentType(request, event)) return refusal;
  if (request.chunked() || request.count(http::field::content_length) == 0) {
    return MakeHttpResponse(http::status::length_required, "a Content-Length is needed\n");
  }
  return std::nullopt;
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
                           bool restricted) {
  if (std::optional<HttpResponse> refusal = CheckHost(request, handlers.hosts)) {
    return *std::move(refusal);
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    HttpResponse response =
        MakeHttpResponse(http::status::method_not_allowed, "GET and HEAD only\n");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  const Route* const route = FindRoute(request);
  if (route == nullptr) return MakeHttpResponse(http::status::not_found, "not found\n");
  if (restricted && !route->health_check) return RefuseRestricted();
  return route->answer(handlers);
}

std::optional<HttpResponse> AnswerParseError(const beast::error_code& error) {
  if (error.category() != make_error_code(http::error::bad_method).category() ||
      error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return MakeHttpResponse(http::status::request_header_fields_too_large, "header too large\n");
  }
  if (error == http::error::body_limit) {
    return MakeHttpResponse(http::status::payload_too_large,
                            "the body is larger than calibd --max-message-bytes: send smaller "
                            "batches\n");
  }
  if (error == http::error::unexpected_body) {
    return MakeHttpResponse(http::status::payload_too_large,
                            "this method takes no body on this path\n");
  }
  return MakeHttpResponse(http::status::bad_request, "malformed request\n");
}

HttpResponse AnswerInternalError() {
  return MakeHttpResponse(http::status::internal_server_error, "internal error\n");
}

void FinishResponse(HttpResponse& response, bool keep_alive, bool head) {
  response.keep_alive(keep_alive);
  response.prepare_payload();
  if (head) response.body().clear();
}

}  // namespace calibd::server
