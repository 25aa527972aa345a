#ifndef CALIBD_SERVER_ARCHIVE_ARCHIVER_H_
#define CALIBD_SERVER_ARCHIVE_ARCHIVER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/store/v1/archive.pb.h"
#include "server/ingest/commit_queue.h"

namespace calibd::server {

// Hands over a copy of the store to a command of the operator: a base, which is a complete backup,
// and after it log files, one every few seconds while the store changes. Two threads of its own do
// all the work, so that log files do not wait for a base. Nothing waits for them: the store keeps
// what is not handed over yet, up to a limit. Beyond the limit the archiver gives up the batches
// that wait, and begins with a new base. Thread-safe.
class Archiver {
 public:
  struct Settings {
    // See RunArchiveCommand.
    std::string command;
    // Folder for the files that are being handed over, and for the archiver's state.
    std::string folder;
    // The store keeps at most about as many bytes of its log for the archive.
    std::int64_t most_waiting_bytes = 0;
  };

  Archiver(Settings settings, CommitQueue& commits);
  // Calls Stop without time.
  ~Archiver();
  Archiver(const Archiver&) = delete;
  Archiver& operator=(const Archiver&) = delete;

  // Reads the state, and makes the store keep what is not archived. Call it once after the
  // recovery, before the storage thread has anything to do or on that thread. Errors: Unavailable
  // if the folder cannot be made.
  [[nodiscard]] absl::Status Prepare(Store& store);
  // Starts the threads. Call it after Prepare.
  void Start();
  // Hands over what is left until the deadline, and ends the threads. Call it before the queue
  // stops.
  void Stop(std::chrono::steady_clock::time_point deadline);

  struct Statistics {
    // Time since which changes are not in the archive, in seconds. While nothing changes, it is
    // some seconds.
    double lag_seconds = 0;
    std::int64_t waiting_bytes = 0;
    std::int64_t handed_over = 0;
    std::int64_t failed = 0;
    std::int64_t gaps = 0;
    // Seconds since 1970; 0 without a base.
    double base_time_s = 0;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;

  void RunLog();
  void RunBase();
  // One turn of each thread, whose failure is logged. No exception escapes.
  absl::StatusOr<bool> TurnLog() noexcept;
  absl::Status TurnBase() noexcept;
  // Makes and hands over the next log file, if anything has changed. Returns whether the store has
  // more. Errors: Cancelled; those of the store.
  absl::StatusOr<bool> HandOverLog();
  absl::Status HandOverBase();
  // How long the command may take at first, and when it is repeated.
  struct TimeLimits {
    std::chrono::milliseconds first;
    std::chrono::milliseconds repeated;
  };
  // Runs the command for a file until it succeeds, and removes the file in any case. Errors:
  // Cancelled when go_on returns false.
  absl::Status HandOver(const ArchiveFile& file, const TimeLimits& limits,
                        const std::function<bool()>& go_on);
  // Waits for this time, or until the archiver stops. Returns false if it stops.
  bool Pause(std::chrono::milliseconds time);
  // Gives up if more waits for the archive than the store may keep.
  void CheckLimit();
  // The batches that are not archived are not kept any longer: the next base begins anew.
  void GiveUp(const std::string& reason);
  // Requires mutex_ to be held.
  [[nodiscard]] bool BaseIsDue() const;
  // Makes the state durable, and then makes the store keep the log from where the state says.
  void SaveState();
  [[nodiscard]] std::int64_t appended_bytes() const {
    return commits_.statistics().sizes.appended_log_bytes;
  }
  void LogFailure(const absl::Status& status);

  const Settings settings_;
  CommitQueue& commits_;

  // Held while a view is opened for a file, with the part of the state that describes the file: the
  // views have the order of these states.
  std::mutex cutting_;
  // Held while the state is written to its file and its consequence is posted to the store.
  std::mutex saving_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  store::v1::ArchiveState state_;          // guarded by mutex_
  std::int64_t gap_count_ = 0;             // guarded by mutex_
  bool stopping_ = false;                  // guarded by mutex_
  Clock::time_point stop_at_{};            // guarded by mutex_
  Clock::time_point failure_logged_at_{};  // guarded by mutex_
  bool failing_ = false;                   // guarded by mutex_
  // Guarded by mutex_: microseconds since 1970. The log files hold all that was acknowledged by the
  // first; with the base, the archive holds all that was acknowledged by the second.
  std::int64_t log_until_us_ = 0;
  std::int64_t until_us_ = 0;
  // Guarded by mutex_: of the bytes that were appended since the start, those that are archived.
  // Negative while bytes wait that were appended before the start.
  std::int64_t archived_bytes_ = 0;
  Clock::time_point checked_limit_{};  // guarded by mutex_
  std::atomic<std::int64_t> handed_over_ = 0;
  std::atomic<std::int64_t> failed_ = 0;
  // Used only on the thread of the log: the ids of all models, as they were last handed over by
  // this process.
  std::optional<std::vector<std::int64_t>> model_ids_;

  std::thread log_thread_;
  std::thread base_thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ARCHIVE_ARCHIVER_H_
