// Above 600 lines: all tests share the fixture that writes and damages files of the log.
#include "server/store/local/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kLogFilesSegment = 16384;

class LogFilesTest : public ::testing::Test {
 protected:
  absl::Status TryOpen(std::int64_t first_log_id = 0, std::int64_t next_log_id = 1) {
    log_.reset();
    auto log = LogFiles::Open(folder(), {.segment_bytes = segment_bytes_,
                                         .first_log_id = first_log_id,
                                         .next_log_id = next_log_id,
                                         .mark = mark_});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    return log_->Read([](const StoredBatch& /*batch*/) { return absl::OkStatus(); });
  }
  void Open(std::int64_t first_log_id = 0, std::int64_t next_log_id = 1) {
    const absl::Status status = TryOpen(first_log_id, next_log_id);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Writes a frame with these batches.
  void Write(const std::vector<std::string>& batches) {
    for (const std::string& data : batches) {
      log_->Append(7, 1000 + static_cast<std::int64_t>(data.size()), data);
    }
    const absl::Status status = log_->Commit();
    ASSERT_TRUE(status.ok()) << status;
  }

  // Returns the ids and the data of all batches.
  std::vector<std::string> Read() const {
    std::vector<std::string> read;
    for (const LogFiles::Extent& extent : log_->extents()) {
      const absl::Status status =
          LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool /*needed*/) {
            EXPECT_EQ(batch.model_id, 7);
            EXPECT_EQ(batch.time_us, 1000 + static_cast<std::int64_t>(batch.data.size()));
            read.push_back(std::to_string(batch.log_id) + ":" + std::string(batch.data));
            return absl::OkStatus();
          });
      EXPECT_TRUE(status.ok()) << status;
    }
    return read;
  }

  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] std::filesystem::path PathOf(std::int64_t first) const {
    std::ostringstream name;
    name << "log-" << std::hex << std::setw(16) << std::setfill('0') << first;
    return folder_.path() / name.str();
  }
  // Returns the first batch ids of the segments.
  [[nodiscard]] std::vector<std::int64_t> Segments() const {
    std::vector<std::int64_t> firsts;
    for (const LogFiles::Extent& extent : log_->extents()) firsts.push_back(extent.first_log_id);
    return firsts;
  }
  static void Flip(const std::filesystem::path& path, std::uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  static std::string BytesOf(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Overwrites in place, so that the test does not allocate disk space each time.
  static void Overwrite(const std::filesystem::path& path, std::uint64_t at,
                        const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  // Records the position of the log, as the store does, and closes it.
  void Close(bool clean) {
    log_->Mark(mark_);
    mark_.clean = clean;
    log_.reset();
  }

  const testing::TemporaryFolder folder_;
  std::uint64_t segment_bytes_ = kLogFilesSegment;
  StoreMark mark_{.id = StoreId::Random()};
  std::unique_ptr<LogFiles> log_;
};

TEST_F(LogFilesTest, ContainsExactlyTheCommittedData) {
  Open(0, 41);
  EXPECT_EQ(log_->next_log_id(), 41);
  Write({"a", "", "ccc"});
  EXPECT_EQ(log_->Append(7, 0, "taken back"), 44);
  EXPECT_EQ(*log_->ReadBatch(44), "taken back");
  log_->Rollback();
  EXPECT_EQ(log_->appended_bytes(), 0U);
  // A frame without batches is not written.
  ASSERT_TRUE(log_->Commit().ok());
  Write({"dddd"});
  EXPECT_EQ(*log_->ReadBatch(43), "ccc");
  EXPECT_EQ(*log_->ReadBatch(42), "");
  EXPECT_EQ(log_->ReadBatch(45).status().code(), absl::StatusCode::kDataLoss);
  log_->Append(7, 0, "never committed");
  for (int i = 0; i < 2; ++i) {
    Open(0, 41);
    EXPECT_THAT(Read(), ElementsAre("41:a", "42:", "43:ccc", "44:dddd"));
    EXPECT_EQ(log_->first_log_id(), 41);
    EXPECT_EQ(log_->next_log_id(), 45);
  }
  EXPECT_EQ(*log_->ReadBatch(44), "dddd");
  EXPECT_EQ(log_->bytes(), static_cast<std::int64_t>(kLogFilesSegment));
  EXPECT_EQ(std::filesystem::file_size(PathOf(41)), kLogFilesSegment);
}

TEST_F(LogFilesTest, ContinuesInAnotherFileAndMakesRoomForALargeFrame) {
  Open();
  const std::string half(kLogFilesSegment / 2, 'x');
  Write({half});
  Write({half});
  Write({std::string(5 * kLogFilesSegment, 'y')});
  Write({"z"});
  EXPECT_THAT(Segments(), ElementsAre(1, 2, 3, 4));
  EXPECT_GT(std::filesystem::file_size(PathOf(3)), 5 * kLogFilesSegment);
  Open();
  EXPECT_THAT(Read(), ElementsAre("1:" + half, "2:" + half,
                                  "3:" + std::string(5 * kLogFilesSegment, 'y'), "4:z"));
}

TEST_F(LogFilesTest, AFileTooSmallForItsFirstFrameIsReplaced) {
  Open();
  const std::string large(2 * kLogFilesSegment, 'x');
  Write({large});
  Write({"y"});
  EXPECT_THAT(Segments(), ElementsAre(1, 2));
  Open();
  EXPECT_THAT(Read(), ElementsAre("1:" + large, "2:y"));
}

// The state that any process that ended, or any disk that lost its newest writes, may leave.
TEST_F(LogFilesTest, AnyPrefixOfTheBytesIsAPrefixOfTheFrames) {
  Open();
  std::mt19937 random(1);
  std::vector<std::string> all;
  std::vector<std::uint64_t> ends{log_->extents().front().end};
  std::vector<std::size_t> batches{0};
  for (int frame = 0; frame < 6; ++frame) {
    std::vector<std::string> data;
    for (std::size_t i = 0; i <= random() % 3; ++i) {
      // Zeros at the end look like bytes that were never written.
      data.push_back(std::string(random() % 60, static_cast<char>('a' + frame)) +
                     std::string(random() % 20, '\0'));
      all.push_back(std::to_string(all.size() + 1) + ":" + data.back());
    }
    Write(data);
    ends.push_back(log_->extents().front().end);
    batches.push_back(all.size());
  }
  log_.reset();
  std::string bytes(kLogFilesSegment, '\0');
  std::ifstream(PathOf(1), std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(kLogFilesSegment));
  for (std::uint64_t length = ends.front(); length <= ends.back(); ++length) {
    const std::string kept = bytes.substr(0, length) + std::string(kLogFilesSegment - length, '\0');
    std::ofstream(PathOf(1), std::ios::binary) << kept;
    Open();
    // A frame whose missing end consists of zeros is complete.
    std::size_t frames = 0;
    while (frames + 1 < ends.size() &&
           kept.compare(0, ends[frames + 1], bytes, 0, ends[frames + 1]) == 0) {
      ++frames;
    }
    ASSERT_THAT(Read(),
                ::testing::ElementsAreArray(
                    all.begin(), all.begin() + static_cast<std::ptrdiff_t>(batches[frames])))
        << length;
    if (length % 7 == 0) {
      // The log continues from there, over the remains of the other frame.
      Write({"new"});
      Open();
      ASSERT_EQ(Read().size(), batches[frames] + 1) << length;
    }
  }
}

TEST_F(LogFilesTest, DamageBeforeTheEndIsFound) {
  Open();
  std::vector<std::uint64_t> ends{log_->extents().front().end};
  for (const std::string data : {"first", "second", "third"}) {
    Write({data});
    ends.push_back(log_->extents().front().end);
  }
  log_.reset();
  // Flips every byte of the first two frames.
  for (std::uint64_t at = ends[0]; at < ends[2]; ++at) {
    Flip(PathOf(1), at);
    const absl::Status status = TryOpen();
    // Damage is found also in the padding of a frame.
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << " " << status;
    ASSERT_THAT(std::string(status.message()),
                HasSubstr(at < ends[1] ? "batches from 1 on cannot be read, but 2 can"
                                       : "batches from 2 on cannot be read, but 3 can"));
    Flip(PathOf(1), at);
  }
  // The newest frame may be incomplete.
  for (std::uint64_t at = ends[2]; at < ends[3]; ++at) {
    Flip(PathOf(1), at);
    Open();
    ASSERT_THAT(Read(), ElementsAre("1:first", "2:second")) << at;
    ASSERT_TRUE(log_->tail().has_value()) << at;
    EXPECT_EQ(log_->tail()->first_log_id, 3);
    Flip(PathOf(1), at);
  }
  Open();
  EXPECT_EQ(Read().size(), 3U);
}

TEST_F(LogFilesTest, TruncatedAndMissingFilesAreNamed) {
  Open();
  const std::string half(kLogFilesSegment / 2, 'x');
  for (int i = 0; i < 4; ++i) Write({half});
  const std::string kept = folder() + "/kept";
  const auto expect = [&](const std::string& message) {
    const absl::Status status = TryOpen(1);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("restore a backup into an empty folder, or move the folder"));
  };
  std::filesystem::rename(PathOf(2), kept);
  expect(PathOf(2).string() + " is missing: " + PathOf(1).string() + " ends before batch 2");
  std::filesystem::rename(kept, PathOf(2));
  std::filesystem::rename(PathOf(1), kept);
  expect(PathOf(1).string() + " is missing");
  std::filesystem::rename(kept, PathOf(1));
  std::filesystem::resize_file(PathOf(2), kLogFilesSegment - 1);
  expect("has 16383 bytes, expected 16384: it was cut");
  std::filesystem::resize_file(PathOf(2), kLogFilesSegment);
  Flip(PathOf(3), 17);
  expect(PathOf(3).string() + " does not begin as a segment");
  Flip(PathOf(3), 17);
  Flip(PathOf(2), kLogFilesSegment / 4);
  expect(PathOf(2).string() + " is damaged at 64: it ends before batch 2");
  Flip(PathOf(2), kLogFilesSegment / 4);
  Open(1);
  EXPECT_EQ(Read().size(), 4U);
  log_.reset();
  for (int i = 1; i <= 4; ++i) std::filesystem::remove(PathOf(i));
  expect(PathOf(1).string() + " is missing");
}

TEST_F(LogFilesTest, AnInterruptedCreationOrRemovalIsCompleted) {
  Open();
  Write({std::string(kLogFilesSegment / 2, 'x')});
  Write({std::string(kLogFilesSegment / 2, 'x')});
  log_.reset();
  std::ofstream(folder() + "/log.new") << "half a file";
  // Its removal is recorded, but the file still exists.
  Open(2);
  EXPECT_THAT(Segments(), ElementsAre(2));
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.new"));
}

TEST_F(LogFilesTest, AReusedFileContainsNoOldBatches) {
  Open();
  // Frames of equal size: the old ones are where the new ones are written.
  const std::string quarter(kLogFilesSegment / 5, 'x');
  std::int64_t id = 0;
  for (int i = 0; i < 8; ++i) Write({quarter + std::to_string(++id)});
  EXPECT_THAT(Segments(), ElementsAre(1, 5));
  log_->MarkUnneeded(std::vector<std::int64_t>{1, 2, 3, 4});
  ASSERT_TRUE(log_->OldestIsUnneeded());
  ASSERT_TRUE(log_->RemoveOldest().ok());
  EXPECT_TRUE(std::filesystem::exists(folder() + "/log.spare"));
  Write({quarter + std::to_string(++id)});
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.spare"));
  EXPECT_THAT(Segments(), ElementsAre(5, 9));
  // Here an old frame is complete.
  Open(5);
  EXPECT_EQ(log_->next_log_id(), 10);
  EXPECT_EQ(Read().size(), 5U);
  EXPECT_EQ(Read().back(), "9:" + quarter + "9");
}

TEST_F(LogFilesTest, TheOldestIsRetiredWhenNothingInItIsNeeded) {
  Open();
  const std::string third(kLogFilesSegment / 3, 'x');
  for (int i = 0; i < 6; ++i) Write({third});
  ASSERT_THAT(Segments(), ElementsAre(1, 3, 5));
  log_->MarkUnneeded(std::vector<std::int64_t>{2, 3, 4, 100, -1, 2});
  EXPECT_FALSE(log_->RetirementDue());
  log_->Hold();
  log_->MarkUnneeded(std::vector<std::int64_t>{1});
  EXPECT_FALSE(log_->RetirementDue());
  EXPECT_THAT(log_->extents()[0].needed, ElementsAre(true, false));
  log_->Release();
  EXPECT_TRUE(log_->RetirementDue());
  EXPECT_EQ(log_->first_log_id_after_oldest(), 3);
  ASSERT_TRUE(log_->RemoveOldest().ok());
  ASSERT_TRUE(log_->RemoveOldest().ok());
  EXPECT_THAT(Segments(), ElementsAre(5));
  // The newest file stays, because the next batch is appended to it.
  log_->MarkUnneeded(std::vector<std::int64_t>{5, 6});
  EXPECT_FALSE(log_->RetirementDue());
  Open(5);
  EXPECT_EQ(log_->next_log_id(), 7);
}

TEST_F(LogFilesTest, FilesOfRemovedSegmentsAreKeptForLaterOnes) {
  Open();
  // A file of another size cannot be reused.
  std::ofstream(folder() + "/log.spare") << "small";
  const std::string third(kLogFilesSegment / 3, 'x');
  const auto spares = [this] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("log.spare")) {
        EXPECT_EQ(entry.file_size(), kLogFilesSegment) << name;
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  for (int i = 0; i < 24; ++i) Write({third});
  ASSERT_EQ(Segments().size(), 12U);
  std::vector<std::int64_t> unneeded(21);
  std::iota(unneeded.begin(), unneeded.end(), 2);
  log_->MarkUnneeded(unneeded);
  while (log_->RetirementDue()) ASSERT_TRUE(log_->Compact().ok());
  EXPECT_THAT(Segments(), ElementsAre(1, 23));
  // With the two segments, these are six files.
  EXPECT_THAT(spares(), ElementsAre("log.spare", "log.spare-1", "log.spare-2", "log.spare-3"));
  // Segments that are added reuse them, also after a start.
  Write({third});
  EXPECT_THAT(spares(), ElementsAre("log.spare", "log.spare-1", "log.spare-2"));
  Open(1);
  for (int i = 0; i < 6; ++i) Write({third});
  EXPECT_THAT(spares(), ::testing::IsEmpty());
  EXPECT_THAT(Segments(), ElementsAre(1, 23, 25, 27, 29, 31));
  EXPECT_EQ(Read().size(), 10U);
  // With more than six segments, one file is kept.
  for (int i = 0; i < 6; ++i) Write({third});
  log_->MarkUnneeded(std::vector<std::int64_t>{1, 23, 24, 25, 26});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log_->RemoveOldest().ok());
  EXPECT_EQ(Segments().size(), 6U);
  EXPECT_THAT(spares(), ElementsAre("log.spare"));
}

