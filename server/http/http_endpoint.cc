#include "server/http/http_endpoint.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/listen_address.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;

// Time from the start of waiting for a request to the end of its header; also the longest idle time
// between two requests.
constexpr std::chrono::seconds kHeaderDeadline{5};
constexpr std::chrono::seconds kWriteDeadline{10};
// Number of connections on which only health checks are served.
constexpr std::size_t kReservedConnections = 8;

ConnectionSlots::Limits SlotLimits(std::size_t max_connections) {
  return {.total = max_connections,
          .per_address = std::max<std::size_t>(1, max_connections / 2),
          .reserve = kReservedConnections};
}

}  // namespace

// One connection. Lives while an operation on it is pending.
class HttpEndpoint::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const HttpHandlers& handlers)
      : stream_(std::move(socket)), handlers_(handlers) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start(std::unique_ptr<ConnectionSlots::Slot> slot) {
    slot_ = std::move(slot);
    Read();
  }

  // Cancels pending operations.
  void Close() { stream_.close(); }

 private:
  void Read() {
    slot_->SetIdle(true);
    parser_.emplace();
    LimitRequest(*parser_);
    stream_.expires_after(kHeaderDeadline);
    // Reads only the header: Beast 1.74 asserts on some chunked bodies, and requests must not have
    // a body.
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const beast::error_code& error, std::size_t) {
          self->OnRead(error ? error : CheckNoBody(*self->parser_));
        });
  }

  void OnRead(const beast::error_code& error) {
    if (error) {
      if (std::optional<HttpResponse> refusal = AnswerParseError(error)) {
        Write(*std::move(refusal), false);
      }
      return;
    }
    slot_->SetIdle(false);
    const HttpRequest& request = parser_->get();
    try {
      const bool restricted = !IsHealthCheck(request) && slot_->restricted();
      HttpResponse response = AnswerRequest(request, handlers_, restricted);
      // The connection of a refused request is closed.
      const bool keep_alive = request.keep_alive() && response.result() == http::status::ok;
      Write(std::move(response), keep_alive);
    } catch (const std::exception& failure) {
      spdlog::error("an HTTP request failed: {}", failure.what());
      Write(AnswerInternalError(), false);
    }
  }

  void Write(HttpResponse response, bool keep_alive) {
    const bool head = parser_->is_header_done() && parser_->get().method() == http::verb::head;
    FinishResponse(response, keep_alive, head);
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
  const HttpHandlers& handlers_;
  std::unique_ptr<ConnectionSlots::Slot> slot_;
  // Larger than the limit of a header, so that the parser and not the buffer refuses it.
  beast::flat_buffer buffer_{std::size_t{2} * kMaxHttpHeaderBytes};
  std::optional<HttpParser> parser_;
  HttpResponse response_;
};

HttpEndpoint::HttpEndpoint(std::size_t max_connections, HttpHandlers handlers)
    : handlers_(std::move(handlers)), slots_(SlotLimits(max_connections)) {}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& listen,
                                                                  std::size_t max_connections,
                                                                  HttpHandlers handlers) {
  CALIBD_ASSIGN_OR_RETURN(const auto endpoint, ParseListenAddress(listen));
  std::unique_ptr<HttpEndpoint> result(new HttpEndpoint(max_connections, std::move(handlers)));
  CALIBD_ASSIGN_OR_RETURN(tcp::acceptor acceptor, Listen(result->context_, endpoint));
  result->address_ = FormatAddress(acceptor.local_endpoint());
  Listener::Start(std::move(acceptor),
                  [raw = result.get()](tcp::socket socket, const std::string& peer) {
                    raw->OnConnection(std::move(socket), peer);
                  });
  result->thread_ = std::thread([raw = result.get()] { raw->Run(); });
  return result;
}

HttpEndpoint::~HttpEndpoint() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void HttpEndpoint::OnConnection(tcp::socket socket, const std::string& peer) {
  const auto session = std::make_shared<Session>(std::move(socket), handlers_);
  // Everything runs on one thread, so the evicted session may be closed at once.
  auto slot = slots_.Admit(peer, [weak = std::weak_ptr(session)] {
    if (const auto evicted = weak.lock()) evicted->Close();
  });
  if (slot != nullptr) session->Start(std::move(slot));
}

void HttpEndpoint::Run() {
  pthread_setname_np(pthread_self(), "calibd-http");
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& failure) {
      // The connection whose handler threw is closed.
      spdlog::error("an HTTP connection failed: {}", failure.what());
    }
  }
}

}  // namespace calibd::server
