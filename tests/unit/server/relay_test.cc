#include "server/net/relay.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "calibd/v1/model_service.grpc.pb.h"
#include "server/net/peer_limits.h"
#include "server/net/peer_name.h"
#include "server/process/healthcheck.h"
#include "server/process/options.h"
#include "server/rpc/grpc_endpoint.h"
#include "support/tcp_proxy.h"
#include "support/wait_for.h"

namespace calibd::server {
namespace {

using ::calibd::testing::ConnectTo;
using ::calibd::testing::WaitFor;

std::string Frame(std::uint8_t type, std::uint8_t flags, char stream, const std::string& payload) {
  return std::string("\0\0", 2) + static_cast<char>(payload.size()) + static_cast<char>(type) +
         static_cast<char>(flags) + std::string("\0\0\0", 3) + stream + payload;
}
const std::string kHello = NGHTTP2_CLIENT_MAGIC + Frame(NGHTTP2_SETTINGS, 0, 0, "");

void Send(int socket, const std::string& bytes) {
  ASSERT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Records the peer of each call.
class PeerService final : public v1::ModelService::Service {
 public:
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* /*request*/,
                          v1::ListModelsResponse* /*response*/) override {
    const std::lock_guard lock(mutex_);
    peers_.push_back(context->peer());
    return grpc::Status::OK;
  }
  std::vector<std::string> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> peers_;
};

class RelayTest : public ::testing::Test {
 protected:
  void Start(std::int64_t max_connections, std::int64_t per_address) {
    Options options;
    options.listen = "127.0.0.1:0";
    options.max_connections = max_connections;
    options.max_connections_per_address = per_address;
    auto endpoint = GrpcEndpoint::Start(options, {&service_}, nullptr, memory_, statistics_);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
    endpoint_->SetServing(true);
  }

  // Returns a channel with its own connection.
  std::shared_ptr<grpc::Channel> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(endpoint_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ListModelsResponse response;
    return v1::ModelService::NewStub(channel)->ListModels(&context, {}, &response);
  }
  std::int64_t Closed(CloseReason reason) {
    return statistics_.closed(static_cast<std::size_t>(reason));
  }

  ByteBudget memory_{std::size_t{64} << 20};
  RelayStatistics statistics_;
  PeerService service_;
  std::unique_ptr<GrpcEndpoint> endpoint_;
};

TEST_F(RelayTest, ACallKnowsTheAddressOfItsPeer) {
  Start(8, 8);
  const auto first = Connect();
  ASSERT_TRUE(Call(first).ok());
  ASSERT_TRUE(Call(first).ok());
  ASSERT_TRUE(Call(Connect()).ok());
  const std::vector<std::string> peers = service_.peers();
  ASSERT_EQ(peers.size(), 3);
  EXPECT_EQ(peers[0], peers[1]);
  EXPECT_NE(peers[0], peers[2]);
  const std::optional<std::string> address = ParsePeerName(peers[0]);
  ASSERT_TRUE(address.has_value()) << peers[0];
  EXPECT_TRUE(address->starts_with("127.0.0.1:")) << *address;
  EXPECT_EQ(ParsePeerName("ipv4:127.0.0.1:5000"), std::nullopt);
  EXPECT_EQ(ParsePeerName("unix-abstract:calibd/1-1/1/127.0.0.1:5000"), std::nullopt);
  EXPECT_EQ(ParsePeerName("unix-abstract:" + MakePeerName(7, "%5B2001:db8::1%5D:50000")),
            "[2001:db8::1]:50000");
}

TEST_F(RelayTest, AnEvictedIdleConnectionCostsItsClientNoError) {
  Start(2, 2);
  const auto channel = Connect();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(Call(channel).ok());
    const std::int64_t before = Closed(CloseReason::kEvicted);
    std::vector<int> others;
    // Connections that have been idle longer are evicted first.
    ASSERT_TRUE(WaitFor([&] {
      others.push_back(ConnectTo(endpoint_->address()));
      return Closed(CloseReason::kEvicted) >= before + 2;
    }));
    const grpc::Status status = Call(channel);
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const int fd : others) close(fd);
  }
}

TEST_F(RelayTest, AnExcessConnectionIsServedHealthChecksOnly) {
  Start(2, 1);
  // A call whose response the client does not take, so that the connection is not idle.
  const int busy = ConnectTo(endpoint_->address());
  const auto text = [](const std::string& value) {
    return static_cast<char>(value.size()) + value;
  };
  const std::string fields = "\x83\x86\x04" + text("/calibd.v1.ModelService/ListModels") + "\x41" +
                             text("localhost") + "\x0f\x10" + text("application/grpc") +
                             std::string(1, '\0') + text("te") + text("trailers");
  Send(busy, kHello + Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
                 Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields) +
                 Frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, std::string(5, '\0')) +
                 Frame(NGHTTP2_PING, 0, 0, "12345678"));
  // The answer to the ping shows that the relay has seen the call.
  std::string answer;
  while (answer.find(Frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678")) == std::string::npos) {
    char byte = 0;
    ASSERT_EQ(recv(busy, &byte, 1, 0), 1);
    answer += byte;
  }
  const auto channel = Connect();
  const grpc::Status status = Call(channel);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(statistics_.ended(static_cast<std::size_t>(CallEnd::kTooManyConnections)), 1);
  EXPECT_EQ(RunHealthcheck(endpoint_->address()), 0);
  close(busy);
  EXPECT_TRUE(WaitFor([&] { return Call(channel).ok(); }));
}

TEST_F(RelayTest, AnAddressWithTooManyResetsIsRefusedForAWhile) {
  Start(8, 4);
  std::string resets = kHello;
  // Resets of calls that do not exist count too.
  for (int i = 0; i <= PeerLimits::kResetBurst; ++i) {
    resets += Frame(NGHTTP2_RST_STREAM, 0, 1, std::string(4, '\x8'));
  }
  std::vector<int> attackers;
  ASSERT_TRUE(WaitFor([&] {
    attackers.push_back(ConnectTo(endpoint_->address()));
    // A refused connection may be closed before it has taken the bytes.
    static_cast<void>(send(attackers.back(), resets.data(), resets.size(), MSG_NOSIGNAL));
    return Closed(CloseReason::kAddressRefused) > 0;
  }));
  EXPECT_GT(Closed(CloseReason::kTooManyResets), 0);
  EXPECT_TRUE(WaitFor([&] { return Call(Connect()).ok(); }));
  for (const int fd : attackers) close(fd);
}

TEST_F(RelayTest, APeerThatIgnoresGoAwayDoesNotDelayTheEnd) {
  Start(8, 8);
  std::vector<int> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(ConnectTo(endpoint_->address()));
    Send(peers.back(), kHello);
    // gRPC's settings show that the connection is established.
    char byte = 0;
    ASSERT_EQ(recv(peers.back(), &byte, 1, 0), 1);
  }
  const auto begin = std::chrono::steady_clock::now();
  endpoint_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(Closed(CloseReason::kDrained), 3);
  for (const int fd : peers) close(fd);
}

TEST_F(RelayTest, TheEndDoesNotWaitForTheThreadsOfGrpc) {
  Start(8, 8);
  endpoint_.reset();
  // The shutdown of the library would join its threads, which may take 10 s.
  EXPECT_NE(grpc_is_initialized(), 0);
}

}  // namespace
}  // namespace calibd::server
