// A full disk: new batches are refused, queries are answered, and everything works again when there
// is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;

// A small file system of its own.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& path, int mebibytes = 4) : path_(path) {
    std::filesystem::create_directories(path_);
    const std::string size = absl::StrCat("size=", mebibytes, "m");
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  // Uses up the disk except for this many bytes.
  void LeaveFree(std::uintmax_t bytes) const {
    const std::uintmax_t free = std::filesystem::space(path_).available;
    ASSERT_GE(free, bytes);
    std::ofstream(ballast(), std::ios::app) << std::string(free - bytes, 'x');
  }
  void Free() const { std::filesystem::remove(ballast()); }

 private:
  [[nodiscard]] std::filesystem::path ballast() const { return path_ / "ballast"; }

  std::filesystem::path path_;
  bool mounted_ = false;
};

// A server whose disk becomes full and later has room again.
class DiskFullTest : public ::testing::Test {
 protected:
  void Start(const std::filesystem::path& data) {
    server_ = ServerProcess::Start({"--data-dir", data.string()});
    ASSERT_NE(server_, nullptr);
    client_ = *Client::Connect(server_->grpc_address());
  }
  void CreateModel() {
    v1::Model model;
    model.set_name("models/m");
    model.mutable_classes()->set_count(10);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    ASSERT_TRUE(client_->CreateModel(model).ok());
    Generator::Create(GeneratorSpec::M1(10), 1)->Draw(20000, set_);
  }
  // Sends batches until they are refused.
  void FillUp() {
    auto stream = client_->OpenStream("models/m", {.producer_id = "p", .epoch = 1});
    ASSERT_TRUE(stream.ok());
    absl::Status status =
        (*stream)->Send(PredictionKind::kProbabilities, set_.probabilities, set_.labels);
    if (status.ok()) status = (*stream)->Finish().status();
    ExpectDiskFull(status);
    ExpectUnready("batches are refused");
    accepted_ = (*stream)->counts().accepted_rows;
    ExpectCounted();
  }
  void ExpectUnready(const std::string& what) {
    const HttpAnswer ready = HttpGet(server_->http_address(), "/readyz");
    EXPECT_EQ(ready.status, 503);
    EXPECT_EQ(ready.body, "not ready: the disk is full: " + what + "\n");
  }
  void ExpectLogged(const std::string& line) {
    EXPECT_TRUE(WaitFor([&] {
      return server_->process().Output().find(line) != std::string::npos;
    })) << server_->process().Output();
  }
  // Expects an error without a path or a statement.
  static void ExpectDiskFull(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::HasSubstr("the server's disk is full; this batch or change was not applied"));
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::Not(::testing::AnyOf(::testing::HasSubstr("/"), ::testing::HasSubstr("SQL"))));
  }
  // A verification needs no room; operations that need room say so.
  void ExpectUpkeepSaysWhatFailed() {
    const auto verified = client_->Verify();
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->problems_size(), 0);
    const absl::Status backup = client_->Backup((folder_.path() / "backup.db").string()).status();
    EXPECT_EQ(backup.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(backup.message()),
                ::testing::HasSubstr("the backup was not made: the server first makes a copy"));
  }
  // The server notices by itself, without a batch.
  void ExpectReadyAgain() {
    EXPECT_TRUE(
        WaitFor([this] { return HttpGet(server_->http_address(), "/readyz").status == 200; }));
  }
  // Creates models of 1000 classes until one is refused. Each of them enlarges the database.
  absl::Status CreateLargeModels() {
    v1::Model large;
    large.mutable_classes()->set_count(1000);
    large.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    for (int i = 0; i < large.classes().count(); ++i) {
      large.mutable_classes()->add_names(std::to_string(i) + std::string(60, 'x'));
    }
    absl::Status created;
    for (int i = 0; created.ok() && i < 20; ++i) {
      large.set_name("models/large" + std::to_string(i));
      created = client_->CreateModel(large).status();
    }
    return created;
  }
  void SendMore(const std::string& producer = "q") {
    auto stream = client_->OpenStream("models/m", {.producer_id = producer, .epoch = 1});
    ASSERT_TRUE(stream.ok()) << stream.status();
    const PredictionBatch first = set_.view().rows(0, 100);
    ASSERT_TRUE(
        (*stream)->Send(PredictionKind::kProbabilities, first.probabilities, first.labels).ok());
    const auto counts = (*stream)->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    accepted_ += 100;
    ExpectCounted();
  }
  void ExpectCounted() {
    const auto counted = client_->GetCalibration("models/m");
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(counted->observations(), accepted_);
  }
  void ExpectTheSameAfterAKill(const std::filesystem::path& data) {
    server_->Kill();
    ASSERT_NO_FATAL_FAILURE(Start(data));
    ExpectCounted();
    EXPECT_EQ(server_->Terminate(), 0);
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  PredictionSet set_;
  std::int64_t accepted_ = 0;
};

