#include "server/store/local/log_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"
#include "server/base/xxh3.h"

namespace calibd::server {
namespace {

constexpr std::array<char, kTerminatorBytes> kZeros{};
// Minimum size of a segment, used on a full disk.
constexpr std::uint64_t kLeastSegmentBytes = 4096;

std::uint64_t RandomSalt() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

// Maximum number of files that are kept for reuse.
constexpr std::size_t kMostSpares = 4;

// The file that is kept for reuse with this number, < kMostSpares.
std::string SparePath(const std::string& folder, std::size_t number) {
  return folder + "/log.spare" + (number == 0 ? "" : absl::StrCat("-", number));
}

bool HasSize(const std::string& path, std::uint64_t size) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) == size;
}

// Creates an empty file of `size` bytes, or fewer if the disk is full, but at least `least`.
absl::StatusOr<File> CreateFile(const std::string& folder, const std::string& path,
                                std::uint64_t& size, std::uint64_t least) {
  // Writing to a file that was written before does not change the metadata of the file system.
  bool reused = false;
  for (std::size_t i = kMostSpares; i-- > 0 && !reused;) {
    const std::string spare = SparePath(folder, i);
    reused = HasSize(spare, size) && std::rename(spare.c_str(), path.c_str()) == 0;
  }
  CALIBD_ASSIGN_OR_RETURN(File file,
                          File::Open(path, O_RDWR | (reused ? 0 : O_CREAT | O_TRUNC), "make"));
  int error = posix_fallocate(file.get(), 0, static_cast<off_t>(size));
  while (IsFull(error) && size > least) {
    size = std::max(size / 2 / kLogAlignment * kLogAlignment, least);
    // Some of it may have been taken.
    error = ftruncate(file.get(), 0) != 0
                ? errno
                : posix_fallocate(file.get(), 0, static_cast<off_t>(size));
  }
  if (error == 0) return file;
  unlink(path.c_str());
  return FileError(path, "make", error);
}

}  // namespace

LogSegment::LogSegment(File file, const SegmentHeader& header)
    : file_(std::move(file)),
      header_(header),
      last_frame_log_id_(header.first_log_id),
      next_log_id_(header.first_log_id),
      end_(sizeof(SegmentHeader) + (compacted() ? sizeof(SegmentRange) : 0)) {}

std::string LogSegment::PathOf(const std::string& folder, std::int64_t first_log_id) {
  return absl::StrCat(folder, "/log-", absl::Hex(first_log_id, absl::kZeroPad16));
}

absl::StatusOr<std::vector<std::int64_t>> LogSegment::List(const std::string& folder) {
  std::vector<std::int64_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t id = 0;
    if (absl::StartsWith(name, "log-") && absl::SimpleHexAtoi(name.substr(4), &id) &&
        entry->path() == PathOf(folder, id)) {
      ids.push_back(id);
    }
  }
  if (error) return FileError(folder, "read", error.value());
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::string LogSegment::UnfinishedPath(const std::string& folder, Kind kind) {
  return folder + (kind == Kind::kCompacted ? "/log.compacted" : "/log.new");
}

absl::StatusOr<LogSegment> LogSegment::Create(const std::string& folder, Kind kind,
                                              const Identity& identity, std::uint64_t size,
                                              std::uint64_t frame_bytes) {
  const std::uint64_t least = std::max(
      kLeastSegmentBytes, sizeof(SegmentHeader) + sizeof(SegmentRange) + LogAligned(frame_bytes));
  size = std::max(size, least);
  CALIBD_ASSIGN_OR_RETURN(File file, CreateFile(folder, UnfinishedPath(folder, kind), size, least));
  SegmentHeader header{.version = kind == Kind::kCompacted ? SegmentHeader::kCompactedVersion
                                                           : SegmentHeader::kVersion,
                       .first_log_id = identity.first_log_id,
                       .size = size,
                       .salt = RandomSalt(),
                       .store_id = identity.store_id};
  header.hash = header.Hash();
  std::array<iovec, 2> pieces{Piece(&header, sizeof(header)), Piece(kZeros.data(), kZeros.size())};
  CALIBD_RETURN_IF_ERROR(file.Write(pieces, 0));
  CALIBD_RETURN_IF_ERROR(file.Sync());
  return LogSegment(std::move(file), header);
}

