#include "server/rpc/serve.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "server/base/errors.h"
#include "server/net/call_memory.h"
#include "server/net/peer_identity.h"
#include "server/net/peer_name.h"
#include "server/rpc/grpc_forwarder.h"

namespace calibd::server {

namespace {

// Returns the decoded value of a key of forwarded calls. An invalid one is empty.
std::optional<std::string> MetadataOf(const grpc::CallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  std::string value;
  if (!absl::WebSafeBase64Unescape({found->second.data(), found->second.size()}, &value)) return "";
  return value;
}

}  // namespace

void CallServer::FillForwarded(const grpc::CallbackServerContext& context, const std::string& owner,
                               CallContext& call) const {
  const ApiParts& parts = api.parts();
  call.forwarded = true;
  if (!parts.forwarder->IsThis(owner)) {
    call.identity = parts.access.Refuse(
        {.address = call.address, .method = call.method},
        NotOwnerError("the call was forwarded for a calibd that has ended; send it again"));
    return;
  }
  call.address = MetadataOf(context, kForwardedAddress).value_or("");
  call.identity = parts.access.Forwarded(MetadataOf(context, kForwardedPrincipal),
                                         {.address = call.address, .method = call.method});
  call.owner = OwnerOf(call.identity, CallerAddress(call.address));
}

CallContext CallServer::ContextOf(const char* method,
                                  const grpc::CallbackServerContext& context) const {
  CallContext call;
  call.method = method;
  call.caller = context.peer();
  call.address = ParsePeerName(call.caller).value_or(call.caller);
  if (api.parts().forwarder != nullptr) {
    if (const auto owner = MetadataOf(context, kForwardedTo)) {
      FillForwarded(context, *owner, call);
      return call;
    }
  }
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
