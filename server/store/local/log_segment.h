#ifndef CALIBD_SERVER_STORE_LOCAL_LOG_SEGMENT_H_
#define CALIBD_SERVER_STORE_LOCAL_LOG_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/file.h"
#include "server/store/local/log_format.h"

namespace calibd::server {

// Data at the end of the log that cannot be read as a frame. Either its write was incomplete, so
// that it was never acknowledged, or it was damaged later.
struct LogTail {
  struct Batch {
    std::int64_t log_id = 0;
    std::int64_t model_id = 0;
    // True if its hash is valid. If false, the other fields may be wrong.
    bool intact = false;
    // A store.v1.LogRow.
    std::string data;
  };

  std::string path;
  // Offset of the tail in the file.
  std::uint64_t offset = 0;
  // Ids of its first batch and of the batch after it, as far as they are known.
  std::int64_t first_log_id = 0;
  std::int64_t end_log_id = 0;
  // True if all of it had been written to the disk: it was damaged later.
  bool was_durable = false;
  // The batches that can be found.
  std::vector<Batch> batches{};
};

// One file of the log, which FORMAT.md describes. It knows which of its batches are still needed.
// The ids of a compacted segment have gaps. Not thread-safe. Errors: those of LogFiles.
class LogSegment {
 public:
  enum class Kind { kAppended, kCompacted };
  struct Identity {
    StoreId store_id;
    std::int64_t first_log_id = 0;
  };

  // Creates a segment of `size` bytes. It is larger if frames of frame_bytes in total need more,
  // and smaller if the disk has less room. It belongs to the log after Publish.
  [[nodiscard]] static absl::StatusOr<LogSegment> Create(const std::string& folder, Kind kind,
                                                         const Identity& identity,
                                                         std::uint64_t size,
                                                         std::uint64_t frame_bytes);
  // Completes and syncs a compacted segment, which gets no more frames. end_log_id: the first id of
  // the next segment.
  [[nodiscard]] absl::Status Finish(std::int64_t end_log_id);
  // Renames the file to its final name, and replaces a segment that has it. On return the name is
  // durable, and so is what was synced before.
  [[nodiscard]] absl::Status Publish(const std::string& folder);
  // Opens an existing segment and reads only its header. Errors also: DataLoss if its name or its
  // store is not as expected.
  [[nodiscard]] static absl::StatusOr<LogSegment> Open(const std::string& folder,
                                                       const Identity& identity);
  // Path of the segment that begins with this batch.
  [[nodiscard]] static std::string PathOf(const std::string& folder, std::int64_t first_log_id);
  // Returns the first batch ids of the segments in the folder, from their names, ascending.
  [[nodiscard]] static absl::StatusOr<std::vector<std::int64_t>> List(const std::string& folder);
  // Path of a segment before Publish.
  [[nodiscard]] static std::string UnfinishedPath(const std::string& folder, Kind kind);

  // Reads frames from the end on, up to the first invalid one or this offset, and moves the end
  // behind them. All of their batches count as needed. Errors also: DataLoss if a frame of a
  // compacted segment is invalid.
  [[nodiscard]] absl::Status ReadFrames(std::uint64_t end, const VisitBatch& visit);
  // For the newest segment after ReadFrames: DataLoss if a valid frame follows an invalid one.
  [[nodiscard]] absl::Status CheckEnd() const;
  // For the newest segment, after ReadFrames: the data written after its end, if there is any.
  // durable_end_log_id: the batches before it had been written.
  [[nodiscard]] absl::StatusOr<std::optional<LogTail>> ReadTail(
      std::int64_t durable_end_log_id) const;
  // True if nothing was written after the end.
  [[nodiscard]] absl::StatusOr<bool> IsTerminated() const;
  [[nodiscard]] absl::Status Sync() const { return file_.SyncData(); }
  [[nodiscard]] absl::Status CheckInPlace() const { return file_.CheckInPlace(); }

