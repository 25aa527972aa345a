#include "tls.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "channel_settings.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace calibd::client {
namespace {

// Reads a file that contains this mark.
absl::StatusOr<std::string> ReadPem(const char* what, const std::string& path, const char* mark) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " ", path, " cannot be read: ", std::strerror(errno)));
  }
  std::string text(std::istreambuf_iterator<char>(file), {});
  // gRPC would only report that no server answers.
  if (!absl::StrContains(text, mark)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " ", path, " has no line ", mark, ", expected a file in PEM"));
  }
  return text;
}

absl::StatusOr<grpc::SslCredentialsOptions> ReadFiles(const TlsOptions& tls) {
  grpc::SslCredentialsOptions options;
  auto ca = ReadPem("CA file", tls.ca, "BEGIN CERTIFICATE");
  if (!ca.ok()) return ca.status();
  options.pem_root_certs = *std::move(ca);
  if (tls.certificate.empty()) return options;
  auto certificate = ReadPem("certificate", tls.certificate, "BEGIN CERTIFICATE");
  if (!certificate.ok()) return certificate.status();
  auto key = ReadPem("key", tls.key, "PRIVATE KEY");
  if (!key.ok()) return key.status();
  if (absl::StrContains(*key, "ENCRYPTED")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key ", tls.key,
                     " is encrypted: store it without a passphrase, readable for this user only"));
  }
  options.pem_cert_chain = *std::move(certificate);
  options.pem_private_key = *std::move(key);
  return options;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Whether a host is this machine. A name that only begins like a loopback address is not one.
bool IsLoopbackHost(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

// Whether what is sent to an address of gRPC stays on this machine; false for a list of addresses.
bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) {
    return true;
  }
  for (const char* const scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  absl::ConsumePrefix(&address, "///");
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) return false;
  return IsLoopbackHost(std::string(host));
}

// Errors: InvalidArgument naming the option that is missing, or the file that is not PEM.
absl::Status CheckTls(const TlsOptions& tls) {
  if (tls.ca.empty()) {
    const bool others = !tls.certificate.empty() || !tls.key.empty() || !tls.server_name.empty();
    return others ? absl::InvalidArgumentError(
                        "the CA file of TLS is missing: name the file of the server's CA "
                        "(calibctl --tls-ca, TlsOptions::ca or CALIBD_CLIENT_TLS_CA), which turns "
                        "on TLS")
                  : absl::OkStatus();
  }
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", tls.key.empty() ? "key" : "certificate",
        " of TLS is missing: a client shows its certificate and proves it by its key"));
  }
  return ReadFiles(tls).status();
}

}  // namespace

TlsOptions TlsOfEnvironment() {
  return {.ca = Variable("CALIBD_CLIENT_TLS_CA"),
          .certificate = Variable("CALIBD_CLIENT_TLS_CERTIFICATE"),
          .key = Variable("CALIBD_CLIENT_TLS_KEY"),
          .server_name = Variable("CALIBD_CLIENT_TLS_SERVER_NAME")};
}

absl::Status CheckConnection(const std::string& address, const TlsOptions& tls,
                             const TokenSource& token) {
  if (absl::Status status = CheckTls(tls); !status.ok()) return status;
  if (tls.ca.empty() && TokenSourceOr(token) != nullptr && !IsLoopback(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the token is not sent to ", address,
        " without TLS, because others could read it on the way: name the file of the server's CA "
        "(calibctl --tls-ca, TlsOptions::ca or CALIBD_CLIENT_TLS_CA), or leave out the token "
        "(calibctl --token-file, the option token or CALIBD_TOKEN_FILE)"));
  }
  return absl::OkStatus();
}

bool NamesSeveral(const std::string& address) {
  return absl::StartsWith(address, "dns:") || absl::StrContains(address, ',');
}

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, const TlsOptions& tls,
                                             TokenSource token) {
  grpc::ChannelArguments arguments = ChannelSettings();
  if (NamesSeveral(address)) {
    arguments.SetServiceConfigJSON(
        R"({"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}})");
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!tls.ca.empty()) {
    if (!tls.server_name.empty()) arguments.SetSslTargetNameOverride(tls.server_name);
    grpc::SslCredentialsOptions options;
    if (auto files = ReadFiles(tls); files.ok()) {
      options = *std::move(files);
    } else {
      // No certificate of a server is accepted then, and nothing is sent in plain text.
      options.pem_root_certs = "-";
    }
    credentials = grpc::SslCredentials(options);
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, credentials, arguments, TokenInterceptors(TokenSourceOr(std::move(token))));
}

std::string ExplainTls(std::string_view text, const TlsOptions& tls) {
  const absl::string_view message(text.data(), text.size());
  const auto says = [message](absl::string_view words) {
    return absl::StrContains(message, words);
  };
  const bool closed =
      says("Socket closed") || says("Endpoint read failed") || says("Connection reset by peer");
  if (tls.ca.empty()) {
    return closed ? "it closed the connection at once: if it uses TLS, name the file of its CA "
                    "(calibctl --tls-ca, TlsOptions::ca or CALIBD_CLIENT_TLS_CA)"
                  : "";
  }
  if (says("certificate verify failed") || says("CERTIFICATE_VERIFY_FAILED")) {
    return absl::StrCat("its certificate is not accepted: no CA of ", tls.ca,
                        " has issued it, or it has expired");
  }
  if (says("is not in peer certificate")) {
    return "its certificate is not for this host: use a host name that is in the certificate, or "
           "name one (calibctl --tls-server-name, TlsOptions::server_name or "
           "CALIBD_CLIENT_TLS_SERVER_NAME)";
  }
  // Whether the first frame of the server comes before the end of the connection is chance.
  if (says("wrong version number") || says("WRONG_VERSION_NUMBER") || says("Socket closed")) {
    return "it seems not to use TLS: leave out the CA, or check the port";
  }
  if (closed && tls.certificate.empty()) {
    return "it closed the connection after the handshake: it wants a certificate of the client "
           "(calibctl --tls-certificate and --tls-key)";
  }
  if (closed) {
    return absl::StrCat(
        "it closed the connection after the handshake: it does not accept the "
        "certificate ",
        tls.certificate,
        ", which may have expired, be of another CA, or have no URI or DNS name; "
        "the log of calibd says which");
  }
  return "";
}

}  // namespace calibd::client
