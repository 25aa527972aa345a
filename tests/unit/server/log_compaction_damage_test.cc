// Damage to a compacted segment is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "unit/server/log_compaction_fixture.h"

namespace calibd::server {
namespace {

using ::testing::HasSubstr;

TEST_F(LogCompactionTest, NoChangedBitChangesWhatIsRead) {
  segment_bytes_ = 4096;
  Open();
  Fill(160, 100, kEveryFifth);
  ASSERT_TRUE(Retire().ok());
  Open();
  const Batches all = read_;
  const auto segments = Segments();
  ASSERT_EQ(segments.front(), std::pair(std::int64_t{1}, true));
  Close(/*clean=*/false);
  const std::string bytes = BytesOf(PathOf(1));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at * 5 % 8)));
    WriteFile(PathOf(1), changed);
    const absl::Status status = TryOpen();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << " " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr(PathOf(1)));
  }
  WriteFile(PathOf(1), bytes);
  Open();
  EXPECT_EQ(read_, all);
  // Damage is found after the start too.
  for (const auto& [log_id, data] : needed_) {
    const std::size_t at = bytes.find(data);
    if (at == std::string::npos) continue;
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    std::fstream(PathOf(1), std::ios::in | std::ios::out | std::ios::binary) << changed;
    const absl::StatusOr<std::string> read = log_->ReadBatch(log_id);
    ASSERT_TRUE(read.ok() ? *read == data : absl::IsDataLoss(read.status())) << log_id;
    std::fstream(PathOf(1), std::ios::in | std::ios::out | std::ios::binary) << bytes;
  }
}

class CompactedDamageTest : public LogCompactionTest {
 protected:
  // Three compacted segments and two others.
  void SetUp() override {
    Open();
    Fill(27, 3000, kEveryFifth);
    uncompacted_ = BytesOf(PathOf(1));
    replaced_ = BytesOf(PathOf(6));
    ASSERT_TRUE(Retire().ok());
    Fill(45, 3000, kEveryFifth);
    ASSERT_TRUE(Retire().ok());
    ASSERT_EQ(Segments().at(0), std::pair(std::int64_t{1}, true));
    ASSERT_EQ(Segments().size(), 5U);
    ASSERT_EQ(Segments().at(2).second, true);
    second_ = Segments().at(2).first;
    Close(/*clean=*/true);
    Open();
  }
  void TearDown() override {
    // Nothing was changed by the starts that failed.
    Open();
    ExpectNeededAreRead();
  }

  std::string uncompacted_;
  std::string replaced_;
  std::int64_t second_ = 0;
};

TEST_F(CompactedDamageTest, AMissingFileIsNamed) {
  const std::string kept = folder() + "/kept";
  for (const auto& [log_id, compacted] : Segments()) {
    std::filesystem::rename(PathOf(log_id), kept);
    ExpectDamage(PathOf(log_id) + " is missing");
    std::filesystem::rename(kept, PathOf(log_id));
  }
}

TEST_F(CompactedDamageTest, ACutFileIsNamed) {
  const std::string bytes = BytesOf(PathOf(1));
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 97) {
    WriteFile(PathOf(1), bytes.substr(0, size));
    ExpectDamage(PathOf(1));
  }
  WriteFile(PathOf(1), bytes + std::string(5000, 'x'));
  EXPECT_TRUE(TryOpen().ok()) << "bytes behind the end belong to nothing";
  WriteFile(PathOf(1), bytes);
}

TEST_F(CompactedDamageTest, FilesInThePlaceOfOthersAreFound) {
  const std::string first = BytesOf(PathOf(1));
  const std::string second = BytesOf(PathOf(second_));
  WriteFile(PathOf(1), second);
  ExpectDamage(PathOf(1) + " begins with batch " + std::to_string(second_));
  // The file that it replaced, which holds only some of its batches.
  WriteFile(PathOf(1), uncompacted_);
  ExpectDamage(PathOf(6) + " is missing");
  WriteFile(PathOf(1), first);
  WriteFile(PathOf(second_), first);
  ExpectDamage(PathOf(second_) + " begins with batch 1 of the log");
  WriteFile(PathOf(second_), second);
  // Under the name of a file that the first one replaced: it is not removed.
  WriteFile(PathOf(3), second);
  ExpectDamage(PathOf(3) + " begins with batch " + std::to_string(second_));
  EXPECT_EQ(BytesOf(PathOf(3)), second);
  std::filesystem::remove(PathOf(3));
}

TEST_F(CompactedDamageTest, AFileThatWasReplacedIsRemoved) {
  WriteFile(PathOf(6), replaced_);
  Open();
  EXPECT_FALSE(std::filesystem::exists(PathOf(6)));
}

TEST_F(CompactedDamageTest, AFileOfAnotherStoreIsNamed) {
  mark_.id.bytes[0] = 'x';
  ExpectDamage(PathOf(1) + " belongs to another store");
  mark_.id.bytes[0] = 'i';
}

TEST_F(CompactedDamageTest, TheLogDoesNotEndWithACompactedSegment) {
  const auto segments = Segments();
  const StoreMark mark = mark_;
  // After a power cut, the mark may be old.
  mark_ = {.id = mark.id};
  std::vector<std::string> kept;
  for (std::size_t i = 3; i < segments.size(); ++i) {
    kept.push_back(BytesOf(PathOf(segments[i].first)));
    std::filesystem::remove(PathOf(segments[i].first));
  }
  ExpectDamage(PathOf(segments[3].first) + " is missing: the log ends with " + PathOf(second_));
  for (std::size_t i = 3; i < segments.size(); ++i) {
    WriteFile(PathOf(segments[i].first), kept[i - 3]);
  }
  mark_ = mark;
}

}  // namespace
}  // namespace calibd::server
