// A Monitor against the real server: nothing that happens to the server harms the service, and each
// row that is not dropped is counted once.
#include "calibd/client/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "calibd/client/client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::ModelName;
using client::Monitor;
using client::MonitorOptions;
using client::StreamCounts;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::vector<double> kProbabilities = {0.2, 0.3, 0.5};

// A calibd that starts again with the same address and the same store.
class RestartingServer {
 public:
  RestartingServer() { Start(); }

  void Start() {
    std::vector<std::string> arguments = {"--data-dir", folder_.path() / "data"};
    if (!address_.empty()) arguments.insert(arguments.end(), {"--listen", address_});
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    address_ = server_->grpc_address();
  }
  void Kill() { server_->Kill(); }
  // A process is stopped when each of its threads has noticed the signal.
  void Freeze() {
    server_->process().Signal(SIGSTOP);
    const std::filesystem::path tasks =
        "/proc/" + std::to_string(server_->process().pid()) + "/task";
    ASSERT_TRUE(WaitFor([&] {
      for (const auto& task : std::filesystem::directory_iterator(tasks)) {
        std::ifstream file(task.path() / "stat");
        std::string line;
        std::getline(file, line);
        if (line.find(") T ") == std::string::npos) return false;
      }
      return true;
    }));
  }
  void Thaw() { server_->process().Signal(SIGCONT); }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::unique_ptr<Client> Connect() const {
    auto client = Client::Connect(address_);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  [[nodiscard]] v1::GetCalibrationResponse Calibration(const std::string& model) const {
    const auto client = Connect();
    if (client == nullptr) return {};
    const auto answer = client->GetCalibration(ModelName(model));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : v1::GetCalibrationResponse();
  }
  void CreateModel(const std::string& name, std::int64_t label_grace_seconds = 0) const {
    const auto client = Connect();
    ASSERT_NE(client, nullptr);
    v1::Model model;
    model.set_name(ModelName(name));
    model.mutable_classes()->set_count(3);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    if (label_grace_seconds > 0) model.mutable_label_grace()->set_seconds(label_grace_seconds);
    const auto created = client->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created.status();
  }

 private:
  TemporaryFolder folder_;
  std::string address_;
  std::unique_ptr<ServerProcess> server_;
};

// The sentences that a monitor gives to the log.
class Log {
 public:
  [[nodiscard]] std::function<void(const std::string&)> writer() {
    return [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      sentences_.push_back(sentence);
    };
  }
  [[nodiscard]] std::vector<std::string> sentences() const {
    const std::lock_guard lock(mutex_);
    return sentences_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> sentences_;
};

std::unique_ptr<Monitor> Create(const std::string& model, MonitorOptions options) {
  auto monitor = Monitor::Create(ModelName(model), options);
  EXPECT_TRUE(monitor.ok()) << monitor.status();
  return monitor.ok() ? *std::move(monitor) : nullptr;
}

bool ObserveOne(Monitor& monitor) {
  return monitor.Observe({.values = kProbabilities, .label = 2});
}

void ExpectCountedOnce(const v1::GetCalibrationResponse& calibration, const StreamCounts& counts) {
  EXPECT_EQ(counts.accepted_rows, counts.rows - counts.dropped_rows);
  EXPECT_EQ(calibration.observations(), counts.accepted_rows);
  EXPECT_EQ(calibration.dropped_rows(), counts.dropped_rows);
}

TEST(MonitorTest, MergesTheRowsOfThreads) {
  RestartingServer server;
  server.CreateModel("m");
  const auto monitor = Create("m", {.address = server.address()});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int row = 0; row < 500; ++row) EXPECT_TRUE(ObserveOne(*monitor));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  const StreamCounts counts = monitor->Close();
  EXPECT_EQ(counts.rows, 2000);
  ExpectCountedOnce(server.Calibration("m"), counts);
  EXPECT_FALSE(ObserveOne(*monitor)) << "it is closed";
}

TEST(MonitorTest, SendsIdsLabelsAndGroupsOfFloats) {
  RestartingServer server;
  server.CreateModel("m", 3600);
  Log log;
  const auto monitor = Create("m", {.address = server.address(), .on_warning = log.writer()});
  const std::vector<float> floats = {0.25F, 0.25F, 0.5F};
  EXPECT_TRUE(monitor->Observe({.values = floats, .id = "a"}));
  EXPECT_TRUE(monitor->Observe({.values = floats, .label = 1, .id = "b"}));
  EXPECT_TRUE(monitor->Label("a", 2));
  // Invalid: the sum, the label, the width, and a label that is none.
  EXPECT_TRUE(monitor->Observe({.values = std::vector<double>{0.2, 0.2, 0.2}, .label = 1}));
  EXPECT_TRUE(monitor->Observe({.values = floats, .label = 3}));
  EXPECT_TRUE(monitor->Observe({.values = std::vector<double>{0.5, 0.5}, .label = 1}));
  EXPECT_TRUE(monitor->Label("a", 7));
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  EXPECT_TRUE(monitor->status().ok()) << monitor->status();
  const StreamCounts counts = monitor->Close();
  EXPECT_EQ(counts.rows, 5);
  EXPECT_EQ(counts.accepted_rows, 2);
  EXPECT_EQ(counts.dropped_rows, 3);
  EXPECT_EQ(counts.labels.matched, 1);
  EXPECT_EQ(counts.labels.dropped, 1);
  EXPECT_EQ(counts.overflowed, 0);
  EXPECT_EQ(server.Calibration("m").dropped_rows(), 3);
  EXPECT_EQ(server.Calibration("m").dropped_labels(), 1);
  ASSERT_FALSE(log.sentences().empty());
  EXPECT_THAT(log.sentences()[0], HasSubstr("the first invalid one: rows[2].probabilities sums"));
}

TEST(MonitorTest, LosesAndRepeatsNothingWhenTheServerIsKilledTwentyTimes) {
  RestartingServer server;
  server.CreateModel("m");
  const auto monitor = Create("m", {.address = server.address()});
  std::atomic<bool> stop = false;
  std::thread handler([&] {
    while (!stop) {
      ObserveOne(*monitor);
      std::this_thread::yield();
    }
  });
  for (int kill = 0; kill < 20; ++kill) {
    const std::int64_t before = monitor->counts().accepted_rows;
    EXPECT_TRUE(WaitFor([&] { return monitor->counts().accepted_rows > before; }, minutes(2)));
    server.Kill();
    server.Start();
  }
  stop = true;
  handler.join();
  EXPECT_TRUE(monitor->Flush(minutes(2)).ok());
  const StreamCounts counts = monitor->Close();
  EXPECT_GE(counts.reconnects, 20);
  ExpectCountedOnce(server.Calibration("m"), counts);
}

TEST(MonitorTest, DropsWhatHasNoRoomWhileTheServerIsFrozen) {
  RestartingServer server;
  server.CreateModel("m");
  Log log;
  const auto monitor = Create(
      "m", {.address = server.address(), .max_buffer_bytes = 100'000, .on_warning = log.writer()});
  EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  server.Freeze();
  // More than fits into the buffer.
  for (int row = 0; row < 10'000; ++row) ObserveOne(*monitor);
  EXPECT_TRUE(absl::IsDeadlineExceeded(monitor->Flush(milliseconds(100))));
  EXPECT_GT(monitor->counts().dropped_rows, 0);
  EXPECT_TRUE(WaitFor([&] { return !log.sentences().empty(); }));
  server.Thaw();
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  const StreamCounts counts = monitor->Close();
  EXPECT_EQ(counts.rows, 10'001);
  EXPECT_EQ(counts.overflowed, counts.dropped_rows);
  ExpectCountedOnce(server.Calibration("m"), counts);
  EXPECT_THAT(log.sentences().back(), HasSubstr(std::to_string(counts.dropped_rows) +
                                                " in all; the server does not keep up"));
}

TEST(MonitorTest, WaitsUntilTheServerNoLongerRefuses) {
  RestartingServer server;
  const auto monitor = Create("late", {.address = server.address()});
  for (int row = 0; row < 10; ++row) EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(WaitFor([&] { return absl::IsNotFound(monitor->status()); }));
  server.CreateModel("late");
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  ExpectCountedOnce(server.Calibration("late"), monitor->Close());
}

TEST(MonitorTest, DropsWhatMayBeCountedWhenTheModelIsCreatedAgain) {
  RestartingServer server;
  server.CreateModel("m");
  const auto monitor = Create("m", {.address = server.address()});
  EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  const auto client = server.Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->DeleteModel(ModelName("m"), ModelName("m")).ok());
  EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(WaitFor([&] { return absl::IsNotFound(monitor->status()); }));
  server.CreateModel("m");
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  const StreamCounts counts = monitor->Close();
  EXPECT_EQ(counts.rows, 3);
  EXPECT_EQ(counts.accepted_rows, 2);
  EXPECT_EQ(counts.dropped_rows, 1);
  const v1::GetCalibrationResponse calibration = server.Calibration("m");
  EXPECT_EQ(calibration.observations(), 1);
  EXPECT_EQ(calibration.dropped_rows(), 1);
}

TEST(MonitorTest, WorksWithoutAServerAndClosesInTime) {
  Log log;
  const auto monitor = Create("m", {.address = "127.0.0.1:1", .on_warning = log.writer()});
  for (int row = 0; row < 3; ++row) EXPECT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(WaitFor([&] { return absl::IsUnavailable(monitor->status()); }));
  const StreamCounts counts = monitor->Close(milliseconds(200));
  EXPECT_EQ(counts.rows, 3);
  EXPECT_EQ(counts.accepted_rows, 0);
  ASSERT_THAT(log.sentences(), SizeIs(1));
  EXPECT_THAT(log.sentences()[0], HasSubstr("was closed, its newest 3 rows may not be counted"));
}

TEST(MonitorTest, WaitsForRoomInABlockingJob) {
  RestartingServer server;
  server.CreateModel("m");
  const auto monitor = Create(
      "m",
      {.address = server.address(), .on_full = client::OnFull::kBlock, .max_buffer_bytes = 10'000});
  for (int row = 0; row < 5000; ++row) ASSERT_TRUE(ObserveOne(*monitor));
  EXPECT_TRUE(monitor->Flush(minutes(1)).ok());
  const StreamCounts counts = monitor->Close();
  EXPECT_EQ(counts.dropped_rows, 0);
  ExpectCountedOnce(server.Calibration("m"), counts);

  const auto refused = Create(
      "unknown",
      {.address = server.address(), .on_full = client::OnFull::kBlock, .max_buffer_bytes = 1});
  EXPECT_TRUE(ObserveOne(*refused));
  EXPECT_FALSE(ObserveOne(*refused)) << "it waits until the server refuses the first row";
  EXPECT_TRUE(absl::IsNotFound(refused->status())) << refused->status();
  const auto absent = Create("m", {.address = "127.0.0.1:1",
                                   .on_full = client::OnFull::kBlock,
                                   .max_buffer_bytes = 1,
                                   .stall_timeout = milliseconds(100),
                                   .close_timeout = milliseconds(100)});
  EXPECT_TRUE(ObserveOne(*absent));
  EXPECT_FALSE(ObserveOne(*absent)) << "it waits for the stall timeout";
}

TEST(MonitorTest, RefusesOptionsThatCannotBe) {
  for (const MonitorOptions& options :
       {MonitorOptions{.max_buffer_bytes = 0}, MonitorOptions{.stall_timeout = milliseconds(0)},
        MonitorOptions{.close_timeout = milliseconds(-1)}, MonitorOptions{.positive_class = 2}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Monitor::Create("models/m", options).status()));
  }
}

// What happens in another program: see monitor_process.cc.
class MonitorProcessTest : public ::testing::Test {
 protected:
  // Returns what the program prints.
  static std::string Run(const std::string& mode, const std::string& address) {
    const TemporaryFolder folder;
    ChildProcess program({CALIBD_BIN_DIR "/monitor_process", mode, address},
                         folder.path() / "output.txt");
    EXPECT_EQ(program.WaitForExit(minutes(2)), 0) << program.Output();
    return program.Output();
  }
};

TEST_F(MonitorProcessTest, EachForkedChildHasAStreamOfItsOwn) {
  RestartingServer server;
  server.CreateModel("m");
  (void)Run("fork", server.address());
  // 10 of the parent before the forks, 5 of each of two children, and 3 of the parent after them.
  EXPECT_EQ(server.Calibration("m").observations(), 23);
}

TEST_F(MonitorProcessTest, AMonitorThatIsMadeBeforeTheForkWorksInItsChildren) {
  RestartingServer server;
  server.CreateModel("m");
  (void)Run("preload", server.address());
  EXPECT_EQ(server.Calibration("m").observations(), 10);
}

TEST_F(MonitorProcessTest, AChildOfAProcessThatUsesGrpcDropsItsRowsAndSaysSo) {
  RestartingServer server;
  server.CreateModel("m");
  const std::string output = Run("client", server.address());
  EXPECT_THAT(output, HasSubstr("models/m: dropped 1 row or label, 1 in all; this process was "
                                "forked while gRPC was in use"));
  // Those of the parent.
  EXPECT_EQ(server.Calibration("m").observations(), 13);
}

TEST_F(MonitorProcessTest, TheEndOfTheProcessDeliversWhatNobodyHasClosed) {
  RestartingServer server;
  server.CreateModel("m");
  (void)Run("exit", server.address());
  EXPECT_EQ(server.Calibration("m").observations(), 10);
}

TEST_F(MonitorProcessTest, TheEndOfTheProcessDoesNotWaitForAnAbsentServer) {
  EXPECT_THAT(Run("exit", "127.0.0.1:1"),
              HasSubstr("was not closed, its newest 10 rows may not be counted"));
}

}  // namespace
}  // namespace calibd::testing
