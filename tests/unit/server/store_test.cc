#include "server/store/local/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <future>

#include "server/store/commit_queue.h"
#include "support/temporary_folder.h"
#include "support/test_operation.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the log holds, by a connection and files of its own.
std::vector<StoredBatch> ReadLog(const Store& store, std::deque<std::string>& data) {
  std::vector<StoredBatch> log;
  const auto add = [&](StoredBatch batch) {
    batch.data = data.emplace_back(batch.data);
    log.push_back(batch);
    return absl::OkStatus();
  };
  const std::vector<LogFiles::Extent> extents = store.extents();
  const auto database = Database::Open(store.path());
  auto rows = Statement::Prepare(
      *database, "SELECT id, model_id, time_us, data FROM log WHERE id < ? ORDER BY id");
  rows->Bind(1, extents.front().first_log_id);
  while (*rows->Next()) {
    static_cast<void>(add({.log_id = rows->Integer(0),
                           .model_id = rows->Integer(1),
                           .time_us = rows->Integer(2),
                           .data = rows->Blob(3)}));
  }
  for (const LogFiles::Extent& extent : extents) {
    EXPECT_TRUE(LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool /*needed*/) {
                  return add(batch);
                }).ok());
  }
  return log;
}

class StoreTest : public ::testing::Test {
 protected:
  explicit StoreTest(std::uint64_t segment_bytes = LogFiles::kSegmentBytes)
      : segment_bytes_(segment_bytes) {}

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "calibd-store-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    Open();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    store_.reset();
    auto store = Store::Open(folder_, segment_bytes_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    const auto visit = [](const StoredBatch& /*batch*/) { return absl::OkStatus(); };
    ASSERT_TRUE(store_->ReadLog(visit).ok());
  }

  static v1::Model Named(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    return model;
  }

  static std::vector<std::string> Log(const Store& store) {
    std::vector<std::string> log;
    std::deque<std::string> data;
    for (const StoredBatch& batch : ReadLog(store, data)) {
      log.push_back(std::to_string(batch.log_id) + ":" + std::to_string(batch.model_id) + ":" +
                    std::string(batch.data));
    }
    return log;
  }

