#include "server/store/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"
#include "server/xxh3.h"

namespace calibd::server {
namespace {

// What is in the files are these structures as they are in memory.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kSegmentMagic = 0x676f6c6461626c63;  // "clbadlog"
constexpr std::uint64_t kSegmentVersion = 1;
constexpr std::uint64_t kFrameMagic = 0x656d617266676f6c;  // "logframe"
// Frames and batches begin at multiples of it.
constexpr std::uint64_t kAlignment = 8;
constexpr std::array<char, kAlignment> kZeros{};
// On a full disk a segment is as small as this.
constexpr std::uint64_t kLeastSegmentBytes = 4096;
// From so many segments on it is looked at how much of them is needed.
constexpr std::size_t kFewSegments = 4;
// Of one read while frames are looked for.
constexpr std::size_t kSearchBytes = std::size_t{1} << 20;

struct SegmentHeader {
  std::uint64_t magic = kSegmentMagic;
  std::uint64_t version = kSegmentVersion;
  std::int64_t first_log_id = 0;
  std::uint64_t size = 0;
  // Seed of the hashes in this segment: no bytes of another segment, or of the one that the
  // file was before, are taken for a frame of it.
  std::uint64_t salt = 0;
  std::uint64_t hash = 0;  // of all before it

  [[nodiscard]] std::uint64_t Hash() const {
    return XXH3_64bits(this, offsetof(SegmentHeader, hash));
  }
};

struct FrameHeader {
  std::uint64_t magic = kFrameMagic;
  std::int64_t first_log_id = 0;
  std::uint64_t batches = 0;
  // With the header, a multiple of 8.
  std::uint64_t bytes = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t hash = 0;  // of all before it

  [[nodiscard]] std::uint64_t Hash(std::uint64_t salt) const {
    return XXH3_64bits_withSeed(this, offsetof(FrameHeader, hash), salt);
  }
  // Whether it is one, at a place that has room for `room` bytes.
  [[nodiscard]] bool IsValid(std::uint64_t salt, std::uint64_t room) const {
    return magic == kFrameMagic && hash == Hash(salt) && bytes >= sizeof(FrameHeader) &&
           bytes <= room && bytes % kAlignment == 0;
  }
};

struct BatchHeader {
  std::int64_t model_id = 0;
  std::int64_t time_us = 0;
  std::uint64_t bytes = 0;  // of the data that follow
};

// Of the pieces one behind the other.
std::uint64_t HashOf(std::span<const iovec> pieces, std::uint64_t salt) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  if (state == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset_withSeed(state.get(), salt);
  for (const iovec& piece : pieces) {
    XXH3_64bits_update(state.get(), piece.iov_base, piece.iov_len);
  }
  return XXH3_64bits_digest(state.get());
}

constexpr std::uint64_t Aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Whether it is that there is no room; EFBIG: the process may not write so large a file.
bool IsFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

absl::Status FileError(const std::string& path, std::string_view action, int error) {
  const std::string message =
      absl::StrCat("the store cannot ", std::string(action), " ", path, ": ", std::strerror(error));
  return IsFull(error) ? MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message)
                       : MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
}

absl::Status DamageError(const std::string& path, std::string_view reason) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                   absl::StrCat("the store is damaged: ", path, " ", std::string(reason),
                                "; restore a backup, or move the folder away to begin anew"));
}

iovec Piece(const void* data, std::size_t size) {
  // It is only read.
  return {.iov_base = const_cast<void*>(data), .iov_len = size};
}

// Writes the pieces one behind the other, and uses them up.
absl::Status WriteAll(int file, const std::string& path, std::span<iovec> pieces,
                      std::uint64_t offset) {
  while (!pieces.empty()) {
    const auto count = static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX));
    const ssize_t written = pwritev(file, pieces.data(), count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return FileError(path, "write", written < 0 ? errno : EIO);
    }
    offset += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (left > 0) {
      iovec& first = pieces.front();
      first = Piece(static_cast<const char*>(first.iov_base) + left, first.iov_len - left);
    }
  }
  return absl::OkStatus();
}

// A sync that failed is not tried again: what the disk holds is not known. So it is no full disk.
absl::Status Sync(int file, const std::string& path) {
  if (fdatasync(file) == 0) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat("the store cannot sync ", path, ": ", std::strerror(errno)));
}

