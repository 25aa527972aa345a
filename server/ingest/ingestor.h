#ifndef CALIBD_SERVER_INGEST_INGESTOR_H_
#define CALIBD_SERVER_INGEST_INGESTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/decode.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/logged_batch.h"
#include "server/ingest/settlement.h"
#include "server/state/model.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

struct PendingBatch;

// Takes decoded batches to the log and from there to the state of their models: in
// the order of the log, one after another for one model. Thread-safe.
class Ingestor {
 public:
  // queue_bytes: batches that wait or are being counted; from this size on
  // queue_full() holds.
  Ingestor(CommitQueue& commits, const LogClock& clock, std::size_t queue_bytes);

  // Opens a producer, after the batches already submitted for the model. done is
  // called on a writer thread with the number expected next; errors: Aborted,
  // ResourceExhausted, NotFound (the model was deleted), Unavailable (the store failed).
  void Open(const std::shared_ptr<Model>& model, std::string producer_id, std::int64_t epoch,
            std::function<void(absl::StatusOr<std::int64_t>)> done);

  // Settles a batch: done says so, on a writer thread, when it is on disk, counted and
  // visible. position: in the numbering of a producer that is open; without one the
  // batch is counted whenever it comes. Takes the batch whatever the queue holds: callers
  // ask queue_full() first, so the queue exceeds its size by what they hold at most. May
  // throw bad_alloc, and then nothing has changed.
  void Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
              DecodedBatch batch, std::function<void(Settlement)> done);
  // The same of a producer that need not be open: opens it as Open does, in the same
  // transaction, and has it open whatever becomes of the batch.
  void OpenAndSubmit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                     DecodedBatch batch, std::function<void(Settlement)> done);

  // Matures predictions of a model that are due, as many as are worth one transaction, and
  // takes what is not needed any more from the log. done: on a writer thread, when what
  // matured is counted and visible (true), or could not be written.
  void Mature(const std::shared_ptr<Model>& model, std::function<void(bool written)> done);

  // Notes in the log that an alarm of the model was dealt with. done: on a writer thread, when it
  // is on disk, and has been counted and is visible. Errors: NotFound (the model was deleted), and
  // those of the store.
  void Acknowledge(const std::shared_ptr<Model>& model, std::int64_t alarm_id, std::string note,
                   std::function<void(absl::Status)> done);

  [[nodiscard]] const LogClock& clock() const noexcept { return clock_; }

  [[nodiscard]] bool queue_full() const;
  [[nodiscard]] std::size_t queued_bytes() const;
  // Whether the queue has room. If not, notify is called once when it has, on a
  // writer thread.
  [[nodiscard]] bool HasRoom(std::function<void()> notify);

 private:
  void Post(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
            bool opens, DecodedBatch batch, std::function<void(Settlement)> done);
  // What a committed operation does to its model, on the model's strand.
  struct Settling {
    // False when there is no memory for it: nothing counts any more then.
    std::function<bool()> count;
    // When that is visible.
    std::function<void()> answer;
  };
  // On the storage thread.
  void AddSettling(const std::shared_ptr<Model>& model, Settling settling);
  // Settles all that was added, the operations of a model together.
  void Settle();
  bool Settle(PendingBatch& pending, const absl::Status& committed);
  // Does to the model what the row says. False as Settling::count.
  bool Count(Model& model, const LoggedBatch& logged, std::int64_t log_id, std::int64_t time_us);
  void Release(std::size_t bytes);

  CommitQueue& commits_;
  const LogClock& clock_;
  const std::size_t queue_bytes_;
  // The storage thread's: of the transaction that was just committed, and where a model is in it.
  std::vector<std::pair<std::shared_ptr<Model>, std::vector<Settling>>> settling_;
  absl::flat_hash_map<const Model*, std::size_t> settling_of_;
  mutable std::mutex mutex_;
  std::size_t queued_bytes_ = 0;                // guarded by mutex_
  std::vector<std::function<void()>> waiting_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_INGESTOR_H_