  [[nodiscard]] bool HasRoom(const LogFrame& frame) const noexcept {
    return size() - end_ >= frame.bytes();
  }
  // Appends the frame, which is not empty and for which there is room. Its first batch gets this
  // id; only a compacted segment may have a gap before it. Sync makes it durable.
  [[nodiscard]] absl::Status Append(std::int64_t first_log_id, const LogFrame& frame);

  // Reads a batch into `data`, of which `batch` has a view. Errors also: DataLoss if its hash is
  // wrong.
  [[nodiscard]] absl::Status ReadBatch(std::int64_t log_id, std::string& data,
                                       StoredBatch& batch) const;

  // Ignores a batch that the segment does not hold, or that is not needed.
  void MarkUnneeded(std::int64_t log_id) noexcept;
  // Id of the first needed batch from this id on, if there is one.
  [[nodiscard]] std::optional<std::int64_t> NextNeeded(std::int64_t log_id) const noexcept;

  // Removes the file, or keeps it for a segment that is created later if fewer than `most_spares`
  // files of this size are kept.
  [[nodiscard]] absl::Status Remove(const std::string& folder, std::size_t most_spares) const;

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] bool empty() const noexcept { return places_.empty(); }
  [[nodiscard]] bool compacted() const noexcept {
    return header_.version == SegmentHeader::kCompactedVersion;
  }
  [[nodiscard]] std::int64_t first_log_id() const noexcept { return header_.first_log_id; }
  // Id of the first batch of its last frame; that of the next batch without frames.
  [[nodiscard]] std::int64_t last_frame_log_id() const noexcept { return last_frame_log_id_; }
  // Id with which the next segment begins or, in the newest one, the next frame.
  [[nodiscard]] std::int64_t end_log_id() const noexcept {
    return compacted() ? range_.end_log_id : next_log_id_;
  }
  // Size of the file.
  [[nodiscard]] std::uint64_t size() const noexcept { return header_.size; }
  // Offset of the next frame.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  // Whether each batch is needed, in the order of ids.
  [[nodiscard]] const std::vector<bool>& needed() const noexcept { return needed_; }
  [[nodiscard]] std::size_t needed_batches() const noexcept { return needed_batches_; }
  [[nodiscard]] std::uint64_t needed_bytes() const noexcept { return needed_bytes_; }

 private:
  // Batches with consecutive ids.
  struct Run {
    std::int64_t first_log_id = 0;
    // Index of its first batch in the segment.
    std::size_t index = 0;
  };

  LogSegment(File file, const SegmentHeader& header);

  // Index of the first run that begins after this id.
  [[nodiscard]] std::size_t RunAfter(std::int64_t log_id) const noexcept;
  // Index of the batch after the run.
  [[nodiscard]] std::size_t EndOfRun(std::size_t run) const noexcept {
    return run + 1 < runs_.size() ? runs_[run + 1].index : places_.size();
  }
  // Index of the batch, if the segment holds it.
  [[nodiscard]] std::optional<std::size_t> IndexOf(std::int64_t log_id) const noexcept;
  // Bytes from the batch to the next one.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t index) const noexcept;
  // Moves the end behind a frame.
  template <typename Batches>
  void AddFrame(std::int64_t first_log_id, const Batches& batches, std::uint64_t bytes);
  // Finds the batches of the tail.
  [[nodiscard]] absl::Status ReadTailBatches(LogTail& tail) const;

  File file_;
  SegmentHeader header_;
  // The ids of a compacted segment; unset otherwise.
  SegmentRange range_;
  std::int64_t last_frame_log_id_ = 0;
  // Id of the batch after the last one.
  std::int64_t next_log_id_ = 0;
  std::uint64_t end_ = 0;
  // The runs of ids: a single one unless the segment is compacted.
  std::vector<Run> runs_;
  // Offset of each batch, in units of 8 bytes.
  std::vector<std::uint32_t> places_;
  std::vector<bool> needed_;
  std::size_t needed_batches_ = 0;
  std::uint64_t needed_bytes_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_SEGMENT_H_
