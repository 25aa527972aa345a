#include "server/http/http_endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/api/guard.h"
#include "server/base/errors.h"
#include "server/base/listen_address.h"
#include "server/http/http_error.h"
#include "server/http/http_stream.h"
#include "server/http/json_api.h"
#include "server/http/json_call.h"
#include "server/http/login.h"
#include "server/net/peer_identity.h"

namespace calibd::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;

// Time from the start of waiting for a request to the end of its header; also the longest idle time
// between two requests.
constexpr std::chrono::seconds kHeaderDeadline{5};
constexpr std::chrono::seconds kWriteDeadline{10};
constexpr std::chrono::seconds kBodyDeadline{30};
// Bytes of a body that one read may take, and so the size of the buffer of a connection.
constexpr std::size_t kMostBodyBytesAtOnce = std::size_t{64} << 10;
// The response that a client may await before it sends a body.
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// Browsers use https for a year, also for links with http.
constexpr char kStrictTransport[] = "max-age=31536000";
constexpr std::string_view kEventsHeader =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    // The time in ms after which a browser connects again.
    "retry: 1000\n";
// Time for which a connection that calibd has ended is read.
constexpr std::chrono::seconds kLinger{2};
// Time between two comments in a stream of events without events.
constexpr std::chrono::seconds kHeartbeat{15};
// Time between two looks whether the client of a computation or a stream of events is still there.
constexpr std::chrono::milliseconds kClosedCheck{100};
// Number of connections on which only health checks are served.
constexpr std::size_t kReservedConnections = 8;

ConnectionSlots::Limits SlotLimits(std::size_t max_connections) {
  return {.total = max_connections,
          .per_address = std::max<std::size_t>(1, max_connections / 2),
          .reserve = kReservedConnections};
}

std::string_view Text(const beast::string_view& text) { return {text.data(), text.size()}; }

}  // namespace