TEST_F(LogFilesTest, SegmentsAreCompactedWhenLittleIsNeeded) {
  Open();
  const std::string third(kLogFilesSegment / 3, 'x');
  for (int i = 0; i < 10; ++i) Write({third});
  ASSERT_EQ(Segments().size(), 5U);
  EXPECT_FALSE(log_->RetirementDue());
  log_->MarkUnneeded(std::vector<std::int64_t>{2, 3, 4, 5, 6});
  EXPECT_TRUE(log_->RetirementDue());
  EXPECT_FALSE(log_->OldestIsUnneeded());
}

TEST_F(LogFilesTest, ExtentsCanBeReadAlone) {
  Open();
  Write({"a", "b"});
  log_->MarkUnneeded(std::vector<std::int64_t>{1});
  const std::vector<LogFiles::Extent> extents = log_->extents();
  Write({"later"});
  std::vector<std::string> read;
  const auto visit = [&](const StoredBatch& batch, bool needed) {
    read.push_back(std::string(batch.data) + (needed ? "" : " not needed"));
    return absl::OkStatus();
  };
  ASSERT_TRUE(LogFiles::ReadExtent(extents[0], visit).ok());
  EXPECT_THAT(read, ElementsAre("a not needed", "b"));
  Flip(PathOf(1), extents[0].end - 8);
  EXPECT_EQ(LogFiles::ReadExtent(extents[0], visit).code(), absl::StatusCode::kDataLoss);
}

