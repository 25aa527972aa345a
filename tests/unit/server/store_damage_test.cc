// Data that is changed, lost or in the wrong place is detected before it is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/store/local/database_state.h"
#include "server/store/local/history_table.h"
#include "server/store/local/local_store.h"
#include "server/store/local/table.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBuckets = 6;
constexpr std::uint64_t kStoreDamageSegment = 65536;
constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

v1::Model Declared(const std::string& name) {
  v1::Model model;
  model.set_name(name);
  return model;
}

// Fills every table with at least two rows.
void Fill(LocalStore& store) {
  ASSERT_TRUE(store.Begin().ok());
  for (const std::int64_t id : {1, 2}) {
    ASSERT_TRUE(store.InsertModel(id, Declared(absl::StrCat("models/", id))).ok());
    ASSERT_TRUE(store
                    .PutSnapshot({.model_id = id,
                                  .log_id = 1,
                                  .data = absl::StrCat("state ", id),
                                  .first_log_id = 1,
                                  .matured_log_id = 1})
                    .ok());
    for (const char* producer : {"p", "q"}) {
      ASSERT_TRUE(store
                      .PutCursor({.model_id = id,
                                  .producer_id = producer,
                                  .epoch = 3,
                                  .last_sequence = 4,
                                  .contents = "hashes"})
                      .ok());
    }
    for (std::int64_t start_s = 1; start_s <= kBuckets; ++start_s) {
      ASSERT_TRUE(store
                      .PutHistory({.series = {.model_id = id, .resolution = 1},
                                   .start_s = start_s * 10,
                                   .data = absl::StrCat("bucket ", start_s)})
                      .ok());
    }
  }
  ASSERT_TRUE(store.Commit().ok());
  // The first files of the log are compacted.
  std::vector<std::int64_t> unneeded;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t log_id = store.AppendBatch(1 + i % 2, 5, std::string(4000, 'x'));
    ASSERT_TRUE(store.CommitLog().ok());
    if (i % 10 != 0) unneeded.push_back(log_id);
  }
  store.DropBatches(unneeded);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t log_id = store.AppendBatch(1, 5, std::string(4000, 'y'));
    ASSERT_TRUE(store.CommitLog().ok());
    store.DropBatches(std::vector<std::int64_t>{log_id});
  }
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = store.Retire();
  ASSERT_TRUE(more.ok()) << more.status();
}

// Reads what a start reads.
absl::Status Start(LocalStore& store) {
  absl::Status status = store.ReadModels([](const StoredModel&) { return absl::OkStatus(); });
  if (status.ok()) {
    status = store.ReadCursors([](const StoredCursor&) { return absl::OkStatus(); });
  }
  if (status.ok()) {
    status = store.ReadLog([](const StoredBatch&) { return absl::OkStatus(); });
  }
  if (status.ok()) store.FinishRecovery({});
  return status;
}

absl::Status OpenAndStart(const std::string& folder) {
  const auto store = LocalStore::Open(folder, kStoreDamageSegment);
  return store.ok() ? Start(**store) : store.status();
}

absl::Status ReadRange(const std::string& folder, std::int64_t from_s, std::int64_t end_s,
                       std::vector<std::int64_t>* starts = nullptr) {
  auto database = Database::Open(folder + "/calibd.db");
  return ReadHistory(*database, {.model_id = 1, .resolution = 1}, {from_s, end_s},
                     [&](std::int64_t start_s, std::string_view) {
                       if (starts != nullptr) starts->push_back(start_s);
                       return absl::OkStatus();
                     });
}

void ExpectDamage(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(text), HasSubstr("restore a backup")));
}

class StoreDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = LocalStore::Open(data_, kStoreDamageSegment);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(Start(**store).ok());
    ASSERT_NO_FATAL_FAILURE(Fill(**store));
    // A copy of the files as they are after a kill.
    std::filesystem::copy(data_, killed_);
    const absl::Status closed = (*store)->Close();
    ASSERT_TRUE(closed.ok()) << closed;
  }

  // Returns a copy of the store that was closed properly, or of the one that was not.
  std::string Copy(bool killed = false) {
    const std::string copy = (folder_.path() / "copy").string();
    std::filesystem::remove_all(copy);
    std::filesystem::copy(killed ? killed_ : data_, copy);
    return copy;
  }
  // Returns a copy whose database was changed by this statement.
  std::string Changed(const std::string& sql) {
    std::string copy = Copy();
    const absl::Status status = Database::Open(copy + "/calibd.db")->Execute(sql.c_str());
    EXPECT_TRUE(status.ok()) << sql << ": " << status;
    return copy;
  }

  // A backup of the store, which has rows in its table `log`.
  std::string Backup() {
    std::string backup = (folder_.path() / "backup").string();
    std::filesystem::remove_all(backup);
    std::filesystem::create_directory(backup);
    std::filesystem::copy_file(data_ + "/calibd.db", backup + "/calibd.db");
    auto database = Database::Open(backup + "/calibd.db");
    EXPECT_TRUE(database->Execute("BEGIN").ok());
    absl::StatusOr<DatabaseState> state = ReadState(*database);
    auto log = TableWriter::Prepare(*database, Table::kLog, &state->sum(Table::kLog));
    for (const std::int64_t id : {2, 5, 6}) {
      EXPECT_TRUE(log->Insert({id, std::int64_t{1}, std::int64_t{5}, "row"}).ok());
    }
    state->complete = true;
    EXPECT_TRUE(StateWriter::Prepare(*database)->WriteAll(*state).ok());
    EXPECT_TRUE(database->Execute("COMMIT").ok());
    return backup;
  }
  // A backup in which this was done to the database.
  std::string ChangedBackup(const std::string& sql) {
    std::string backup = Backup();
    const absl::Status status = Database::Open(backup + "/calibd.db")->Execute(sql.c_str());
    EXPECT_TRUE(status.ok()) << sql << ": " << status;
    return backup;
  }

  testing::TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  const std::string killed_ = (folder_.path() / "killed").string();
};

TEST_F(StoreDamageTest, AnUndamagedStoreStarts) {
  EXPECT_TRUE(OpenAndStart(Copy()).ok());
  EXPECT_TRUE(OpenAndStart(Copy(/*killed=*/true)).ok());
  const std::string backup = Backup();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(OpenAndStart(backup).ok());
  EXPECT_TRUE(ReadRange(Copy(), kNoRow, kEnd).ok());
}

// A statement that fails may end its transaction. Those after it must not be durable alone.
TEST_F(StoreDamageTest, RowsAreWrittenOnlyWithinATransaction) {
  const std::string copy = Copy();
  auto database = Database::Open(copy + "/calibd.db");
  TableSum sum;
  auto cursors = TableWriter::Prepare(*database, Table::kCursors, &sum);
  const auto insert = [&] {
    return cursors->Insert({std::int64_t{1}, "late", std::int64_t{1}, std::int64_t{1}, ""});
  };
  EXPECT_TRUE(absl::IsUnavailable(insert()));
  EXPECT_TRUE(absl::IsUnavailable(cursors->Delete({std::int64_t{1}, "late"})));
  EXPECT_EQ(sum.rows, 0);
  EXPECT_TRUE(database->Execute("BEGIN").ok());
  EXPECT_TRUE(insert().ok());
  EXPECT_TRUE(database->Execute("ROLLBACK").ok());
  EXPECT_TRUE(absl::IsUnavailable(insert()));
  EXPECT_TRUE(OpenAndStart(copy).ok());
}

TEST_F(StoreDamageTest, EveryColumnOfEveryTableIsChecked) {
  for (std::size_t i = 0; i < kTableCount; ++i) {
    const auto table = static_cast<Table>(i);
    const TableInfo& info = InfoOf(table);
    std::vector<std::string> columns = absl::StrSplit(info.columns, ", ");
    columns.emplace_back("checksum");
    const std::string where =
        absl::StrCat(" WHERE rowid IN (SELECT rowid FROM ", info.name, " LIMIT 1)");
    for (const std::string& column : columns) {
      // One row; the last one if the table has no row numbers.
      const bool has_rowid = !absl::StrContains(info.create, "WITHOUT ROWID");
      const std::string one =
          has_rowid ? where
                    : absl::StrCat(" WHERE checksum = (SELECT max(checksum) FROM ", info.name, ")");
      const std::string change =
          absl::StrCat("UPDATE ", info.name, " SET ", column, " = CASE typeof(", column,
                       ") WHEN 'integer' THEN ", column, " + 100 ELSE CAST(", column,
                       " || 'x' AS BLOB) END", one);
      // Only a backup has rows in the table `log`.
      const std::string folder = table == Table::kLog ? ChangedBackup(change) : Changed(change);
      SCOPED_TRACE(absl::StrCat(info.name, ".", column));
      absl::Status status = OpenAndStart(folder);
      if (table == Table::kHistory && status.ok()) {
        status = ReadRange(folder, kNoRow, kEnd);
        if (status.ok()) {
          auto database = Database::Open(folder + "/calibd.db");
          status = ReadHistory(*database, {.model_id = 2, .resolution = 1}, {},
                               [](std::int64_t, std::string_view) { return absl::OkStatus(); });
        }
      }
      ExpectDamage(status, "calibd.db");
    }
  }
}

