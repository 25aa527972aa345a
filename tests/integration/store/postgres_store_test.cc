// What the store in a database promises beside tests/unit/server/store_conformance_test.cc:
// fencing, unknown outcomes, the rotation of the log, and what it refuses.
#include "server/store/postgres/postgres_store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/connection_string.h"
#include "server/store/postgres/migrate.h"
#include "support/postgres_cluster.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::Outcome;
using server::OutcomeOf;
using server::PostgresStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PostgresStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    cluster_ = &PostgresCluster::Shared();
    database_ = cluster_->NewStore();
  }

  [[nodiscard]] PostgresStore::Settings Settings() const {
    return {.connection = cluster_->Connection(database_),
            .generation_bytes = 65536,
            .free_time = std::chrono::milliseconds(0),
            .times = {.expiry = std::chrono::milliseconds(0)}};
  }
  // An owner of it expires at once, so that this takes the store from it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresStore>> OpenAndOwn(
      const PostgresStore::Settings& settings) {
    auto store = PostgresStore::Open(settings);
    if (store.ok()) {
      const std::atomic<bool> stop = false;
      absl::Status owned = (*store)->Own("host:1", stop);
      if (!owned.ok()) return owned;
    }
    return store;
  }
  // Opens the store and reads it as the server does, with one model.
  std::unique_ptr<PostgresStore> Open(std::vector<std::string>* data = nullptr) {
    auto store = OpenAndOwn(Settings());
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return nullptr;
    std::set<std::int64_t> log_ids;
    const absl::Status read = (*store)->ReadLog([&](const server::StoredBatch& batch) {
      if (data != nullptr) data->emplace_back(batch.data);
      EXPECT_TRUE(log_ids.insert(batch.log_id).second);
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    (*store)->FinishRecovery({});
    if ((*store)->next_model_id() == 1) {
      v1::Model model;
      model.set_name("models/a");
      EXPECT_TRUE((*store)->Begin().ok());
      EXPECT_TRUE((*store)->InsertModel(1, model).ok());
      EXPECT_TRUE((*store)->Commit().ok());
    }
    return *std::move(store);
  }
  static absl::Status Append(PostgresStore& store, const std::string& data) {
    store.AppendBatch(1, 5, data);
    return store.CommitLog();
  }
  std::vector<std::string> Execute(const std::string& script) {
    return cluster_->Execute(database_, script);
  }
  // From now on, each insertion into the log waits, after its fence, until the returned session
  // ends.
  std::unique_ptr<OpenSession> HoldCommits() {
    Execute(
        "CREATE OR REPLACE FUNCTION calibd.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;"
        "CREATE OR REPLACE TRIGGER waits BEFORE INSERT ON calibd.log_0 FOR EACH ROW EXECUTE "
        "FUNCTION "
        "calibd.wait();");
    return std::make_unique<OpenSession>(cluster_->AdminConnection(database_),
                                         "SELECT pg_advisory_lock(1)");
  }
  // The number of sessions of calibd in this database that wait for a lock.
  std::string Waiting() {
    return Execute(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
               "usename = 'calibd_serving' AND wait_event_type = 'Lock'")
        .front();
  }
  void KillSessions() {
    Execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND usename = 'calibd_serving'");
  }
  std::vector<std::string> Rows() {
    return Execute(
        "SELECT convert_from(data, 'UTF8') FROM (SELECT * FROM calibd.log_0 UNION ALL SELECT * "
        "FROM "
        "calibd.log_1 UNION ALL SELECT * FROM calibd.log_2 UNION ALL SELECT * FROM calibd.log_3) r "
        "WHERE cell = 0 ORDER BY log_id");
  }

  PostgresCluster* cluster_ = nullptr;
  std::string database_;
};

TEST_F(PostgresStoreTest, TheFormerOwnerIsFencedAndWritesNothing) {
  const auto former = Open();
  ASSERT_TRUE(Append(*former, "first").ok());
  const auto owner = Open();
  EXPECT_EQ(OutcomeOf(Append(*former, "late")), Outcome::kFenced);
  former->Rollback();
  ASSERT_TRUE(former->Begin().ok());
  ASSERT_TRUE(former->PutSnapshot({.model_id = 1, .log_id = 1, .data = "late"}).ok());
  EXPECT_EQ(OutcomeOf(former->Commit()), Outcome::kFenced);
  former->Rollback();
  ASSERT_TRUE(Append(*owner, "second").ok());
  EXPECT_THAT(Rows(), ElementsAre("first", "second"));
  EXPECT_THAT(Execute("SELECT data FROM calibd.snapshots"), IsEmpty());
  // The former one leaves without harm to the new one.
  EXPECT_TRUE(former->Close().ok());
  EXPECT_TRUE(Append(*owner, "third").ok());
}

// Owners that have the same epoch, as after a failover that lost the newest one.
TEST_F(PostgresStoreTest, AnOwnerOfTheSameEpochIsFencedToo) {
  const auto former = Open();
  Execute("UPDATE calibd.cells SET owner = gen_random_uuid()");
  EXPECT_EQ(OutcomeOf(Append(*former, "late")), Outcome::kFenced);
  EXPECT_THAT(Rows(), IsEmpty());
}

TEST_F(PostgresStoreTest, ATakeoverWaitsForACommitAndFindsItsRows) {
  const auto former = Open();
  auto held = HoldCommits();
  absl::Status committed;
  std::thread commit([&] { committed = Append(*former, "in time"); });
  EXPECT_TRUE(WaitFor([&] { return Waiting() == "1"; }));
  std::vector<std::string> found;
  std::unique_ptr<PostgresStore> owner;
  std::thread take([&] { owner = Open(&found); });
  EXPECT_TRUE(WaitFor([&] { return Waiting() == "2"; }));
  held.reset();
  commit.join();
  take.join();
  EXPECT_TRUE(committed.ok()) << committed;
  EXPECT_THAT(found, ElementsAre("in time"));
}

TEST_F(PostgresStoreTest, ACommitWhoseSessionIsKilledCountsOnce) {
  const auto store = Open();
  for (int i = 0; i < 3; ++i) {
    auto held = HoldCommits();
    absl::Status committed;
    std::thread commit([&] { committed = Append(*store, absl::StrCat(i)); });
    EXPECT_TRUE(WaitFor([&] { return Waiting() == "1"; }));
    KillSessions();
    EXPECT_TRUE(WaitFor([&] { return Waiting() == "1"; }));
    held.reset();
    commit.join();
    EXPECT_TRUE(committed.ok()) << committed;
  }
  EXPECT_THAT(Rows(), ElementsAre("0", "1", "2"));
}

// The server commits and then warns, as when the wait for a standby was cancelled.
TEST_F(PostgresStoreTest, AWarningIsNoAcknowledgement) {
  const auto store = Open();
  Execute(
      "CREATE FUNCTION calibd.warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING "
      "'canceling wait for synchronous replication due to user request'; RETURN NEW; END $$;"
      "CREATE TRIGGER warns AFTER INSERT ON calibd.log_0 FOR EACH ROW EXECUTE FUNCTION "
      "calibd.warn();");
  // Those that write batches, and not the one that sends heartbeats.
  const auto sessions = [this] {
    return Execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = "
        "'calibd_serving' AND query NOT LIKE '%INSERT INTO nodes%'");
  };
  const std::vector<std::string> before = sessions();
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_TRUE(Append(*store, "once").ok());
  EXPECT_THAT(Rows(), ElementsAre("once"));
  // The statement was run again, on a new connection.
  EXPECT_TRUE(WaitFor([&] { return sessions().size() == 1 && sessions() != before; }));
}