// Flips every bit of a log file, after a stop or a kill. The batches that are read are those that
// were written, or all but those of a last frame that is reported; otherwise there is an error.
TEST_F(LogFilesTest, NoChangedBitChangesWhatIsRead) {
  segment_bytes_ = 4096;
  Open();
  Write({"first", ""});
  Write({"third", "fourth"});
  Write({"fifth"});
  const std::vector<std::string> all = Read();
  const std::uint64_t end = log_->extents().front().end;
  Close(false);
  const std::string bytes = BytesOf(PathOf(1));
  const std::vector<std::string> but_last(all.begin(), all.end() - 1);
  int errors = 0;
  int tails = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::size_t at = bit / 8;
    // Far behind the end, one bit represents many.
    if (at > end + kTerminatorBytes && bit % 511 != 0) continue;
    Overwrite(PathOf(1), at, std::string(1, static_cast<char>(bytes[at] ^ (1 << (bit % 8)))));
    for (const bool clean : {false, true}) {
      mark_.clean = clean;
      const absl::Status status = TryOpen();
      if (!status.ok()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << " " << status;
        ASSERT_THAT(std::string(status.message()), HasSubstr(PathOf(1).string()));
        ++errors;
      } else if (log_->tail().has_value()) {
        ASSERT_FALSE(clean) << at;
        ASSERT_EQ(log_->tail()->path, PathOf(1)) << at;
        ASSERT_EQ(Read(), at < end ? but_last : all) << at;
        ++tails;
      } else {
        ASSERT_EQ(Read(), all) << at;
        ASSERT_GE(at, end);
      }
    }
    Overwrite(PathOf(1), at, bytes.substr(at, 1));
  }
  EXPECT_GT(errors, 1000);
  EXPECT_GT(tails, 1000);
}