TEST_F(StoreDamageTest, LostRowsAreDetected) {
  for (const char* table : {"models", "cursors", "maturity", "snapshots", "log", "history_spans"}) {
    SCOPED_TRACE(table);
    const std::string rest =
        absl::StrCat(" WHERE checksum = (SELECT min(checksum) FROM ", table, ")");
    ExpectDamage(OpenAndStart(ChangedBackup(absl::StrCat("DELETE FROM ", table, rest))), table);
    ExpectDamage(OpenAndStart(ChangedBackup(absl::StrCat("DELETE FROM ", table))), table);
  }
  ExpectDamage(OpenAndStart(Changed("DELETE FROM store")), "store");
  ExpectDamage(OpenAndStart(Changed("DELETE FROM tables WHERE name = x'6c6f67'")), "log");
}

TEST_F(StoreDamageTest, ReappearingAndOlderRowsAreDetected) {
  // The row was valid once: it belongs to a model that was deleted since, or is an older cursor.
  const std::string row = "(SELECT checksum FROM old.cursors WHERE producer_id = x'70' LIMIT 1)";
  {
    auto store = LocalStore::Open(data_, kStoreDamageSegment);
    ASSERT_TRUE(store.ok() && Start(**store).ok());
    ASSERT_TRUE((*store)->Begin().ok());
    ASSERT_TRUE((*store)->DeleteModel(2).ok());
    ASSERT_TRUE((*store)
                    ->PutCursor({.model_id = 1,
                                 .producer_id = "p",
                                 .epoch = 3,
                                 .last_sequence = 5,
                                 .contents = "hashes"})
                    .ok());
    ASSERT_TRUE((*store)->Commit().ok());
    ASSERT_TRUE((*store)->Close().ok());
  }
  const std::string attach = absl::StrCat("ATTACH '", killed_, "/calibd.db' AS old; ");
  EXPECT_TRUE(OpenAndStart(Copy()).ok());
  ExpectDamage(
      OpenAndStart(Changed(attach + "INSERT INTO models SELECT * FROM old.models WHERE id = 2")),
      "models");
  ExpectDamage(OpenAndStart(Changed(attach + "INSERT OR REPLACE INTO cursors SELECT * FROM "
                                             "old.cursors WHERE model_id = 1")),
               "cursors");
}

TEST_F(StoreDamageTest, SwappedContentsAreDetected) {
  ExpectDamage(
      OpenAndStart(Changed("UPDATE snapshots SET (data, checksum) = (SELECT data, checksum "
                           "FROM snapshots AS other WHERE other.model_id != "
                           "snapshots.model_id)")),
      "snapshots, with model_id = 1");
  ExpectDamage(OpenAndStart(Changed("UPDATE snapshots SET model_id = 3 WHERE model_id = 1; "
                                    "UPDATE snapshots SET model_id = 1 WHERE model_id = 2; "
                                    "UPDATE snapshots SET model_id = 2 WHERE model_id = 3")),
               "snapshots");
}

