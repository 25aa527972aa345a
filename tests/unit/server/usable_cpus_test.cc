#include "server/executor/usable_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

TEST(UsableCpusTest, FollowsTheAffinityOfTheThread) {
  std::thread([] {
    cpu_set_t affinity;
    ASSERT_EQ(sched_getaffinity(0, sizeof(affinity), &affinity), 0);
    std::size_t first = 0;
    while (!CPU_ISSET(first, &affinity)) ++first;
    CPU_ZERO(&affinity);
    CPU_SET(first, &affinity);
    ASSERT_EQ(sched_setaffinity(0, sizeof(affinity), &affinity), 0);
    EXPECT_EQ(UsableCpus(), 1U);
  }).join();
}

TEST(UsableCpusTest, FollowsTheQuotasOfTheControlGroups) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path proc = folder.path() / "proc";
  const std::filesystem::path cgroup = folder.path() / "cgroup";
  const auto write = [](const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  };
  const std::size_t all = UsableCpus(proc, cgroup);
  write(proc / "self/cgroup", "1:name=systemd:/other\n0::/a/b");
  EXPECT_EQ(UsableCpus(proc, cgroup), all);
  write(cgroup / "a/b/cpu.max", "max 100000");
  EXPECT_EQ(UsableCpus(proc, cgroup), all);
  write(cgroup / "a/cpu.max", "10000 100000");
  EXPECT_EQ(UsableCpus(proc, cgroup), 1U);
  write(cgroup / "a/cpu.max", "100000000 100000");
  EXPECT_EQ(UsableCpus(proc, cgroup), all);
  // A container sees its own control group as the root.
  write(proc / "self/cgroup", "0::/");
  write(cgroup / "cpu.max", "50000 100000");
  EXPECT_EQ(UsableCpus(proc, cgroup), 1U);
}

}  // namespace
}  // namespace calibd::server