  const std::uint64_t segment_bytes_;
  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, ContainsExactlyTheCommittedData) {
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(1, Named("models/a")).ok());
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->AppendBatch(1, 10, "first"), 1);
  ASSERT_TRUE(store_->CommitLog().ok());
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_
                  ->PutCursor({.model_id = 1,
                               .producer_id = "p",
                               .epoch = 3,
                               .last_sequence = 4,
                               .contents = "hashes"})
                  .ok());
  ASSERT_TRUE(
      store_
          ->PutSnapshot(
              {.model_id = 1, .log_id = 1, .data = "state", .first_log_id = 1, .matured_log_id = 0})
          .ok());
  ASSERT_TRUE(store_->Commit().ok());
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(2, Named("models/b")).ok());
  store_->Rollback();
  EXPECT_EQ(store_->AppendBatch(1, 11, "taken back"), 2);
  store_->Rollback();
  EXPECT_EQ(store_->AppendBatch(1, 12, "second"), 2);
  ASSERT_TRUE(store_->CommitLog().ok());
  Open();
  EXPECT_THAT(Log(*store_), ElementsAre("1:1:first", "2:1:second"));
  int models = 0;
  ASSERT_TRUE(store_
                  ->ReadModels([&](const Store::StoredModel& model) {
                    ++models;
                    EXPECT_EQ(model.declaration.name(), "models/a");
                    EXPECT_EQ(model.snapshot, "state");
                    EXPECT_EQ(model.snapshot_log_id, 1);
                    EXPECT_EQ(model.first_log_id, 1);
                    EXPECT_EQ(model.matured_log_id, 0);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(models, 1);
  int cursors = 0;
  ASSERT_TRUE(store_
                  ->ReadCursors([&](const Store::StoredCursor& cursor) {
                    ++cursors;
                    EXPECT_EQ(cursor.producer_id, "p");
                    EXPECT_EQ(cursor.epoch, 3);
                    EXPECT_EQ(cursor.last_sequence, 4);
                    EXPECT_EQ(cursor.contents, "hashes");
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(cursors, 1);
}

TEST_F(StoreTest, IdsAreNeverReused) {
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(7, Named("models/a")).ok());
  ASSERT_TRUE(store_->Commit().ok());
  const std::int64_t log_id = store_->AppendBatch(7, 10, "x");
  ASSERT_TRUE(store_->CommitLog().ok());
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->DeleteModel(7).ok());
  store_->ReleaseBatches(std::vector<std::int64_t>{log_id});
  ASSERT_TRUE(store_->Commit().ok());
  Open();
  EXPECT_EQ(store_->next_model_id(), 8);
  EXPECT_GT(store_->AppendBatch(8, 11, "y"), log_id);
}

// Small files, of which many are written.
class RetirementTest : public StoreTest {
 protected:
  static constexpr std::uint64_t kSegment = 65536;

  RetirementTest() : StoreTest(kSegment) {}

  void Append(std::int64_t model_id, std::size_t bytes) {
    store_->AppendBatch(model_id, 5, std::string(bytes, 'x'));
    ASSERT_TRUE(store_->CommitLog().ok());
  }
  void Release(const std::vector<std::int64_t>& log_ids) {
    ASSERT_TRUE(store_->Begin().ok());
    store_->ReleaseBatches(log_ids);
    ASSERT_TRUE(store_->Commit().ok());
  }
  std::int64_t RowsOfTheDatabase() {
    return *Database::Open(folder_ + "/calibd.db")->QueryInteger("SELECT count(*) FROM log");
  }
  std::vector<std::int64_t> Ids() const {
    std::vector<std::int64_t> ids;
    std::deque<std::string> data;
    for (const StoredBatch& batch : ReadLog(*store_, data)) ids.push_back(batch.log_id);
    return ids;
  }
};

TEST_F(RetirementTest, ReportsWrittenBytesInsteadOfFileSizes) {
  const std::int64_t empty = store_->log_bytes();
  EXPECT_LT(empty, 1000);
  Append(1, 5000);
  const std::int64_t one = store_->log_bytes();
  EXPECT_GE(one, empty + 5000);
  EXPECT_LT(one, empty + 5200);
  Open();
  EXPECT_EQ(store_->log_bytes(), one);
  // Over several files.
  for (int i = 0; i < 50; ++i) Append(1, 5000);
  EXPECT_GE(store_->log_bytes(), 51 * 5000);
  EXPECT_LT(store_->log_bytes(), 51 * 5200);
}

TEST_F(RetirementTest, NeededRowsStayAndTheRestIsRemoved) {
  // Every 20th is of an idle model and stays needed.
  std::vector<std::int64_t> kept;
  std::int64_t most = 0;
  for (std::int64_t id = 1; id <= 500; ++id) {
    const bool idle = id % 20 == 0;
    Append(idle ? 1 : 2, idle ? 100 : 3000);
    if (idle) {
      kept.push_back(id);
    } else {
      Release({id});
    }
    for (bool more = true; more;) {
      const absl::StatusOr<bool> retired = store_->Retire();
      ASSERT_TRUE(retired.ok()) << retired.status();
      more = *retired;
    }
    most = std::max(most, store_->log_bytes());
  }
  EXPECT_LE(most, static_cast<std::int64_t>(6 * kSegment));
  EXPECT_GT(RowsOfTheDatabase(), 15);
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::int64_t> ids = Ids();
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    EXPECT_TRUE(std::includes(ids.begin(), ids.end(), kept.begin(), kept.end()));
    EXPECT_LT(ids.size(), kept.size() + 6 * 25);
    EXPECT_EQ(ids.back(), 500);
    EXPECT_EQ(*store_->ReadBatch(kept.front()), std::string(100, 'x'));
    EXPECT_EQ(*store_->ReadBatch(kept.back()), std::string(100, 'x'));
    Open();
  }
  EXPECT_EQ(store_->next_log_id(), 501);
  // Rows of the database go with its later transactions.
  Release(kept);
  Release({});
  EXPECT_EQ(RowsOfTheDatabase(), 0);
}

TEST_F(RetirementTest, NothingIsRetiredWhileTheLogIsHeld) {
  store_->HoldLog();
  for (std::int64_t id = 1; id <= 100; ++id) {
    Append(1, 3000);
    Release({id});
    ASSERT_FALSE(*store_->Retire());
  }
  EXPECT_EQ(store_->extents().front().first_log_id, 1);
  store_->ReleaseLog();
  while (*store_->Retire()) {
  }
  EXPECT_EQ(store_->extents().size(), 1U);
}

TEST_F(StoreTest, CheckpointsLoseNothing) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(store_->Begin().ok());
    ASSERT_TRUE(store_
                    ->PutSnapshot({.model_id = i + 1,
                                   .log_id = 1,
                                   .data = std::string(10000, 'x'),
                                   .first_log_id = 1,
                                   .matured_log_id = 0})
                    .ok());
    ASSERT_TRUE(store_->Commit().ok());
    if (i == 30) {
      EXPECT_GT(store_->wal_pages(), 90);
      ASSERT_TRUE(store_->Checkpoint().ok());
    }
  }
  EXPECT_LT(store_->wal_pages(), 150);
  Open();
  EXPECT_EQ(*Database::Open(folder_ + "/calibd.db")->QueryInteger("SELECT count(*) FROM snapshots"),
            50);
}

