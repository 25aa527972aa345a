#ifndef CALIBD_SERVER_NET_PEER_NAME_H_
#define CALIBD_SERVER_NET_PEER_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace calibd::server {

// The names by which a call learns its peer. The relay gives gRPC one end of a pair of Unix
// sockets, and names its own end after the client in the abstract namespace. The peer() of a call's
// context is therefore "unix-abstract:" and this name. The name is unique among the connections of
// the machine. With TLS, IdentityOf finds the client's identity by the same name.

// address: the client's address, "192.0.2.1:50000" or "[2001:db8::1]:50000". connection: unique
// among the connections of this process.
[[nodiscard]] std::string MakePeerName(std::uint64_t connection, std::string_view address);

// Returns the client's address from peer() of a gRPC context, or nothing if the connection does not
// come from the relay of this process.
[[nodiscard]] std::optional<std::string> ParsePeerName(std::string_view grpc_peer);

// Returns the number of the connection that MakePeerName was given, or nothing as ParsePeerName.
[[nodiscard]] std::optional<std::uint64_t> ParsePeerConnection(std::string_view grpc_peer);

// Binds a Unix socket to a name in the abstract namespace. Returns false if that fails.
[[nodiscard]] bool BindPeerName(int socket, std::string_view name);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_PEER_NAME_H_
