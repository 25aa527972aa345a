#include "server/observability/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace calibd::server {
namespace {

using enum prometheus::MetricType;

// The fields of /proc/self/stat from the third one on, see proc(5). The second field may contain
// spaces.
using StatFields = std::vector<std::string>;

StatFields ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(line.substr(end_of_name + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

// number: the number of the field in proc(5).
double Field(const StatFields& stat, std::size_t number) { return std::stod(stat[number - 3]); }

double TicksPerSecond() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

// Seconds since the epoch at which the machine started.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    std::getline(file, key);
  }
  return 0;
}

constexpr FamilyRow<StatFields> kStatRows[] = {
    {"process_cpu_seconds_total", Counter, "User and system CPU time, in seconds.",
     [](auto& stat, auto& out) {
       out.Add((Field(stat, 14) + Field(stat, 15)) / TicksPerSecond());
     }},
    {"process_threads", Gauge, "Number of threads.",
     [](auto& stat, auto& out) { out.Add(Field(stat, 20)); }},
    {"process_start_time_seconds", Gauge, "Start time, in seconds since the Unix epoch.",
     [](auto& stat, auto& out) { out.Add(BootTime() + Field(stat, 22) / TicksPerSecond()); }},
    {"process_virtual_memory_bytes", Gauge, "Size of the virtual memory, in bytes.",
     [](auto& stat, auto& out) { out.Add(Field(stat, 23)); }},
    {"process_resident_memory_bytes", Gauge, "Size of the resident memory, in bytes.",
     [](auto& stat, auto& out) {
       out.Add(Field(stat, 24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
     }},
};

struct Descriptors {};

constexpr FamilyRow<Descriptors> kDescriptorRows[] = {
    {"process_open_fds", Gauge, "Number of open file descriptors.",
     [](auto&, auto& out) {
       std::error_code error;
       const std::filesystem::directory_iterator open("/proc/self/fd", error);
       if (!error) out.Add(std::distance(begin(open), end(open)));
     }},
    {"process_max_fds", Gauge, "Limit of process_open_fds.",
     [](auto&, auto& out) {
       rlimit limit{};
       if (getrlimit(RLIMIT_NOFILE, &limit) == 0) out.Add(limit.rlim_cur);
     }},
};

}  // namespace

void AddProcessFamilies(Scrape& scrape) {
  const StatFields stat = ReadStat();
  if (stat.size() > 21) Families(kStatRows, scrape).Add(stat);
  Families(kDescriptorRows, scrape).Add({});
}

}  // namespace calibd::server
