#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>

#include "server/store/local/database_state.h"
#include "server/store/local/local_store.h"
#include "server/store/local/table.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

// Reads the log from the files.
std::vector<StoredBatch> ReadLog(const LocalStore& store, std::deque<std::string>& data) {
  std::vector<StoredBatch> log;
  const auto add = [&](StoredBatch batch) {
    batch.data = data.emplace_back(batch.data);
    log.push_back(batch);
    return absl::OkStatus();
  };
  for (const LogFiles::Extent& extent : store.extents()) {
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
    auto store = LocalStore::Open(folder_, segment_bytes_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    const auto visit = [](const StoredBatch& /*batch*/) { return absl::OkStatus(); };
    const absl::Status read = store_->ReadLog(visit);
    ASSERT_TRUE(read.ok()) << read;
  }

  static v1::Model Named(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    return model;
  }

  static std::vector<std::string> Log(const LocalStore& store) {
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
  std::unique_ptr<LocalStore> store_;
};

// The bytes that this process has written to files so far.
std::int64_t WrittenBytes() {
  std::ifstream file("/proc/self/io");
  std::int64_t bytes = 0;
  for (std::string name; name != "wchar:" && file >> name >> bytes;) {
  }
  return bytes;
}

TEST_F(StoreTest, ASnapshotThatReplacesAnotherIsWrittenOnce) {
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->InsertModel(1, Named("models/a")).ok());
  ASSERT_TRUE(store_->Commit().ok());
  // More than SQLite's cache, and twice less than what begins a checkpoint on another thread.
  const std::string data(std::size_t{7} << 19, 'x');
  for (const std::int64_t log_id : {1, 2}) {
    const std::int64_t before = WrittenBytes();
    ASSERT_TRUE(store_->Begin().ok());
    ASSERT_TRUE(store_->PutSnapshot({.model_id = 1, .log_id = log_id, .data = data}).ok());
    ASSERT_TRUE(store_->Commit().ok());
    EXPECT_LT(WrittenBytes() - before, static_cast<std::int64_t>(data.size() * 11 / 10));
  }
}

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
                  ->ReadModels([&](const StoredModel& model) {
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
                  ->ReadCursors([&](const StoredCursor& cursor) {
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

  void SetUp() override {
    StoreTest::SetUp();
    ASSERT_TRUE(store_->Begin().ok());
    for (const std::int64_t id : {1, 2}) ASSERT_TRUE(store_->InsertModel(id, v1::Model()).ok());
    ASSERT_TRUE(store_->Commit().ok());
  }

  void Append(std::int64_t model_id, std::size_t bytes) {
    store_->AppendBatch(model_id, 5, std::string(bytes, 'x'));
    ASSERT_TRUE(store_->CommitLog().ok());
  }
  void Release(const std::vector<std::int64_t>& log_ids) {
    ASSERT_TRUE(store_->Begin().ok());
    store_->ReleaseBatches(log_ids);
    ASSERT_TRUE(store_->Commit().ok());
  }
  std::string DataOf(std::int64_t log_id) {
    std::string found;
    EXPECT_TRUE(store_
                    ->ReadBatches({&log_id, 1},
                                  [&found](std::string_view data) {
                                    found = data;
                                    return absl::OkStatus();
                                  })
                    .ok());
    return found;
  }
  std::vector<std::int64_t> Ids() const {
    std::vector<std::int64_t> ids;
    std::deque<std::string> data;
    for (const StoredBatch& batch : ReadLog(*store_, data)) ids.push_back(batch.log_id);
    return ids;
  }
};

TEST_F(RetirementTest, ReportsWrittenBytesInsteadOfFileSizes) {
  const std::int64_t empty = store_->sizes().log_bytes;
  EXPECT_LT(empty, 1000);
  Append(1, 5000);
  const std::int64_t one = store_->sizes().log_bytes;
  EXPECT_GE(one, empty + 5000);
  EXPECT_LT(one, empty + 5200);
  Open();
  EXPECT_EQ(store_->sizes().log_bytes, one);
  // The batches fill several files.
  for (int i = 0; i < 50; ++i) Append(1, 5000);
  EXPECT_GE(store_->sizes().log_bytes, 51 * 5000);
  EXPECT_LT(store_->sizes().log_bytes, 51 * 5200);
}

TEST_F(RetirementTest, NeededRowsStayAndTheRestIsRemoved) {
  // Every 20th batch belongs to an idle model and stays needed.
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
    most = std::max(most, store_->sizes().log_bytes);
  }
  EXPECT_LE(most, static_cast<std::int64_t>(6 * kSegment));
  EXPECT_LE(std::filesystem::file_size(folder_ + "/calibd.db"), 200000U);
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::int64_t> ids = Ids();
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    EXPECT_TRUE(std::includes(ids.begin(), ids.end(), kept.begin(), kept.end()));
    EXPECT_LT(ids.size(), kept.size() + 6 * 25);
    EXPECT_EQ(ids.back(), 500);
    EXPECT_EQ(DataOf(kept.front()), std::string(100, 'x'));
    EXPECT_EQ(DataOf(kept.back()), std::string(100, 'x'));
    Open();
  }
  EXPECT_EQ(store_->last_log_id(), 500);
  Release(kept);
  while (*store_->Retire()) {
  }
  EXPECT_GT(Ids().front(), kept.front());
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
