#include "server/net/peer_identity.h"

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "server/net/peer_name.h"

namespace calibd::server {
namespace {

struct Identities {
  std::mutex mutex;
  // By the number of the connection, which is unique in this process; guarded by mutex.
  std::unordered_map<std::uint64_t, std::shared_ptr<const PeerIdentity>> known;
};

Identities& AllIdentities() {
  static auto* const identities = new Identities();
  return *identities;
}

}  // namespace

std::shared_ptr<const PeerIdentity> IdentityOf(std::string_view grpc_peer) {
  const std::optional<std::uint64_t> connection = ParsePeerConnection(grpc_peer);
  if (!connection.has_value()) return nullptr;
  Identities& identities = AllIdentities();
  const std::lock_guard lock(identities.mutex);
  const auto found = identities.known.find(*connection);
  return found == identities.known.end() ? nullptr : found->second;
}

KnownIdentity::KnownIdentity(std::uint64_t connection, std::shared_ptr<const PeerIdentity> identity)
    : connection_(connection) {
  Identities& identities = AllIdentities();
  const std::lock_guard lock(identities.mutex);
  identities.known[connection_] = std::move(identity);
}

KnownIdentity::~KnownIdentity() {
  Identities& identities = AllIdentities();
  const std::lock_guard lock(identities.mutex);
  identities.known.erase(connection_);
}

}  // namespace calibd::server
