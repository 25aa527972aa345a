// Durable ingestion, compared with a gRPC server that only acknowledges, and the store's commits,
// compared with a file that is appended to and synced. Each measurement alternates with its
// baseline, because the speed of a machine and its disk changes from second to second. Needs about
// 5 GB in TMPDIR.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/ingest_report.h"
#include "benchmark/load.h"
#include "benchmark/quiet_models.h"
#include "benchmark/servers.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "server/ingest/commit_queue.h"
#include "server/store/local/local_store.h"
#include "support/server_process.h"
#include "support/test_operation.h"

namespace calibd {
namespace {

// Size of one commit.
constexpr std::size_t kBlobBytes = 40 << 10;

using Change = std::function<void(v1::Model&)>;

double PerSecond(std::int64_t count, Clock::duration duration) {
  return static_cast<double>(count) / Seconds(duration).count();
}

// Predictions with ids, each batch followed by one with its labels.
class LabelledLater {
 public:
  explicit LabelledLater(const std::string& address)
      : stub_(v1::IngestService::NewStub(Connect(address))),
        calibration_(v1::CalibrationService::NewStub(Connect(address))) {
    CreateModel(address, kModel, 10, [](v1::Model& model) {
      model.mutable_label_grace()->set_seconds(kGrace.count());
      model.set_max_pending(kMostPosted + 100000);
    });
  }

