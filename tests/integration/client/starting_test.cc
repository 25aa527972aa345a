// While a server recovers its models, it is reachable but not ready, and clients wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <future>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "calibd/rpc/status.pb.h"
#include "calibd/v1/store_service.grpc.pb.h"
#include "integration/client/run_calibctl.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/sealed_database.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kServing = 1;
constexpr std::uint32_t kNotServing = 2;
constexpr char kModel[] = "models/m";
constexpr std::int64_t kRows = 300;

// Expects an error with a retry delay.
void ExpectStarting(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(Reason(status), "STARTING");
  rpc::Status wire;
  ASSERT_TRUE(wire.ParseFromString(status.error_details()));
  rpc::RetryInfo retry;
  for (const google::protobuf::Any& detail : wire.details()) {
    if (detail.type_url() == "type.googleapis.com/google.rpc.RetryInfo") {
      ASSERT_TRUE(retry.ParseFromString(detail.value()));
    }
  }
  EXPECT_GT(retry.retry_delay().nanos() + retry.retry_delay().seconds(), 0);
}

// A server with a model and a log, which is restarted and blocked while it reads them.
class StartingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    grpc_address_ = server_->grpc_address();
    http_address_ = server_->http_address();
    ServiceClient service(grpc_address_);
    service.CreateFixed(kModel, 10);
    v1::ObserveRequest request;
    request.set_model(kModel);
    for (std::uint64_t i = 0; i < 3; ++i) {
      *request.mutable_observations() = ToProto(Draw(kRows / 3, 10, i).view());
      ASSERT_TRUE(service.Observe(request).ok());
    }
    answer_ = service.GetCalibration(kModel);
    ASSERT_EQ(answer_.observations(), kRows);
    std::ofstream(hold_) << "held\n";
  }

  // point: the failpoint of the recovery that blocks until Release.
  void Restart(const std::string& point) {
    server_->Kill();
    server_ = ServerProcess::Launch(
        {"--data-dir", data_, "--listen", grpc_address_, "--http-listen", http_address_},
        {"CALIBD_FAILPOINT=" + point + "@" + hold_});
    ASSERT_TRUE(WaitFor([&] {
      return Http("/readyz").status == 503 &&
             ServiceClient(grpc_address_).CheckHealth("").code == grpc::OK;
    })) << server_->process().Output();
  }
  void Release() const { std::filesystem::remove(hold_); }

  [[nodiscard]] HttpAnswer Http(const std::string& target) const {
    return HttpGet(http_address_, target);
  }
  // Returns how many calls of a method were refused.
  [[nodiscard]] int Refused(const std::string& method) const {
    const std::string text = Http("/metrics").body;
    const std::size_t at = text.find("grpc_method=\"" + method + "\",grpc_code=\"Unavailable\"} ");
    return at == std::string::npos ? 0 : std::stoi(text.substr(text.find("} ", at) + 2));
  }

  const TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  const std::string hold_ = (folder_.path() / "hold").string();
  std::string grpc_address_;
  std::string http_address_;
  v1::GetCalibrationResponse answer_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(StartingTest, IsReachableButNotReadyUntilItServes) {
  Restart("recovery_batch");
  const HttpAnswer ready = Http("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("starting"));
  EXPECT_EQ(Http("/healthz").status, 200);
  EXPECT_TRUE(WaitFor([&] {
    return Http("/metrics").body.find("calibd_recovery_models 1\n") != std::string::npos;
  }));
  const std::string metrics = Http("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("calibd_recovering 1\n"));
  EXPECT_THAT(metrics, HasSubstr("calibd_recovery_batches 0\n"));
  EXPECT_THAT(metrics, Not(HasSubstr("calibd_observations_total{")));
  EXPECT_THAT(metrics, Not(HasSubstr("calibd_store_recovery_seconds ")));

  ServiceClient service(grpc_address_);
  const std::vector<std::string> services{"", "calibd.v1.ModelService", "calibd.v1.IngestService",
                                          "calibd.v1.CalibrationService", "calibd.v1.StoreService"};
  for (const std::string& name : services) {
    EXPECT_EQ(service.CheckHealth(name).serving, kNotServing) << name;
  }
  EXPECT_EQ(RunCalibd({"healthcheck", "--listen", grpc_address_}).exit_code, 1);

  v1::Model model;
  model.set_name("models/other");
  model.mutable_classes()->set_count(2);
  ExpectStarting(service.Create(model));
  ExpectStarting(service.Delete(kModel));
  v1::ObserveRequest observe;
  observe.set_model(kModel);
  *observe.mutable_observations() = ToProto(Draw(1).view());
  ExpectStarting(service.Observe(observe));
  v1::QuadraticTestResult result;
  v1::RunTestRequest test;
  test.set_model(kModel);
  ExpectStarting(service.RunTest(test, &result));
  v1::Evaluation evaluation;
  v1::EvaluateRequest evaluate;
  evaluate.set_model(kModel);
  ExpectStarting(service.Evaluate(evaluate, &evaluation));
  {
    CallContext context;
    v1::GetModelRequest request;
    request.set_name(kModel);
    v1::GetModelResponse response;
    ExpectStarting(service.models->GetModel(&context, request, &response));
  }
  {
    CallContext context;
    v1::ListModelsResponse response;
    ExpectStarting(service.models->ListModels(&context, v1::ListModelsRequest(), &response));
  }
  {
    CallContext context;
    v1::GetCalibrationRequest request;
    request.set_model(kModel);
    v1::GetCalibrationResponse response;
    ExpectStarting(service.calibration->GetCalibration(&context, request, &response));
  }
  const auto store = v1::StoreService::NewStub(service.channel);
  {
    CallContext context;
    ExpectStarting(store->Backup(&context, v1::BackupRequest())->Finish());
  }
  {
    CallContext context;
    ExpectStarting(store->Verify(&context, v1::VerifyRequest())->Finish());
  }
  ObservationCall stream(service);
  EXPECT_EQ(stream.Open(kModel, "p"), std::nullopt);
  ExpectStarting(stream.Await());
  EXPECT_FALSE(server_->serving());

  Release();
  ASSERT_TRUE(server_->AwaitServing()) << server_->process().Output();
  for (const std::string& name : services) {
    EXPECT_EQ(service.CheckHealth(name).serving, kServing) << name;
  }
  EXPECT_EQ(Http("/readyz").status, 200);
  const std::string served = Http("/metrics").body;
  EXPECT_THAT(served, HasSubstr("calibd_recovering 0\n"));
  EXPECT_THAT(served, HasSubstr("calibd_recovery_batches 3\n"));
  EXPECT_THAT(served, HasSubstr("calibd_store_recovery_seconds "));
  const v1::GetCalibrationResponse answer = service.GetCalibration(kModel);
  EXPECT_EQ(answer.observations(), kRows);
  EXPECT_EQ(answer.estimates(0).skce(), answer_.estimates(0).skce());
  EXPECT_EQ(server_->Terminate(), 0);
}

TEST_F(StartingTest, ClientsWaitAndContinue) {
  // This client would fail at once without the server's retry delay.
  auto client = Client::Connect(grpc_address_, {.max_attempts = 1});
  ASSERT_TRUE(client.ok());
  auto stream = (*client)->OpenStream(kModel, {.producer_id = "p", .max_rows_per_batch = 10});
  ASSERT_TRUE(stream.ok());
  const PredictionSet set = Draw(100);
  const auto send = [&] {
    return (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
  };
  ASSERT_TRUE(send().ok());
  Restart("recovery_batch");
  ASSERT_TRUE(send().ok());
  auto finished = std::async(std::launch::async, [&] { return (*stream)->Finish(); });
  // A client that connects now must not be affected by failures of the other client before the
  // server was listening.
  auto newcomer = Client::Connect(grpc_address_, {.max_attempts = 1});
  ASSERT_TRUE(newcomer.ok()) << newcomer.status();
  auto model = std::async(std::launch::async, [&] { return (*newcomer)->GetModel(kModel); });
  auto opened = std::async(std::launch::async, [&] {
    return (*newcomer)->OpenStream(kModel, {.producer_id = "q"}).status();
  });
  CalibctlRun show({"--server", grpc_address_, "--output", "json", "show", "m"});
  EXPECT_TRUE(WaitFor([&] {
    return Refused("GetModel") > 0 && Refused("GetCalibration") > 0 &&
           Refused("StreamObservations") > 1;
  }));
  EXPECT_NE(finished.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_NE(model.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_NE(opened.wait_for(std::chrono::seconds(0)), std::future_status::ready);

  Release();
  const auto counts = finished.get();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 200);
  const auto found = model.get();
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(opened.get().ok());
  EXPECT_EQ(show.exit_code(), 0) << show.error();
  const auto answer = (*client)->GetCalibration(kModel);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->observations(), kRows + 200);
}

TEST_F(StartingTest, ASignalEndsTheRecoveryProperly) {
  Restart("recovery_batch");
  server_->process().Signal(SIGTERM);
  EXPECT_TRUE(WaitFor([&] { return Http("/readyz").body.find("draining") != std::string::npos; }));
  Release();
  EXPECT_EQ(server_->WaitForExit(), 0) << server_->process().Output();
  EXPECT_FALSE(server_->serving());
  EXPECT_THAT(server_->process().Output(), Not(HasSubstr("serving")));

  server_ = ServerProcess::Start({"--data-dir", data_});
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(ServiceClient(server_->grpc_address()).GetCalibration(kModel).observations(), kRows);
}

TEST_F(StartingTest, AFailedRecoveryEndsTheProcessWithoutServing) {
  // An invalid declaration without classes.
  server_->Kill();
  {
    v1::Model none;
    none.set_name(kModel);
    const std::string blob = none.SerializeAsString();
    const absl::Status changed = ChangeDatabase(
        data_ + "/calibd.db",
        {absl::StrCat("UPDATE models SET declaration = x'", absl::BytesToHexString(blob), "'")});
    ASSERT_TRUE(changed.ok()) << changed;
  }
  Restart("recovery_model");
  ServiceClient service(grpc_address_);
  EXPECT_EQ(service.CheckHealth("").serving, kNotServing);
  Release();
  EXPECT_EQ(server_->WaitForExit(), 1);
  EXPECT_FALSE(server_->serving());
  EXPECT_THAT(server_->process().Output(), HasSubstr("the store holds models/m: "));
  EXPECT_THAT(server_->process().Output(), Not(HasSubstr("serving")));
}

TEST_F(StartingTest, TheLogIsReadAfterThePortsAreOpen) {
  server_->Kill();
  {
    // Damages the second of three frames.
    std::fstream log(data_ + "/log-0000000000000001",
                     std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(log), {}};
    const std::size_t middle = bytes.find_last_not_of('\0') / 2;
    log.seekp(static_cast<std::streamoff>(middle));
    log.put(static_cast<char>(bytes[middle] ^ 1));
  }
  // Blocks at the first batch; the rest is read later.
  Restart("recovery_batch");
  EXPECT_EQ(ServiceClient(grpc_address_).CheckHealth("").serving, kNotServing);
  Release();
  EXPECT_EQ(server_->WaitForExit(), 1);
  EXPECT_THAT(server_->process().Output(),
              HasSubstr(" of the log were written but cannot be read"));
  EXPECT_THAT(server_->process().Output(), Not(HasSubstr("serving")));
}

}  // namespace
}  // namespace calibd::testing
