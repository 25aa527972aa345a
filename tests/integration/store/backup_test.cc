// Backups and verification of a store that is written meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "support/http_get.h"
#include "support/sealed_database.h"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_ = Connect(*server_);
    ASSERT_NE(client_, nullptr);
    v1::Model model;
    model.set_name("models/m");
    model.mutable_classes()->set_count(4);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    model.set_window(3000);
    // A model that is cheap to count has few snapshots.
    model.mutable_classes()->add_block_sizes(2);
    model.mutable_monitoring()->set_disabled(true);
    ASSERT_TRUE(client_->CreateModel(model).ok());
    model.set_name("models/later");
    model.mutable_label_grace()->set_seconds(3600);
    ASSERT_TRUE(client_->CreateModel(model).ok());
  }

  static std::unique_ptr<Client> Connect(const ServerProcess& server) {
    auto client = Client::Connect(server.grpc_address());
    return client.ok() ? *std::move(client) : nullptr;
  }

  int TimesLogged(const std::string& text) const {
    const std::string output = server_->process().Output();
    int times = 0;
    for (std::size_t at = output.find(text); at != std::string::npos;
         at = output.find(text, at + 1)) {
      ++times;
    }
    return times;
  }

  // Sends rows until `enough` returns true; returns the number of acknowledged rows.
  std::int64_t Send(const std::function<bool(std::int64_t)>& enough) {
    auto generator = Generator::Create(GeneratorSpec::M3(4), 5);
    auto stream = client_->OpenStream("models/m", {.producer_id = "p", .max_rows_per_batch = 50});
    if (!stream.ok()) return -1;
    std::int64_t rows = 0;
    while (!enough(rows)) {
      PredictionSet set;
      generator->Draw(500, set);
      if (!(*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok()) {
        return -1;
      }
      rows += 500;
    }
    return (*stream)->Finish().ok() ? rows : -1;
  }

  std::vector<std::string> Problems() {
    const auto found = client_->Verify();
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {"no answer"};
    return {found->problems().begin(), found->problems().end()};
  }

  // Stops the server, and starts it with a backup of its store, whose log is completely in the
  // database. change: statements that are executed on the backup first.
  void StartFromBackup(const std::vector<std::string>& changes) {
    ASSERT_TRUE(client_->Backup(backup_).ok());
    client_.reset();
    EXPECT_EQ(server_->Terminate(), 0);
    std::filesystem::remove_all(data_);
    std::filesystem::create_directories(data_);
    const std::string path = data_ + "/calibd.db";
    std::filesystem::copy_file(backup_, path);
    const absl::Status status = ChangeDatabase(path, changes);
    EXPECT_TRUE(status.ok()) << status;
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    client_ = Connect(*server_);
  }

  // Starts a second server with the backup.
  std::unique_ptr<ServerProcess> StartSecond() const {
    const std::filesystem::path restored = folder_.path() / "restored";
    std::filesystem::create_directories(restored);
    std::filesystem::copy_file(backup_, restored / "calibd.db");
    return ServerProcess::Start({"--data-dir", restored.string()});
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  const std::string backup_ = (folder_.path() / "backup.db").string();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(BackupTest, ACopyMadeUnderLoadIsAStoreOfItsOwn) {
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 20000; }), 20000);
  std::atomic<bool> copied = false;
  std::int64_t sent = 0;
  std::thread load(
      [&] { sent = Send([&](std::int64_t rows) { return copied.load() || rows > 5000000; }); });
  EXPECT_TRUE(
      WaitFor([this] { return client_->GetCalibration("models/m")->observations() > 20000; }));
  const auto size = client_->Backup(backup_);
  EXPECT_TRUE(size.ok()) << size.status();
  EXPECT_THAT(Problems(), IsEmpty());
  copied = true;
  load.join();
  ASSERT_GT(sent, 0);
  EXPECT_EQ(static_cast<std::uintmax_t>(*size), std::filesystem::file_size(backup_));
  EXPECT_EQ(client_->Backup(backup_).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(client_->GetCalibration("models/m")->observations(), 20000 + sent);

  const auto other = StartSecond();
  ASSERT_NE(other, nullptr);
  const auto client = Connect(*other);
  const auto answer = client->GetCalibration("models/m");
  ASSERT_TRUE(answer.ok());
  EXPECT_GE(answer->observations(), 20000);
  EXPECT_LE(answer->observations(), 20000 + sent);
  const auto found = client->Verify();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->problems(), IsEmpty());
  EXPECT_EQ(found->models(), 2);
  EXPECT_EQ(found->producers(), 1);
  EXPECT_GE(found->observations(), 3000);
}

// Sends n forecasts N(0, 1) of outcomes with the standard deviation 1.2.
void SendForecasts(Client& client, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> outcome(0, 1.2);
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < n; ++i) {
    forecasts.insert(forecasts.end(), {0, 1});
    outcomes.push_back(outcome(random));
  }
  auto stream = client.OpenStream("models/demand", {.max_rows_per_batch = 500});
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*stream)->SetGroup("north").ok());
  ASSERT_TRUE((*stream)->SendForecasts(forecasts, outcomes).ok());
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
}

