// The cost of durable ingestion: calibd compared with a gRPC server that only acknowledges, and the
// store's commits compared with a file that is appended to and synced. Each measurement alternates
// with its baseline, because the speed of a machine and its disk changes from second to second.
// Needs about 5 GB in TMPDIR.
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "benchmark/no_op_service.h"
#include "calibd/core/generator.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "calibd/v1/model_service.grpc.pb.h"
#include "server/ingest/commit_queue.h"
#include "server/options.h"
#include "server/ready_file.h"
#include "server/store/local/local_store.h"
#include "support/server_process.h"
#include "support/test_operation.h"

namespace calibd {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Request = v1::StreamObservationsRequest;
using Response = v1::StreamObservationsResponse;

constexpr char kModel[] = "models/benchmark";
constexpr std::size_t kClassCount = 10;
// Size of one commit.
constexpr std::size_t kBlobBytes = 40 << 10;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "ingest_benchmark: " << what << std::endl;
  std::_Exit(1);  // Threads of gRPC may be running.
}

void Check(bool ok, const std::string& what) {
  if (!ok) Die(what);
}

double PerSecond(std::int64_t count, Clock::duration duration) {
  return static_cast<double>(count) / Seconds(duration).count();
}

// Serves with gRPC alone, without calibd's relay, until it is killed. The limits are calibd's,
// including those from the environment.
int RunNoOpServer(const std::string& ready_file) {
  const std::array<const char*, 3> arguments{"no-op-server", "--listen", "127.0.0.1:0"};
  const auto parsed = server::ParseOptions(arguments.size(), arguments.data());
  const auto* const invocation = std::get_if<server::Invocation>(&parsed);
  Check(invocation != nullptr, "the settings are invalid");
  const server::Options& options = invocation->options;
  NoOpService service(static_cast<int>(options.max_batches_in_flight));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Check(server != nullptr, "gRPC did not start");
  const absl::Status written =
      server::WriteReadyFile(ready_file, "127.0.0.1:" + std::to_string(port), "");
  Check(written.ok(), written.ToString());
  while (true) pause();
}

// A producer's stream that keeps the maximum number of batches in flight, for a limited time.
class Producer final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  // Returns the batch with this number; null ends the stream early.
  using MakeBatch = std::function<Request*(std::int64_t sequence)>;

  // duration: the time after which the stream is finished.
  Producer(v1::IngestService::Stub& stub, const std::string& model, MakeBatch make_batch,
           Seconds duration)
      : make_batch_(std::move(make_batch)), duration_(duration) {
    control_.mutable_open()->set_model(model);
    control_.mutable_open()->set_producer_id("benchmark");
    stub.async()->StreamObservations(&context_, this);
    StartRead(&response_);
    StartWrite(&control_);
    StartCall();
  }

  // Returns batches per second, from Opened to Finished.
  double Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    Check(status_.ok() && finished_, "the stream failed: " + status_.error_message());
    return PerSecond(next_sequence_ - first_sequence_, end_ - begin_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const std::lock_guard lock(mutex_);
    if (response_.has_opened()) {
      begin_ = Clock::now();
      first_sequence_ = next_sequence_ = response_.opened().next_sequence();
      settled_ = next_sequence_ - 1;
      max_in_flight_ = response_.opened().max_batches_in_flight();
    } else if (response_.has_ack()) {
      settled_ = response_.ack().sequence();
    } else if (response_.has_finished()) {
      end_ = Clock::now();
      finished_ = true;
    } else {
      Die("a batch was rejected: " + response_.ShortDebugString());
    }
    StartRead(&response_);
    Send();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) Send();
  }

  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  }

 private:
  void Send() {
    if (writing_ || finishing_ || next_sequence_ - settled_ > max_in_flight_) return;
    writing_ = true;
    Request* const request =
        Clock::now() - begin_ < duration_ ? make_batch_(next_sequence_) : nullptr;
    if (request == nullptr) {
      finishing_ = true;
      control_.mutable_finish()->set_last_sequence(next_sequence_ - 1);
      StartWrite(&control_);
      return;
    }
    request->mutable_batch()->set_sequence(next_sequence_++);
    StartWrite(request);
  }

  const MakeBatch make_batch_;
  const Seconds duration_;
  grpc::ClientContext context_;
  Request control_;
  Response response_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = true;
  bool finishing_ = false;
  bool finished_ = false;
  bool done_ = false;
  grpc::Status status_;
  // No batch may be in flight before Opened.
  std::int64_t max_in_flight_ = -1;
  std::int64_t first_sequence_ = 0;
  std::int64_t next_sequence_ = 0;
  std::int64_t settled_ = 0;
  Clock::time_point begin_;
  Clock::time_point end_;
};

