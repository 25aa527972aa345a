// The files of an archive, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/archive/archive_command.h"
#include "server/archive/archive_state.h"
#include "server/archive/archiver.h"
#include "server/ingest/commit_queue.h"
#include "server/store/local/archive_file.h"
#include "server/store/local/archive_restore.h"
#include "server/store/local/local_store.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace calibd::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr std::uint64_t kSegmentBytes = 16384;
constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();

bool GoOn() { return true; }

TEST(ArchiveCommandTest, NamesAreFilledIn) {
  EXPECT_EQ(ExpandArchiveCommand("cp %p /a/%f # 100%% %x %", "/s/log", "n"),
            "cp /s/log /a/n # 100% %x %");
}

TEST(ArchiveCommandTest, IncompleteCommandsAreRefused) {
  EXPECT_TRUE(CheckArchiveCommand("cp %p x%f", "/var/lib/calibd").ok());
  for (const char* command : {"", "cp", "cp %p x", "cp x %f", "cp %%p %%f"}) {
    EXPECT_THAT(CheckArchiveCommand(command, "/d").message(), HasSubstr("needs %p")) << command;
  }
  for (const char* folder : {"/a b", "/a;b", "/$(x)", "/a'b", "/a\nb"}) {
    EXPECT_THAT(CheckArchiveCommand("cp %p %f", folder).message(), HasSubstr("one word"));
  }
}

TEST(ArchiveCommandTest, ItsOutcomeIsReported) {
  const std::chrono::seconds limit(60);
  EXPECT_TRUE(RunArchiveCommand("true", limit, GoOn).ok());
  const absl::Status failed =
      RunArchiveCommand("printf 'a\\n\\033z'; printf y >&2; exit 3", limit, GoOn);
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(failed.message(), "the archive command failed with exit code 3: a\\n\\x1bzy");
  EXPECT_THAT(RunArchiveCommand("kill -9 $$", limit, GoOn).message(),
              HasSubstr("killed by signal 9"));
  // It has no input, and no descriptor of the server.
  EXPECT_TRUE(RunArchiveCommand("cat && [ $(ls /proc/self/fd | wc -l) -le 4 ]", limit, GoOn).ok());
}

TEST(ArchiveCommandTest, ItIsKilledWithItsChildren) {
  const testing::TemporaryFolder folder;
  const std::string pid = (folder.path() / "pid").string();
  const std::string command = "sleep 600 & echo $! > " + pid + "; wait";
  EXPECT_EQ(
      RunArchiveCommand(
          command, std::chrono::seconds(60),
          [&] { return !std::filesystem::exists(pid) || std::filesystem::file_size(pid) == 0; })
          .code(),
      absl::StatusCode::kCancelled);
  std::string child;
  std::ifstream(pid) >> child;
  ASSERT_FALSE(child.empty());
  // It ends soon after the signal; as an orphan it may stay a zombie.
  const std::string state = "for i in $(seq 600); do grep -qs '^State:.[^Z]' /proc/" + child +
                            "/status || exit 0; sleep 0.05; done; exit 1";
  EXPECT_TRUE(RunArchiveCommand(state, std::chrono::seconds(60), GoOn).ok());
  EXPECT_EQ(RunArchiveCommand("sleep 600", std::chrono::milliseconds(1), GoOn).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ArchiveNameTest, ANameSaysWhatItIs) {
  const ArchiveName name{.store = std::string(32, 'a'),
                         .number = 255,
                         .kind = ArchiveKind::kLog,
                         .checksum = std::string(32, '0')};
  const std::string text = name.Text();
  EXPECT_EQ(text,
            "calibd-" + std::string(32, 'a') + "-00000000000000ff-log-" + std::string(32, '0'));
  const auto parsed = ArchiveName::Parse(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->Text(), text);
  for (const std::string& wrong :
       {std::string("calibd.db"), text + "x", text.substr(1), "x" + text.substr(1),
        text.substr(0, 39) + "-zz-log-" + std::string(32, '0')}) {
    EXPECT_FALSE(ArchiveName::Parse(wrong).has_value()) << wrong;
  }
}

TEST(ArchiveStateTest, TheStateOfAnotherStoreIsIgnored) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "state").string();
  store::v1::ArchiveState state = ReadArchiveState(path, "a");
  EXPECT_EQ(state.log_id(), 0);
  EXPECT_EQ(state.store_id(), "a");
  state.set_log_id(7);
  ASSERT_TRUE(WriteArchiveState(path, state).ok());
  EXPECT_EQ(ReadArchiveState(path, "a").log_id(), 7);
  EXPECT_EQ(ReadArchiveState(path, "b").log_id(), 0);
  std::ofstream(path, std::ios::app) << '\xff';
  EXPECT_EQ(ReadArchiveState(path, "a").log_id(), 0);
}