v1::GetCalibrationResponse Demand(Client& client) {
  const auto answer = client.GetCalibration("models/demand");
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.value_or(v1::GetCalibrationResponse());
}

// Returns an evaluation, which depends on the whole window.
std::string EvaluatedDemand(Client& client) {
  v1::EvaluateRequest request;
  request.set_model("models/demand");
  request.set_replicates(99);
  request.set_seed(1);
  auto evaluation = client.Evaluate(request);
  EXPECT_TRUE(evaluation.ok()) << evaluation.status();
  if (!evaluation.ok()) return "no answer";
  evaluation->clear_elapsed();
  evaluation->mutable_forecast()->clear_compute_time();
  return evaluation->DebugString();
}

TEST_F(BackupTest, ARestoredModelOfForecastsContinuesWithTheSameBits) {
  v1::Model model;
  model.set_name("models/demand");
  model.mutable_forecast()->mutable_normal();
  model.mutable_forecast()->mutable_decision()->set_threshold(0.5);
  model.mutable_monitoring()->set_group_tag("region");
  model.set_window(700);
  ASSERT_TRUE(client_->CreateModel(model).ok());
  // A snapshot is due after 16384 rows, so that the backup has one and later rows.
  ASSERT_NO_FATAL_FAILURE(SendForecasts(*client_, 20000, 1));
  ASSERT_TRUE(client_->Backup(backup_).ok());
  const auto second = StartSecond();
  ASSERT_NE(second, nullptr);
  const auto restored = Connect(*second);
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(Demand(*client_).observations(), 20000);
  EXPECT_EQ(Demand(*restored).DebugString(), Demand(*client_).DebugString());
  EXPECT_EQ(EvaluatedDemand(*restored), EvaluatedDemand(*client_));

  for (Client* const one : {client_.get(), restored.get()}) {
    ASSERT_NO_FATAL_FAILURE(SendForecasts(*one, 600, 2));
  }
  const v1::GetCalibrationResponse expected = Demand(*client_);
  const v1::GetCalibrationResponse actual = Demand(*restored);
  EXPECT_EQ(actual.observations(), 20600);
  EXPECT_EQ(actual.watch().DebugString(), expected.watch().DebugString());
  EXPECT_EQ(actual.error().DebugString(), expected.error().DebugString());
  ASSERT_EQ(actual.groups_size(), 1);
  EXPECT_EQ(actual.groups(0).watch().DebugString(), expected.groups(0).watch().DebugString());
  EXPECT_EQ(EvaluatedDemand(*restored), EvaluatedDemand(*client_));
}

TEST_F(BackupTest, IsRefusedInAFolderWithAnotherStore) {
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 500; }), 500);
  ASSERT_TRUE(client_->Backup(backup_).ok());
  client_.reset();
  const auto expect_refusal = [&](const std::string& left_over) {
    std::filesystem::copy_file(backup_, data_ + "/calibd.db",
                               std::filesystem::copy_options::overwrite_existing);
    const FinishedRun run =
        RunCalibd({"--data-dir", data_, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"});
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_THAT(run.output, HasSubstr("holds a backup, calibd.db, and the file " + left_over +
                                      " of another store; move the backup into an empty folder"));
    EXPECT_THAT(run.output, Not(HasSubstr("restore a backup")));
  };
  server_->Kill();
  ASSERT_GT(std::filesystem::file_size(data_ + "/calibd.db-wal"), 0);
  expect_refusal("calibd.db-wal");
  std::filesystem::remove(data_ + "/calibd.db-wal");
  expect_refusal("store");
  std::filesystem::remove(data_ + "/store");
  expect_refusal("log-0000000000000001");
  std::filesystem::remove(data_ + "/log-0000000000000001");
  server_ = ServerProcess::Start({"--data-dir", data_});
  ASSERT_NE(server_, nullptr);
  client_ = Connect(*server_);
  EXPECT_EQ(client_->GetCalibration("models/m")->observations(), 500);
}

TEST_F(BackupTest, AFailedBackupLeavesNoFile) {
  const std::string nowhere = (folder_.path() / "nowhere" / "backup.db").string();
  EXPECT_EQ(client_->Backup(nowhere).status(),
            absl::NotFoundError("cannot write " + nowhere + ".part: No such file or directory"));
  EXPECT_EQ(client_->Backup("/dev/full/x").status(),
            absl::FailedPreconditionError("cannot write /dev/full/x.part: Not a directory"));
  std::stop_source stop;
  stop.request_stop();
  client::LongCallOptions stopped;
  stopped.stop = stop.get_token();
  EXPECT_EQ(client_->Backup(backup_, stopped).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(backup_));
  EXPECT_FALSE(std::filesystem::exists(backup_ + ".part"));
  EXPECT_TRUE(WaitFor([&] { return client_->Backup(backup_).ok(); }));
  EXPECT_FALSE(std::filesystem::exists(data_ + "/backup.tmp"));
}

TEST_F(BackupTest, ReportsInconsistencies) {
  // A snapshot is due after 16384 rows; it does not cover later rows.
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 20000; }), 20000);
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 500; }), 500);
  EXPECT_THAT(Problems(), IsEmpty());
  // The server starts on these files, but they differ from those that it left.
  StartFromBackup({"UPDATE cursors SET last_sequence = last_sequence + 1000",
                   "DELETE FROM log WHERE id < (SELECT max(id) FROM log) - 3"});
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("ends with number 410 of producer \"p\""),
                                      HasSubstr("expected at least the window")));
}

