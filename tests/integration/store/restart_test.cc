// What a restart recovers, and which stores a server refuses.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "integration/server/service_client.h"
#include "server/store/local/sqlite.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class RestartTest : public ::testing::Test {
 protected:
  void Start() {
    server_ = ServerProcess::Start({"--data-dir", data_});
    ASSERT_NE(server_, nullptr);
    auto client = Client::Connect(server_->grpc_address());
    ASSERT_TRUE(client.ok());
    client_ = *std::move(client);
  }

  void Stop() {
    client_.reset();
    EXPECT_EQ(server_->Terminate(), 0);
  }

  void Send(const std::string& model, const PredictionSet& set, std::int32_t rows_per_batch) {
    auto stream = client_->OpenStream(
        model, {.producer_id = "p", .epoch = ++epoch_, .max_rows_per_batch = rows_per_batch});
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_TRUE(
        (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->accepted_rows, static_cast<std::int64_t>(set.labels.size()));
  }

  // The answer without its time.
  std::string Answer(const std::string& model) {
    auto answer = client_->GetCalibration(model);
    EXPECT_TRUE(answer.ok()) << answer.status();
    answer->mutable_provenance()->clear_compute_time();
    for (v1::RunningLens& lens : *answer->mutable_lenses()) {
      lens.mutable_provenance()->clear_compute_time();
    }
    // It says how long ago the newest row came.
    answer->mutable_reading()->clear_data();
    return answer->DebugString();
  }

  // Expects that calibd does not start; returns its output.
  std::string Refusal() {
    const FinishedRun run =
        RunCalibd({"--data-dir", data_, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"});
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_THAT(run.output, Not(HasSubstr("serving")));
    return run.output;
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::int64_t epoch_ = 0;
};

PredictionSet Draw(std::size_t n, std::uint64_t seed) {
  auto generator = Generator::Create(GeneratorSpec::M3(4), seed);
  PredictionSet set;
  generator->Draw(n, set);
  return set;
}

v1::Model Declared(const std::string& name) {
  v1::Model model;
  model.set_name(name);
  model.mutable_classes()->set_count(4);
  model.set_window(3000);
  return model;
}

v1::UpdateModelRequest Update(const std::string& name, const std::vector<std::string>& paths) {
  v1::UpdateModelRequest request;
  request.mutable_model()->set_name(name);
  for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
  return request;
}

TEST_F(RestartTest, AKilledServerRecoversUpdates) {
  Start();
  const v1::Model declared = Declared("models/a");
  const auto created = client_->CreateModel(declared);
  ASSERT_TRUE(created.ok()) << created.status();
  v1::UpdateModelRequest tolerance = Update("models/a", {"monitoring.tolerance", "description"});
  tolerance.mutable_model()->mutable_monitoring()->set_tolerance(0.01);
  tolerance.mutable_model()->set_description("text");
  v1::UpdateModelRequest sums =
      Update("models/a", {"classes.row_sum_tolerance", "monitoring.average_run_length"});
  sums.mutable_model()->mutable_classes()->set_row_sum_tolerance(0.05);
  sums.mutable_model()->mutable_monitoring()->set_average_run_length(5000);
  const std::vector<std::function<void()>> steps = {
      [&] { Send("models/a", Draw(700, 1), 100); },
      [&] {
        const auto updated = client_->UpdateModel(tolerance);
        ASSERT_TRUE(updated.ok()) << updated.status();
        EXPECT_EQ(updated->update().observations(), 700);
        EXPECT_EQ(updated->update().restarts_size(), 2);
      },
      [&] { Send("models/a", Draw(100, 2), 100); },
      // Snapshots are written meanwhile.
      [&] { Send("models/a", Draw(5000, 3), 100); },
      [&] { ASSERT_TRUE(client_->UpdateModel(sums).ok()); },
      [&] { Send("models/a", Draw(50, 4), 10); },
  };
  v1::GetHistoryRequest history;
  history.set_model("models/a");
  for (const auto& step : steps) {
    step();
    if (HasFatalFailure()) return;
    const std::string answer = Answer("models/a");
    const std::string model = client_->GetModel("models/a")->DebugString();
    const std::string updates = client_->GetHistory(history)->DebugString();
    server_->Kill();
    Start();
    EXPECT_EQ(Answer("models/a"), answer);
    EXPECT_EQ(client_->GetModel("models/a")->DebugString(), model);
    EXPECT_EQ(client_->GetHistory(history)->DebugString(), updates);
  }
  const auto answer = client_->GetCalibration("models/a");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->watch().first_observation(), 701);
  EXPECT_EQ(client_->GetHistory(history)->updates_size(), 2);
  // The original declaration and the present one are that of the model, any other is not.
  const auto present = client_->CreateModel(declared);
  ASSERT_TRUE(present.ok()) << present.status();
  EXPECT_EQ(present->classes().row_sum_tolerance(), 0.05);
  EXPECT_EQ(present->description(), "text");
  EXPECT_TRUE(client_->CreateModel(*created).ok());
  EXPECT_TRUE(client_->CreateModel(*present).ok());
  v1::Model other = *present;
  other.mutable_monitoring()->set_tolerance(0.02);
  EXPECT_EQ(client_->CreateModel(other).status().code(), absl::StatusCode::kAlreadyExists);
}

// The buckets of the history in this resolution: start and count.
std::map<std::int64_t, std::int64_t> Counts(Client& client, const std::string& model,
                                            v1::GetHistoryRequest::Resolution resolution) {
  v1::GetHistoryRequest request;
  request.set_model(model);
  request.set_resolution(resolution);
  const auto history = client.GetHistory(request);
  EXPECT_TRUE(history.ok()) << history.status();
  std::map<std::int64_t, std::int64_t> counts;
  for (const v1::HistoryBucket& bucket : history->buckets()) {
    EXPECT_TRUE(counts.emplace(bucket.start_time().seconds(), bucket.observations()).second);
  }
  return counts;
}

TEST_F(RestartTest, ABackfillOfAMonthIsAMonthOfHistoryAcrossKills) {
  using std::chrono::sys_seconds;
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/a")).ok());
  const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  std::map<std::int64_t, std::int64_t> days;
  std::map<std::int64_t, std::int64_t> hours;
  const PredictionSet set = Draw(20, 1);
  // Three times: also days that are stored already are added to.
  for (int round = 0; round < 3; ++round) {
    auto stream = client_->OpenStream("models/a", {.producer_id = "p", .epoch = ++epoch_});
    ASSERT_TRUE(stream.ok()) << stream.status();
    for (sys_seconds time = now - std::chrono::days(30); time < now;
         time += std::chrono::hours(5)) {
      (*stream)->SetTime(time + std::chrono::minutes(30));
      ASSERT_TRUE(
          (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
      ASSERT_TRUE((*stream)->Flush().ok());
      days[std::chrono::floor<std::chrono::days>(time).time_since_epoch() /
           sys_seconds::duration(1)] += 20;
      hours[time.time_since_epoch().count()] += 20;
    }
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->rejected_rows, 0);
    EXPECT_EQ(Counts(*client_, "models/a", v1::GetHistoryRequest::DAY), days);
    server_->Kill();
    Start();
    EXPECT_EQ(Counts(*client_, "models/a", v1::GetHistoryRequest::DAY), days);
    EXPECT_EQ(Counts(*client_, "models/a", v1::GetHistoryRequest::HOUR), hours);
  }
  // A proper stop stores everything.
  Stop();
  Start();
  EXPECT_EQ(Counts(*client_, "models/a", v1::GetHistoryRequest::DAY), days);
  const auto answer = client_->GetCalibration("models/a");
  ASSERT_TRUE(answer.ok());
  // The alarm began with the predictions, not when they were received.
  ASSERT_GT(answer->alarms_size(), 0);
  EXPECT_LT(answer->verdict().since().seconds(),
            (now - std::chrono::days(1)).time_since_epoch() / sys_seconds::duration(1));
  EXPECT_FALSE(answer->verdict().stale());
}

TEST_F(RestartTest, ABatchThatIsSentAgainKeepsItsOutcomeAfterAnUpdate) {
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/a")).ok());
  const auto update = [&](double tolerance) {
    v1::UpdateModelRequest request = Update("models/a", {"classes.row_sum_tolerance"});
    request.mutable_model()->mutable_classes()->set_row_sum_tolerance(tolerance);
    const auto updated = client_->UpdateModel(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  };
  // Sends row number `sequence`, which is valid only with the larger tolerance.
  const auto observe = [&](std::int64_t sequence, v1::ObserveResponse& response) {
    ServiceClient service(server_->grpc_address());
    v1::ObserveRequest request;
    request.set_model("models/a");
    request.mutable_producer()->set_producer_id("p");
    request.mutable_producer()->set_sequence(sequence);
    for (const double value : {0.26, 0.25, 0.25, 0.25}) {
      request.mutable_observations()->mutable_probabilities()->add_values(value);
    }
    request.mutable_observations()->add_labels(1);
    return service.Observe(request, &response);
  };
  v1::ObserveResponse response;
  EXPECT_EQ(observe(1, response).error_code(), grpc::INVALID_ARGUMENT);
  update(0.05);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(observe(1, response).error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_TRUE(observe(2, response).ok());
    EXPECT_EQ(response.accepted_rows(), round == 0 ? 1 : 0);
    update(0.001);
    EXPECT_TRUE(observe(2, response).ok());
    EXPECT_EQ(response.duplicate_rows(), 1);
    EXPECT_EQ(client_->GetCalibration("models/a")->observations(), 1);
    server_->Kill();
    Start();
    update(0.05);
  }
}

TEST_F(RestartTest, AKilledServerKnowsRequestsAndEndedProducers) {
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/m")).ok());
  const PredictionSet set = Draw(10, 1);
  // Sends one row with the i-th request id. Returns the number of accepted rows, or minus the code.
  const auto send = [&](int i, double first) {
    const auto ingest = v1::IngestService::NewStub(
        grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
    v1::ObserveRequest request;
    request.set_model("models/m");
    request.set_request_id("request-" + std::to_string(i));
    auto& values = *request.mutable_observations()->mutable_probabilities()->mutable_values();
    for (const double value : {first, 1 - first, 0.0, 0.0}) values.Add(value);
    request.mutable_observations()->add_labels(0);
    grpc::ClientContext context;
    v1::ObserveResponse response;
    const grpc::Status status = ingest->Observe(&context, request, &response);
    return status.ok() ? static_cast<int>(response.accepted_rows()) : -status.error_code();
  };
  const auto send_all = [&](const std::string& key) {
    auto stream =
        client_->OpenStream("models/m", {.idempotency_key = key, .max_rows_per_batch = 2});
    EXPECT_TRUE(stream.ok()) << stream.status();
    EXPECT_TRUE(
        (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
    const auto counts = (*stream)->Finish();
    EXPECT_TRUE(counts.ok()) << counts.status();
    return counts.ok() ? counts->accepted_rows : -1;
  };
  // About two snapshots, the last of which is followed by more rows.
  constexpr int kRequests = 2500;
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(send(i, 0.5), 1) << i;
  EXPECT_EQ(send_all("key"), 10);
  client_.reset();
  server_->Kill();
  Start();
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(send(i, 0.5), 0) << i;
  EXPECT_EQ(send(7, 0.25), -grpc::ALREADY_EXISTS);
  EXPECT_EQ(send(kRequests - 1, 0.25), -grpc::ALREADY_EXISTS);
  EXPECT_EQ(send_all("key"), 0);
  EXPECT_EQ(send_all("other"), 10);
  EXPECT_EQ(client_->GetCalibration("models/m")->observations(), kRequests + 20);
  Stop();
}

TEST_F(RestartTest, AKilledServerRecoversItsState) {
  Start();
  v1::Model lenses = Declared("models/lenses");
  lenses.mutable_classes()->add_lenses()->mutable_top_label();
  lenses.mutable_classes()->add_lenses()->mutable_class_wise();
  lenses.mutable_classes()->mutable_kernel()->mutable_gaussian();
  v1::Model matrix = Declared("models/matrix");
  auto& term = *matrix.mutable_classes()->mutable_kernel()->mutable_matrix()->add_terms();
  term.set_bandwidth(0.5);
  for (int i = 0; i < 16; ++i) term.add_matrix(i % 5 == 0 ? 2 : 0.5);
  v1::Model young = Declared("models/young");
  for (const v1::Model& model : {lenses, matrix, young}) {
    const auto created = client_->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  // Across several snapshots, and with batches after the newest one; one model is in its warm-up.
  Send("models/lenses", Draw(10007, 1), 100);
  Send("models/matrix", Draw(4999, 2), 333);
  Send("models/young", Draw(123, 3), 10);
  std::vector<std::string> before;
  for (const char* name : {"models/lenses", "models/matrix", "models/young"}) {
    before.push_back(Answer(name));
  }
  v1::RunTestRequest request;
  request.set_model("models/lenses");
  request.set_seed(1);
  request.set_replicates(199);
  const auto test = client_->RunTest(request);
  ASSERT_TRUE(test.ok()) << test.status();
  server_->Kill();

  Start();
  std::size_t i = 0;
  for (const char* name : {"models/lenses", "models/matrix", "models/young"}) {
    EXPECT_EQ(Answer(name), before[i++]);
  }
  const auto again = client_->RunTest(request);
  ASSERT_TRUE(again.ok()) << again.status();
  // The window is the same.
  EXPECT_EQ(again->skce_unbiased(), test->skce_unbiased());
  EXPECT_EQ(again->p_value(), test->p_value());
  // The warm-up continues.
  Send("models/young", Draw(600, 4), 100);
  EXPECT_THAT(Answer("models/young"), HasSubstr("observations: 723"));
}

TEST_F(RestartTest, AfterACleanStopNothingIsReplayed) {
  Start();
  v1::Model grouped = Declared("models/grouped");
  grouped.mutable_monitoring()->set_group_tag("region");
  v1::Model later = Declared("models/later");
  later.mutable_label_grace()->set_seconds(3600);
  const std::vector<std::string> names = {"models/plain", "models/grouped", "models/later"};
  for (const v1::Model& model : {Declared(names[0]), grouped, later}) {
    const auto created = client_->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  Send(names[0], Draw(1234, 1), 100);
  Send(names[1], Draw(777, 2), 100);
  Send(names[2], Draw(600, 3), 100);
  std::vector<std::string> before;
  for (const std::string& name : names) before.push_back(Answer(name));
  Stop();

  const auto snapshots = [this] {
    std::istringstream lines(HttpGet(server_->http_address(), "/metrics").body);
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("calibd_snapshot_timestamp_seconds{")) found.push_back(line);
    }
    return found;
  };
  for (int start = 0; start < 2; ++start) {
    Start();
    EXPECT_THAT(server_->process().Output(), HasSubstr(" 0 observations replayed"));
    EXPECT_THAT(snapshots(), SizeIs(3));
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(Answer(names[i]), before[i]);
    }
    server_->Kill();
  }
}

TEST_F(RestartTest, DeletedModelsStayDeleted) {
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/gone")).ok());
  Send("models/gone", Draw(5000, 1), 500);
  ASSERT_TRUE(client_->DeleteModel("models/gone", "models/gone").ok());
  ASSERT_TRUE(client_->CreateModel(Declared("models/gone")).ok());
  Send("models/gone", Draw(7, 2), 7);
  server_->Kill();
  Start();
  const auto models = client_->ListModels();
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->size(), 1U);
  EXPECT_THAT(Answer("models/gone"), HasSubstr("observations: 7\n"));
}

TEST_F(RestartTest, OnlyOneServerUsesAFolder) {
  Start();
  EXPECT_THAT(Refusal(), HasSubstr("is in use by another calibd"));
  // The folder stays locked even if all its files are removed. The first server must not end
  // meanwhile.
  server_->process().Signal(SIGSTOP);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_)) {
    files.push_back(entry.path());
  }
  for (const std::filesystem::path& file : files) std::filesystem::remove(file);
  EXPECT_THAT(Refusal(), HasSubstr("is in use by another calibd"));
  EXPECT_TRUE(std::filesystem::is_empty(data_));
}

TEST_F(RestartTest, RefusesForeignFiles) {
  std::filesystem::create_directories(data_);
  const std::string path = data_ + "/calibd.db";
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THAT(Refusal(), HasSubstr("not a database"));
  std::filesystem::remove(path);
  ASSERT_TRUE(server::Database::Open(path)->Execute("CREATE TABLE other (id INTEGER)").ok());
  EXPECT_THAT(Refusal(), HasSubstr("holds the database of another program"));
  std::filesystem::remove(path);
  Start();
  Stop();
  ASSERT_TRUE(server::Database::Open(path)->Execute("PRAGMA user_version = 999").ok());
  EXPECT_THAT(Refusal(), HasSubstr("was written by a newer calibd (format 999"));
}

TEST_F(RestartTest, DamageIsNamedAndNothingIsReset) {
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/m")).ok());
  Send("models/m", Draw(5000, 1), 500);
  Send("models/m", Draw(5000, 2), 500);
  Stop();
  const std::string path = data_ + "/log-0000000000000001";
  const auto flip = [&](std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  };
  // This byte is in a batch that is followed by others.
  flip(10000);
  EXPECT_THAT(Refusal(), HasSubstr("log-0000000000000001 ends before batch 2 of the log"));
  flip(10000);
  Start();
  Stop();
  // This overwrites a page in the middle of the database.
  std::fstream file(data_ + "/calibd.db", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(4096, '\xff');
  file.close();
  EXPECT_THAT(Refusal(), HasSubstr("the store"));
}

TEST_F(RestartTest, AfterAKillADamagedLastFrameIsReportedAndDiscarded) {
  Start();
  ASSERT_TRUE(client_->CreateModel(Declared("models/m")).ok());
  Send("models/m", Draw(500, 1), 100);
  const std::string before = Answer("models/m");
  Send("models/m", Draw(20, 2), 20);
  client_.reset();
  server_->Kill();
  const std::string path = data_ + "/log-0000000000000001";
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  // This byte is within the probabilities of the last batch.
  const std::size_t at = bytes.find_last_not_of('\0') - 200;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  Start();
  EXPECT_EQ(Answer("models/m"), before);
  EXPECT_TRUE(WaitFor([&] {
    const std::string output = server_->process().Output();
    return output.find("the end of the log cannot be read and is discarded: " + path) !=
               std::string::npos &&
           output.find(R"((producer "p" of models/m))") != std::string::npos;
  })) << server_->process().Output();
  Stop();
}

TEST_F(RestartTest, ALogThatEndsBeforeASnapshotIsDamage) {
  Start();
  v1::Model model = Declared("models/m");
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  ASSERT_TRUE(client_->CreateModel(model).ok());
  const std::string log = data_ + "/log-0000000000000001";
  std::filesystem::copy_file(log, folder_.path() / "before");
  // These rows are enough for a snapshot.
  Send("models/m", Draw(17000, 1), 1000);
  Stop();
  std::filesystem::copy_file(folder_.path() / "before", log,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Refusal(), HasSubstr("log-0000000000000001 ends before batch 1 of the log"));
  std::filesystem::remove(log);
  EXPECT_THAT(Refusal(), HasSubstr("log-0000000000000001 is missing"));
}

}  // namespace
}  // namespace calibd::testing
