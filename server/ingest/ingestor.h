#ifndef CALIBD_SERVER_INGEST_INGESTOR_H_
#define CALIBD_SERVER_INGEST_INGESTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/decode.h"
#include "server/ingest/ingest_queue.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/model_writes.h"
#include "server/ingest/settlement.h"
#include "server/rows/log_row.h"
#include "server/state/model.h"

namespace calibd::server {

// Writes decoded batches to the log and then applies them to the state of their models, in the
// order of the log and one after another for each model. Thread-safe.
class Ingestor {
 public:
  // queue_bytes: the size of the queue of unapplied rows.
  Ingestor(CommitQueue& commits, const LogClock& clock, std::size_t queue_bytes)
      : commits_(commits), clock_(clock), queue_(queue_bytes) {}

  // Opens a producer, after the batches that were already submitted for the model. done is called
  // on a writer thread with the number that is expected next. Errors of done: Aborted,
  // ResourceExhausted, NotFound (the model was deleted), Unavailable (the store failed).
  void Open(const std::shared_ptr<Model>& model, std::string producer_id, std::int64_t epoch,
            std::function<void(absl::StatusOr<std::int64_t>)> done);

  // The queue in which batches wait to be written and applied. Its rooms belong to models by id.
  [[nodiscard]] IngestQueue& queue() noexcept { return queue_; }
  [[nodiscard]] const IngestQueue& queue() const noexcept { return queue_; }

  // Settles a batch. done is called on a writer thread when the batch is on disk, applied and
  // visible. position: in the numbering of an open producer; without a position, every submitted
  // batch is counted. room: for the batch in the queue; if null, the batch is accepted even if the
  // queue is full. May throw bad_alloc, after which nothing has changed.
  void Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
              LogRow batch, std::function<void(Settlement)> done,
              IngestQueue::RoomPtr room = nullptr);
  // The same for a producer that need not be open: opens it as Open does, in the same transaction.
  // It stays open even if the batch is rejected or refused.
  void OpenAndSubmit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                     LogRow batch, std::function<void(Settlement)> done,
                     IngestQueue::RoomPtr room = nullptr);

  // Ends a producer after the batch `position`, the last one that it submitted. done: called on a
  // writer thread when this is on disk. Errors: those of Open, and AlreadyExists if the producer
  // has settled other batches.
  void End(const std::shared_ptr<Model>& model, ProducerPosition position,
           std::function<void(absl::Status)> done);

  // Matures due predictions of a model, as many as fit into one transaction, and releases rows that
  // are no longer needed. done: called on a writer thread with true when the matured predictions
  // are applied and visible, or with false if they could not be written.
  void Mature(const std::shared_ptr<Model>& model, std::function<void(bool written)> done);

  // Writes the acknowledgement of an alarm of the model to the log. done: called on a writer thread
  // when it is on disk, applied and visible. Errors: NotFound (the model was deleted), and those of
  // the store.
  void Acknowledge(const std::shared_ptr<Model>& model, std::int64_t alarm_id, std::string note,
                   std::function<void(absl::Status)> done);

  [[nodiscard]] const LogClock& clock() const noexcept { return clock_; }

 private:
  void Post(const std::shared_ptr<Model>& model, LogRow row, bool opens,
            std::function<void(Settlement)> done, IngestQueue::RoomPtr room = nullptr);

  CommitQueue& commits_;
  const LogClock& clock_;
  IngestQueue queue_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_INGESTOR_H_
