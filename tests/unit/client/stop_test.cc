// ClientOptions::stop ends every wait of a client.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <stop_token>
#include <string>

#include "calibd/client/client.h"
#include "calibd/rpc/status.pb.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "scripted_server.h"
#include "support/in_process_server.h"
#include "support/tcp_proxy.h"
#include "support/wait_for.h"

namespace calibd::client {
namespace {

using calibd::testing::WaitFor;
using std::chrono::minutes;

class ScriptedAnswers final : public v1::CalibrationService::Service {
 public:
  using Script = std::function<grpc::Status(grpc::ServerContext&)>;

  explicit ScriptedAnswers(Script script) : script_(std::move(script)) {}

  grpc::Status GetCalibration(grpc::ServerContext* context,
                              const v1::GetCalibrationRequest* /*request*/,
                              v1::GetCalibrationResponse* /*response*/) override {
    ++calls_;
    return script_(*context);
  }

  [[nodiscard]] const std::string& address() const { return server_.address(); }
  [[nodiscard]] int calls() const { return calls_; }

 private:
  const Script script_;
  std::atomic<int> calls_ = 0;
  const calibd::testing::InProcessServer server_{*this};
};

class StopTest : public ::testing::Test {
 protected:
  // All timeouts are long, so that only a stop ends a wait.
  [[nodiscard]] ClientOptions Options() const {
    ClientOptions options;
    options.connect_timeout = minutes(10);
    options.call_timeout = minutes(10);
    options.stop = stop_.get_token();
    return options;
  }

  // Starts wait(), stops the client once started() is true, and expects that wait() ends.
  void ExpectStops(const std::function<absl::Status()>& wait,
                   const std::function<bool()>& started) {
    auto status = std::async(std::launch::async, wait);
    EXPECT_TRUE(WaitFor(started));
    stop_.request_stop();
    ASSERT_EQ(status.wait_for(minutes(1)), std::future_status::ready);
    const absl::Status ended = status.get();
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  }

  std::stop_source stop_;
};

TEST_F(StopTest, EndsACallOnBothSides) {
  std::atomic<bool> cancelled = false;
  ScriptedAnswers server([&](grpc::ServerContext& context) {
    cancelled = WaitFor([&] { return context.IsCancelled(); }, minutes(1));
    return grpc::Status::CANCELLED;
  });
  const auto client = Client::Connect(server.address(), Options());
  ASSERT_TRUE(client.ok()) << client.status();
  ExpectStops([&] { return (*client)->GetCalibration("models/m").status(); },
              [&] { return server.calls() == 1; });
  EXPECT_TRUE(WaitFor([&] { return cancelled.load(); }));
  // No other call begins.
  EXPECT_TRUE(absl::IsCancelled((*client)->GetCalibration("models/m").status()));
  EXPECT_EQ(server.calls(), 1);
}

TEST_F(StopTest, EndsTheWaitBetweenTwoAttempts) {
  ScriptedAnswers server([](grpc::ServerContext&) -> grpc::Status {
    rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(300);
    rpc::Status full;
    full.set_code(grpc::UNAVAILABLE);
    google::protobuf::Any& detail = *full.add_details();
    detail.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
    detail.set_value(retry.SerializeAsString());
    return {grpc::UNAVAILABLE, "starting", full.SerializeAsString()};
  });
  const auto client = Client::Connect(server.address(), Options());
  ASSERT_TRUE(client.ok()) << client.status();
  ExpectStops([&] { return (*client)->GetCalibration("models/m").status(); },
              [&] { return server.calls() == 1; });
  EXPECT_EQ(server.calls(), 1);
}

TEST_F(StopTest, EndsConnectToASilentPeer) {
  ScriptedServer server([](int, ScriptedServer::Stream&) { return grpc::Status::OK; });
  calibd::testing::TcpProxy proxy(server.address());
  proxy.Freeze();
  std::atomic<bool> started = false;
  ExpectStops(
      [&] {
        started = true;
        return Client::Connect(proxy.address(), Options()).status();
      },
      [&] { return started.load(); });
}

TEST_F(StopTest, EndsTheWaitForAStreamToOpen) {
  std::atomic<bool> started = false;
  ScriptedServer server([&](int, ScriptedServer::Stream& stream) {
    started = true;
    v1::StreamObservationsRequest request;
    while (stream.Read(&request)) {
    }
    return grpc::Status::CANCELLED;
  });
  const auto client = Client::Connect(server.address(), Options());
  ASSERT_TRUE(client.ok()) << client.status();
  ExpectStops([&] { return (*client)->OpenStream("models/m").status(); },
              [&] { return started.load(); });
}

}  // namespace
}  // namespace calibd::client