TEST_F(StoreDamageTest, TheSchemaMustMatchExactly) {
  ExpectDamage(OpenAndStart(Changed("DROP TABLE maturity")), "tables");
  ExpectDamage(OpenAndStart(Changed("CREATE TABLE more (id)")), "more");
  ExpectDamage(OpenAndStart(Changed("ALTER TABLE log RENAME COLUMN data TO dota")), "log");
  ExpectDamage(OpenAndStart(Changed("PRAGMA application_id = 0")), "application_id");
  ExpectDamage(OpenAndStart(Changed("INSERT INTO log VALUES (1, 1, 1, x'00', 1)")), "log");
  for (const int version : {-1, 0}) {
    ExpectDamage(OpenAndStart(Changed(absl::StrCat("PRAGMA user_version = ", version))),
                 "user_version");
  }
  EXPECT_EQ(OpenAndStart(Changed("PRAGMA user_version = 2")).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreDamageTest, APartOfAHistoryWithAMissingRowIsAnError) {
  for (std::int64_t lost = 1; lost <= kBuckets; ++lost) {
    const std::string folder =
        Changed(absl::StrCat("DELETE FROM history WHERE model_id = 1 AND start_s = ", lost * 10));
    for (std::int64_t from = 0; from <= kBuckets + 1; ++from) {
      for (std::int64_t end = from; end <= kBuckets + 2; ++end) {
        const absl::Status status = ReadRange(folder, from * 10, end * 10);
        if (from <= lost && lost < end) {
          ExpectDamage(status, "the history of model 1 in resolution 1");
        }
      }
    }
  }
}

TEST_F(StoreDamageTest, PartsOfAHistoryContainTheirRows) {
  for (std::int64_t from = 0; from <= kBuckets + 1; ++from) {
    for (std::int64_t end = from; end <= kBuckets + 2; ++end) {
      std::vector<std::int64_t> starts;
      const absl::Status status = ReadRange(data_, from * 10, end * 10, &starts);
      ASSERT_TRUE(status.ok()) << from << ".." << end << ": " << status;
      std::vector<std::int64_t> expected;
      for (std::int64_t i = std::max<std::int64_t>(1, from); i <= kBuckets && i < end; ++i) {
        expected.push_back(i * 10);
      }
      EXPECT_EQ(starts, expected);
    }
  }
}

TEST_F(StoreDamageTest, AHistoryStaysLinkedAfterAnyWrite) {
  const std::string folder = Copy();
  auto store = LocalStore::Open(folder, kStoreDamageSegment);
  ASSERT_TRUE(store.ok() && Start(**store).ok());
  const auto put = [&](std::int64_t start_s) {
    ASSERT_TRUE((*store)->Begin().ok());
    ASSERT_TRUE(
        (*store)
            ->PutHistory(
                {.series = {.model_id = 1, .resolution = 1}, .start_s = start_s, .data = "new"})
            .ok());
    ASSERT_TRUE((*store)->Commit().ok());
  };
  const auto forget = [&](std::int64_t before_s) {
    ASSERT_TRUE((*store)->Begin().ok());
    ASSERT_TRUE((*store)->DeleteHistory({.model_id = 1, .resolution = 1}, before_s).ok());
    ASSERT_TRUE((*store)->Commit().ok());
  };
  const auto starts = [&] {
    std::vector<std::int64_t> found;
    const absl::Status status = ReadRange(folder, kNoRow, kEnd, &found);
    EXPECT_TRUE(status.ok()) << status;
    return found;
  };
  using Starts = std::vector<std::int64_t>;
  // Replaces a row, and adds one in the middle, before the first and after the last.
  for (const std::int64_t start_s : {30, 35, 5, 70, 60, 5}) put(start_s);
  EXPECT_EQ(starts(), (Starts{5, 10, 20, 30, 35, 40, 50, 60, 70}));
  forget(30);
  EXPECT_EQ(starts(), (Starts{30, 35, 40, 50, 60, 70}));
  for (const std::int64_t start_s : {30, 35}) put(start_s);
  forget(31);
  EXPECT_EQ(starts(), (Starts{35, 40, 50, 60, 70}));
  EXPECT_TRUE(ReadRange(folder, 0, 36).ok());
  EXPECT_TRUE(ReadRange(folder, 32, 34).ok());
  forget(100);
  EXPECT_EQ(starts(), Starts());
  put(110);
  EXPECT_EQ(starts(), Starts{110});
  ASSERT_TRUE((*store)->Begin().ok());
  ASSERT_TRUE((*store)->DeleteModel(1).ok());
  ASSERT_TRUE((*store)->Commit().ok());
  EXPECT_EQ(starts(), Starts());
  store->reset();
  EXPECT_TRUE(OpenAndStart(folder).ok());
}

TEST_F(StoreDamageTest, MissingAndForeignFilesAreNamed) {
  const std::string other = (folder_.path() / "other").string();
  {
    auto store = LocalStore::Open(other, kStoreDamageSegment);
    ASSERT_TRUE(store.ok() && Start(**store).ok());
    ASSERT_NO_FATAL_FAILURE(Fill(**store));
    ASSERT_TRUE((*store)->Close().ok());
  }
  std::string segment;
  for (const auto& entry : std::filesystem::directory_iterator(data_)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "log-")) segment = std::max(segment, name);
  }
  for (const bool killed : {false, true}) {
    for (const std::string& file : {std::string("calibd.db"), std::string("store"), segment}) {
      SCOPED_TRACE(absl::StrCat(file, killed ? " after a kill" : ""));
      std::string copy = Copy(killed);
      std::filesystem::remove(copy + "/" + file);
      ExpectDamage(OpenAndStart(copy), file);
      EXPECT_FALSE(std::filesystem::exists(copy + "/" + file));
      copy = Copy(killed);
      std::filesystem::resize_file(copy + "/" + file, 0);
      ExpectDamage(OpenAndStart(copy), file);
      EXPECT_EQ(std::filesystem::file_size(copy + "/" + file), 0U);
      copy = Copy(killed);
      std::filesystem::copy_file(other + "/" + file, copy + "/" + file,
                                 std::filesystem::copy_options::overwrite_existing);
      // The write-ahead log belongs to the store.
      if (file == "calibd.db") std::filesystem::remove(copy + "/calibd.db-wal");
      ExpectDamage(OpenAndStart(copy), file);
    }
  }
}

