#ifndef CALIBD_SERVER_INGEST_COMMIT_QUEUE_H_
#define CALIBD_SERVER_INGEST_COMMIT_QUEUE_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/executor/fair_queue.h"
#include "server/executor/thread_pool.h"
#include "server/store/store.h"

namespace calibd::server {

class Model;

// A write and its consequences. CommitQueue calls the functions in the order of their declarations,
// never on two threads at once.
class Operation {
 public:
  // The part of the store to which Write writes.
  enum class Target { kNone, kLog, kCatalog };

  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] virtual Target target() const noexcept = 0;
  // The model that the operation belongs to. Operations of one model are done in the order of
  // posting; an operation without a model is done after all that were posted before it.
  [[nodiscard]] virtual const Model* model() const noexcept { return nullptr; }
  // Approximate number of bytes that the operation holds and writes.
  [[nodiscard]] virtual std::size_t bytes() const noexcept { return 0; }

  // ---- On the storage thread.

  // Writes, as a part of a transaction. An error fails the whole transaction.
  [[nodiscard]] virtual absl::Status Write(Store& /*store*/) { return absl::OkStatus(); }
  // Undoes the changes of Write in memory. Called if the transaction failed, in reverse order of
  // Write, also if Write was not called.
  virtual void Undo() {}
  // Called after the commit, or with the error, in the order of Write.
  virtual void Finish(Store& /*store*/, const absl::Status& /*committed*/) {}

  // ---- On the strand, or on the storage thread if there is no strand. In the order of Write.

  [[nodiscard]] virtual Strand* strand() noexcept { return nullptr; }
  // Applies the written change to the state in memory, or leaves that to Publish. May throw
  // bad_alloc; the store then fails, because only a start can apply the change.
  virtual void Apply() {}
  // Makes the state visible. Called once for several operations on the same strand, for the last of
  // them. May throw like Apply.
  virtual void Publish() {}
  virtual void Answer() {}
};

// Makes operations durable. The models take turns by the bytes of their operations: an operation of
// a model that has written less than others is next, however many operations the others have
// queued. The operations of a model keep their order. One thread, the storage thread, takes the
// next operations with the same target, which form one transaction. After its commit, they are
// passed to their strands. Thread-safe.
//
// A refused transaction fails only its own operations. After a fenced or unknown outcome the store
// has failed: nothing more is written, on_failure is called once with the status, and every
// operation fails.
class CommitQueue {
 public:
  // store: nobody else may use it after the first operation. on_failure: called at most once, on
  // the storage thread or on a strand.
  CommitQueue(std::unique_ptr<Store> store, std::function<void(const absl::Status&)> on_failure);
  // Calls Stop().
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // The queue is unbounded, so callers must bound what they post.
  void Post(std::shared_ptr<Operation> operation);
  // Calls the function on the storage thread when all operations posted before are committed or
  // have failed. The status is that of its transaction, to which it adds nothing.
  using Callback = std::function<void(Store&, const absl::Status&)>;
  void Call(Callback callback);
  // Fails the store, as an unknown outcome does: committed rows cannot be applied, or the store was
  // removed or replaced.
  void Fail(const absl::Status& status);
  // Waits until all posted operations are done.
  void Flush();
  // Completes the queued operations, closes the store unless it failed, and joins. Operations that
  // are posted later are dropped.
  void Stop();

  // Returns a view of the store after all transactions so far. Waits for the storage thread, which
  // also destroys the view. The view must be released before the queue stops. Errors: those of
  // Store::OpenView; DataLoss if the store was removed or replaced, after which it has failed;
  // Unavailable if it failed before.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<StoreView>> OpenView();

  // Checks whether there is room, so that a start without room reports it before the first write
  // fails. Call it after the log was read and before the first Post.
  void CheckRoomAtStart();

  // The writes that are refused now. kLog and kCatalog: the newest transaction of that kind, or the
  // start, found no room, and there has been none since. With kCatalog the log still accepts
  // batches, in the space that it has allocated.
  enum class Refusal { kNothing, kCatalog, kLog, kEverything };
  [[nodiscard]] Refusal refusal() const;

