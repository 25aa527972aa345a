#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_COMPACTION_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_COMPACTION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/log_format.h"
#include "server/store/local/log_segment.h"

namespace calibd::server {

// Writes a compacted segment: batches in the order of their ids, which may have gaps. Its file
// belongs to the log after Publish. Not thread-safe. Errors: those of LogFiles.
class CompactedSegment {
 public:
  // The size of a batch with this many bytes of data is at most this.
  static constexpr std::uint64_t BatchBytes(std::uint64_t data_bytes) {
    return sizeof(LogFrameHeader) + LogAligned(sizeof(BatchHeader) + data_bytes);
  }

  // Creates a segment for the batches from this id on, with room for `bytes`. A full disk may make
  // it smaller, but it has room for `least`.
  [[nodiscard]] static absl::StatusOr<CompactedSegment> Create(const std::string& folder,
                                                               const LogSegment::Identity& identity,
                                                               std::uint64_t bytes,
                                                               std::uint64_t least);

  [[nodiscard]] std::int64_t first_log_id() const noexcept { return segment_.first_log_id(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return segment_.size(); }
  [[nodiscard]] bool HasRoom(const StoredBatch& batch) const noexcept {
    return segment_.size() - segment_.end() >= frame_.bytes() + BatchBytes(batch.data.size());
  }
  // Adds a batch, for which there is room.
  [[nodiscard]] absl::Status Add(const StoredBatch& batch);
  // Writes and syncs the added batches.
  [[nodiscard]] absl::Status Sync();
  // Call it after Sync. Ignores a batch that was not added.
  void MarkUnneeded(std::int64_t log_id) noexcept { segment_.MarkUnneeded(log_id); }
  // Completes the segment and makes it the one for the ids from first_log_id to end_log_id, instead
  // of the one that has its name. On return this is durable. The other functions may not be called
  // afterwards.
  [[nodiscard]] absl::StatusOr<LogSegment> Publish(const std::string& folder,
                                                   std::int64_t end_log_id);

 private:
  explicit CompactedSegment(LogSegment segment) : segment_(std::move(segment)) {}

  [[nodiscard]] absl::Status WriteFrame();

  LogSegment segment_;
  // Batches with consecutive ids that are not written yet, and the id after them.
  LogFrame frame_;
  std::int64_t next_log_id_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_COMPACTION_H_
