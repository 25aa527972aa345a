#include "server/rpc/serve.h"

#include <utility>

#include "server/net/call_memory.h"
#include "server/net/peer_identity.h"
#include "server/net/peer_name.h"

namespace calibd::server {

CallContext CallServer::ContextOf(const char* method,
                                  const grpc::CallbackServerContext& context) const {
  CallContext call;
  call.method = method;
  call.caller = context.peer();
  call.address = ParsePeerName(call.caller).value_or(call.caller);
  Credentials credentials{.address = call.address, .method = method};
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  if (begin != end) credentials.authorization = {begin->second.data(), begin->second.size()};
  const AccessControl& access = api.parts().access;
  if (const auto certificate = access.enabled() ? IdentityOf(call.caller) : nullptr) {
    credentials.certificate_names = certificate->names;
  }
  call.identity = access.Identify(credentials);
  call.owner = OwnerOf(call.identity, CallerAddress(call.caller));
  return call;
}

}  // namespace calibd::server
