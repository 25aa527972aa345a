#include "server/rpc/rpc_interceptor.h"

#include <chrono>
#include <cstddef>

#include "server/api/guard.h"
#include "server/base/errors.h"
#include "server/rpc/grpc_status.h"

namespace calibd::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

// gRPC answers a request that it cannot parse as if the method did not exist.
bool IsUnparsed(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty();
}

absl::Status UnparsedError() {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST",
                   "the request cannot be parsed: it is not a message of this method's request "
                   "type, or a string in it is not UTF-8");
}

// Lives as long as its call.
class RpcInterceptor final : public grpc::experimental::Interceptor {
 public:
  RpcInterceptor(RpcStatistics& statistics, EndingCalls& ending_calls, std::size_t method)
      : statistics_(statistics),
        ending_calls_(ending_calls),
        method_(method),
        start_(std::chrono::steady_clock::now()) {
    statistics_.Started(method_);
  }

  ~RpcInterceptor() override {
    statistics_.Handled(method_, code_, std::chrono::steady_clock::now() - start_);
    ending_calls_.Ended();
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // If the status of a call cannot be read, the call is counted as cancelled and continues.
    static_cast<void>(Guarded("Interceptor", Stage::kAnswer, [this, methods] {
      if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
        if (statistics_.IsRegistered(method_) && IsUnparsed(methods->GetSendStatus())) {
          methods->ModifySendStatus(ToGrpcStatus(UnparsedError()));
        }
        code_ = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
      }
    }));
    methods->Proceed();
  }

 private:
  RpcStatistics& statistics_;
  EndingCalls& ending_calls_;
  const std::size_t method_;
  const std::chrono::steady_clock::time_point start_;
  // A call that ends without a status was cancelled.
  absl::StatusCode code_ = absl::StatusCode::kCancelled;
};

}  // namespace

grpc::experimental::Interceptor* RpcInterceptorFactory::CreateServerInterceptor(
    ServerRpcInfo* info) {
  // gRPC takes ownership. Without an interceptor, the call is not counted but continues.
  RpcInterceptor* interceptor = nullptr;
  static_cast<void>(Guarded("Interceptor", Stage::kStart, [&] {
    interceptor = new RpcInterceptor(statistics_, ending_calls_, statistics_.Find(info->method()));
  }));
  return interceptor;
}

}  // namespace calibd::server
