#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/log_format.h"
#include "server/store/local/log_segment.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// The newest part of the log: a sequence of files (segments), described in FORMAT.md. The disk
// space of a segment is allocated before it is written, so that an append needs one write and one
// sync, and no change of the file system's metadata. Batches have consecutive ids. Each Commit
// writes one frame, which is stored completely or not at all.
//
// For each batch, the log stores whether it is still needed. Segments are removed oldest first:
// before RemoveOldest, the needed batches of the oldest segment must be copied elsewhere. Not
// thread-safe.
//
// Errors: ResourceExhausted if the disk is full, and then nothing was written; DataLoss, with what
// to do, if a file is damaged or missing; Unavailable if a file cannot be read or written, and then
// the contents of the disk are unknown.
class LogFiles {
 public:
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

  struct Options {
    // Size of a segment, at least 4096. A segment is larger if a frame needs more, and smaller if
    // the disk has less room.
    std::uint64_t segment_bytes = kSegmentBytes;
    // Id of the first batch of the oldest segment; older segments are removed. 0: unknown, and
    // there may be no segment yet.
    std::int64_t first_log_id = 0;
    // Id of the next batch, if there is no segment yet.
    std::int64_t next_log_id = 1;
    // The file `store`: all segments have its id, and the log is at least as long as it says.
    StoreMark mark{};
  };
  // Opens all segments, or creates the first one. The contents of existing segments are unknown
  // before Read. Errors: also DataLoss for a segment that is missing or does not belong to this
  // store.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LogFiles>> Open(const std::string& folder,
                                                                      const Options& options);

  // Call it once, before everything else. Visits all committed batches in order, and finds the end
  // of the log. Afterwards all of them are durable and marked as needed. If the end of the log
  // cannot be read, the result is DataLoss if more than the last frame is affected or the store was
  // closed properly; otherwise see tail.
  [[nodiscard]] absl::Status Read(const VisitBatch& visit);
  // Unreadable data that Read found after the last valid frame. The next frame overwrites it.
  [[nodiscard]] const std::optional<LogTail>& tail() const noexcept { return tail_; }
  // Writes the position of the log to the mark. Call it after Read, when all batches are durable.
  void Mark(StoreMark& mark) const noexcept;

  // Adds a batch to the next frame; returns its id.
  std::int64_t Append(std::int64_t model_id, std::int64_t time_us, std::string data);
  // Size of the next frame; 0 without batches.
  [[nodiscard]] std::size_t appended_bytes() const noexcept { return frame_.bytes(); }
  // Writes the frame; on return it is durable. After an error, call Rollback.
  [[nodiscard]] absl::Status Commit();
  void Rollback() noexcept;

  // Returns the data of a committed or appended batch. Errors: also DataLoss if it is damaged.
  [[nodiscard]] absl::StatusOr<std::string> ReadBatch(std::int64_t log_id) const;

  // Ids of the oldest batch in the files, and of the next batch to be appended.
  [[nodiscard]] std::int64_t first_log_id() const noexcept {
    return segments_.front().first_log_id();
  }
  [[nodiscard]] std::int64_t next_log_id() const noexcept { return next_log_id_; }
  // Number of free bytes in the newest file.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return segments_.back().size() - segments_.back().end();
  }
  // Disk space that is allocated for the files, in bytes.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  // Disk space that is in use, in bytes. Any thread; known after Read.
  [[nodiscard]] std::int64_t written_bytes() const noexcept { return written_bytes_; }

  // File::CheckInPlace for all files.
  [[nodiscard]] absl::Status CheckInPlace() const;

  // Marks committed batches as no longer needed. Ignores batches that are not in the files.
  void MarkUnneeded(std::span<const std::int64_t> log_ids);

  // True if the oldest segment should be retired: none of its batches is needed, or many bytes of
  // the segments are not needed. Always false while the files are held.
  [[nodiscard]] bool RetirementDue() const noexcept;
  // Visits the needed batches of the oldest segment from this one on, until they have max_bytes or
  // more. Returns the id to continue with; at the end, this is the first id of the next segment.
  [[nodiscard]] absl::StatusOr<std::int64_t> ReadNeededOfOldest(std::int64_t from_log_id,
                                                                std::size_t max_bytes,
                                                                const VisitBatch& visit) const;
  [[nodiscard]] std::int64_t first_log_id_after_oldest() const noexcept {
    return segments_[1].first_log_id();
  }
  // The file may be reused for the next segment.
  [[nodiscard]] absl::Status RemoveOldest();

  // The committed part of a segment, which does not change while the files are held.
  struct Extent {
    std::string folder;
    StoreId store_id;
    std::int64_t first_log_id = 0;
    // Offset of its end in the file.
    std::uint64_t end = 0;
    // For each batch.
    std::vector<bool> needed;
  };
  // While the files are held, no segment is removed, and all needed batches stay needed.
  void Hold() noexcept { ++holders_; }
  void Release();
  [[nodiscard]] std::vector<Extent> extents() const;
  // Reads and checks all batches of an extent, on any thread. needed: whether the batch is needed.
  [[nodiscard]] static absl::Status ReadExtent(
      const Extent& extent,
      const std::function<absl::Status(const StoredBatch&, bool needed)>& visit);

 private:
  LogFiles(std::string folder, const Options& options)
      : folder_(std::move(folder)), segment_bytes_(options.segment_bytes), mark_(options.mark) {}

  [[nodiscard]] absl::Status OpenAll(const Options& options);
  // Checks that the segment continues the log at its end. former: the segment before it, if any.
  [[nodiscard]] absl::Status CheckFollows(const LogSegment* former,
                                          const LogSegment& segment) const;
  // Returns the error for a missing segment that begins with this batch.
  [[nodiscard]] absl::Status MissingError(std::int64_t first_log_id, std::string_view reason) const;
  // Checks the data after the last valid frame.
  [[nodiscard]] absl::Status CheckEnd();
  // Creates a new newest segment with room for a frame of this size.
  [[nodiscard]] absl::Status AddSegment(std::uint64_t frame_bytes);
  // Updates written_bytes.
  void SumWritten() noexcept;
  // Index of the segment that would hold the batch.
  [[nodiscard]] std::size_t Find(std::int64_t log_id) const noexcept;

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  // The mark when the log was opened.
  const StoreMark mark_;
  // Oldest first; frames are appended to the newest.
  std::deque<LogSegment> segments_;
  std::int64_t next_log_id_ = 1;
  std::optional<LogTail> tail_;

  // The frame that the next Commit writes.
  LogFrame frame_;

  std::atomic<std::int64_t> written_bytes_ = 0;
  int holders_ = 0;
  // Batches that became unneeded while the files were held.
  std::vector<std::int64_t> unneeded_later_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_
