#include "server/rpc/registered_methods.h"

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace calibd::server {
namespace {

const char* TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) return method.server_streaming() ? "bidi_stream" : "client_stream";
  return method.server_streaming() ? "server_stream" : "unary";
}

}  // namespace

std::vector<const google::protobuf::ServiceDescriptor*> ApiServices() {
  std::vector<const google::protobuf::ServiceDescriptor*> services;
  for (const google::protobuf::Descriptor* message :
       {v1::Model::descriptor(), v1::ObserveRequest::descriptor(),
        v1::GetCalibrationRequest::descriptor(), v1::BackupRequest::descriptor()}) {
    const google::protobuf::FileDescriptor& file = *message->file();
    for (int i = 0; i < file.service_count(); ++i) services.push_back(file.service(i));
  }
  return services;
}

std::vector<RpcMethod> RegisteredMethods(bool reflection) {
  std::vector<RpcMethod> methods;
  std::vector<const google::protobuf::ServiceDescriptor*> services = ApiServices();
  // The reference keeps the descriptor, which reflection answers with, in the program.
  services.push_back(grpc::health::v1::HealthCheckRequest::descriptor()->file()->service(0));
  for (const google::protobuf::ServiceDescriptor* service : services) {
    for (int i = 0; i < service->method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *service->method(i);
      methods.push_back(
          {.service = service->full_name(), .method = method.name(), .type = TypeOf(method)});
    }
  }
  if (reflection) {
    methods.push_back({.service = "grpc.reflection.v1alpha.ServerReflection",
                       .method = "ServerReflectionInfo",
                       .type = "bidi_stream"});
  }
  return methods;
}

}  // namespace calibd::server
