#include "server/observability/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace calibd::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

void Add(std::vector<MetricFamily>& families, const char* name, const char* help, MetricType type,
         double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
  families.push_back(std::move(family));
}

// Returns the fields 3.. of /proc/self/stat, see proc(5). The name before them may contain spaces.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) {
    return {};
  }
  std::istringstream rest(line.substr(end_of_name + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

// Returns the time at which the machine started, in seconds since the epoch.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    std::getline(file, key);
  }
  return 0;
}

}  // namespace

std::vector<MetricFamily> CollectProcessMetrics() {
  std::vector<MetricFamily> families;
  const std::vector<std::string> fields = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  // The indices are the numbers in proc(5) minus 3.
  if (fields.size() > 21) {
    Add(families, "process_cpu_seconds_total", "User and system CPU time spent.",
        MetricType::Counter, (std::stod(fields[11]) + std::stod(fields[12])) / ticks);
    Add(families, "process_threads", "Threads.", MetricType::Gauge, std::stod(fields[17]));
    Add(families, "process_start_time_seconds", "Start time since the Unix epoch.",
        MetricType::Gauge, BootTime() + std::stod(fields[19]) / ticks);
    Add(families, "process_virtual_memory_bytes", "Virtual memory size.", MetricType::Gauge,
        std::stod(fields[20]));
    Add(families, "process_resident_memory_bytes", "Resident memory size.", MetricType::Gauge,
        std::stod(fields[21]) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  }
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (!error) {
    Add(families, "process_open_fds", "Open file descriptors.", MetricType::Gauge,
        static_cast<double>(std::distance(begin(descriptors), end(descriptors))));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    Add(families, "process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge,
        static_cast<double>(limit.rlim_cur));
  }
  return families;
}

}  // namespace calibd::server