// One connection. Lives while an operation on it is pending.
class HttpEndpoint::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::unique_ptr<TlsSession> tls, HttpEndpoint& endpoint)
      : stream_(std::move(socket), std::move(tls)),
        endpoint_(endpoint),
        timer_(stream_.get_executor()) {
    beast::error_code ignored;
    const tcp::endpoint peer = stream_.tcp().socket().remote_endpoint(ignored);
    client_.address = FormatAddress(peer);
  }
  ~Session() { EndCall(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start(std::unique_ptr<ConnectionSlots::Slot> slot, std::shared_ptr<Queues> queues) {
    slot_ = std::move(slot);
    queues_ = std::move(queues);
    stream_.tls() == nullptr ? Read() : BeginTls();
  }

  // Cancels pending operations.
  void Close() {
    stream_.tcp().close();
    timer_.cancel();
  }

 private:
  void BeginTls() {
    stream_.tcp().expires_after(TlsServer::kHandshakeTimeout);
    stream_.AsyncHandshake([self = shared_from_this()](const beast::error_code& error,
                                                       std::size_t) { self->EndHandshake(error); });
  }

  void EndHandshake(const beast::error_code& error) {
    const TlsSession& tls = *stream_.tls();
    if (tls.state() == TlsSession::State::kFailed) {
      endpoint_.tls_->CountFailure(tls.failure(), tls.explanation(), client_.address);
      Shut();
    } else if (error) {
      if (error == beast::error::timeout) {
        endpoint_.tls_->CountFailure(TlsFailure::kTooSlow, "the handshake took too long",
                                     client_.address);
      }
    } else {
      identity_ = tls.identity();
      client_.tls = true;
      if (identity_ != nullptr) client_.certificate_names = identity_->names;
      Read();
    }
  }

  // True if the certificate of the client is no longer valid.
  [[nodiscard]] bool HasExpired() const {
    return identity_ != nullptr && std::chrono::system_clock::now() >= identity_->not_after;
  }

  void Read() {
    slot_->SetIdle(true);
    if (HasExpired()) {
      Shut();
      return;
    }
    // An idle connection keeps no buffer of a body.
    buffer_.shrink_to_fit();
    parser_.emplace();
    LimitRequest(*parser_, endpoint_.api_.max_body_bytes);
    stream_.tcp().expires_after(kHeaderDeadline);
    // Reads only the header: Beast 1.74 asserts on some chunked bodies, which are refused.
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](const beast::error_code& error,
                                                        std::size_t) { self->OnHeader(error); });
  }

  void OnHeader(const beast::error_code& error) {
    const HttpRequest& request = parser_->get();
    target_ = Text(request.target());
    if (error) {
      FailToRead(error);
      return;
    }
    timed_.emplace(RouteOf(request));
    slot_->SetIdle(false);
    try {
      const bool restricted = !IsHealthCheck(request) && slot_->restricted();
      const bool reads =
          request.method() == http::verb::get || request.method() == http::verb::head;
      if (IsJsonPath(target_)) {
        BeginCall(restricted);
      } else if (IsLogin(request)) {
        BeginLogin(restricted);
      } else if (const beast::error_code body = CheckNoBody(*parser_); body && reads) {
        FailToRead(body);
      } else {
        Write(AnswerRequest(request, endpoint_.handlers_, client_, restricted),
              request.keep_alive());
      }
    } catch (const std::exception& failure) {
      spdlog::error("an HTTP request failed: {}", failure.what());
      Fail(absl::InternalError("internal error"));
    }
  }

  // Serves a request to the API, of which the header was read.
  void BeginCall(bool restricted) {
    const HttpRequest& header = parser_->get();
    request_ = {.last_event = std::string(header["Last-Event-ID"]), .event = EventOf(header)};
    const auto route = FindJsonRoute(header.method(), target_, request_);
    if (route.ok()) timed_->route.path = TemplateOf(**route);
    request_.identity = CallerOf(header, client_, timed_->route.path, endpoint_.handlers_.access);
    absl::Status allowed = CheckRequest(header, endpoint_.handlers_.hosts, restricted);
    allowed.Update(request_.identity.status());
    allowed.Update(route.status());
    if (allowed.ok()) allowed = CheckWrite(header, client_.tls, (*route)->cloud_event);
    if (!allowed.ok()) {
      Fail(allowed);
      return;
    }
    route_ = *route;
    keep_alive_ = header.keep_alive();
    if (header.method() != http::verb::post) {
      Serve(CheckNoBody(*parser_));
      return;
    }
    const std::uint64_t length = parser_->content_length().value_or(0);
    body_memory_ = std::make_unique<CallReservation>(endpoint_.api_.memory, client_.address);
    if (absl::Status reserved = body_memory_->Add(length); !reserved.ok()) {
      Fail(reserved);
      return;
    }
    const bool waits =
        header.version() >= 11 && beast::iequals(header[http::field::expect], "100-continue");
    body_.emplace(*std::move(parser_));
    // Until the body is complete, the connection may be evicted for another one.
    slot_->SetIdle(true);
    stream_.tcp().expires_after(kBodyDeadline);
    if (!waits) {
      ReadBody();
      return;
    }
    boost::asio::async_write(
        stream_, boost::asio::buffer(kContinue),
        [self = shared_from_this()](const beast::error_code& error, std::size_t) {
          error ? self->Serve(error) : self->ReadBody();
        });
  }

  // Serves the form for a token, which is sent from the page that AnswerLogin returns.
  void BeginLogin(bool restricted) {
    const HttpRequest& header = parser_->get();
    absl::Status allowed = CheckLogin(header, endpoint_.handlers_.hosts, client_.tls, restricted);
    if (allowed.ok() && parser_->content_length().value_or(0) > kMaxLoginBytes) {
      allowed = ReadError(http::error::body_limit);
    }
    if (!allowed.ok()) {
      Fail(allowed);
      return;
    }
    login_ = true;
    body_.emplace(*std::move(parser_));
    slot_->SetIdle(true);
    stream_.tcp().expires_after(kHeaderDeadline);
    ReadBody();
  }

  void ReadBody() {
    // Beast reads as much at once as the buffer has room for.
    buffer_.max_size(kMostBodyBytesAtOnce);
    buffer_.reserve(std::min<std::uint64_t>(body_->content_length().value_or(kMostBodyBytesAtOnce),
                                            kMostBodyBytesAtOnce));
    http::async_read(stream_, buffer_, *body_,
                     [self = shared_from_this()](const beast::error_code& error, std::size_t) {
                       if (!error) self->request_.body = std::move(self->body_->get().body());
                       self->login_ ? self->ServeLogin(error) : self->Serve(error);
                     });
  }

  void ServeLogin(const beast::error_code& error) {
    login_ = false;
    if (error) {
      FailToRead(error);
      return;
    }
    slot_->SetIdle(false);
    Write(LogIn(body_->get(), request_.body, endpoint_.handlers_.access, client_), false);
  }

  // Posts the call to a thread that parses requests.
  void Serve(const beast::error_code& error) {
    if (error) {
      FailToRead(error);
      return;
    }
    // The body may have taken long. The API checks what the policy says meanwhile.
    if (HasExpired()) {
      Shut();
      return;
    }
    slot_->SetIdle(false);
    if (route_->events) {
      std::string owner = OwnerOf(request_.identity, CallerAddress(client_.address));
      if (!endpoint_.event_streams_.Take(owner)) {
        Fail(TooManyEventStreamsError(endpoint_.event_streams_, owner));
        return;
      }
      counted_ = std::move(owner);
    }
    if (absl::Status begun = endpoint_.AdmitCall(); !begun.ok()) {
      Fail(begun);
      return;
    }
    begun_ = true;
    call_ =
        std::make_shared<JsonCall>(endpoint_.api_.memory, client_.address, *route_,
                                   [executor = stream_.get_executor(), weak = weak_from_this()] {
                                     boost::asio::post(executor, [weak] {
                                       if (const auto self = weak.lock()) self->Continue();
                                     });
                                   });
    const std::size_t bytes = request_.body.size();
    const bool has_body = body_memory_ != nullptr;
    auto task = [&api = endpoint_.api_.api, route = route_, call = call_, peer = client_.address,
                 http_request = std::make_shared<const JsonRequest>(std::move(request_)),
                 // Released once the request is passed on; null without a body.
                 memory = std::shared_ptr<CallReservation>(std::move(body_memory_))] {
      const char* const part = memory != nullptr ? "HttpBody" : "Http";
      absl::Status status = Guarded(part, Stage::kStart, [&]() -> absl::Status {
        if (memory != nullptr) {
          CALIBD_RETURN_IF_ERROR(memory->Add(http_request->body.size() * route->memory_per_byte));
        }
        return route->serve(api, *http_request, peer, call);
      });
      if (!status.ok()) call->End(std::move(status), nullptr);
    };
    if (!has_body) {
      queues_->without_body.Post(std::move(task));
    } else if (bytes <= endpoint_.api_.parsing_bytes / endpoint_.api_.parsing_threads /
                            route_->memory_per_byte) {
      endpoint_.small_bodies_.Post({.run = std::move(task)}, queues_->small_bodies);
      queues_->small_bodies += bytes;
    } else {
      queues_->large_bodies.Post(std::move(task));
    }
    stream_.tcp().expires_never();
    Wait();
  }

  // True if the client has closed its side of the connection. A read would not see it behind a
  // further request.
  [[nodiscard]] bool HasClosed() {
    tcp_info info{};
    socklen_t size = sizeof(info);
    return getsockopt(stream_.tcp().socket().native_handle(), IPPROTO_TCP, TCP_INFO, &info,
                      &size) != 0 ||
           info.tcpi_state != TCP_ESTABLISHED;
  }

  // Waits for the next step of the call. The wait keeps this object alive.
  void Wait() {
    waiting_ = true;
    timer_.expires_after(kClosedCheck);
    timer_.async_wait([self = shared_from_this()](const beast::error_code& error) {
      if (error || !self->waiting_) return;
      const bool ends_with_client = self->route_->computes || self->route_->events;
      if (ends_with_client && (self->HasClosed() || self->HasExpired())) {
        self->waiting_ = false;
        self->Shut();
      } else if (self->began_events_ &&
                 std::chrono::steady_clock::now() >= self->wrote_ + kHeartbeat) {
        self->waiting_ = false;
        // A comment, for proxies that close idle connections.
        self->WriteEvents({}, ":\n\n", false);
      } else {
        self->Wait();
      }
    });
  }

  // Takes the next step of the call, unless the former one is still being written.
  void Continue() {
    if (!waiting_ || call_ == nullptr) return;
    JsonCall::Step step = call_->Take();
    if (!step.text.has_value() && !step.end.has_value()) return;
    waiting_ = false;
    timer_.cancel();
    try {
      if (route_->events) {
        WriteStep(std::move(step));
      } else if (step.end.has_value() && !step.end->ok()) {
        Fail(*step.end);
      } else {
        text_.memory = std::move(step.text->memory);
        Write(MakeHttpResponse(http::status::ok, std::move(step.text->text), kJsonType),
              keep_alive_);
      }
    } catch (const std::exception& failure) {
      spdlog::error("an HTTP response failed: {}", failure.what());
      Fail(absl::InternalError("internal error"));
    }
  }

  // Writes one step of a stream of events.
  void WriteStep(JsonCall::Step step) {
    const bool failed = step.end.has_value() && !step.end->ok();
    if (failed && !began_events_) {
      Fail(*step.end);
      return;
    }
    if (step.text.has_value()) text_ = *std::move(step.text);
    WriteEvents(std::exchange(began_events_, true) ? std::string_view() : kEventsHeader,
                failed ? "event: error\ndata: " + JsonErrorText(*step.end) + "\n\n" : "",
                step.end.has_value());
    timed_->status = static_cast<unsigned>(http::status::ok);
  }

  // Writes the header, text_ and then `last`; all but `last` may be empty.
  void WriteEvents(std::string_view header, std::string last, bool end) {
    last_text_ = std::move(last);
    stream_.tcp().expires_after(kWriteDeadline);
    const std::array<boost::asio::const_buffer, 3> parts{boost::asio::buffer(header),
                                                         boost::asio::buffer(text_.text),
                                                         boost::asio::buffer(last_text_)};
    boost::asio::async_write(
        stream_, parts,
        [self = shared_from_this(), end](const beast::error_code& error, std::size_t) {
          self->text_ = {};
          if (error || end) {
            self->Shut();
            return;
          }
          self->wrote_ = std::chrono::steady_clock::now();
          self->stream_.tcp().expires_never();
          self->Wait();
          self->call_->Taken();
          self->Continue();
        });
  }

  void Fail(const absl::Status& status) { Write(AnswerError(status, target_), false); }

  // Nothing can be sent to a peer that has disconnected.
  void FailToRead(const beast::error_code& error) {
    const absl::Status status = ReadError(error);
    if (!absl::IsCancelled(status)) Fail(status);
  }

  void Write(HttpResponse response, bool keep_alive) {
    const bool parsed = parser_.has_value() && parser_->is_header_done();
    const bool head = parsed && parser_->get().method() == http::verb::head;
    // The connection of a refused request is closed.
    const bool served =
        response.result() == http::status::ok || response.result() == http::status::not_modified;
    keep_alive = keep_alive && served;
    FinishResponse(response, keep_alive, head);
    if (stream_.tls() != nullptr) {
      response.set(http::field::strict_transport_security, kStrictTransport);
    }
    // The header of a malformed request has no route.
    if (!timed_.has_value()) timed_.emplace(HttpRoute());
    timed_->status = response.result_int();
    response_ = std::move(response);
    stream_.tcp().expires_after(kWriteDeadline);
    http::async_write(
        stream_, response_,
        [self = shared_from_this(), keep_alive](const beast::error_code& error, std::size_t) {
          self->response_ = {};
          self->EndCall();
          if (!error && keep_alive) {
            self->Read();
          } else {
            self->Shut();
          }
        });
  }

  void Shut() {
    EndCall();
    slot_->SetIdle(true);
    stream_.tcp().expires_after(kLinger);
    stream_.AsyncEnd([self = shared_from_this()](const beast::error_code&, std::size_t) {
      beast::error_code ignored;
      self->stream_.tcp().socket().shutdown(tcp::socket::shutdown_send, ignored);
      self->Discard();
    });
  }

  // Reads what the client still sends. If the socket were closed with unread bytes, the client
  // might lose the response.
  void Discard() {
    buffer_.clear();
    stream_.tcp().async_read_some(
        buffer_.prepare(kMaxHttpHeaderBytes),
        [self = shared_from_this()](const beast::error_code& error, std::size_t) {
          if (!error) self->Discard();
        });
  }

  void EndCall() {
    if (timed_.has_value()) {
      endpoint_.handlers_.requests.Handled(timed_->route, timed_->status,
                                           std::chrono::steady_clock::now() - timed_->began);
      timed_.reset();
    }
    if (call_ != nullptr) call_->Disconnect();
    call_.reset();
    body_.reset();
    body_memory_.reset();
    text_ = {};
    if (counted_.has_value()) endpoint_.event_streams_.Return(*std::exchange(counted_, {}));
    if (std::exchange(begun_, false)) endpoint_.ReleaseCall();
  }

  // The request that is being served, for the statistics.
  struct Timed {
    explicit Timed(HttpRoute requested) : route(std::move(requested)) {}
    HttpRoute route;
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
    unsigned status = HttpStatistics::kClientGone;
  };

  HttpStream stream_;
  HttpEndpoint& endpoint_;
  std::unique_ptr<ConnectionSlots::Slot> slot_;
  std::shared_ptr<Queues> queues_;
  // Null without a certificate of the client.
  std::shared_ptr<const PeerIdentity> identity_;
  HttpPeer client_;
  // Larger than the limit of a header, so that the parser and not the buffer refuses it.
  beast::flat_buffer buffer_{std::size_t{2} * kMaxHttpHeaderBytes};
  std::optional<HttpParser> parser_;
  // The target of the request; empty if it was not read.
  std::string target_;
  HttpResponse response_;
  std::optional<Timed> timed_;

  // The call of the API that is being served.
  std::optional<http::request_parser<http::string_body>> body_;
  std::unique_ptr<CallReservation> body_memory_;
  JsonRequest request_;
  const JsonRoute* route_ = nullptr;
  bool keep_alive_ = false;
  // The body that is read is that of a login.
  bool login_ = false;
  std::shared_ptr<JsonCall> call_;
  boost::asio::steady_timer timer_;
  bool waiting_ = false;
  std::optional<std::string> counted_;  // the caller whose share this stream of events takes
  bool begun_ = false;
  bool began_events_ = false;
  // The end of the last write of a stream of events.
  std::chrono::steady_clock::time_point wrote_;
  // What is being written of a stream of events; otherwise only the memory of the response.
  JsonCall::Text text_;
  std::string last_text_;
};