TEST_F(DiskFullTest, RefusesBatchesButAnswersQueries) {
  const std::filesystem::path disk_path = folder_.path() / "disk";
  const SmallDisk disk(disk_path);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  disk.LeaveFree(std::size_t{1} << 20);
  ASSERT_NO_FATAL_FAILURE(Start(disk_path / "data"));
  EXPECT_THAT(server_->process().Output(),
              ::testing::HasSubstr("the store may need 536870912 bytes of disk "
                                   "(calibd_store_reserved_bytes)"));
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              ::testing::HasSubstr("\ncalibd_store_reserved_bytes 536870912\n"));
  ASSERT_NO_FATAL_FAILURE(CreateModel());
  ASSERT_NO_FATAL_FAILURE(FillUp());
  disk.Free();
  ExpectReadyAgain();
  ASSERT_NO_FATAL_FAILURE(SendMore());
  ExpectTheSameAfterAKill(disk_path / "data");
}

// The space of the log's newest file is already allocated.
TEST_F(DiskFullTest, AcceptsBatchesWhileTheLogHasRoom) {
  constexpr char kDatabaseFull[] =
      "models cannot be created or deleted, and batches are accepted only while the log's newest "
      "file has room";
  const std::filesystem::path disk_path = folder_.path() / "disk";
  const SmallDisk disk(disk_path, 70);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  ASSERT_NO_FATAL_FAILURE(Start(disk_path / "data"));
  ASSERT_NO_FATAL_FAILURE(CreateModel());
  EXPECT_EQ(HttpGet(server_->http_address(), "/readyz").status, 200);
  disk.LeaveFree(std::size_t{64} << 10);
  ExpectDiskFull(CreateLargeModels());
  ExpectUnready(kDatabaseFull);
  ASSERT_NO_FATAL_FAILURE(SendMore());
  ExpectUnready(kDatabaseFull);
  disk.LeaveFree(0);
  ExpectUpkeepSaysWhatFailed();
  // A restarted server says so before it has refused anything.
  disk.Free();
  disk.LeaveFree(std::size_t{64} << 10);
  server_->Kill();
  ASSERT_NO_FATAL_FAILURE(Start(disk_path / "data"));
  ExpectUnready(kDatabaseFull);
  ExpectLogged(absl::StrCat("not ready: the disk is full: ", kDatabaseFull));
  ASSERT_NO_FATAL_FAILURE(SendMore("r"));
  disk.Free();
  ExpectReadyAgain();
  ExpectLogged("the disk has room again: all writes are accepted");
  EXPECT_TRUE(CreateLargeModels().ok());
}

