// A full disk: new batches are refused, reads go on, and when there is room so does all.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;

// A file system of 4 MiB.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& path) : path_(path) {
    std::filesystem::create_directories(path_);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

TEST(DiskFullTest, RefusesBatchesAndGoesOnReading) {
  const TemporaryFolder folder;
  const std::filesystem::path disk_path = folder.path() / "disk";
  const SmallDisk disk(disk_path);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  // Takes most of the room, to be given back later.
  std::ofstream(disk_path / "ballast") << std::string(std::size_t{3} << 20, 'x');
  auto server = ServerProcess::Start({"--data-dir", (disk_path / "data").string()});
  ASSERT_NE(server, nullptr);
  auto client = *Client::Connect(server->grpc_address());
  v1::Model model;
  model.set_name("models/m");
  model.set_class_count(10);
  model.mutable_bandwidth()->set_fixed(0.5);
  ASSERT_TRUE(client->CreateModel(model).ok());

  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(10), 1)->Draw(20000, set);
  auto stream = client->OpenStream("models/m", {.producer_id = "p", .epoch = 1});
  ASSERT_TRUE(stream.ok());
  absl::Status status =
      (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
  if (status.ok()) status = (*stream)->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;

  const auto counted = client->GetCalibration("models/m");
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->observations(), (*stream)->counts().accepted_rows);

  std::filesystem::remove(disk_path / "ballast");
  auto later = client->OpenStream("models/m", {.producer_id = "q", .epoch = 1});
  ASSERT_TRUE(later.ok()) << later.status();
  const PredictionBatch first = set.view().rows(0, 100);
  ASSERT_TRUE(
      (*later)->Send(PredictionKind::kProbabilities, first.probabilities, first.labels).ok());
  const auto counts = (*later)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(client->GetCalibration("models/m")->observations(), counted->observations() + 100);

  server->Kill();
  server = ServerProcess::Start({"--data-dir", (disk_path / "data").string()});
  ASSERT_NE(server, nullptr);
  client = *Client::Connect(server->grpc_address());
  EXPECT_EQ(client->GetCalibration("models/m")->observations(), counted->observations() + 100);
  EXPECT_EQ(server->Terminate(), 0);
}

}  // namespace
}  // namespace calibd::testing
