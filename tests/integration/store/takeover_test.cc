// An owner and standbys on one database, as real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/postgres_cluster.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr char kTakeoverModel[] = "models/takeover";

class TakeoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    cluster_ = std::make_unique<PostgresCluster>();
    database_ = cluster_->NewStore();
    owner_ = ServerProcess::Start(Arguments());
    ASSERT_NE(owner_, nullptr);
    v1::Model model;
    model.set_name(kTakeoverModel);
    model.mutable_classes()->set_count(10);
    v1::CreateModelRequest request;
    *request.mutable_model() = model;
    grpc::ClientContext context;
    v1::CreateModelResponse response;
    ASSERT_TRUE(ServiceClient(owner_->grpc_address())
                    .models->CreateModel(&context, request, &response)
                    .ok());
  }

  [[nodiscard]] std::vector<std::string> Arguments() const {
    return {"--store",         "postgres", "--postgres", cluster_->Connection(database_),
            "--drain-seconds", "40"};
  }
  void LaunchStandby() {
    standby_ = ServerProcess::Launch(Arguments());
    ASSERT_TRUE(standby_->AwaitListening());
    ASSERT_TRUE(WaitFor([&] { return StandsBy(*standby_); }));
  }
  // Whether the server knows another owner, which then answers its calls.
  static bool StandsBy(const ServerProcess& server) {
    return HttpGet(server.http_address(), "/readyz").body.find("stands by") != std::string::npos;
  }
  // A read at this server.
  static grpc::Status Read(const ServerProcess& server) {
    const ServiceClient client(server.grpc_address());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::GetModelRequest request;
    request.set_name(kTakeoverModel);
    v1::GetModelResponse response;
    return client.models->GetModel(&context, request, &response);
  }
  // The reason why it does not answer; empty if it does.
  static std::string ReasonAt(const ServerProcess& server) {
    const grpc::Status status = Read(server);
    return status.ok() ? "" : Reason(status);
  }

  // Whether the health service of gRPC says so, which clients with several addresses ask.
  static bool Serves(const ServerProcess& server) {
    return ServiceClient(server.grpc_address()).CheckHealth("").serving == 1;
  }
  static void ExpectAliveNotReady(const ServerProcess& server, const std::string& why) {
    const HttpAnswer ready = HttpGet(server.http_address(), "/readyz");
    EXPECT_EQ(ready.status, 503);
    EXPECT_THAT(ready.body, HasSubstr(why));
    EXPECT_EQ(HttpGet(server.http_address(), "/healthz").status, 200);
    EXPECT_TRUE(WaitFor([&] { return !Serves(server); }));
    EXPECT_THAT(HttpGet(server.http_address(), "/metrics").body,
                HasSubstr("\ncalibd_store_owner 0\n"));
  }
  // So the owner has something to store when it ends.
  void ObserveAtOwner() {
    v1::ObserveRequest request;
    request.set_model(kTakeoverModel);
    *request.mutable_observations() = ToProto(testing::Draw(100).view());
    ASSERT_TRUE(ServiceClient(owner_->grpc_address()).Observe(request).ok());
  }
  void StartAgain() {
    owner_ = ServerProcess::Start(Arguments());
    ASSERT_NE(owner_, nullptr);
    EXPECT_EQ(ServiceClient(owner_->grpc_address()).GetCalibration(kTakeoverModel).observations(),
              100);
  }

  std::unique_ptr<PostgresCluster> cluster_;
  std::string database_;
  std::unique_ptr<ServerProcess> owner_;
  std::unique_ptr<ServerProcess> standby_;
};

TEST_F(TakeoverTest, AStandbyLivesAndTakesOverWhenTheOwnerEnds) {
  LaunchStandby();
  ExpectAliveNotReady(*standby_, "stands by");
  EXPECT_THAT(
      HttpGet(owner_->http_address(), "/metrics").body,
      AllOf(HasSubstr("\ncalibd_store_owner 1\n"), HasSubstr("\ncalibd_store_synchronous 0\n")));
  const auto begin = steady_clock::now();
  owner_->process().Signal(SIGTERM);
  EXPECT_TRUE(standby_->AwaitServing());
  const auto taken =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin);
  RecordProperty("handover_ms", std::to_string(taken.count()));
  // The former owner has not had to expire.
  EXPECT_LT(taken, std::chrono::seconds(7));
  EXPECT_EQ(owner_->WaitForExit(), 0);
  EXPECT_EQ(ReasonAt(*standby_), "");
  EXPECT_EQ(standby_->Terminate(), 0);
}

