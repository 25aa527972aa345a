#ifndef CALIBD_SERVER_STATE_LOG_RETENTION_H_
#define CALIBD_SERVER_STATE_LOG_RETENTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace calibd::server {

// Which batches of the log a model still needs: those of its window, and those that its
// newest snapshot does not hold. Says when a new snapshot is due. Not thread-safe.
class LogRetention {
 public:
  using Clock = std::chrono::steady_clock;
  // A snapshot is due after so many batches or rejected batches, or this long after the first of
  // them. These limits bound the number of batches that recovery replays.
  static constexpr std::size_t kSnapshotBatches = 4096;
  static constexpr std::size_t kSnapshotRejected = 16384;
  static constexpr std::chrono::seconds kSnapshotInterval{60};
  // After one that could not be stored.
  static constexpr std::chrono::seconds kRetryInterval{1};

  // snapshot_rows: a snapshot also follows on so many observations or predictions.
  LogRetention(std::size_t window, std::size_t snapshot_rows)
      : window_(window), snapshot_rows_(snapshot_rows) {}

  // A batch was counted; rows: 0 for one that was rejected, or of which only a producer's cursor
  // knows.
  void Add(std::int64_t log_id, std::size_t rows);
  // The same of a batch that the newest snapshot holds. Before the first Add.
  void AddOld(std::int64_t log_id, std::size_t rows);
  // A batch was counted that is kept for the tracker of predictions. rows: that it holds.
  void AddTracked(std::int64_t log_id, std::size_t rows);
  // The same of a batch that the newest snapshot holds.
  void AddOldTracked(std::int64_t log_id) noexcept { last_log_id_ = log_id; }

  // A snapshot is due, whatever came since the last one.
  void HastenSnapshot() noexcept { hastened_ = true; }
  // Something is in no snapshot, not even in one that is on its way.
  [[nodiscard]] bool unstored() const noexcept {
    return failed_ || new_batches_ + new_rejected_ > 0;
  }
  // When a snapshot is due, not after `now` if it is already; kNever without anything new, and
  // while one is on its way. What is new since this was last asked came now.
  [[nodiscard]] Clock::time_point SnapshotDueAt(Clock::time_point now) noexcept;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  // Log id of the newest batch; 0 before the first.
  [[nodiscard]] std::int64_t last_log_id() const noexcept { return last_log_id_; }
  // Log id of the first batch that the window needs, as of BeginSnapshot; the id after the newest
  // batch if the window needs none.
  [[nodiscard]] std::int64_t first_log_id() const noexcept {
    return batches_.empty() ? last_log_id_ + 1 : batches_.front().log_id;
  }
  // A snapshot of the state after the newest batch is on its way. Returns the batches that
  // are not needed once it is stored.
  [[nodiscard]] std::vector<std::int64_t> BeginSnapshot(Clock::time_point now);
  // It is stored, and they are released; or neither.
  void EndSnapshot(bool stored) noexcept;
  // Takes the log ids of the batches passed to AddOld that are not needed.
  [[nodiscard]] std::vector<std::int64_t> TakeUnneededOld();
  // All batches, none of which is needed any more.
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
  // By the snapshot on its way, or by the next one after it failed.
  std::vector<std::int64_t> unneeded_;
  bool under_way_ = false;
  bool failed_ = false;
  bool hastened_ = false;
  // When the newest snapshot began, and when the first batch came that none holds.
  Clock::time_point snapshot_time_{};
  std::optional<Clock::time_point> new_since_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_LOG_RETENTION_H_
