#ifndef CALIBD_SERVER_RPC_UNARY_CALL_H_
#define CALIBD_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/guard.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {

// One unary call. Its response counts against the memory of calls until the client has taken it.
// Thread-safe.
template <typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public std::enable_shared_from_this<UnaryCall<Response>> {
 public:
  UnaryCall(const char* method, CallMemory& memory, const grpc::CallbackServerContext& context,
            Response& response)
      : method_(method), reservation_(memory, context.peer()), response_(response) {}

  // The call keeps itself alive until gRPC is done with it.
  static std::shared_ptr<UnaryCall> Begin(const char* method, CallMemory& memory,
                                          const grpc::CallbackServerContext& context,
                                          Response& response) {
    auto call = std::make_shared<UnaryCall>(method, memory, context, response);
    call->self_ = call;
    return call;
  }

  // fill: writes the response and returns the status with which the call ends. Only the first end
  // of a call counts.
  template <typename Fill>
  void EndWith(const Fill& fill) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) {
      return;
    }
    const absl::Status status = Guarded(method_, Stage::kAnswer, [&]() -> absl::Status {
      absl::Status filled = fill(response_);
      return filled.ok() ? reservation_.Add(ResponseMemory(response_)) : filled;
    });
    if (!status.ok()) {
      // gRPC keeps the object, which may be large, until it is done with the call.
      Response().Swap(&response_);
    }
    Finish(ToGrpcStatus(status));
  }

  void End(const absl::Status& status) {
    EndWith([&status](Response& /*response*/) { return status; });
  }

  void OnDone() override {
    // Destroyed after the lock is released.
    std::shared_ptr<UnaryCall> self;
    const std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  const char* const method_;
  std::mutex mutex_;
  // Itself, until OnDone.
  std::shared_ptr<UnaryCall> self_;
  CallReservation reservation_;  // guarded by mutex_
  bool ended_ = false;           // guarded by mutex_
  // Belongs to gRPC once the call has ended.
  Response& response_;
};

// Serves a unary call. serve(call): returns an error with which the call ends, or OK if the call
// was ended or will be.
template <typename Request, typename Response, typename Serve>
grpc::ServerUnaryReactor* ServeUnary(const char* method, CallMemory& memory,
                                     const grpc::CallbackServerContext& context,
                                     const Request& request, Response& response,
                                     const Serve& serve) {
  const auto call = UnaryCall<Response>::Begin(method, memory, context, response);
  const absl::Status status = Guarded(method, Stage::kStart, [&] { return serve(call); });
  if (!status.ok()) {
    call->End(status);
  }
  FreeRequest(request);
  return call.get();
}

// Serves a unary call at once. fill: as for UnaryCall::EndWith.
template <typename Request, typename Response, typename Fill>
grpc::ServerUnaryReactor* AnswerUnary(const char* method, CallMemory& memory,
                                      const grpc::CallbackServerContext& context,
                                      const Request& request, Response& response,
                                      const Fill& fill) {
  return ServeUnary(method, memory, context, request, response, [&fill](const auto& call) {
    call->EndWith(fill);
    return absl::OkStatus();
  });
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_UNARY_CALL_H_
