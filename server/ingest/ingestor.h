#ifndef CALIBD_SERVER_INGEST_INGESTOR_H_
#define CALIBD_SERVER_INGEST_INGESTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/decode.h"
#include "server/state/model.h"

namespace calibd::server {

// What became of a batch.
struct Settlement {
  enum class Kind {
    // Counted now, and visible to readers.
    kAccepted,
    // Settled before: counted once, not again.
    kDuplicate,
    // Invalid: changed nothing but used up its number; status says why.
    kRejected,
    // Not taken, and its number not used up: a gap, a fence, other content, a
    // deleted model, no memory. status says which.
    kRefused,
  };
  Kind kind = Kind::kRefused;
  absl::Status status;
  // Of the batch.
  std::int64_t rows = 0;
};

// Takes decoded batches to the state of their models: one after another for one
// model, on the writer threads. Thread-safe.
class Ingestor {
 public:
  // queue_bytes: batches that wait or are being counted; from this size on
  // queue_full() holds.
  explicit Ingestor(std::size_t queue_bytes) : queue_bytes_(queue_bytes) {}

  // Opens a producer, after the batches already submitted for the model. done is
  // called on a writer thread with the number expected next; errors: Aborted,
  // ResourceExhausted, NotFound (the model was deleted).
  void Open(const std::shared_ptr<Model>& model, std::string producer_id, std::int64_t epoch,
            std::function<void(absl::StatusOr<std::int64_t>)> done);

  // Settles a batch. position: in the numbering of a producer that is open;
  // without one the batch is counted whenever it comes. done is called on a
  // writer thread. Takes the batch whatever the queue holds: callers ask
  // queue_full() first, so the queue exceeds its size by what they hold at most.
  void Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
              DecodedBatch batch, std::function<void(Settlement)> done);

  [[nodiscard]] bool queue_full() const;
  [[nodiscard]] std::size_t queued_bytes() const;
  // Whether the queue has room. If not, notify is called once when it has, on a
  // writer thread.
  [[nodiscard]] bool HasRoom(std::function<void()> notify);

 private:
  void Release(std::size_t bytes);

  const std::size_t queue_bytes_;
  mutable std::mutex mutex_;
  std::size_t queued_bytes_ = 0;                // guarded by mutex_
  std::vector<std::function<void()>> waiting_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_INGESTOR_H_