// A store whose files a test puts into an archive.
class ArchiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(archive_);
    auto store = LocalStore::Open(Path("store"), kSegmentBytes);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    const auto ignore = [](const auto&) { return absl::OkStatus(); };
    ASSERT_TRUE(store_->ReadModels(ignore).ok());
    ASSERT_TRUE(store_->ReadLog(ignore).ok());
    store_->FinishRecovery({});
  }
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  void Create(std::int64_t id) const {
    v1::Model model;
    model.set_name("models/m" + std::to_string(id));
    ASSERT_TRUE(store_->Begin().ok());
    ASSERT_TRUE(store_->InsertModel(id, model).ok());
    ASSERT_TRUE(store_->Commit().ok());
  }
  std::int64_t Append(std::int64_t model, std::size_t bytes = 100) const {
    const std::int64_t id = store_->AppendBatch(model, 1000, std::string(bytes, 'x'));
    EXPECT_TRUE(store_->CommitLog().ok());
    return id;
  }
  // Puts a base or the next log file into the archive.
  void Base(std::int64_t number) {
    const auto view = *store_->OpenView();
    const auto file =
        view->WriteArchiveBase(number, folder_.path().string(), [](double) { return true; });
    ASSERT_TRUE(file.ok()) << file.status();
    std::filesystem::rename(file->path, archive_ / file->name);
    header_.add_base_numbers(number);
    if (header_.first_log_id() == 0) header_.set_first_log_id(view->end()->log_id);
  }
  absl::Status Log(std::int64_t number) {
    header_.set_version(1);
    header_.set_number(number);
    header_.set_time_us(number);
    const auto view = *store_->OpenView();
    const auto file = view->WriteArchiveLog(header_, folder_.path().string());
    if (!file.ok()) return file.status();
    std::filesystem::rename(file->path, archive_ / file->name);
    header_.set_previous(file->checksum);
    header_.set_first_log_id(header_.end_log_id());
    header_.set_first_model_id(header_.end_model_id());
    header_.clear_base_numbers();
    return absl::OkStatus();
  }

  struct Restored {
    RestoredStore store;
    std::vector<std::int64_t> models;
    std::vector<std::int64_t> batches;
  };
  absl::StatusOr<Restored> Restore() {
    auto store =
        RestoreArchive(archive_.string(), Path("restored" + std::to_string(++restores_)), "");
    if (!store.ok()) return store.status();
    Restored restored{.store = *std::move(store), .models = {}, .batches = {}};
    absl::Status status = restored.store.store->ReadModels([&](const StoredModel& model) {
      restored.models.push_back(model.id);
      return absl::OkStatus();
    });
    status.Update(restored.store.store->ReadLog([&](const StoredBatch& batch) {
      restored.batches.push_back(batch.log_id);
      return absl::OkStatus();
    }));
    if (!status.ok()) return status;
    return restored;
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path archive_ = folder_.path() / "archive";
  std::unique_ptr<LocalStore> store_;
  store::v1::ArchiveHeader header_;
  int restores_ = 0;
};

