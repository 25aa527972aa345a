#include <gmock/gmock.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kServing = 1;
constexpr std::uint32_t kNotServing = 2;

TEST(LifecycleTest, ReportsHealthForEachServiceByName) {
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  for (const char* service :
       {"", "calibd.v1.ModelService", "calibd.v1.IngestService", "calibd.v1.CalibrationService"}) {
    EXPECT_EQ(client.CheckHealth(service).serving, kServing) << service;
  }
  EXPECT_EQ(client.CheckHealth("calibd.v1.NoService").code, grpc::NOT_FOUND);
  const FinishedRun healthy = RunCalibd({"healthcheck", "--listen", server->grpc_address()});
  EXPECT_EQ(healthy.exit_code, 0);
  EXPECT_THAT(healthy.output, HasSubstr("SERVING"));
}

TEST(LifecycleTest, HealthcheckOfNoServerFails) {
  // Nobody listens on port 1 here.
  const FinishedRun run = RunCalibd({"healthcheck", "--listen", "127.0.0.1:1"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("127.0.0.1:1"));
}

TEST(LifecycleTest, SecondServerOnTheSamePortIsRefused) {
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  const FinishedRun grpc =
      RunCalibd({"--listen", server->grpc_address(), "--http-listen", "127.0.0.1:0"});
  EXPECT_EQ(grpc.exit_code, 1);
  EXPECT_THAT(grpc.output, HasSubstr("cannot listen on " + server->grpc_address()));
  const FinishedRun http =
      RunCalibd({"--listen", "127.0.0.1:0", "--http-listen", server->http_address()});
  EXPECT_EQ(http.exit_code, 1);
  EXPECT_THAT(http.output, HasSubstr("cannot listen on " + server->http_address()));
}

TEST(LifecycleTest, WrongUsageEndsWithCodeTwo) {
  const FinishedRun remote = RunCalibd({"--listen", "0.0.0.0:0"});
  EXPECT_EQ(remote.exit_code, 2);
  EXPECT_THAT(remote.output, HasSubstr("--insecure-allow-remote"));
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "calibd.toml").string();
  std::ofstream(file) << "no-such-key = 1\n";
  const FinishedRun unknown = RunCalibd({"--config", file});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("unknown key no-such-key"));
}

TEST(LifecycleTest, RemoteAddressWithTheInsecureFlagServes) {
  const auto server = ServerProcess::Start({"--listen", "0.0.0.0:0", "--insecure-allow-remote"});
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(RunCalibd({"healthcheck", "--listen", server->grpc_address()}).exit_code, 0);
}

TEST(LifecycleTest, ReflectionIsServedUnlessItIsSwitchedOff) {
  const auto reflection_code = [](const std::string& address) {
    ServiceClient client(address);
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(client.channel);
    CallContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(
        &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    int tag = 0;
    const auto wait = [&queue, &tag] {
      void* got = nullptr;
      bool ok = false;
      queue.Next(&got, &ok);
      EXPECT_EQ(got, &tag);
    };
    call->StartCall(&tag);
    wait();
    call->WritesDone(&tag);
    wait();
    grpc::Status status;
    call->Finish(&status, &tag);
    wait();
    return status.error_code();
  };
  const auto without = ServerProcess::Start({"--reflection=false"});
  ASSERT_NE(without, nullptr);
  EXPECT_EQ(reflection_code(without->grpc_address()), grpc::UNIMPLEMENTED);
  const auto with = ServerProcess::Start();
  ASSERT_NE(with, nullptr);
  EXPECT_EQ(reflection_code(with->grpc_address()), grpc::OK);
}

TEST(LifecycleTest, DrainAcknowledgesWhatWasAcceptedAndEndsInTime) {
  // A drain so long that an end without it is told from one at its end on a busy machine too.
  const auto server = ServerProcess::Start({"--drain-seconds", "100"});
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  client.CreateFixed("models/m", 10);
  const PredictionSet set = Draw(100);
  ObservationCall call(client);
  ASSERT_EQ(call.Open("models/m", "p"), 1);
  ObservationCall idle(client);
  ASSERT_EQ(idle.Open("models/m", "idle"), 1);
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(call.SendBatch(i, set.view()));
  }
  ASSERT_TRUE(call.ReadAck(1));

  const auto start = std::chrono::steady_clock::now();
  server->process().Signal(SIGTERM);
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(Reason(status), "DRAINING") << status.error_message();
  EXPECT_EQ(idle.Await().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(server->WaitForExit(), 0) << server->process().Output();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  EXPECT_THAT(server->process().Output(), HasSubstr("drained"));
}

TEST(LifecycleTest, DrainEndsWatchesAndNoSilentClientDelaysIt) {
  const auto server = ServerProcess::Start({"--drain-seconds", "4"});
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  client.CreateFixed("models/m", 10);
  // A watcher of the health service keeps its call open until the end. The messages are
  // wire-compatible: a string and a varint, each with field number 1.
  grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::UInt32Value> stub(
      client.channel);
  CallContext context;
  grpc::CompletionQueue queue;
  const auto watch = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  int tag = 0;
  void* got = nullptr;
  bool ok = false;
  watch->StartCall(&tag);
  ASSERT_TRUE(queue.Next(&got, &ok) && ok);
  watch->Write(google::protobuf::StringValue(), &tag);
  ASSERT_TRUE(queue.Next(&got, &ok) && ok);
  google::protobuf::UInt32Value health;
  watch->Read(&health, &tag);
  ASSERT_TRUE(queue.Next(&got, &ok) && ok);
  EXPECT_EQ(health.value(), kServing);

  ObservationCall silent(client);
  Request open;
  open.mutable_open()->set_model("models/m");
  open.mutable_open()->set_producer_id("p");
  ASSERT_TRUE(silent.Send(open));

  server->process().Signal(SIGTERM);
  watch->Read(&health, &tag);
  ASSERT_TRUE(queue.Next(&got, &ok) && ok);
  EXPECT_EQ(health.value(), kNotServing);
  EXPECT_EQ(server->WaitForExit(), 0) << server->process().Output();
  context.TryCancel();
  grpc::Status status;
  watch->Finish(&status, &tag);
  ASSERT_TRUE(queue.Next(&got, &ok));
}

TEST(LifecycleTest, SecondSignalEndsTheProcessAtOnce) {
  const auto server = ServerProcess::Start({"--drain-seconds", "60", "--compute-threads", "1"});
  ASSERT_NE(server, nullptr);
  server->process().Signal(SIGTERM);
  // Works whether or not the drain is over by then.
  const auto code = server->Terminate();
  ASSERT_TRUE(code.has_value());
  EXPECT_LE(*code, 1);
}

TEST(LifecycleTest, LogsAreJsonOnRequestAndEscapeTextOfClients) {
  const auto server = ServerProcess::Start({"--log-format", "json"});
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->Terminate(), 0);
  std::istringstream lines(server->process().Output());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, ::testing::StartsWith("{\"time\":\""));
    EXPECT_THAT(line, ::testing::EndsWith("\"}"));
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace calibd::testing