// Returns how many bytes there were.
absl::StatusOr<std::size_t> ReadSome(int file, const std::string& path, char* data,
                                     std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t read = pread(file, data + done, size - done, static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) {
      continue;
    }
    if (read < 0) {
      return FileError(path, "read", errno);
    }
    if (read == 0) {
      break;
    }
    done += static_cast<std::size_t>(read);
  }
  return done;
}

template <typename Header>
absl::StatusOr<Header> ReadHeader(int file, const std::string& path, std::uint64_t offset) {
  Header header{};
  const absl::StatusOr<std::size_t> read =
      ReadSome(file, path, reinterpret_cast<char*>(&header), sizeof(Header), offset);
  if (!read.ok()) {
    return read.status();
  }
  return *read == sizeof(Header) ? header : Header{.magic = 0};
}

absl::StatusOr<SegmentHeader> ReadSegmentHeader(int file, const std::string& path) {
  absl::StatusOr<SegmentHeader> header = ReadHeader<SegmentHeader>(file, path, 0);
  if (header.ok() && (header->magic != kSegmentMagic || header->hash != header->Hash())) {
    return DamageError(path, "does not begin as a segment of the log");
  }
  if (header.ok() && header->version != kSegmentVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat(path, " was written by a newer calibd"));
  }
  return header;
}

// The frame there, in `frame`; empty if there is no valid one that begins with this batch.
absl::Status ReadFrame(int file, const std::string& path, std::uint64_t salt, std::uint64_t offset,
                       std::uint64_t end, std::int64_t first_log_id, std::string& frame) {
  frame.clear();
  if (offset + sizeof(FrameHeader) > end) {
    return absl::OkStatus();
  }
  const absl::StatusOr<FrameHeader> header = ReadHeader<FrameHeader>(file, path, offset);
  if (!header.ok()) {
    return header.status();
  }
  if (!header->IsValid(salt, end - offset) || header->first_log_id != first_log_id) {
    return absl::OkStatus();
  }
  frame.resize(header->bytes);
  const absl::StatusOr<std::size_t> read = ReadSome(file, path, frame.data(), frame.size(), offset);
  if (!read.ok()) {
    return read.status();
  }
  if (*read < frame.size() ||
      XXH3_64bits_withSeed(frame.data() + sizeof(FrameHeader), frame.size() - sizeof(FrameHeader),
                           salt) != header->payload_hash) {
    frame.clear();
  }
  return absl::OkStatus();
}

// visit: called with each batch and its place in the frame. False if the frame is not made of
// batches.
template <typename Visit>
absl::StatusOr<bool> VisitFrame(const std::string& frame, const Visit& visit) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  std::uint64_t place = sizeof(FrameHeader);
  for (std::uint64_t i = 0; i < header.batches; ++i) {
    BatchHeader batch;
    if (frame.size() - place < sizeof(batch)) {
      return false;
    }
    std::memcpy(&batch, frame.data() + place, sizeof(batch));
    if (batch.bytes > frame.size() - place - sizeof(batch)) {
      return false;
    }
    absl::Status status =
        visit(StoredBatch{.log_id = header.first_log_id + static_cast<std::int64_t>(i),
                          .model_id = batch.model_id,
                          .time_us = batch.time_us,
                          .data = {frame.data() + place + sizeof(batch), batch.bytes}},
              place);
    if (!status.ok()) {
      return status;
    }
    place = std::min<std::uint64_t>(Aligned(place + sizeof(batch) + batch.bytes), frame.size());
  }
  return place == frame.size();
}

// The id of the first frame that begins anywhere from here on; unset if there is none.
absl::StatusOr<std::optional<std::int64_t>> FindFrame(int file, const std::string& path,
                                                      std::uint64_t salt, std::uint64_t offset,
                                                      std::uint64_t size) {
  std::string data;
  while (offset + sizeof(FrameHeader) <= size) {
    // What was never written need not be read.
    const off_t written = lseek(file, static_cast<off_t>(offset), SEEK_DATA);
    if (written < 0 && errno == ENXIO) {
      break;
    }
    if (written >= 0) {
      offset = std::max(offset, static_cast<std::uint64_t>(written) / kAlignment * kAlignment);
    }
    data.resize(std::min<std::uint64_t>(kSearchBytes, size - std::min(size, offset)));
    const absl::StatusOr<std::size_t> read = ReadSome(file, path, data.data(), data.size(), offset);
    if (!read.ok()) {
      return read.status();
    }
    if (*read < sizeof(FrameHeader)) {
      break;
    }
    std::uint64_t place = 0;
    for (; place + sizeof(FrameHeader) <= *read; place += kAlignment) {
      FrameHeader header;
      std::memcpy(&header, data.data() + place, sizeof(header));
      if (header.IsValid(salt, size - offset - place)) {
        return header.first_log_id;
      }
    }
    offset += place;
  }
  return std::nullopt;
}

