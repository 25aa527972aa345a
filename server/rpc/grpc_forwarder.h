#ifndef CALIBD_SERVER_RPC_GRPC_FORWARDER_H_
#define CALIBD_SERVER_RPC_GRPC_FORWARDER_H_

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/forwarder.h"

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
  // store: must outlive this object. credentials: of channels to other processes.
  GrpcForwarder(const Store& store, std::shared_ptr<grpc::ChannelCredentials> credentials);

  [[nodiscard]] std::optional<Store::Owner> other_owner() const override;
  [[nodiscard]] bool IsThis(std::string_view id) const override;
  void Forward(const Store::Owner& owner, const google::protobuf::Message& request, bool endless,
               std::shared_ptr<void> held, std::shared_ptr<AnyReply> reply) override;

 private:
  [[nodiscard]] std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

  const Store& store_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  // The channel to the newest owner, and its address; guarded by mutex_.
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Credentials of channels between processes: TLS with the certificate and the key of this server,
// which are read again when they change, or none without a certificate. ca: the file with the
// certificates that sign those of the others.
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> PeerCredentials(
    const std::string& certificate, const std::string& key, const std::string& ca);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_GRPC_FORWARDER_H_