absl::Status LogSegment::Publish(const std::string& folder) {
  CALIBD_RETURN_IF_ERROR(file_.Rename(PathOf(folder, first_log_id())));
  return SyncFolder(folder);
}

absl::StatusOr<LogSegment> LogSegment::Open(const std::string& folder, const Identity& identity) {
  const std::string path = PathOf(folder, identity.first_log_id);
  CALIBD_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR, "open"));
  CALIBD_ASSIGN_OR_RETURN(const SegmentHeader header, ReadSegmentHeader(file));
  if (header.store_id != identity.store_id) {
    return DamageError(path, "belongs to another store", kPutRightFileBack);
  }
  if (header.first_log_id != identity.first_log_id) {
    return DamageError(
        path,
        absl::StrCat("begins with batch ", header.first_log_id, " of the log, but its name says ",
                     identity.first_log_id, ": it was renamed or copied"),
        kPutRightFileBack);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return FileError(path, "read", errno);
  if (static_cast<std::uint64_t>(status.st_size) < header.size) {
    return DamageError(path, absl::StrCat("has ", status.st_size, " bytes, expected ", header.size,
                                          ": it was cut"));
  }
  LogSegment segment(std::move(file), header);
  if (segment.compacted()) {
    CALIBD_ASSIGN_OR_RETURN(const SegmentRange range,
                            ReadStructure<SegmentRange>(segment.file_, sizeof(SegmentHeader)));
    if (range.hash != range.Hash(header.salt)) {
      return DamageError(path, "does not begin as a compacted segment of the log");
    }
    segment.range_ = range;
  }
  return segment;
}

absl::Status LogSegment::Finish(std::int64_t end_log_id) {
  range_.end_log_id = end_log_id;
  range_.hash = range_.Hash(header_.salt);
  header_.size = end_;
  header_.hash = header_.Hash();
  if (ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) return FileError(path(), "cut", errno);
  std::array<iovec, 2> pieces{Piece(&header_, sizeof(header_)), Piece(&range_, sizeof(range_))};
  CALIBD_RETURN_IF_ERROR(file_.Write(pieces, 0));
  return file_.Sync();
}

absl::Status LogSegment::ReadFrames(std::uint64_t end, const VisitBatch& visit) {
  std::string frame;
  std::vector<FrameBatch> batches;
  while (end_ < end) {
    CALIBD_RETURN_IF_ERROR(ReadFrame(file_, header_.salt, end_, end, next_log_id_,
                                     compacted() ? range_.end_log_id - 1 : next_log_id_, frame));
    if (frame.empty() || !ParseFrame(frame, header_.salt, batches) || batches.empty()) break;
    for (const FrameBatch& batch : batches) CALIBD_RETURN_IF_ERROR(visit(batch.batch));
    AddFrame(batches.front().batch.log_id, batches, frame.size());
  }
  return compacted() && end_ < end ? DamageError(path(), absl::StrCat("is damaged at ", end_))
                                   : absl::OkStatus();
}

