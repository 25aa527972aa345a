#ifndef CALIBD_TESTS_BENCHMARK_SERVERS_H_
#define CALIBD_TESTS_BENCHMARK_SERVERS_H_

#include <sched.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd {

// Serves with gRPC alone, without calibd's relay, until it is killed. The limits are calibd's,
// including those from the environment. log_file: where the received messages are written and
// synced before they are acknowledged; empty for a server that discards them.
int RunNoOpServer(const std::string& ready_file, const std::string& log_file);

// CPU time of a server since its start.
double CpuSeconds(const testing::ChildProcess& server);

// A calibd, a server that only acknowledges, and one that also writes a file and syncs it.
class Servers {
 public:
  // one_cpu: the servers run on the first CPU, and this process on the others.
  explicit Servers(bool one_cpu = false);
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  [[nodiscard]] const std::string& calibd() const { return calibd_->grpc_address(); }
  [[nodiscard]] const std::string& no_op() const { return no_op_.address; }
  [[nodiscard]] const std::string& durable_no_op() const { return durable_no_op_.address; }

  [[nodiscard]] double CalibdCpuSeconds() const { return CpuSeconds(calibd_->process()); }
  [[nodiscard]] double NoOpCpuSeconds() const { return CpuSeconds(*no_op_.process); }
  [[nodiscard]] double DurableNoOpCpuSeconds() const { return CpuSeconds(*durable_no_op_.process); }

  // Bytes that calibd has passed to the kernel for its files. The kernel's own count of bytes on
  // disk includes the whole page-cache folio of each small append, and varies between runs.
  [[nodiscard]] std::int64_t WrittenBytes() const;

 private:
  struct NoOp {
    std::optional<testing::ChildProcess> process;
    std::string address;
  };
  void StartNoOp(const std::string& name, bool durable, NoOp& server) const;

  const bool one_cpu_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<testing::ServerProcess> calibd_;
  NoOp no_op_;
  NoOp durable_no_op_;
};

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_SERVERS_H_
