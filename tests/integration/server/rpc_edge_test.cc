// Edge cases of the rpc layer: invalid methods, invalid text, unread responses.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibd/v1/store_service.grpc.pb.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

class RpcEdgeTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const std::vector<std::string>& arguments) {
    client_.reset();
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  grpc::Status Call(const std::string& path) {
    Stub stub(client_->channel);
    CallContext context;
    const grpc::Slice empty("");
    grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> answered;
    stub.UnaryCall(&context, path, grpc::StubOptions(), &request, &response,
                   [&answered](const grpc::Status& status) { answered.set_value(status); });
    return answered.get_future().get();
  }

  std::string Scrape() const { return HttpGet(server_->http_address(), "/metrics").body; }

  // Returns the value of a metric without labels.
  std::int64_t Metric(const std::string& name) const {
    const std::string text = "\n" + Scrape();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos
               ? -1
               : static_cast<std::int64_t>(std::stod(text.substr(at + name.size() + 2)));
  }

  // The resident memory of the server in bytes.
  std::int64_t ResidentMemory() const {
    std::ifstream file("/proc/" + std::to_string(server_->process().pid()) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6)) * 1024;
    }
    return 0;
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(RpcEdgeTest, AnInvalidPathIsUnimplementedAndTheServerContinues) {
  // HTTP/2 forbids it.
  EXPECT_EQ(Call("").error_code(), grpc::UNAVAILABLE);
  for (const std::string path : {"/", "x", "//", "no-slash", "/calibd.v1.ModelService/",
                                 "/calibd.v1.ModelService/No", "/\xff\xfe/x", "/a\"b\\c/d"}) {
    EXPECT_EQ(Call(path).error_code(), grpc::UNIMPLEMENTED) << path;
  }
  client_->CreateFixed("models/m", 3);
  EXPECT_THAT(Scrape(), HasSubstr("grpc_method=\"unknown\",grpc_code=\"Unimplemented\"} 8\n"));
}

TEST_F(RpcEdgeTest, InventedMethodsDoNotGrowTheScrape) {
  EXPECT_EQ(Call("/a/b").error_code(), grpc::UNIMPLEMENTED);
  // The first scrape is counted in the second one.
  static_cast<void>(Scrape());
  const std::size_t before = Scrape().size();
  for (int i = 0; i < 6000; ++i) {
    std::string path = "/" + std::string(1500, 'x') + "/" + std::to_string(i);
    path.resize(3000, i % 2 == 0 ? 'y' : '\xff');
    ASSERT_EQ(Call(path).error_code(), grpc::UNIMPLEMENTED);
  }
  const std::string text = Scrape();
  // Counters have more digits, and the process has used more of everything.
  EXPECT_LT(text.size(), before + 500);
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "metrics.txt").string();
  std::ofstream(file) << text;
  ChildProcess promtool({"sh", "-c", "promtool check metrics < \"$0\"", file},
                        folder.path() / "output.txt");
  const auto code = promtool.WaitForExit();
  EXPECT_TRUE(code == 0 || code == 127) << promtool.Output();
}

TEST_F(RpcEdgeTest, StringsThatAreNotUtf8AreNotLogged) {
  v1::GetModelRequest request;
  request.set_name("models/\xff\xfe");
  v1::GetModelResponse response;
  for (int i = 0; i < 10; ++i) {
    CallContext context;
    const grpc::Status status = client_->models->GetModel(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("a string in it is not UTF-8"));
  }
  client_.reset();
  EXPECT_EQ(server_->Terminate(), 0);
  EXPECT_THAT(server_->process().Output(), Not(HasSubstr("protobuf")));
  EXPECT_THAT(server_->process().Output(), HasSubstr("drained"));
}

TEST_F(RpcEdgeTest, UnprintableTextIsRefusedWithItsCodePoint) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->add_names("cat");
  model.mutable_classes()->add_names("d\u2066og");
  grpc::Status status = client_->Create(model);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("model.classes.names[1] has U+2066 at byte 1"));
  model.mutable_classes()->clear_names();
  model.mutable_classes()->set_count(10);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.mutable_monitoring()->set_group_tag("region");
  status = client_->Create(model);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::ObserveRequest request;
  request.set_model("models/m");
  *request.mutable_observations() = ToProto(Draw(10).view());
  for (const auto& [value, code_point] :
       std::vector<std::pair<std::string, std::string>>{{"a\u0085", "U+0085"},
                                                        {"a\u202e", "U+202E"},
                                                        {"a\u2028", "U+2028"},
                                                        {"a\n", "U+000A"}}) {
    request.mutable_observations()->clear_group_values();
    request.mutable_observations()->add_group_values(value);
    status = client_->Observe(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("group_values[0] has " + code_point + " at byte 1"));
  }
  request.mutable_observations()->set_group_values(0, "Zürich");
  EXPECT_TRUE(client_->Observe(request).ok());
  v1::AcknowledgeAlarmRequest acknowledge;
  acknowledge.set_model("models/m");
  acknowledge.set_alarm_id(1);
  acknowledge.set_note("seen\u2029");
  v1::AcknowledgeAlarmResponse response;
  CallContext context;
  status = client_->calibration->AcknowledgeAlarm(&context, acknowledge, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("note has U+2029 at byte 4"));
}