TEST_F(PostgresStoreTest, WritesWaitWhileTheServerIsAwayAndAreNotLost) {
  PostgresCluster cluster;
  cluster_ = &cluster;
  database_ = cluster.NewStore();
  const auto store = Open();
  std::atomic<bool> stop = false;
  std::vector<std::string> acknowledged;
  std::atomic<int> commits = 0;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      const absl::Status status = Append(*store, absl::StrCat(i));
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      acknowledged.push_back(absl::StrCat(i));
      ++commits;
    }
  });
  for (int restart = 0; restart < 3; ++restart) {
    const int before = commits;
    EXPECT_TRUE(WaitFor([&] { return commits > before + 20; }));
    cluster.Stop();
    cluster.Start();
  }
  const int before = commits;
  EXPECT_TRUE(WaitFor([&] { return commits > before + 20; }));
  stop = true;
  writer.join();
  EXPECT_EQ(Rows(), acknowledged);
  // So do transactions of the catalog.
  cluster.Stop();
  ASSERT_TRUE(store->Begin().ok());
  ASSERT_TRUE(store->PutCursor({.model_id = 1, .producer_id = "p", .contents = "x"}).ok());
  absl::Status committed = absl::UnknownError("");
  std::thread commit([&] { committed = store->Commit(); });
  cluster.Start();
  commit.join();
  EXPECT_TRUE(committed.ok()) << committed;
  EXPECT_THAT(Execute("SELECT count(*) FROM calibd.cursors"), ElementsAre("1"));
}

