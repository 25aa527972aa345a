// Commits of the store in a database, compared with the same statement, prepared and executed by
// libpq alone. Both alternate in one server, because the speed of a machine and its disk changes
// from second to second. The server is in TMPDIR, and needs about 10 GB there.
//
//   postgres_benchmark [SECONDS]     seconds for each measurement (default: 5)
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/queries.h"
#include "support/postgres_cluster.h"

namespace {

using calibd::server::LogTables;
using calibd::server::PgValues;
using calibd::server::PostgresStore;
using calibd::testing::PostgresCluster;
using std::chrono::steady_clock;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// A transaction of `rows` batches of `bytes` each.
struct Shape {
  std::size_t rows = 0;
  std::size_t bytes = 0;
};

struct Measured {
  std::vector<double> seconds;

  void Print(const char* name, const Shape& shape) {
    std::sort(seconds.begin(), seconds.end());
    double total = 0;
    for (const double one : seconds) total += one;
    const double commits = static_cast<double>(seconds.size()) / total;
    std::printf("%5zu x %6zu B  %-5s  %7.0f commits/s  %6.1f MB/s  p50 %6.2f ms  p99 %7.2f ms\n",
                shape.rows, shape.bytes, name, commits,
                commits * static_cast<double>(shape.rows * shape.bytes) / 1e6,
                1e3 * seconds[seconds.size() / 2], 1e3 * seconds[seconds.size() * 99 / 100]);
  }
};

// Executes the statement of a commit.
class Probe {
 public:
  explicit Probe(const std::string& connection) : session_(PQconnectdb(connection.c_str())) {
    Require(PQstatus(session_) == CONNECTION_OK, "the probe cannot connect");
    Execute("SET search_path = calibd; SET plan_cache_mode = force_generic_plan");
    Execute("UPDATE cells SET epoch = 1000, owner = '00000000-0000-0000-0000-000000000000'");
    PQclear(PQprepare(session_, "append", calibd::server::queries::AppendTo(0).text.c_str(), 0,
                      nullptr));
  }
  ~Probe() { PQfinish(session_); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void Commit(const Shape& shape, const std::string& data) {
    const std::vector<std::int64_t> numbers(shape.rows, 1);
    const std::vector<std::string_view> batches(shape.rows, data);
    const PgValues values = PgValues()
                                .Int4(0)
                                .Int8(1000)
                                .Bytes(std::string(16, '\0'))
                                .Int8(next_log_id_)
                                .Int8Array(numbers)
                                .Int8Array(numbers)
                                .BytesArray(batches);
    next_log_id_ += static_cast<std::int64_t>(shape.rows);
    std::vector<const char*> texts;
    std::vector<int> lengths;
    for (const std::string& value : values.values()) {
      texts.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
    }
    const std::vector<int> formats(texts.size(), 1);
    PGresult* const result = PQexecPrepared(session_, "append", static_cast<int>(texts.size()),
                                            texts.data(), lengths.data(), formats.data(), 1);
    Require(PQresultStatus(result) == PGRES_TUPLES_OK, PQerrorMessage(session_));
    PQclear(result);
  }
  void Execute(const std::string& script) { PQclear(PQexec(session_, script.c_str())); }

 private:
  PGconn* const session_;
  std::int64_t next_log_id_ = std::int64_t{1000} << 40;
};

// Appends what is never needed, so that the log rotates as with a short window.
void Commit(PostgresStore& store, const Shape& shape, const std::string& data) {
  std::vector<std::int64_t> log_ids;
  for (std::size_t i = 0; i < shape.rows; ++i) log_ids.push_back(store.AppendBatch(1, 1, data));
  Require(store.CommitLog().ok(), "the store cannot commit");
  store.DropBatches(log_ids);
  Require(store.Maintain(/*refused=*/false).ok(), "the store cannot be maintained");
}

void MeasureFor(double seconds, const std::function<void()>& commit, Measured& measured) {
  const auto end = steady_clock::now() + std::chrono::duration<double>(seconds);
  for (auto now = steady_clock::now(); now < end;) {
    commit();
    const auto after = steady_clock::now();
    measured.seconds.push_back(std::chrono::duration<double>(after - now).count());
    now = after;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
    std::fprintf(stderr, "%s\n", missing.c_str());
    return 1;
  }
  PostgresCluster cluster({"shared_buffers = 128MB", "max_wal_size = 1GB"});
  const std::string database = cluster.NewStore();
  cluster.Execute(database, "UPDATE calibd.cells SET next_model_id = 2");
  auto store = PostgresStore::Open({.connection = cluster.Connection(database)});
  const std::atomic<bool> stop = false;
  Require(store.ok() && (*store)->Own("", stop).ok(), "the store cannot be opened");
  Require((*store)->ReadLog([](const auto&) { return absl::OkStatus(); }).ok(), "no log");
  (*store)->FinishRecovery({});
  const std::string other = cluster.NewStore();
  Probe probe(cluster.AdminConnection(other));
  constexpr int kTurns = 4;
  for (const Shape shape : {Shape{1, 40000}, {8, 40000}, {64, 40000}, {512, 2600}}) {
    const std::string data(shape.bytes, 'x');
    Measured alone;
    Measured whole;
    for (int turn = 0; turn < kTurns; ++turn) {
      MeasureFor(
          seconds / kTurns, [&] { probe.Commit(shape, data); }, alone);
      probe.Execute("TRUNCATE log_0");
      MeasureFor(
          seconds / kTurns, [&] { Commit(**store, shape, data); }, whole);
    }
    alone.Print("libpq", shape);
    whole.Print("store", shape);
  }
  return 0;
}
