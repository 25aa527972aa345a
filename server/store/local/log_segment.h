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

// Data at the end of the log that cannot be read as a frame. Either its write was interrupted, and
// it was never acknowledged, or it was damaged later.
struct LogTail {
  struct Batch {
    std::int64_t log_id = 0;
    std::int64_t model_id = 0;
    // True if the batch is undamaged. If false, the other fields may be wrong.
    bool intact = false;
    // A store.v1.LogRow.
    std::string data;
  };

  std::string path;
  // Offset at which it begins in the file.
  std::uint64_t offset = 0;
  // Ids of its first batch and of the batch after it, as far as they can be determined.
  std::int64_t first_log_id = 0;
  std::int64_t end_log_id = 0;
  // True if all of it had been written to the disk, and was therefore damaged later.
  bool was_durable = false;
  // The batches that can be found.
  std::vector<Batch> batches{};
};

// One file of the log in the format of FORMAT.md, with the information which of its batches are
// needed. Not thread-safe. Errors: those of LogFiles.
class LogSegment {
 public:
  struct Identity {
    StoreId store_id;
    std::int64_t first_log_id = 0;
  };

  // Creates a segment of `size` bytes; more if frames of frame_bytes in total need it, less if the
  // disk has no room. It does not belong to the log before Publish.
  [[nodiscard]] static absl::StatusOr<LogSegment> Create(const std::string& folder,
                                                         const Identity& identity,
                                                         std::uint64_t size,
                                                         std::uint64_t frame_bytes);
  // Renames the file to its final name, replacing a segment of this name. Afterwards the name and
  // everything that was synced before are durable.
  [[nodiscard]] absl::Status Publish(const std::string& folder);
  // Opens an existing segment and reads only its header. Errors: also DataLoss if it is not the
  // segment that its name and the store require.
  [[nodiscard]] static absl::StatusOr<LogSegment> Open(const std::string& folder,
                                                       const Identity& identity);
  // Path of the segment that begins with this batch.
  [[nodiscard]] static std::string PathOf(const std::string& folder, std::int64_t first_log_id);
  // Returns the first batch ids of the segments in the folder, from their names, ascending.
  [[nodiscard]] static absl::StatusOr<std::vector<std::int64_t>> List(const std::string& folder);
  // Path of a segment before Publish.
  [[nodiscard]] static std::string UnfinishedPath(const std::string& folder);

  // Reads frames from the end on, up to the first invalid one or this offset, and moves the end
  // behind them. All of their batches are marked as needed.
  [[nodiscard]] absl::Status ReadFrames(std::uint64_t end, const VisitBatch& visit);
  // For the newest segment after ReadFrames: DataLoss if a valid frame follows an invalid one.
  [[nodiscard]] absl::Status CheckEnd() const;
  // For the newest segment, after ReadFrames: returns what was written after its end; unset if
  // nothing was. durable_end_log_id: the batches before this id had been written.
  [[nodiscard]] absl::StatusOr<std::optional<LogTail>> ReadTail(
      std::int64_t durable_end_log_id) const;
  // True if nothing was written after the end.
  [[nodiscard]] absl::StatusOr<bool> IsTerminated() const;
  [[nodiscard]] absl::Status Sync() const { return file_.SyncData(); }
  [[nodiscard]] absl::Status CheckInPlace() const { return file_.CheckInPlace(); }

  [[nodiscard]] bool HasRoom(const LogFrame& frame) const noexcept {
    return size_ - end_ >= frame.bytes();
  }
  // Appends a non-empty frame, for which there must be room. Sync makes it durable.
  [[nodiscard]] absl::Status Append(const LogFrame& frame);

  // batch: a view of `data`. Errors: also DataLoss if the batch differs from what was written.
  [[nodiscard]] absl::Status ReadBatch(std::int64_t log_id, std::string& data,
                                       StoredBatch& batch) const;

  // Does nothing if the segment does not contain the batch, or the batch is not needed.
  void MarkUnneeded(std::int64_t log_id) noexcept;

  // Removes the file. With for_reuse, keeps it for the next segment that is created.
  [[nodiscard]] absl::Status Remove(const std::string& folder, bool for_reuse) const;

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] bool empty() const noexcept { return places_.empty(); }
  [[nodiscard]] std::int64_t first_log_id() const noexcept { return first_log_id_; }
  // Id of the first batch of the last frame; without frames, of the next batch.
  [[nodiscard]] std::int64_t last_frame_log_id() const noexcept { return last_frame_log_id_; }
  // Id of the batch after the last one.
  [[nodiscard]] std::int64_t end_log_id() const noexcept {
    return first_log_id_ + static_cast<std::int64_t>(places_.size());
  }
  // Size of the file.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Offset of the next frame.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  // For each batch.
  [[nodiscard]] const std::vector<bool>& needed() const noexcept { return needed_; }
  [[nodiscard]] std::size_t needed_batches() const noexcept { return needed_batches_; }
  [[nodiscard]] std::uint64_t needed_bytes() const noexcept { return needed_bytes_; }

 private:
  LogSegment(File file, const SegmentHeader& header);

  [[nodiscard]] bool Holds(std::int64_t log_id) const noexcept {
    return log_id >= first_log_id_ && log_id < end_log_id();
  }
  // Number of bytes from this batch to the next one.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t index) const noexcept;
  void AddPlace(std::uint64_t place);
  // Moves the end behind a frame whose batches are already in places_.
  void MoveEnd(std::uint64_t frame_bytes);
  // Finds the batches of the tail.
  [[nodiscard]] absl::Status ReadTailBatches(LogTail& tail) const;

  File file_;
  std::int64_t first_log_id_ = 0;
  std::int64_t last_frame_log_id_ = 0;
  std::uint64_t salt_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t end_ = 0;
  // Offset of each batch, in units of 8 bytes.
  std::vector<std::uint32_t> places_;
  std::vector<bool> needed_;
  std::size_t needed_batches_ = 0;
  std::uint64_t needed_bytes_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOG_SEGMENT_H_