// What a failing disk or a power cut may make of a last frame: zeros, or any part of it.
TEST_F(LogFilesTest, AMissingLastFrameIsReported) {
  Open();
  Write({"first"});
  Write({"second"});
  const std::uint64_t last = log_->extents().front().end;
  Write({"third", "fourth"});
  const std::uint64_t end = log_->extents().front().end;
  Close(false);
  const std::string bytes = BytesOf(PathOf(1));
  for (const std::uint64_t begin : {last, last + 8, last + 48}) {
    Overwrite(PathOf(1), begin, std::string(end - begin, '\0'));
    Open();
    EXPECT_THAT(Read(), ElementsAre("1:first", "2:second"));
    ASSERT_TRUE(log_->tail().has_value()) << begin;
    EXPECT_EQ(log_->tail()->path, PathOf(1));
    EXPECT_EQ(log_->tail()->offset, last);
    EXPECT_EQ(log_->tail()->first_log_id, 3);
    EXPECT_EQ(log_->tail()->end_log_id, 5);
    EXPECT_TRUE(log_->tail()->was_durable);
    Overwrite(PathOf(1), 0, bytes);
  }
  // Damage to more than the last frame is an error.
  Overwrite(PathOf(1), last - 8, std::string(end - last + 8, '\0'));
  const absl::Status more = TryOpen();
  EXPECT_EQ(more.code(), absl::StatusCode::kDataLoss) << more;
  EXPECT_THAT(std::string(more.message()),
              HasSubstr("batches 2 to 4 of the log were written but cannot be read"));
  Overwrite(PathOf(1), 0, bytes);
  // After a proper stop, the frame must have been written.
  mark_.clean = true;
  Overwrite(PathOf(1), last, std::string(end - last, '\0'));
  const absl::Status stopped = TryOpen();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kDataLoss) << stopped;
  EXPECT_THAT(std::string(stopped.message()),
              HasSubstr("ends before batch 3 of the log, but it ended before batch 5"));
  // After a power cut, the mark may be older than the log.
  mark_ = {.id = mark_.id, .newest_segment = 1, .last_frame_log_id = 1, .end_log_id = 2};
  Open();
  EXPECT_EQ(log_->tail(), std::nullopt);
  Overwrite(PathOf(1), 0, bytes);
  Open();
  EXPECT_EQ(Read().size(), 4U);
}

