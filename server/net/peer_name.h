#ifndef CALIBD_SERVER_NET_PEER_NAME_H_
#define CALIBD_SERVER_NET_PEER_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace calibd::server {

// How a call learns its peer. The relay hands gRPC one end of a pair of Unix sockets and names its
// own end, in the abstract namespace, after the client: so the peer() of a call's context is
// "unix-abstract:" and this name. The name is unique among the connections of the machine. When the
// relay terminates TLS, the client's certificate will be found by the same name.

// address: of the client, "192.0.2.1:50000" or "[2001:db8::1]:50000". connection: a number that no
// other connection of this process has.
[[nodiscard]] std::string MakePeerName(std::uint64_t connection, std::string_view address);

// The client's address in what peer() of a gRPC context returns. Returns nothing for a connection
// that does not come from the relay of this process.
[[nodiscard]] std::optional<std::string> ParsePeerName(std::string_view grpc_peer);

// Binds a Unix socket to a name in the abstract namespace. Returns false if that fails.
[[nodiscard]] bool BindPeerName(int socket, std::string_view name);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_PEER_NAME_H_