// Messages that differ.
template <typename Float>
std::vector<Request> MakeBatches(std::size_t rows) {
  Generator generator = *Generator::Create(GeneratorSpec::M1(kClassCount), 1);
  std::vector<Request> batches(16);
  for (Request& request : batches) {
    PredictionSet set;
    generator.Draw(rows, set);
    v1::Observations& observations = *request.mutable_batch()->mutable_observations();
    observations.mutable_labels()->Add(set.labels.begin(), set.labels.end());
    auto* const values = [&] {
      if constexpr (std::is_same_v<Float, double>) {
        return observations.mutable_probabilities()->mutable_values();
      } else {
        return observations.mutable_probabilities_float32()->mutable_values();
      }
    }();
    for (const double value : set.probabilities) values->Add(static_cast<Float>(value));
  }
  return batches;
}

// The linear state alone: running pairs, with a bandwidth that is known beforehand.
void CreateModel(const std::shared_ptr<grpc::Channel>& channel) {
  v1::CreateModelRequest request;
  request.mutable_model()->set_name(kModel);
  request.mutable_model()->set_class_count(kClassCount);
  request.mutable_model()->mutable_bandwidth()->set_fixed(1);
  request.mutable_model()->add_block_sizes(2);
  request.mutable_model()->mutable_monitoring()->set_disabled(true);
  v1::CreateModelResponse response;
  grpc::ClientContext context;
  const grpc::Status status =
      v1::ModelService::NewStub(channel)->CreateModel(&context, request, &response);
  Check(status.ok(), status.error_message());
}

// Predictions with ids, each batch followed by one with its labels. Returns how many predictions
// a second were posted, labelled and matured: from the first batch until all have matured, the
// label_grace that the last one waits left out.
class LabelledLater {
 public:
  explicit LabelledLater(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::IngestService::NewStub(channel)),
        calibration_(v1::CalibrationService::NewStub(channel)),
        predictions_(MakeBatches<double>(kRows)) {
    v1::CreateModelRequest request;
    request.mutable_model()->set_name(kLaterModel);
    request.mutable_model()->set_class_count(kClassCount);
    request.mutable_model()->mutable_bandwidth()->set_fixed(1);
    request.mutable_model()->add_block_sizes(2);
    request.mutable_model()->mutable_label_grace()->set_seconds(kGrace.count());
    request.mutable_model()->set_max_pending(kMostPosted + 100000);
    request.mutable_model()->mutable_monitoring()->set_disabled(true);
    v1::CreateModelResponse response;
    grpc::ClientContext context;
    const grpc::Status status =
        v1::ModelService::NewStub(channel)->CreateModel(&context, request, &response);
    Check(status.ok(), status.error_message());
    for (Request& batch : predictions_) {
      v1::Observations& observations = *batch.mutable_batch()->mutable_observations();
      labels_.emplace_back().mutable_batch()->mutable_labels()->mutable_labels()->Swap(
          observations.mutable_labels());
    }
  }

  double PredictionsPerSecond(Seconds duration) {
    last_ids_.Clear();
    const auto begin = Clock::now();
    const std::int64_t before = matured_;
    const auto make = [this, before](std::int64_t sequence) -> Request* {
      return last_ids_.empty() && posted_ - before >= kMostPosted ? nullptr : &Make(sequence);
    };
    Producer(*stub_, kLaterModel, make, duration).Wait();
    Check(testing::WaitFor([this] {
            Look();
            return matured_ == posted_;
          }),
          "the predictions did not mature");
    // Each run may end between a batch and its labels.
    ++runs_;
    Check(missing_ <= runs_ * static_cast<std::int64_t>(kRows),
          "predictions matured without their labels");
    return PerSecond(matured_ - before, Clock::now() - begin - kGrace);
  }

 private:
  static constexpr char kLaterModel[] = "models/labelled-later";
  static constexpr std::size_t kRows = 256;
  static constexpr std::chrono::seconds kGrace{1};
  // By one run, so that all of them may wait at once.
  static constexpr std::int32_t kMostPosted = 700000;

  // Of predictions, then of their labels.
  Request& Make(std::int64_t sequence) {
    if (!last_ids_.empty()) {
      labels_[last_].mutable_batch()->mutable_labels()->mutable_prediction_ids()->Swap(&last_ids_);
      last_ids_.Clear();
      return labels_[last_];
    }
    const std::size_t at = static_cast<std::size_t>(sequence / 2) % predictions_.size();
    auto& ids = *predictions_[at].mutable_batch()->mutable_observations()->mutable_prediction_ids();
    ids.Clear();
    for (std::size_t i = 0; i < kRows; ++i) ids.Add("prediction-" + std::to_string(posted_++));
    last_ids_ = ids;
    last_ = at;
    return predictions_[at];
  }