// Returns a channel that buffers as little as possible of each unread response.
std::shared_ptr<grpc::Channel> UnreadChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// A call whose client never reads the response.
class UnreadCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  UnreadCall(Stub& stub, const std::string& path, const std::string& request) {
    const grpc::Slice slice(request);
    request_ = grpc::ByteBuffer(&slice, 1);
    stub.PrepareBidiStreamingCall(&context_, path, grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    // OnDone waits until the call is released.
    AddHold();
    StartCall();
  }
  ~UnreadCall() override { Cancel(); }
  UnreadCall(const UnreadCall&) = delete;
  UnreadCall& operator=(const UnreadCall&) = delete;

  // Cancels the call if it has not ended, and returns its status.
  grpc::Status Cancel() {
    if (!std::exchange(cancelled_, true)) {
      context_.TryCancel();
      RemoveHold();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  // Returns whether the server has begun to respond.
  bool answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

  void OnReadInitialMetadataDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    answered_ = true;
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    changed_.notify_all();
  }

 private:
  CallContext context_;
  grpc::ByteBuffer request_;
  bool cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  std::optional<grpc::Status> status_;
};

TEST_F(RpcEdgeTest, UnreadResponsesStayWithinTheirBudget) {
  constexpr std::int64_t kBudget = std::int64_t{64} << 20;
  constexpr std::int64_t kBeside = std::int64_t{64} << 20;
  Start({"--call-memory-bytes", std::to_string(kBudget)});
  // A page of about 1 MiB.
  for (int i = 0; i < 5; ++i) {
    v1::Model model;
    model.set_name("models/m" + std::to_string(i));
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    model.set_window(10);
    model.mutable_monitoring()->set_disabled(true);
    for (int k = 0; k < 3000; ++k) {
      std::string name = std::to_string(k);
      name.resize(64, 'x');
      model.mutable_classes()->add_names(name);
    }
    const grpc::Status created = client_->Create(model);
    ASSERT_TRUE(created.ok()) << created.error_message();
  }
  const auto list = [this](grpc::Status& status) {
    v1::ListModelsResponse response;
    CallContext context;
    status = client_->models->ListModels(&context, {}, &response);
    return response.models_size();
  };
  grpc::Status status;
  ASSERT_EQ(list(status), 5);
  // The server may learn later than the client that the response was taken.
  EXPECT_TRUE(WaitFor([&] { return Metric("calibd_call_memory_bytes") == 0; }));
  const std::int64_t before = ResidentMemory();
  EXPECT_EQ(Metric("calibd_call_memory_limit_bytes"), kBudget);
  {
    std::vector<std::unique_ptr<Stub>> stubs;
    std::vector<std::unique_ptr<UnreadCall>> calls;
    for (int i = 0; i < 12; ++i) {
      stubs.push_back(std::make_unique<Stub>(UnreadChannel(server_->grpc_address())));
      for (int k = 0; k < 32; ++k) {
        calls.push_back(
            std::make_unique<UnreadCall>(*stubs.back(), "/calibd.v1.ModelService/ListModels", ""));
      }
    }
    for (const auto& call : calls) {
      EXPECT_TRUE(WaitFor([&call] { return call->answered(); }));
    }
    EXPECT_GT(Metric("calibd_call_memory_bytes"), kBudget / 8);
    EXPECT_LE(Metric("calibd_call_memory_bytes"), kBudget / 4);
    const std::int64_t grown = ResidentMemory() - before;
    RecordProperty("grown_bytes", std::to_string(grown));
#ifndef __SANITIZE_ADDRESS__
    EXPECT_LT(grown, kBudget + kBeside);
#endif
    // Other calls are still answered.
    EXPECT_EQ(client_->GetCalibration("models/m0").observations(), 0);
    list(status);
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Reason(status), "CALL_MEMORY_EXHAUSTED");
  }
  EXPECT_TRUE(WaitFor([&] { return list(status) == 5; })) << status.error_message();
  EXPECT_TRUE(WaitFor([&] { return Metric("calibd_call_memory_bytes") == 0; }));
}

