#ifndef CALIBD_SERVER_STORE_LOG_SEGMENT_H_
#define CALIBD_SERVER_STORE_LOG_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file.h"

namespace calibd::server {

// A batch of the log.
struct StoredBatch {
  std::int64_t log_id = 0;
  std::int64_t model_id = 0;
  // Microseconds since 1970.
  std::int64_t time_us = 0;
  // A store.v1.LoggedBatch.
  std::string_view data;
};
// Ends the reading by an error.
using VisitBatch = std::function<absl::Status(const StoredBatch&)>;

// The batches of a frame that is to be written.
class LogFrame {
 public:
  struct Batch {
    // In the frame.
    std::uint64_t place = 0;
    std::int64_t model_id = 0;
    std::int64_t time_us = 0;
    std::string data;
  };

  void Append(std::int64_t model_id, std::int64_t time_us, std::string data);
  void Clear() noexcept;

  [[nodiscard]] const std::vector<Batch>& batches() const noexcept { return batches_; }
  // On the disk; 0 without batches.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<Batch> batches_;
  std::uint64_t bytes_ = 0;
};

// One file of the log, in the form that FORMAT.md describes, and which of its batches are still
// needed. Not thread-safe. Errors: those of LogFiles.
class LogSegment {
 public:
  // A new one: of `size` bytes, more if a frame of frame_bytes needs them, less if the disk has no
  // room for them. On return it and its name are durable.
  [[nodiscard]] static absl::StatusOr<LogSegment> Make(const std::string& folder,
                                                       std::int64_t first_log_id,
                                                       std::uint64_t size,
                                                       std::uint64_t frame_bytes);
  // One that is there, of which only the header is read.
  [[nodiscard]] static absl::StatusOr<LogSegment> Open(const std::string& path);
  // Of the segment that begins with this batch.
  [[nodiscard]] static std::string PathOf(const std::string& folder, std::int64_t first_log_id);
  // Of one that is being made.
  [[nodiscard]] static std::string UnfinishedPath(const std::string& folder);

  // Goes through the frames from the end on, as long as they are valid and before this place, and
  // moves the end behind them. All of their batches are needed.
  [[nodiscard]] absl::Status ReadFrames(std::uint64_t end, const VisitBatch& visit);
  // Of the newest segment: an error if something was written after its end. What was written last
  // and never acknowledged may be cut.
  [[nodiscard]] absl::Status CheckEnd() const;
  [[nodiscard]] absl::Status Sync() const { return file_.SyncData(); }

  [[nodiscard]] bool HasRoom(const LogFrame& frame) const noexcept {
    return size_ - end_ >= frame.bytes();
  }
  // On return it is durable. frame: not empty, and there is room for it.
  [[nodiscard]] absl::Status Write(const LogFrame& frame);

  // batch: its data are in `data`.
  [[nodiscard]] absl::Status ReadBatch(std::int64_t log_id, std::string& data,
                                       StoredBatch& batch) const;

  // Does nothing for a batch that is not in it, or not needed.
  void MarkUnneeded(std::int64_t log_id) noexcept;

  // Takes the file away; with for_reuse keeps it for the next one that is made.
  [[nodiscard]] absl::Status Remove(const std::string& folder, bool for_reuse) const;

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] bool empty() const noexcept { return places_.empty(); }
  [[nodiscard]] std::int64_t first_log_id() const noexcept { return first_log_id_; }
  // Behind the last batch.
  [[nodiscard]] std::int64_t end_log_id() const noexcept {
    return first_log_id_ + static_cast<std::int64_t>(places_.size());
  }
  // Of the file.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Where the next frame goes.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  // Of each batch.
  [[nodiscard]] const std::vector<bool>& needed() const noexcept { return needed_; }
  [[nodiscard]] std::size_t needed_batches() const noexcept { return needed_batches_; }
  [[nodiscard]] std::uint64_t needed_bytes() const noexcept { return needed_bytes_; }

 private:
  LogSegment(File file, std::int64_t first_log_id, std::uint64_t salt, std::uint64_t size);

  [[nodiscard]] bool Holds(std::int64_t log_id) const noexcept {
    return log_id >= first_log_id_ && log_id < end_log_id();
  }
  // Of a batch and what is before the next one.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t index) const noexcept;
  void AddPlace(std::uint64_t place);
  // Behind a frame whose batches have their places.
  void MoveEnd(std::uint64_t frame_bytes);

  File file_;
  std::int64_t first_log_id_ = 0;
  std::uint64_t salt_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t end_ = 0;
  // Of each batch where it is, in units of 8 bytes.
  std::vector<std::uint32_t> places_;
  std::vector<bool> needed_;
  std::size_t needed_batches_ = 0;
  std::uint64_t needed_bytes_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOG_SEGMENT_H_
