#ifndef CALIBD_SERVER_RPC_GRPC_FORWARDER_H_
#define CALIBD_SERVER_RPC_GRPC_FORWARDER_H_

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/forwarder.h"
#include "server/net/call_memory.h"

namespace calibd::server {

// The metadata of a forwarded call, as Base64 for URLs: gRPC would send values of keys that end
// with -bin as bytes that HTTP/2 forbids, and the relay refuses. The id of the owner is known only
// to processes that may read the store, so that the owner trusts what such a call says about its
// caller.
inline constexpr char kForwardedTo[] = "calibd-forwarded-to";
// The principal of the caller; missing if it is unrestricted.
inline constexpr char kForwardedPrincipal[] = "calibd-forwarded-principal";
// The caller's address for people.
inline constexpr char kForwardedAddress[] = "calibd-forwarded-address";

// Forwards calls over gRPC.
class GrpcForwarder final : public Forwarder {
 public:
  // The most connections to the owner, which limits the calls of each.
  static constexpr std::size_t kMaxConnections = 10;

  // store and memory: must outlive this object. memory: of calls, in which requests wait.
  // credentials: of channels to other processes. connection_calls: the most calls of a connection.
  GrpcForwarder(const Store& store, CallMemory& memory,
                std::shared_ptr<grpc::ChannelCredentials> credentials,
                std::int64_t connection_calls);
  // Waits until the calls have ended.
  ~GrpcForwarder() override;

  [[nodiscard]] std::optional<Store::Owner> other_owner() const override;
  [[nodiscard]] bool IsThis(std::string_view id) const override;
  // One caller has at most a quarter of the calls that fit on all connections.
  [[nodiscard]] absl::Status Forward(const Store::Owner& owner,
                                     const google::protobuf::Message& request, bool endless,
                                     std::shared_ptr<void> held,
                                     std::shared_ptr<AnyReply> reply) override;
  void Drain() override;

 private:
  struct Connection {
    std::shared_ptr<grpc::Channel> channel;
    std::int64_t calls = 0;
  };

  // Returns a channel for one call, whose place is given back when the last copy is destroyed.
  // reply: of the call, which takes the share of its owner. streams: the response is a stream.
  // Errors: ResourceExhausted; Unavailable for a stream while draining.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> TakePlace(
      const std::string& address, const std::shared_ptr<AnyReply>& reply, bool streams);
  void GiveBack(Connection& connection, const std::string& caller, std::int64_t number);
  [[nodiscard]] std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) const;

  const Store& store_;
  CallMemory& memory_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const std::int64_t connection_calls_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // All calls, and those of each caller that has some; guarded by mutex_.
  std::int64_t calls_ = 0;
  std::unordered_map<std::string, std::int64_t> callers_;
  // The calls whose responses are streams, by number; guarded by mutex_, as are the two below.
  std::unordered_map<std::int64_t, std::weak_ptr<AnyReply>> streams_;
  std::int64_t next_number_ = 0;
  bool draining_ = false;
  // The connections to the newest owner, and its address; guarded by mutex_.
  std::string address_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

// Credentials of channels between processes: TLS with the certificate and the key of this server,
// which are read again when they change, or none without a certificate. ca: the file with the
// certificates that sign those of the others.
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> PeerCredentials(
    const std::string& certificate, const std::string& key, const std::string& ca);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_FORWARDER_H_