  void Look() {
    v1::GetCalibrationRequest request;
    request.set_model(kLaterModel);
    v1::GetCalibrationResponse response;
    grpc::ClientContext context;
    const grpc::Status status = calibration_->GetCalibration(&context, request, &response);
    Check(status.ok(), status.error_message());
    matured_ = response.label_coverage().matured();
    missing_ = response.label_coverage().missing();
  }

  const std::unique_ptr<v1::IngestService::Stub> stub_;
  const std::unique_ptr<v1::CalibrationService::Stub> calibration_;
  std::vector<Request> predictions_;
  std::vector<Request> labels_;
  // Those of the newest predictions, until their labels are sent, and which batch that was.
  google::protobuf::RepeatedPtrField<std::string> last_ids_;
  std::size_t last_ = 0;
  std::int64_t posted_ = 0;
  std::int64_t matured_ = 0;
  std::int64_t missing_ = 0;
  std::int64_t runs_ = 0;
};

// One transaction after another, each posted by the one before.
double StoreCommitsPerSecond(server::CommitQueue& queue, Seconds duration) {
  const std::string blob(kBlobBytes, 'x');
  const auto begin = Clock::now();
  std::int64_t commits = 0;
  std::function<void()> post = [&] {
    testing::PostToLog(queue, {.write =
                                   [&](server::Store& store) {
                                     store.AppendBatch(1, 0, blob);
                                     return absl::OkStatus();
                                   },
                               .finish =
                                   [&](const absl::Status& status) {
                                     Check(status.ok(), status.ToString());
                                     ++commits;
                                     if (Clock::now() - begin < duration) post();
                                   }});
  };
  post();
  queue.Flush();
  return PerSecond(commits, Clock::now() - begin);
}

