#include "server/store/local/store_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;

class StoreFileTest : public ::testing::Test {
 protected:
  // Returns the mark in the file.
  [[nodiscard]] absl::StatusOr<std::optional<StoreMark>> Read() const {
    const auto file = StoreFile::Open(folder());
    if (!file.ok()) return file.status();
    return file->has_value() ? std::optional((*file)->mark()) : std::nullopt;
  }

  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "store"; }
  [[nodiscard]] std::string Bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
  }

  const testing::TemporaryFolder folder_;
  const StoreMark mark_{.id = StoreId::Random(),
                        .clean = true,
                        .commit = 7,
                        .newest_segment = 41,
                        .last_frame_log_id = 51,
                        .end_log_id = 53};
};

TEST_F(StoreFileTest, ContainsTheLastMark) {
  EXPECT_EQ(*Read(), std::nullopt);
  // The remains of an interrupted Create.
  std::ofstream(folder() + "/store.new") << "half";
  EXPECT_EQ(*Read(), std::nullopt);
  auto file = StoreFile::Create(folder(), mark_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->mark(), mark_);
  EXPECT_EQ(*Read(), mark_);
  EXPECT_EQ(std::filesystem::file_size(path()), 4096U);
  EXPECT_FALSE(std::filesystem::exists(folder() + "/store.new"));
  for (const bool durable : {false, true}) {
    StoreMark later = mark_;
    later.clean = durable;
    later.end_log_id += durable ? 1 : 2;
    ASSERT_TRUE(file->Write(later, durable).ok());
    EXPECT_EQ(file->mark(), later);
    EXPECT_EQ(*Read(), later);
  }
  EXPECT_EQ(std::filesystem::file_size(path()), 4096U);
}

TEST_F(StoreFileTest, IdsDiffer) { EXPECT_NE(StoreId::Random(), StoreId::Random()); }

TEST_F(StoreFileTest, NoChangedBitChangesTheMark) {
  ASSERT_TRUE(StoreFile::Create(folder(), mark_).ok());
  const std::string bytes = Bytes();
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&file](std::size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
  };
  std::size_t damaged = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    put(bit / 8, static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8))));
    const auto read = Read();
    put(bit / 8, bytes[bit / 8]);
    if (read.ok()) {
      ASSERT_EQ(*read, mark_) << bit;
      continue;
    }
    ++damaged;
    ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << bit;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr(path().string() + " cannot be"));
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("restore a backup"));
  }
  // Ten numbers.
  EXPECT_EQ(damaged, 8U * 80);
}

TEST_F(StoreFileTest, ATruncatedFileIsDamage) {
  ASSERT_TRUE(StoreFile::Create(folder(), mark_).ok());
  const std::string bytes = Bytes();
  for (std::size_t size = 0; size < 80; ++size) {
    SetBytes(bytes.substr(0, size));
    ASSERT_EQ(Read().status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

}  // namespace
}  // namespace calibd::server
