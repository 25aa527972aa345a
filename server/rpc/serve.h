#ifndef CALIBD_SERVER_RPC_SERVE_H_
#define CALIBD_SERVER_RPC_SERVE_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "server/access/access_control.h"
#include "server/api/api.h"
#include "server/net/call_memory.h"
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

  // The context of a call, with its caller.
  [[nodiscard]] CallContext ContextOf(const char* method,
                                      const grpc::CallbackServerContext& context) const;

  // Fills in who calls a standby that has forwarded the call. owner: the id that the call names;
  // any other than that of this process is refused and recorded as an unknown caller.
  void FillForwarded(const grpc::CallbackServerContext& context, const std::string& owner,
                     CallContext& call) const;

  // Reactor: UnaryCall or ResponseStream. response: the response of a unary call, else null.
  template <template <typename> typename Reactor, typename Response, typename AnyMethod,
            typename Request>
  Reactor<Response>* Serve(const AnyMethod& method, const grpc::CallbackServerContext& context,
                           const Request& request, Response* response) const {
    const auto call =
        std::make_shared<Reactor<Response>>(ContextOf(method.name, context), memory, response);
    call->KeepAlive(call);
    api.Serve(method, request, Reply<Response>(call));
    FreeRequest(request);
    return call.get();
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_SERVE_H_