TEST_F(RpcEdgeTest, OneConnectionThatDoesNotReadLeavesTheOthersTheirShare) {
  Start({"--call-memory-bytes", std::to_string(64 << 20)});
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.set_window(10);
  model.mutable_monitoring()->set_disabled(true);
  for (int k = 0; k < 12000; ++k) {
    std::string name = std::to_string(k);
    name.resize(64, 'x');
    model.mutable_classes()->add_names(name);
  }
  const grpc::Status created = client_->Create(model);
  ASSERT_TRUE(created.ok()) << created.error_message();
  Stub stub(UnreadChannel(server_->grpc_address()));
  std::vector<std::unique_ptr<UnreadCall>> calls;
  for (int k = 0; k < 32; ++k) {
    calls.push_back(std::make_unique<UnreadCall>(stub, "/calibd.v1.ModelService/ListModels", ""));
  }
  for (const auto& call : calls) {
    EXPECT_TRUE(WaitFor([&call] { return call->answered(); }));
  }
  EXPECT_LE(Metric("calibd_call_memory_bytes"), 8 << 20);
  for (int i = 0; i < 20; ++i) {
    v1::ListModelsResponse response;
    CallContext context;
    const grpc::Status status = client_->models->ListModels(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

// Backups and verifications, some of whose clients never read.
class MaintenanceTest : public RpcEdgeTest {
 protected:
  void SetUp() override {
    RpcEdgeTest::Start({"--data-dir", data_});
    store_ = v1::StoreService::NewStub(client_->channel);
    client_->CreateFixed("models/m", 10);
    v1::ObserveRequest request;
    request.set_model("models/m");
    for (int i = 0; i < 5; ++i) {
      *request.mutable_observations() = ToProto(Draw(5000).view());
      ASSERT_TRUE(client_->Observe(request).ok());
    }
    unread_.emplace(UnreadChannel(server_->grpc_address()));
  }

  bool Verifies() {
    CallContext context;
    const auto reader = store_->Verify(&context, {});
    v1::VerifyResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish().ok() && response.has_verification();
  }

  bool BacksUp() {
    CallContext context;
    const auto reader = store_->Backup(&context, {});
    v1::BackupResponse response;
    std::int64_t bytes = 0;
    while (reader->Read(&response)) bytes += static_cast<std::int64_t>(response.data().size());
    return reader->Finish().ok() && response.complete().size_bytes() == bytes &&
           bytes > (256 << 10);
  }

  // Returns the number of copies without a name that are still on disk.
  int OpenCopies() const {
    int copies = 0;
    const std::string folder = "/proc/" + std::to_string(server_->process().pid()) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      copies += target.find("/backup.tmp (deleted)") != std::string::npos ? 1 : 0;
    }
    return copies;
  }

  std::unique_ptr<UnreadCall> StallBackup() {
    const int before = OpenCopies();
    auto call = std::make_unique<UnreadCall>(*unread_, "/calibd.v1.StoreService/Backup", "");
    EXPECT_TRUE(WaitFor([&] { return OpenCopies() == before + 1; }));
    // Until the copy is complete, the server refuses another backup or verification.
    EXPECT_TRUE(WaitFor([this] { return Verifies(); }));
    return call;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<v1::StoreService::Stub> store_;
  std::optional<Stub> unread_;
};

TEST_F(MaintenanceTest, AClientThatNeverReadsItsBackupDelaysNobody) {
  {
    const std::unique_ptr<UnreadCall> stalled = StallBackup();
    EXPECT_TRUE(WaitFor([this] { return BacksUp(); }));
    EXPECT_TRUE(WaitFor([this] { return OpenCopies() == 1; }));
    EXPECT_FALSE(std::filesystem::exists(data_ + "/backup.tmp"));
  }
  EXPECT_TRUE(WaitFor([this] { return OpenCopies() == 0; }));
}

TEST_F(MaintenanceTest, TheCopyWhoseClientIsSlowestMakesRoomForAnother) {
  const std::unique_ptr<UnreadCall> first = StallBackup();
  const std::unique_ptr<UnreadCall> second = StallBackup();
  EXPECT_TRUE(WaitFor([this] { return BacksUp(); }));
  EXPECT_TRUE(WaitFor([this] { return OpenCopies() == 1; }));
  EXPECT_TRUE(WaitFor([this] { return Verifies(); }));
}

}  // namespace
}  // namespace calibd::testing
