// Who owns the store in a database: takeovers, leases, and what a standby says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "server/base/errors.h"
#include "server/store/postgres/postgres_store.h"
#include "support/postgres_cluster.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using server::GetErrorInfo;
using server::PostgresStore;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason() : "";
}

class PostgresOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    cluster_ = &PostgresCluster::Shared();
    database_ = cluster_->NewStore();
  }

  std::unique_ptr<PostgresStore> Open(const server::PgNodeTimes& times = {}) {
    auto store =
        PostgresStore::Open({.connection = cluster_->Connection(database_), .times = times});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // Owns the store and reads it as the server does.
  static absl::Status OwnAndRead(PostgresStore& store, const std::string& address,
                                 const std::atomic<bool>& stop) {
    absl::Status status = store.Own(address, stop);
    if (!status.ok()) return status;
    EXPECT_EQ(ReasonOf(store.CheckOwned()), "TAKING_OVER");
    status = store.ReadLog([](const server::StoredBatch&) { return absl::OkStatus(); });
    if (status.ok()) store.FinishRecovery({});
    return status;
  }
  void InsertModel(PostgresStore& store) {
    v1::Model model;
    model.set_name("models/a");
    EXPECT_TRUE(store.Begin().ok());
    EXPECT_TRUE(store.InsertModel(1, model).ok());
    EXPECT_TRUE(store.Commit().ok());
  }
  std::vector<std::string> Execute(const std::string& script) {
    return cluster_->Execute(database_, script);
  }

  PostgresCluster* cluster_ = nullptr;
  std::string database_;
  const std::atomic<bool> never_ = false;
};

TEST_F(PostgresOwnerTest, AStandbyNamesTheOwnerAndTakesWhatItLeaves) {
  const auto owner = Open();
  EXPECT_EQ(ReasonOf(owner->CheckOwned()), "TAKING_OVER");
  ASSERT_TRUE(OwnAndRead(*owner, "host:1", never_).ok());
  EXPECT_TRUE(owner->CheckOwned().ok());
  const auto standby = Open();
  absl::Status owned = absl::UnknownError("");
  std::thread waits([&] { owned = OwnAndRead(*standby, "host:2", never_); });
  EXPECT_TRUE(WaitFor([&] { return ReasonOf(standby->CheckOwned()) == "NOT_OWNER"; }));
  const auto info = GetErrorInfo(standby->CheckOwned());
  if (info.has_value()) {
    EXPECT_THAT(info->metadata(),
                UnorderedElementsAre(Pair("owner", "host:1"), Pair("epoch", "1")));
  }
  EXPECT_TRUE(owner->CheckInPlace().ok());
  EXPECT_TRUE(owner->Close().ok());
  waits.join();
  EXPECT_TRUE(owned.ok()) << owned;
  EXPECT_TRUE(standby->CheckOwned().ok());
  // The former one finds out without writing.
  EXPECT_TRUE(WaitFor([&] { return absl::IsAborted(owner->CheckInPlace()); }));
  EXPECT_EQ(ReasonOf(owner->CheckOwned()), "LEASE_LOST");
  EXPECT_TRUE(standby->CheckInPlace().ok());
}

TEST_F(PostgresOwnerTest, AStandbyThatIsStoppedTakesNothing) {
  const auto owner = Open();
  ASSERT_TRUE(OwnAndRead(*owner, "host:1", never_).ok());
  const auto standby = Open();
  std::atomic<bool> stop = false;
  absl::Status owned;
  std::thread waits([&] { owned = standby->Own("host:2", stop); });
  EXPECT_TRUE(WaitFor([&] { return ReasonOf(standby->CheckOwned()) == "NOT_OWNER"; }));
  stop = true;
  waits.join();
  EXPECT_TRUE(absl::IsCancelled(owned)) << owned;
  EXPECT_TRUE(standby->Close().ok());
  EXPECT_TRUE(owner->CheckOwned().ok());
}

