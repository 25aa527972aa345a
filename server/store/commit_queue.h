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
#include "server/executor/thread_pool.h"
#include "server/store/local/store.h"

namespace calibd::server {

// A write, and what follows from it. CommitQueue calls the functions in the order in which they are
// declared here; none is called from two threads at once.
class Operation {
 public:
  // Where Write writes.
  enum class Target { kNowhere, kLog, kDatabase };

  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] virtual Target target() const noexcept = 0;

  // ---- On the storage thread

  // Writes, as a part of a transaction. An error fails the whole transaction.
  [[nodiscard]] virtual absl::Status Write(Store& /*store*/) { return absl::OkStatus(); }
  // Takes back what Write did in memory. Called if the transaction failed, for the newest operation
  // first; also if Write was not called.
  virtual void Undo() {}
  // Called after the commit, or with the error, in the order of posting.
  virtual void Finish(Store& /*store*/, const absl::Status& /*committed*/) {}

  // ---- On the strand; without one on the storage thread. In the order of posting.

  [[nodiscard]] virtual Strand* strand() noexcept { return nullptr; }
  // Does to the state in memory what was written. May throw bad_alloc, and then the store fails:
  // only a start can apply it.
  virtual void Apply() {}
  // Makes the state visible. Called once for the operations of a transaction on a strand.
  virtual void Publish() {}
  virtual void Answer() {}
};

// Makes operations durable in the order of posting. One storage thread, the committer, takes all
// that are posted. Operations that follow each other and have the same target are one
// transaction. After its commit, they are passed to their strands. Thread-safe.
//
// A full disk fails the transaction and nothing else. After any other error nothing is
// written any more, as what the disk holds is not known: on_failure is told once, and every
// operation fails.
class CommitQueue {
 public:
  // store: nobody else uses it from the first operation on. on_failure: on the storage thread.
  CommitQueue(std::unique_ptr<Store> store, std::function<void(const absl::Status&)> on_failure);
  // Stop().
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // Unbounded: the callers bound what they post.
  void Post(std::shared_ptr<Operation> operation);
  // Calls this on the storage thread when all that was posted before is committed or has failed.
  // It is told whether its transaction was committed, which writes nothing by itself.
  using Callback = std::function<void(Store&, const absl::Status&)>;
  void Call(Callback callback);
  // As after a failed write: committed rows cannot be counted, or a file was removed or replaced.
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
  using Operations = std::span<std::shared_ptr<Operation>>;

  void Run();
  // The operations of the first transaction, which come before the rest.
  [[nodiscard]] static Operations FirstTransaction(Operations operations);
  // Commits a transaction and passes its operations on. Appends to the log only as many as make a
  // frame of a good size; returns how many.
  std::size_t Commit(Operations operations);
  // Writes and commits. Leaves out operations that would make the frame too large. has_content:
  // set if anything was appended.
  [[nodiscard]] absl::Status Write(Operations& operations, bool to_database, bool& has_content);
  void Undo(Operations operations);
  // Finishes the operations and passes them to their strands.
  void PassOn(Operations operations, const absl::Status& committed);
  // On their strand.
  void Apply(Operations operations);
  void Count(const absl::Status& committed, bool to_database,
             std::chrono::duration<double> duration);
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
  std::vector<std::shared_ptr<Operation>> queue_;  // guarded by mutex_
  std::size_t writing_ = 0;                        // guarded by mutex_
  bool stopping_ = false;                          // guarded by mutex_
  absl::Status failure_;                           // guarded by mutex_
  // Guarded by mutex_: there is no room, see Refusal.
  bool log_full_ = false;
  bool database_full_ = false;
  bool told_failure_ = false;  // guarded by mutex_
  Statistics statistics_;      // guarded by mutex_; without queued and sizes
  int wal_pages_ = 0;          // guarded by mutex_

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
