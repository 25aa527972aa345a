// A standby has the owner of the store answer its calls: real processes on one database.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/substitute.h"
#include "calibd/client/client.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/postgres_cluster.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kForwardedModel[] = "models/forwarded";
// The token "abc" is of a principal that may do everything; see FIPS 180-2, appendix B.1.
constexpr char kAccess[] = R"([[principal]]
name = "$0"
tokens = ["sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad:2999-01-01"]
grants = ["admin models/*"]
)";

class ForwardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    cluster_ = std::make_unique<PostgresCluster>();
    database_ = cluster_->NewStore();
  }

  // Starts an owner and a standby.
  void Launch(const std::vector<std::string>& more = {}) {
    owner_ = ServerProcess::Start(Arguments(more));
    ASSERT_NE(owner_, nullptr);
    standby_ = ServerProcess::Launch(Arguments(more));
    ASSERT_TRUE(AwaitStandby());
  }
  // The same with access files, in which the token "abc" has a principal of this name.
  void LaunchWithAccess(const std::string& owner_name, const std::string& standby_name) {
    owner_ = ServerProcess::Start(WithAccess("owner", owner_name));
    ASSERT_NE(owner_, nullptr);
    standby_ = ServerProcess::Launch(WithAccess("standby", standby_name));
    ASSERT_TRUE(AwaitStandby());
  }
  [[nodiscard]] std::vector<std::string> WithAccess(const std::string& node,
                                                    const std::string& name) const {
    const std::string access = (folder_.path() / (node + ".toml")).string();
    std::ofstream(access) << absl::Substitute(kAccess, name);
    std::filesystem::permissions(access, std::filesystem::perms::owner_read);
    return Arguments({"--access-file", access, "--audit-log", AuditLog(node).string()});
  }
  [[nodiscard]] std::filesystem::path AuditLog(const std::string& node) const {
    return folder_.path() / (node + ".log");
  }
  // Ends the owner, and returns its audit log.
  std::string AuditOfOwner() {
    EXPECT_EQ(owner_->Terminate(), 0);
    std::ifstream log(AuditLog("owner"));
    return {std::istreambuf_iterator<char>(log), {}};
  }
  [[nodiscard]] bool AwaitStandby() const {
    return standby_->AwaitListening() && WaitFor([&] {
             return HttpGet(standby_->http_address(), "/readyz").body.find("stands by") !=
                    std::string::npos;
           });
  }
  [[nodiscard]] std::vector<std::string> Arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"--store", "postgres", "--postgres",
                                       cluster_->Connection(database_)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  static void Authorize(grpc::ClientContext& context, const std::string& token) {
    SetDeadline(context);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }

  static grpc::Status Create(const ServerProcess& server, const std::string& name,
                             const std::string& token = "") {
    v1::CreateModelRequest request;
    request.mutable_model()->set_name(name);
    request.mutable_model()->mutable_classes()->set_count(10);
    v1::CreateModelResponse response;
    grpc::ClientContext context;
    Authorize(context, token);
    return ServiceClient(server.grpc_address()).models->CreateModel(&context, request, &response);
  }
  static grpc::Status Get(const ServerProcess& server, const std::string& token,
                          v1::GetModelResponse& response) {
    v1::GetModelRequest request;
    request.set_name(kForwardedModel);
    grpc::ClientContext context;
    Authorize(context, token);
    return ServiceClient(server.grpc_address()).models->GetModel(&context, request, &response);
  }
  static v1::ObserveRequest Rows(std::size_t count) {
    v1::ObserveRequest request;
    request.set_model(kForwardedModel);
    const PredictionSet rows = testing::Draw(count);
    *request.mutable_observations() = ToProto(rows.view());
    return request;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<PostgresCluster> cluster_;
  std::string database_;
  std::unique_ptr<ServerProcess> owner_;
  std::unique_ptr<ServerProcess> standby_;
};

