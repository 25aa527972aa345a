// What server/store promises, for every implementation. A new store is one more line in
// INSTANTIATE_TEST_SUITE_P and one more Disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/local/local_store.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/store.h"
#include "support/memory_store.h"
#include "support/postgres_cluster.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Where stores are, one at a time, that find what the former ones committed.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual std::unique_ptr<Store> Open() = 0;
  // The next transaction finds no room for 1 MiB. `store` is on this disk.
  virtual void Fill(Store& store) = 0;
  // There is room again.
  virtual void Free() = 0;
};

class LocalDisk final : public Disk {
 public:
  std::unique_ptr<Store> Open() override {
    auto store = LocalStore::Open((folder_.path() / "data").string(), /*segment_bytes=*/65536);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // No file may grow beyond this.
  void Fill(Store& /*store*/) override {
    std::signal(SIGXFSZ, SIG_IGN);
    SetLimit(1 << 16);
  }
  void Free() override { SetLimit(RLIM_INFINITY); }
  ~LocalDisk() override { Free(); }

 private:
  static void SetLimit(rlim_t bytes) {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }

  const testing::TemporaryFolder folder_;
};

class MemoryDisk final : public Disk {
 public:
  std::unique_ptr<Store> Open() override { return std::make_unique<testing::MemoryStore>(disk_); }
  void Fill(Store& store) override {
    dynamic_cast<testing::MemoryStore&>(store).SetNextOutcome(Outcome::kRefused);
  }
  void Free() override {}

 private:
  const std::shared_ptr<testing::MemoryDisk> disk_ = std::make_shared<testing::MemoryDisk>();
};

class PostgresDisk final : public Disk {
 public:
  std::unique_ptr<Store> Open() override {
    auto store = PostgresStore::Open({.connection = cluster_.Connection(database_),
                                      .generation_bytes = 65536,
                                      .free_time = std::chrono::milliseconds(0),
                                      .times = {.expiry = std::chrono::milliseconds(0)}});
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return nullptr;
    const std::atomic<bool> stop = false;
    EXPECT_TRUE((*store)->Own("", stop).ok());
    return *std::move(store);
  }
  // The server reports a full disk for each row, as it does when it cannot extend a table.
  void Fill(Store& /*store*/) override {
    std::string script =
        "CREATE FUNCTION calibd.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
        "EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;";
    for (const char* const table : {"log_0", "log_1", "log_2", "log_3", "snapshots"}) {
      absl::StrAppend(&script, "CREATE TRIGGER full_disk BEFORE INSERT ON calibd.", table,
                      " FOR EACH ROW EXECUTE FUNCTION calibd.full();");
    }
    cluster_.Execute(database_, script);
  }
  void Free() override { cluster_.Execute(database_, "DROP FUNCTION calibd.full CASCADE"); }

 private:
  testing::PostgresCluster& cluster_ = testing::PostgresCluster::Shared();
  const std::string database_ = cluster_.NewStore();
};

template <typename Kind>
std::unique_ptr<Disk> Make() {
  return std::make_unique<Kind>();
}

struct Implementation {
  const char* name;
  std::unique_ptr<Disk> (*make)();
  // Why its tests cannot run on this machine; empty if they can.
  std::string (*why_missing)() = [] { return std::string(); };
};

// The names of the tests contain it.
void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << implementation.name;
}

v1::Model Named(const std::string& name) {
  v1::Model model;
  model.set_name(name);
  return model;
}

// Starts a store as the server does. Returns the rows of the log as "model:time:data".
std::vector<std::string> Start(Store& store, std::vector<std::int64_t>* log_ids = nullptr,
                               const std::vector<std::int64_t>& unneeded = {}) {
  std::vector<std::string> log;
  EXPECT_TRUE(store.ReadModels([](const StoredModel&) { return absl::OkStatus(); }).ok());
  EXPECT_TRUE(store
                  .ReadLog([&](const StoredBatch& batch) {
                    log.push_back(absl::StrCat(batch.model_id, ":", batch.time_us, ":",
                                               std::string(batch.data)));
                    if (log_ids != nullptr) log_ids->push_back(batch.log_id);
                    return absl::OkStatus();
                  })
                  .ok());
  store.FinishRecovery(unneeded);
  return log;
}