// The owner ends without a word: another one takes the store when it has expired, not before.
TEST_F(PostgresOwnerTest, AnOwnerThatEndsWithoutAWordExpires) {
  auto owner = Open({.expiry = std::chrono::seconds(3), .lease = std::chrono::seconds(2)});
  ASSERT_TRUE(OwnAndRead(*owner, "host:1", never_).ok());
  // As after the end of a process, its row stays.
  Execute("CREATE RULE keeps AS ON DELETE TO calibd.nodes DO INSTEAD NOTHING");
  owner.reset();
  const auto next = Open();
  ASSERT_TRUE(OwnAndRead(*next, "host:2", never_).ok());
  EXPECT_THAT(Execute("SELECT expires_at < clock_timestamp() FROM calibd.nodes WHERE address = "
                      "'host:1'"),
              ElementsAre("t"));
  EXPECT_THAT(Execute("SELECT epoch FROM calibd.cells"), ElementsAre("2"));
}

// While no heartbeat succeeds, the owner answers nothing after its lease; it goes on afterwards,
// because nobody has taken the store.
TEST_F(PostgresOwnerTest, TheLeaseEndsWithoutHeartbeatsAndComesBack) {
  const auto owner = Open();
  ASSERT_TRUE(OwnAndRead(*owner, "host:1", never_).ok());
  InsertModel(*owner);
  Execute("REVOKE INSERT ON calibd.nodes FROM calibd_serving");
  EXPECT_TRUE(WaitFor([&] { return ReasonOf(owner->CheckOwned()) == "LEASE_LOST"; }));
  // The fence protects writes.
  owner->AppendBatch(1, 5, "still the owner");
  EXPECT_TRUE(owner->CommitLog().ok());
  Execute("GRANT INSERT ON calibd.nodes TO calibd_serving");
  EXPECT_TRUE(WaitFor([&] { return owner->CheckOwned().ok(); }));
}

// A heartbeat while another node takes the store could be lost on it, so it waits for the outcome.
TEST_F(PostgresOwnerTest, AHeartbeatWaitsForATakeover) {
  const auto owner = Open();
  ASSERT_TRUE(OwnAndRead(*owner, "host:1", never_).ok());
  {
    const OpenSession taking(cluster_->AdminConnection(database_),
                             "BEGIN; UPDATE calibd.cells SET epoch = epoch + 1");
    EXPECT_TRUE(WaitFor([&] { return ReasonOf(owner->CheckOwned()) == "LEASE_LOST"; }));
  }
  // It was rolled back.
  EXPECT_TRUE(WaitFor([&] { return owner->CheckOwned().ok(); }));
  Execute("UPDATE calibd.cells SET epoch = epoch + 1");
  EXPECT_TRUE(WaitFor([&] { return absl::IsAborted(owner->CheckInPlace()); }));
}

TEST_F(PostgresOwnerTest, HeartbeatsFindOutWhetherThereIsASynchronousStandby) {
  const auto node = Open();
  EXPECT_EQ(node->synchronous(), std::nullopt);
  ASSERT_TRUE(OwnAndRead(*node, "host:1", never_).ok());
  EXPECT_EQ(node->synchronous(), false);
}

// The owner seems to have expired, but its heartbeat is under way.
TEST_F(PostgresOwnerTest, ATakeoverWaitsForAHeartbeat) {
  const std::string owner = "'00000000-0000-0000-0000-000000000001'";
  Execute("UPDATE calibd.cells SET epoch = 1, owner = " + owner);
  OpenSession heartbeat(cluster_->AdminConnection(database_),
                        "BEGIN; SELECT 1 FROM calibd.cells FOR SHARE; INSERT INTO calibd.nodes "
                        "VALUES (" +
                            owner + ", 'host:1', '', clock_timestamp() + interval '1 hour')");
  const auto standby = Open();
  std::atomic<bool> stop = false;
  std::thread waits([&] { EXPECT_TRUE(absl::IsCancelled(standby->Own("host:2", stop))); });
  EXPECT_TRUE(WaitFor([&] {
    return !Execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
                "current_database()")
                .empty();
  }));
  heartbeat.Commit();
  EXPECT_TRUE(WaitFor([&] { return ReasonOf(standby->CheckOwned()) == "NOT_OWNER"; }));
  EXPECT_THAT(Execute("SELECT epoch FROM calibd.cells"), ElementsAre("1"));
  stop = true;
  waits.join();
}

