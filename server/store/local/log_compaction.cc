#include "server/store/local/log_compaction.h"

#include <cstddef>

#include "server/failpoint.h"

namespace calibd::server {
namespace {

// A frame is written when it has this size.
constexpr std::uint64_t kFrameBytes = std::uint64_t{1} << 20;

}  // namespace

absl::StatusOr<CompactedSegment> CompactedSegment::Create(const std::string& folder,
                                                          const LogSegment::Identity& identity,
                                                          std::uint64_t bytes,
                                                          std::uint64_t least) {
  absl::StatusOr<LogSegment> segment =
      LogSegment::Create(folder, LogSegment::Kind::kCompacted, identity, bytes, least);
  if (!segment.ok()) return segment.status();
  return CompactedSegment(*std::move(segment));
}

absl::Status CompactedSegment::Add(const StoredBatch& batch) {
  if (batch.log_id != next_log_id_ || frame_.bytes() >= kFrameBytes) {
    if (absl::Status status = WriteFrame(); !status.ok()) return status;
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
  absl::Status status = WriteFrame();
  return status.ok() ? segment_.Sync() : status;
}

absl::StatusOr<LogSegment> CompactedSegment::Publish(const std::string& folder,
                                                     std::int64_t end_log_id) {
  absl::Status status = WriteFrame();
  if (status.ok()) status = segment_.Finish(end_log_id);
  Failpoint("compact");
  if (status.ok()) status = segment_.Publish(folder);
  Failpoint("compact");
  if (!status.ok()) return status;
  return std::move(segment_);
}

}  // namespace calibd::server