std::uint64_t RandomSalt() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::uint64_t LogFiles::Segment::bytes_of(std::size_t index) const noexcept {
  const std::uint64_t begin = places[index] * kAlignment;
  return (index + 1 < places.size() ? places[index + 1] * kAlignment : end) - begin;
}

std::string LogFiles::PathOf(std::int64_t first_log_id) const {
  return absl::StrCat(folder_, "/log-", absl::Hex(first_log_id, absl::kZeroPad16));
}

absl::StatusOr<std::unique_ptr<LogFiles>> LogFiles::Open(const std::string& folder,
                                                         const Options& options) {
  std::unique_ptr<LogFiles> files(new LogFiles(folder, options.segment_bytes));
  absl::Status status = files->OpenAll(options);
  if (!status.ok()) {
    return status;
  }
  return files;
}

absl::Status LogFiles::OpenAll(const Options& options) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t id = 0;
    if (!absl::StartsWith(name, "log-") || !absl::SimpleHexAtoi(name.substr(4), &id) ||
        entry->path() != PathOf(id)) {
      continue;
    }
    if (id < options.first_log_id) {
      // Its removal was begun.
      std::filesystem::remove(entry->path(), error);
    } else {
      paths.push_back(entry->path().string());
    }
  }
  if (!error) {
    std::filesystem::remove(folder_ + "/log.new", error);
  }
  if (error) {
    return FileError(folder_, "read", error.value());
  }
  std::sort(paths.begin(), paths.end());
  next_log_id_ = options.first_log_id != 0 ? options.first_log_id : options.next_log_id;
  if (paths.empty() && options.first_log_id == 0) {
    return AddSegment(next_log_id_, 0);
  }
  for (const std::string& path : paths) {
    absl::StatusOr<Segment> segment = OpenSegment(path);
    if (!segment.ok()) {
      return segment.status();
    }
    segments_.push_back(*std::move(segment));
  }
  if (segments_.empty() || segments_.front().path != PathOf(next_log_id_)) {
    return DamageError(PathOf(next_log_id_), segments_.empty()
                                                 ? "is missing"
                                                 : "is missing: the log begins with another file");
  }
  return absl::OkStatus();
}

