#include "server/http/http_endpoint.h"

#include <spdlog/spdlog.h>

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "server/listen_address.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;

constexpr std::uint32_t kMaxHeaderBytes = 8 << 10;
// From the first byte waited for to the last of the header; also the longest
// idle time between two requests.
constexpr std::chrono::seconds kHeaderDeadline{5};
constexpr std::chrono::seconds kWriteDeadline{10};
constexpr std::chrono::milliseconds kAcceptRetryDelay{100};

using Response = http::response<http::string_body>;

Response MakeResponse(http::status status, std::string body,
                      const char* type = "text/plain; charset=utf-8") {
  Response response(status, 11);
  response.set(http::field::content_type, type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.body() = std::move(body);
  return response;
}

Response Answer(const http::request<http::empty_body>& request,
                const HttpEndpoint::Handlers& handlers) {
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Response response = MakeResponse(http::status::method_not_allowed, "GET and HEAD only\n");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  const beast::string_view target = request.target();
  const beast::string_view path = target.substr(0, target.find('?'));
  if (path == "/metrics") {
    return MakeResponse(http::status::ok, handlers.metrics(),
                        "text/plain; version=0.0.4; charset=utf-8");
  }
  if (path == "/healthz") {
    return MakeResponse(http::status::ok, "ok\n");
  }
  if (path == "/readyz") {
    const std::string reason = handlers.unready();
    return reason.empty()
               ? MakeResponse(http::status::ok, "ready\n")
               : MakeResponse(http::status::service_unavailable, "not ready: " + reason + "\n");
  }
  return MakeResponse(http::status::not_found, "not found\n");
}

}  // namespace

// One connection. Lives as long as an operation on it is pending.
class HttpEndpoint::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, HttpEndpoint& endpoint)
      : stream_(std::move(socket)), endpoint_(endpoint) {
    ++endpoint_.connections_;
  }
  ~Session() { --endpoint_.connections_; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(std::uint64_t{0});
    stream_.expires_after(kHeaderDeadline);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const beast::error_code& error, std::size_t) {
                       self->OnRead(error);
                     });
  }

 private:
  void OnRead(const beast::error_code& error) {
    if (error == http::error::header_limit) {
      Write(MakeResponse(http::status::request_header_fields_too_large, "header too large\n"),
            false);
    } else if (error == http::error::body_limit || error == http::error::unexpected_body) {
      Write(MakeResponse(http::status::payload_too_large, "no bodies\n"), false);
    } else if (!error) {
      const http::request<http::empty_body>& request = parser_->get();
      try {
        Write(Answer(request, endpoint_.handlers_), request.keep_alive());
      } catch (const std::exception& failure) {
        spdlog::error("HTTP request failed: {}", failure.what());
        Write(MakeResponse(http::status::internal_server_error, "internal error\n"), false);
      }
    }
    // Anything else is a peer that went, came too late or speaks no HTTP.
  }

  void Write(Response response, bool keep_alive) {
    const bool head = parser_->is_header_done() && parser_->get().method() == http::verb::head;
    response.keep_alive(keep_alive);
    response.prepare_payload();
    if (head) {
      // Content-Length stays: it tells what GET would send.
      response.body().clear();
    }
    response_ = std::move(response);
    stream_.expires_after(kWriteDeadline);
    http::async_write(
        stream_, response_,
        [self = shared_from_this(), keep_alive](const beast::error_code& error, std::size_t) {
          if (!error && keep_alive) {
            self->Read();
          } else {
            beast::error_code ignored;
            self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
          }
        });
  }

  beast::tcp_stream stream_;
  // Larger than a header may be, so that the parser is the one to refuse it.
  beast::flat_buffer buffer_{std::size_t{2} * kMaxHeaderBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  HttpEndpoint& endpoint_;
};

HttpEndpoint::HttpEndpoint(std::unique_ptr<boost::asio::io_context> context, tcp::acceptor acceptor,
                           std::size_t max_connections, Handlers handlers)
    : handlers_(std::move(handlers)),
      max_connections_(max_connections),
      context_(std::move(context)),
      acceptor_(std::move(acceptor)),
      retry_(*context_) {}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& listen,
                                                                  std::size_t max_connections,
                                                                  Handlers handlers) {
  const auto endpoint = ParseListenAddress(listen);
  if (!endpoint.ok()) {
    return endpoint.status();
  }
  auto context = std::make_unique<boost::asio::io_context>(1);
  absl::StatusOr<tcp::acceptor> acceptor = Listen(*context, *endpoint);
  if (!acceptor.ok()) {
    return acceptor.status();
  }
  const std::string address = FormatAddress(acceptor->local_endpoint());
  std::unique_ptr<HttpEndpoint> result(new HttpEndpoint(std::move(context), *std::move(acceptor),
                                                        max_connections, std::move(handlers)));
  result->address_ = address;
  result->Accept();
  result->thread_ = std::thread([context = result->context_.get()] { context->run(); });
  return result;
}

HttpEndpoint::~HttpEndpoint() {
  context_->stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void HttpEndpoint::Accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error) {
      retry_.expires_after(kAcceptRetryDelay);
      retry_.async_wait([this](const boost::system::error_code& cancelled) {
        if (!cancelled) {
          Accept();
        }
      });
      return;
    }
    if (connections_ < max_connections_) {
      std::make_shared<Session>(std::move(socket), *this)->Read();
    }
    Accept();
  });
}

}  // namespace calibd::server