// A transaction with a model that was committed, although its session was killed, is run again.
TEST_F(PostgresStoreTest, AModelIsMadeOnceWhateverHappensToTheSession) {
  const auto store = Open();
  Execute(
      "CREATE FUNCTION calibd.warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING "
      "'a warning'; RETURN NEW; END $$;"
      "CREATE TRIGGER warns AFTER INSERT ON calibd.models FOR EACH ROW EXECUTE FUNCTION "
      "calibd.warn();");
  v1::Model model;
  model.set_name("models/b");
  ASSERT_TRUE(store->Begin().ok());
  ASSERT_TRUE(store->InsertModel(2, model).ok());
  EXPECT_TRUE(store->Commit().ok());
  EXPECT_THAT(Execute("SELECT name FROM calibd.models ORDER BY model_id"),
              ElementsAre("models/a", "models/b"));
  EXPECT_EQ(store->next_model_id(), 3);
}

TEST_F(PostgresStoreTest, AFailoverThatLostTheTailIsDamage) {
  const auto store = Open();
  ASSERT_TRUE(Append(*store, "kept").ok());
  ASSERT_TRUE(Append(*store, "lost").ok());
  Execute("DELETE FROM calibd.log_0 WHERE data = 'lost'");
  KillSessions();
  const absl::Status status = Append(*store, "next");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost acknowledged batches"));
  std::vector<std::string> found;
  EXPECT_TRUE(Append(*Open(&found), "next").ok());
  EXPECT_THAT(found, ElementsAre("kept"));
}

// A table whose file system is full.
TEST_F(PostgresStoreTest, AFullDiskRefusesBatchesUntilThereIsRoom) {
  const std::filesystem::path small = cluster_->folder() / ("small_" + database_);
  std::filesystem::create_directory(small);
  struct stat owner {};
  ASSERT_EQ(stat(cluster_->folder().c_str(), &owner), 0);
  const std::string options =
      absl::StrCat("size=8m,mode=700,uid=", owner.st_uid, ",gid=", owner.st_gid);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, options.c_str()) != 0) {
    GTEST_SKIP() << "this user cannot mount a file system";
  }
  cluster_->Execute("postgres", absl::StrCat("CREATE TABLESPACE small_", database_, " LOCATION '",
                                             small.string(), "'"));
  Execute(absl::StrCat("ALTER TABLE calibd.log_0 SET TABLESPACE small_", database_));
  const auto store = Open();
  const std::string row(std::size_t{1} << 20, 'x');
  std::size_t accepted = 0;
  absl::Status status = Append(*store, row);
  for (; status.ok() && accepted < 20; status = Append(*store, row)) ++accepted;
  EXPECT_EQ(OutcomeOf(status), Outcome::kRefused) << status;
  EXPECT_GT(accepted, 3U);
  store->Rollback();
  EXPECT_TRUE(store->Maintain(/*refused=*/true).ok());
  // Others can still be written.
  EXPECT_TRUE(store->Begin().ok());
  EXPECT_TRUE(store->PutSnapshot({.model_id = 1, .log_id = 1, .data = "state"}).ok());
  EXPECT_TRUE(store->Commit().ok());
  Execute("ALTER TABLE calibd.log_0 SET TABLESPACE pg_default");
  EXPECT_TRUE(Append(*store, row).ok());
  EXPECT_THAT(Rows(), SizeIs(accepted + 1));
  cluster_->Execute("postgres", "DROP TABLESPACE small_" + database_);
  EXPECT_EQ(umount2(small.c_str(), MNT_DETACH), 0);
}