TEST_F(ArchiveTest, LogFilesContinueABase) {
  Create(1);
  Create(2);
  Append(1);
  Append(2);
  Base(10);
  Append(1);
  Create(3);
  Append(3);
  ASSERT_TRUE(Log(11).ok());
  ASSERT_TRUE(store_->Begin().ok());
  ASSERT_TRUE(store_->DeleteModel(2).ok());
  ASSERT_TRUE(store_->Commit().ok());
  Append(3);
  ASSERT_TRUE(Log(12).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->models, ElementsAre(1, 3));
  EXPECT_THAT(restored->batches, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(restored->store.problems, SizeIs(0));
  EXPECT_EQ(restored->store.until_us, 12);
  EXPECT_EQ(restored->store.newest.at(3).log_id, 5);
  EXPECT_FALSE(restored->store.newest.contains(2));
  EXPECT_NE(restored->store.store->id(), store_->id());
}

TEST_F(ArchiveTest, AnOlderBaseIsUsedWhereItsLogFilesReachFurther) {
  Create(1);
  Base(10);
  Append(1);
  ASSERT_TRUE(Log(11).ok());
  // No log file names this base, because calibd was killed.
  Base(12);
  header_.clear_base_numbers();
  Append(1);
  ASSERT_TRUE(Log(13).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, ElementsAre(1, 2));
  EXPECT_EQ(restored->store.log_files, 2);
}

TEST_F(ArchiveTest, TheNewestOfTwoContinuationsCounts) {
  Create(1);
  Base(10);
  Append(1);
  const store::v1::ArchiveHeader before = header_;
  ASSERT_TRUE(Log(11).ok());
  // calibd was killed before it knew that the file was handed over.
  header_ = before;
  Append(1);
  ASSERT_TRUE(Log(12).ok());
  Append(1);
  ASSERT_TRUE(Log(13).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, ElementsAre(1, 2, 3));
  EXPECT_EQ(restored->store.log_files, 2);
}

TEST_F(ArchiveTest, TheLogIsKeptUntilItIsArchived) {
  Create(1);
  Base(10);
  store_->KeepLog(1);
  std::int64_t last = 0;
  for (int i = 0; i < 40; ++i) {
    last = Append(1, 6000);
    store_->DropBatches(std::vector<std::int64_t>{last});
    while (*store_->Maintain(false)) continue;
  }
  const std::size_t files = store_->extents().size();
  EXPECT_GT(files, 15);
  std::int64_t number = 11;
  while (header_.first_log_id() <= last) ASSERT_TRUE(Log(number++).ok());
  EXPECT_EQ(number - 11, static_cast<std::int64_t>(files));
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, SizeIs(40));
  // Without it, the files are removed, and the archive cannot be continued.
  header_.set_first_log_id(1);
  store_->KeepLog(kEverything);
  while (*store_->Maintain(false)) continue;
  EXPECT_LT(store_->extents().size(), 3);
  EXPECT_EQ(Log(number).code(), absl::StatusCode::kFailedPrecondition);
}

// A base may be missing although log files name it, because its hand-over failed before a gap.
TEST_F(ArchiveTest, LogFilesThatDoNotContinueTheBaseAreReported) {
  Create(1);
  Append(1);
  Base(10);
  Append(1);
  header_.set_first_log_id(3);
  Append(1);
  ASSERT_TRUE(Log(11).ok());
  Append(1);
  ASSERT_TRUE(Log(12).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, ElementsAre(1));
  EXPECT_EQ(restored->store.log_files, 0);
  EXPECT_EQ(restored->store.until_us, 0);
  EXPECT_THAT(restored->store.problems,
              ElementsAre(HasSubstr("begins with batch 3 of the log, but the base ends before "
                                    "batch 2")));
}

TEST_F(ArchiveTest, AModelWithoutItsDeclarationIsReported) {
  Create(1);
  Base(10);
  Create(2);
  Append(2);
  header_.set_first_model_id(3);
  ASSERT_TRUE(Log(11).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->models, ElementsAre(1));
  EXPECT_THAT(restored->store.problems, ElementsAre(HasSubstr("model 2 is missing")));
}

