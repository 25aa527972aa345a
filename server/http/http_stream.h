#ifndef CALIBD_SERVER_HTTP_HTTP_STREAM_H_
#define CALIBD_SERVER_HTTP_HTTP_STREAM_H_

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_prefix.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/net/tls_session.h"

namespace calibd::server {

// The bytes of one HTTP connection, with or without TLS: a stream for Boost.Beast. Only one
// operation may run at a time, because with TLS a read may have to write.
class HttpStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Error = boost::beast::error_code;

  // tls: null without encryption.
  HttpStream(boost::asio::ip::tcp::socket socket, std::unique_ptr<TlsSession> tls)
      : tcp_(std::move(socket)), tls_(tls != nullptr ? new Tls(std::move(tls)) : nullptr) {}

  [[nodiscard]] executor_type get_executor() noexcept { return tcp_.get_executor(); }
  // Timeouts, and the socket. Bytes that are read from it are encrypted.
  [[nodiscard]] boost::beast::tcp_stream& tcp() noexcept { return tcp_; }
  // Null without encryption.
  [[nodiscard]] const TlsSession* tls() const noexcept {
    return tls_ != nullptr ? tls_->session.get() : nullptr;
  }

  // The handshake of TLS; requires tls(). handler: void(Error, std::size_t). After an error, tls()
  // says whether it failed, or whether the client has disconnected or was too slow.
  template <typename Handler>
  void AsyncHandshake(Handler handler) {
    Compose(ReadOperation<boost::asio::mutable_buffer>{*this, {}, true}, handler);
  }

  // Says in TLS that nothing more will be sent; does nothing without it. handler: void(Error,
  // std::size_t).
  template <typename Handler>
  void AsyncEnd(Handler handler) {
    if (tls_ != nullptr) tls_->session->End(tls_->sealed);
    Compose(FlushOperation{*this}, handler);
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      Compose(ReadOperation<Buffers>{*this, buffers, false}, handler);
    }
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
      return;
    }
    std::vector<std::string_view> pieces;
    const auto next = boost::beast::buffers_prefix(kWriteBytes, buffers);
    for (const boost::asio::const_buffer piece : boost::beast::buffers_range_ref(next)) {
      pieces.emplace_back(static_cast<const char*>(piece.data()), piece.size());
    }
    tls_->session->Send(pieces, tls_->sealed);
    Compose(FlushOperation{*this, boost::beast::buffer_bytes(next)}, handler);
  }

 private:
  static constexpr std::size_t kReadBytes = 16 << 10;
  static constexpr std::size_t kWriteBytes = 32 << 10;

  struct Tls {
    explicit Tls(std::unique_ptr<TlsSession> the_session) : session(std::move(the_session)) {}

    const std::unique_ptr<TlsSession> session;
    std::array<char, kReadBytes> received;
    std::array<char, kReadBytes + TlsSession::kMaxKeptBytes> plain;
    // The decrypted bytes that were not read, in `plain`.
    std::string_view unread;
    // Encrypted bytes to be sent.
    std::string sealed;
  };

  template <typename Operation, typename Handler>
  void Compose(Operation operation, Handler& handler) {
    boost::asio::async_compose<Handler, void(Error, std::size_t)>(std::move(operation), handler,
                                                                  tcp_);
  }

  // Writes the encrypted bytes, and completes with the number of plain bytes that they contain.
  struct FlushOperation {
    HttpStream& stream;
    std::size_t plain_bytes = 0;
    bool done = false;

    template <typename Self>
    void operator()(Self& self, Error error = {}, std::size_t /*written*/ = 0) {
      Tls* const tls = stream.tls_.get();
      if (!std::exchange(done, true)) {
        if (tls != nullptr && !tls->sealed.empty()) {
          boost::asio::async_write(stream.tcp_, boost::asio::buffer(tls->sealed), std::move(self));
        } else {
          // The handler may not run within the call that started the operation.
          boost::asio::post(stream.get_executor(), std::move(self));
        }
        return;
      }
      if (tls != nullptr) {
        tls->sealed.clear();
        if (tls->session->state() == TlsSession::State::kFailed) error = Aborted();
      }
      self.complete(error, error ? 0 : plain_bytes);
    }
  };

  // Reads until there are decrypted bytes, or until the handshake is done.
  template <typename Buffers>
  struct ReadOperation {
    enum class Step { kBegin, kPosted, kRead, kReplied };

    HttpStream& stream;
    Buffers buffers;
    bool handshake = false;
    Step step = Step::kBegin;

    template <typename Self>
    void operator()(Self& self, Error error = {}, std::size_t count = 0) {
      Tls& tls = *stream.tls_;
      switch (step) {
        case Step::kBegin:
          if (IsDone(tls)) {
            step = Step::kPosted;
            boost::asio::post(stream.get_executor(), std::move(self));
            return;
          }
          break;
        case Step::kPosted:
          Complete(self, tls);
          return;
        case Step::kRead: {
          if (error) {
            self.complete(error, 0);
            return;
          }
          const std::size_t plain =
              tls.session->Receive({tls.received.data(), count}, tls.plain, tls.sealed);
          tls.unread = {tls.plain.data(), plain};
          if (!tls.sealed.empty()) {
            step = Step::kReplied;
            boost::asio::async_write(stream.tcp_, boost::asio::buffer(tls.sealed), std::move(self));
            return;
          }
          [[fallthrough]];
        }
        case Step::kReplied:
          tls.sealed.clear();
          if (error) {
            self.complete(error, 0);
            return;
          }
          if (IsDone(tls)) {
            Complete(self, tls);
            return;
          }
          break;
      }
      step = Step::kRead;
      stream.tcp_.async_read_some(boost::asio::buffer(tls.received), std::move(self));
    }

    [[nodiscard]] bool IsDone(const Tls& tls) const {
      switch (tls.session->state()) {
        case TlsSession::State::kHandshake:
          return false;
        case TlsSession::State::kOpen:
          return handshake || !tls.unread.empty();
        case TlsSession::State::kEnded:
        case TlsSession::State::kFailed:
          break;
      }
      return true;
    }

    template <typename Self>
    void Complete(Self& self, Tls& tls) {
      const std::size_t count = boost::asio::buffer_copy(
          buffers, boost::asio::buffer(tls.unread.data(), tls.unread.size()));
      tls.unread.remove_prefix(count);
      Error error;
      if (tls.session->state() == TlsSession::State::kFailed) {
        error = Aborted();
      } else if (tls.session->state() == TlsSession::State::kEnded && count == 0) {
        error = boost::asio::error::eof;
      }
      self.complete(error, count);
    }
  };

  static Error Aborted() { return boost::asio::error::connection_aborted; }

  boost::beast::tcp_stream tcp_;
  // Null without encryption.
  const std::unique_ptr<Tls> tls_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_STREAM_H_
