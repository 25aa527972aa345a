#include "server/net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/net/certificate_names.h"

namespace calibd::server {
namespace {

// The first byte of each handshake in TLS.
constexpr char kHandshakeRecord = 0x16;
// The bytes of a client without TLS that the log shows.
constexpr std::size_t kShownBytes = 24;
// The plain bytes of one record.
constexpr std::size_t kRecordBytes = 16 << 10;
// Largest chain of certificates that a client may send.
constexpr long kMaxChainBytes = 32 << 10;

// True if the client shows the certificate of the server itself.
bool ShowsOwnCertificate(const SSL* ssl, const X509* shown) {
  const X509* const own = SSL_get_certificate(ssl);
  return own != nullptr && X509_cmp(own, shown) == 0;
}

}  // namespace

// A BIO that reads the input of the session and appends to its output. It keeps no bytes, so that
// idle connections hold no buffers.
struct TlsSession::Bio {
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const made =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "calibd session");
      if (made == nullptr) throw std::bad_alloc();
      BIO_meth_set_read(made, Read);
      BIO_meth_set_write(made, Write);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return method;
  }

  static int Read(BIO* bio, char* bytes, int size) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session.too_many_key_updates_) return -1;
    if (session.input_.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t count = session.input_.copy(bytes, static_cast<std::size_t>(size));
    session.input_.remove_prefix(count);
    return static_cast<int>(count);
  }

  static int Write(BIO* bio, const char* bytes, int size) {
    const auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session.output_ == nullptr) return -1;
    try {
      session.output_->append(bytes, static_cast<std::size_t>(size));
    } catch (const std::exception&) {
      return -1;  // No exception may pass through OpenSSL.
    }
    return size;
  }

  static long Control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
};

TlsSession::TlsSession(SSL_CTX& context, TlsProtocol protocol)
    : protocol_(protocol), ssl_(SSL_new(&context), &SSL_free) {
  if (ssl_ == nullptr) throw std::bad_alloc();
  BIO* const bio = BIO_new(Bio::Method());
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_msg_callback(ssl_.get(), OnMessage);
  SSL_set_msg_callback_arg(ssl_.get(), this);
  SSL_set_max_cert_list(ssl_.get(), kMaxChainBytes);
  SSL_set_accept_state(ssl_.get());
}

TlsSession& TlsSession::Of(const SSL* ssl) {
  return *static_cast<TlsSession*>(SSL_get_app_data(ssl));
}

void TlsSession::OnMessage(int write, int /*version*/, int type, const void* /*bytes*/,
                           std::size_t /*size*/, SSL* /*ssl*/, void* session) {
  auto& self = *static_cast<TlsSession*>(session);
  // After the handshake, only key updates and attempts to renegotiate are handshake messages.
  if (write != 0 || type != SSL3_RT_HANDSHAKE || self.state_ != State::kOpen) return;
  if (!self.key_updates_.Take(TokenBucket::Time::clock::now())) self.too_many_key_updates_ = true;
}

std::size_t TlsSession::Receive(std::string_view received, std::span<char> plain,
                                std::string& to_peer) {
  if (received.empty() || state_ == State::kEnded || state_ == State::kFailed) return 0;
  if (!std::exchange(began_, true) && received.front() != kHandshakeRecord) {
    Fail(TlsFailure::kNotTls,
         absl::StrCat("the client does not use TLS, it sent ", Quoted(received, kShownBytes)));
    return 0;
  }
  input_ = received;
  output_ = &to_peer;
  std::size_t count = 0;
  while (state_ == State::kHandshake || state_ == State::kOpen) {
    // An error of another connection on this thread would otherwise be taken for one of this.
    ERR_clear_error();
    std::size_t read = 0;
    const int result = SSL_read_ex(ssl_.get(), plain.data() + count, plain.size() - count, &read);
    count += read;
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
    if (state_ == State::kHandshake && SSL_is_init_finished(ssl_.get()) == 1) FinishHandshake();
    if (error == SSL_ERROR_WANT_READ && input_.empty()) break;
    if (error == SSL_ERROR_ZERO_RETURN) {
      state_ = State::kEnded;
    } else if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ) {
      FailWithReason();
    }
  }
  input_ = {};
  output_ = nullptr;
  return count;
}

