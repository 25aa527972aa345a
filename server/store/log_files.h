#ifndef CALIBD_SERVER_STORE_LOG_FILES_H_
#define CALIBD_SERVER_STORE_LOG_FILES_H_

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
#include "server/store/log_format.h"
#include "server/store/log_segment.h"
#include "server/store/store_file.h"

namespace calibd::server {

// The newest part of the log: a sequence of files (segments), each taken from the disk as a
// whole before it is written, so that what is appended needs one write and one sync, and no
// change of the file system's own data. FORMAT.md describes them. Batches have ids without a
// gap; what one Commit wrote is a frame, which is there as a whole or not at all.
//
// It knows of each batch whether it is still needed. Segments go oldest first: what is needed
// of the oldest has to be kept elsewhere before RemoveOldest. Not thread-safe.
//
// Errors: ResourceExhausted when the disk is full, and then nothing was written; DataLoss when
// a file is damaged or missing, and it says what to do; Unavailable when a file cannot be read
// or written: what the disk holds is not known then.
class LogFiles {
 public:
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

  struct Options {
    // Size of a segment, at least 4096; one for a larger frame is as large as that needs, one for a
    // disk with less room smaller.
    std::uint64_t segment_bytes = kSegmentBytes;
    // Id of the batch with which the oldest segment begins; older segments are removed. 0: that is
    // not known, and there may be no segment yet.
    std::int64_t first_log_id = 0;
    // Id of the next batch, if there is no segment yet.
    std::int64_t next_log_id = 1;
    // What the file `store` says: all segments have its id, and the log has come at least as far.
    StoreMark mark{};
  };
  // Opens all segments, or makes the first. Nothing is known of existing segments before Read.
  // Errors also: DataLoss for a segment that is missing or has no place in this store.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LogFiles>> Open(const std::string& folder,
                                                                      const Options& options);

  // Once, before all else: all batches that are committed, in order. So it finds where they are,
  // and where the log ends. On return all that was read is durable, and all of it needed.
  // What cannot be read at the end is DataLoss if it was more than the last frame, or the store was
  // closed in order; else see tail.
  [[nodiscard]] absl::Status Read(const VisitBatch& visit);
  // What Read found and could not read after the last valid frame. The next frame is written over
  // it.
  [[nodiscard]] const std::optional<LogTail>& tail() const noexcept { return tail_; }
  // Notes in the mark how far the log has come. After Read, when what was committed is durable.
  void Mark(StoreMark& mark) const noexcept;

  // Takes the batch for the next frame; returns its id.
  std::int64_t Append(std::int64_t model_id, std::int64_t time_us, std::string data);
  // Of the next frame, 0 without any.
  [[nodiscard]] std::size_t appended_bytes() const noexcept { return frame_.bytes(); }
  // Writes the frame; on return it is durable. After an error or without it: Rollback.
  [[nodiscard]] absl::Status Commit();
  void Rollback() noexcept;

  // The data of one batch that is committed or appended. Errors also: DataLoss when they are not
  // as they were written.
  [[nodiscard]] absl::StatusOr<std::string> ReadBatch(std::int64_t log_id) const;

  // Of the oldest batch in the files, and of the next one to be appended.
  [[nodiscard]] std::int64_t first_log_id() const noexcept {
    return segments_.front().first_log_id();
  }
  [[nodiscard]] std::int64_t next_log_id() const noexcept { return next_log_id_; }
  // What the files take on the disk.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  // What is written in the files, without what they have taken from the disk for more. On any
  // thread; known after Read.
  [[nodiscard]] std::int64_t written_bytes() const noexcept { return written_bytes_; }

  // Batches that are needed no more, committed; others than those in the files are left alone.
  void MarkUnneeded(std::span<const std::int64_t> log_ids);

  // Whether the oldest segment should go: nothing of it is needed, or the segments hold much
  // more than is needed. Never while the files are held.
  [[nodiscard]] bool RetirementDue() const noexcept;
  // What of the oldest segment is needed, from this batch on and until it is max_bytes or more.
  // Returns the id to go on with: that of the next segment's first batch when it is all.
  [[nodiscard]] absl::StatusOr<std::int64_t> ReadNeededOfOldest(std::int64_t from_log_id,
                                                                std::size_t max_bytes,
                                                                const VisitBatch& visit) const;
  [[nodiscard]] std::int64_t first_log_id_after_oldest() const noexcept {
    return segments_[1].first_log_id();
  }
  // The file may become the next segment.
  [[nodiscard]] absl::Status RemoveOldest();

  // A part of a segment that stays as it is as long as the files are held.
  struct Extent {
    std::string folder;
    StoreId store_id;
    std::int64_t first_log_id = 0;
    // Of the bytes that are committed.
    std::uint64_t end = 0;
    // For each batch.
    std::vector<bool> needed;
  };
  // While they are held, no segment goes, and what becomes unneeded counts as needed.
  void Hold() noexcept { ++holders_; }
  void Release();
  [[nodiscard]] std::vector<Extent> extents() const;
  // Reads an extent's batches, on any thread; needed: whether the batch is. Checks all of it.
  [[nodiscard]] static absl::Status ReadExtent(
      const Extent& extent,
      const std::function<absl::Status(const StoredBatch&, bool needed)>& visit);

 private:
  LogFiles(std::string folder, const Options& options)
      : folder_(std::move(folder)), segment_bytes_(options.segment_bytes), mark_(options.mark) {}

  [[nodiscard]] absl::Status OpenAll(const Options& options);
  // Whether the segment goes on where the log ends so far. former: the one before it, if any.
  [[nodiscard]] absl::Status CheckFollows(const LogSegment* former,
                                          const LogSegment& segment) const;
  // The segment that begins with this batch is missing.
  [[nodiscard]] absl::Status MissingError(std::int64_t first_log_id, std::string_view reason) const;
  // Judges what stands after the last valid frame.
  [[nodiscard]] absl::Status CheckEnd();
  // Makes the newest segment, for a frame of so many bytes.
  [[nodiscard]] absl::Status AddSegment(std::uint64_t frame_bytes);
  // Tells written_bytes.
  void SumWritten() noexcept;
  // Of the segment that would hold it.
  [[nodiscard]] std::size_t Find(std::int64_t log_id) const noexcept;

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  // As it was when the log was opened.
  const StoreMark mark_;
  // Oldest first; the newest takes the frames.
  std::deque<LogSegment> segments_;
  std::int64_t next_log_id_ = 1;
  std::optional<LogTail> tail_;

  // Is written by the next Commit.
  LogFrame frame_;

  std::atomic<std::int64_t> written_bytes_ = 0;
  int holders_ = 0;
  // What became unneeded while the files were held.
  std::vector<std::int64_t> unneeded_later_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOG_FILES_H_
