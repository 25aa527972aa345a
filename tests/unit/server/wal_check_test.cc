#include "server/store/local/wal_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "server/store/local/sqlite.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kWalHeader = 32;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFrame = 24 + kPage;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Real logs that SQLite writes as the server uses it. They are copied while they are open, which is
// their state after a kill.
class WalCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = *Database::Open(path());
    Execute(
        "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
        "PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)");
  }

  void Execute(const std::string& sql) {
    const absl::Status status = database_.Execute(sql.c_str());
    ASSERT_TRUE(status.ok()) << status;
  }
  // Commits a transaction of at least this many pages.
  void Insert(int pages) {
    Execute("INSERT INTO t (data) VALUES (randomblob(" + std::to_string(4090 * pages) + "))");
  }
  // Copies the complete log into the database; the next transaction begins a new generation.
  void Checkpoint() {
    ASSERT_EQ(sqlite3_wal_checkpoint_v2(database_.handle(), nullptr, SQLITE_CHECKPOINT_RESTART,
                                        nullptr, nullptr),
              SQLITE_OK);
  }

  [[nodiscard]] std::string path() const { return folder_.path() / "calibd.db"; }
  [[nodiscard]] std::string Wal() const { return ReadFile(path() + "-wal"); }
  // Returns the number of frames that belong to the current generation.
  [[nodiscard]] static std::size_t CurrentFrames(const std::string& wal) {
    std::size_t frames = 0;
    while (kWalHeader + frames * kFrame < wal.size() &&
           wal.compare(kWalHeader + frames * kFrame + 8, 8, wal, 16, 8) == 0) {
      ++frames;
    }
    return frames;
  }

  // Checks a log beside a copy of the database.
  absl::StatusOr<WalContents> Check(const std::string& wal) {
    std::filesystem::copy_file(path(), copy(), std::filesystem::copy_options::overwrite_existing);
    WriteFile(copy() + "-wal", wal);
    return ReadWal(copy());
  }
  // Returns the number of rows that SQLite finds with the log that was checked last.
  [[nodiscard]] std::int64_t RowsOfCopy() const {
    auto database = Database::Open(copy());
    const absl::StatusOr<std::int64_t> rows =
        database.ok() ? database->QueryInteger("SELECT count(*) FROM t") : database.status();
    return rows.ok() ? *rows : -1;
  }
  [[nodiscard]] std::string copy() const { return folder_.path() / "copy.db"; }

  const testing::TemporaryFolder folder_;
  Database database_;
};

TEST_F(WalCheckTest, CountsTheTransactionsOfThisGeneration) {
  // The pragma and the table are two transactions.
  const std::int64_t before = Check(Wal())->commits;
  EXPECT_GE(before, 1);
  for (int i = 0; i < 5; ++i) Insert(3);
  EXPECT_EQ(Check(Wal())->commits, before + 5);
  EXPECT_EQ(Check(Wal())->discarded_frames, 0);
  Checkpoint();
  const std::size_t size = Wal().size();
  Insert(1);
  EXPECT_EQ(Wal().size(), size) << "the file is used again";
  EXPECT_EQ(Check(Wal())->commits, 1);
  EXPECT_EQ(Check(Wal())->discarded_frames, 0);
  Insert(2);
  EXPECT_EQ(Check(Wal())->commits, 2);
}

TEST_F(WalCheckTest, AnEmptyLogHoldsNothing) {
  EXPECT_EQ(ReadWal(folder_.path() / "missing.db")->commits, 0);
  const std::string wal = Wal();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kWalHeader}) {
    const auto contents = Check(wal.substr(0, size));
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->commits, 0);
  }
}

TEST_F(WalCheckTest, ADamagedHeaderIsDamage) {
  Insert(1);
  const std::string wal = Wal();
  for (std::size_t bit = 0; bit < 8 * kWalHeader; ++bit) {
    std::string damaged = wal;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto contents = Check(damaged);
    ASSERT_EQ(contents.status().code(), absl::StatusCode::kDataLoss) << bit;
    ASSERT_THAT(std::string(contents.status().message()), HasSubstr("copy.db-wal has a damaged"));
  }
}

