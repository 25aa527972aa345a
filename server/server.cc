#include "server/server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <malloc.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/store/v1/archive.pb.h"
#include "calibd/store/v1/store.pb.h"
#include "server/access/access_control.h"
#include "server/api/api.h"
#include "server/api/guard.h"
#include "server/api/health.h"
#include "server/archive/archiver.h"
#include "server/base/listen_address.h"
#include "server/compute/window_jobs.h"
#include "server/executor/thread_pool.h"
#include "server/executor/usable_cpus.h"
#include "server/http/http_endpoint.h"
#include "server/http/http_hosts.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/due_work.h"
#include "server/ingest/history_reader.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/open_streams.h"
#include "server/ingest/recovery.h"
#include "server/ingest/snapshots.h"
#include "server/net/byte_budget.h"
#include "server/net/call_memory.h"
#include "server/net/relay_statistics.h"
#include "server/net/tls_server.h"
#include "server/observability/http_statistics.h"
#include "server/observability/metrics.h"
#include "server/observability/rpc_statistics.h"
#include "server/rpc/grpc_endpoint.h"
#include "server/rpc/grpc_forwarder.h"
#include "server/rpc/registered_methods.h"
#include "server/rpc/rpc_interceptor.h"
#include "server/rpc/services.h"
#include "server/state/model_registry.h"
#include "server/store/local/archive_restore.h"
#include "server/store/local/local_store.h"
#include "server/store/postgres/postgres_store.h"
#include "server/version.h"