absl::StatusOr<LogFiles::Segment> LogFiles::OpenSegment(const std::string& path) {
  Segment segment;
  segment.path = path;
  segment.file = File(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (segment.file.get() < 0) {
    return FileError(path, "open", errno);
  }
  const absl::StatusOr<SegmentHeader> header = ReadSegmentHeader(segment.file.get(), path);
  if (!header.ok()) {
    return header.status();
  }
  struct stat status {};
  if (fstat(segment.file.get(), &status) != 0) {
    return FileError(path, "read", errno);
  }
  if (static_cast<std::uint64_t>(status.st_size) < header->size) {
    return DamageError(path, absl::StrCat("has ", status.st_size, " bytes, expected ", header->size,
                                          ": it was cut"));
  }
  segment.first_log_id = header->first_log_id;
  segment.salt = header->salt;
  segment.size = header->size;
  segment.end = sizeof(SegmentHeader);
  return segment;
}

absl::Status LogFiles::ReadFrames(Segment& segment, std::uint64_t end, const VisitBatch& visit) {
  std::string frame;
  while (segment.end < end) {
    absl::Status status = ReadFrame(segment.file.get(), segment.path, segment.salt, segment.end,
                                    end, segment.end_log_id(), frame);
    if (!status.ok() || frame.empty()) {
      return status;
    }
    const absl::StatusOr<bool> read =
        VisitFrame(frame, [&](const StoredBatch& batch, std::uint64_t place) {
          segment.places.push_back(static_cast<std::uint32_t>((segment.end + place) / kAlignment));
          return visit(batch);
        });
    if (!read.ok()) {
      return read.status();
    }
    if (!*read) {
      return DamageError(segment.path, absl::StrCat("holds no batches at ", segment.end));
    }
    segment.end += frame.size();
  }
  return absl::OkStatus();
}

absl::Status LogFiles::CheckEnd(const Segment& newest) {
  const absl::StatusOr<std::optional<std::int64_t>> later =
      FindFrame(newest.file.get(), newest.path, newest.salt, newest.end + kAlignment, newest.size);
  if (!later.ok()) {
    return later.status();
  }
  if (later->has_value()) {
    return DamageError(newest.path, absl::StrCat("is damaged at ", newest.end, ": batches from ",
                                                 newest.end_log_id(), " on cannot be read, but ",
                                                 **later, " can"));
  }
  return absl::OkStatus();
}

absl::Status LogFiles::Read(const VisitBatch& visit) {
  const Segment* former = nullptr;
  for (Segment& segment : segments_) {
    if (segment.first_log_id != next_log_id_ || segment.path != PathOf(next_log_id_)) {
      return DamageError(former == nullptr ? segment.path : former->path,
                         absl::StrCat("ends before batch ", next_log_id_, ", and ", segment.path,
                                      " does not begin with it: a file is damaged or missing"));
    }
    if (absl::Status status = ReadFrames(segment, segment.size, visit); !status.ok()) {
      return status;
    }
    next_log_id_ = segment.end_log_id();
    segment.needed.assign(segment.places.size(), true);
    segment.needed_batches = segment.places.size();
    segment.needed_bytes = segment.end - sizeof(SegmentHeader);
    former = &segment;
  }
  const Segment& newest = segments_.back();
  absl::Status status = CheckEnd(newest);
  // A frame that was not acknowledged may not be on the disk yet.
  return status.ok() && !newest.places.empty() ? Sync(newest.file.get(), newest.path) : status;
}

absl::Status LogFiles::AddSegment(std::int64_t first_log_id, std::uint64_t frame_bytes) {
  const std::string path = folder_ + "/log.new";
  const std::string spare = folder_ + "/log.spare";
  const std::uint64_t least = std::max(kLeastSegmentBytes, sizeof(SegmentHeader) + frame_bytes);
  Segment segment;
  segment.path = PathOf(first_log_id);
  segment.size = std::max(segment_bytes_, least);
  struct stat status {};
  // A file that was written before needs no change of the file system's own data when it is
  // written again.
  if (stat(spare.c_str(), &status) == 0 &&
      static_cast<std::uint64_t>(status.st_size) == segment.size &&
      std::rename(spare.c_str(), path.c_str()) == 0) {
    segment.file = File(open(path.c_str(), O_RDWR | O_CLOEXEC));
  } else {
    segment.file = File(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  }
  if (segment.file.get() < 0) {
    return FileError(path, "make", errno);
  }
  int error = posix_fallocate(segment.file.get(), 0, static_cast<off_t>(segment.size));
  while (IsFull(error) && segment.size > least) {
    segment.size = std::max(segment.size / 2 / kAlignment * kAlignment, least);
    // Some of it may have been taken.
    error = ftruncate(segment.file.get(), 0) != 0
                ? errno
                : posix_fallocate(segment.file.get(), 0, static_cast<off_t>(segment.size));
  }
  if (error != 0) {
    unlink(path.c_str());
    return FileError(path, "make", error);
  }
  SegmentHeader header{.first_log_id = first_log_id, .size = segment.size, .salt = RandomSalt()};
  header.hash = header.Hash();
  std::array<iovec, 1> pieces{Piece(&header, sizeof(header))};
  absl::Status made = WriteAll(segment.file.get(), path, pieces, 0);
  if (!made.ok()) {
    return made;
  }
  if (fsync(segment.file.get()) != 0) {
    return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED",
                     absl::StrCat("the store cannot sync ", path, ": ", std::strerror(errno)));
  }
  if (std::rename(path.c_str(), segment.path.c_str()) != 0) {
    return FileError(path, "rename", errno);
  }
  if (made = SyncFolder(); !made.ok()) {
    return made;
  }
  segment.first_log_id = first_log_id;
  segment.salt = header.salt;
  segment.end = sizeof(SegmentHeader);
  if (!segments_.empty() && segments_.back().places.empty()) {
    // It was too small for its first frame, and had the same name.
    segments_.pop_back();
  }
  segments_.push_back(std::move(segment));
  return absl::OkStatus();
}

absl::Status LogFiles::SyncFolder() const {
  const File folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || fsync(folder.get()) != 0) {
    return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED",
                     absl::StrCat("the store cannot sync ", folder_, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

std::int64_t LogFiles::Append(std::int64_t model_id, std::int64_t time_us, std::string data) {
  const std::uint64_t place = appended_.empty() ? sizeof(FrameHeader) : frame_bytes_;
  appended_.push_back(
      {.place = place, .model_id = model_id, .time_us = time_us, .data = std::move(data)});
  frame_bytes_ = Aligned(place + sizeof(BatchHeader) + appended_.back().data.size());
  return next_log_id_ + static_cast<std::int64_t>(appended_.size()) - 1;
}

absl::Status LogFiles::Commit() {
  if (appended_.empty()) {
    return absl::OkStatus();
  }
  if (segments_.back().size - segments_.back().end < frame_bytes_) {
    if (absl::Status status = AddSegment(next_log_id_, frame_bytes_); !status.ok()) {
      return status;
    }
    Failpoint("segment");
  }
  Segment& segment = segments_.back();
  // Written from where they are, as a copy of them would take as long as the write.
  FrameHeader header;
  std::vector<BatchHeader> batches;
  batches.reserve(appended_.size());
  std::vector<iovec> pieces;
  pieces.reserve(1 + 3 * appended_.size());
  pieces.push_back(Piece(&header, sizeof(header)));
  for (const Appended& batch : appended_) {
    const std::size_t size = batch.data.size();
    batches.push_back({.model_id = batch.model_id, .time_us = batch.time_us, .bytes = size});
    pieces.push_back(Piece(&batches.back(), sizeof(BatchHeader)));
    pieces.push_back(Piece(batch.data.data(), size));
    pieces.push_back(Piece(kZeros.data(), Aligned(size) - size));
  }
  header = {.first_log_id = next_log_id_,
            .batches = appended_.size(),
            .bytes = frame_bytes_,
            .payload_hash = HashOf(std::span<const iovec>(pieces).subspan(1), segment.salt)};
  header.hash = header.Hash(segment.salt);
#ifdef CALIBD_FAILPOINTS
  // So that the process can end as when the power goes while it is written.
  const std::size_t first = pieces.size() / 2;
#else
  const std::size_t first = 0;
#endif
  std::uint64_t first_bytes = 0;
  for (std::size_t i = 0; i < first; ++i) {
    first_bytes += pieces[i].iov_len;
  }
  absl::Status status =
      WriteAll(segment.file.get(), segment.path, std::span(pieces).first(first), segment.end);
  Failpoint("torn");
  if (status.ok()) {
    status = WriteAll(segment.file.get(), segment.path, std::span(pieces).subspan(first),
                      segment.end + first_bytes);
  }
  if (status.ok()) {
    status = Sync(segment.file.get(), segment.path);
  }
  if (!status.ok()) {
    return status;
  }
  for (const Appended& batch : appended_) {
    segment.places.push_back(static_cast<std::uint32_t>((segment.end + batch.place) / kAlignment));
  }
  segment.needed.resize(segment.places.size(), true);
  segment.needed_batches += appended_.size();
  segment.needed_bytes += frame_bytes_;
  segment.end += frame_bytes_;
  next_log_id_ = segment.end_log_id();
  Rollback();
  return absl::OkStatus();
}

void LogFiles::Rollback() noexcept {
  appended_.clear();
  frame_bytes_ = 0;
}

std::size_t LogFiles::Find(std::int64_t log_id) const noexcept {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), log_id,
      [](std::int64_t id, const Segment& segment) { return id < segment.first_log_id; });
  return after == segments_.begin() ? 0 : static_cast<std::size_t>(after - segments_.begin()) - 1;
}

absl::Status LogFiles::ReadAt(const Segment& segment, std::int64_t log_id, std::string& data,
                              StoredBatch& batch) {
  if (log_id < segment.first_log_id || log_id >= segment.end_log_id()) {
    return DamageError(segment.path, absl::StrCat("does not hold batch ", log_id));
  }
  const auto index = static_cast<std::size_t>(log_id - segment.first_log_id);
  const std::uint64_t place = segment.places[index] * kAlignment;
  BatchHeader header;
  data.resize(segment.bytes_of(index));
  const absl::StatusOr<std::size_t> read =
      ReadSome(segment.file.get(), segment.path, data.data(), data.size(), place);
  if (!read.ok()) {
    return read.status();
  }
  if (*read == data.size() && *read >= sizeof(header)) {
    std::memcpy(&header, data.data(), sizeof(header));
  }
  if (*read < data.size() || *read < sizeof(header) || header.bytes > *read - sizeof(header)) {
    return DamageError(segment.path, absl::StrCat("cannot be read at ", place));
  }
  batch = {.log_id = log_id,
           .model_id = header.model_id,
           .time_us = header.time_us,
           .data = {data.data() + sizeof(header), header.bytes}};
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogFiles::ReadBatch(std::int64_t log_id) const {
  if (log_id >= next_log_id_ &&
      log_id < next_log_id_ + static_cast<std::int64_t>(appended_.size())) {
    return appended_[static_cast<std::size_t>(log_id - next_log_id_)].data;
  }
  std::string data;
  StoredBatch batch;
  if (absl::Status status = ReadAt(segments_[Find(log_id)], log_id, data, batch); !status.ok()) {
    return status;
  }
  return std::string(batch.data);
}

std::int64_t LogFiles::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Segment& segment : segments_) {
    bytes += segment.size;
  }
  return static_cast<std::int64_t>(bytes);
}

