#include "server/process/healthcheck.h"

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <future>
#include <iostream>

#include "server/base/listen_address.h"

namespace calibd::server {
namespace {

constexpr char kCheckMethod[] = "/grpc.health.v1.Health/Check";
constexpr std::uint32_t kServing = 1;
constexpr std::chrono::seconds kDeadline{5};

}  // namespace

int RunHealthcheck(const std::string& listen) {
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
      grpc::CreateChannel(FormatAddress(*endpoint), grpc::InsecureChannelCredentials()));
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