namespace calibd::server {
namespace {

// A test that runs for minutes must not slow down ingestion and responses.
constexpr int kComputeNiceness = 10;
constexpr std::chrono::seconds kCheckFilesInterval{2};
// Giving memory back takes milliseconds, and an excess may go on.
constexpr std::chrono::seconds kReturnMemoryInterval{10};
// Calls that gRPC refuses by itself, in a tenth of a second: see EndingCalls.
constexpr std::int64_t kForgottenCalls = 10;

// Returns null without an archive.
std::unique_ptr<Archiver> MakeArchiver(const Options& options, CommitQueue& commits) {
  if (options.archive_command.empty()) return nullptr;
  const std::filesystem::path folder = std::filesystem::absolute(options.data_dir) / "archive";
  // The rest of the disk is for models.
  return std::make_unique<Archiver>(
      Archiver::Settings{.command = options.archive_command,
                         .folder = folder.string(),
                         .most_waiting_bytes = options.disk_bytes / 4},
      commits);
}

absl::StatusOr<std::unique_ptr<Store>> OpenStoreOf(const Options& options) {
  if (options.store == "postgres") {
    return PostgresStore::Open({.connection = options.postgres});
  }
  CALIBD_RETURN_IF_ERROR(CheckRestoreFinished(options.data_dir));
  return LocalStore::Open(options.data_dir);
}

// Where clients and other processes reach gRPC, which listens on the bound address.
std::string AdvertisedAddress(const Options& options, const std::string& bound) {
  if (!options.advertise.empty()) return options.advertise;
  const auto endpoint = ParseListenAddress(bound);
  if (!endpoint.ok() || !endpoint->address().is_unspecified()) return bound;
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return bound;
  return absl::StrCat(name.data(), ":", endpoint->port());
}

// protobuf builds the types of fields and the reflection of messages when they are first needed.
// Without memory at that time, it would leave them incomplete and crash later.
void BuildTypes(const google::protobuf::Descriptor& message) {
  auto* const factory = google::protobuf::MessageFactory::generated_factory();
  if (const auto* const empty = factory->GetPrototype(&message); empty != nullptr) {
    static_cast<void>(empty->SpaceUsedLong());
  }
  for (int i = 0; i < message.field_count(); ++i) {
    static_cast<void>(message.field(i)->message_type());
  }
  for (int i = 0; i < message.nested_type_count(); ++i) BuildTypes(*message.nested_type(i));
}
void BuildTypes(const google::protobuf::FileDescriptor& file) {
  for (int i = 0; i < file.dependency_count(); ++i) BuildTypes(*file.dependency(i));
  for (int i = 0; i < file.message_type_count(); ++i) BuildTypes(*file.message_type(i));
}
// Builds the types of all messages of the API and of the store.
void BuildTypes() {
  for (const auto* const file :
       {v1::ObserveRequest::descriptor()->file(), v1::CreateModelRequest::descriptor()->file(),
        v1::GetCalibrationRequest::descriptor()->file(), v1::BackupRequest::descriptor()->file(),
        store::v1::ModelState::descriptor()->file(),
        store::v1::ArchiveHeader::descriptor()->file()}) {
    BuildTypes(*file);
  }
}

// option: 0 means one thread per CPU that this process may use.
std::size_t ThreadCount(std::int64_t option) {
  return option > 0 ? static_cast<std::size_t>(option) : UsableCpus();
}

}  // namespace

// The parts are in the order of construction: later ones use earlier ones.
struct Server::Parts {
  Parts(const Options& the_options, std::unique_ptr<TlsServer> the_tls,
        std::unique_ptr<Store> the_store, std::unique_ptr<AuditLog> the_audit,
        std::unique_ptr<AccessControl> the_access, Events the_events)
      : options(the_options),
        events(std::move(the_events)),
        tls(std::move(the_tls)),
        call_memory(static_cast<std::size_t>(options.call_memory_bytes)),
        response_memory(call_memory),
        writers("calibd-writer", ThreadCount(options.writer_threads), /*nice=*/0, /*for_brief=*/1),
        registry(
            {.max_models = static_cast<std::size_t>(options.max_models),
             .state_memory_bytes = static_cast<std::size_t>(options.state_memory_bytes),
             .disk_bytes = static_cast<std::size_t>(options.disk_bytes),
             .producers = {.producers = static_cast<std::size_t>(options.max_producers_per_model),
                           .idle = std::chrono::seconds(options.producer_idle_seconds),
                           .expired =
                               static_cast<std::size_t>(options.max_expired_producers_per_model),
                           .requests = static_cast<std::size_t>(options.max_request_ids_per_model),
                           .request_age = std::chrono::seconds(options.request_id_seconds)}},
            writers, [this] { return store.CheckOwned(); }),
        store(*the_store),
        health(
            options.data_dir, [this] { return commits.refusal(); },
            [this] { return store.CheckOwned(); }),
        commits(
            std::move(the_store),
            [this](const absl::Status& status) {
              if (absl::IsDataLoss(status)) health.ReportDamage(status);
              if (stops_waiting && absl::IsUnavailable(status)) {
                spdlog::warn("ends without the store, in which all that was acknowledged is: {}",
                             std::string(status.message()));
                return;
              }
              events.on_failure(
                  absl::Status(status.code(),
                               absl::StrCat("the store failed, calibd acknowledges nothing more: ",
                                            status.message())));
            }),
        archiver(MakeArchiver(options, commits)),
        compute_threads(ThreadCount(options.compute_threads)),
        computers("calibd-compute", compute_threads, kComputeNiceness),
        small_computers("calibd-small", 1, kComputeNiceness),
        jobs({.max_queued = static_cast<std::size_t>(options.max_queued_tests),
              .memory_bytes = static_cast<std::size_t>(options.test_memory_bytes),
              .operations = options.max_test_operations},
             computers, compute_threads, small_computers),
        ingestor(commits, clock, static_cast<std::size_t>(options.ingest_queue_bytes)),
        streams(static_cast<std::size_t>(options.max_ingest_streams), UsableCpus()),
        history(store, [this](const absl::Status& damage) { health.ReportDamage(damage); }),
        audit(std::move(the_audit)),
        access(std::move(the_access)),
        forwarder(options.store == "local"
                      ? nullptr
                      : std::make_unique<GrpcForwarder>(
                            store, response_memory,
                            PeerCredentials(options.tls_certificate, options.tls_key,
                                            options.tls_peer_ca),
                            options.max_concurrent_streams)),
        api({.registry = registry,
             .commits = commits,
             .jobs = jobs,
             .ingestor = ingestor,
             .streams = streams,
             .history = history,
             .access = *access,
             .audit = *audit,
             .writers = writers,
             .health = health,
             .forwarder = forwarder.get(),
             .model_memory_bytes = static_cast<std::size_t>(options.model_memory_bytes),
             .model_disk_bytes = static_cast<std::size_t>(options.model_disk_bytes),
             .max_watchers = static_cast<std::size_t>(options.max_watchers)}),
        models({api, response_memory}),
        ingest({api, response_memory},
               {.max_message_bytes = options.max_message_bytes,
                .max_batches_in_flight = static_cast<std::int32_t>(options.max_batches_in_flight)}),
        calibration({api, response_memory}),
        upkeep({api, response_memory}),
        rpcs(RegisteredMethods(options.reflection)),
        metrics({.registry = registry,
                 .ingestor = ingestor,
                 .streams = streams,
                 .jobs = jobs,
                 .rpcs = rpcs,
                 .http = http_requests,
                 .relay = relay_statistics,
                 .tls = tls.get(),
                 .commits = commits,
                 .archiver = archiver.get(),
                 .access = *access,
                 .audit = *audit,
                 .call_memory = call_memory,
                 .recovery = recovery,
                 .store = store,
                 .store_damaged = health.damaged(),
                 .max_series = static_cast<std::size_t>(options.max_series),
                 .ingest_queue_bytes = static_cast<std::size_t>(options.ingest_queue_bytes),
                 .state_memory_bytes = static_cast<std::size_t>(options.state_memory_bytes),
                 .disk_bytes = static_cast<std::size_t>(options.disk_bytes)}) {}