TEST_F(StoreDamageTest, ALostOrForeignWriteAheadLogIsDetected) {
  ASSERT_GT(std::filesystem::file_size(killed_ + "/calibd.db-wal"), 0U);
  std::string copy = Copy(/*killed=*/true);
  std::filesystem::remove(copy + "/calibd.db-wal");
  ExpectDamage(OpenAndStart(copy), "calibd.db");
  // There is none beside a store that was closed properly.
  copy = Copy();
  std::filesystem::copy_file(killed_ + "/calibd.db-wal", copy + "/calibd.db-wal");
  ExpectDamage(OpenAndStart(copy), "calibd.db-wal");
}

TEST_F(StoreDamageTest, AnOlderDatabaseOfTheSameStoreIsRefused) {
  const std::string before = Copy();
  std::filesystem::rename(before, before + ".old");
  auto store = LocalStore::Open(data_, kStoreDamageSegment);
  ASSERT_TRUE(store.ok() && Start(**store).ok());
  ASSERT_TRUE((*store)->Begin().ok());
  ASSERT_TRUE((*store)->InsertModel(7, Declared("models/new")).ok());
  ASSERT_TRUE((*store)->Commit().ok());
  ASSERT_TRUE((*store)->Close().ok());
  store->reset();
  std::filesystem::copy_file(before + ".old/calibd.db", data_ + "/calibd.db",
                             std::filesystem::copy_options::overwrite_existing);
  ExpectDamage(OpenAndStart(data_), "ends with transaction");
}

TEST_F(StoreDamageTest, AFailedStartDoesNotMakeTheNextOneLessStrict) {
  // The log is truncated: it ends earlier than when the store was closed.
  const std::string copy = Changed("DELETE FROM models");
  for (int i = 0; i < 2; ++i) {
    ExpectDamage(OpenAndStart(copy), "models");
    const auto file = StoreFile::Open(copy);
    ASSERT_TRUE(file.ok() && file->has_value());
    EXPECT_TRUE((*file)->mark().clean);
  }
}

TEST_F(StoreDamageTest, OnlyARecoveredStoreIsMarkedAsClosed) {
  const std::string copy = Copy(/*killed=*/true);
  const auto clean = [&copy] { return (*StoreFile::Open(copy))->mark().clean; };
  {
    auto store = LocalStore::Open(copy, kStoreDamageSegment);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Close().ok());
  }
  EXPECT_FALSE(clean());
  {
    auto store = LocalStore::Open(copy, kStoreDamageSegment);
    ASSERT_TRUE(store.ok() && Start(**store).ok());
    ASSERT_TRUE((*store)->Close().ok());
  }
  EXPECT_TRUE(clean());
  auto store = LocalStore::Open(copy, kStoreDamageSegment);
  ASSERT_TRUE(store.ok() && Start(**store).ok());
  EXPECT_TRUE(clean());
  ASSERT_TRUE((*store)->Begin().ok());
  EXPECT_FALSE(clean());
}

}  // namespace
}  // namespace calibd::server
