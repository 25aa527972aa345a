#ifndef CALIBD_SERVER_EXECUTOR_USABLE_CPUS_H_
#define CALIBD_SERVER_EXECUTOR_USABLE_CPUS_H_

#include <cstddef>
#include <filesystem>

namespace calibd::server {

// Returns the number of CPUs that the calling thread may use, at least 1: the CPUs of its affinity,
// or fewer if its control group or a parent has a quota (cpu.max of cgroup v2), which is rounded
// up. proc, cgroup: mount points.
[[nodiscard]] std::size_t UsableCpus(const std::filesystem::path& proc = "/proc",
                                     const std::filesystem::path& cgroup = "/sys/fs/cgroup");

}  // namespace calibd::server

#endif  // CALIBD_SERVER_EXECUTOR_USABLE_CPUS_H_