TEST_F(ArchiveTest, AFileUnderTheNameOfAnotherIsNotUsed) {
  Create(1);
  Base(10);
  Append(1);
  ASSERT_TRUE(Log(11).ok());
  for (const auto& entry : std::filesystem::directory_iterator(archive_)) {
    auto name = ArchiveName::Parse(entry.path().filename().string());
    ASSERT_TRUE(name.has_value());
    if (name->kind != ArchiveKind::kLog) continue;
    name->number = 12;
    std::filesystem::rename(entry.path(), archive_ / name->Text());
    break;
  }
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, SizeIs(0));
  EXPECT_THAT(restored->store.problems, ElementsAre(HasSubstr("its name is wrong")));
}

// A torn end of the archive is what a lost disk leaves: the other bases, which may be large, cannot
// help then, and are not read.
TEST_F(ArchiveTest, OlderBasesAreNotReadWithoutNeed) {
  Create(1);
  Base(10);
  Append(1);
  ASSERT_TRUE(Log(11).ok());
  Base(12);
  ASSERT_TRUE(Log(13).ok());
  Append(1);
  ASSERT_TRUE(Log(14).ok());
  for (const auto& entry : std::filesystem::directory_iterator(archive_)) {
    const std::int64_t number = ArchiveName::Parse(entry.path().filename().string())->number;
    if (number == 10 || number == 14) std::ofstream(entry.path(), std::ios::app).put('x');
  }
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, ElementsAre(1));
  EXPECT_THAT(restored->store.problems, ElementsAre(HasSubstr("is damaged or incomplete")));
  EXPECT_THAT(restored->store.problems, ElementsAre(HasSubstr("-log-")));
}

