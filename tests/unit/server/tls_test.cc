#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/tls_certificates.h"
#include "server/net/tls_server.h"
#include "server/net/tls_session.h"
#include "support/server_process.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

template <typename Type, void (*kFree)(Type*)>
struct FreeWith {
  void operator()(Type* object) const noexcept { kFree(object); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY, EVP_PKEY_free>>;
using X509Certificate = std::unique_ptr<X509, FreeWith<X509, X509_free>>;

PrivateKey MakeKey() { return PrivateKey(EVP_EC_gen("P-256")); }

// A certificate that is valid for an hour, signed by its own key. name: an alternative name such as
// "DNS:a.corp"; empty for none.
X509Certificate MakeCertificate(EVP_PKEY* key, const std::string& name = "") {
  X509Certificate made(X509_new());
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), key);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(made.get(), subject);
  if (!name.empty()) {
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, name.c_str());
    X509_add_ext(made.get(), names, -1);
    X509_EXTENSION_free(names);
  }
  EXPECT_GT(X509_sign(made.get(), key, EVP_sha256()), 0);
  return made;
}

template <typename Print>
void WritePem(const std::string& path, const Print& print) {
  BIO* const bytes = BIO_new(BIO_s_mem());
  EXPECT_EQ(print(bytes), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bytes, &text);
  std::ofstream(path, std::ios::trunc).write(text, size);
  BIO_free(bytes);
}

// The client of a session, over memory.
class Peer {
 public:
  // alpn: in the form of the protocol, such as "\x02h2".
  explicit Peer(std::string_view alpn) : context_(SSL_CTX_new(TLS_client_method())) {
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_connect_state(ssl_.get());
    if (!alpn.empty()) {
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    }
  }

