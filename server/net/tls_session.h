#ifndef CALIBD_SERVER_NET_TLS_SESSION_H_
#define CALIBD_SERVER_NET_TLS_SESSION_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/base/token_bucket.h"
#include "server/net/peer_identity.h"

namespace calibd::server {

// The protocol inside TLS, which ALPN agrees on. A gRPC client must offer h2. An HTTP client may
// offer http/1.1, or nothing.
enum class TlsProtocol { kGrpc, kHttp };

// Why TLS ended a connection.
enum class TlsFailure {
  kNotTls,
  kTooSlow,
  kTooManyHandshakes,
  kNoClientCertificate,
  kClientCertificateRefused,
  kWrongProtocol,
  kHandshakeFailed,
  kInvalidRecord,
  kTooManyKeyUpdates,
};

// The server's side of TLS on one connection. It encrypts and decrypts bytes, does no I/O and never
// waits. Not thread-safe.
//
// Memory: about 20 KiB after the handshake, and up to 17 KiB more while a record is incomplete.
// During the handshake the peer's messages may take 32 KiB more.
class TlsSession {
 public:
  enum class State {
    kHandshake,
    kOpen,
    // The peer ended its side properly (close_notify).
    kEnded,
    // The connection must be closed once the last bytes are sent.
    kFailed,
  };

  // Receive may return so many bytes more than it is given: those of a record that was incomplete.
  static constexpr std::size_t kMaxKeptBytes = 20 << 10;
  // Key updates and attempts to renegotiate that a peer may send. Clients send none, or one in 2^24
  // records; each costs about 20 microseconds and an answer.
  static constexpr double kKeyUpdateRate = 1;
  static constexpr double kKeyUpdateBurst = 16;

  // context: made by TlsCertificates. Throws std::bad_alloc.
  TlsSession(SSL_CTX& context, TlsProtocol protocol);
  ~TlsSession() = default;
  // OpenSSL keeps the address of this object.
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // received: the next bytes of the peer; all of them are taken. plain: receives the decrypted
  // bytes, needs room for received.size() + kMaxKeptBytes. to_peer: bytes to be sent are appended,
  // also after a failure. Returns the number of decrypted bytes.
  [[nodiscard]] std::size_t Receive(std::string_view received, std::span<char> plain,
                                    std::string& to_peer);
  // Appends the encrypted form of the pieces to `to_peer`. Drops them unless the session is open.
  void Send(std::span<const std::string_view> pieces, std::string& to_peer);
  // Says that nothing more will be sent (close_notify).
  void End(std::string& to_peer);

  [[nodiscard]] State state() const noexcept { return state_; }
  // Valid after kFailed. explanation: printable, without anything of the peer except the first
  // bytes of a client that does not use TLS, which are escaped.
  [[nodiscard]] TlsFailure failure() const noexcept { return failure_; }
  [[nodiscard]] const std::string& explanation() const noexcept { return explanation_; }
  // The identity of the peer once the session is open; null without a certificate.
  [[nodiscard]] const std::shared_ptr<const PeerIdentity>& identity() const noexcept {
    return identity_;
  }

  // The callbacks of OpenSSL find the session, and thereby this.
  [[nodiscard]] TlsProtocol protocol() const noexcept { return protocol_; }
  // The session of an SSL object.
  [[nodiscard]] static TlsSession& Of(const SSL* ssl);

 private:
  struct Bio;

  void FinishHandshake();
  void Encrypt(std::string_view plain);
  void Fail(TlsFailure failure, std::string explanation);
  void FailWithReason();
  static void OnMessage(int write, int version, int type, const void* bytes, std::size_t size,
                        SSL* ssl, void* session);

  const TlsProtocol protocol_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  State state_ = State::kHandshake;
  bool began_ = false;
  // The bytes of the current Receive that OpenSSL has not read, and where it writes.
  std::string_view input_;
  std::string* output_ = nullptr;
  TokenBucket key_updates_{kKeyUpdateRate, kKeyUpdateBurst};
  bool too_many_key_updates_ = false;
  TlsFailure failure_ = TlsFailure::kHandshakeFailed;
  std::string explanation_;
  std::shared_ptr<const PeerIdentity> identity_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_TLS_SESSION_H_
