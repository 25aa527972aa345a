#include "server/rpc/serve.h"

#include <utility>

#include "server/net/peer_name.h"

namespace calibd::server {

CallContext CallServer::ContextOf(const char* method,
                                  const grpc::CallbackServerContext& context) const {
  CallContext call{.method = method, .caller = context.peer()};
  call.address = ParsePeerName(call.caller).value_or(call.caller);
  Credentials credentials{.address = call.address, .method = method};
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  if (begin != end) credentials.authorization = {begin->second.data(), begin->second.size()};
  if (certificate_names) credentials.certificate_names = certificate_names(call.caller);
  call.identity = api.parts().access.Identify(credentials);
  return call;
}

}  // namespace calibd::server