absl::Status LogSegment::CheckEnd() const {
  CALIBD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> later,
                          FindFrame(file_, header_.salt, end_ + kLogAlignment, size()));
  if (later.has_value()) {
    return DamageError(path(), absl::StrCat("is damaged at ", end_, ": batches from ", end_log_id(),
                                            " on cannot be read, but ", *later, " can"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LogSegment::IsTerminated() const {
  std::array<char, kTerminatorBytes> data{};
  CALIBD_RETURN_IF_ERROR(
      file_.Read(data.data(), std::min<std::uint64_t>(data.size(), size() - end_), end_).status());
  return data == kZeros;
}

absl::StatusOr<std::optional<LogTail>> LogSegment::ReadTail(std::int64_t durable_end_log_id) const {
  CALIBD_ASSIGN_OR_RETURN(const bool terminated, IsTerminated());
  if (terminated && durable_end_log_id <= end_log_id()) return std::nullopt;
  LogTail tail{.path = path(),
               .offset = end_,
               .first_log_id = end_log_id(),
               .end_log_id = std::max(durable_end_log_id, end_log_id())};
  CALIBD_RETURN_IF_ERROR(ReadTailBatches(tail));
  tail.was_durable = durable_end_log_id > end_log_id() && durable_end_log_id >= tail.end_log_id;
  return tail;
}

absl::Status LogSegment::ReadTailBatches(LogTail& tail) const {
  CALIBD_ASSIGN_OR_RETURN(const LogFrameHeader frame, ReadStructure<LogFrameHeader>(file_, end_));
  std::uint64_t end = size();
  if (frame.IsValid(header_.salt, size() - end_) && frame.first_log_id == tail.first_log_id) {
    end = end_ + frame.bytes;
    tail.end_log_id = tail.first_log_id + static_cast<std::int64_t>(frame.batches);
  }
  // Without the header of the frame, the batches are found by their own hashes.
  std::string data;
  std::int64_t log_id = tail.first_log_id;
  for (std::uint64_t place = end_ + sizeof(LogFrameHeader); place + sizeof(BatchHeader) <= end;) {
    CALIBD_ASSIGN_OR_RETURN(const BatchHeader header, ReadStructure<BatchHeader>(file_, place));
    if (header.bytes > end - place - sizeof(BatchHeader)) break;
    data.resize(sizeof(BatchHeader) + header.bytes);
    CALIBD_RETURN_IF_ERROR(file_.Read(data.data(), data.size(), place).status());
    const bool intact = ParseBatch(data, log_id, header_.salt).has_value();
    if (!intact && log_id >= tail.end_log_id) break;
    tail.batches.push_back({.log_id = log_id,
                            .model_id = header.model_id,
                            .intact = intact,
                            .data = data.substr(sizeof(BatchHeader))});
    place += LogAligned(data.size());
    ++log_id;
  }
  tail.end_log_id = std::max(tail.end_log_id, log_id);
  return absl::OkStatus();
}

absl::Status LogSegment::Append(std::int64_t first_log_id, const LogFrame& frame) {
  // The batches are not copied: that would take as long as the write.
  LogFrameHeader header;
  std::vector<BatchHeader> batches;
  batches.reserve(frame.batches().size());
  std::vector<iovec> pieces;
  pieces.reserve(2 + 3 * frame.batches().size());
  pieces.push_back(Piece(&header, sizeof(header)));
  std::int64_t log_id = first_log_id;
  for (const LogFrame::Batch& batch : frame.batches()) {
    const std::size_t size = batch.data.size();
    batches.push_back({.model_id = batch.model_id, .time_us = batch.time_us, .bytes = size});
    batches.back().hash = batches.back().Hash(log_id++, batch.data, header_.salt);
    pieces.push_back(Piece(&batches.back(), sizeof(BatchHeader)));
    pieces.push_back(Piece(batch.data.data(), size));
    pieces.push_back(Piece(kZeros.data(), LogAligned(size) - size));
  }
  header = {.first_log_id = first_log_id,
            .batches = batches.size(),
            .bytes = frame.bytes(),
            .batches_hash = XXH3_64bits_withSeed(
                batches.data(), batches.size() * sizeof(BatchHeader), header_.salt)};
  header.hash = header.Hash(header_.salt);
  pieces.push_back(
      Piece(kZeros.data(), std::min<std::uint64_t>(kZeros.size(), size() - end_ - frame.bytes())));
#ifdef CALIBD_FAILPOINTS
  // Written in two parts, so that a test can end the process during the write, like a power cut.
  const std::size_t first = pieces.size() / 2;
#else
  const std::size_t first = 0;
#endif
  std::uint64_t first_bytes = 0;
  for (std::size_t i = 0; i < first; ++i) first_bytes += pieces[i].iov_len;
  CALIBD_RETURN_IF_ERROR(file_.Write(std::span(pieces).first(first), end_));
  Failpoint("torn");
  CALIBD_RETURN_IF_ERROR(file_.Write(std::span(pieces).subspan(first), end_ + first_bytes));
  AddFrame(first_log_id, frame.batches(), frame.bytes());
  return absl::OkStatus();
}

absl::Status LogSegment::ReadBatch(std::int64_t log_id, std::string& data,
                                   StoredBatch& batch) const {
  const std::optional<std::size_t> index = IndexOf(log_id);
  if (!index.has_value()) return DamageError(path(), absl::StrCat("does not hold batch ", log_id));
  const std::uint64_t place = places_[*index] * kLogAlignment;
  data.resize(bytes_of(*index));
  CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file_.Read(data.data(), data.size(), place));
  const std::optional<StoredBatch> stored =
      ParseBatch(std::string_view(data).substr(0, read), log_id, header_.salt);
  if (!stored.has_value()) {
    return DamageError(path(), absl::StrCat("is damaged at ", place, ": batch ", log_id,
                                            " differs from what was written"));
  }
  batch = *stored;
  return absl::OkStatus();
}

void LogSegment::MarkUnneeded(std::int64_t log_id) noexcept {
  const std::optional<std::size_t> index = IndexOf(log_id);
  if (!index.has_value() || !needed_[*index]) return;
  needed_[*index] = false;
  --needed_batches_;
  needed_bytes_ -= bytes_of(*index);
}

std::optional<std::int64_t> LogSegment::NextNeeded(std::int64_t log_id) const noexcept {
  const std::size_t after = RunAfter(log_id);
  for (std::size_t run = after == 0 ? 0 : after - 1; run < runs_.size(); ++run) {
    const auto& [first_log_id, first] = runs_[run];
    std::size_t index =
        first + static_cast<std::size_t>(std::max<std::int64_t>(0, log_id - first_log_id));
    for (; index < EndOfRun(run); ++index) {
      if (needed_[index]) return first_log_id + static_cast<std::int64_t>(index - first);
    }
  }
  return std::nullopt;
}

absl::Status LogSegment::Remove(const std::string& folder, std::size_t most_spares) const {
  most_spares = std::min(most_spares, kMostSpares);
  std::size_t spare = 0;
  // A file of another size cannot be reused, and is replaced.
  while (spare < most_spares && HasSize(SparePath(folder, spare), size())) ++spare;
  if ((spare < most_spares ? std::rename(path().c_str(), SparePath(folder, spare).c_str())
                           : unlink(path().c_str())) != 0) {
    return FileError(path(), "remove", errno);
  }
  return absl::OkStatus();
}

std::uint64_t LogSegment::bytes_of(std::size_t index) const noexcept {
  const std::uint64_t begin = places_[index] * kLogAlignment;
  return (index + 1 < places_.size() ? places_[index + 1] * kLogAlignment : end_) - begin;
}

std::size_t LogSegment::RunAfter(std::int64_t log_id) const noexcept {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), log_id,
                       [](std::int64_t id, const Run& run) { return id < run.first_log_id; });
  return static_cast<std::size_t>(after - runs_.begin());
}

std::optional<std::size_t> LogSegment::IndexOf(std::int64_t log_id) const noexcept {
  const std::size_t after = RunAfter(log_id);
  if (after == 0) return std::nullopt;
  const Run& run = runs_[after - 1];
  const std::size_t index = run.index + static_cast<std::size_t>(log_id - run.first_log_id);
  return index < EndOfRun(after - 1) ? std::optional(index) : std::nullopt;
}

template <typename Batches>
void LogSegment::AddFrame(std::int64_t first_log_id, const Batches& batches, std::uint64_t bytes) {
  if (runs_.empty() || first_log_id != next_log_id_) {
    runs_.push_back({.first_log_id = first_log_id, .index = places_.size()});
  }
  for (const auto& batch : batches) {
    places_.push_back(static_cast<std::uint32_t>((end_ + batch.place) / kLogAlignment));
  }
  last_frame_log_id_ = first_log_id;
  next_log_id_ = first_log_id + static_cast<std::int64_t>(batches.size());
  needed_.resize(places_.size(), true);
  needed_batches_ += batches.size();
  needed_bytes_ += bytes;
  end_ += bytes;
}

}  // namespace calibd::server
