#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_FORMAT_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/status_macros.h"
#include "server/store/local/file.h"
#include "server/store/local/store_file.h"
#include "server/store/log.h"

namespace calibd::server {

// Structures of the log files, see FORMAT.md. The files contain them in their memory layout.
static_assert(std::endian::native == std::endian::little);

// Frames and batches begin at multiples of this number.
inline constexpr std::uint64_t kLogAlignment = 8;

constexpr std::uint64_t LogAligned(std::uint64_t bytes) {
  return (bytes + kLogAlignment - 1) / kLogAlignment * kLogAlignment;
}

struct SegmentHeader {
  static constexpr std::uint64_t kMagic = 0x676f6c6461626c63;  // "clbadlog"
  static constexpr std::uint64_t kVersion = 1;
  // The ids of a compacted segment have gaps, and a SegmentRange follows its header.
  static constexpr std::uint64_t kCompactedVersion = 2;

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::int64_t first_log_id = 0;
  std::uint64_t size = 0;
  // Seed of the hashes in this segment, so that bytes of another segment, or of an earlier use of
  // the file, are never accepted as a frame.
  std::uint64_t salt = 0;
  StoreId store_id{};
  std::uint64_t hash = 0;  // of everything before it

  [[nodiscard]] std::uint64_t Hash() const;
};

struct SegmentRange {
  // The first id of the next segment: the batches before it that are missing are not needed.
  std::int64_t end_log_id = 0;
  std::uint64_t hash = 0;  // of everything before it

  [[nodiscard]] std::uint64_t Hash(std::uint64_t salt) const;
};

struct LogFrameHeader {
  static constexpr std::uint64_t kMagic = 0x656d617266676f6c;  // "logframe"

  std::uint64_t magic = kMagic;
  std::int64_t first_log_id = 0;
  std::uint64_t batches = 0;
  // Size of the frame including this header, a multiple of kLogAlignment.
  std::uint64_t bytes = 0;
  std::uint64_t batches_hash = 0;  // of the batch headers
  std::uint64_t hash = 0;          // of everything before it

  [[nodiscard]] std::uint64_t Hash(std::uint64_t salt) const;
  // True if this is a valid frame header, and the frame fits into `room` bytes.
  [[nodiscard]] bool IsValid(std::uint64_t salt, std::uint64_t room) const;
};

struct BatchHeader {
  std::int64_t model_id = 0;
  std::int64_t time_us = 0;
  std::uint64_t bytes = 0;  // of the following data
  std::uint64_t hash = 0;   // of the log id, the fields before it and the data

  [[nodiscard]] std::uint64_t Hash(std::int64_t log_id, std::string_view data,
                                   std::uint64_t salt) const;
};

static_assert(sizeof(SegmentHeader) == 64 && sizeof(SegmentRange) == 16 &&
              sizeof(LogFrameHeader) == 48 && sizeof(BatchHeader) == 32);

// Zeros after the newest frame, as far as the file has room. They tell the remains of an incomplete
// frame from the remains of an earlier use of the file.
inline constexpr std::uint64_t kTerminatorBytes = sizeof(LogFrameHeader);

// The batches of a frame to be written.
class LogFrame {
 public:
  struct Batch {
    // Offset of its header in the frame.
    std::uint64_t place = 0;
    std::int64_t model_id = 0;
    std::int64_t time_us = 0;
    std::string data;
  };

  void Append(std::int64_t model_id, std::int64_t time_us, std::string data);
  void Clear() noexcept;

  [[nodiscard]] const std::vector<Batch>& batches() const noexcept { return batches_; }
  // Size of the frame in the file; 0 without batches.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<Batch> batches_;
  std::uint64_t bytes_ = 0;
};

// A batch of a frame that was read.
struct FrameBatch {
  // Offset of its header in the frame.
  std::uint64_t place = 0;
  StoredBatch batch;
};

// Parses the batches of a frame that begins with a valid header. Returns false, possibly after some
// batches, if the rest differs from what was written. The data of the batches are views of `frame`.
[[nodiscard]] bool ParseFrame(std::string_view frame, std::uint64_t salt,
                              std::vector<FrameBatch>& batches);

// Returns the batch at the beginning of `data`, which contains at most the bytes that may belong to
// it; unset if they differ from what was written.
[[nodiscard]] std::optional<StoredBatch> ParseBatch(std::string_view data, std::int64_t log_id,
                                                    std::uint64_t salt);

// Reads a structure from the file; all zeros if the file ends before its end.
template <typename Structure>
[[nodiscard]] absl::StatusOr<Structure> ReadStructure(const File& file, std::uint64_t offset) {
  Structure structure;
  CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file.Read(reinterpret_cast<char*>(&structure),
                                                            sizeof(structure), offset));
  if (read < sizeof(structure)) std::memset(static_cast<void*>(&structure), 0, sizeof(structure));
  return structure;
}

// Errors: DataLoss if it is damaged; FailedPrecondition if a newer calibd wrote it.
[[nodiscard]] absl::StatusOr<SegmentHeader> ReadSegmentHeader(const File& file);

// Reads the bytes of the frame at an offset before `end`, and checks only its header. `frame` is
// empty if there is no valid header of a frame whose first id is between these two, or the file is
// too short.
[[nodiscard]] absl::Status ReadFrame(const File& file, std::uint64_t salt, std::uint64_t offset,
                                     std::uint64_t end, std::int64_t least_log_id,
                                     std::int64_t most_log_id, std::string& frame);

// Returns the first batch id of the first frame that begins in [offset, size), if one exists.
[[nodiscard]] absl::StatusOr<std::optional<std::int64_t>> FindFrame(const File& file,
                                                                    std::uint64_t salt,
                                                                    std::uint64_t offset,
                                                                    std::uint64_t size);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_FORMAT_H_