TEST_F(LogFilesTest, RemainsOfALastFrameAreFound) {
  Open();
  Write({"first"});
  const std::uint64_t last = log_->extents().front().end;
  Write({"second", "third", "fourth"});
  log_.reset();
  const auto intact = [this](std::uint64_t at) {
    Flip(PathOf(1), at);
    Open();
    Flip(PathOf(1), at);
    std::vector<std::string> found;
    if (!log_->tail().has_value()) return found;
    EXPECT_EQ(log_->tail()->first_log_id, 2);
    EXPECT_EQ(log_->tail()->end_log_id, 5);
    EXPECT_FALSE(log_->tail()->was_durable);
    for (const LogTail::Batch& batch : log_->tail()->batches) {
      EXPECT_EQ(batch.model_id, 7);
      found.push_back(std::to_string(batch.log_id) + (batch.intact ? ":" : ":damaged ") +
                      batch.data);
    }
    return found;
  };
  // The damage is in the frame's header, the second batch's data, and the third one's hash.
  EXPECT_THAT(intact(last), ElementsAre("2:second", "3:third", "4:fourth"));
  EXPECT_THAT(intact(last + 48 + 40 + 32), ElementsAre("2:second", "3:damaged uhird", "4:fourth"));
  EXPECT_THAT(intact(last + 48 + 40 + 40 + 24),
              ElementsAre("2:second", "3:third", "4:damaged fourth"));
}