void LogFiles::MarkUnneeded(std::span<const std::int64_t> log_ids) {
  if (holders_ > 0) {
    unneeded_later_.insert(unneeded_later_.end(), log_ids.begin(), log_ids.end());
    return;
  }
  for (const std::int64_t log_id : log_ids) {
    Segment& segment = segments_[Find(log_id)];
    if (log_id < segment.first_log_id || log_id >= segment.end_log_id()) {
      continue;
    }
    const auto index = static_cast<std::size_t>(log_id - segment.first_log_id);
    if (segment.needed[index]) {
      segment.needed[index] = false;
      --segment.needed_batches;
      segment.needed_bytes -= segment.bytes_of(index);
    }
  }
}

void LogFiles::Release() {
  --holders_;
  if (holders_ == 0) {
    MarkUnneeded(std::exchange(unneeded_later_, {}));
  }
}

bool LogFiles::RetirementDue() const noexcept {
  if (holders_ > 0 || segments_.size() < 2) {
    return false;
  }
  if (segments_.front().needed_batches == 0) {
    return true;
  }
  std::uint64_t needed = 0;
  for (const Segment& segment : segments_) {
    needed += segment.needed_bytes;
  }
  return segments_.size() > kFewSegments && needed < static_cast<std::uint64_t>(bytes()) / 2;
}