void TlsSession::FinishHandshake() {
  state_ = State::kOpen;
  const unsigned char* agreed = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &agreed, &size);
  if (protocol_ == TlsProtocol::kGrpc && size == 0) {
    Fail(TlsFailure::kWrongProtocol, "the client does not offer the protocol h2 (ALPN)");
    return;
  }
  const X509* const shown = SSL_get0_peer_certificate(ssl_.get());
  if (shown == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return;
  PeerIdentity identity;
  if (ShowsOwnCertificate(ssl_.get(), shown)) {
    identity.not_after = std::chrono::system_clock::time_point::max();
  } else {
    identity = {.names = CertificateNames(*shown), .not_after = NotAfter(*shown)};
  }
  identity_ = std::make_shared<const PeerIdentity>(std::move(identity));
}

void TlsSession::Send(std::span<const std::string_view> pieces, std::string& to_peer) {
  output_ = &to_peer;
  // Small pieces share a record.
  std::array<char, kRecordBytes> record;
  std::size_t filled = 0;
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const std::size_t count = std::min(kRecordBytes - filled, piece.size());
      if (count == kRecordBytes) {
        Encrypt(piece.substr(0, count));
      } else {
        piece.copy(record.data() + filled, count);
        filled += count;
      }
      piece.remove_prefix(count);
      if (filled == kRecordBytes) Encrypt({record.data(), std::exchange(filled, 0)});
    }
  }
  Encrypt({record.data(), filled});
  output_ = nullptr;
}

void TlsSession::Encrypt(std::string_view plain) {
  if (plain.empty() || state_ != State::kOpen) return;
  ERR_clear_error();
  std::size_t written = 0;
  if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1) FailWithReason();
}

void TlsSession::End(std::string& to_peer) {
  if (state_ != State::kOpen && state_ != State::kEnded) return;
  ERR_clear_error();
  output_ = &to_peer;
  static_cast<void>(SSL_shutdown(ssl_.get()));
  output_ = nullptr;
  ERR_clear_error();
}

void TlsSession::Fail(TlsFailure failure, std::string explanation) {
  state_ = State::kFailed;
  failure_ = failure;
  explanation_ = std::move(explanation);
}

void TlsSession::FailWithReason() {
  if (too_many_key_updates_) {
    Fail(TlsFailure::kTooManyKeyUpdates, "the client sent too many key updates");
    return;
  }
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  const char* const text = ERR_reason_error_string(error);
  ERR_clear_error();
  if (state_ == State::kOpen) {
    Fail(TlsFailure::kInvalidRecord, text != nullptr ? text : "a record is invalid");
    return;
  }
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      Fail(TlsFailure::kNoClientCertificate,
           "the client sent no certificate: it needs one of a CA of --tls-client-ca");
      break;
    case SSL_R_CERTIFICATE_VERIFY_FAILED: {
      const long fault = SSL_get_verify_result(ssl_.get());
      Fail(TlsFailure::kClientCertificateRefused,
           fault == X509_V_ERR_APPLICATION_VERIFICATION
               ? "the certificate has no URI and no DNS name as subject alternative name"
               : X509_verify_cert_error_string(fault));
      break;
    }
    case SSL_R_NO_APPLICATION_PROTOCOL:
      Fail(TlsFailure::kWrongProtocol, protocol_ == TlsProtocol::kGrpc
                                           ? "the client does not offer the protocol h2 (ALPN)"
                                           : "the client does not offer http/1.1 (ALPN)");
      break;
    default:
      Fail(TlsFailure::kHandshakeFailed, text != nullptr ? text : "the handshake is invalid");
  }
}

}  // namespace calibd::server