TEST_F(StoreTest, ConsecutiveWritesWithOneTargetAreOneTransaction) {
  CommitQueue queue(std::move(store_), [](const absl::Status&) { FAIL(); });
  std::vector<std::string> events;
  std::promise<void> go;
  testing::PostToDatabase(queue, {.write = [&go](Store&) {
                            go.get_future().wait();
                            return absl::OkStatus();
                          }});
  const auto post = [&](const std::string& name, bool to_log, bool fails) {
    testing::TestSteps steps{.write = [=](Store& store) -> absl::Status {
                               if (to_log) store.AppendBatch(1, 1, "x");
                               return fails    ? absl::ResourceExhaustedError("full")
                                      : to_log ? absl::OkStatus()
                                               : store.InsertModel(1, Named(name));
                             },
                             .undo = [&events, name] { events.push_back("undo " + name); },
                             .finish =
                                 [&events, name](const absl::Status& status) {
                                   events.push_back((status.ok() ? "done " : "failed ") + name);
                                 }};
    if (to_log) {
      testing::PostToLog(queue, std::move(steps));
    } else {
      testing::PostToDatabase(queue, std::move(steps));
    }
  };
  post("a", true, false);
  post("b", true, true);
  post("models/c", false, false);
  post("d", true, false);
  go.set_value();
  queue.Flush();
  EXPECT_THAT(events,
              ElementsAre("undo b", "undo a", "failed a", "failed b", "done models/c", "done d"));
  queue.Stop();
}

TEST_F(StoreTest, TheQueueWritesInOrderAndSaysWhenItIsDone) {
  CommitQueue queue(std::move(store_), [](const absl::Status&) { FAIL(); });
  std::vector<int> done;
  for (int i = 0; i < 100; ++i) {
    testing::PostToLog(queue, {.write = [i](Store& store) -> absl::Status {
                                 EXPECT_EQ(store.AppendBatch(1, i, std::to_string(i)), i + 1);
                                 return absl::OkStatus();
                               },
                               .undo = [] { FAIL(); },
                               .finish =
                                   [&done, i](const absl::Status& status) {
                                     EXPECT_TRUE(status.ok()) << status;
                                     done.push_back(i);
                                   }});
  }
  queue.Flush();
  EXPECT_EQ(done.size(), 100U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  queue.Stop();
}

TEST_F(StoreTest, AFailedTransactionIsUndoneNewestFirst) {
  std::promise<absl::Status> failure;
  std::vector<std::string> events;
  {
    CommitQueue queue(std::move(store_),
                      [&](const absl::Status& status) { failure.set_value(status); });
    // Holds the storage thread, so that the others come into one transaction.
    std::promise<void> held;
    std::promise<void> go;
    testing::PostToLog(queue, {.write = [&held, &go](Store&) -> absl::Status {
                         held.set_value();
                         go.get_future().wait();
                         return absl::OkStatus();
                       }});
    held.get_future().wait();
    for (const std::string& name : {std::string("a"), std::string("b")}) {
      testing::PostToLog(
          queue, {.write = [&events, name](Store& store) -> absl::Status {
                    events.push_back("write " + name);
                    store.AppendBatch(1, 1, name);
                    return name == "b" ? absl::UnavailableError("broken disk") : absl::OkStatus();
                  },
                  .undo = [&events, name] { events.push_back("undo " + name); },
                  .finish =
                      [&events, name](const absl::Status& status) {
                        events.push_back("done " + name + " " + std::string(status.message()));
                      }});
    }
    go.set_value();
    queue.Flush();
    EXPECT_THAT(events, ElementsAre("write a", "write b", "undo b", "undo a", "done a broken disk",
                                    "done b broken disk"));
    EXPECT_EQ(failure.get_future().get().message(), "broken disk");
    // Nothing is written after that.
    absl::Status later;
    testing::PostToDatabase(queue,
                            {.write = [](Store&) -> absl::Status {
                               ADD_FAILURE() << "wrote after a failure";
                               return absl::OkStatus();
                             },
                             .finish = [&later](const absl::Status& status) { later = status; }});
    queue.Flush();
    EXPECT_THAT(std::string(later.message()), HasSubstr("the store failed earlier: broken disk"));
  }
  Open();
  EXPECT_TRUE(Log(*store_).empty());
}

TEST(DatabaseTest, ErrorsNameTheFailedActionButNoStatement) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "calibd.db").string();
  absl::StatusOr<Database> database = Database::Open(path);
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(database->Execute("INSERT INTO missing VALUES (1)").message(),
            "the store cannot write " + path + ": no such table: missing (SQLite 1)");
  EXPECT_EQ(Statement::Prepare(*database, "SELECT id FROM missing").status().message(),
            "the store cannot read " + path + ": no such table: missing (SQLite 1)");
}

}  // namespace
}  // namespace calibd::server