absl::StatusOr<std::int64_t> LogFiles::ReadNeededOfOldest(std::int64_t from_log_id,
                                                          std::size_t max_bytes,
                                                          const VisitBatch& visit) const {
  const Segment& segment = segments_.front();
  std::size_t bytes = 0;
  std::string data;
  std::int64_t log_id = std::max(from_log_id, segment.first_log_id);
  for (; log_id < segment.end_log_id() && bytes < max_bytes; ++log_id) {
    if (!segment.needed[static_cast<std::size_t>(log_id - segment.first_log_id)]) {
      continue;
    }
    StoredBatch batch;
    absl::Status status = ReadAt(segment, log_id, data, batch);
    if (status.ok()) {
      status = visit(batch);
    }
    if (!status.ok()) {
      return status;
    }
    bytes += data.size();
  }
  return log_id;
}

absl::Status LogFiles::RemoveOldest() {
  const Segment& segment = segments_.front();
  const std::string spare = folder_ + "/log.spare";
  const bool spare_fits = segment.size == segment_bytes_;
  if ((spare_fits ? std::rename(segment.path.c_str(), spare.c_str())
                  : unlink(segment.path.c_str())) != 0) {
    return FileError(segment.path, "remove", errno);
  }
  segments_.pop_front();
  return absl::OkStatus();
}

std::vector<LogFiles::Extent> LogFiles::extents() const {
  std::vector<Extent> extents;
  for (const Segment& segment : segments_) {
    extents.push_back({.path = segment.path,
                       .first_log_id = segment.first_log_id,
                       .end = segment.end,
                       .needed = segment.needed});
  }
  return extents;
}

absl::Status LogFiles::ReadExtent(
    const Extent& extent,
    const std::function<absl::Status(const StoredBatch&, bool needed)>& visit) {
  absl::StatusOr<Segment> segment = OpenSegment(extent.path);
  if (!segment.ok()) {
    return segment.status();
  }
  absl::Status status = ReadFrames(*segment, extent.end, [&](const StoredBatch& batch) {
    const auto index = static_cast<std::size_t>(batch.log_id - extent.first_log_id);
    return visit(batch, index < extent.needed.size() && extent.needed[index]);
  });
  if (status.ok() && segment->end < extent.end) {
    return DamageError(segment->path, absl::StrCat("cannot be read at ", segment->end));
  }
  return status;
}

}  // namespace calibd::server
