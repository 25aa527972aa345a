// Client::Backup with a server that does not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "backup_file.h"
#include "calibd/client/client.h"
#include "calibd/v1/store_service.grpc.pb.h"
#include "support/in_process_server.h"
#include "support/temporary_folder.h"

namespace calibd::client {
namespace {

using ::testing::HasSubstr;

class EndlessBackup final : public v1::StoreService::Service {
 public:
  grpc::Status Backup(grpc::ServerContext* context, const v1::BackupRequest* /*request*/,
                      grpc::ServerWriter<v1::BackupResponse>* writer) override {
    v1::BackupResponse response;
    response.mutable_progress()->set_fraction(0.5);
    while (!context->IsCancelled() && writer->Write(response)) {
    }
    return grpc::Status::CANCELLED;
  }

  [[nodiscard]] const std::string& address() const { return server_.address(); }

 private:
  const calibd::testing::InProcessServer server_{*this};
};

TEST(BackupTest, ABackupThatDoesNotEndIsGivenUp) {
  const calibd::testing::TemporaryFolder folder;
  EndlessBackup server;
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string path = (folder.path() / "backup.db").string();
  LongCallOptions options;
  options.timeout = std::chrono::milliseconds(300);
  EXPECT_TRUE(absl::IsDeadlineExceeded((*client)->Backup(path, options).status()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BackupTest, ABackupLeavesTheDiskFree) {
  const calibd::testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "backup.db").string();
  {
    // No disk has so much room.
    const auto file = BackupFile::Create(path, std::numeric_limits<std::int64_t>::max());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Begin().ok());
    const absl::Status status = (*file)->Append("data");
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("MiB of the disk free"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto file = BackupFile::Create(path, /*reserve_bytes=*/0);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Begin().ok());
  EXPECT_TRUE((*file)->Append("data").ok());
}

}  // namespace
}  // namespace calibd::client
