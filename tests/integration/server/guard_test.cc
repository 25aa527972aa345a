// An exception in any entry of a call ends only this call. Each exception is thrown once, in a
// server of its own, and then the same call is repeated.
#include "server/api/guard.h"

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "integration/server/service_client.h"
#include "server/rpc/registered_methods.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using server::RpcMethod;
using server::Stage;
using server::StageName;
using ::testing::HasSubstr;

constexpr char kGuardModel[] = "models/m";
constexpr char kDeleted[] = "models/deleted";
constexpr char kBaseline[] = "models/baseline";
constexpr int kGuardClasses = 3;

// One call of any method with one request; reads all responses.
class AnyCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // messages: the client cancels after this many messages. Without it, it reads to the end.
  AnyCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
          const std::string& request, std::optional<int> messages)
      : stub_(channel), messages_(messages) {
    const grpc::Slice slice(request);
    request_ = grpc::ByteBuffer(&slice, 1);
    stub_.PrepareBidiStreamingCall(&context_, path, grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&response_);
    StartCall();
    if (messages_ == 0) context_.TryCancel();
  }
  AnyCall(const AnyCall&) = delete;
  AnyCall& operator=(const AnyCall&) = delete;

  grpc::Status Await() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (++read_ == messages_) context_.TryCancel();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    ended_.notify_all();
  }

 private:
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  CallContext context_;
  const std::optional<int> messages_;
  int read_ = 0;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<grpc::Status> status_;
};

// The requests of methods that need more than the name of a model. StreamObservations has none.
std::map<std::string, std::string> Requests() {
  v1::CreateModelRequest create;
  create.mutable_model()->set_name("models/created");
  create.mutable_model()->mutable_classes()->set_count(kGuardClasses);
  v1::GetModelRequest get;
  get.set_name(kGuardModel);
  v1::DeleteModelRequest remove;
  remove.set_name(kDeleted);
  remove.set_confirmation(kDeleted);
  v1::ObserveRequest observe;
  observe.set_model(kGuardModel);
  *observe.mutable_observations() = ToProto(Draw(200, kGuardClasses).view());
  observe.mutable_producer()->set_producer_id("unary");
  observe.mutable_producer()->set_sequence(1);
  v1::AcknowledgeAlarmRequest acknowledge;
  acknowledge.set_model(kGuardModel);
  acknowledge.set_alarm_id(1);
  v1::UpdateModelRequest update;
  update.mutable_model()->set_name(kGuardModel);
  update.mutable_model()->set_description("updated");
  update.mutable_update_mask()->add_paths("description");
  v1::CompareModelsRequest compare;
  compare.set_model(kGuardModel);
  compare.set_baseline(kBaseline);
  return {{"CreateModel", create.SerializeAsString()},
          {"CompareModels", compare.SerializeAsString()},
          {"UpdateModel", update.SerializeAsString()},
          {"GetModel", get.SerializeAsString()},
          {"DeleteModel", remove.SerializeAsString()},
          {"Observe", observe.SerializeAsString()},
          {"AcknowledgeAlarm", acknowledge.SerializeAsString()}};
}

// The request of any other method: sets the model's name if there is a field for it.
std::string DefaultRequest(const RpcMethod& method) {
  const google::protobuf::MethodDescriptor* const descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(method.service + "." +
                                                                           method.method);
  const google::protobuf::Descriptor* const type = descriptor->input_type();
  const std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  const auto* const field = type->FindFieldByName("model");
  if (field != nullptr && field->message_type() == nullptr) {
    request->GetReflection()->SetString(request.get(), field, kGuardModel);
  }
  return request->SerializeAsString();
}

std::vector<Stage> StagesOf(const RpcMethod& method) {
  if (method.type == "bidi_stream") {
    return {Stage::kStart,  Stage::kRead, Stage::kOpened, Stage::kAnswer, Stage::kWritten,
            Stage::kCancel, Stage::kDone, Stage::kRoom,   Stage::kEnd};
  }
  std::vector<Stage> stages{Stage::kStart, Stage::kAnswer};
  if (method.type == "server_stream") {
    stages.insert(stages.end(), {Stage::kWritten, Stage::kCancel});
    if (method.method != "WatchCalibration") stages.push_back(Stage::kProgress);
  } else if (method.method == "DeleteModel" || method.method == "Observe") {
    stages.push_back(Stage::kEnd);
  }
  return stages;
}

class GuardTest : public ::testing::TestWithParam<RpcMethod> {
 protected:
  void SetUp() override {
    Start({});
    client_->CreateFixed(kGuardModel, kGuardClasses);
    AnyCall(client_->channel, "/calibd.v1.IngestService/Observe", Requests()["Observe"], {})
        .Await();
    if (GetParam().method == "CompareModels") {
      client_->CreateFixed(kBaseline, kGuardClasses);
      v1::ObserveRequest observe;
      observe.set_model(kBaseline);
      *observe.mutable_observations() = ToProto(Draw(200, kGuardClasses).view());
      ASSERT_TRUE(client_->Observe(observe).ok());
    }
  }

