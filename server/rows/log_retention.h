#ifndef CALIBD_SERVER_ROWS_LOG_RETENTION_H_
#define CALIBD_SERVER_ROWS_LOG_RETENTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace calibd::server {

// Decides which batches of the log a model still needs: those of its window, and those after its
// newest snapshot. Also decides when a new snapshot is due. Not thread-safe.
class LogRetention {
 public:
  using Clock = std::chrono::steady_clock;
  // A snapshot is due after this many batches, rejected ones included, or this long after the first
  // of them. These limits bound the number of batches that a recovery replays.
  static constexpr std::size_t kSnapshotBatches = 4096;
  static constexpr std::size_t kSnapshotRejected = 16384;
  static constexpr std::chrono::seconds kSnapshotInterval{60};
  // Delay after a snapshot that could not be stored.
  static constexpr std::chrono::seconds kRetryInterval{1};

  // snapshot_rows: a snapshot is also due after this many observations or predictions.
  LogRetention(std::size_t window, std::size_t snapshot_rows)
      : window_(window), snapshot_rows_(snapshot_rows) {}

  // Adds a batch that was applied. rows: 0 if it was rejected, or only affects a producer's cursor.
  void Add(std::int64_t log_id, std::size_t rows);
  // Adds a batch that the newest snapshot covers. Call it before the first Add.
  void AddOld(std::int64_t log_id, std::size_t rows);
  // Adds a batch that was applied and that the tracker needs. rows: number of rows in it.
  void AddTracked(std::int64_t log_id, std::size_t rows);
  // Adds such a batch that the newest snapshot covers.
  void AddOldTracked(std::int64_t log_id) noexcept { last_log_id_ = log_id; }

  // Makes a snapshot due at once.
  void HastenSnapshot() noexcept { hastened_ = true; }
  // True if there are changes that no snapshot covers, not even one that is being written.
  [[nodiscard]] bool unstored() const noexcept {
    return failed_ || new_batches_ + new_rejected_ > 0;
  }
  // Time at which a snapshot is due, at most `now` if it already is. kNever if nothing has changed,
  // and while a snapshot is being written. Changes since the last call count as if they happened
  // now.
  [[nodiscard]] Clock::time_point SnapshotDueAt(Clock::time_point now) noexcept;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  // Log id of the newest batch; 0 before the first.
  [[nodiscard]] std::int64_t last_log_id() const noexcept { return last_log_id_; }
  // Log id of the first batch that the window needs, as of BeginSnapshot; the id after the newest
  // batch if the window needs none.
  [[nodiscard]] std::int64_t first_log_id() const noexcept {
    return batches_.empty() ? last_log_id_ + 1 : batches_.front().log_id;
  }
  // Call it when a snapshot of the state after the newest batch is being written. Returns the
  // batches that are not needed once it is stored.
  [[nodiscard]] std::vector<std::int64_t> BeginSnapshot(Clock::time_point now);
  // stored: whether the snapshot was stored and these batches were released.
  void EndSnapshot(bool stored) noexcept;
  // Returns and removes the log ids of the batches passed to AddOld that are not needed.
  [[nodiscard]] std::vector<std::int64_t> TakeUnneededOld();
  // Returns and removes all batches; none of them is needed any more.
  [[nodiscard]] std::vector<std::int64_t> TakeAll();

 private:
  struct Batch {
    std::int64_t log_id;
    std::size_t rows;
  };

  // Removes the batches that the window does not need from batches_.
  void LeaveOut();

  const std::size_t window_;
  const std::size_t snapshot_rows_;
  std::deque<Batch> batches_;
  // Total number of rows in batches_.
  std::size_t rows_ = 0;
  std::vector<std::int64_t> rejected_;
  std::int64_t last_log_id_ = 0;
  std::size_t new_rows_ = 0;
  std::size_t new_batches_ = 0;
  std::size_t new_rejected_ = 0;
  // Batches that are not needed once the snapshot being written, or the next one, is stored.
  std::vector<std::int64_t> unneeded_;
  bool under_way_ = false;
  bool failed_ = false;
  bool hastened_ = false;
  // Start time of the newest snapshot, and arrival time of the first batch that no snapshot covers.
  Clock::time_point snapshot_time_{};
  std::optional<Clock::time_point> new_since_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_LOG_RETENTION_H_