TEST_F(DiskFullTest, AStopWarnsThatTheNextStartReplaysRows) {
  constexpr char kWarning[] =
      "snapshots that were not stored: 1, because the disk is full; the next start replays the "
      "batches of these models from the log";
  const std::filesystem::path disk_path = folder_.path() / "disk";
  const SmallDisk disk(disk_path, 70);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  ASSERT_NO_FATAL_FAILURE(Start(disk_path / "data"));
  ASSERT_NO_FATAL_FAILURE(CreateModel());
  ASSERT_NO_FATAL_FAILURE(SendMore());
  disk.LeaveFree(0);
  EXPECT_EQ(server_->Terminate(), 0);
  EXPECT_THAT(server_->process().Output(), ::testing::HasSubstr(kWarning));
  disk.Free();
  ASSERT_NO_FATAL_FAILURE(Start(disk_path / "data"));
  ExpectCounted();
  EXPECT_EQ(server_->Terminate(), 0);
  EXPECT_THAT(server_->process().Output(), ::testing::Not(::testing::HasSubstr("were not stored")));
}

TEST_F(DiskFullTest, AStartWithoutRoomSaysHowMuchItNeeds) {
  const std::filesystem::path disk_path = folder_.path() / "disk";
  const SmallDisk disk(disk_path, 70);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const std::filesystem::path data = disk_path / "data";
  ASSERT_NO_FATAL_FAILURE(Start(data));
  ASSERT_NO_FATAL_FAILURE(CreateModel());
  ASSERT_NO_FATAL_FAILURE(SendMore());
  EXPECT_EQ(server_->Terminate(), 0);
  disk.LeaveFree(0);
  const auto full = ServerProcess::Launch({"--data-dir", data.string()});
  EXPECT_EQ(full->WaitForExit(), 1);
  EXPECT_THAT(full->process().Output(),
              ::testing::HasSubstr("nothing is lost: free at least 1048576 bytes on the disk of " +
                                   data.string() + " and start calibd again"));
  disk.Free();
  disk.LeaveFree(std::size_t{1} << 20);
  ASSERT_NO_FATAL_FAILURE(Start(data));
  ExpectCounted();
}

TEST_F(DiskFullTest, ABackupNamesATargetWithoutRoom) {
  const std::filesystem::path target = folder_.path() / "target";
  const SmallDisk disk(target, 1);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  ASSERT_NO_FATAL_FAILURE(Start(folder_.path() / "data"));
  ASSERT_TRUE(CreateLargeModels().ok());
  const absl::Status status = client_->Backup((target / "backup.db").string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr("target/backup.db.part; "),
                               ::testing::HasSubstr("the backup needs more room there")));
  EXPECT_TRUE(std::filesystem::is_empty(target));
}

TEST_F(DiskFullTest, AFileSizeLimitIsAFullDisk) {
  const std::filesystem::path data = folder_.path() / "data";
  ASSERT_NO_FATAL_FAILURE(Start(data));
  ASSERT_NO_FATAL_FAILURE(CreateModel());
  rlimit unlimited{};
  ASSERT_EQ(prlimit(server_->process().pid(), RLIMIT_FSIZE, nullptr, &unlimited), 0);
  const rlimit limit{.rlim_cur = std::size_t{512} << 10, .rlim_max = unlimited.rlim_max};
  ASSERT_EQ(prlimit(server_->process().pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  // First the files of the log, then the database.
  ASSERT_NO_FATAL_FAILURE(FillUp());
  const absl::Status created = CreateLargeModels();
  EXPECT_EQ(created.code(), absl::StatusCode::kResourceExhausted)
      << created << server_->process().Output();
  ExpectDiskFull(created);
  ExpectCounted();
  ASSERT_EQ(prlimit(server_->process().pid(), RLIMIT_FSIZE, &unlimited, nullptr), 0);
  ExpectReadyAgain();
  EXPECT_TRUE(CreateLargeModels().ok());
  ASSERT_NO_FATAL_FAILURE(SendMore());
  ExpectTheSameAfterAKill(data);
}

}  // namespace
}  // namespace calibd::testing