TEST_F(BackupTest, AMissingLastBatchIsDetected) {
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 500; }), 500);
  EXPECT_THAT(Problems(), IsEmpty());
  StartFromBackup({"DELETE FROM log WHERE id = (SELECT max(id) FROM log)",
                   "INSERT INTO cursors SELECT 1, x'70', 1, 10, zeroblob(536), 0"});
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("ends with number 9 of producer \"p\"")));
}

TEST_F(BackupTest, ADamagedLogFileIsReported) {
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 9000; }), 9000);
  EXPECT_THAT(Problems(), IsEmpty());
  EXPECT_EQ(HttpGet(server_->http_address(), "/readyz").status, 200);
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("\ncalibd_store_damaged 0\n"));
  // Damaged while the server runs, as by a failing disk.
  {
    std::fstream file(data_ + "/log-0000000000000001",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20000);
    file.write("damage!!", 8);
  }
  const std::vector<std::string> problems = Problems();
  EXPECT_THAT(problems, ::testing::Contains(
                            HasSubstr("the store is damaged: log-0000000000000001 is damaged at")));
  const HttpAnswer ready = HttpGet(server_->http_address(), "/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("the store is damaged"));
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("\ncalibd_store_damaged 1\n"));
  // The server's log contains each problem once.
  EXPECT_EQ(Problems(), problems);
  for (const std::string& problem : problems) {
    EXPECT_TRUE(WaitFor([&] { return TimesLogged(problem) > 0; })) << problem;
    EXPECT_EQ(TimesLogged(problem), 1) << problem;
  }
}

TEST_F(BackupTest, ADamagedPageIsReported) {
  ASSERT_EQ(Send([](std::int64_t rows) { return rows >= 9000; }), 9000);
  client_.reset();
  EXPECT_EQ(server_->Terminate(), 0);
  server_ = ServerProcess::Start({"--data-dir", data_});
  ASSERT_NE(server_, nullptr);
  client_ = Connect(*server_);
  EXPECT_THAT(Problems(), IsEmpty());
  // Damaged while the server runs, as by a failing disk.
  {
    std::fstream file(data_ + "/calibd.db", std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(data_ + "/calibd.db"));
    for (std::streamoff page = 4096 * 3; page < size; page += 4096) {
      file.seekp(page);
      file.write("damage!!", 8);
    }
  }
  EXPECT_FALSE(Problems().empty());
}

TEST_F(BackupTest, CalibctlBacksUpAndVerifies) {
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {CALIBD_BIN_DIR "/calibctl", "--server",
                                         server_->grpc_address(), "--output", "json"});
    ChildProcess child(arguments, folder_.path() / "output");
    const auto code = child.WaitForExit();
    EXPECT_EQ(code, 0) << child.Output();
    return nlohmann::json::parse(child.Output(), nullptr, false);
  };
  const auto backup = run({"backup", backup_});
  EXPECT_EQ(backup["sizeBytes"], std::to_string(std::filesystem::file_size(backup_)));
  const auto verification = run({"verify"});
  EXPECT_EQ(verification["models"], "2");
  EXPECT_TRUE(verification["problems"].empty());
}

// The settings in a snapshot name the classes of a model in the order of the columns.
TEST_F(BackupTest, SnapshotsWithAnOrderOfColumnsAreVerified) {
  v1::Model model;
  model.set_name("models/columns");
  model.mutable_classes()->set_count(2);
  for (const char* const name : {"no", "yes"}) model.mutable_classes()->add_names(name);
  for (const char* const name : {"yes", "no"}) {
    model.mutable_inference_output()->add_column_classes(name);
  }
  ASSERT_TRUE(client_->CreateModel(model).ok());
  auto stream = client_->OpenStream(model.name(), {.producer_id = "p"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<double> probabilities = {0.3, 0.7};
  const std::vector<std::int32_t> labels = {1};
  ASSERT_TRUE((*stream)->Send(PredictionKind::kProbabilities, probabilities, labels).ok());
  ASSERT_TRUE((*stream)->Finish().ok());
  v1::UpdateModelRequest update;
  update.mutable_model()->set_name(model.name());
  update.mutable_model()->mutable_inference_output()->set_name("probabilities");
  update.mutable_update_mask()->add_paths("inference_output.name");
  const auto updated = client_->UpdateModel(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  // The end of the server stores the snapshots.
  EXPECT_EQ(server_->Terminate(), 0);
  server_ = ServerProcess::Start({"--data-dir", data_});
  ASSERT_NE(server_, nullptr);
  client_ = Connect(*server_);
  const auto found = client_->Verify();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GE(found->snapshots(), 1);
  EXPECT_THAT(found->problems(), IsEmpty());
}

}  // namespace
}  // namespace calibd::testing