TEST_F(ArchiveTest, AFolderOfAnUnfinishedRestoreIsNotUsed) {
  Create(1);
  Base(10);
  ASSERT_TRUE(Restore().ok());
  EXPECT_TRUE(CheckRestoreFinished(Path("restored1")).ok());
  // The name has the right checksum, but the content is no database.
  const std::string path = Path("base");
  std::ofstream(path) << "no database";
  ArchiveName name{
      .store = absl::BytesToHexString(store_->id()), .number = 11, .checksum = *ChecksumOf(path)};
  std::filesystem::rename(path, archive_ / name.Text());
  ASSERT_FALSE(Restore().ok());
  const absl::Status status = CheckRestoreFinished(Path("restored2"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run calibd restore again"));
  EXPECT_TRUE(CheckRestoreFinished(Path("new")).ok());
}

TEST_F(ArchiveTest, AnUnfinishedBaseIsRemoved) {
  Create(1);
  Append(1);
  const auto view = *store_->OpenView();
  const std::string base = Path("base");
  bool copied = false;
  // The copying ends below 1, and the computation of the checksum at 1.
  for (const double end : {0.25, 1.0}) {
    const auto file = view->WriteArchiveBase(10, folder_.path().string(), [&](double fraction) {
      copied = copied || std::filesystem::exists(base);
      return fraction < end;
    });
    EXPECT_EQ(file.status().code(), absl::StatusCode::kCancelled) << end;
    EXPECT_FALSE(std::filesystem::exists(base));
    EXPECT_FALSE(std::filesystem::exists(base + "-journal"));
  }
  EXPECT_TRUE(copied);
}

// The limit counts what an earlier process has left, which may fill the disk.
TEST_F(ArchiveTest, WhatWaitedAtTheLastStopCounts) {
  Create(1);
  for (int i = 0; i < 20; ++i) Append(1, 6000);
  std::filesystem::create_directories(Path("spool"));
  store::v1::ArchiveState state = ReadArchiveState(Path("spool/state"), store_->id());
  state.set_number(5);
  state.set_log_id(11);
  state.set_model_id(2);
  state.set_previous("checksum");
  state.add_base_numbers(4);
  ASSERT_TRUE(WriteArchiveState(Path("spool/state"), state).ok());
  std::ofstream(Path("spool/base")).put('x');
  const std::string id = store_->id();
  store_.reset();
  auto opened = LocalStore::Open(Path("store"), kSegmentBytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto ignore = [](const auto&) { return absl::OkStatus(); };
  ASSERT_TRUE((*opened)->ReadModels(ignore).ok());
  ASSERT_TRUE((*opened)->ReadLog(ignore).ok());
  (*opened)->FinishRecovery({});
  EXPECT_EQ((*opened)->LogBytesFrom(21), 0);
  EXPECT_GT((*opened)->LogBytesFrom(1), 120000);
  EXPECT_THAT((*opened)->LogBytesFrom(11), AllOf(Gt(50000), Lt(70000)));
  Store& store = **opened;
  CommitQueue commits(*std::move(opened), [](const absl::Status& status) { FAIL() << status; });
  Archiver archiver(
      {.command = "[ ] || false %p %f", .folder = Path("spool"), .most_waiting_bytes = 30000},
      commits);
  ASSERT_TRUE(archiver.Prepare(store).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("spool/base")));
  EXPECT_THAT(archiver.statistics().waiting_bytes, AllOf(Gt(50000), Lt(70000)));
  archiver.Start();
  ASSERT_TRUE(testing::WaitFor([&] { return archiver.statistics().gaps > 0; }));
  archiver.Stop(std::chrono::steady_clock::now());
  commits.Stop();
  // No log file after the gap continues what is before it.
  state = ReadArchiveState(Path("spool/state"), id);
  EXPECT_EQ(state.previous(), "");
  for (const std::int64_t base : state.base_numbers()) EXPECT_GT(base, 4);
}

// A command that waits too long for its archive costs a gap, and the archive then begins anew.
TEST_F(ArchiveTest, WhatWaitsTooLongIsGivenUp) {
  Create(1);
  const std::string works = Path("works");
  std::ofstream(works).put('x');
  CommitQueue commits(std::move(store_), [](const absl::Status& status) { FAIL() << status; });
  const auto append = [&](std::size_t bytes) {
    commits.Call([bytes](Store& store, const absl::Status& /*committed*/) {
      store.AppendBatch(1, 1000, std::string(bytes, 'x'));
      EXPECT_TRUE(store.CommitLog().ok());
    });
    commits.Flush();
  };
  Archiver archiver({.command = "[ -e " + works + " ] && cp %p " + archive_.string() + "/%f",
                     .folder = Path("spool"),
                     .most_waiting_bytes = 5000},
                    commits);
  commits.Call([&](Store& store, const absl::Status& /*committed*/) {
    EXPECT_TRUE(archiver.Prepare(store).ok());
  });
  commits.Flush();
  archiver.Start();
  ASSERT_TRUE(testing::WaitFor([&] { return archiver.statistics().base_time_s > 0; }));
  append(100);
  ASSERT_TRUE(testing::WaitFor([&] {
    const Archiver::Statistics now = archiver.statistics();
    return now.waiting_bytes == 0 && now.handed_over >= 2;
  }));
  EXPECT_LT(archiver.statistics().lag_seconds, 60);

  std::filesystem::remove(works);
  append(100);
  ASSERT_TRUE(testing::WaitFor([&] { return archiver.statistics().failed > 0; }));
  EXPECT_GT(archiver.statistics().waiting_bytes, 0);
  EXPECT_EQ(archiver.statistics().gaps, 0);
  append(10000);
  ASSERT_TRUE(testing::WaitFor([&] { return archiver.statistics().gaps > 0; }));
  EXPECT_EQ(archiver.statistics().base_time_s, 0);

  std::ofstream(works).put('x');
  ASSERT_TRUE(testing::WaitFor([&] { return archiver.statistics().base_time_s > 0; }));
  append(100);
  archiver.Stop(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  commits.Stop();
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->batches, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace calibd::server