std::vector<std::string> Models(Store& store) {
  std::vector<std::string> models;
  EXPECT_TRUE(store
                  .ReadModels([&](const StoredModel& model) {
                    models.push_back(absl::StrCat(model.id, " ", model.declaration.name(), " '",
                                                  model.snapshot, "' ", model.snapshot_log_id, " ",
                                                  model.first_log_id, " ", model.matured_log_id));
                    return absl::OkStatus();
                  })
                  .ok());
  return models;
}

std::vector<std::string> Cursors(Store& store) {
  std::vector<std::string> cursors;
  EXPECT_TRUE(store
                  .ReadCursors([&](const StoredCursor& cursor) {
                    cursors.push_back(absl::StrCat(cursor.model_id, " ", cursor.producer_id, " ",
                                                   cursor.epoch, " ", cursor.last_sequence, " ",
                                                   std::string(cursor.contents)));
                    return absl::OkStatus();
                  })
                  .ok());
  std::sort(cursors.begin(), cursors.end());
  return cursors;
}

std::vector<std::string> StoredHistory(const Store& store, const HistorySeries& series,
                                       const HistoryRange& range = {}) {
  std::vector<std::string> buckets;
  EXPECT_TRUE(store
                  .ReadHistory(series, range,
                               [&](std::int64_t start_s, std::string_view data) {
                                 buckets.push_back(absl::StrCat(start_s, std::string(data)));
                                 return absl::OkStatus();
                               })
                  .ok());
  return buckets;
}

std::vector<std::string> Data(Store& store, const std::vector<std::int64_t>& log_ids) {
  std::vector<std::string> data;
  EXPECT_TRUE(store
                  .ReadBatches(log_ids,
                               [&](std::string_view one) {
                                 data.emplace_back(one);
                                 return absl::OkStatus();
                               })
                  .ok());
  return data;
}

void Write(Store& store, const std::function<absl::Status()>& writes) {
  ASSERT_TRUE(store.Begin().ok());
  const absl::Status written = writes();
  ASSERT_TRUE(written.ok()) << written;
  const absl::Status committed = store.Commit();
  ASSERT_TRUE(committed.ok()) << committed;
}

std::int64_t Append(Store& store, std::int64_t model_id, const std::string& data) {
  const std::int64_t log_id = store.AppendBatch(model_id, 5, data);
  EXPECT_TRUE(store.CommitLog().ok());
  return log_id;
}

// Appends batches that are not needed, enough that a store deletes what it can.
void Churn(Store& store) {
  for (int i = 0; i < 200; ++i) {
    store.DropBatches(std::vector{Append(store, 1, std::string(3000, 'y'))});
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = store.Maintain(/*refused=*/false);
    ASSERT_TRUE(more.ok()) << more.status();
  }
}

class StoreConformanceTest : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (const std::string missing = GetParam().why_missing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    disk_ = GetParam().make();
    Open();
    Start(*store_);
    Write(*store_, [this] {
      absl::Status status = store_->InsertModel(1, Named("models/a"));
      return status.ok() ? store_->InsertModel(2, Named("models/b")) : status;
    });
  }
  // Opens the store as after the end of the process.
  void Open() {
    store_.reset();
    store_ = disk_->Open();
    ASSERT_NE(store_, nullptr);
  }
  void PutSnapshot(const StoredSnapshot& snapshot) {
    Write(*store_, [&] { return store_->PutSnapshot(snapshot); });
  }

  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreConformanceTest, ANewStoreIsEmpty) {
  const std::unique_ptr<Disk> disk = GetParam().make();
  const std::unique_ptr<Store> store = disk->Open();
  EXPECT_THAT(Start(*store), IsEmpty());
  EXPECT_THAT(Models(*store), IsEmpty());
  EXPECT_THAT(Cursors(*store), IsEmpty());
  EXPECT_FALSE(store->lost_tail().has_value());
  EXPECT_THAT(store->warnings(), IsEmpty());
  EXPECT_EQ(store->appended_bytes(), 0U);
  const auto series = store->NextHistory({});
  ASSERT_TRUE(series.ok());
  EXPECT_FALSE(series->has_value());
  EXPECT_TRUE(store->CheckInPlace().ok());
  EXPECT_TRUE(store->CheckRoom(1).ok());
}

