// A process with a Monitor: `monitor_process MODE ADDRESS`. It forks or ends as the mode says, and
// ends with 0 if all went well.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/client/monitor.h"

namespace {

using calibd::client::Client;
using calibd::client::ModelName;
using calibd::client::Monitor;

constexpr std::chrono::minutes kPatience{1};

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::cerr << getpid() << ": " << what << std::endl;
  _exit(1);
}

bool Observe(Monitor& monitor, int rows) {
  bool all = true;
  const std::vector<double> probabilities = {0.2, 0.3, 0.5};
  for (int row = 0; row < rows; ++row) {
    all &= monitor.Observe({.values = probabilities, .label = 2});
  }
  return all;
}

void ObserveAndFlush(Monitor& monitor, int rows) {
  Check(Observe(monitor, rows), "a row was dropped");
  const absl::Status status = monitor.Flush(kPatience);
  Check(status.ok(), std::string(status.message()));
}

// Runs `child` in a forked process, which ends as programs do.
template <typename Function>
pid_t Fork(const Function& child) {
  const pid_t process = fork();
  if (process == 0) {
    child();
    std::exit(0);
  }
  Check(process > 0, "fork failed");
  return process;
}

void WaitForChild(pid_t child) {
  int status = 0;
  Check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "a child failed");
}

void Run(const std::string& mode, const std::string& address) {
  auto created = Monitor::Create(ModelName("m"),
                                 {.address = address, .close_timeout = std::chrono::seconds(2)});
  Check(created.ok(), "no monitor");
  // Nobody destroys it, as in a service that has it in a variable that is never destroyed.
  Monitor& monitor = *created->release();
  if (mode == "fork") {
    ObserveAndFlush(monitor, 10);
    const pid_t first = Fork([&] { ObserveAndFlush(monitor, 5); });
    const pid_t second = Fork([&] { ObserveAndFlush(monitor, 5); });
    ObserveAndFlush(monitor, 3);
    WaitForChild(first);
    WaitForChild(second);
    Check(monitor.counts().accepted_rows == 13, "counts of a child are in the parent");
  } else if (mode == "preload") {
    const pid_t first = Fork([&] { ObserveAndFlush(monitor, 5); });
    const pid_t second = Fork([&] { ObserveAndFlush(monitor, 5); });
    WaitForChild(first);
    WaitForChild(second);
  } else if (mode == "client") {
    const auto client = Client::Connect(address);
    Check(client.ok(), "no client");
    ObserveAndFlush(monitor, 10);
    WaitForChild(Fork([&] {
      Check(!Observe(monitor, 1), "a row was taken without gRPC");
      Check(absl::IsFailedPrecondition(monitor.Flush(kPatience)), "flush did not fail");
      Check(absl::IsFailedPrecondition(monitor.status()), "the status does not tell it");
    }));
    ObserveAndFlush(monitor, 3);
  } else {
    Check(Observe(monitor, 10), "a row was dropped");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Run(argv[1], argv[2]);
  return 0;
}
