#include "server/ingest/ingestor.h"

#include <chrono>
#include <new>
#include <utility>

#include "server/errors.h"

namespace calibd::server {
namespace {

Settlement Refuse(const DecodedBatch& batch, absl::Status status) {
  return {.kind = Settlement::Kind::kRefused, .status = std::move(status), .rows = batch.rows};
}

void Publish(Model& model) {
  try {
    model.Publish();
  } catch (const std::bad_alloc&) {
    // The batch counts; readers see it with the next one.
  }
}

// The one place where the state of a model changes: decides by the producer's
// numbering whether the batch is new, uses up its number, counts it and shows
// it to readers. What comes after is the acknowledgement. On the model's strand.
Settlement Settle(Model& model, const std::optional<ProducerPosition>& position,
                  const DecodedBatch& batch) {
  if (model.deleted()) {
    return Refuse(batch, ModelNotFoundError(model.declaration().name.ToString()));
  }
  if (position.has_value()) {
    const absl::StatusOr<ProducerCursors::Standing> standing =
        model.cursors().Check(*position, batch.content_hash);
    if (!standing.ok()) {
      return Refuse(batch, standing.status());
    }
    if (*standing == ProducerCursors::Standing::kSettledBefore) {
      model.CountDuplicate();
      Publish(model);
      return {
          .kind = batch.validity.ok() ? Settlement::Kind::kDuplicate : Settlement::Kind::kRejected,
          .status = batch.validity,
          .rows = batch.rows};
    }
  }
  if (!batch.validity.ok()) {
    model.CountRejected(batch.rows);
  } else {
    try {
      model.Apply(batch.view(), batch.dropped_rows, std::chrono::system_clock::now());
    } catch (const std::bad_alloc&) {
      return Refuse(batch, MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                                     "out of memory; the batch was not counted"));
    }
  }
  if (position.has_value()) {
    model.cursors().Advance(*position, batch.content_hash);
  }
  Publish(model);
  return {.kind = batch.validity.ok() ? Settlement::Kind::kAccepted : Settlement::Kind::kRejected,
          .status = batch.validity,
          .rows = batch.rows};
}

}  // namespace

void Ingestor::Open(const std::shared_ptr<Model>& model, std::string producer_id,
                    std::int64_t epoch, std::function<void(absl::StatusOr<std::int64_t>)> done) {
  model->strand().Post(
      [model, producer_id = std::move(producer_id), epoch, done = std::move(done)] {
        if (model->deleted()) {
          done(ModelNotFoundError(model->declaration().name.ToString()));
          return;
        }
        done(model->cursors().Open(producer_id, epoch));
      });
}

void Ingestor::Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                      DecodedBatch batch, std::function<void(Settlement)> done) {
  const std::size_t bytes = batch.bytes();
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += bytes;
  }
  // A task is copyable, a batch should not be copied.
  auto shared_batch = std::make_shared<const DecodedBatch>(std::move(batch));
  model->strand().Post([this, model, position = std::move(position),
                        batch = std::move(shared_batch), bytes, done = std::move(done)]() mutable {
    Settlement settlement = Settle(*model, position, *batch);
    batch.reset();
    Release(bytes);
    done(std::move(settlement));
  });
}

bool Ingestor::queue_full() const { return queued_bytes() >= queue_bytes_; }

std::size_t Ingestor::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

bool Ingestor::HasRoom(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  if (queued_bytes_ < queue_bytes_) {
    return true;
  }
  waiting_.push_back(std::move(notify));
  return false;
}

void Ingestor::Release(std::size_t bytes) {
  std::vector<std::function<void()>> notified;
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ -= bytes;
    if (queued_bytes_ < queue_bytes_) {
      notified.swap(waiting_);
    }
  }
  for (const std::function<void()>& notify : notified) {
    notify();
  }
}

}  // namespace calibd::server