// Flips every bit of a log that also has frames of an earlier generation. If SQLite loses
// something, it must be an error, or the incomplete end must be reported.
TEST_F(WalCheckTest, NoLossIsSilent) {
  for (int i = 0; i < 4; ++i) Insert(3);
  Checkpoint();
  for (int i = 0; i < 3; ++i) Insert(2);
  const std::string wal = Wal();
  const std::size_t frames = CurrentFrames(wal);
  ASSERT_GT(wal.size(), kWalHeader + frames * kFrame);
  const auto whole = Check(wal);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::int64_t rows = RowsOfCopy();
  ASSERT_EQ(rows, 7);
  std::mt19937 random(1);
  int errors = 0;
  int notes = 0;
  for (std::size_t frame = 0; frame < frames + 1; ++frame) {
    // The whole header of the frame, and a part of its page.
    for (int i = 0; i < 24 + 20; ++i) {
      const std::size_t at = kWalHeader + frame * kFrame +
                             (i < 24 ? static_cast<std::size_t>(i) : 24 + random() % kPage);
      std::string damaged = wal;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
      const auto contents = Check(damaged);
      if (!contents.ok()) {
        ASSERT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
        ++errors;
        continue;
      }
      const std::int64_t left = RowsOfCopy();
      ASSERT_EQ(rows - left, whole->commits - contents->commits) << at;
      // Each transaction has several frames: if the salts of all of them changed, they could not be
      // distinguished from frames of an earlier generation.
      ASSERT_TRUE(left == rows || contents->discarded_frames > 0) << at;
      notes += left < rows ? 1 : 0;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(notes, 0);
}

// A power cut may leave any part of the last transaction, which was not synced.
TEST_F(WalCheckTest, AnIncompleteLastTransactionIsNotDamage) {
  for (int i = 0; i < 4; ++i) Insert(6);
  Checkpoint();
  Insert(1);
  const std::string before = Wal();
  Insert(4);
  const std::string after = Wal();
  ASSERT_EQ(before.size(), after.size());
  const std::size_t begin = kWalHeader + CurrentFrames(before) * kFrame;
  const std::size_t end = kWalHeader + CurrentFrames(after) * kFrame;
  ASSERT_GE(end - begin, 4 * kFrame);
  const std::int64_t commits = Check(before)->commits;
  std::mt19937 random(2);
  int incomplete = 0;
  for (int i = 0; i < 200; ++i) {
    std::string torn = before;
    for (std::size_t sector = begin / 512 * 512; sector < end; sector += 512) {
      if (random() % 2 == 0) torn.replace(sector, 512, after, sector, 512);
    }
    const auto contents = Check(torn);
    ASSERT_TRUE(contents.ok()) << contents.status();
    ASSERT_EQ(contents->commits, commits);
    incomplete += contents->discarded_frames > 0 ? 1 : 0;
  }
  EXPECT_GT(incomplete, 100);
}

// SQLite overwrites the remains of a transaction after a power cut and keeps the salts. Frames that
// it has not overwritten still exist at the next power cut.
TEST_F(WalCheckTest, RemainsOfAPowerCutDoNotReappearAfterAnother) {
  for (int i = 0; i < 4; ++i) Insert(12);
  Checkpoint();
  Insert(1);
  const std::string before = Wal();
  Insert(8);
  const std::size_t begin = kWalHeader + CurrentFrames(before) * kFrame;
  // The first frame of the newest transaction was not written, but its commit frame was.
  const auto lose_first_frame = [&](std::string wal) {
    return wal.replace(begin, kFrame, before, begin, kFrame);
  };
  const std::string first_cut = lose_first_frame(Wal());
  const std::int64_t commits = Check(before)->commits;
  const std::int64_t rows = RowsOfCopy();
  const auto contents = Check(first_cut);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->commits, commits);
  const std::int64_t left_over = contents->discarded_frames;

  std::string next_log;
  {
    Database next = *Database::Open(copy());
    const absl::Status status = next.Execute(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; "
        "INSERT INTO t (data) VALUES (randomblob(4090))");
    ASSERT_TRUE(status.ok()) << status;
    next_log = ReadFile(copy() + "-wal");
  }
  const auto next = Check(next_log);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->commits, commits + 1);
  EXPECT_GT(next->discarded_frames, 0) << "all frames were written over";
  EXPECT_LT(next->discarded_frames, left_over);
  EXPECT_EQ(RowsOfCopy(), rows + 1);

  const auto second_cut = Check(lose_first_frame(next_log));
  ASSERT_TRUE(second_cut.ok()) << second_cut.status();
  EXPECT_EQ(second_cut->commits, commits);
  EXPECT_EQ(RowsOfCopy(), rows);
}

TEST_F(WalCheckTest, ATruncatedLogHasFewerTransactions) {
  for (int i = 0; i < 3; ++i) Insert(2);
  const std::string wal = Wal();
  const std::int64_t commits = Check(wal)->commits;
  const auto cut = Check(wal.substr(0, wal.size() - 1));
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->commits, commits - 1);
  EXPECT_GT(cut->discarded_frames, 0);
}

}  // namespace
}  // namespace calibd::server
