#include "server/net/tls_certificates.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/read_file.h"
#include "server/net/certificate_names.h"
#include "server/net/tls_session.h"

namespace calibd::server {
namespace {

// Far more than any bundle of CAs.
constexpr std::size_t kMaxFileBytes = 4 << 20;
// ECDHE for forward secrecy, AEAD for integrity; those of TLS 1.3 are all of this kind.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr char kGroups[] = "X25519:P-256:P-384";

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using PemText = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

absl::Status FileError(const char* flag, const std::string& path, std::string_view fault) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", path, absl::string_view(fault.data(), fault.size())));
}

absl::StatusOr<std::string> ReadPem(const char* flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return FileError(flag, path,
                     absl::StrCat(" cannot be read: ", std::string(text.status().message())));
  }
  if (text->empty()) return FileError(flag, path, " is empty; expected PEM");
  return text;
}

PemText OpenText(const std::string& text) {
  PemText bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free_all);
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}

// The passphrase of a file. OpenSSL would otherwise ask for it on the terminal.
int NoPassphrase(char* /*text*/, int /*size*/, int /*write*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return 0;
}

// Returns at least one certificate.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const char* flag,
                                                           const std::string& path,
                                                           const std::string& text) {
  const PemText bytes = OpenText(text);
  bool asked = false;
  std::vector<Certificate> certificates;
  while (true) {
    ERR_clear_error();
    Certificate certificate(PEM_read_bio_X509(bytes.get(), nullptr, NoPassphrase, &asked),
                            &X509_free);
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !at_end) {
    return FileError(flag, path,
                     certificates.empty() ? " contains no certificate in PEM"
                                          : " contains a certificate that is damaged");
  }
  return certificates;
}

absl::StatusOr<Key> ParseKey(const std::string& path, const std::string& text) {
  const PemText bytes = OpenText(text);
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, NoPassphrase, &asked), &EVP_PKEY_free);
  ERR_clear_error();
  if (key == nullptr) {
    return FileError("--tls-key", path,
                     asked
                         ? " is encrypted; store it without a passphrase, readable for calibd only"
                         : " contains no private key in PEM");
  }
  return key;
}

void WarnOfReadableKey(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) == 0 && (file.st_mode & S_IROTH) != 0) {
    spdlog::warn("every user of this machine can read --tls-key {}: run chmod o= on it", path);
  }
}

int ChooseProtocol(SSL* ssl, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned int offered_size, void* /*unused*/) {
  const bool grpc = TlsSession::Of(ssl).protocol() == TlsProtocol::kGrpc;
  const std::string_view wanted = grpc ? "\x02h2" : "\x08http/1.1";
  unsigned char* match = nullptr;
  if (SSL_select_next_proto(&match, size, reinterpret_cast<const unsigned char*>(wanted.data()),
                            static_cast<unsigned int>(wanted.size()), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = match;
  return SSL_TLSEXT_ERR_OK;
}

// Called for each certificate of a client's chain, and for each fault of one.
int CheckClient(int valid, X509_STORE_CTX* chain) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const X509* const shown = X509_STORE_CTX_get0_cert(chain);
  const X509* const own = SSL_get_certificate(ssl);
  // Whoever has the key of the server, such as its own health check, need not prove anything more.
  if (shown != nullptr && own != nullptr && X509_cmp(shown, own) == 0) {
    X509_STORE_CTX_set_error(chain, X509_V_OK);
    return 1;
  }
  if (valid != 1 || X509_STORE_CTX_get_error_depth(chain) > 0) return valid;
  try {
    if (shown != nullptr && !CertificateNames(*shown).empty()) return 1;
  } catch (const std::exception&) {
    // No exception may pass through OpenSSL.
  }
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  // A retried write may come from another address, and an idle connection keeps no buffers.
  SSL_CTX_set_mode(raw, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(raw, ChooseProtocol, nullptr);
  if (SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(raw, 0) != 1 || SSL_CTX_set_cipher_list(raw, kCiphers) != 1 ||
      SSL_CTX_set1_groups_list(raw, kGroups) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        "the configuration of OpenSSL on this machine permits none of calibd's ciphers: TLS 1.2 "
        "with ECDHE and AES-GCM or ChaCha20 is needed");
  }
  return context;
}

}  // namespace

struct TlsCertificates::Contents {
  std::string certificate;
  std::string key;
  std::string client_ca;

