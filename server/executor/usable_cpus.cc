#include "server/executor/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace calibd::server {
namespace {

// Returns the path of this process below the mount point of cgroup v2; empty for the root, and if
// there is none.
std::filesystem::path ControlGroup(const std::filesystem::path& proc) {
  std::ifstream file(proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

std::size_t UsableCpus(const std::filesystem::path& proc, const std::filesystem::path& cgroup) {
  cpu_set_t affinity;
  std::size_t cpus = sched_getaffinity(0, sizeof(affinity), &affinity) == 0
                         ? static_cast<std::size_t>(CPU_COUNT(&affinity))
                         : std::thread::hardware_concurrency();
  for (std::filesystem::path group = ControlGroup(proc);; group = group.parent_path()) {
    // Two numbers, or "max" and a number.
    std::ifstream file(cgroup / group / "cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) {
      cpus = std::min(cpus, static_cast<std::size_t>(std::ceil(quota / period)));
    }
    if (group.empty()) return std::max<std::size_t>(cpus, 1);
  }
}

}  // namespace calibd::server