  // Predictions that were posted, labelled and matured: from the first batch until all have
  // matured, without the label_grace of the last one.
  double PredictionsPerSecond(Seconds duration) {
    predictions_ = nullptr;
    const auto begin = Clock::now();
    const std::int64_t before = matured_;
    const NextBatch next = [this, before]() -> v1::StreamObservationsRequest* {
      return predictions_ == nullptr && posted_ - before >= kMostPosted ? nullptr : &Next();
    };
    StreamBatches(*stub_, kModel, "benchmark", next, duration);
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
  static constexpr char kModel[] = "models/labelled-later";
  static constexpr std::size_t kRows = 256;
  static constexpr std::chrono::seconds kGrace{1};
  // Number of predictions of one run, all of which may be pending at once.
  static constexpr std::int32_t kMostPosted = 700000;

  // Returns a batch of predictions, or the labels of the batch before.
  v1::StreamObservationsRequest& Next() {
    if (predictions_ != nullptr) {
      v1::Observations& sent = *predictions_->mutable_batch()->mutable_observations();
      v1::Labels& labels = *labels_.mutable_batch()->mutable_labels();
      labels.mutable_prediction_ids()->Swap(sent.mutable_prediction_ids());
      *labels.mutable_labels() = kept_labels_;
      predictions_ = nullptr;
      return labels_;
    }
    predictions_ = &batches_.Next();
    v1::Observations& observations = *predictions_->mutable_batch()->mutable_observations();
    kept_labels_ = observations.labels();
    observations.clear_labels();
    observations.clear_prediction_ids();
    for (std::size_t i = 0; i < kRows; ++i) {
      observations.add_prediction_ids("prediction-" + std::to_string(posted_++));
    }
    return *predictions_;
  }

  void Look() {
    v1::GetCalibrationRequest request;
    request.set_model(kModel);
    v1::GetCalibrationResponse response;
    grpc::ClientContext context;
    const grpc::Status status = calibration_->GetCalibration(&context, request, &response);
    Check(status.ok(), status.error_message());
    matured_ = response.label_arrivals().matured();
    missing_ = response.label_arrivals().missing();
  }

  const std::unique_ptr<v1::IngestService::Stub> stub_;
  const std::unique_ptr<v1::CalibrationService::Stub> calibration_;
  Batches batches_{kRows, 10, /*float32=*/false, 1};
  // The newest predictions, until their labels are sent.
  v1::StreamObservationsRequest* predictions_ = nullptr;
  google::protobuf::RepeatedField<std::int32_t> kept_labels_;
  v1::StreamObservationsRequest labels_;
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

// The default declaration, compared with gRPC alone.
void CompareDefault(const std::string& name, const Load::Options& options, bool one_cpu,
                    IngestReport& report) {
  if (!report.Includes(name)) return;
  const Servers servers(one_cpu);
  for (std::size_t i = 0; i < options.models; ++i) {
    CreateModel(servers.calibd(), Load::ModelName(i), options.class_count);
  }
  Load calibd(servers.calibd(), options);
  Load no_op(servers.no_op(), options);
  Load durable(servers.durable_no_op(), options);
  const double calibd_cpu = servers.CalibdCpuSeconds();
  const double no_op_cpu = servers.NoOpCpuSeconds();
  const double durable_cpu = servers.DurableNoOpCpuSeconds();
  nlohmann::ordered_json row = report.Compare(
      "gRPC alone", [&](Seconds s) { return calibd.PredictionsPerSecond(s); },
      [&](Seconds s) { return no_op.PredictionsPerSecond(s); },
      [&](Seconds s) { return durable.PredictionsPerSecond(s); });
  row["predictions"] = calibd.predictions();
  const auto microseconds = [](double cpu, const Load& load) {
    return 1e6 * cpu / static_cast<double>(load.predictions());
  };
  row["cpu_us_per_prediction"] = microseconds(servers.CalibdCpuSeconds() - calibd_cpu, calibd);
  row["baseline_cpu_us_per_prediction"] = microseconds(servers.NoOpCpuSeconds() - no_op_cpu, no_op);
  row["durable_cpu_us_per_prediction"] =
      microseconds(servers.DurableNoOpCpuSeconds() - durable_cpu, durable);
  // A Normal forecast has two values.
  row["payload_bytes_per_prediction"] = 8 * (options.class_count == 0 ? 2 : options.class_count);
  row["written_bytes_per_prediction"] = std::llround(static_cast<double>(servers.WrittenBytes()) /
                                                     static_cast<double>(calibd.predictions()));
  report.Add(name, std::move(row));
}

// A change of the default, compared with the default: four streams to one model.
void CompareWithDefault(const std::string& name, const Load::Options& options, const Change& change,
                        IngestReport& report) {
  if (!report.Includes(name)) return;
  Load::Options default_options = options;
  default_options.float32 = false;
  const Servers changed_server;
  const Servers default_server;
  CreateModel(changed_server.calibd(), Load::ModelName(0), options.class_count, change);
  CreateModel(default_server.calibd(), Load::ModelName(0), options.class_count);
  Load changed(changed_server.calibd(), options);
  Load unchanged(default_server.calibd(), default_options);
  report.Add(name, report.Compare(
                       "the default", [&](Seconds s) { return changed.PredictionsPerSecond(s); },
                       [&](Seconds s) { return unchanged.PredictionsPerSecond(s); }));
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// TLS with a certificate of the client, compared with plain text: one stream to one model.
void CompareTls(IngestReport& report) {
  const std::string name = "tls/m=10/rows=2048";
  if (!report.Includes(name)) return;
  const testing::TemporaryFolder folder;
  const auto file = [&](const char* file_name) { return (folder.path() / file_name).string(); };
  testing::ChildProcess issuer(
      {"/usr/bin/python3", "-B", CALIBD_CERTIFICATES, folder.path().string()}, file("log"));
  Check(issuer.WaitForExit() == 0, "the certificates were not made");
  const auto encrypted =
      testing::ServerProcess::Start({"--tls-certificate", file("server.pem"), "--tls-key",
                                     file("server.key"), "--tls-client-ca", file("ca.pem")});
  const auto plain = testing::ServerProcess::Start();
  Check(encrypted != nullptr && plain != nullptr, "calibd did not start");
  const Load::Options options;
  CreateModel(plain->grpc_address(), Load::ModelName(0), options.class_count);
  Load plain_load(plain->grpc_address(), options);
  const Credentials credentials =
      grpc::SslCredentials({.pem_root_certs = Contents(file("ca.pem")),
                            .pem_private_key = Contents(file("client.key")),
                            .pem_cert_chain = Contents(file("client.pem"))});
  CreateModel(encrypted->grpc_address(), Load::ModelName(0), options.class_count, nullptr,
              credentials);
  Load encrypted_load(encrypted->grpc_address(), options, credentials);
  const double encrypted_before = CpuSeconds(encrypted->process());
  const double plain_before = CpuSeconds(plain->process());
  nlohmann::ordered_json row = report.Compare(
      "the default", [&](Seconds s) { return encrypted_load.PredictionsPerSecond(s); },
      [&](Seconds s) { return plain_load.PredictionsPerSecond(s); });
  // This does not depend on other work of the machine as much as the speed does.
  row["server_cpu_ns_per_prediction"] =
      std::llround(1e9 * (CpuSeconds(encrypted->process()) - encrypted_before) /
                   static_cast<double>(encrypted_load.predictions()));
  row["baseline_server_cpu_ns_per_prediction"] =
      std::llround(1e9 * (CpuSeconds(plain->process()) - plain_before) /
                   static_cast<double>(plain_load.predictions()));
  report.Add(name, std::move(row));
}

void CompareLabelsLater(IngestReport& report) {
  const std::string name = "labels-later/m=10/rows=256";
  if (!report.Includes(name)) return;
  const Servers servers;
  LabelledLater later(servers.calibd());
  CreateModel(servers.calibd(), Load::ModelName(0), 10);
  Load at_once(servers.calibd(), {.rows = 256});
  report.Add(name, report.Compare(
                       "the default", [&](Seconds s) { return later.PredictionsPerSecond(s); },
                       [&](Seconds s) { return at_once.PredictionsPerSecond(s); }));
}

void CompareCommits(IngestReport& report) {
  const std::string name = "commit/KiB=" + std::to_string(kBlobBytes >> 10);
  if (!report.Includes(name)) return;
  const testing::TemporaryFolder folder;
  auto store = server::LocalStore::Open((folder.path() / "store").string());
  Check(store.ok(), store.status().ToString());
  server::CommitQueue queue(*std::move(store),
                            [](const absl::Status& status) { Die(std::string(status.message())); });
  const int file =
      open((folder.path() / "file").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  Check(file >= 0, "the file cannot be made");
  report.Add(name,
             report.Compare(
                 "write and fdatasync", [&](Seconds s) { return StoreCommitsPerSecond(queue, s); },
                 [&](Seconds s) { return FileSyncsPerSecond(file, s); }));
  close(file);
}

void MeasureAll(IngestReport& report) {
  struct Row {
    std::string name;
    std::size_t models = 1;
    bool one_cpu = false;
  };
  for (const Row& row : {Row{"one-model"}, Row{"one-cpu", 1, true}, Row{"16-models", 16}}) {
    for (const std::size_t rows : {std::size_t{1}, std::size_t{256}, std::size_t{2048}}) {
      CompareDefault(row.name + "/m=10/rows=" + std::to_string(rows),
                     {.rows = rows, .models = row.models}, row.one_cpu, report);
    }
  }
  for (const std::size_t rows : {std::size_t{256}, std::size_t{2048}}) {
    CompareDefault("one-cpu/normal/rows=" + std::to_string(rows), {.class_count = 0, .rows = rows},
                   true, report);
  }
  CompareDefault("one-model/m=1000/rows=128", {.class_count = 1000, .rows = 128}, false, report);
  MeasureQuietModels(report);
  const Change disable = [](v1::Model& model) { model.mutable_monitoring()->set_disabled(true); };
  const Change linear = [&](v1::Model& model) {
    disable(model);
    model.mutable_classes()->add_block_sizes(2);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(1);
  };
  for (const std::size_t m : {std::size_t{10}, std::size_t{1000}}) {
    Load::Options options{
        .class_count = m, .rows = m == 10 ? std::size_t{2048} : 128, .streams_per_model = 4};
    const std::string shape = "/m=" + std::to_string(m) + "/rows=" + std::to_string(options.rows);
    CompareWithDefault("without-monitoring" + shape, options, disable, report);
    CompareWithDefault("linear-estimate-alone" + shape, options, linear, report);
    options.float32 = true;
    CompareWithDefault("float32" + shape, options, nullptr, report);
  }
  CompareTls(report);
  CompareLabelsLater(report);
  CompareCommits(report);
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
  int rounds = 3;
  double seconds = 1;
  std::string filter;
  std::string out;
  app.add_option("--rounds", rounds, "Times that each row is measured")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "Duration of one measurement")
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--filter", filter, "Only the rows that have this in their names");
  app.add_option("--out", out, "File for the numbers, as JSON");
  std::string ready_file;
  auto* const no_op_server = app.add_subcommand("no-op-server", "The baseline of ingestion");
  no_op_server->add_option("READY_FILE", ready_file)->required();
  std::string log_file;
  no_op_server->add_option("LOG_FILE", log_file);
  std::string address;
  auto* const load = app.add_subcommand("load", "Streams to models until it is killed");
  load->add_option("ADDRESS", address)->required();
  std::size_t models = 1;
  load->add_option("MODELS", models)->required();
  std::size_t rows = 1;
  load->add_option("ROWS", rows)->required();
  CLI11_PARSE(app, argc, argv);
  if (no_op_server->parsed()) return RunNoOpServer(ready_file, log_file);
  if (load->parsed()) return RunLoad(address, models, rows);

  const testing::TemporaryFolder folder;
  struct statfs file_system {};
  Check(statfs(folder.path().c_str(), &file_system) == 0 && file_system.f_type != TMPFS_MAGIC,
        folder.path().string() + " is not on a disk; set TMPDIR to a folder that is");
  IngestReport report(rounds, Seconds(seconds), filter);
  MeasureAll(report);
  Check(!report.rows().empty(),
        "no row has " + filter + " in its name; docs/performance.md lists them");
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
