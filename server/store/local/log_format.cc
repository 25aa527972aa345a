#include "server/store/local/log_format.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/base/xxh3.h"

namespace calibd::server {
namespace {

// Number of bytes that are read at a time when frames are searched.
constexpr std::size_t kSearchBytes = std::size_t{1} << 20;

bool IsZero(std::string_view data) {
  return std::all_of(data.begin(), data.end(), [](char byte) { return byte == 0; });
}

}  // namespace

std::uint64_t SegmentHeader::Hash() const {
  return XXH3_64bits(this, offsetof(SegmentHeader, hash));
}

std::uint64_t SegmentRange::Hash(std::uint64_t salt) const {
  return XXH3_64bits_withSeed(this, offsetof(SegmentRange, hash), salt);
}

std::uint64_t LogFrameHeader::Hash(std::uint64_t salt) const {
  return XXH3_64bits_withSeed(this, offsetof(LogFrameHeader, hash), salt);
}

bool LogFrameHeader::IsValid(std::uint64_t salt, std::uint64_t room) const {
  return magic == kMagic && hash == Hash(salt) && bytes >= sizeof(LogFrameHeader) &&
         bytes <= room && bytes % kLogAlignment == 0;
}

std::uint64_t BatchHeader::Hash(std::int64_t log_id, std::string_view data,
                                std::uint64_t salt) const {
  const struct {
    std::int64_t log_id;
    std::int64_t model_id;
    std::int64_t time_us;
    std::uint64_t bytes;
    std::uint64_t data_hash;
  } hashed{log_id, model_id, time_us, bytes, XXH3_64bits_withSeed(data.data(), data.size(), salt)};
  return XXH3_64bits_withSeed(&hashed, sizeof(hashed), salt);
}

void LogFrame::Append(std::int64_t model_id, std::int64_t time_us, std::string data) {
  const std::uint64_t place = batches_.empty() ? sizeof(LogFrameHeader) : bytes_;
  batches_.push_back(
      {.place = place, .model_id = model_id, .time_us = time_us, .data = std::move(data)});
  bytes_ = LogAligned(place + sizeof(BatchHeader) + batches_.back().data.size());
}

void LogFrame::Clear() noexcept {
  batches_.clear();
  bytes_ = 0;
}

std::optional<StoredBatch> ParseBatch(std::string_view data, std::int64_t log_id,
                                      std::uint64_t salt) {
  BatchHeader header;
  if (data.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, data.data(), sizeof(header));
  if (header.bytes > data.size() - sizeof(header)) return std::nullopt;
  const std::string_view content = data.substr(sizeof(header), header.bytes);
  if (header.hash != header.Hash(log_id, content, salt)) return std::nullopt;
  return StoredBatch{
      .log_id = log_id, .model_id = header.model_id, .time_us = header.time_us, .data = content};
}

bool ParseFrame(std::string_view frame, std::uint64_t salt, std::vector<FrameBatch>& batches) {
  batches.clear();
  LogFrameHeader frame_header;
  std::memcpy(&frame_header, frame.data(), sizeof(frame_header));
  std::vector<BatchHeader> headers;
  std::uint64_t place = sizeof(LogFrameHeader);
  for (std::uint64_t i = 0; i < frame_header.batches; ++i) {
    const std::optional<StoredBatch> batch = ParseBatch(
        frame.substr(place), frame_header.first_log_id + static_cast<std::int64_t>(i), salt);
    if (!batch.has_value()) return false;
    BatchHeader& header = headers.emplace_back();
    std::memcpy(&header, frame.data() + place, sizeof(header));
    batches.push_back({.place = place, .batch = *batch});
    // The size of a frame is a multiple of the alignment.
    const std::uint64_t end = place + sizeof(header) + header.bytes;
    if (!IsZero(frame.substr(end, LogAligned(end) - end))) return false;
    place = LogAligned(end);
  }
  return place == frame.size() &&
         XXH3_64bits_withSeed(headers.data(), headers.size() * sizeof(BatchHeader), salt) ==
             frame_header.batches_hash;
}

absl::StatusOr<SegmentHeader> ReadSegmentHeader(const File& file) {
  CALIBD_ASSIGN_OR_RETURN(const SegmentHeader header, ReadStructure<SegmentHeader>(file, 0));
  if (header.magic != SegmentHeader::kMagic || header.hash != header.Hash()) {
    return DamageError(file.path(), "does not begin as a segment of the log");
  }
  if (header.version != SegmentHeader::kVersion &&
      header.version != SegmentHeader::kCompactedVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat(file.path(), " was written by a newer calibd"));
  }
  return header;
}

absl::Status ReadFrame(const File& file, std::uint64_t salt, std::uint64_t offset,
                       std::uint64_t end, std::int64_t least_log_id, std::int64_t most_log_id,
                       std::string& frame) {
  frame.clear();
  if (offset + sizeof(LogFrameHeader) > end) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(const LogFrameHeader header, ReadStructure<LogFrameHeader>(file, offset));
  if (!header.IsValid(salt, end - offset) || header.first_log_id < least_log_id ||
      header.first_log_id > most_log_id) {
    return absl::OkStatus();
  }
  frame.resize(header.bytes);
  CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file.Read(frame.data(), frame.size(), offset));
  if (read < frame.size()) frame.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::int64_t>> FindFrame(const File& file, std::uint64_t salt,
                                                      std::uint64_t offset, std::uint64_t size) {
  std::string data;
  while (offset + sizeof(LogFrameHeader) <= size) {
    // Holes of the file need not be read.
    const off_t written = lseek(file.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (written < 0 && errno == ENXIO) break;
    if (written >= 0) {
      offset =
          std::max(offset, static_cast<std::uint64_t>(written) / kLogAlignment * kLogAlignment);
    }
    data.resize(std::min<std::uint64_t>(kSearchBytes, size - std::min(size, offset)));
    CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file.Read(data.data(), data.size(), offset));
    if (read < sizeof(LogFrameHeader)) break;
    std::uint64_t place = 0;
    for (; place + sizeof(LogFrameHeader) <= read; place += kLogAlignment) {
      LogFrameHeader header;
      std::memcpy(&header, data.data() + place, sizeof(header));
      if (header.IsValid(salt, size - offset - place)) return header.first_log_id;
    }
    offset += place;
  }
  return std::nullopt;
}

}  // namespace calibd::server