TEST_F(ForwardTest, AStandbyAnswersAsTheOwnerDoes) {
  Launch();
  ASSERT_TRUE(Create(*standby_, kForwardedModel).ok());
  ServiceClient at_standby(standby_->grpc_address());
  ServiceClient at_owner(owner_->grpc_address());
  ASSERT_TRUE(at_standby.Observe(Rows(1000)).ok());
  EXPECT_EQ(at_owner.GetCalibration(kForwardedModel).observations(), 1000);
  EXPECT_EQ(at_standby.GetCalibration(kForwardedModel).observations(), 1000);
  v1::GetModelResponse expected;
  v1::GetModelResponse answered;
  ASSERT_TRUE(Get(*owner_, "", expected).ok());
  ASSERT_TRUE(Get(*standby_, "", answered).ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(expected, answered));
  // HTTP and the page are served by the same functions.
  const HttpAnswer answer = HttpGet(standby_->http_address(), "/v1/models/forwarded");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, HttpGet(owner_->http_address(), "/v1/models/forwarded").body);
  EXPECT_THAT(HttpGet(standby_->http_address(), "/v1/models").body, HasSubstr("models/forwarded"));
}

TEST_F(ForwardTest, ErrorsOfTheOwnerArriveWithTheirDetails) {
  Launch();
  const grpc::Status at_owner = Create(*owner_, "models/UPPER CASE");
  const grpc::Status at_standby = Create(*standby_, "models/UPPER CASE");
  EXPECT_EQ(at_standby.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(at_standby.error_message(), at_owner.error_message());
  EXPECT_EQ(at_standby.error_details(), at_owner.error_details());
  v1::GetModelResponse response;
  EXPECT_EQ(Reason(Get(*standby_, "", response)), "MODEL_NOT_FOUND");
}

TEST_F(ForwardTest, LongCallsAndWatchesPassEveryMessageOn) {
  Launch();
  ASSERT_TRUE(Create(*owner_, kForwardedModel).ok());
  ServiceClient client(standby_->grpc_address());
  ASSERT_TRUE(client.Observe(Rows(1000)).ok());
  {
    v1::RunTestRequest request;
    request.set_model(kForwardedModel);
    grpc::ClientContext context;
    SetDeadline(context);
    const auto reader = client.calibration->RunTest(&context, request);
    v1::RunTestResponse response;
    bool has_result = false;
    while (reader->Read(&response)) has_result = has_result || response.has_result();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_TRUE(has_result);
  }
  v1::WatchCalibrationRequest request;
  request.set_model(kForwardedModel);
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = client.calibration->WatchCalibration(&context, request);
  v1::WatchCalibrationResponse response;
  ASSERT_TRUE(reader->Read(&response));
  // Each answer comes at once, also the newest one of a watch that goes on.
  ASSERT_TRUE(client.Observe(Rows(100)).ok());
  std::int64_t observations = 0;
  while (observations < 1100 && reader->Read(&response)) {
    observations = response.calibration().observations();
  }
  EXPECT_EQ(observations, 1100);
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The owner learns that the client has gone.
  EXPECT_TRUE(WaitFor([&] {
    return HttpGet(owner_->http_address(), "/metrics")
               .body.find("grpc_method=\"WatchCalibration\",grpc_code=\"Cancelled\"} 1\n") !=
           std::string::npos;
  }));
}

TEST_F(ForwardTest, AStandbyThatEndsSendsItsWatchersElsewhere) {
  Launch();
  ASSERT_TRUE(Create(*owner_, kForwardedModel).ok());
  // A load balancer: first the standby answers, then the owner does.
  TcpProxy balancer(standby_->grpc_address());
  auto client = client::Client::Connect(balancer.address());
  ASSERT_TRUE(client.ok()) << client.status();
  std::atomic<std::int64_t> changes = 0;
  std::atomic<std::int64_t> observations = -1;
  std::mutex mutex;
  std::vector<std::string> errors;
  std::jthread watcher([&](const std::stop_token& stop) {
    const client::WatchOptions options{.stop = stop,
                                       .on_connection = [&](const absl::Status& status) {
                                         const std::lock_guard lock(mutex);
                                         if (!status.ok()) errors.push_back(status.ToString());
                                       }};
    const absl::Status status = (*client)->Watch(
        kForwardedModel,
        [&](const v1::WatchCalibrationResponse& change) {
          observations = change.calibration().observations();
          ++changes;
          return true;
        },
        options);
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  ASSERT_TRUE(WaitFor([&] { return changes > 0; }));
  balancer.SwitchTo(owner_->grpc_address());
  // Its drain may take 30 s.
  EXPECT_EQ(standby_->Terminate(std::chrono::seconds(15)), 0);
  ASSERT_TRUE(ServiceClient(owner_->grpc_address()).Observe(Rows(1000)).ok());
  EXPECT_TRUE(WaitFor([&] { return observations == 1000; }));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(errors, ::testing::Contains(HasSubstr("shutting down")));
}

TEST_F(ForwardTest, AStreamOfObservationsIsToldTheOwner) {
  Launch();
  ASSERT_TRUE(Create(*owner_, kForwardedModel).ok());
  const ServiceClient client(standby_->grpc_address());
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = client.ingest->StreamObservations(&context);
  v1::StreamObservationsRequest request;
  request.mutable_open()->set_model(kForwardedModel);
  request.mutable_open()->set_producer_id("p");
  stream->Write(request);
  v1::StreamObservationsResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(Reason(status), "NOT_OWNER");
  EXPECT_THAT(status.error_message(), HasSubstr(owner_->grpc_address()));
}

TEST_F(ForwardTest, AnOwnerThatIsGoneIsNamedUntilTheStandbyTakesOver) {
  Launch();
  ASSERT_TRUE(Create(*standby_, kForwardedModel).ok());
  owner_->Kill();
  v1::GetModelResponse response;
  const grpc::Status status = Get(*standby_, "", response);
  EXPECT_EQ(Reason(status), "NOT_OWNER");
  EXPECT_THAT(status.error_message(), HasSubstr("does not answer"));
  ASSERT_TRUE(standby_->AwaitServing());
  EXPECT_TRUE(Get(*standby_, "", response).ok());
}

TEST_F(ForwardTest, TheOwnerKnowsWhoCalls) {
  LaunchWithAccess("ops", "ops");
  ASSERT_TRUE(Create(*standby_, kForwardedModel, "abc").ok());
  v1::GetModelResponse response;
  EXPECT_TRUE(Get(*standby_, "abc", response).ok());
  EXPECT_EQ(Get(*standby_, "", response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Get(*standby_, "wrong", response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  // Who does not know the owner's id cannot pretend to be a caller.
  for (const std::string id : {"", "!", "MDEyMzQ1Njc4OWFiY2RlZg"}) {
    grpc::ClientContext context;
    Authorize(context, "abc");
    context.AddMetadata("calibd-forwarded-to", id);
    context.AddMetadata("calibd-forwarded-principal", "b3Bz");  // "ops"
    v1::GetModelRequest request;
    request.set_name(kForwardedModel);
    const grpc::Status status =
        ServiceClient(owner_->grpc_address()).models->GetModel(&context, request, &response);
    EXPECT_EQ(Reason(status), "NOT_OWNER") << id;
  }
  // The audit log of the owner has the change, with the caller and its own address.
  EXPECT_THAT(AuditOfOwner(),
              AllOf(HasSubstr("\"ops\""), HasSubstr("CreateModel"), HasSubstr("127.0.0.1")));
}

TEST_F(ForwardTest, TheOwnerCountsCallersThatItDoesNotKnow) {
  LaunchWithAccess("operations", "ops");
  v1::GetModelResponse response;
  EXPECT_EQ(Reason(Get(*standby_, "abc", response)), "UNKNOWN_PRINCIPAL");
  EXPECT_THAT(HttpExchange(owner_->http_address(),
                           "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           "Authorization: Bearer abc\r\n\r\n"),
              HasSubstr("calibd_access_denied_total{reason=\"unauthenticated\"} 1\n"));
  EXPECT_THAT(AuditOfOwner(),
              AllOf(HasSubstr("GetModel"), HasSubstr("UNAUTHENTICATED"), HasSubstr("127.0.0.1")));
}

}  // namespace
}  // namespace calibd::testing
