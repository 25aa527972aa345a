#ifndef CALIBD_SERVER_NET_TLS_CERTIFICATES_H_
#define CALIBD_SERVER_NET_TLS_CERTIFICATES_H_

#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::server {

// The files of TLS, all in PEM.
struct TlsFiles {
  // The certificate of the server, followed by those of its intermediate CAs.
  std::string certificate;
  std::string key;
  // The CAs of the clients; empty: no client is asked for a certificate.
  std::string client_ca;
  // Whether a client without a certificate is refused. Not used if client_ca is empty.
  bool client_certificate_required = true;
};

// The certificates of the server, which it reads again when the files have changed. Thread-safe.
//
// The settings of TLS: versions 1.2 and 1.3, in 1.2 only ciphers with ECDHE and AEAD; no session is
// resumed, because a resumed one would skip the client's certificate; no renegotiation, no
// compression.
class TlsCertificates {
 public:
  static constexpr std::chrono::seconds kReloadInterval{10};

  // Reads the files. Errors: InvalidArgument naming the flag and the file.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TlsCertificates>> Load(TlsFiles files);
  ~TlsCertificates();
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // Starts a thread that calls Reload every kReloadInterval. Call it once.
  void StartReloading();
  // Reads the files again. If their contents have changed, new connections use them; if they cannot
  // be used, for example because the key does not belong to the certificate, the old ones stay, and
  // a warning is logged once for these contents.
  void Reload();

  // The settings for a new connection; never null. It keeps them even if they change.
  [[nodiscard]] std::shared_ptr<SSL_CTX> context() const;
  // The end of the validity of the current certificate.
  [[nodiscard]] std::chrono::system_clock::time_point not_after() const;

 private:
  // What the files contain.
  struct Contents;
  struct Loaded {
    std::shared_ptr<SSL_CTX> context;
    std::chrono::system_clock::time_point not_after;
  };

  explicit TlsCertificates(TlsFiles files) : files_(std::move(files)) {}
  [[nodiscard]] absl::StatusOr<Contents> Read() const;
  [[nodiscard]] absl::StatusOr<Loaded> Parse(const Contents& contents) const;
  void Run();

  const TlsFiles files_;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  Loaded loaded_;      // guarded by mutex_
  // The digest of the newest contents that Reload has dealt with, or the error that prevented
  // reading them. Only Load and Reload use it.
  std::string digest_;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_TLS_CERTIFICATES_H_
