#ifndef CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_
#define CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::testing {

// The real calibd, on loopback with ports chosen by the system.
class ServerProcess {
 public:
  // Starts calibd and waits until it serves. arguments: added after --listen, --http-listen,
  // --ready-file and --data-dir, which they may override. environment: NAME=VALUE, in addition to
  // the environment of the test. Its drain may take 40 s unless these say otherwise. If calibd does
  // not serve, returns null and prints its output to stderr.
  static std::unique_ptr<ServerProcess> Start(const std::vector<std::string>& arguments = {},
                                              const std::vector<std::string>& environment = {});
  // Does what Start does, but does not wait.
  static std::unique_ptr<ServerProcess> Launch(const std::vector<std::string>& arguments = {},
                                               const std::vector<std::string>& environment = {});
  // Waits until calibd serves; returns false if it does not.
  bool AwaitServing();
  // Waits until calibd listens, as a standby does that does not serve; returns false if it does
  // not.
  bool AwaitListening();
  // True once calibd reported that it serves.
  [[nodiscard]] bool serving() const;

  // "127.0.0.1:PORT", after AwaitServing or AwaitListening.
  [[nodiscard]] const std::string& grpc_address() const { return grpc_address_; }
  [[nodiscard]] const std::string& http_address() const { return http_address_; }
  [[nodiscard]] const ChildProcess& process() const { return *process_; }

  // Returns the exit code; unset if calibd is still running at the deadline.
  std::optional<int> WaitForExit(std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
    return process_->WaitForExit(deadline);
  }
  // Sends SIGTERM and waits. Returns the exit code; unset if calibd does not end in time.
  std::optional<int> Terminate(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // Sends SIGKILL and waits.
  void Kill();

 private:
  ServerProcess() = default;

  [[nodiscard]] std::filesystem::path ready_file() const { return folder_.path() / "ready.json"; }

  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
  std::string grpc_address_;
  std::string http_address_;
};

// Runs calibd with these arguments until it exits. environment: see Start.
struct FinishedRun {
  std::optional<int> exit_code;
  std::string output;
};
FinishedRun RunCalibd(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {});

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_SERVER_PROCESS_H_
