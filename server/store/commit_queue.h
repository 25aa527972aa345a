#ifndef CALIBD_SERVER_STORE_COMMIT_QUEUE_H_
#define CALIBD_SERVER_STORE_COMMIT_QUEUE_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/store/store.h"

namespace calibd::server {

// Makes what is posted durable, in the order of posting: one storage thread writes what waits.
// Operations that follow each other and go to the same place, the log or the database, are one
// transaction. Thread-safe.
//
// A full disk fails the transaction and nothing else. After any other error nothing is
// written any more, as what the disk holds is not known: on_failure is told once, and every
// operation fails.
class CommitQueue {
 public:
  struct Operation {
    // Appends to the log, on the storage thread. An error fails the whole transaction.
    std::function<absl::Status(Store&)> append;
    // Writes to the database, likewise. One of the two, or neither.
    std::function<absl::Status(Store&)> write;
    // Takes back what `append` or `write` did in memory. After a failure, newest first, on the
    // storage thread; whether they were called or not.
    std::function<void()> undo;
    // After the commit, or with the error; on the storage thread, in the order of posting.
    std::function<void(const absl::Status&)> done;
    // Does what is no part of a transaction, before `done`: whatever became of the one that this
    // came into.
    std::function<void(Store&)> release{};
  };

  // store: nobody else uses it from the first operation on. on_failure: on the storage thread.
  CommitQueue(std::unique_ptr<Store> store, std::function<void(const absl::Status&)> on_failure);
  // Stop().
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // Calls this on the storage thread whenever all operations of a transaction are done. Before
  // the first Post.
  void SetSettle(std::function<void()> settle);
  // Unbounded: whoever posts bounds what waits.
  void Post(Operation operation);
  // As after a failed write: what was committed cannot be made to count.
  void Fail(const absl::Status& status);
  // Waits until all that was posted is done.
  void Flush();
  // Does what is queued, then joins. What is posted later is dropped.
  void Stop();

  // Looks whether the disk has room: a start on a full disk is to say so before the first write
  // fails. After the log is read, before the first Post.
  void CheckRoomAtStart();

  // What is refused now. kLog and kDatabase: the newest transaction that went there found no room,
  // and there has been none since; or the start found none. With kDatabase the log still takes
  // batches, in the room that its newest file allocated before.
  enum class Refusal { kNothing, kDatabase, kLog, kEverything };
  [[nodiscard]] Refusal refusal() const;

  struct Statistics {
    // Upper bounds of the commits' duration in seconds, inclusive; the last bucket is unbounded.
    static constexpr std::array<double, 11> kBuckets{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                     0.05,   0.1,   0.25,   1,     5};
    // Not cumulative.
    std::array<std::int64_t, kBuckets.size() + 1> buckets{};
    double seconds = 0;
    std::int64_t failed_commits = 0;
    // Operations that wait or are being written.
    std::size_t queued = 0;
    // Of what is written in the log's files; and size of the database with its write-ahead log.
    std::int64_t log_bytes = 0;
    std::int64_t database_bytes = 0;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  // A disk that has room for so many bytes, or for the frame that did not fit, is not full.
  static constexpr std::uint64_t kLeastRoom = std::uint64_t{1} << 20;

  void Run();
  // Returns where the first transaction of these ends.
  [[nodiscard]] static std::size_t EndOfTransaction(std::span<const Operation> operations);
  // One transaction. Takes of a log's only so many as make a frame of a good size; returns how
  // many.
  std::size_t Write(std::span<Operation> operations);
  // Makes room on a disk that is full, or where there is much that is not needed.
  void MakeRoom(const absl::Status& status);
  // After a full disk, looks whether it has room. At most once in kFreeInterval.
  void CheckRoom();
  void RunCheckpoints();
  // Fail, unless the status is OK or says that the disk is full.
  void HandleError(const absl::Status& status);

  const std::unique_ptr<Store> store_;
  const std::function<void(const absl::Status&)> on_failure_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable wal_grew_;
  std::vector<Operation> queue_;  // guarded by mutex_
  std::size_t writing_ = 0;       // guarded by mutex_
  bool stopping_ = false;         // guarded by mutex_
  absl::Status failure_;          // guarded by mutex_
  // Guarded by mutex_: there is no room, see Refusal.
  bool log_full_ = false;
  bool database_full_ = false;
  bool told_failure_ = false;     // guarded by mutex_
  Statistics statistics_;         // guarded by mutex_; without queued and sizes
  int wal_pages_ = 0;             // guarded by mutex_
  std::function<void()> settle_;  // set before the first Post

  // The storage thread's: when it last looked whether a full disk has room, and for how many bytes;
  // when it last tried to make room on a full disk, when it may again take a
  // file of the log away, and whether there is one that should go at once.
  std::chrono::steady_clock::time_point checked_room_{};
  std::uint64_t needed_room_ = kLeastRoom;
  std::chrono::steady_clock::time_point freed_{};
  std::chrono::steady_clock::time_point retires_at_{};
  bool retires_ = false;

  std::thread storage_thread_;
  // Moves the write-ahead log into the database while commits go on.
  std::thread checkpoint_thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_COMMIT_QUEUE_H_