double FileSyncsPerSecond(int file, Seconds duration) {
  const std::string blob(kBlobBytes, 'x');
  const auto begin = Clock::now();
  std::int64_t syncs = 0;
  for (; Clock::now() - begin < duration; ++syncs) {
    Check(write(file, blob.data(), blob.size()) == static_cast<ssize_t>(blob.size()) &&
              fdatasync(file) == 0,
          "the file cannot be written");
  }
  return PerSecond(syncs, Clock::now() - begin);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Measures pairs, prints a row of a Markdown table for each and keeps the numbers.
class Report {
 public:
  // filter: part of the names of what is measured.
  Report(int rounds, Seconds seconds, std::string filter)
      : rounds_(rounds), seconds_(seconds), filter_(std::move(filter)) {
    std::cout << "| benchmark | of what | calibd /s | baseline | baseline /s | ratio | at least |\n"
                 "|---|---|---|---|---|---|---|\n";
  }

  struct Pair {
    std::string name;
    // What is counted.
    std::string unit;
    std::string baseline_name;
    // Of units a second, measured for this time.
    std::function<double(Seconds)> calibd;
    std::function<double(Seconds)> baseline;
    double least_ratio = 0;
  };

  void Compare(const Pair& pair) {
    if (pair.name.find(filter_) == std::string::npos) return;
    pair.calibd(seconds_ / 4);
    pair.baseline(seconds_ / 4);
    std::vector<double> calibd;
    std::vector<double> baseline;
    std::vector<double> ratios;
    for (int round = 0; round < rounds_; ++round) {
      calibd.push_back(pair.calibd(seconds_));
      baseline.push_back(pair.baseline(seconds_));
      ratios.push_back(calibd.back() / baseline.back());
    }
    const double ratio = Median(ratios);
    std::cout << "| " << pair.name << " | " << pair.unit << " | " << std::llround(Median(calibd))
              << " | " << pair.baseline_name << " | " << std::llround(Median(baseline)) << " | "
              << std::round(ratio * 100) / 100 << " | " << pair.least_ratio << " |" << std::endl;
    rows_[pair.name] = {{"unit", pair.unit},           {"baseline", pair.baseline_name},
                        {"calibd_per_second", calibd}, {"baseline_per_second", baseline},
                        {"median_ratio", ratio},       {"least_ratio", pair.least_ratio}};
  }

  [[nodiscard]] const nlohmann::ordered_json& rows() const { return rows_; }

 private:
  const int rounds_;
  const Seconds seconds_;
  const std::string filter_;
  nlohmann::ordered_json rows_;
};

void CompareIngestion(const std::filesystem::path& folder, Report& report) {
  const auto calibd = testing::ServerProcess::Start();
  Check(calibd != nullptr, "calibd did not start");
  const std::filesystem::path ready = folder / "no-op.json";
  const testing::ChildProcess no_op({"/proc/self/exe", "no-op-server", ready.string()},
                                    folder / "no-op.txt");
  Check(testing::WaitFor([&] { return std::filesystem::exists(ready); }),
        "the no-op server did not start");
  std::ifstream ready_file(ready);
  const auto no_op_address = nlohmann::json::parse(ready_file).at("grpc").get<std::string>();

  const auto connect = [](const std::string& address) {
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  };
  const auto calibd_channel = connect(calibd->grpc_address());
  CreateModel(calibd_channel);
  const auto calibd_stub = v1::IngestService::NewStub(calibd_channel);
  const auto no_op_stub = v1::IngestService::NewStub(connect(no_op_address));
  for (const bool single : {false, true}) {
    for (const std::size_t rows : {std::size_t{32}, std::size_t{256}, std::size_t{2048}}) {
      std::vector<Request> batches = single ? MakeBatches<float>(rows) : MakeBatches<double>(rows);
      const auto predictions_per_second = [&](v1::IngestService::Stub& stub, Seconds seconds) {
        const auto in_turn = [&](std::int64_t sequence) -> Request* {
          return &batches[static_cast<std::size_t>(sequence) % batches.size()];
        };
        return static_cast<double>(rows) * Producer(stub, kModel, in_turn, seconds).Wait();
      };
      report.Compare({.name = std::string("Ingest/") + (single ? "float32" : "float64") +
                              "/rows=" + std::to_string(rows) + "/m=" + std::to_string(kClassCount),
                      .unit = "predictions",
                      .baseline_name = "gRPC alone",
                      .calibd = [&](Seconds s) { return predictions_per_second(*calibd_stub, s); },
                      .baseline = [&](Seconds s) { return predictions_per_second(*no_op_stub, s); },
                      .least_ratio = 0.5});
    }
  }
}

void CompareLabelsLater(Report& report) {
  const auto calibd = testing::ServerProcess::Start();
  Check(calibd != nullptr, "calibd did not start");
  LabelledLater later(
      grpc::CreateChannel(calibd->grpc_address(), grpc::InsecureChannelCredentials()));
  constexpr double kBar = 70000;
  report.Compare({.name = "LabelsLater/float64/rows=256/m=" + std::to_string(kClassCount),
                  .unit = "predictions",
                  .baseline_name = "the bar",
                  .calibd = [&](Seconds s) { return later.PredictionsPerSecond(s); },
                  .baseline = [](Seconds /*s*/) { return kBar; },
                  .least_ratio = 1});
}

void CompareCommits(const std::filesystem::path& folder, Report& report) {
  auto store = server::LocalStore::Open((folder / "store").string());
  Check(store.ok(), store.status().ToString());
  server::CommitQueue queue(*std::move(store),
                            [](const absl::Status& status) { Die(std::string(status.message())); });
  const int file = open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  Check(file >= 0, "the file cannot be made");
  report.Compare({.name = "Commit/KiB=" + std::to_string(kBlobBytes >> 10),
                  .unit = "commits",
                  .baseline_name = "write and fdatasync",
                  .calibd = [&](Seconds s) { return StoreCommitsPerSecond(queue, s); },
                  .baseline = [&](Seconds s) { return FileSyncsPerSecond(file, s); },
                  .least_ratio = 0.7});
  close(file);
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
  return text;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures durable ingestion and its commits, each beside a baseline.");
  int rounds = 7;
  double seconds = 1;
  std::string filter;
  std::string out;
  app.add_option("--rounds", rounds, "Times that each is measured")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "Of one measurement")->check(CLI::Range(0.01, 3600.0));
  app.add_option("--filter", filter, "Only what has this in its name");
  app.add_option("--out", out, "File for the numbers, as JSON");
  std::string ready_file;
  auto* const no_op_server = app.add_subcommand("no-op-server", "The baseline of ingestion");
  no_op_server->add_option("READY_FILE", ready_file)->required();
  CLI11_PARSE(app, argc, argv);
  if (no_op_server->parsed()) return RunNoOpServer(ready_file);

  const testing::TemporaryFolder folder;
  struct statfs file_system {};
  Check(statfs(folder.path().c_str(), &file_system) == 0 && file_system.f_type != TMPFS_MAGIC,
        folder.path().string() + " is not on a disk; set TMPDIR to a folder that is");
  Report report(rounds, Seconds(seconds), filter);
  CompareIngestion(folder.path(), report);
  CompareLabelsLater(report);
  CompareCommits(folder.path(), report);
  if (!out.empty()) {
    const nlohmann::ordered_json result{{"cpu", CpuName()},
                                        {"cores", std::thread::hardware_concurrency()},
                                        {"date", Now()},
                                        {"seconds", seconds},
                                        {"rows", report.rows()}};
    std::ofstream(out) << result.dump(1) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace calibd

int main(int argc, char** argv) { return calibd::Main(argc, argv); }
