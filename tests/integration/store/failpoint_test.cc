// calibd ends at points where operations are incomplete: every batch is counted once, and the state
// follows from the batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "integration/store/crash_judge.h"
#include "server/store/local/sqlite.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;

// 128 + SIGKILL.
constexpr int kKilled = 137;

struct Case {
  const char* point;
  int classes = 3;
  std::size_t rows_per_batch = 300;
  std::int64_t batches = 20;
  std::size_t window = 100000;
  std::int32_t block_size = 10;
  bool watched = true;
};

// Gives the test its name.
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.point; }

std::string Variable(const std::string& point, int at) {
  return "CALIBD_FAILPOINT=" + point + ":" + std::to_string(at);
}

v1::Model Declared(int classes, std::size_t window, std::int32_t block_size = 10) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(classes);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
  model.set_window(static_cast<std::int32_t>(window));
  model.mutable_classes()->add_block_sizes(2);
  model.mutable_classes()->add_block_sizes(block_size);
  return model;
}

// A data folder with one model, and a server on it that ends at a failpoint.
class DyingServer {
 public:
  DyingServer(const v1::Model& model, const std::string& point, int at) {
    server_ = ServerProcess::Start({"--data-dir", data_});
    if (server_ == nullptr) return;
    address_ = server_->grpc_address();
    auto client = Client::Connect(address_);
    EXPECT_TRUE(client.ok() && (*client)->CreateModel(model).ok());
    server_->Kill();
    server_ =
        ServerProcess::Start({"--data-dir", data_, "--listen", address_}, {Variable(point, at)});
  }