  void Start(const std::vector<std::string>& environment) {
    client_.reset();
    if (server_ != nullptr) {
      ASSERT_EQ(server_->Terminate(), 0);
    }
    server_ =
        ServerProcess::Start({"--data-dir", data_, "--ingest-queue-bytes", "65536"}, environment);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  // Makes one call of StreamObservations.
  grpc::Status Stream(Stage stage) {
    const std::string producer = "stream-" + std::to_string(++streams_);
    ObservationCall call(*client_);
    call.Open(kGuardModel, producer);
    if (stage == Stage::kCancel) {
      call.Cancel();
      return call.Await();
    }
    if (stage == Stage::kEnd) {
      // Fences the older stream.
      ObservationCall newer(*client_);
      newer.Open(kGuardModel, producer, 1);
      return call.Await();
    }
    // Batches that fill the ingest queue for a moment.
    const int batches = stage == Stage::kRoom ? 40 : 2;
    const PredictionSet set = Draw(stage == Stage::kRoom ? 5000 : 100, kGuardClasses);
    for (int i = 1; i <= batches; ++i) call.SendBatch(i, set.view());
    call.SendFinish(batches);
    return call.End();
  }

  grpc::Status Call(Stage stage, std::optional<int> messages) {
    if (GetParam().method == "StreamObservations") return Stream(stage);
    if (GetParam().method == "DeleteModel") client_->CreateFixed(kDeleted, kGuardClasses);
    const auto requests = Requests();
    const auto request = requests.find(GetParam().method);
    return AnyCall(client_->channel, "/" + GetParam().service + "/" + GetParam().method,
                   request == requests.end() ? DefaultRequest(GetParam()) : request->second,
                   messages)
        .Await();
  }

  // Makes the call without an exception.
  grpc::Status CallAsUsual() {
    return Call(Stage::kStart,
                GetParam().method == "WatchCalibration" ? std::optional(1) : std::nullopt);
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  int streams_ = 0;
};

TEST_P(GuardTest, AnExceptionInAnyEntryEndsOnlyThatCall) {
  CallAsUsual();
  const grpc::StatusCode usual = CallAsUsual().error_code();
  for (const Stage stage : StagesOf(GetParam())) {
    const std::string point = GetParam().method + "." + StageName(stage);
    SCOPED_TRACE(point);
    Start({"CALIBD_FAILPOINT=" + point + "!1"});
    if (HasFatalFailure()) return;
    const std::string line = point + ": unexpected exception: failpoint";
    const auto reached = [&] {
      return server_->process().Output().find(line) != std::string::npos;
    };
    if (stage == Stage::kCancel) {
      // The call may have ended before it is cancelled.
      EXPECT_TRUE(WaitFor([&] { return Call(stage, 0), reached(); }));
    } else {
      const grpc::Status status = Call(stage, std::nullopt);
      // A response that is complete by then is sent.
      const bool may_succeed = stage == Stage::kDone || (stage == Stage::kWritten && usual == 0);
      if (!may_succeed || !status.ok()) {
        EXPECT_EQ(status.error_code(), grpc::INTERNAL);
        EXPECT_EQ(status.error_message(), "internal error");
      }
      EXPECT_TRUE(WaitFor(reached));
    }
    // The computation of the ended call may continue for a moment.
    EXPECT_TRUE(WaitFor([&] { return CallAsUsual().error_code() == usual; }));
  }
}

std::vector<RpcMethod> ApiMethods() {
  std::vector<RpcMethod> methods;
  for (const RpcMethod& method : server::RegisteredMethods(/*reflection=*/false)) {
    if (method.service.starts_with("calibd.")) methods.push_back(method);
  }
  return methods;
}

INSTANTIATE_TEST_SUITE_P(Methods, GuardTest, ::testing::ValuesIn(ApiMethods()),
                         [](const auto& instance) { return instance.param.method; });

TEST(InterceptorGuardTest, AnExceptionWhileACallIsCountedDoesNotEndIt) {
  for (const Stage stage : {Stage::kStart, Stage::kAnswer}) {
    const std::string point = std::string("Interceptor.") + StageName(stage);
    const auto server = ServerProcess::Start({}, {"CALIBD_FAILPOINT=" + point + "!1"});
    ASSERT_NE(server, nullptr);
    ServiceClient client(server->grpc_address());
    client.CreateFixed(kGuardModel, kGuardClasses);
    EXPECT_EQ(client.GetCalibration(kGuardModel).observations(), 0);
    EXPECT_TRUE(WaitFor([&] {
      return server->process().Output().find(point + ": unexpected exception: failpoint") !=
             std::string::npos;
    }));
  }
}

}  // namespace
}  // namespace calibd::testing