  // First the calls end, then the threads whose tasks use the other parts.
  ~Parts() {
    EndRecovery();
    StopWaiting();
    // It uses the endpoints.
    if (due_work != nullptr) due_work->Stop();
    api.Drain();
    grpc.reset();
    http.reset();
    // Small jobs let the compute threads help.
    small_computers.Stop();
    computers.Stop();
    api.Stop();
    // Reading a history begins on a writer thread and continues on the thread of `history`.
    history.Stop();
    // Submitted batches are settled, and the writes that this posts are done.
    commits.Flush();
    writers.Stop();
    if (archiver != nullptr) archiver->Stop(std::chrono::steady_clock::now());
    commits.Stop();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Runs on its own thread once both endpoints exist: recovers the models, then starts serving.
  void RunRecovery() {
    pthread_setname_np(pthread_self(), "calibd-recover");
    const absl::Status status = Guarded("Recovery", Stage::kStart, [this]() -> absl::Status {
      CALIBD_RETURN_IF_ERROR(store.Own(AdvertisedAddress(options, grpc->address()), recovery.stop));
      absl::Status recovered =
          Recover(store, registry, static_cast<std::size_t>(options.model_memory_bytes), recovery);
      for (const std::string& warning : recovery.warnings) {
        spdlog::warn("{}", warning);
      }
      if (recovered.ok()) {
        spdlog::info("{} models from {}: {} batches read, {} observations replayed, {:.3f} s",
                     recovery.models.load(),
                     options.store == "local" ? options.data_dir : options.store,
                     recovery.batches.load(), recovery.replayed_rows, recovery.seconds);
        clock.Begin(recovery.elapsed);
        // The storage thread may work from CheckRoomAtStart on.
        if (archiver != nullptr) CALIBD_RETURN_IF_ERROR(archiver->Prepare(store));
        commits.CheckRoomAtStart();
        WarnOfSmallDisk();
        if (archiver != nullptr) archiver->Start();
        // From here on, calls write to the store.
        registry.FinishRestoring();
        due_work = std::make_unique<DueWork>(registry, ingestor, commits, [this] {
          history.CheckNext();
          CheckFiles();
          if (serves) grpc->SetServing(registry.CheckRestored().ok());
          ReturnMemory();
          relay_statistics.ending_calls().Forget(kForgottenCalls);
          LogRefusalChange();
        });
      }
      return recovered;
    });
    if (!status.ok()) {
      // The drain stopped the recovery; this is not a failure.
      const bool stopped =
          absl::IsCancelled(status) || (stops_waiting && absl::IsUnavailable(status));
      if (!stopped) events.on_failure(status);
      return;
    }
    if (health.StartServing()) {
      grpc->SetServing(true);
      serves = true;
      events.on_serving(grpc->address(), http->address());
    }
  }

  // Writes to a removed file succeed, but their rows are lost. Runs on the thread of `due_work`.
  void CheckFiles() {
    const auto now = std::chrono::steady_clock::now();
    if (now < check_files_at) return;
    check_files_at = now + kCheckFilesInterval;
    commits.Call([this](const Store& checked, const absl::Status& /*committed*/) {
      if (absl::Status status = checked.CheckInPlace(); !status.ok()) commits.Fail(status);
    });
  }

  // Returns to the system what the cancelled calls of an excess have freed: about 25 KB each, of
  // thousands of calls that gRPC ends at the same time. malloc would keep it. Runs on the thread of
  // `due_work`.
  void ReturnMemory() {
    const std::int64_t excesses =
        relay_statistics.closed(static_cast<std::size_t>(CloseReason::kTooManyResets));
    const auto now = std::chrono::steady_clock::now();
    if (excesses == returned_excesses) return;
    if (!return_memory_at.has_value()) {
      // Calls of this excess may still end.
      return_memory_at = now + kReturnMemoryInterval;
    } else if (now >= *return_memory_at && !relay_statistics.ending_calls().many()) {
      return_memory_at.reset();
      returned_excesses = excesses;
      malloc_trim(0);
    }
  }

  // Runs on the thread of `due_work`.
  void LogRefusalChange() {
    const std::string change = health.RefusalChange(std::chrono::steady_clock::now());
    if (!change.empty()) {
      spdlog::warn("{}", change);
    }
  }

  // The file system may have less room than the models reserve.
  void WarnOfSmallDisk() const {
    const std::optional<Store::Space> disk = store.space();
    const std::size_t reserved = registry.reserved_disk_bytes();
    if (disk.has_value() && disk->available + disk->used < reserved) {
      spdlog::warn(
          "the store may need {} bytes of disk (calibd_store_reserved_bytes), but it has {} and {} "
          "are free: calibd refuses batches when the disk is full",
          reserved, disk->used, disk->available);
    }
  }

  void WarnOfUnstored(std::size_t unstored) const {
    if (unstored == 0) return;
    const CommitQueue::Refusal refusal = commits.refusal();
    // The contents of the disk are then unknown.
    if (health.damaged() || refusal == CommitQueue::Refusal::kEverything) {
      spdlog::warn(
          "snapshots that were not stored: {}, because the store {}; the next start "
          "checks the store",
          unstored, health.damaged() ? "is damaged" : "failed");
      return;
    }
    spdlog::warn(
        "snapshots that were not stored: {}, because {}; the next start replays the batches of "
        "these models from the log, which takes longer and loses nothing",
        unstored,
        refusal == CommitQueue::Refusal::kNothing ? "there was not enough time"
                                                  : "the disk is full");
  }

  // What has not been committed when a drain ends is not acknowledged.
  void StopWaiting() {
    stops_waiting = true;
    store.StopWaiting();
  }

  // A database that has been away for so long may be away for longer.
  void StopWaitingWithoutLease() {
    if (!store.CheckOwned().ok()) StopWaiting();
  }

  void EndRecovery() {
    recovery.stop = true;
    // Until calls are served, there is nothing to store.
    if (!serves) StopWaiting();
    if (recoverer.joinable()) recoverer.join();
  }

  const Options options;
  const Events events;
  // Null without encryption.
  const std::unique_ptr<TlsServer> tls;
  ByteBudget call_memory;
  RelayStatistics relay_statistics;
  CallMemory response_memory;
  std::chrono::steady_clock::time_point check_files_at{};
  // The number of connections that were closed after too many resets when ReturnMemory has last
  // returned the memory, and when it does so next; unset while there is nothing to return.
  std::int64_t returned_excesses = 0;
  std::optional<std::chrono::steady_clock::time_point> return_memory_at;
  ThreadPool writers;
  // A store that is away is no failure any more.
  std::atomic<bool> stops_waiting = false;
  ModelRegistry registry;
  Recovery recovery;
  // Owned by `commits`, to which nothing is posted before the models are recovered.
  Store& store;
  // The threads of `commits` report damage to it.
  Health health;
  CommitQueue commits;
  // Null without an archive.
  const std::unique_ptr<Archiver> archiver;
  std::size_t compute_threads;
  ThreadPool computers;
  // Runs the small jobs.
  ThreadPool small_computers;
  WindowJobs jobs;
  LogClock clock;
  Ingestor ingestor;
  // Created once the models are recovered.
  std::unique_ptr<DueWork> due_work;
  OpenStreams streams;
  HistoryReader history;
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<AccessControl> access;
  const std::unique_ptr<GrpcForwarder> forwarder;
  Api api;
  ModelService models;
  IngestService ingest;
  CalibrationService calibration;
  StoreService upkeep;
  RpcStatistics rpcs;
  HttpStatistics http_requests;
  Metrics metrics;
  std::unique_ptr<HttpEndpoint> http;
  std::unique_ptr<GrpcEndpoint> grpc;
  // Calls are served, as far as the store is owned.
  std::atomic<bool> serves = false;
  std::thread recoverer;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options, Events events) {
  BuildTypes();
  CALIBD_ASSIGN_OR_RETURN(std::vector<std::string> hosts, ParseHttpHosts(options.http_hosts));
  std::unique_ptr<TlsServer> tls;
  if (!options.tls_certificate.empty()) {
    CALIBD_ASSIGN_OR_RETURN(auto certificates, TlsCertificates::Load(TlsFilesOf(options)));
    certificates->StartReloading();
    tls = std::make_unique<TlsServer>(std::move(certificates));
  }
  CALIBD_ASSIGN_OR_RETURN(
      std::unique_ptr<AuditLog> audit,
      AuditLog::Open(options.audit_log, static_cast<std::size_t>(options.audit_log_bytes)));
  CALIBD_ASSIGN_OR_RETURN(std::unique_ptr<AccessControl> access,
                          AccessControl::Open(options.access_file, *audit));
  access->StartPolling();
  CALIBD_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStoreOf(options));
  auto parts = std::make_unique<Parts>(options, std::move(tls), std::move(store), std::move(audit),
                                       std::move(access), std::move(events));
  CALIBD_ASSIGN_OR_RETURN(
      parts->http,
      HttpEndpoint::Start(
          options.http_listen, static_cast<std::size_t>(options.max_http_connections),
          {.metrics = [&metrics = parts->metrics] { return metrics.Text(); },
           .health = parts->health,
           .requests = parts->http_requests,
           .access = *parts->access,
           .hosts = std::move(hosts)},
          {.api = parts->api,
           .memory = parts->response_memory,
           .max_body_bytes = static_cast<std::size_t>(options.max_message_bytes),
           .max_event_streams = static_cast<std::size_t>(options.max_http_connections) / 4,
           .parsing_threads = ThreadCount(options.writer_threads),
           // Half of what one address may use.
           .parsing_bytes = static_cast<std::size_t>(options.call_memory_bytes) / 8},
          parts->tls.get()));
  CALIBD_ASSIGN_OR_RETURN(
      parts->grpc,
      GrpcEndpoint::Start(options,
                          {&parts->models, &parts->ingest, &parts->calibration, &parts->upkeep},
                          std::make_unique<RpcInterceptorFactory>(
                              parts->rpcs, parts->relay_statistics.ending_calls()),
                          parts->call_memory, parts->relay_statistics, parts->tls.get()));
  spdlog::info("calibd {} listens for gRPC on {} and for HTTP{} on {}", kVersion,
               parts->grpc->address(), parts->tls == nullptr ? "" : "S", parts->http->address());
  parts->recoverer = std::thread([raw = parts.get()] { raw->RunRecovery(); });
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

void Server::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto begin = std::chrono::steady_clock::now();
  parts_->health.StartDraining();
  parts_->EndRecovery();
  parts_->StopWaitingWithoutLease();
  parts_->grpc->StopServing();
  parts_->streams.Drain();
  parts_->api.Drain();
  // A client that does not read its answer may not delay the rest.
  parts_->http->Drain(
      std::min(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(1)));
  parts_->grpc->Shutdown(std::chrono::system_clock::now() +
                         (deadline - std::chrono::steady_clock::now()));
  if (parts_->due_work != nullptr) {
    parts_->StopWaitingWithoutLease();
    parts_->due_work->Stop();
    // Snapshots leave nothing to replay for the next start. Clients may have used all the time
    // until the deadline, so snapshots get another sixth of it.
    const std::size_t unstored = StoreSnapshots(parts_->registry, parts_->commits, parts_->clock,
                                                deadline + (deadline - begin) / 6);
    parts_->WarnOfUnstored(unstored);
  }
  if (parts_->archiver != nullptr) parts_->archiver->Stop(deadline + (deadline - begin) / 4);
}

}  // namespace calibd::server