HttpEndpoint::HttpEndpoint(std::size_t max_connections, HttpHandlers handlers, const HttpApi& api,
                           TlsServer* tls)
    : handlers_(std::move(handlers)),
      api_(api),
      tls_(tls),
      event_streams_(api.max_event_streams),
      slots_(SlotLimits(max_connections)),
      small_bodies_("calibd-json", api.parsing_threads) {}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& listen,
                                                                  std::size_t max_connections,
                                                                  HttpHandlers handlers,
                                                                  const HttpApi& api,
                                                                  TlsServer* tls) {
  CALIBD_ASSIGN_OR_RETURN(const auto endpoint, ParseListenAddress(listen));
  std::unique_ptr<HttpEndpoint> result(
      new HttpEndpoint(max_connections, std::move(handlers), api, tls));
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

absl::Status HttpEndpoint::AdmitCall() {
  const std::lock_guard lock(mutex_);
  if (draining_) return DrainingError();
  ++calls_;
  return absl::OkStatus();
}

void HttpEndpoint::ReleaseCall() noexcept {
  const std::lock_guard lock(mutex_);
  if (--calls_ == 0) ended_.notify_all();
}

void HttpEndpoint::Drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  ended_.wait_until(lock, deadline, [this] { return calls_ == 0; });
}

void HttpEndpoint::OnConnection(tcp::socket socket, const std::string& peer) {
  std::unique_ptr<TlsSession> tls;
  if (tls_ != nullptr) {
    tls = tls_->Begin(TlsProtocol::kHttp, peer);
    if (tls == nullptr) return;
  }
  const auto session = std::make_shared<Session>(std::move(socket), std::move(tls), *this);
  // Everything runs on one thread, so the evicted session may be closed at once.
  auto slot = slots_.Admit(peer, [weak = std::weak_ptr(session)] {
    if (const auto evicted = weak.lock()) evicted->Close();
  });
  if (slot != nullptr) session->Start(std::move(slot), QueuesOf(peer));
}

std::shared_ptr<HttpEndpoint::Queues> HttpEndpoint::QueuesOf(const std::string& peer) {
  std::erase_if(queues_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Queues>& known = queues_[peer];
  std::shared_ptr<Queues> queues = known.lock();
  if (queues == nullptr) known = queues = std::make_shared<Queues>(large_bodies_, without_body_);
  return queues;
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
