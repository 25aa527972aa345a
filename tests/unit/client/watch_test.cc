// Client::Watch with a server that a test controls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/rpc/status.pb.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "channel_settings.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "support/in_process_server.h"
#include "support/tcp_proxy.h"
#include "support/wait_for.h"

namespace calibd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Writer = grpc::ServerWriter<v1::WatchCalibrationResponse>;

class ScriptedWatches final : public v1::CalibrationService::Service {
 public:
  // Serves one call. attempt: counts from 1.
  using Script = std::function<grpc::Status(int attempt, grpc::ServerContext&, Writer&)>;

  explicit ScriptedWatches(Script script) : script_(std::move(script)) {}

  grpc::Status WatchCalibration(grpc::ServerContext* context,
                                const v1::WatchCalibrationRequest* request,
                                Writer* writer) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    return script_(++attempts_, *context, *writer);
  }

  static void Write(Writer& writer, std::int64_t revision, bool change = true) {
    v1::WatchCalibrationResponse response;
    response.set_revision(revision);
    if (change) response.mutable_calibration()->set_observations(10 * revision);
    writer.Write(response);
  }

  Client& client() { return *client_; }
  [[nodiscard]] const std::string& address() const { return server_.address(); }
  // The requests of the calls so far.
  std::vector<v1::WatchCalibrationRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  const Script script_;
  std::atomic<int> attempts_ = 0;
  std::mutex mutex_;
  std::vector<v1::WatchCalibrationRequest> requests_;
  const calibd::testing::InProcessServer server_{*this};
  const std::unique_ptr<Client> client_ = *Client::Connect(server_.address());
};

TEST(ClientWatchTest, ResumesAfterTheNewestKnownChange) {
  ScriptedWatches server([](int attempt, grpc::ServerContext&, Writer& writer) -> grpc::Status {
    switch (attempt) {
      case 1:
        ScriptedWatches::Write(writer, 3);
        ScriptedWatches::Write(writer, 5);
        return {grpc::UNAVAILABLE, "draining"};
      case 2:
        return {grpc::UNAVAILABLE, "starting"};
      case 3:
        // A clean end is treated in the same way.
        ScriptedWatches::Write(writer, 5, /*change=*/false);
        return grpc::Status::OK;
      default:
        ScriptedWatches::Write(writer, 8);
        return {grpc::NOT_FOUND, "models/m is deleted"};
    }
  });
  std::vector<std::int64_t> revisions;
  std::vector<std::string> connections;
  WatchOptions options;
  options.min_interval = std::chrono::milliseconds(1500);
  options.after_revision = 2;
  options.on_connection = [&](const absl::Status& status) {
    connections.push_back(status.ok() ? "back" : std::string(status.message()));
  };
  const absl::Status status = server.client().Watch(
      "models/m",
      [&](const v1::WatchCalibrationResponse& change) {
        EXPECT_EQ(change.calibration().observations(), 10 * change.revision());
        revisions.push_back(change.revision());
        return true;
      },
      options);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(revisions, ElementsAre(3, 5, 8));
  // Each lost connection is reported once.
  EXPECT_THAT(connections, ElementsAre("draining", "back", "the server ended the call", "back"));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].model(), "models/m");
  EXPECT_EQ(requests[0].min_interval().seconds(), 1);
  EXPECT_EQ(requests[0].min_interval().nanos(), 500'000'000);
  EXPECT_EQ(requests[0].after_revision(), 2);
  EXPECT_EQ(requests[1].after_revision(), 5);
  EXPECT_EQ(requests[2].after_revision(), 5);
  EXPECT_EQ(requests[3].after_revision(), 5);
}

TEST(ClientWatchTest, EndsWhenTheCallbackReturnsFalse) {
  ScriptedWatches server([](int, grpc::ServerContext& context, Writer& writer) -> grpc::Status {
    for (std::int64_t revision = 1; !context.IsCancelled(); ++revision) {
      ScriptedWatches::Write(writer, revision);
    }
    return grpc::Status::CANCELLED;
  });
  int changes = 0;
  EXPECT_TRUE(
      server.client()
          .Watch("models/m", [&](const v1::WatchCalibrationResponse&) { return ++changes < 3; })
          .ok());
  EXPECT_EQ(changes, 3);

  std::stop_source stop;
  WatchOptions options;
  options.stop = stop.get_token();
  const absl::Status stopped = server.client().Watch(
      "models/m",
      [&](const v1::WatchCalibrationResponse&) {
        stop.request_stop();
        return true;
      },
      options);
  EXPECT_TRUE(absl::IsCancelled(stopped));
}

