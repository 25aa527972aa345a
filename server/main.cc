// The calibd server: reads its options, serves until SIGTERM or SIGINT, drains.

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <iostream>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "server/migrate.h"
#include "server/net/tls_certificates.h"
#include "server/observability/logging.h"
#include "server/process/healthcheck.h"
#include "server/process/options.h"
#include "server/process/ready_file.h"
#include "server/process/shutdown_signal.h"
#include "server/restore.h"
#include "server/server.h"

namespace {

using calibd::server::Command;
using calibd::server::Exit;
using calibd::server::Invocation;
using calibd::server::Options;
using calibd::server::Server;
using calibd::server::ShutdownSignal;

// Every batch allocates and frees megabytes. By default, malloc returns free memory at the end of a
// heap to the system at once, and the next batch has to request it again.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
  // Blocks that are larger than any batch are still returned when they are freed.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
}

int Serve(const Options& options) {
  KeepFreedMemory();
  ShutdownSignal signal;  // Before other threads start: they inherit the blocked signals.
  calibd::server::StartLogging(options.log_format, options.log_level);
  std::atomic<bool> failed = false;
  std::atomic<bool> draining = false;
  const auto fail = [&failed, &draining](const absl::Status& status) {
    spdlog::error("{}", std::string(status.message()));
    failed = true;
    // A second signal would cut the drain short.
    if (!draining.exchange(true)) kill(getpid(), SIGTERM);
  };
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(
      options, {.on_serving =
                    [&options, &fail](const std::string& grpc, const std::string& http) {
                      spdlog::info("serving");
                      if (!options.ready_file.empty()) {
                        const absl::Status written =
                            calibd::server::WriteReadyFile(options.ready_file, grpc, http);
                        if (!written.ok()) fail(written);
                      }
                    },
                .on_failure = fail});
  if (!server.ok()) {
    spdlog::error("{}", std::string(server.status().message()));
    calibd::server::StopLogging();
    return 1;
  }
  signal.Wait();
  draining = true;
  const auto deadline = signal.ArmWatchdog(std::chrono::seconds(options.drain_seconds));
  spdlog::info("draining");
  (*server)->Drain(deadline);
  server->reset();
  spdlog::info("drained");
  calibd::server::StopLogging();
  return failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's library looks for deadlocks whenever gRPC locks, which takes a lock of all threads.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Only the owner reads the store and what is handed over to an archive.
  umask(S_IRWXG | S_IRWXO);
  try {
    const auto parsed = calibd::server::ParseOptions(argc, argv);
    if (const auto* exit = std::get_if<Exit>(&parsed)) return exit->code;
    const auto& invocation = std::get<Invocation>(parsed);
    if (invocation.command == Command::kRestore) {
      return calibd::server::RunRestore(invocation.restore);
    }
    if (invocation.command == Command::kMigrate) {
      return calibd::server::RunMigrate(invocation.options.postgres, invocation.grant);
    }
    return invocation.command == Command::kHealthcheck
               ? calibd::server::RunHealthcheck(invocation.options.listen,
                                                calibd::server::TlsFilesOf(invocation.options))
               : Serve(invocation.options);
  } catch (const std::exception& error) {
    std::cerr << "calibd: " << error.what() << '\n';
    return 1;
  }
}
