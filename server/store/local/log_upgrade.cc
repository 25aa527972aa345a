#include "server/store/local/log_upgrade.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"
#include "server/base/xxh3.h"
#include "server/store/local/file.h"
#include "server/store/local/log_format.h"
#include "server/store/local/log_segment.h"

namespace calibd::server {
namespace {

// Version 1. The header of a frame was the same, except that the hash of the batch headers was a
// hash of everything after the header.
struct OldSegmentHeader {
  std::uint64_t magic = 0;
  std::uint64_t version = 0;
  std::int64_t first_log_id = 0;
  std::uint64_t size = 0;
  std::uint64_t salt = 0;
  std::uint64_t hash = 0;  // of everything before it

  [[nodiscard]] bool IsValid() const {
    return magic == SegmentHeader::kMagic && version == 1 &&
           hash == XXH3_64bits(this, offsetof(OldSegmentHeader, hash));
  }
};

struct OldBatchHeader {
  std::int64_t model_id = 0;
  std::int64_t time_us = 0;
  std::uint64_t bytes = 0;  // of the following data
};

// Parses the batches of a frame with a valid header. Returns false if the rest is damaged.
bool ParseOldFrame(std::string_view data, std::uint64_t salt, LogFrame& frame) {
  LogFrameHeader frame_header;
  std::memcpy(&frame_header, data.data(), sizeof(frame_header));
  if (XXH3_64bits_withSeed(data.data() + sizeof(LogFrameHeader),
                           data.size() - sizeof(LogFrameHeader),
                           salt) != frame_header.batches_hash) {
    return false;
  }
  frame.Clear();
  data.remove_prefix(sizeof(LogFrameHeader));
  for (std::uint64_t i = 0; i < frame_header.batches; ++i) {
    OldBatchHeader header;
    if (data.size() < sizeof(header)) return false;
    std::memcpy(&header, data.data(), sizeof(header));
    data.remove_prefix(sizeof(header));
    // The size of a frame is a multiple of the alignment.
    if (header.bytes > data.size()) return false;
    frame.Append(header.model_id, header.time_us, std::string(data.substr(0, header.bytes)));
    data.remove_prefix(LogAligned(header.bytes));
  }
  return data.empty();
}

// A segment of version 1.
class OldSegment {
 public:
  // Unset if the file does not have version 1.
  static absl::StatusOr<std::optional<OldSegment>> Open(const std::string& path) {
    CALIBD_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDONLY, "open"));
    CALIBD_ASSIGN_OR_RETURN(const OldSegmentHeader header,
                            ReadStructure<OldSegmentHeader>(file, 0));
    if (!header.IsValid()) return std::nullopt;
    struct stat status {};
    if (fstat(file.get(), &status) != 0) return FileError(path, "read", errno);
    if (static_cast<std::uint64_t>(status.st_size) < header.size) {
      return DamageError(path, absl::StrCat("has ", status.st_size, " bytes, expected ",
                                            header.size, ": it was cut"));
    }
    return OldSegment(std::move(file), header);
  }

  [[nodiscard]] const OldSegmentHeader& header() const noexcept { return header_; }

  // Reads the valid frames in order. Then checks that the segment ends before the batch `next`,
  // with which the next segment begins, or, if next is 0, that the log ends there.
  [[nodiscard]] absl::Status Read(std::int64_t next,
                                  const std::function<absl::Status(const LogFrame&)>& visit) const {
    std::uint64_t end = sizeof(OldSegmentHeader);
    std::int64_t end_log_id = header_.first_log_id;
    std::string data;
    LogFrame frame;
    while (true) {
      CALIBD_RETURN_IF_ERROR(
          ReadFrame(file_, header_.salt, end, header_.size, end_log_id, end_log_id, data));
      if (data.empty() || !ParseOldFrame(data, header_.salt, frame)) {
        return CheckEnd(end, end_log_id, next);
      }
      CALIBD_RETURN_IF_ERROR(visit(frame));
      end += data.size();
      end_log_id += static_cast<std::int64_t>(frame.batches().size());
    }
  }

 private:
  OldSegment(File file, const OldSegmentHeader& header) : file_(std::move(file)), header_(header) {}

  [[nodiscard]] absl::Status CheckEnd(std::uint64_t end, std::int64_t end_log_id,
                                      std::int64_t next) const {
    if (next != 0) {
      return next == end_log_id
                 ? absl::OkStatus()
                 : DamageError(file_.path(),
                               absl::StrCat("ends before batch ", end_log_id,
                                            " of the log, but the next file begins with batch ",
                                            next, ": a file is damaged or missing"));
    }
    CALIBD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> later,
                            FindFrame(file_, header_.salt, end + kLogAlignment, header_.size));
    return !later.has_value()
               ? absl::OkStatus()
               : DamageError(file_.path(),
                             absl::StrCat("is damaged at ", end, ": batches from ", end_log_id,
                                          " on cannot be read, but ", *later, " can"));
  }

  File file_;
  OldSegmentHeader header_;
};

// Writes the batches of the old segment to a new one, which replaces it.
absl::Status Rewrite(const OldSegment& old, const std::string& folder, const StoreId& store_id,
                     std::int64_t next) {
  std::uint64_t bytes = 0;
  CALIBD_RETURN_IF_ERROR(old.Read(next, [&bytes](const LogFrame& frame) {
    bytes += frame.bytes();
    return absl::OkStatus();
  }));
  CALIBD_ASSIGN_OR_RETURN(
      LogSegment segment,
      LogSegment::Create(folder, LogSegment::Kind::kAppended,
                         {.store_id = store_id, .first_log_id = old.header().first_log_id},
                         old.header().size, bytes));
  absl::Status status = old.Read(next, [&segment](const LogFrame& frame) {
    return segment.Append(segment.end_log_id(), frame);
  });
  if (status.ok()) status = segment.Sync();
  Failpoint("upgrade_segment");
  if (status.ok()) status = segment.Publish(folder);
  Failpoint("upgrade_segment");
  if (!status.ok()) unlink(LogSegment::UnfinishedPath(folder, LogSegment::Kind::kAppended).c_str());
  return status;
}

}  // namespace

absl::Status UpgradeSegments(const std::string& folder, const StoreId& store_id,
                             std::int64_t first_log_id) {
  CALIBD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ids, LogSegment::List(folder));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i];
    const std::string path = LogSegment::PathOf(folder, id);
    if (id < first_log_id) continue;
    CALIBD_ASSIGN_OR_RETURN(const std::optional<OldSegment> old, OldSegment::Open(path));
    if (!old.has_value()) {
      // It was rewritten before, or is not a segment: LogFiles checks this.
      continue;
    }
    if (old->header().first_log_id != id) {
      return DamageError(path, "was renamed or copied", kPutRightFileBack);
    }
    const std::int64_t next = i + 1 < ids.size() ? ids[i + 1] : 0;
    CALIBD_RETURN_IF_ERROR(Rewrite(*old, folder, store_id, next));
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