TEST_F(LogFilesTest, NewDataIsDistinguishedFromOldData) {
  Open();
  const std::string quarter(kLogFilesSegment / 5, 'x');
  for (int i = 0; i < 8; ++i) Write({quarter});
  log_->MarkUnneeded(std::vector<std::int64_t>{1, 2, 3, 4});
  ASSERT_TRUE(log_->RemoveOldest().ok());
  Write({quarter});
  ASSERT_THAT(Segments(), ElementsAre(5, 9));
  Write({"small"});
  const std::uint64_t end = log_->extents().back().end;
  Close(false);
  // An old frame, truncated by the new one, is behind it.
  EXPECT_NE(BytesOf(PathOf(9)).substr(end + kTerminatorBytes, 64), std::string(64, '\0'));
  Open(5);
  EXPECT_EQ(log_->tail(), std::nullopt);
  // Anything that is written behind the end is reported.
  Overwrite(PathOf(9), end + kTerminatorBytes - 1, "x");
  Open(5);
  ASSERT_TRUE(log_->tail().has_value());
  EXPECT_EQ(log_->tail()->offset, end);
  EXPECT_EQ(Read().size(), 6U);
}

TEST_F(LogFilesTest, LeftoversAreNeverRead) {
  Open();
  Write({std::string(kLogFilesSegment / 2, 'x')});
  // A segment is created in the file that is kept for reuse, whatever it contains.
  std::ofstream(folder() + "/log.spare", std::ios::binary) << std::string(kLogFilesSegment, '\xff');
  Write({std::string(kLogFilesSegment / 2, 'y')});
  EXPECT_FALSE(std::filesystem::exists(folder() + "/log.spare"));
  Close(false);
  for (const char* const name : {"/log.spare", "/log.new"}) {
    std::ofstream(folder() + name, std::ios::binary) << "logframe";
  }
  Open(1);
  EXPECT_EQ(log_->tail(), std::nullopt);
  EXPECT_THAT(Read(), ElementsAre("1:" + std::string(kLogFilesSegment / 2, 'x'),
                                  "2:" + std::string(kLogFilesSegment / 2, 'y')));
  Write({std::string(kLogFilesSegment / 2, 'z')});
  EXPECT_THAT(Segments(), ElementsAre(1, 2, 3));
}

