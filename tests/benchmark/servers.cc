#include "benchmark/servers.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "benchmark/load.h"
#include "benchmark/no_op_service.h"
#include "server/process/options.h"
#include "server/process/ready_file.h"

namespace calibd {
namespace {

// Lets all threads of this process, and the programs that it starts, run only on these CPUs.
void RunOn(const cpu_set_t& cpus) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    // A thread may have ended.
    sched_setaffinity(std::stoi(thread.path().filename()), sizeof(cpus), &cpus);
  }
}

cpu_set_t AllCpus() {
  static const cpu_set_t kCpus = [] {
    cpu_set_t cpus;
    Check(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "the CPUs are unknown");
    return cpus;
  }();
  return kCpus;
}

}  // namespace

int RunNoOpServer(const std::string& ready_file, const std::string& log_file) {
  const std::array<const char*, 3> arguments{"no-op-server", "--listen", "127.0.0.1:0"};
  const auto parsed = server::ParseOptions(arguments.size(), arguments.data());
  const auto* const invocation = std::get_if<server::Invocation>(&parsed);
  Check(invocation != nullptr, "the settings are invalid");
  const server::Options& options = invocation->options;
  NoOpService service(static_cast<int>(options.max_batches_in_flight), log_file);
  NoOpCalibration calibration;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.RegisterService(&service);
  builder.RegisterService(&calibration);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Check(server != nullptr, "gRPC did not start");
  const absl::Status written =
      server::WriteReadyFile(ready_file, "127.0.0.1:" + std::to_string(port), "");
  Check(written.ok(), written.ToString());
  while (true) pause();
}

double CpuSeconds(const testing::ChildProcess& server) {
  std::ifstream file("/proc/" + std::to_string(server.pid()) + "/stat");
  std::string skipped;
  for (int i = 0; i < 13; ++i) file >> skipped;
  double user = 0;
  double system = 0;
  Check(static_cast<bool>(file >> user >> system), "the CPU time of a server is unknown");
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Servers::Servers(bool one_cpu) : one_cpu_(one_cpu) {
  cpu_set_t others = AllCpus();
  if (one_cpu) {
    std::size_t first = 0;
    while (!CPU_ISSET(first, &others)) ++first;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(first, &only);
    RunOn(only);
    CPU_CLR(first, &others);
    Check(CPU_COUNT(&others) > 0, "one CPU for the servers and one for the client are necessary");
  }
  calibd_ = testing::ServerProcess::Start();
  Check(calibd_ != nullptr, "calibd did not start");
  StartNoOp("no-op", /*durable=*/false, no_op_);
  StartNoOp("durable-no-op", /*durable=*/true, durable_no_op_);
  if (one_cpu) RunOn(others);
}

Servers::~Servers() {
  if (one_cpu_) RunOn(AllCpus());
}

void Servers::StartNoOp(const std::string& name, bool durable, NoOp& server) const {
  const std::filesystem::path ready = folder_.path() / (name + ".json");
  std::vector<std::string> command{"/proc/self/exe", "no-op-server", ready.string()};
  if (durable) command.push_back((folder_.path() / (name + ".log")).string());
  server.process.emplace(command, folder_.path() / (name + ".txt"));
  Check(testing::WaitFor([&] { return std::filesystem::exists(ready); }),
        "the no-op server did not start");
  std::ifstream file(ready);
  server.address = nlohmann::json::parse(file).at("grpc").get<std::string>();
}

std::int64_t Servers::WrittenBytes() const {
  std::ifstream file("/proc/" + std::to_string(calibd_->process().pid()) + "/io");
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    file >> value;
    if (key == "wchar:") return value;
  }
  Die("the written bytes of calibd are unknown");
}

}  // namespace calibd