TEST(ClientWatchTest, AStopEndsTheWaitForALostServer) {
  std::stop_source stop;
  ScriptedWatches server([](int, grpc::ServerContext&, Writer&) -> grpc::Status {
    return {grpc::UNAVAILABLE, "away"};
  });
  WatchOptions options;
  options.stop = stop.get_token();
  options.on_connection = [&](const absl::Status& status) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("away"));
    stop.request_stop();
  };
  const absl::Status status = server.client().Watch(
      "models/m", [](const v1::WatchCalibrationResponse&) { return true; }, options);
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(ClientWatchTest, WaitsForRoomAndResumesAfterTheTransportCutTheCall) {
  ScriptedWatches server([](int attempt, grpc::ServerContext&, Writer& writer) -> grpc::Status {
    switch (attempt) {
      case 1: {
        rpc::RetryInfo retry;
        retry.mutable_retry_delay()->set_nanos(1'000'000);
        rpc::Status full;
        full.set_code(grpc::RESOURCE_EXHAUSTED);
        google::protobuf::Any& detail = *full.add_details();
        detail.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
        detail.set_value(retry.SerializeAsString());
        return {grpc::RESOURCE_EXHAUSTED, "too many watchers", full.SerializeAsString()};
      }
      case 2:
        return {grpc::INTERNAL, "Received RST_STREAM with error code 2"};
      case 3:
        return grpc::Status::CANCELLED;
      default:
        ScriptedWatches::Write(writer, attempt);
        return {grpc::NOT_FOUND, "models/m is deleted"};
    }
  });
  std::vector<std::int64_t> revisions;
  const absl::Status status =
      server.client().Watch("models/m", [&](const v1::WatchCalibrationResponse& change) {
        revisions.push_back(change.revision());
        return true;
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(revisions, ElementsAre(4));
}

// Otherwise a client would not notice a disappeared server while there are no changes.
TEST(ClientWatchTest, AnIdleCallIsPingedUntilItEnds) {
  ScriptedWatches server([](int, grpc::ServerContext& context, Writer& writer) -> grpc::Status {
    ScriptedWatches::Write(writer, 1);
    calibd::testing::WaitFor([&] { return context.IsCancelled(); }, std::chrono::minutes(2));
    return grpc::Status::CANCELLED;
  });
  calibd::testing::TcpProxy proxy(server.address());
  grpc::ChannelArguments settings = ChannelSettings(std::chrono::milliseconds(100));
  settings.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::CalibrationService::NewStub(
      grpc::CreateCustomChannel(proxy.address(), grpc::InsecureChannelCredentials(), settings));
  grpc::ClientContext context;
  const auto reader = stub->WatchCalibration(&context, v1::WatchCalibrationRequest());
  v1::WatchCalibrationResponse change;
  ASSERT_TRUE(reader->Read(&change));
  // Pings have 17 bytes, and there is at most one per second.
  constexpr std::int64_t kPings = 6;
  const std::int64_t before = proxy.forwarded();
  EXPECT_TRUE(calibd::testing::WaitFor([&] { return proxy.forwarded() >= before + 17 * kPings; },
                                       std::chrono::minutes(1)));
  context.TryCancel();
}

TEST(ClientWatchTest, GarbageIsNotRetriedForEver) {
  ScriptedWatches server([](int, grpc::ServerContext&, Writer& writer) -> grpc::Status {
    // A field of an impossible type, in place of the message.
    v1::WatchCalibrationResponse response;
    response.GetReflection()->MutableUnknownFields(&response)->AddLengthDelimited(1)->assign(
        "\xff");
    writer.Write(response);
    return grpc::Status::OK;
  });
  int changes = 0;
  const absl::Status status =
      server.client().Watch("models/m", [&](const v1::WatchCalibrationResponse&) {
        ++changes;
        return true;
      });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("without a message that can be read"));
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(server.requests().size(), 5U);
}

absl::StatusOr<std::unique_ptr<Client>> ImpatientClient(const std::string& address) {
  ClientOptions options;
  options.call_timeout = std::chrono::seconds(5);
  return Client::Connect(address, options);
}

TEST(ClientWatchTest, ASilentServerEndsTheWatch) {
  ScriptedWatches server([](int, grpc::ServerContext& context, Writer&) -> grpc::Status {
    calibd::testing::WaitFor([&] { return context.IsCancelled(); }, std::chrono::minutes(2));
    return grpc::Status::CANCELLED;
  });
  const auto client = ImpatientClient(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status =
      (*client)->Watch("models/m", [](const v1::WatchCalibrationResponse&) { return true; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sent nothing within 5000 ms"));
}

TEST(ClientWatchTest, AServerThatWasThereMayBeSilentForAWhile) {
  ScriptedWatches server(
      [](int attempt, grpc::ServerContext& context, Writer& writer) -> grpc::Status {
        if (attempt == 2) {
          calibd::testing::WaitFor([&] { return context.IsCancelled(); }, std::chrono::minutes(2));
          return grpc::Status::CANCELLED;
        }
        ScriptedWatches::Write(writer, attempt);
        return attempt == 1 ? grpc::Status(grpc::UNAVAILABLE, "draining") : grpc::Status::OK;
      });
  const auto client = ImpatientClient(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(
      (*client)
          ->Watch("models/m",
                  [](const v1::WatchCalibrationResponse& change) { return change.revision() < 3; })
          .ok());
}

// A client must not wait because of another client's failure.
TEST(ClientWatchTest, EachClientHasAConnectionOfItsOwn) {
  std::mutex mutex;
  std::set<std::string> peers;
  ScriptedWatches server([&](int, grpc::ServerContext& context, Writer&) -> grpc::Status {
    const std::lock_guard lock(mutex);
    peers.insert(context.peer());
    return {grpc::NOT_FOUND, "models/m is deleted"};
  });
  const auto other = Client::Connect(server.address());
  ASSERT_TRUE(other.ok()) << other.status();
  for (Client* client : {&server.client(), other->get()}) {
    EXPECT_TRUE(absl::IsNotFound(
        client->Watch("models/m", [](const v1::WatchCalibrationResponse&) { return true; })));
  }
  EXPECT_EQ(peers.size(), 2u);
}

TEST(ClientWatchTest, APermanentErrorIsReturned) {
  ScriptedWatches server([](int, grpc::ServerContext&, Writer&) -> grpc::Status {
    return {grpc::INVALID_ARGUMENT, "min_interval: is 0 s"};
  });
  const absl::Status status =
      server.client().Watch("models/m", [](const v1::WatchCalibrationResponse&) { return true; });
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(server.requests().size(), 1u);
}

}  // namespace
}  // namespace calibd::client