  [[nodiscard]] bool started() const { return server_ != nullptr; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& data() const { return data_; }

  // Waits for its end, and starts it again without the failpoint.
  void AwaitEndAndRestart() {
    EXPECT_EQ(server_->WaitForExit(std::chrono::minutes(2)), kKilled);
    server_.reset();
    server_ = ServerProcess::Start({"--data-dir", data_, "--listen", address_});
  }

  // Returns its answer when nothing is pending, and stops it.
  v1::GetCalibrationResponse AnswerAndTerminate() {
    v1::GetCalibrationResponse answer;
    auto client = *Client::Connect(address_);
    EXPECT_TRUE(WaitFor([&] {
      const auto response = client->GetCalibration("models/m");
      if (response.ok()) answer = *response;
      return response.ok() && answer.label_arrivals().pending() == 0;
    }));
    // An idle client may take seconds to notice that the server closes.
    client.reset();
    EXPECT_EQ(server_->Terminate(), 0);
    return answer;
  }

 private:
  const TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::string address_;
  std::unique_ptr<ServerProcess> server_;
};

class FailpointTest : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(FailpointTest, EveryBatchIsCountedOnce) {
  const auto& [tested, at] = GetParam();
  v1::Model model = Declared(tested.classes, tested.window, tested.block_size);
  model.mutable_monitoring()->set_disabled(!tested.watched);
  DyingServer server(model, tested.point, at);
  ASSERT_TRUE(server.started());
  auto generator =
      Generator::Create(GeneratorSpec::M2(static_cast<std::size_t>(tested.classes)), 1);
  PredictionSet sent;
  std::thread producer([&, batches = tested.batches, rows = tested.rows_per_batch] {
    NumberedCaller caller(server.address(), "models/m", "p");
    for (std::int64_t i = 0; i < batches; ++i) {
      PredictionSet piece;
      generator->Draw(rows, piece);
      caller.SetObservations(piece);
      Append(piece, sent);
      if (!caller.Call()) return;
    }
  });
  server.AwaitEndAndRestart();
  producer.join();
  ASSERT_TRUE(server.started());
  const v1::GetCalibrationResponse answer = server.AnswerAndTerminate();
  EXPECT_EQ(answer.has_watch(), tested.watched);
  const auto store = OpenUndamaged(server.data());
  ASSERT_NE(store, nullptr);
  ExpectCountedAsSent(*store, answer, sent, tested.batches, tested.window);
}

INSTANTIATE_TEST_SUITE_P(
    Points, FailpointTest,
    ::testing::Combine(
        ::testing::Values(
            // These are between a batch and its producer's cursor.
            Case{.point = "append"}, Case{.point = "before_commit"}, Case{.point = "after_commit"},
            // This one is in the middle of writing a frame.
            Case{.point = "torn"},
            // A snapshot is due every 8192 rows, and releases batches that left the window.
            Case{.point = "snapshot",
                 .classes = 100,
                 .rows_per_batch = 700,
                 .batches = 45,
                 .window = 1000},
            // A checkpoint begins every 2000 pages of 4 KiB. Without monitoring a snapshot is due
            // every 260 rows, and holds an incomplete block of 260, 255, 250, ... rows of 8 KiB.
            Case{.point = "checkpoint",
                 .classes = 1000,
                 .rows_per_batch = 130,
                 .batches = 34,
                 .window = 2000,
                 .block_size = 265,
                 .watched = false}),
        ::testing::Values(1, 2, 3)),
    [](const auto& parameter) {
      return std::string(std::get<0>(parameter.param).point) + "_" +
             std::to_string(std::get<1>(parameter.param));
    });

struct UpdateCase {
  const char* point;
  // Whether a start finds the update.
  bool is_durable;
};

void PrintTo(const UpdateCase& tested, std::ostream* out) { *out << tested.point; }

class UpdateFailpointTest : public ::testing::TestWithParam<UpdateCase> {};

TEST_P(UpdateFailpointTest, AnUpdateIsRecoveredCompletelyOrNotAtAll) {
  DyingServer server(Declared(3, 1000), GetParam().point, 1);
  ASSERT_TRUE(server.started());
  v1::UpdateModelRequest update;
  update.mutable_model()->set_name("models/m");
  update.mutable_model()->set_description("updated");
  update.mutable_model()->mutable_monitoring()->set_tolerance(0.01);
  update.mutable_update_mask()->add_paths("description");
  update.mutable_update_mask()->add_paths("monitoring.tolerance");
  const auto call = [&] { return (*Client::Connect(server.address()))->UpdateModel(update); };
  EXPECT_FALSE(call().ok());
  server.AwaitEndAndRestart();
  ASSERT_TRUE(server.started());
  const auto after = (*Client::Connect(server.address()))->GetModel("models/m");
  ASSERT_TRUE(after.ok()) << after.status();
  const bool is_durable = GetParam().is_durable;
  EXPECT_EQ(after->description(), is_durable ? "updated" : "");
  EXPECT_EQ(after->monitoring().tolerance(), is_durable ? 0.01 : 1e-5);
  // The client sends it again, because it knows no outcome.
  EXPECT_TRUE(call().ok());
  EXPECT_EQ((*Client::Connect(server.address()))->GetModel("models/m")->description(), "updated");
}

INSTANTIATE_TEST_SUITE_P(Points, UpdateFailpointTest,
                         ::testing::Values(UpdateCase{"update", false},
                                           UpdateCase{"before_commit", false},
                                           UpdateCase{"torn", false},
                                           UpdateCase{"after_commit", true}));

class MaturityFailpointTest : public ::testing::TestWithParam<int> {};

TEST_P(MaturityFailpointTest, PredictionsMatureOnce) {
  constexpr int kBatchesAfter = 10;
  v1::Model model = Declared(3, 100000);
  model.mutable_label_grace()->set_nanos(50000000);
  DyingServer server(model, "maturity", GetParam());
  ASSERT_TRUE(server.started());
  auto generator = Generator::Create(GeneratorSpec::M2(3), 1);
  PredictionSet sent;
  std::vector<bool> all_labelled;
  std::atomic<bool> restarted = false;
  std::thread producer([&] {
    LaterLabeller caller(server.address(), "models/m");
    for (int after = 0; after < kBatchesAfter; after += restarted ? 1 : 0) {
      PredictionSet piece;
      generator->Draw(20, piece);
      std::vector<bool> labelled(20);
      for (std::size_t i = 0; i < labelled.size(); ++i) labelled[i] = i % 8 != 0;
      if (!caller.Post(piece, labelled)) return;
    }
    sent = caller.sent();
    all_labelled = caller.labelled();
  });
  server.AwaitEndAndRestart();
  restarted = true;
  producer.join();
  ASSERT_TRUE(server.started());
  const v1::GetCalibrationResponse answer = server.AnswerAndTerminate();
  const auto store = OpenUndamaged(server.data());
  ASSERT_NE(store, nullptr);
  ExpectMaturedAsSent(*store, answer, sent, all_labelled);
}

INSTANTIATE_TEST_SUITE_P(Points, MaturityFailpointTest, ::testing::Values(1, 2, 3));

struct StartPoint {
  const char* point = "";
  int at = 0;
  // The database has its tables after the process ended there.
  bool made = true;
};

class FirstStartFailpointTest : public ::testing::TestWithParam<StartPoint> {};

TEST_P(FirstStartFailpointTest, AFirstStartThatEndsAnywhereIsRepeated) {
  const StartPoint& tested = GetParam();
  const TemporaryFolder folder;
  const std::string data = (folder.path() / "data").string();
  const auto version = [](const std::string& of) {
    return *server::Database::Open(of + "/calibd.db")->QueryInteger("PRAGMA user_version");
  };
  EXPECT_EQ(RunCalibd({"--data-dir", data}, {Variable(tested.point, tested.at)}).exit_code,
            kKilled);
  {
    // A copy, because opening it repairs what the end left behind.
    const std::string copy = (folder.path() / "copy").string();
    std::filesystem::copy(data, copy);
    EXPECT_EQ(version(copy), tested.made ? 1 : 0);
  }
  const auto server = ServerProcess::Start({"--data-dir", data});
  ASSERT_NE(server, nullptr);
  {
    const auto client = *Client::Connect(server->grpc_address());
    EXPECT_TRUE(client->CreateModel(Declared(3, 100)).ok());
    EXPECT_EQ(client->Verify()->problems_size(), 0);
  }
  EXPECT_EQ(server->Terminate(), 0);
  EXPECT_EQ(version(data), 1);
  ExpectIntegrity(data);
}

INSTANTIATE_TEST_SUITE_P(
    Points, FirstStartFailpointTest,
    // Around the transaction that makes the tables, then before and after each other file exists,
    // and around the transaction after which the database is no longer complete by itself.
    ::testing::Values(StartPoint{"first_start", 1, false}, StartPoint{"first_start", 2, false},
                      StartPoint{"first_start", 3}, StartPoint{"first_start", 4},
                      StartPoint{"first_start", 5}, StartPoint{"first_start", 6},
                      StartPoint{"move_rows", 1}, StartPoint{"move_rows", 2}),
    [](const auto& parameter) {
      return std::string(parameter.param.point) + "_" + std::to_string(parameter.param.at);
    });

}  // namespace
}  // namespace calibd::testing