TEST_P(StoreConformanceTest, CommittedBatchesAreReadInTheOrderOfTheirIds) {
  std::vector<std::int64_t> log_ids;
  log_ids.push_back(store_->AppendBatch(1, 10, "a"));
  EXPECT_GT(store_->appended_bytes(), 0U);
  log_ids.push_back(store_->AppendBatch(2, 9, "b"));
  ASSERT_TRUE(store_->CommitLog().ok());
  EXPECT_EQ(store_->appended_bytes(), 0U);
  log_ids.push_back(store_->AppendBatch(1, 11, ""));
  ASSERT_TRUE(store_->CommitLog().ok());
  EXPECT_TRUE(std::is_sorted(log_ids.begin(), log_ids.end(), std::less_equal<>()));
  EXPECT_EQ(store_->last_log_id(), log_ids.back());
  Open();
  std::vector<std::int64_t> read;
  EXPECT_THAT(Start(*store_, &read), ElementsAre("1:10:a", "2:9:b", "1:11:"));
  EXPECT_EQ(read, log_ids);
  EXPECT_EQ(store_->last_log_id(), log_ids.back());
  EXPECT_GT(Append(*store_, 1, "c"), log_ids.back());
}

TEST_P(StoreConformanceTest, UncommittedWritesLeaveNothingBehind) {
  Append(*store_, 1, "kept");
  store_->AppendBatch(1, 10, "rolled back");
  store_->Rollback();
  EXPECT_EQ(store_->appended_bytes(), 0U);
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(3, Named("models/c")).ok());
  ASSERT_TRUE(store_->PutCursor({.model_id = 1, .producer_id = "p", .contents = "x"}).ok());
  ASSERT_TRUE(store_->PutHistory({.series = {1, 1}, .start_s = 10, .data = "x"}).ok());
  ASSERT_TRUE(store_->DeleteModel(2).ok());
  store_->Rollback();
  Append(*store_, 1, "kept too");
  // The end of the process.
  store_->AppendBatch(1, 10, "appended");
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->PutSnapshot({.model_id = 1, .log_id = 1, .data = "x"}).ok());
  Open();
  EXPECT_THAT(Start(*store_), ElementsAre("1:5:kept", "1:5:kept too"));
  EXPECT_THAT(Models(*store_), ElementsAre("1 models/a '' 0 0 0", "2 models/b '' 0 0 0"));
  EXPECT_THAT(Cursors(*store_), IsEmpty());
  EXPECT_THAT(StoredHistory(*store_, {1, 1}), IsEmpty());
}

TEST_P(StoreConformanceTest, BatchesAreReadByTheirIdsInTheOrderThatIsWanted) {
  const std::int64_t first = Append(*store_, 1, "first");
  const std::int64_t second = Append(*store_, 1, "second");
  const std::int64_t third = store_->AppendBatch(2, 5, "third");
  EXPECT_THAT(Data(*store_, {second, third, first}), ElementsAre("second", "third", "first"));
  ASSERT_TRUE(store_->CommitLog().ok());
  EXPECT_THAT(Data(*store_, {third, third}), ElementsAre("third", "third"));
  int visits = 0;
  const absl::Status stopped =
      store_->ReadBatches(std::vector{first, second}, [&](std::string_view) {
        ++visits;
        return absl::CancelledError("stop");
      });
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(visits, 1);
}

TEST_P(StoreConformanceTest, AnErrorOfAVisitorEndsTheReading) {
  Append(*store_, 1, "a");
  Append(*store_, 1, "b");
  Write(*store_,
        [this] { return store_->PutCursor({.model_id = 1, .producer_id = "p", .contents = "x"}); });
  Open();
  int visits = 0;
  const auto stop = [&visits](const auto& /*row*/) {
    ++visits;
    return absl::CancelledError("stop");
  };
  EXPECT_TRUE(absl::IsCancelled(store_->ReadModels(stop)));
  EXPECT_TRUE(absl::IsCancelled(store_->ReadCursors(stop)));
  EXPECT_TRUE(absl::IsCancelled(store_->ReadLog(stop)));
  EXPECT_EQ(visits, 3);
}

