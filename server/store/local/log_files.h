#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/log_compaction.h"
#include "server/store/local/log_format.h"
#include "server/store/local/log_segment.h"
#include "server/store/local/store_file.h"

namespace calibd::server {

// The log: a sequence of files (segments), which FORMAT.md describes. The disk space of a segment
// is allocated before it is written, so that an append needs one write and one sync, and changes no
// metadata of the file system. One Commit writes one frame, which is stored as a whole or not at
// all, and whose batches have the next ids.
//
// The log knows for each batch whether it is still needed. Segments with few needed batches are
// compacted: their needed batches are copied to a new segment, which replaces them. Not
// thread-safe.
//
// Errors: ResourceExhausted when the disk is full, and then nothing was written; DataLoss when
// a file is damaged or missing, and it says what to do; Unavailable when a file cannot be read
// or written: the contents of the disk are unknown then.
class LogFiles {
 public:
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

  struct Options {
    // Size of a segment, at least 4096. A segment is larger if a frame needs more, and smaller if
    // the disk has less room.
    std::uint64_t segment_bytes = kSegmentBytes;
    // Id of the batch with which the oldest segment begins; older segments are removed. If it is 0,
    // there may be no segment yet, and next_log_id is this id.
    std::int64_t first_log_id = 0;
    std::int64_t next_log_id = 1;
    // The file `store`: all segments have its id, and the log is at least as long as it says.
    StoreMark mark{};
  };
  // Opens all segments, or creates the first. Only their headers are read.
  // Errors also: DataLoss for a segment that is missing or does not belong to this store.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LogFiles>> Open(const std::string& folder,
                                                                      const Options& options);

  // Must be called once, and before all functions below except Prepend: visits all committed
  // batches in order, and finds the end of the log. On return they are durable and count as needed.
  // An unreadable end of the log is DataLoss if it was more than the last frame, or the store was
  // closed properly; else see tail.
  [[nodiscard]] absl::Status Read(const VisitBatch& visit);
  // Before Read: puts batches in front of the log, into compacted segments. next: sets the next
  // batch, in the order of ids, and returns false after the last one. Batches whose ids are not
  // below first_log_id are ignored. After an error, or if the next Open is given a first_log_id
  // from before this call, the log is as it was.
  [[nodiscard]] absl::Status Prepend(const std::function<absl::StatusOr<bool>(StoredBatch&)>& next);

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
  // Disk space that is in use for the batches from this id on, in bytes; the share of the file that
  // holds the first of them is estimated by the ids. Call it after Read.
  [[nodiscard]] std::int64_t BytesFrom(std::int64_t log_id) const noexcept;
  // Size of all frames that were written since Open, in bytes. Any thread.
  [[nodiscard]] std::int64_t total_bytes() const noexcept { return total_bytes_; }

  // File::CheckInPlace for all files.
  [[nodiscard]] absl::Status CheckInPlace() const;

  // Marks committed batches as no longer needed. Ignores batches that are not in the files.
  void MarkUnneeded(std::span<const std::int64_t> log_ids);

  // Batches from this id on are neither removed nor compacted, even if they are not needed.
  void KeepFrom(std::int64_t log_id) noexcept { keep_from_ = log_id; }
  // True if the oldest segment can be removed, or others should be compacted: there are more than a
  // few, and less than half of their bytes are needed. Always false while the files are held.
  [[nodiscard]] bool RetirementDue() const noexcept;
  // True if no batch of the oldest segment is needed, and no compaction is under way.
  [[nodiscard]] bool OldestIsUnneeded() const noexcept;
  [[nodiscard]] std::int64_t first_log_id_after_oldest() const noexcept {
    return segments_[1].first_log_id();
  }
  // The file may be reused for the next segment.
  [[nodiscard]] absl::Status RemoveOldest();
  // A step of a compaction, when RetirementDue and not OldestIsUnneeded. It copies as many bytes as
  // were appended since the last step, but at least 1 and at most 8 MiB, so that commits are not
  // delayed and the log does not grow faster than it is compacted. After an error the log is as it
  // was, and the next step begins a new compaction.
  [[nodiscard]] absl::Status Compact();

  // The committed batches of a segment, which do not change while the files are held.
  struct Extent {
    std::string folder;
    StoreId store_id;
    std::int64_t first_log_id = 0;
    // Id with which the next segment begins or, in the newest one, the next frame.
    std::int64_t end_log_id = 0;
    // Offset of their end in the file.
    std::uint64_t end = 0;
    // Whether each batch is needed, in the order of ids, and the size of the needed ones in bytes.
    std::vector<bool> needed;
    std::uint64_t needed_bytes = 0;
  };
  // While the files are held, no segment is removed or replaced, and needed batches stay needed.
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
  // Number of the oldest segments that hold no batch that is kept; never the newest one.
  [[nodiscard]] std::size_t retirable() const noexcept;
  // Updates written_bytes.
  void SumWritten() noexcept;
  // Index of the segment for this id.
  [[nodiscard]] std::size_t Find(std::int64_t log_id) const noexcept;

  // Finds the adjacent segments that hold the most unneeded bytes, and at most this many needed
  // ones unless it is a single segment. Returns the indices of the first, and after the last.
  [[nodiscard]] std::pair<std::size_t, std::size_t> FindCompaction(
      std::uint64_t most_needed) const noexcept;
  [[nodiscard]] absl::Status BeginCompaction(std::uint64_t most_needed);
  // Copies needed batches until they have max_bytes or more.
  [[nodiscard]] absl::Status CopyNeeded(std::uint64_t max_bytes);
  [[nodiscard]] absl::Status FinishCompaction();
  // Removes the file of a segment, or keeps it for reuse. remaining: number of the other segments.
  [[nodiscard]] absl::Status RemoveFile(const LogSegment& segment, std::size_t remaining) const;

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  // The mark of the store when the log was opened.
  const StoreMark mark_;
  // The segments, the oldest first. Frames are appended to the newest.
  std::deque<LogSegment> segments_;
  std::int64_t next_log_id_ = 1;
  std::optional<LogTail> tail_;

  // The frame that the next Commit writes.
  LogFrame frame_;

  struct Compaction {
    CompactedSegment target;
    // The next batch to copy, or a missing or unneeded one before it.
    std::int64_t next_log_id = 0;
    // The target replaces all segments before the one that begins with this id.
    std::int64_t end_log_id = 0;
  };
  std::optional<Compaction> compaction_;
  // Bytes that were appended since the last step of a compaction.
  std::uint64_t appended_bytes_ = 0;

  std::atomic<std::int64_t> written_bytes_ = 0;
  std::atomic<std::int64_t> total_bytes_ = 0;
  std::int64_t keep_from_ = std::numeric_limits<std::int64_t>::max();
  int holders_ = 0;
  // Batches that became unneeded while the files were held.
  std::vector<std::int64_t> unneeded_later_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_FILES_H_
