#ifndef CALIBD_SERVER_NET_PEER_IDENTITY_H_
#define CALIBD_SERVER_NET_PEER_IDENTITY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace calibd::server {

// What the verified certificate of a client says about it. Only a certificate that a CA of
// --tls-client-ca has issued, and that is valid now, becomes an identity.
struct PeerIdentity {
  // The subject alternative names, in the order of the certificate: a URI as it is
  // ("spiffe://corp/ns/fraud/sa/batch"), a DNS name in lower case after "dns:" ("dns:batch.corp").
  // Printable ASCII without spaces. A URI that begins with "dns:" is left out, because it would
  // look like a DNS name. The common name is never used. Empty only for calibd itself, whose health
  // check shows the certificate of the server.
  std::vector<std::string> names;
  // The certificate is valid until then. The connection ends at that time.
  std::chrono::system_clock::time_point not_after;
};

// Returns the identity of the peer of a call: null without TLS, without a certificate, and after
// the end of the connection. grpc_peer: peer() of a gRPC context. Keep the result for as long as a
// call lives. Cost: one lookup under a lock. Thread-safe.
//
// An HTTP connection keeps its identity itself (HttpEndpoint::Session::identity_), because the
// address of its client is not unique among connections.
[[nodiscard]] std::shared_ptr<const PeerIdentity> IdentityOf(std::string_view grpc_peer);

// Makes the identity of a connection known to IdentityOf until the object is destroyed.
class KnownIdentity {
 public:
  // connection: the number in the name of the connection, see MakePeerName. identity: not null.
  KnownIdentity(std::uint64_t connection, std::shared_ptr<const PeerIdentity> identity);
  ~KnownIdentity();
  KnownIdentity(const KnownIdentity&) = delete;
  KnownIdentity& operator=(const KnownIdentity&) = delete;

 private:
  const std::uint64_t connection_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_PEER_IDENTITY_H_
