#include "support/postgres_cluster.h"

#include <libpq-fe.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/store/postgres/migrate.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

constexpr char kAdmin[] = "cluster_admin";
constexpr char kServingRole[] = "calibd_serving";
// PostgreSQL refuses to run as root.
constexpr char kUser[] = "postgres";

void AbortClusterUnless(bool condition, const std::string& message) {
  if (condition) return;
  std::cerr << "PostgreSQL: " << message << "\n";
  std::abort();
}

// Returns the folder of the programs of the newest installed version; empty if none is installed.
std::filesystem::path Programs() {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const std::filesystem::path folder = version.path() / "bin";
    if (std::filesystem::exists(folder / "initdb") &&
        std::filesystem::exists(folder / "postgres")) {
      folders.push_back(folder);
    }
  }
  return folders.empty() ? std::filesystem::path() : *std::ranges::max_element(folders);
}

// The command as a user that PostgreSQL accepts, who ends with this process.
std::vector<std::string> AsUser(std::vector<std::string> command) {
  std::vector<std::string> all{"setpriv", "--pdeathsig", "KILL"};
  if (geteuid() == 0) {
    all.insert(all.end(), {absl::StrCat("--reuid=", kUser), absl::StrCat("--regid=", kUser),
                           "--clear-groups"});
  }
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

PGconn* ConnectOnce(const std::string& connection) {
  PGconn* const session = PQconnectdb(connection.c_str());
  if (PQstatus(session) == CONNECTION_OK) return session;
  PQfinish(session);
  return nullptr;
}

}  // namespace

std::string PostgresCluster::WhyMissing() {
  if (Programs().empty()) return "/usr/lib/postgresql has no programs of PostgreSQL";
  if (geteuid() == 0 && getpwnam(kUser) == nullptr) {
    return absl::StrCat("there is no user ", kUser, ", and PostgreSQL does not run as root");
  }
  return "";
}

PostgresCluster& PostgresCluster::Shared() {
  static PostgresCluster cluster;
  return cluster;
}

PostgresCluster::PostgresCluster(const std::vector<std::string>& settings) {
  if (geteuid() == 0) {
    const passwd* const user = getpwnam(kUser);
    AbortClusterUnless(
        user != nullptr && chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) == 0,
        "the folder has no owner");
  }
  ChildProcess make(AsUser({Programs() / "initdb", "--pgdata", data(), "--username", kAdmin,
                            "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
                            // Of the empty cluster; the server syncs what it writes.
                            "--no-sync", "--no-instructions"}),
                    folder_.path() / "initdb.txt");
  AbortClusterUnless(make.WaitForExit() == 0, make.Output());
  std::ofstream file(data() / "postgresql.conf", std::ios::app);
  file << "listen_addresses = ''\nunix_socket_directories = '" << folder_.path().string()
       << "'\nshared_buffers = 32MB\nrecovery_init_sync_method = syncfs\n";
  for (const std::string& line : settings) file << line << '\n';
  file.close();
  Start();
  Execute("postgres", absl::StrCat("CREATE ROLE ", kServingRole, " LOGIN"));
}

PostgresCluster::~PostgresCluster() { Stop(); }

void PostgresCluster::Start() {
  server_ = std::make_unique<ChildProcess>(AsUser({Programs() / "postgres", "-D", data()}),
                                           folder_.path() / "server.txt");
  const bool answers = WaitFor([this] {
    PGconn* const session = ConnectOnce(AdminConnection("postgres"));
    PQfinish(session);
    return session != nullptr;
  });
  AbortClusterUnless(answers, server_->Output());
}

void PostgresCluster::Stop() {
  if (server_ == nullptr) return;
  Thaw();
  server_->Signal(SIGQUIT);
  AbortClusterUnless(server_->WaitForExit().has_value(), "the server does not end");
  server_.reset();
}

void PostgresCluster::Freeze() { SignalAll(SIGSTOP); }
void PostgresCluster::Thaw() { SignalAll(SIGCONT); }

void PostgresCluster::SignalAll(int signal) const {
  // First the process that starts the others.
  server_->Signal(signal);
  const std::string pid = std::to_string(server_->pid());
  std::ifstream children(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (pid_t child = 0; children >> child;) kill(child, signal);
}

std::string PostgresCluster::NewStore() {
  std::string name = absl::StrCat("store_", ++databases_);
  Execute("postgres", absl::StrCat("CREATE DATABASE ", name));
  const auto made = server::MigratePostgres(AdminConnection(name), kServingRole);
  AbortClusterUnless(made.ok() && *made, made.status().ToString());
  return name;
}

std::string PostgresCluster::Connection(const std::string& database) const {
  return absl::StrCat("host=", folder_.path().string(), " dbname=", database,
                      " user=", kServingRole);
}

std::string PostgresCluster::AdminConnection(const std::string& database) const {
  return absl::StrCat("host=", folder_.path().string(), " dbname=", database, " user=", kAdmin);
}

std::vector<std::string> PostgresCluster::Execute(const std::string& database,
                                                  const std::string& script) const {
  PGconn* const session = ConnectOnce(AdminConnection(database));
  AbortClusterUnless(session != nullptr, "the server cannot be reached");
  PGresult* const result = PQexec(session, script.c_str());
  const ExecStatusType status = PQresultStatus(result);
  AbortClusterUnless(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK,
                     PQerrorMessage(session));
  std::vector<std::string> rows;
  for (int i = 0; i < PQntuples(result); ++i) rows.emplace_back(PQgetvalue(result, i, 0));
  PQclear(result);
  PQfinish(session);
  return rows;
}

OpenSession::OpenSession(const std::string& connection, const std::string& script)
    : session_(PQconnectdb(connection.c_str())) {
  RunScript(script);
}

void OpenSession::Commit() { RunScript("COMMIT"); }

void OpenSession::RunScript(const std::string& script) {
  PGresult* const result = PQexec(session_, script.c_str());
  if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
    std::cerr << PQerrorMessage(session_) << '\n';
    std::abort();
  }
  PQclear(result);
}

OpenSession::~OpenSession() { PQfinish(session_); }

}  // namespace calibd::testing
