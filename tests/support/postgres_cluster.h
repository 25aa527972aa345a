#ifndef CALIBD_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
#define CALIBD_TESTS_SUPPORT_POSTGRES_CLUSTER_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/temporary_folder.h"

struct pg_conn;

namespace calibd::testing {

// A real PostgreSQL server in a temporary folder, which is reached by a socket in this folder. It
// syncs as in production. It ends with the test.
class PostgresCluster {
 public:
  // Empty if this machine has the programs of PostgreSQL; else why it has not. Tests are skipped
  // then. deploy/packages installs them.
  static std::string WhyMissing();
  // The server of this test program, which is started when it is first needed. Aborts the test if
  // it does not start.
  static PostgresCluster& Shared();

  // settings: lines for postgresql.conf.
  explicit PostgresCluster(const std::vector<std::string>& settings = {});
  ~PostgresCluster();
  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  // Makes a database with an empty store. Returns its name.
  std::string NewStore();
  // The connection string of the role of calibd, which may change no table.
  [[nodiscard]] std::string Connection(const std::string& database) const;
  // The connection string of a role that may do everything.
  [[nodiscard]] std::string AdminConnection(const std::string& database) const;
  // Runs a script as that role. Returns the first column of its last result. Aborts the test after
  // an error.
  std::vector<std::string> Execute(const std::string& database, const std::string& script) const;

  void Start();
  // Ends all processes of the server at once, like a power cut that keeps the disk.
  void Stop();
  // Stops all processes of the server, so that it accepts connections, but gives no answer, and
  // lets them go on.
  void Freeze();
  void Thaw();
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  void SignalAll(int signal) const;
  [[nodiscard]] std::filesystem::path data() const { return folder_.path() / "data"; }

  const TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> server_;
  int databases_ = 0;
};

// A session that holds what it has locked until its end, at which its transaction is rolled back.
class OpenSession {
 public:
  OpenSession(const std::string& connection, const std::string& script);
  ~OpenSession();
  void Commit();
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;

 private:
  void RunScript(const std::string& script);

  pg_conn* const session_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