  struct Statistics {
    // Upper bounds of the commits' duration in seconds, inclusive; the last bucket is unbounded.
    static constexpr std::array<double, 11> kBuckets{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                     0.05,   0.1,   0.25,   1,     5};
    // Not cumulative.
    std::array<std::int64_t, kBuckets.size() + 1> buckets{};
    double seconds = 0;
    std::int64_t failed_commits = 0;
    // Number of operations that are pending or being written.
    std::size_t queued = 0;
    Store::Sizes sizes;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  // The store is not full if it has room for this many bytes, or for the batches that did not fit.
  static constexpr std::uint64_t kLeastRoom = std::uint64_t{1} << 20;
  using Operations = std::span<std::shared_ptr<Operation>>;

  void Run();
  // Moves the operations of the next transaction to the vector, which has room for some. Requires
  // mutex_.
  void TakeTransaction(std::vector<std::shared_ptr<Operation>>& operations);
  // Commits a transaction and passes its operations on. Limits the number of appended operations by
  // the size of the transaction; returns the number.
  std::size_t Commit(Operations operations);
  // Writes and commits. Leaves out operations that would make the transaction too large.
  // has_content: set if anything was appended.
  [[nodiscard]] absl::Status Write(Operations& operations, bool to_catalog, bool& has_content);
  void Undo(Operations operations);
  // Finishes the operations and passes them to their strands.
  void PassOn(Operations operations, const absl::Status& committed);
  // Runs on the strand: applies the operation with this number and those before it, and later ones
  // too as long as they have fewer bytes together.
  void ApplyFinished(const Strand* strand, std::uint64_t number, std::size_t most_bytes);
  void Apply(Operations operations);
  void Count(const absl::Status& committed, bool to_catalog,
             std::chrono::duration<double> duration);
  // Does the store's upkeep after a transaction with this outcome.
  void Maintain(Outcome outcome);
  // Checks whether a full store has room again. At most once in kRoomInterval.
  void CheckRoom();
  // Calls Fail if the outcome is fenced or unknown.
  void HandleError(const absl::Status& status);

  const std::unique_ptr<Store> store_;
  const std::function<void(const absl::Status&)> on_failure_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  using Queue = FairQueue<std::shared_ptr<Operation>>;
  Queue queue_;  // guarded by mutex_
  // Guarded by mutex_: of the models that had operations since the queue was last empty.
  absl::flat_hash_map<const Model*, Queue::Flow> flows_;
  std::size_t writing_ = 0;  // guarded by mutex_
  bool stopping_ = false;    // guarded by mutex_
  absl::Status failure_;     // guarded by mutex_
  // Guarded by mutex_: there is no room, see Refusal.
  bool log_full_ = false;
  bool catalog_full_ = false;
  Statistics statistics_;  // guarded by mutex_; without queued and sizes

  // A strand with a backlog applies operations of several transactions together.
  struct Finished {
    std::uint64_t number;
    std::shared_ptr<Operation> operation;
  };
  std::mutex finished_mutex_;
  // Guarded by finished_mutex_: the operations that their strands have not applied yet, ascending.
  // A deque needs memory when it is made, and a map of absl would keep one that was not made.
  std::unordered_map<const Strand*, std::deque<Finished>> finished_;

  // Used only on the storage thread: the number of finished operations so far.
  std::uint64_t last_number_ = 0;
  // Used only on the storage thread: when it last checked whether a full store has room, and for
  // how many bytes; whether there is more upkeep to do at once.
  std::chrono::steady_clock::time_point checked_room_{};
  std::uint64_t needed_room_ = kLeastRoom;
  bool maintains_ = false;
  // Used only on the storage thread: until when transactions are small.
  std::chrono::steady_clock::time_point shared_until_{};

  std::thread storage_thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_COMMIT_QUEUE_H_
