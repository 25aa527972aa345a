#include "server/store/local/log_upgrade.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "server/base/xxh3.h"
#include "server/store/local/log_files.h"
#include "server/store/local/log_segment.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::size_t kLogUpgradeSegment = 4096;
constexpr std::uint64_t kSalt = 0x123456789abcdef0;
constexpr std::int64_t kModel = 7;

void AppendNumber(std::uint64_t number, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

using Frames = std::vector<std::vector<std::string>>;

// Returns a file of version 1, as calibd wrote it for formats up to 3.
std::string OldSegment(std::int64_t first_log_id, const Frames& frames) {
  std::string bytes = "clbadlog";
  for (const std::uint64_t number :
       {std::uint64_t{1}, static_cast<std::uint64_t>(first_log_id), kLogUpgradeSegment, kSalt}) {
    AppendNumber(number, bytes);
  }
  AppendNumber(XXH3_64bits(bytes.data(), bytes.size()), bytes);
  auto log_id = static_cast<std::uint64_t>(first_log_id);
  for (const std::vector<std::string>& frame : frames) {
    std::string batches;
    for (const std::string& data : frame) {
      AppendNumber(kModel, batches);
      AppendNumber(1000 + data.size(), batches);
      AppendNumber(data.size(), batches);
      batches += data + std::string((8 - data.size() % 8) % 8, '\0');
    }
    std::string header = "logframe";
    AppendNumber(log_id, header);
    AppendNumber(frame.size(), header);
    AppendNumber(48 + batches.size(), header);
    AppendNumber(XXH3_64bits_withSeed(batches.data(), batches.size(), kSalt), header);
    AppendNumber(XXH3_64bits_withSeed(header.data(), header.size(), kSalt), header);
    bytes += header + batches;
    log_id += frame.size();
  }
  EXPECT_LE(bytes.size(), kLogUpgradeSegment);
  bytes.resize(kLogUpgradeSegment, '\0');
  return bytes;
}

class LogUpgradeTest : public ::testing::Test {
 protected:
  void Write(std::int64_t first_log_id, const std::string& bytes) const {
    std::ofstream(PathOf(first_log_id), std::ios::binary) << bytes;
  }
  void WriteThreeSegments() const {
    Write(1, OldSegment(1, {{"a", ""}, {"ccc"}}));
    Write(4, OldSegment(4, {{std::string(500, 'd')}, {"e", "ff", "ggg"}}));
    Write(8, OldSegment(8, {{"h"}}));
  }
  static std::vector<std::string> ThreeSegments() {
    return {"1:a", "2:", "3:ccc", "4:" + std::string(500, 'd'), "5:e", "6:ff", "7:ggg", "8:h"};
  }

  // Returns the contents of the log.
  [[nodiscard]] std::vector<std::string> Read(std::int64_t first_log_id = 1) const {
    auto log = LogFiles::Open(folder(), {.segment_bytes = kLogUpgradeSegment,
                                         .first_log_id = first_log_id,
                                         .mark = {.id = store_id_}});
    EXPECT_TRUE(log.ok()) << log.status();
    std::vector<std::string> read;
    if (!log.ok()) return read;
    const absl::Status status = (*log)->Read([&](const StoredBatch& batch) {
      EXPECT_EQ(batch.model_id, kModel);
      EXPECT_EQ(batch.time_us, 1000 + static_cast<std::int64_t>(batch.data.size()));
      read.push_back(std::to_string(batch.log_id) + ":" + std::string(batch.data));
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return read;
  }
  [[nodiscard]] absl::Status Upgrade(std::int64_t first_log_id = 1) const {
    return UpgradeSegments(folder(), store_id_, first_log_id);
  }
  [[nodiscard]] std::string BytesOf(std::int64_t first_log_id) const {
    std::ifstream file(PathOf(first_log_id), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void ExpectDamage(const std::string& message) const {
    const absl::Status status = Upgrade();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::string PathOf(std::int64_t first_log_id) const {
    return LogSegment::PathOf(folder(), first_log_id);
  }

  const testing::TemporaryFolder folder_;
  const StoreId store_id_{.bytes = {'i', 'd'}};
};

TEST_F(LogUpgradeTest, KeepsEveryBatch) {
  ASSERT_TRUE(Upgrade().ok()) << "there may be no log";
  WriteThreeSegments();
  ASSERT_TRUE(Upgrade().ok());
  EXPECT_EQ(Read(), ThreeSegments());
  const std::string bytes = BytesOf(4);
  // Rewritten files are skipped.
  ASSERT_TRUE(Upgrade().ok());
  EXPECT_EQ(BytesOf(4), bytes);
  EXPECT_EQ(Read(), ThreeSegments());
}

TEST_F(LogUpgradeTest, AFullFileGrows) {
  Frames frames(1);
  for (int i = 0; i < 160; ++i) frames[0].emplace_back();
  Write(1, OldSegment(1, frames));
  ASSERT_TRUE(Upgrade().ok());
  EXPECT_GT(std::filesystem::file_size(PathOf(1)), kLogUpgradeSegment);
  EXPECT_THAT(Read(), SizeIs(160));
}

TEST_F(LogUpgradeTest, AnIncompleteLastFrameIsLeftOut) {
  const std::string whole = OldSegment(1, {{"a"}, {"bb"}});
  for (const std::size_t at : {48U + 80U, 48U + 80U + 40U, 48U + 80U + 72U}) {
    std::string torn = whole;
    torn[at] = static_cast<char>(torn[at] ^ 1);
    Write(1, torn);
    ASSERT_TRUE(Upgrade().ok());
    EXPECT_THAT(Read(), ElementsAre("1:a")) << at;
  }
}

TEST_F(LogUpgradeTest, OtherDamageIsAnError) {
  WriteThreeSegments();
  const auto flip = [this](std::int64_t segment, std::size_t at) {
    std::string bytes = BytesOf(segment);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Write(segment, bytes);
  };
  flip(1, 48 + 50);
  ExpectDamage(PathOf(1) + " ends before batch 1 of the log, but the next file");
  EXPECT_EQ(BytesOf(4), OldSegment(4, {{std::string(500, 'd')}, {"e", "ff", "ggg"}}));
  flip(1, 48 + 50);
  Write(8, OldSegment(8, {{"h"}, {"i"}}));
  flip(8, 48 + 50);
  ExpectDamage(PathOf(8) + " is damaged at 48: batches from 8 on cannot be read, but 9 can");
  flip(8, 48 + 50);
  std::filesystem::resize_file(PathOf(8), kLogUpgradeSegment - 1);
  ExpectDamage("has 4095 bytes, expected 4096: it was cut");
  Write(8, OldSegment(9, {{"h"}}));
  ExpectDamage(PathOf(8) + " was renamed or copied");
}

TEST_F(LogUpgradeTest, AMissingFileIsAnError) {
  WriteThreeSegments();
  std::filesystem::rename(PathOf(4), folder() + "/kept");
  ExpectDamage(PathOf(1) +
               " ends before batch 4 of the log, but the next file begins with batch 8");
}

TEST_F(LogUpgradeTest, AnUnneededOldFileIsNotUpgraded) {
  WriteThreeSegments();
  ASSERT_TRUE(Upgrade(4).ok());
  EXPECT_THAT(Read(4), SizeIs(5));
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
}

TEST_F(LogUpgradeTest, AFullDiskChangesNothing) {
  WriteThreeSegments();
  const std::string bytes = BytesOf(1);
  // A file that may not grow is like a full disk.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 100, .rlim_max = limit.rlim_max};
  auto* const former = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Upgrade();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, former);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(BytesOf(1), bytes);
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.new"));
  ASSERT_TRUE(Upgrade().ok());
  EXPECT_EQ(Read(), ThreeSegments());
}

class KilledLogUpgradeTest : public LogUpgradeTest, public ::testing::WithParamInterface<int> {};

TEST_P(KilledLogUpgradeTest, Continues) {
  // The process that ends is this test, started again on the folder of the first one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr char kFolder[] = "CALIBD_TEST_FOLDER";
  if (std::getenv(kFolder) == nullptr) {
    setenv(kFolder, folder().c_str(), 1);
    WriteThreeSegments();
  }
  const std::string shared = std::getenv(kFolder);
  EXPECT_EXIT(
      {
        std::filesystem::remove_all(folder());
        setenv("CALIBD_FAILPOINT", ("upgrade_segment:" + std::to_string(GetParam())).c_str(), 1);
        static_cast<void>(UpgradeSegments(shared, store_id_, 1));
      },
      ::testing::KilledBySignal(SIGKILL), "");
  unsetenv(kFolder);
  // The process ends before and after each file gets its name.
  constexpr std::size_t kVersion = 8;
  EXPECT_EQ(BytesOf(1)[kVersion], GetParam() > 1 ? 2 : 1);
  EXPECT_EQ(BytesOf(4)[kVersion], GetParam() > 3 ? 2 : 1);
  EXPECT_EQ(BytesOf(8)[kVersion], GetParam() > 5 ? 2 : 1);
  ASSERT_TRUE(Upgrade().ok());
  EXPECT_EQ(Read(), ThreeSegments());
}

INSTANTIATE_TEST_SUITE_P(Points, KilledLogUpgradeTest, ::testing::Range(1, 7));

}  // namespace
}  // namespace calibd::server
