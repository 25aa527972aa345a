#ifndef CALIBD_SERVER_INGEST_INGESTOR_H_
#define CALIBD_SERVER_INGEST_INGESTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/decode.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/model_writes.h"
#include "server/ingest/settlement.h"
#include "server/state/log_row.h"
#include "server/state/model.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Takes decoded batches to the log and from there to the state of their models: in
// the order of the log, one after another for one model. Thread-safe.
class Ingestor {
 public:
  // queue_bytes: from this size of the pending batches on, queue_full() holds.
  Ingestor(CommitQueue& commits, const LogClock& clock, std::size_t queue_bytes)
      : commits_(commits), clock_(clock), queue_(queue_bytes) {}

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
              LogRow batch, std::function<void(Settlement)> done);
  // The same of a producer that need not be open: opens it as Open does, in the same
  // transaction, and has it open whatever becomes of the batch.
  void OpenAndSubmit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                     LogRow batch, std::function<void(Settlement)> done);

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

  [[nodiscard]] bool queue_full() const { return queue_.full(); }
  [[nodiscard]] std::size_t queued_bytes() const { return queue_.bytes(); }
  // True if the queue has room. Otherwise notify is called once when it has, on a writer thread.
  [[nodiscard]] bool HasRoom(std::function<void()> notify) {
    return queue_.HasRoom(std::move(notify));
  }

 private:
  void Post(const std::shared_ptr<Model>& model, LogRow row, bool opens,
            std::function<void(Settlement)> done);

  CommitQueue& commits_;
  const LogClock& clock_;
  IngestQueue queue_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_INGESTOR_H_
