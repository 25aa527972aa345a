#ifndef CALIBD_SERVER_RPC_SERVE_H_
#define CALIBD_SERVER_RPC_SERVE_H_

#include <grpcpp/server_context.h>

#include <memory>

#include "server/api/api.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/call_reactor.h"

namespace calibd::server {

template <typename Response>
using UnaryCall = CallReactor<grpc::ServerUnaryReactor, Response>;

// A call whose response is a stream of messages.
template <typename Response>
class ResponseStream final : public CallReactor<grpc::ServerWriteReactor<Response>, Response> {
 public:
  using CallReactor<grpc::ServerWriteReactor<Response>, Response>::CallReactor;
  void OnWriteDone(bool ok) override { this->Written(ok); }
};

// Serves gRPC calls with the functions of the API.
struct CallServer {
  Api& api;
  CallMemory& memory;

  // Serves a unary call. Extra: nothing, or the model.
  template <typename Request, typename Response, typename... Extra>
  grpc::ServerUnaryReactor* Serve(
      const Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>& method,
      const grpc::CallbackServerContext& context, const Request& request,
      Response* response) const {
    return Start<UnaryCall<Response>>(method, context, request, response);
  }

  // Serves a call whose response is a stream.
  template <typename Request, typename Response, typename... Extra>
  grpc::ServerWriteReactor<Response>* Serve(
      const Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>& method,
      const grpc::CallbackServerContext& context, const Request& request) const {
    return Start<ResponseStream<Response>>(method, context, request,
                                           static_cast<Response*>(nullptr));
  }

 private:
  template <typename Reactor, typename AnyMethod, typename Request, typename Response>
  Reactor* Start(const AnyMethod& method, const grpc::CallbackServerContext& context,
                 const Request& request, Response* response) const {
    const auto call = std::make_shared<Reactor>(method.name, memory, context, response);
    call->KeepAlive(call);
    api.Serve(method, request, Reply<Response>(call));
    FreeRequest(request);
    return call.get();
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_SERVE_H_