TEST_F(LogFilesTest, AFrameMayFillItsFile) {
  segment_bytes_ = 4096;
  for (const std::size_t left : {0U, 8U, 40U, 48U}) {
    Open();
    const auto first = log_->next_log_id();
    Write({std::string(4096 - 64 - 48 - 32 - left, 'x')});
    EXPECT_EQ(log_->extents().back().end, 4096 - left);
    Close(false);
    Open();
    EXPECT_EQ(log_->tail(), std::nullopt);
    EXPECT_EQ(log_->next_log_id(), first + 1);
    log_.reset();
    std::filesystem::remove(PathOf(first));
    mark_ = {.id = mark_.id};
  }
}

TEST_F(LogFilesTest, FilesInTheWrongPlaceAreNamed) {
  Open();
  const std::string half(kLogFilesSegment / 2, 'x');
  for (int i = 0; i < 3; ++i) Write({half});
  Close(false);
  const std::string kept = folder() + "/kept";
  const auto expect = [&](const std::string& message) {
    const absl::Status status = TryOpen(1);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  // The newest segment is missing.
  std::filesystem::rename(PathOf(3), kept);
  expect(PathOf(3).string() + " is missing: the log ends with " + PathOf(2).string());
  // Another one is copied to its name.
  std::filesystem::copy_file(PathOf(2), PathOf(3));
  expect(PathOf(3).string() + " begins with batch 2 of the log, but its name says 3");
  std::filesystem::remove(PathOf(3));
  std::filesystem::rename(kept, PathOf(3));
  // Two segments are swapped.
  std::filesystem::rename(PathOf(1), kept);
  std::filesystem::rename(PathOf(2), PathOf(1));
  std::filesystem::rename(kept, PathOf(2));
  expect(PathOf(1).string() + " begins with batch 2 of the log, but its name says 1");
  std::filesystem::rename(PathOf(1), kept);
  std::filesystem::rename(PathOf(2), PathOf(1));
  std::filesystem::rename(kept, PathOf(2));
  Open(1);
  EXPECT_EQ(Read().size(), 3U);
}

TEST_F(LogFilesTest, AFileOfAnotherStoreIsNamedAndKept) {
  const StoreMark own = mark_;
  mark_.id = StoreId::Random();
  Open();
  Write({"of another store"});
  log_.reset();
  const std::string kept = folder() + "/kept";
  std::filesystem::rename(PathOf(1), kept);
  mark_ = own;
  Open();
  Write({std::string(kLogFilesSegment / 2, 'x')});
  Write({std::string(kLogFilesSegment / 2, 'x')});
  const LogFiles::Extent extent = log_->extents().front();
  log_.reset();
  std::filesystem::copy_file(kept, PathOf(1), std::filesystem::copy_options::overwrite_existing);
  const std::string message = PathOf(1).string() + " belongs to another store; ";
  // The file replaces a needed file, one that is being removed, and one that is verified.
  for (const absl::Status& status :
       {TryOpen(1), TryOpen(2),
        LogFiles::ReadExtent(extent, [](const StoredBatch& /*batch*/, bool /*needed*/) {
          return absl::OkStatus();
        })}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  EXPECT_EQ(BytesOf(PathOf(1)), BytesOf(kept));
}

TEST_F(LogFilesTest, ADamagedBatchIsNotRead) {
  Open();
  Write({"first", "second"});
  Flip(PathOf(1), log_->extents().front().end - 40);
  EXPECT_TRUE(log_->ReadBatch(1).ok());
  const absl::Status status = log_->ReadBatch(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(1).string()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch 2 differs from what was written"));
}

}  // namespace
}  // namespace calibd::server