  // Different for different contents.
  [[nodiscard]] std::string Digest() const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                       &EVP_MD_CTX_free);
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    bool done = hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1;
    for (const std::string* const text : {&certificate, &key, &client_ca}) {
      const std::uint64_t length = text->size();
      done = done && EVP_DigestUpdate(hash.get(), &length, sizeof(length)) == 1 &&
             EVP_DigestUpdate(hash.get(), text->data(), text->size()) == 1;
    }
    if (!done || EVP_DigestFinal_ex(hash.get(), digest.data(), &size) != 1) throw std::bad_alloc();
    return {reinterpret_cast<const char*>(digest.data()), size};
  }
};

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Load(TlsFiles files) {
  std::unique_ptr<TlsCertificates> result(new TlsCertificates(std::move(files)));
  CALIBD_ASSIGN_OR_RETURN(const Contents contents, result->Read());
  CALIBD_ASSIGN_OR_RETURN(result->loaded_, result->Parse(contents));
  result->digest_ = contents.Digest();
  WarnOfReadableKey(result->files_.key);
  return result;
}

TlsCertificates::~TlsCertificates() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TlsCertificates::StartReloading() {
  thread_ = std::thread([this] { Run(); });
}

void TlsCertificates::Run() {
  pthread_setname_np(pthread_self(), "calibd-tls");
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kReloadInterval, [this] { return stop_; })) {
    lock.unlock();
    try {
      Reload();
    } catch (const std::exception& failure) {
      spdlog::error("the certificates were not read again: {}", failure.what());
    }
    lock.lock();
  }
}

absl::StatusOr<TlsCertificates::Contents> TlsCertificates::Read() const {
  Contents contents;
  CALIBD_ASSIGN_OR_RETURN(contents.certificate, ReadPem("--tls-certificate", files_.certificate));
  CALIBD_ASSIGN_OR_RETURN(contents.key, ReadPem("--tls-key", files_.key));
  if (!files_.client_ca.empty()) {
    CALIBD_ASSIGN_OR_RETURN(contents.client_ca, ReadPem("--tls-client-ca", files_.client_ca));
  }
  return contents;
}

absl::StatusOr<TlsCertificates::Loaded> TlsCertificates::Parse(const Contents& contents) const {
  CALIBD_ASSIGN_OR_RETURN(
      const std::vector<Certificate> chain,
      ParseCertificates("--tls-certificate", files_.certificate, contents.certificate));
  CALIBD_ASSIGN_OR_RETURN(const Key key, ParseKey(files_.key, contents.key));
  CALIBD_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> context, MakeContext());
  SSL_CTX* const raw = context.get();
  ERR_clear_error();
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return FileError("--tls-key", files_.key,
                     absl::StrCat(" does not belong to the first certificate of --tls-certificate ",
                                  files_.certificate));
  }
  bool used = SSL_CTX_use_certificate(raw, chain.front().get()) == 1 &&
              SSL_CTX_use_PrivateKey(raw, key.get()) == 1;
  for (std::size_t i = 1; i < chain.size() && used; ++i) {
    used = SSL_CTX_add1_chain_cert(raw, chain[i].get()) == 1;
  }
  if (!used) {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return FileError("--tls-certificate", files_.certificate,
                     absl::StrCat(" cannot be used: ", reason != nullptr ? reason : "unknown"));
  }
  if (!files_.client_ca.empty()) {
    CALIBD_ASSIGN_OR_RETURN(
        const std::vector<Certificate> authorities,
        ParseCertificates("--tls-client-ca", files_.client_ca, contents.client_ca));
    for (const Certificate& authority : authorities) {
      // Clients choose their certificate by the names of these CAs.
      if (X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), authority.get()) != 1 ||
          SSL_CTX_add_client_CA(raw, authority.get()) != 1) {
        throw std::bad_alloc();
      }
    }
    SSL_CTX_set_verify(
        raw,
        SSL_VERIFY_PEER |
            (files_.client_certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        CheckClient);
  }
  return Loaded{.context = std::move(context), .not_after = NotAfter(*chain.front())};
}

void TlsCertificates::Reload() {
  const absl::StatusOr<Contents> contents = Read();
  std::string digest =
      contents.ok() ? contents->Digest() : std::string(contents.status().message());
  if (digest == digest_) return;
  absl::StatusOr<Loaded> loaded = contents.ok() ? Parse(*contents) : contents.status();
  if (!loaded.ok()) {
    spdlog::warn("the certificates of TLS have changed, but the old ones stay in use: {}",
                 std::string(loaded.status().message()));
    digest_ = std::move(digest);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    loaded_ = *std::move(loaded);
  }
  // Only now: after an exception, the next call tries again.
  digest_ = std::move(digest);
  spdlog::info("the certificates of TLS have changed: new connections use the new ones");
  WarnOfReadableKey(files_.key);
}

std::shared_ptr<SSL_CTX> TlsCertificates::context() const {
  const std::lock_guard lock(mutex_);
  return loaded_.context;
}

std::chrono::system_clock::time_point TlsCertificates::not_after() const {
  const std::lock_guard lock(mutex_);
  return loaded_.not_after;
}

}  // namespace calibd::server