// There are so many batches that a store deletes what is not needed.
TEST_P(StoreConformanceTest, ReleasedBatchesGoAndNeededOnesStay) {
  std::vector<std::int64_t> needed;
  std::vector<std::string> expected;
  std::int64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    const bool stays = i % 50 == 0;
    const std::int64_t log_id = Append(*store_, stays ? 2 : 1, std::string(3000, 'x'));
    if (stays) {
      needed.push_back(log_id);
      expected.emplace_back(3000, 'x');
    } else if (i % 2 == 0) {
      store_->DropBatches(std::vector{log_id});
    } else {
      store_->ReleaseBatches(std::vector{log_id});
      ASSERT_TRUE(store_->CommitLog().ok());
    }
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = store_->Maintain(/*refused=*/false);
    ASSERT_TRUE(more.ok()) << more.status();
    most = std::max(most, store_->sizes().log_bytes);
  }
  EXPECT_LT(most, 400 * 3000 / 2);
  EXPECT_EQ(Data(*store_, needed), expected);
  Open();
  std::vector<std::int64_t> read;
  Start(*store_, &read);
  EXPECT_TRUE(std::includes(read.begin(), read.end(), needed.begin(), needed.end()));
  EXPECT_LT(read.size(), 200U);
}

TEST_P(StoreConformanceTest, ABatchWhoseReleaseIsRolledBackStays) {
  const std::int64_t log_id = Append(*store_, 1, std::string(3000, 'x'));
  store_->ReleaseBatches(std::vector{log_id});
  store_->Rollback();
  Churn(*store_);
  EXPECT_THAT(Data(*store_, {log_id}), ElementsAre(std::string(3000, 'x')));
}

TEST_P(StoreConformanceTest, TheRecoveryAndTransactionsOfTheCatalogReleaseBatches) {
  std::vector<std::int64_t> by_recovery;
  std::vector<std::int64_t> by_catalog;
  for (int i = 0; i < 50; ++i) {
    by_recovery.push_back(Append(*store_, 1, std::string(3000, 'x')));
    by_catalog.push_back(Append(*store_, 2, std::string(3000, 'x')));
  }
  Open();
  Start(*store_, nullptr, by_recovery);
  Write(*store_, [&] {
    store_->ReleaseBatches(by_catalog);
    return absl::OkStatus();
  });
  Churn(*store_);
  Open();
  std::vector<std::int64_t> read;
  Start(*store_, &read);
  for (const auto& released : {by_recovery, by_catalog}) {
    EXPECT_LT(std::ranges::count_if(
                  read, [&](std::int64_t id) { return std::ranges::count(released, id) > 0; }),
              25);
  }
}

TEST_P(StoreConformanceTest, IdsAreNeverUsedAgain) {
  Write(*store_, [this] { return store_->InsertModel(7, Named("models/c")); });
  const std::int64_t log_id = Append(*store_, 7, "x");
  Write(*store_, [&] {
    store_->ReleaseBatches(std::vector{log_id});
    return store_->DeleteModel(7);
  });
  EXPECT_EQ(store_->next_model_id(), 8);
  Open();
  Start(*store_);
  EXPECT_EQ(store_->next_model_id(), 8);
  EXPECT_GE(store_->last_log_id(), log_id);
  EXPECT_GT(store_->AppendBatch(1, 11, "y"), log_id);
}

TEST_P(StoreConformanceTest, TheCatalogHoldsTheNewestOfEachRow) {
  PutSnapshot({.model_id = 1, .log_id = 4, .data = "old", .first_log_id = 2, .matured_log_id = 3});
  PutSnapshot({.model_id = 1, .log_id = 9, .data = "new", .first_log_id = 8});
  Write(*store_, [this] {
    absl::Status status;
    for (const std::int64_t sequence : {4, 5}) {
      status.Update(store_->PutCursor({.model_id = 2,
                                       .producer_id = "p",
                                       .epoch = 3,
                                       .last_sequence = sequence,
                                       .contents = "hashes"}));
    }
    status.Update(store_->PutCursor({.model_id = 1, .producer_id = "p", .contents = ""}));
    return status;
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Models(*store_), ElementsAre("1 models/a 'new' 9 8 3", "2 models/b '' 0 0 0"));
    EXPECT_THAT(Cursors(*store_), ElementsAre("1 p 0 0 ", "2 p 3 5 hashes"));
    Open();
  }
}