TEST_F(PostgresStoreTest, AStoreThatLacksAPartOfItsLogIsNotOpened) {
  ASSERT_TRUE(Append(*Open(), "lost").ok());
  Execute("TRUNCATE calibd.log_0");
  const absl::Status status = OpenAndOwn(Settings()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST_F(PostgresStoreTest, ADatabaseThatCannotBeUsedIsRefused) {
  cluster_->Execute("postgres", absl::StrCat("CREATE DATABASE empty_", database_));
  absl::Status status =
      PostgresStore::Open({.connection = cluster_->Connection("empty_" + database_)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("calibd migrate"));
  status = PostgresStore::Open({.connection = cluster_->Connection("nowhere")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  Execute("ALTER DATABASE " + database_ + " SET synchronous_commit = off");
  EXPECT_NE(Open(), nullptr);
  Execute("UPDATE calibd.meta SET format = format + 1");
  status = PostgresStore::Open(Settings()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  status = server::MigratePostgres(cluster_->AdminConnection(database_), "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_F(PostgresStoreTest, AServerThatDoesNotSyncIsRefused) {
  PostgresCluster cluster({"full_page_writes = off"});
  const absl::Status status =
      PostgresStore::Open({.connection = cluster.Connection(cluster.NewStore())}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("full_page_writes"));
}

TEST_F(PostgresStoreTest, TheServingRoleMayNotChangeTables) {
  for (const char* const script : {"DROP TABLE calibd.log_0", "ALTER TABLE calibd.cells ADD x int",
                                   "CREATE TABLE calibd.x()", "DELETE FROM calibd.log_0",
                                   "UPDATE calibd.log_0 SET data = ''", "TRUNCATE calibd.models"}) {
    PGconn* const session = PQconnectdb(cluster_->Connection(database_).c_str());
    PGresult* const result = PQexec(session, script);
    EXPECT_STREQ(PQresultErrorField(result, PG_DIAG_SQLSTATE), "42501") << script;
    PQclear(result);
    PQfinish(session);
  }
}

TEST_F(PostgresStoreTest, AMigrationOfAMigratedStoreKeepsIt) {
  ASSERT_TRUE(Append(*Open(), "kept").ok());
  const auto is_new =
      server::MigratePostgres(cluster_->AdminConnection(database_), "calibd_serving");
  ASSERT_TRUE(is_new.ok()) << is_new.status();
  EXPECT_FALSE(*is_new);
  EXPECT_THAT(Rows(), ElementsAre("kept"));
}

// A reader of the next table holds up the rotation, but no commit, and nothing is lost.
TEST_F(PostgresStoreTest, AReaderHoldsUpTheRotationOnly) {
  const auto store = Open();
  auto reader = std::make_unique<OpenSession>(
      cluster_->AdminConnection(database_), "BEGIN; LOCK TABLE calibd.log_1 IN ACCESS SHARE MODE");
  const auto write = [&] {
    store->AppendBatch(1, 5, std::string(3000, 'x'));
    EXPECT_TRUE(store->CommitLog().ok());
    EXPECT_TRUE(store->Maintain(/*refused=*/false).ok());
  };
  for (int i = 0; i < 60; ++i) write();
  EXPECT_THAT(Execute("SELECT generation FROM calibd.meta"), ElementsAre("0"));
  EXPECT_THAT(Execute("SELECT count(*) FROM calibd.log_0 WHERE cell = 0"), ElementsAre("60"));
  reader.reset();
  // It tries again after 5 s.
  EXPECT_TRUE(WaitFor([&] {
    write();
    return Execute("SELECT generation FROM calibd.meta").front() != "0";
  }));
}

// Owners follow one another and end at any moment: no needed batch is lost or read twice, and what
// is not needed goes.
TEST_F(PostgresStoreTest, NoNeededBatchIsLostInRotationsByOwnersThatEndAtAnyTime) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::map<std::int64_t, std::string> needed;
  std::unique_ptr<PostgresStore> store = Open();
  std::int64_t written = 0;
  std::int64_t least_log_id = 0;
  const auto choose = [&] {
    auto chosen = needed.begin();
    std::advance(chosen, static_cast<int>(random() % needed.size()));
    return chosen;
  };
  for (int step = 0; step < 1500; ++step) {
    const auto kind = random() % 100;
    if (kind < 60 || needed.empty()) {
      const std::string data = absl::StrCat(++written, std::string(random() % 4000, 'x'));
      const std::int64_t log_id = store->AppendBatch(1, 5, data);
      EXPECT_GT(log_id, least_log_id);
      least_log_id = log_id;
      if (random() % 10 == 0) {
        store->Rollback();
      } else {
        ASSERT_TRUE(store->CommitLog().ok());
        needed[log_id] = data;
      }
    } else if (kind < 85) {
      // Some batches stay for long, as those that wait for labels.
      const auto dropped = random() % 8 == 0 ? choose() : std::prev(needed.end());
      store->DropBatches(std::vector{dropped->first});
      needed.erase(dropped);
    } else if (kind < 97) {
      const absl::StatusOr<bool> more = store->Maintain(/*refused=*/false);
      ASSERT_TRUE(more.ok()) << more.status();
    } else if (kind < 98) {
      const auto wanted = choose();
      std::string read;
      ASSERT_TRUE(store
                      ->ReadBatches(std::vector{wanted->first},
                                    [&](std::string_view data) {
                                      read = std::string(data);
                                      return absl::OkStatus();
                                    })
                      .ok());
      EXPECT_EQ(read, wanted->second);
    } else {
      // This one ends without a word, or takes the store from a living one.
      if (random() % 2 == 0) store.reset();
      auto next = OpenAndOwn(Settings());
      ASSERT_TRUE(next.ok()) << next.status();
      store = *std::move(next);
      std::map<std::int64_t, std::string> found;
      std::vector<std::int64_t> unneeded;
      const absl::Status read = store->ReadLog([&](const server::StoredBatch& batch) {
        if (needed.contains(batch.log_id)) {
          EXPECT_TRUE(found.emplace(batch.log_id, batch.data).second);
        } else {
          unneeded.push_back(batch.log_id);
        }
        return absl::OkStatus();
      });
      ASSERT_TRUE(read.ok()) << read;
      ASSERT_EQ(found, needed);
      EXPECT_GE(store->last_log_id(), needed.empty() ? 0 : needed.rbegin()->first);
      store->FinishRecovery(unneeded);
    }
  }
  EXPECT_GT(std::stoi(Execute("SELECT generation FROM calibd.meta").front()), 5);
  std::int64_t needed_bytes = 0;
  for (const auto& [log_id, data] : needed) needed_bytes += static_cast<std::int64_t>(data.size());
  EXPECT_LT(store->sizes().log_bytes, 8 * 65536 + 6 * needed_bytes);
}

// A server without TLS. Returns what a client sends to it before it ends the connection.
std::string SentToServerWithoutTls(const std::string& parameters) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener, raw, length), 0);
  EXPECT_EQ(listen(listener, 8), 0);
  EXPECT_EQ(getsockname(listener, raw, &length), 0);
  std::string sent;
  std::thread server([&] {
    for (int client = 0; (client = accept(listener, nullptr, nullptr)) >= 0; close(client)) {
      std::array<char, 256> bytes{};
      for (ssize_t count = 0; (count = read(client, bytes.data(), bytes.size())) > 0;) {
        sent.append(bytes.data(), static_cast<std::size_t>(count));
        // The answer to a request for TLS: no. Other clients are cut off.
        if (count != 8 || write(client, "N", 1) != 1) break;
      }
    }
  });
  const auto connection = server::PgConnection::Open(absl::StrCat(
      "hostaddr=127.0.0.1 port=", ntohs(address.sin_port), " user=me dbname=calibd ", parameters));
  EXPECT_FALSE(connection.ok());
  shutdown(listener, SHUT_RDWR);
  server.join();
  close(listener);
  return sent;
}

TEST(PgConnectionTest, SendsNothingToAnotherMachineThatHasNoTls) {
  // The code of a request for TLS, 80877103, after the length of the message.
  const std::string request("\0\0\0\x08\x04\xd2\x16\x2f", 8);
  for (const char* const host : {"host=database", "host=127.example.com"}) {
    EXPECT_EQ(SentToServerWithoutTls(host), request) << host;
  }
  EXPECT_THAT(SentToServerWithoutTls("host=database sslmode=disable"), HasSubstr("me"));
  EXPECT_THAT(SentToServerWithoutTls("host=localhost"), HasSubstr("me"));
}

TEST(ConnectionStringTest, APasswordIsRefused) {
  for (const char* const valid :
       {"", "service=calibd", "host=a,b dbname=c", "postgresql://me@host/db?sslmode=require"}) {
    EXPECT_TRUE(server::CheckConnectionString(valid).ok()) << valid;
  }
  for (const char* const invalid :
       {"password=x", "postgresql://me:secret@host/db", "host=a nonsense=1", "calibd", "host='a"}) {
    EXPECT_FALSE(server::CheckConnectionString(invalid).ok()) << invalid;
  }
}

}  // namespace
}  // namespace calibd::testing
