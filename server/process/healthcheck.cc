#include "server/process/healthcheck.h"

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <vector>

#include "server/base/listen_address.h"

namespace calibd::server {
namespace {

constexpr char kCheckMethod[] = "/grpc.health.v1.Health/Check";
constexpr std::uint32_t kServing = 1;
constexpr std::chrono::seconds kDeadline{5};

// Reads a file that TlsCertificates accepted.
std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// TLS without a check of the server: the call stays on this machine, and its address is in no
// certificate. The server accepts its own certificate from a client.
std::shared_ptr<grpc::ChannelCredentials> LocalCredentials(const TlsFiles& tls) {
  using grpc::experimental::IdentityKeyCertPair;
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
          std::vector{IdentityKeyCertPair{ReadText(tls.key), ReadText(tls.certificate)}}));
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

int RunHealthcheck(const std::string& listen, const TlsFiles& tls) {
  if (!tls.certificate.empty()) {
    const auto loaded = TlsCertificates::Load(tls);
    if (!loaded.ok()) {
      std::cerr << "calibd: " << loaded.status().message() << '\n';
      return 1;
    }
  }
  auto endpoint = ParseListenAddress(listen);
  if (!endpoint.ok()) {
    std::cerr << "calibd: " << endpoint.status().message() << '\n';
    return 1;
  }
  if (endpoint->address().is_unspecified()) {
    if (endpoint->address().is_v6()) {
      endpoint->address(boost::asio::ip::address_v6::loopback());
    } else {
      endpoint->address(boost::asio::ip::address_v4::loopback());
    }
  }
  // These messages have the wire form of a HealthCheckRequest with an empty service name and of a
  // HealthCheckResponse: one varint field with number 1.
  const google::protobuf::Empty request;
  google::protobuf::UInt32Value response;
  grpc::TemplatedGenericStub<google::protobuf::Empty, google::protobuf::UInt32Value> stub(
      grpc::CreateChannel(FormatAddress(*endpoint), tls.certificate.empty()
                                                        ? grpc::InsecureChannelCredentials()
                                                        : LocalCredentials(tls)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  std::promise<grpc::Status> answered;
  stub.UnaryCall(&context, kCheckMethod, grpc::StubOptions(), &request, &response,
                 [&answered](const grpc::Status& status) { answered.set_value(status); });
  const grpc::Status status = answered.get_future().get();
  if (!status.ok()) {
    std::cerr << "calibd: " << FormatAddress(*endpoint) << ": " << status.error_message() << '\n';
    return 1;
  }
  const bool serving = response.value() == kServing;
  std::cout << (serving ? "SERVING\n" : "NOT_SERVING\n");
  return serving ? 0 : 1;
}

}  // namespace calibd::server