TEST_P(StoreConformanceTest, ACursorIsDeletedAlone) {
  Write(*store_, [this] {
    absl::Status status;
    for (const std::int64_t id : {1, 2}) {
      for (const char* const producer : {"p", "q"}) {
        status.Update(store_->PutCursor({.model_id = id, .producer_id = producer, .contents = ""}));
      }
    }
    return status;
  });
  Write(*store_, [this] {
    absl::Status status = store_->DeleteCursor(1, "p");
    status.Update(store_->DeleteCursor(1, "unknown"));
    // This one is put again in the same transaction.
    status.Update(store_->DeleteCursor(2, "q"));
    status.Update(
        store_->PutCursor({.model_id = 2, .producer_id = "q", .last_sequence = 7, .contents = ""}));
    return status;
  });
  Open();
  EXPECT_THAT(Cursors(*store_), ElementsAre("1 q 0 0 ", "2 p 0 0 ", "2 q 0 7 "));
}

TEST_P(StoreConformanceTest, AModelGoesWithItsRowsButNotItsBatches) {
  PutSnapshot({.model_id = 1, .log_id = 4, .data = "a", .first_log_id = 2, .matured_log_id = 3});
  PutSnapshot({.model_id = 2, .log_id = 4, .data = "b", .first_log_id = 2, .matured_log_id = 3});
  Append(*store_, 1, "batch");
  Write(*store_, [this] {
    absl::Status status;
    for (const std::int64_t id : {1, 2}) {
      status.Update(store_->PutCursor({.model_id = id, .producer_id = "p", .contents = "x"}));
      status.Update(store_->PutHistory({.series = {id, 2}, .start_s = 10, .data = "x"}));
    }
    return status;
  });
  Write(*store_, [this] { return store_->DeleteModel(1); });
  EXPECT_THAT(StoredHistory(*store_, {1, 2}), IsEmpty());
  Open();
  EXPECT_THAT(Models(*store_), ElementsAre("2 models/b 'b' 4 2 3"));
  EXPECT_THAT(Cursors(*store_), ElementsAre("2 p 0 0 x"));
  EXPECT_THAT(StoredHistory(*store_, {2, 2}), ElementsAre("10x"));
  EXPECT_THAT(Start(*store_), ElementsAre("1:5:batch"));
}

TEST_P(StoreConformanceTest, HistoriesAreReadByRanges) {
  const HistorySeries series{1, 2};
  Write(*store_, [&] {
    absl::Status status;
    for (const std::int64_t start_s : {30, 10, 50, 20}) {
      status.Update(store_->PutHistory({.series = series, .start_s = start_s, .data = "x"}));
    }
    status.Update(store_->PutHistory({.series = series, .start_s = 20, .data = "y"}));
    status.Update(store_->PutHistory({.series = {1, 3}, .start_s = 20, .data = "z"}));
    status.Update(store_->PutHistory({.series = {2, 1}, .start_s = 20, .data = "w"}));
    return status;
  });
  EXPECT_THAT(StoredHistory(*store_, series), ElementsAre("10x", "20y", "30x", "50x"));
  EXPECT_THAT(StoredHistory(*store_, series, {20, 50}), ElementsAre("20y", "30x"));
  EXPECT_THAT(StoredHistory(*store_, series, {21, 30}), IsEmpty());
  EXPECT_THAT(StoredHistory(*store_, {2, 3}), IsEmpty());
  std::vector<HistorySeries> all;
  auto next = store_->NextHistory({});
  while (next.ok() && next->has_value()) {
    all.push_back(**next);
    next = store_->NextHistory(all.back());
  }
  EXPECT_THAT(all, ElementsAre(HistorySeries{1, 2}, HistorySeries{1, 3}, HistorySeries{2, 1}));
  Write(*store_, [&] { return store_->DeleteHistory(series, 30); });
  EXPECT_THAT(StoredHistory(*store_, series), ElementsAre("30x", "50x"));
  Write(*store_, [&] { return store_->DeleteHistory(series, 100); });
  EXPECT_THAT(StoredHistory(*store_, series), IsEmpty());
  Open();
  EXPECT_THAT(StoredHistory(*store_, series), IsEmpty());
  EXPECT_THAT(StoredHistory(*store_, {1, 3}), ElementsAre("20z"));
}

