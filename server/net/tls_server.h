#ifndef CALIBD_SERVER_NET_TLS_SERVER_H_
#define CALIBD_SERVER_NET_TLS_SERVER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/base/token_bucket.h"
#include "server/net/tls_certificates.h"
#include "server/net/tls_session.h"

namespace calibd::server {

// TLS of both ports: begins the sessions of connections, limits the handshakes of each address,
// counts the failures and logs one of them in 10 s. Thread-safe.
class TlsServer {
 public:
  // Maximum time for a handshake.
  static constexpr std::chrono::seconds kHandshakeTimeout{5};
  // Handshakes of one address. One with an RSA key of 2048 bits takes about a millisecond of CPU.
  static constexpr double kHandshakeRate = 100;
  static constexpr double kHandshakeBurst = 300;
  // The names of TlsFailure.
  static constexpr std::array kFailures{
      "not_tls",          "handshake_too_slow",  "too_many_handshakes",
      "no_certificate",   "certificate_refused", "wrong_protocol",
      "handshake_failed", "invalid_record",      "too_many_key_updates"};

  explicit TlsServer(std::unique_ptr<TlsCertificates> certificates)
      : certificates_(std::move(certificates)) {}

  // Returns the session of a new connection, or null if its address begins too many: then the
  // connection must be closed. address: the address by which connections are counted.
  [[nodiscard]] std::unique_ptr<TlsSession> Begin(TlsProtocol protocol, const std::string& address);
  // Counts a failure. peer: the address of the client. explanation: printable.
  void CountFailure(TlsFailure failure, std::string_view explanation, std::string_view peer);

  [[nodiscard]] std::int64_t failures(std::size_t failure) const { return failures_[failure]; }
  [[nodiscard]] TlsCertificates& certificates() noexcept { return *certificates_; }
  [[nodiscard]] const TlsCertificates& certificates() const noexcept { return *certificates_; }

 private:
  [[nodiscard]] bool TakeHandshake(const std::string& address);

  const std::unique_ptr<TlsCertificates> certificates_;
  std::array<std::atomic<std::int64_t>, kFailures.size()> failures_{};
  std::mutex mutex_;
  // The handshakes of the addresses that have begun some a moment ago; guarded by mutex_.
  std::unordered_map<std::string, TokenBucket> handshakes_;
  std::size_t cleanup_size_ = 0;    // guarded by mutex_
  TokenBucket::Time next_warning_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_TLS_SERVER_H_