  void Show(X509* certificate, EVP_PKEY* key) {
    SSL_use_certificate(ssl_.get(), certificate);
    SSL_use_PrivateKey(ssl_.get(), key);
  }
  // What the client sends next.
  std::string Next() {
    std::array<char, 16384> bytes{};
    std::size_t read = 0;
    static_cast<void>(SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &read));
    received_.append(bytes.data(), read);
    char* text = nullptr;
    const long size = BIO_get_mem_data(out_, &text);
    std::string sent(text, static_cast<std::size_t>(size));
    BIO_reset(out_);
    return sent;
  }
  void Take(const std::string& bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string UpdateKey() {
    EXPECT_EQ(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    EXPECT_EQ(SSL_do_handshake(ssl_.get()), 1);
    return Next();
  }
  std::string Write(std::string_view text) {
    std::size_t written = 0;
    EXPECT_EQ(SSL_write_ex(ssl_.get(), text.data(), text.size(), &written), 1);
    return Next();
  }
  [[nodiscard]] bool done() const { return SSL_is_init_finished(ssl_.get()) == 1; }
  [[nodiscard]] const std::string& received() const { return received_; }

 private:
  std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX, SSL_CTX_free>> context_;
  std::unique_ptr<SSL, FreeWith<SSL, SSL_free>> ssl_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
  std::string received_;
};

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() { Write("server", MakeCertificate(key_.get()).get(), key_.get()); }

  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  void Write(const std::string& name, X509* certificate, EVP_PKEY* key) {
    if (certificate != nullptr) {
      WritePem(Path(name + ".pem"), [&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
    }
    if (key == nullptr) return;
    WritePem(Path(name + ".key"), [&](BIO* to) {
      return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  std::unique_ptr<TlsCertificates> Loaded(const std::string& client_ca = "") {
    auto loaded = TlsCertificates::Load(
        {.certificate = Path("server.pem"), .key = Path("server.key"), .client_ca = client_ca});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  // Gives the bytes to the session. Returns the decrypted ones.
  static std::string Give(TlsSession& session, std::string_view bytes, std::string& to_peer) {
    std::vector<char> plain(bytes.size() + TlsSession::kMaxKeptBytes);
    const std::size_t count = session.Receive(bytes, plain, to_peer);
    return {plain.data(), count};
  }
  // Exchanges messages until neither side has one.
  static void Shake(TlsSession& session, Peer& peer) {
    for (std::string sent = peer.Next(); !sent.empty(); sent = peer.Next()) {
      std::string answer;
      Give(session, sent, answer);
      peer.Take(answer);
    }
  }

  const PrivateKey key_ = MakeKey();

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(TlsTest, AHalfHandshakeWaitsAndIsCompletedLater) {
  const auto certificates = Loaded();
  TlsSession session(*certificates->context(), TlsProtocol::kGrpc);
  Peer peer("\x02h2");
  const std::string hello = peer.Next();
  std::string answer;
  // A record that comes byte by byte.
  for (const char& byte : hello.substr(0, hello.size() - 1)) Give(session, {&byte, 1}, answer);
  EXPECT_EQ(session.state(), TlsSession::State::kHandshake);
  EXPECT_EQ(answer, "");
  Give(session, hello.substr(hello.size() - 1), answer);
  EXPECT_NE(answer, "");
  peer.Take(answer);
  Shake(session, peer);
  EXPECT_EQ(session.state(), TlsSession::State::kOpen);
  EXPECT_TRUE(peer.done());
  EXPECT_EQ(session.identity(), nullptr);
  EXPECT_EQ(Give(session, peer.Write("hello"), answer), "hello");
}

TEST_F(TlsTest, TheProtocolOfGrpcMustBeOffered) {
  const auto certificates = Loaded();
  struct Case {
    TlsProtocol protocol;
    std::string_view alpn;
    bool served;
  };
  for (const Case& one :
       {Case{TlsProtocol::kGrpc, "\x02h2", true},
        Case{TlsProtocol::kGrpc, "\x08http/1.1\x02h2", true}, Case{TlsProtocol::kGrpc, "", false},
        Case{TlsProtocol::kGrpc, "\x08http/1.1", false}, Case{TlsProtocol::kHttp, "", true},
        Case{TlsProtocol::kHttp, "\x08http/1.1", true},
        Case{TlsProtocol::kHttp, "\x02h2", false}}) {
    SCOPED_TRACE(one.alpn);
    TlsSession session(*certificates->context(), one.protocol);
    Peer peer(one.alpn);
    Shake(session, peer);
    EXPECT_EQ(session.state(), one.served ? TlsSession::State::kOpen : TlsSession::State::kFailed);
    if (!one.served) {
      EXPECT_EQ(session.failure(), TlsFailure::kWrongProtocol);
    }
  }
}

TEST_F(TlsTest, AFloodOfKeyUpdatesFails) {
  const auto certificates = Loaded();
  TlsSession session(*certificates->context(), TlsProtocol::kHttp);
  Peer peer("");
  Shake(session, peer);
  std::string answer;
  int updates = 0;
  while (session.state() == TlsSession::State::kOpen && updates < 1000) {
    Give(session, peer.UpdateKey(), answer);
    ++updates;
  }
  // The burst passes, and on a slow machine some more.
  EXPECT_GT(updates, TlsSession::kKeyUpdateBurst);
  EXPECT_EQ(session.failure(), TlsFailure::kTooManyKeyUpdates);
  EXPECT_EQ(Give(session, peer.Write("late"), answer), "");
}

TEST_F(TlsTest, TheIdentityEndsWithTheCertificate) {
  const PrivateKey key = MakeKey();
  const X509Certificate client = MakeCertificate(key.get(), "DNS:Batch.corp,URI:spiffe://corp/a");
  Write("client", client.get(), nullptr);
  const auto certificates = Loaded(Path("client.pem"));
  TlsSession session(*certificates->context(), TlsProtocol::kGrpc);
  Peer peer("\x02h2");
  peer.Show(client.get(), key.get());
  const auto now = std::chrono::system_clock::now();
  Shake(session, peer);
  ASSERT_EQ(session.state(), TlsSession::State::kOpen) << session.explanation();
  ASSERT_NE(session.identity(), nullptr);
  EXPECT_THAT(session.identity()->names,
              ::testing::ElementsAre("dns:batch.corp", "spiffe://corp/a"));
  EXPECT_GT(session.identity()->not_after, now + 3000s);
  EXPECT_LE(session.identity()->not_after, now + 3600s);
}

TEST_F(TlsTest, ClientsWithoutAnAcceptedCertificateAreRefused) {
  const PrivateKey key = MakeKey();
  Write("client", MakeCertificate(key.get(), "DNS:a.corp").get(), nullptr);
  const auto certificates = Loaded(Path("client.pem"));
  {
    TlsSession session(*certificates->context(), TlsProtocol::kGrpc);
    Peer peer("\x02h2");
    Shake(session, peer);
    EXPECT_EQ(session.state(), TlsSession::State::kFailed);
    EXPECT_EQ(session.failure(), TlsFailure::kNoClientCertificate);
  }
  const PrivateKey foreign_key = MakeKey();
  const X509Certificate foreign = MakeCertificate(foreign_key.get(), "DNS:a.corp");
  TlsSession session(*certificates->context(), TlsProtocol::kGrpc);
  Peer peer("\x02h2");
  peer.Show(foreign.get(), foreign_key.get());
  Shake(session, peer);
  EXPECT_EQ(session.state(), TlsSession::State::kFailed);
  EXPECT_EQ(session.failure(), TlsFailure::kClientCertificateRefused);
}

TEST_F(TlsTest, PlainTextIsNamedAndEscaped) {
  const auto certificates = Loaded();
  TlsSession session(*certificates->context(), TlsProtocol::kHttp);
  std::string answer;
  EXPECT_EQ(Give(session, "GET / HTTP/1.1\r\nHost: a\r\n", answer), "");
  EXPECT_EQ(session.failure(), TlsFailure::kNotTls);
  EXPECT_THAT(session.explanation(), HasSubstr("GET / HTTP/1.1\\r\\n"));
  EXPECT_EQ(answer, "");
}

TEST_F(TlsTest, AKeyThatDoesNotFitChangesNothing) {
  const auto certificates = Loaded();
  const auto first = certificates->context();
  certificates->Reload();
  EXPECT_EQ(certificates->context(), first);
  // The certificate is replaced before its key.
  const PrivateKey key = MakeKey();
  const X509Certificate certificate = MakeCertificate(key.get());
  Write("server", certificate.get(), nullptr);
  certificates->Reload();
  EXPECT_EQ(certificates->context(), first);
  Write("server", nullptr, key.get());
  certificates->Reload();
  EXPECT_NE(certificates->context(), first);
  // Sessions that are open keep the former one.
  TlsSession session(*first, TlsProtocol::kHttp);
  Peer peer("");
  Shake(session, peer);
  EXPECT_EQ(session.state(), TlsSession::State::kOpen);
  std::ofstream(Path("server.key"), std::ios::trunc) << "no key";
  const auto second = certificates->context();
  certificates->Reload();
  EXPECT_EQ(certificates->context(), second);
}

TEST_F(TlsTest, HandshakesOfAnAddressAreLimited) {
  TlsServer server(Loaded());
  int begun = 0;
  while (begun < 2000 && server.Begin(TlsProtocol::kHttp, "192.0.2.1") != nullptr) ++begun;
  EXPECT_GE(begun, TlsServer::kHandshakeBurst);
  EXPECT_LT(begun, 2000);
  EXPECT_NE(server.Begin(TlsProtocol::kHttp, "192.0.2.2"), nullptr);
}

}  // namespace
}  // namespace calibd::server