TEST_P(StoreConformanceTest, AHistoryIsReadBesideATransactionAndWithoutIt) {
  Write(*store_, [this] {
    return store_->PutHistory({.series = {1, 2}, .start_s = 10, .data = "committed"});
  });
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->PutHistory({.series = {1, 2}, .start_s = 20, .data = "pending"}).ok());
  std::vector<std::string> read;
  std::thread reader([&] { read = StoredHistory(*store_, {1, 2}); });
  reader.join();
  EXPECT_THAT(read, ElementsAre("10committed"));
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_THAT(StoredHistory(*store_, {1, 2}), ElementsAre("10committed", "20pending"));
}

TEST_P(StoreConformanceTest, TwoStoresInAProcessDoNotKnowOfEachOther) {
  const std::unique_ptr<Disk> other_disk = GetParam().make();
  std::unique_ptr<Store> other = other_disk->Open();
  Start(*other);
  // Both have transactions at the same time.
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(other->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(3, Named("models/c")).ok());
  ASSERT_TRUE(other->InsertModel(1, Named("models/other")).ok());
  ASSERT_TRUE(other->Commit().ok());
  store_->Rollback();
  for (int i = 0; i < 3; ++i) {
    store_->AppendBatch(1, i, "one");
    other->AppendBatch(1, i, "other");
    ASSERT_TRUE(store_->CommitLog().ok());
    ASSERT_TRUE(other->CommitLog().ok());
  }
  ASSERT_TRUE(other->Close().ok());
  other.reset();
  other = other_disk->Open();
  Open();
  EXPECT_THAT(Start(*store_), ElementsAre("1:0:one", "1:1:one", "1:2:one"));
  EXPECT_THAT(Start(*other), ElementsAre("1:0:other", "1:1:other", "1:2:other"));
  EXPECT_THAT(Models(*store_), ElementsAre("1 models/a '' 0 0 0", "2 models/b '' 0 0 0"));
  EXPECT_THAT(Models(*other), ElementsAre("1 models/other '' 0 0 0"));
}

TEST_P(StoreConformanceTest, AStoreThatWasClosedIsAsItWas) {
  Append(*store_, 1, "batch");
  PutSnapshot({.model_id = 1, .log_id = 1, .data = "state", .first_log_id = 1});
  const absl::Status closed = store_->Close();
  ASSERT_TRUE(closed.ok()) << closed;
  Open();
  EXPECT_THAT(Start(*store_), ElementsAre("1:5:batch"));
  EXPECT_THAT(Models(*store_), ElementsAre("1 models/a 'state' 1 1 0", "2 models/b '' 0 0 0"));
}

TEST_P(StoreConformanceTest, ARefusedTransactionLeavesNothingAndTheStoreGoesOn) {
  disk_->Fill(*store_);
  absl::Status status = store_->Begin();
  if (status.ok()) {
    status = store_->PutSnapshot(
        {.model_id = 1, .log_id = 1, .data = std::string(1 << 20, 'x'), .first_log_id = 1});
  }
  if (status.ok()) status = store_->Commit();
  EXPECT_EQ(OutcomeOf(status), Outcome::kRefused) << status;
  store_->Rollback();
  EXPECT_EQ(Models(*store_).front(), "1 models/a '' 0 0 0");
  EXPECT_TRUE(store_->Maintain(/*refused=*/true).ok());
  disk_->Free();
  PutSnapshot({.model_id = 1, .log_id = 1, .data = "state", .first_log_id = 1});
  Append(*store_, 1, "batch");
  Open();
  EXPECT_THAT(Start(*store_), ElementsAre("1:5:batch"));
  EXPECT_EQ(Models(*store_).front(), "1 models/a 'state' 1 1 0");
}

