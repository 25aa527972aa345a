#include "server/server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "server/compute/window_jobs.h"
#include "server/errors.h"
#include "server/executor/thread_pool.h"
#include "server/http/http_endpoint.h"
#include "server/ingest/history_reader.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/maturation.h"
#include "server/ingest/open_streams.h"
#include "server/ingest/recovery.h"
#include "server/observability/metrics.h"
#include "server/observability/rpc_statistics.h"
#include "server/rpc/calibration_service.h"
#include "server/rpc/grpc_endpoint.h"
#include "server/rpc/ingest_service.h"
#include "server/rpc/model_service.h"
#include "server/rpc/rpc_interceptor.h"
#include "server/rpc/store_service.h"
#include "server/state/model_registry.h"
#include "server/store/commit_queue.h"

namespace calibd::server {
namespace {

// A test that takes minutes must not slow down ingestion and answers.
constexpr int kComputeNiceness = 10;

}  // namespace

// In the order of construction: later parts use earlier ones.
struct Server::Parts {
  Parts(const Options& options, std::unique_ptr<Store> store,
        std::function<void(const absl::Status&)> on_failure)
      : writers("calibd-writer", static_cast<std::size_t>(options.writer_threads)),
        registry(
            {.max_models = static_cast<std::size_t>(options.max_models),
             .state_memory_bytes = static_cast<std::size_t>(options.state_memory_bytes),
             .max_producers_per_model = static_cast<std::size_t>(options.max_producers_per_model)},
            writers),
        recovery(Recover(*store, registry, static_cast<std::size_t>(options.model_memory_bytes))),
        commits(std::move(store), std::move(on_failure)),
        compute_threads(options.compute_threads > 0
                            ? static_cast<std::size_t>(options.compute_threads)
                            : std::max(1U, std::thread::hardware_concurrency())),
        computers("calibd-compute", compute_threads, kComputeNiceness),
        jobs({.max_queued = static_cast<std::size_t>(options.max_queued_tests),
              .memory_bytes = static_cast<std::size_t>(options.test_memory_bytes),
              .operations = options.max_test_operations},
             computers, compute_threads),
        ingestor(commits,
                 LogClock({}, recovery.ok() ? recovery->elapsed : std::chrono::microseconds(0)),
                 static_cast<std::size_t>(options.ingest_queue_bytes)),
        streams(static_cast<std::size_t>(options.max_ingest_streams)),
        models(registry, commits, static_cast<std::size_t>(options.model_memory_bytes),
               [this](const std::shared_ptr<Model>& model) {
                 streams.EndStreamsOf(*model,
                                      ModelNotFoundError(model->declaration().name.ToString()));
               }),
        ingest({.registry = registry,
                .ingestor = ingestor,
                .streams = streams,
                .max_message_bytes = options.max_message_bytes,
                .max_batches_in_flight = static_cast<std::int32_t>(options.max_batches_in_flight)}),
        history(options.data_dir + "/calibd.db"),
        calibration(registry, jobs, ingestor, history),
        upkeep(options.data_dir),
        metrics({.registry = registry,
                 .ingestor = ingestor,
                 .streams = streams,
                 .jobs = jobs,
                 .rpcs = rpcs,
                 .commits = commits,
                 .recovery_seconds = recovery.ok() ? recovery->seconds : 0,
                 .max_series = static_cast<std::size_t>(options.max_series),
                 .ingest_queue_bytes = static_cast<std::size_t>(options.ingest_queue_bytes),
                 .state_memory_bytes = static_cast<std::size_t>(options.state_memory_bytes)}) {}

  // Calls end first, then the threads whose tasks use the other parts.
  ~Parts() {
    jobs.Drain();
    upkeep.Drain();
    grpc.reset();
    http.reset();
    computers.Stop();
    upkeep.Stop();
    // Histories are read on the writer threads first, then on their own.
    history.Stop();
    if (maturation != nullptr) {
      maturation->Stop();
    }
    // What was submitted is settled; what settling it posts is written.
    commits.Flush();
    writers.Stop();
    commits.Stop();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  std::atomic<bool> ready = false;
  ThreadPool writers;
  ModelRegistry registry;
  absl::StatusOr<Recovery> recovery;
  CommitQueue commits;
  std::size_t compute_threads;
  ThreadPool computers;
  WindowJobs jobs;
  Ingestor ingestor;
  // Once the models are brought back.
  std::unique_ptr<Maturation> maturation;
  OpenStreams streams;
  ModelServiceImpl models;
  IngestServiceImpl ingest;
  HistoryReader history;
  CalibrationServiceImpl calibration;
  StoreServiceImpl upkeep;
  RpcStatistics rpcs;
  Metrics metrics;
  std::unique_ptr<HttpEndpoint> http;
  std::unique_ptr<GrpcEndpoint> grpc;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

const std::string& Server::grpc_address() const noexcept { return parts_->grpc->address(); }
const std::string& Server::http_address() const noexcept { return parts_->http->address(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Options& options, std::function<void(const absl::Status&)> on_failure) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(options.data_dir);
  if (!store.ok()) {
    return store.status();
  }
  auto parts = std::make_unique<Parts>(options, *std::move(store), std::move(on_failure));
  if (!parts->recovery.ok()) {
    return parts->recovery.status();
  }
  spdlog::info("{} models from {}: {} batches read, {} observations counted again, {:.3f} s",
               parts->recovery->models, options.data_dir, parts->recovery->batches,
               parts->recovery->replayed_rows, parts->recovery->seconds);
  parts->maturation = std::make_unique<Maturation>(parts->registry, parts->ingestor);
  absl::StatusOr<std::unique_ptr<HttpEndpoint>> http = HttpEndpoint::Start(
      options.http_listen, static_cast<std::size_t>(options.max_http_connections),
      {.metrics = [&metrics = parts->metrics] { return metrics.Text(); },
       .ready = [&ready = parts->ready] { return ready.load(); }});
  if (!http.ok()) {
    return http.status();
  }
  parts->http = *std::move(http);
  absl::StatusOr<std::unique_ptr<GrpcEndpoint>> grpc = GrpcEndpoint::Start(
      options, {&parts->models, &parts->ingest, &parts->calibration, &parts->upkeep},
      std::make_unique<RpcInterceptorFactory>(parts->rpcs));
  if (!grpc.ok()) {
    return grpc.status();
  }
  parts->grpc = *std::move(grpc);
  parts->ready = true;
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

void Server::Drain(std::chrono::steady_clock::time_point deadline) {
  parts_->ready = false;
  parts_->grpc->StopServing();
  parts_->jobs.Drain();
  parts_->upkeep.Drain();
  parts_->streams.Drain();
  parts_->grpc->Shutdown(std::chrono::system_clock::now() +
                         (deadline - std::chrono::steady_clock::now()));
}

}  // namespace calibd::server
