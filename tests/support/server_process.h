#ifndef CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_
#define CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {

// A program run by a test: killed with it, its stderr and stdout kept in a file.
class ChildProcess {
 public:
  // command[0] is looked up in PATH. output: a file.
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& output);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, 128 + N after signal N; unset when it still runs at the deadline.
  std::optional<int> WaitForExit(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  [[nodiscard]] std::string Output() const;

 private:
  bool Reap();

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::filesystem::path output_;
};

// The real calibd, on loopback with ports chosen by the system.
class ServerProcess {
 public:
  // Starts it and waits until it serves. arguments: after --listen, --http-listen,
  // --ready-file and --data-dir, which they may override. environment: NAME=VALUE, besides the
  // test's own. Returns null, with the output on stderr, when it does not come to serve.
  static std::unique_ptr<ServerProcess> Start(const std::vector<std::string>& arguments = {},
                                              const std::vector<std::string>& environment = {});
  // The same without waiting.
  static std::unique_ptr<ServerProcess> Launch(const std::vector<std::string>& arguments = {},
                                               const std::vector<std::string>& environment = {});
  // Waits until it serves; false when it does not come to that.
  bool AwaitServing();
  // It has said that it serves.
  [[nodiscard]] bool serving() const;

  // "127.0.0.1:PORT", when it serves.
  [[nodiscard]] const std::string& grpc_address() const { return grpc_address_; }
  [[nodiscard]] const std::string& http_address() const { return http_address_; }
  [[nodiscard]] const ChildProcess& process() const { return *process_; }

  // The exit code; unset when it still runs at the deadline.
  std::optional<int> WaitForExit(std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
    return process_->WaitForExit(deadline);
  }
  // SIGTERM and wait: the exit code, unset when it does not end in time.
  std::optional<int> Terminate(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // SIGKILL and wait.
  void Kill();

 private:
  ServerProcess() = default;

  [[nodiscard]] std::filesystem::path ready_file() const { return folder_.path() / "ready.json"; }

  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
  std::string grpc_address_;
  std::string http_address_;
};

// Runs calibd with these arguments until it ends by itself. environment: as Start.
struct FinishedRun {
  std::optional<int> exit_code;
  std::string output;
};
FinishedRun RunCalibd(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {});

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_