// Nodes take the store from one another many times, by leaving or by ending without a word: two are
// never owners at one time, no epoch occurs twice, and every acknowledged batch is there once.
TEST_F(PostgresOwnerTest, OfManyNodesOneOwnsTheStore) {
  {
    const auto first = Open();
    ASSERT_TRUE(OwnAndRead(*first, "host:0", never_).ok());
    InsertModel(*first);
    ASSERT_TRUE(first->Close().ok());
  }
  constexpr int kNodes = 3;
  constexpr int kTurns = 12;
  std::atomic<int> owners = 0;
  std::mutex mutex;
  std::vector<std::string> acknowledged;
  std::vector<std::thread> nodes;
  for (int node = 0; node < kNodes; ++node) {
    nodes.emplace_back([&, node] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto store = Open();
        const absl::Status owned = OwnAndRead(*store, "host:" + std::to_string(node), never_);
        EXPECT_TRUE(owned.ok()) << owned;
        if (!owned.ok()) return;
        EXPECT_EQ(++owners, 1);
        const std::string data = std::to_string(node) + "/" + std::to_string(turn);
        store->AppendBatch(1, 5, data);
        const absl::Status committed = store->CommitLog();
        EXPECT_TRUE(committed.ok()) << committed;
        {
          const std::lock_guard lock(mutex);
          acknowledged.push_back(data);
        }
        EXPECT_TRUE(store->CheckOwned().ok());
        --owners;
        if (turn % 4 != 0) {
          EXPECT_TRUE(store->Close().ok());
        }
      }
    });
  }
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(Execute("SELECT convert_from(data, 'UTF8') FROM calibd.log_0 WHERE cell = 0 ORDER BY "
                    "log_id"),
            acknowledged);
  EXPECT_THAT(Execute("SELECT count(DISTINCT log_id >> 40) FROM calibd.log_0 WHERE cell = 0"),
              ElementsAre(std::to_string(kNodes * kTurns)));
}

// A process that was stopped within a transaction holds the cell. The next owner ends its session.
TEST_F(PostgresOwnerTest, AStoppedTransactionHoldsUpNoTakeover) {
  const OpenSession stopped(cluster_->Connection(database_),
                            "BEGIN; SELECT 1 FROM calibd.cells FOR SHARE");
  const auto next = Open();
  ASSERT_TRUE(OwnAndRead(*next, "host:2", never_).ok());
  EXPECT_TRUE(next->CheckOwned().ok());
}

TEST_F(PostgresOwnerTest, ANodeWhoseClockIsOffTakesNothing) {
  // No clock is as good as that.
  const auto wrong = Open({.heartbeat = std::chrono::milliseconds(400),
                           .clock_difference = std::chrono::seconds(-1000)});
  std::atomic<bool> stop = false;
  std::thread waits([&] { EXPECT_TRUE(absl::IsCancelled(wrong->Own("host:1", stop))); });
  // After two more heartbeats it has looked whether the store is free.
  for (int beat = 0; beat < 3; ++beat) {
    const std::vector<std::string> before = Execute("SELECT expires_at FROM calibd.nodes");
    EXPECT_TRUE(WaitFor([&] { return Execute("SELECT expires_at FROM calibd.nodes") != before; }));
  }
  const bool is_free = Execute("SELECT owner FROM calibd.cells WHERE owner IS NULL").size() == 1;
  EXPECT_TRUE(is_free);
  if (is_free) {
    const auto right = Open();
    EXPECT_TRUE(OwnAndRead(*right, "host:2", never_).ok());
  }
  stop = true;
  waits.join();
}

}  // namespace
}  // namespace calibd::testing
