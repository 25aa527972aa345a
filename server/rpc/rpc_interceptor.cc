#include "server/rpc/rpc_interceptor.h"

#include <chrono>
#include <string>

namespace calibd::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

const char* TypeName(ServerRpcInfo::Type type) {
  switch (type) {
    case ServerRpcInfo::Type::UNARY:
      return "unary";
    case ServerRpcInfo::Type::CLIENT_STREAMING:
      return "client_stream";
    case ServerRpcInfo::Type::SERVER_STREAMING:
      return "server_stream";
    case ServerRpcInfo::Type::BIDI_STREAMING:
      return "bidi_stream";
  }
  return "unary";
}

// Lives as long as its call.
class RpcInterceptor final : public grpc::experimental::Interceptor {
 public:
  RpcInterceptor(RpcStatistics& statistics, const ServerRpcInfo& info)
      : statistics_(statistics), path_(info.method()), start_(std::chrono::steady_clock::now()) {
    statistics_.Started(path_, TypeName(info.type()));
  }

  ~RpcInterceptor() override {
    statistics_.Handled(path_, code_, std::chrono::steady_clock::now() - start_);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  RpcStatistics& statistics_;
  const std::string path_;
  const std::chrono::steady_clock::time_point start_;
  // A call that ends without a status was cancelled.
  absl::StatusCode code_ = absl::StatusCode::kCancelled;
};

}  // namespace

grpc::experimental::Interceptor* RpcInterceptorFactory::CreateServerInterceptor(
    ServerRpcInfo* info) {
  return new RpcInterceptor(statistics_, *info);  // gRPC takes ownership.
}

}  // namespace calibd::server