// A stopped process knows nothing of the takeover when it goes on: it answers no read, and ends.
TEST_F(TakeoverTest, AStoppedOwnerAnswersNothingAfterTheTakeover) {
  LaunchStandby();
  owner_->process().Signal(SIGSTOP);
  EXPECT_TRUE(standby_->AwaitServing());
  EXPECT_EQ(ReasonAt(*standby_), "");
  owner_->process().Signal(SIGCONT);
  // It may end before it answers.
  EXPECT_FALSE(Read(*owner_).ok());
  EXPECT_EQ(owner_->WaitForExit(), 1);
  EXPECT_THAT(owner_->process().Output(), HasSubstr("another calibd has taken the store"));
  // A new start of it stands by.
  owner_ = ServerProcess::Launch(Arguments());
  ASSERT_TRUE(owner_->AwaitListening());
  EXPECT_TRUE(WaitFor([&] { return StandsBy(*owner_); }));
  EXPECT_EQ(owner_->Terminate(), 0);
  EXPECT_EQ(ReasonAt(*standby_), "");
}

TEST_F(TakeoverTest, AnOwnerWithoutItsDatabaseAnswersNothingAfterItsLease) {
  cluster_->Stop();
  EXPECT_TRUE(WaitFor([&] { return ReasonAt(*owner_) == "LEASE_LOST"; }));
  ExpectAliveNotReady(*owner_, "does not reach the database");
  cluster_->Start();
  EXPECT_TRUE(WaitFor([&] { return ReasonAt(*owner_).empty(); }));
  EXPECT_TRUE(WaitFor([&] { return Serves(*owner_); }));
  EXPECT_EQ(HttpGet(owner_->http_address(), "/readyz").status, 200);
}

// Connections to the database are open, but there is no answer, as when the network loses all.
TEST_F(TakeoverTest, AnOwnerWhoseDatabaseHangsAnswersNothingAndEndsInTheNormalWay) {
  ObserveAtOwner();
  cluster_->Freeze();
  EXPECT_TRUE(WaitFor([&] { return ReasonAt(*owner_) == "LEASE_LOST"; }));
  ExpectAliveNotReady(*owner_, "does not reach the database");
  EXPECT_EQ(owner_->Terminate(), 0);
  cluster_->Thaw();
  StartAgain();
}

TEST_F(TakeoverTest, AStandbyWhoseDatabaseHangsEndsInTheNormalWay) {
  LaunchStandby();
  cluster_->Freeze();
  EXPECT_EQ(standby_->Terminate(), 0);
}

TEST_F(TakeoverTest, AnOwnerWithoutItsDatabaseEndsInTheNormalWay) {
  ObserveAtOwner();
  cluster_->Stop();
  EXPECT_EQ(owner_->Terminate(), 0);
  cluster_->Start();
  StartAgain();
}

// A client that names both finds the owner, and its stream and calls go on at the next one.
TEST_F(TakeoverTest, AClientGoesOnAtTheNextOwner) {
  LaunchStandby();
  const auto client = client::Client::Connect(
      absl::StrCat("ipv4:", standby_->grpc_address(), ",", owner_->grpc_address()));
  ASSERT_TRUE(client.ok()) << client.status();
  auto stream = (*client)->OpenStream(kTakeoverModel);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const PredictionSet rows = testing::Draw(100);
  const auto send = [&] {
    absl::Status status =
        (*stream)->Send(client::PredictionKind::kProbabilities, rows.probabilities, rows.labels);
    if (status.ok()) status = (*stream)->Flush();
    EXPECT_TRUE(status.ok()) << status;
  };
  send();
  EXPECT_TRUE(WaitFor([&] { return (*stream)->counts().accepted_rows == 100; }));
  // Meanwhile no call fails.
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      const auto answer = (*client)->GetCalibration(kTakeoverModel);
      EXPECT_TRUE(answer.ok()) << answer.status();
      if (!answer.ok()) return;
    }
  });
  EXPECT_EQ(owner_->Terminate(), 0);
  EXPECT_TRUE(standby_->AwaitServing());
  stop = true;
  reader.join();
  send();
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 200);
  const auto answer = (*client)->GetCalibration(kTakeoverModel);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->observations(), 200);
}

}  // namespace
}  // namespace calibd::testing
