#include "support/server_process.h"

#include <csignal>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>

namespace calibd::testing {
namespace {

constexpr char kCalibd[] = CALIBD_BIN_DIR "/calibd";
// The default is too short for a machine that is busy with other tests. Terminate waits longer.
constexpr char kDrain[] = "CALIBD_DRAIN_SECONDS=40";

// Returns a command that runs `command` with these variables in the same process.
std::vector<std::string> WithEnvironment(const std::vector<std::string>& environment) {
  std::vector<std::string> command{"env"};
  command.insert(command.end(), environment.begin(), environment.end());
  return command;
}

}  // namespace

std::unique_ptr<ServerProcess> ServerProcess::Start(const std::vector<std::string>& arguments,
                                                    const std::vector<std::string>& environment) {
  std::unique_ptr<ServerProcess> server = Launch(arguments, environment);
  if (!server->AwaitServing()) {
    std::cerr << "calibd did not start:\n" << server->process_->Output();
    return nullptr;
  }
  return server;
}

std::unique_ptr<ServerProcess> ServerProcess::Launch(const std::vector<std::string>& arguments,
                                                     const std::vector<std::string>& environment) {
  std::unique_ptr<ServerProcess> server(new ServerProcess());
  std::vector<std::string> command = WithEnvironment(environment);
  command.insert(command.begin() + 1, kDrain);
  command.insert(command.end(), {kCalibd, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                                 "--ready-file", server->ready_file().string(), "--data-dir",
                                 (server->folder_.path() / "data").string()});
  command.insert(command.end(), arguments.begin(), arguments.end());
  server->process_ = std::make_unique<ChildProcess>(command, server->folder_.path() / "output.txt");
  return server;
}

bool ServerProcess::serving() const { return std::filesystem::exists(ready_file()); }

bool ServerProcess::AwaitServing() {
  WaitFor(
      [&] { return serving() || process_->WaitForExit(std::chrono::milliseconds(0)).has_value(); });
  std::ifstream file(ready_file());
  const nlohmann::json content = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object()) return false;
  grpc_address_ = content.at("grpc").get<std::string>();
  http_address_ = content.at("http").get<std::string>();
  return true;
}

bool ServerProcess::AwaitListening() {
  const std::regex line("listens for gRPC on (\\S+) and for HTTPS? on (\\S+)\n");
  return WaitFor([&] {
    std::smatch found;
    const std::string output = process_->Output();
    if (!std::regex_search(output, found, line)) return false;
    grpc_address_ = found[1];
    http_address_ = found[2];
    return true;
  });
}

std::optional<int> ServerProcess::Terminate(std::chrono::milliseconds deadline) {
  process_->Signal(SIGTERM);
  return process_->WaitForExit(deadline);
}

void ServerProcess::Kill() {
  process_->Signal(SIGKILL);
  process_->WaitForExit();
}

FinishedRun RunCalibd(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment) {
  const TemporaryFolder folder;
  // The folder is an environment variable: a flag before the arguments would precede a subcommand.
  std::vector<std::string> command = WithEnvironment(environment);
  command.insert(command.end(), {"CALIBD_DATA_DIR=" + (folder.path() / "data").string(), kCalibd});
  command.insert(command.end(), arguments.begin(), arguments.end());
  ChildProcess process(command, folder.path() / "output.txt");
  FinishedRun run;
  run.exit_code = process.WaitForExit();
  run.output = process.Output();
  return run;
}

}  // namespace calibd::testing
