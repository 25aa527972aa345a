#include "server/store/log_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <utility>

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

template <typename Header>
absl::StatusOr<Header> ReadHeader(const File& file, std::uint64_t offset) {
  Header header{};
  const absl::StatusOr<std::size_t> read =
      file.Read(reinterpret_cast<char*>(&header), sizeof(Header), offset);
  if (!read.ok()) {
    return read.status();
  }
  return *read == sizeof(Header) ? header : Header{.magic = 0};
}

absl::StatusOr<SegmentHeader> ReadSegmentHeader(const File& file) {
  absl::StatusOr<SegmentHeader> header = ReadHeader<SegmentHeader>(file, 0);
  if (header.ok() && (header->magic != kSegmentMagic || header->hash != header->Hash())) {
    return DamageError(file.path(), "does not begin as a segment of the log");
  }
  if (header.ok() && header->version != kSegmentVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat(file.path(), " was written by a newer calibd"));
  }
  return header;
}

// The frame there, in `frame`; empty if there is no valid one that begins with this batch.
absl::Status ReadFrame(const File& file, std::uint64_t salt, std::uint64_t offset,
                       std::uint64_t end, std::int64_t first_log_id, std::string& frame) {
  frame.clear();
  if (offset + sizeof(FrameHeader) > end) {
    return absl::OkStatus();
  }
  const absl::StatusOr<FrameHeader> header = ReadHeader<FrameHeader>(file, offset);
  if (!header.ok()) {
    return header.status();
  }
  if (!header->IsValid(salt, end - offset) || header->first_log_id != first_log_id) {
    return absl::OkStatus();
  }
  frame.resize(header->bytes);
  const absl::StatusOr<std::size_t> read = file.Read(frame.data(), frame.size(), offset);
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
absl::StatusOr<std::optional<std::int64_t>> FindFrame(const File& file, std::uint64_t salt,
                                                      std::uint64_t offset, std::uint64_t size) {
  std::string data;
  while (offset + sizeof(FrameHeader) <= size) {
    // What was never written need not be read.
    const off_t written = lseek(file.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (written < 0 && errno == ENXIO) {
      break;
    }
    if (written >= 0) {
      offset = std::max(offset, static_cast<std::uint64_t>(written) / kAlignment * kAlignment);
    }
    data.resize(std::min<std::uint64_t>(kSearchBytes, size - std::min(size, offset)));
    const absl::StatusOr<std::size_t> read = file.Read(data.data(), data.size(), offset);
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

std::string SparePath(const std::string& folder) { return folder + "/log.spare"; }

}  // namespace

void LogFrame::Append(std::int64_t model_id, std::int64_t time_us, std::string data) {
  const std::uint64_t place = batches_.empty() ? sizeof(FrameHeader) : bytes_;
  batches_.push_back(
      {.place = place, .model_id = model_id, .time_us = time_us, .data = std::move(data)});
  bytes_ = Aligned(place + sizeof(BatchHeader) + batches_.back().data.size());
}

void LogFrame::Clear() noexcept {
  batches_.clear();
  bytes_ = 0;
}

LogSegment::LogSegment(File file, std::int64_t first_log_id, std::uint64_t salt, std::uint64_t size)
    : file_(std::move(file)),
      first_log_id_(first_log_id),
      salt_(salt),
      size_(size),
      end_(sizeof(SegmentHeader)) {}

std::string LogSegment::PathOf(const std::string& folder, std::int64_t first_log_id) {
  return absl::StrCat(folder, "/log-", absl::Hex(first_log_id, absl::kZeroPad16));
}

std::string LogSegment::UnfinishedPath(const std::string& folder) { return folder + "/log.new"; }

absl::StatusOr<LogSegment> LogSegment::Make(const std::string& folder, std::int64_t first_log_id,
                                            std::uint64_t size, std::uint64_t frame_bytes) {
  const std::string path = UnfinishedPath(folder);
  const std::string spare = SparePath(folder);
  const std::uint64_t least = std::max(kLeastSegmentBytes, sizeof(SegmentHeader) + frame_bytes);
  size = std::max(size, least);
  struct stat status {};
  // A file that was written before needs no change of the file system's own data when it is
  // written again.
  const bool reused = stat(spare.c_str(), &status) == 0 &&
                      static_cast<std::uint64_t>(status.st_size) == size &&
                      std::rename(spare.c_str(), path.c_str()) == 0;
  absl::StatusOr<File> file = File::Open(path, O_RDWR | (reused ? 0 : O_CREAT | O_TRUNC), "make");
  if (!file.ok()) {
    return file.status();
  }
  int error = posix_fallocate(file->get(), 0, static_cast<off_t>(size));
  while (IsFull(error) && size > least) {
    size = std::max(size / 2 / kAlignment * kAlignment, least);
    // Some of it may have been taken.
    error = ftruncate(file->get(), 0) != 0
                ? errno
                : posix_fallocate(file->get(), 0, static_cast<off_t>(size));
  }
  if (error != 0) {
    unlink(path.c_str());
    return FileError(path, "make", error);
  }
  SegmentHeader header{.first_log_id = first_log_id, .size = size, .salt = RandomSalt()};
  header.hash = header.Hash();
  std::array<iovec, 1> pieces{Piece(&header, sizeof(header))};
  absl::Status made = file->Write(pieces, 0);
  if (made.ok()) {
    made = file->Sync();
  }
  if (made.ok()) {
    made = file->Rename(PathOf(folder, first_log_id));
  }
  if (made.ok()) {
    made = SyncFolder(folder);
  }
  if (!made.ok()) {
    return made;
  }
  return LogSegment(*std::move(file), first_log_id, header.salt, size);
}

absl::StatusOr<LogSegment> LogSegment::Open(const std::string& path) {
  absl::StatusOr<File> file = File::Open(path, O_RDWR, "open");
  if (!file.ok()) {
    return file.status();
  }
  const absl::StatusOr<SegmentHeader> header = ReadSegmentHeader(*file);
  if (!header.ok()) {
    return header.status();
  }
  struct stat status {};
  if (fstat(file->get(), &status) != 0) {
    return FileError(path, "read", errno);
  }
  if (static_cast<std::uint64_t>(status.st_size) < header->size) {
    return DamageError(path, absl::StrCat("has ", status.st_size, " bytes, expected ", header->size,
                                          ": it was cut"));
  }
  return LogSegment(*std::move(file), header->first_log_id, header->salt, header->size);
}

absl::Status LogSegment::ReadFrames(std::uint64_t end, const VisitBatch& visit) {
  std::string frame;
  while (end_ < end) {
    absl::Status status = ReadFrame(file_, salt_, end_, end, end_log_id(), frame);
    if (!status.ok() || frame.empty()) {
      return status;
    }
    const absl::StatusOr<bool> read =
        VisitFrame(frame, [&](const StoredBatch& batch, std::uint64_t place) {
          AddPlace(place);
          return visit(batch);
        });
    if (!read.ok()) {
      return read.status();
    }
    if (!*read) {
      return DamageError(path(), absl::StrCat("holds no batches at ", end_));
    }
    MoveEnd(frame.size());
  }
  return absl::OkStatus();
}

absl::Status LogSegment::CheckEnd() const {
  const absl::StatusOr<std::optional<std::int64_t>> later =
      FindFrame(file_, salt_, end_ + kAlignment, size_);
  if (!later.ok()) {
    return later.status();
  }
  if (later->has_value()) {
    return DamageError(path(), absl::StrCat("is damaged at ", end_, ": batches from ", end_log_id(),
                                            " on cannot be read, but ", **later, " can"));
  }
  return absl::OkStatus();
}

absl::Status LogSegment::Write(const LogFrame& frame) {
  // Written from where they are, as a copy of them would take as long as the write.
  FrameHeader header;
  std::vector<BatchHeader> batches;
  batches.reserve(frame.batches().size());
  std::vector<iovec> pieces;
  pieces.reserve(1 + 3 * frame.batches().size());
  pieces.push_back(Piece(&header, sizeof(header)));
  for (const LogFrame::Batch& batch : frame.batches()) {
    const std::size_t size = batch.data.size();
    batches.push_back({.model_id = batch.model_id, .time_us = batch.time_us, .bytes = size});
    pieces.push_back(Piece(&batches.back(), sizeof(BatchHeader)));
    pieces.push_back(Piece(batch.data.data(), size));
    pieces.push_back(Piece(kZeros.data(), Aligned(size) - size));
  }
  header = {.first_log_id = end_log_id(),
            .batches = frame.batches().size(),
            .bytes = frame.bytes(),
            .payload_hash = HashOf(std::span<const iovec>(pieces).subspan(1), salt_)};
  header.hash = header.Hash(salt_);
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
  absl::Status status = file_.Write(std::span(pieces).first(first), end_);
  Failpoint("torn");
  if (status.ok()) {
    status = file_.Write(std::span(pieces).subspan(first), end_ + first_bytes);
  }
  if (status.ok()) {
    status = Sync();
  }
  if (!status.ok()) {
    return status;
  }
  for (const LogFrame::Batch& batch : frame.batches()) {
    AddPlace(batch.place);
  }
  MoveEnd(frame.bytes());
  return absl::OkStatus();
}

absl::Status LogSegment::ReadBatch(std::int64_t log_id, std::string& data,
                                   StoredBatch& batch) const {
  if (!Holds(log_id)) {
    return DamageError(path(), absl::StrCat("does not hold batch ", log_id));
  }
  const auto index = static_cast<std::size_t>(log_id - first_log_id_);
  const std::uint64_t place = places_[index] * kAlignment;
  BatchHeader header;
  data.resize(bytes_of(index));
  const absl::StatusOr<std::size_t> read = file_.Read(data.data(), data.size(), place);
  if (!read.ok()) {
    return read.status();
  }
  if (*read == data.size() && *read >= sizeof(header)) {
    std::memcpy(&header, data.data(), sizeof(header));
  }
  if (*read < data.size() || *read < sizeof(header) || header.bytes > *read - sizeof(header)) {
    return DamageError(path(), absl::StrCat("cannot be read at ", place));
  }
  batch = {.log_id = log_id,
           .model_id = header.model_id,
           .time_us = header.time_us,
           .data = {data.data() + sizeof(header), header.bytes}};
  return absl::OkStatus();
}

void LogSegment::MarkUnneeded(std::int64_t log_id) noexcept {
  if (!Holds(log_id)) {
    return;
  }
  const auto index = static_cast<std::size_t>(log_id - first_log_id_);
  if (needed_[index]) {
    needed_[index] = false;
    --needed_batches_;
    needed_bytes_ -= bytes_of(index);
  }
}

absl::Status LogSegment::Remove(const std::string& folder, bool for_reuse) const {
  if ((for_reuse ? std::rename(path().c_str(), SparePath(folder).c_str())
                 : unlink(path().c_str())) != 0) {
    return FileError(path(), "remove", errno);
  }
  return absl::OkStatus();
}

std::uint64_t LogSegment::bytes_of(std::size_t index) const noexcept {
  const std::uint64_t begin = places_[index] * kAlignment;
  return (index + 1 < places_.size() ? places_[index + 1] * kAlignment : end_) - begin;
}

void LogSegment::AddPlace(std::uint64_t place) {
  places_.push_back(static_cast<std::uint32_t>((end_ + place) / kAlignment));
}

void LogSegment::MoveEnd(std::uint64_t frame_bytes) {
  needed_batches_ += places_.size() - needed_.size();
  needed_.resize(places_.size(), true);
  needed_bytes_ += frame_bytes;
  end_ += frame_bytes;
}

}  // namespace calibd::server