TEST_P(StoreConformanceTest, ARefusedBatchLeavesNothingAndTheStoreGoesOn) {
  Append(*store_, 1, "before");
  disk_->Fill(*store_);
  const std::int64_t refused = store_->AppendBatch(1, 5, std::string(1 << 20, 'x'));
  const absl::Status status = store_->CommitLog();
  EXPECT_EQ(OutcomeOf(status), Outcome::kRefused) << status;
  store_->Rollback();
  EXPECT_EQ(store_->appended_bytes(), 0U);
  EXPECT_LT(store_->last_log_id(), refused);
  disk_->Free();
  Append(*store_, 1, "after");
  Open();
  EXPECT_THAT(Start(*store_), ElementsAre("1:5:before", "1:5:after"));
}

// Collects what a verification reads.
class Contents final : public StoreContents {
 public:
  void AddModel(std::int64_t id, std::string_view) override { Add("model ", id); }
  void AddMaturity(std::int64_t model_id, std::int64_t matured_log_id) override {
    Add("maturity ", model_id, " ", matured_log_id);
  }
  void AddSnapshot(const StoredSnapshot& snapshot) override {
    Add("snapshot ", snapshot.model_id, " ", std::string(snapshot.data));
  }
  void AddCursor(const StoredCursor& cursor) override { Add("cursor ", cursor.producer_id); }
  void AddHistory(const HistorySeries& series, std::int64_t start_s,
                  std::string_view data) override {
    Add("history ", series.resolution, " ", start_s, " ", std::string(data));
  }
  void AddBatch(const StoredBatch& batch) override { Add("batch ", std::string(batch.data)); }
  void AddProblem(std::int64_t, std::string_view problem) override {
    Add("problem ", std::string(problem));
  }

  std::vector<std::string> all;

 private:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    all.push_back(absl::StrCat(parts...));
  }
};

TEST_P(StoreConformanceTest, AViewShowsOneMomentOrIsNotImplemented) {
  const std::int64_t log_id = Append(*store_, 1, "batch");
  PutSnapshot({.model_id = 1, .log_id = 1, .data = "s", .first_log_id = 1, .matured_log_id = 1});
  Write(*store_, [this] {
    absl::Status status = store_->PutCursor({.model_id = 1, .producer_id = "p", .contents = "x"});
    status.Update(store_->PutHistory({.series = {1, 2}, .start_s = 10, .data = "x"}));
    return status;
  });
  absl::StatusOr<std::unique_ptr<StoreView>> view = store_->OpenView();
  if (!view.ok()) {
    EXPECT_EQ(view.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_FALSE(view.status().message().empty());
    return;
  }
  Append(*store_, 1, "later");
  Write(*store_, [this] { return store_->DeleteModel(2); });
  // Without the view, this batch would be deleted.
  store_->DropBatches(std::vector{log_id});
  Churn(*store_);
  Contents contents;
  ASSERT_TRUE((*view)->Verify(contents, [](double) { return true; }).ok());
  EXPECT_THAT(contents.all, ElementsAre("model 1", "model 2", "maturity 1 1", "snapshot 1 s",
                                        "cursor p", "history 2 10 x", "batch batch"));
  EXPECT_TRUE(absl::IsCancelled((*view)->Verify(contents, [](double) { return false; })));
  EXPECT_TRUE(absl::IsCancelled((*view)->Copy([](double) { return false; }).status()));
  const auto copy = (*view)->Copy([](double) { return true; });
  ASSERT_TRUE(copy.ok()) << copy.status();
  std::string chunk(100, ' ');
  EXPECT_EQ(*(*copy)->Read(0, chunk), 100U);
  EXPECT_EQ(*(*copy)->Read(std::uint64_t{1} << 40, chunk), 0U);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         ::testing::Values(Implementation{"Local", &Make<LocalDisk>},
                                           Implementation{"Memory", &Make<MemoryDisk>},
                                           Implementation{"Postgres", &Make<PostgresDisk>,
                                                          &testing::PostgresCluster::WhyMissing}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(OutcomeTest, FollowsFromTheStatus) {
  EXPECT_EQ(OutcomeOf(absl::OkStatus()), Outcome::kCommitted);
  EXPECT_EQ(OutcomeOf(absl::ResourceExhaustedError("")), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(absl::AbortedError("")), Outcome::kFenced);
  EXPECT_EQ(OutcomeOf(absl::UnavailableError("")), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(absl::DataLossError("")), Outcome::kUnknown);
}

}  // namespace
}  // namespace calibd::server
