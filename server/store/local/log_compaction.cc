#include "server/store/local/log_compaction.h"

#include <cstddef>

#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"

namespace calibd::server {
namespace {

// A frame is written when it has this size.
constexpr std::uint64_t kFrameBytes = std::uint64_t{1} << 20;

}  // namespace

absl::StatusOr<CompactedSegment> CompactedSegment::Create(const std::string& folder,
                                                          const LogSegment::Identity& identity,
                                                          std::uint64_t bytes,
                                                          std::uint64_t least) {
  CALIBD_ASSIGN_OR_RETURN(
      LogSegment segment,
      LogSegment::Create(folder, LogSegment::Kind::kCompacted, identity, bytes, least));
  return CompactedSegment(std::move(segment));
}

absl::Status CompactedSegment::Add(const StoredBatch& batch) {
  if (batch.log_id != next_log_id_ || frame_.bytes() >= kFrameBytes) {
    CALIBD_RETURN_IF_ERROR(WriteFrame());
  }
  frame_.Append(batch.model_id, batch.time_us, std::string(batch.data));
  next_log_id_ = batch.log_id + 1;
  return absl::OkStatus();
}

absl::Status CompactedSegment::WriteFrame() {
  if (frame_.batches().empty()) return absl::OkStatus();
  const auto count = static_cast<std::int64_t>(frame_.batches().size());
  absl::Status status = segment_.Append(next_log_id_ - count, frame_);
  frame_.Clear();
  return status;
}

absl::Status CompactedSegment::Sync() {
  CALIBD_RETURN_IF_ERROR(WriteFrame());
  return segment_.Sync();
}

absl::StatusOr<LogSegment> CompactedSegment::Publish(const std::string& folder,
                                                     std::int64_t end_log_id) {
  CALIBD_RETURN_IF_ERROR(WriteFrame());
  CALIBD_RETURN_IF_ERROR(segment_.Finish(end_log_id));
  Failpoint("compact");
  CALIBD_RETURN_IF_ERROR(segment_.Publish(folder));
  Failpoint("compact");
  return std::move(segment_);
}

}  // namespace calibd::server
