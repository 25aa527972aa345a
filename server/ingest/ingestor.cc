#include "server/ingest/ingestor.h"

#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/ingest/logged_batch.h"

namespace calibd::server {
namespace {

absl::Status StoreCursor(Store& store, Model& model, const std::string& producer_id) {
  const std::optional<ProducerCursors::Cursor> cursor = model.cursors().Get(producer_id);
  if (!cursor.has_value()) {
    return absl::OkStatus();
  }
  const std::string contents = EncodeContents(*cursor);
  return store.PutCursor({.model_id = model.id(),
                          .producer_id = producer_id,
                          .epoch = cursor->epoch,
                          .last_sequence = cursor->last_sequence,
                          .contents = contents});
}

void Publish(Model& model) {
  try {
    model.Publish();
  } catch (const std::bad_alloc&) {
    // The batch counts; readers see it with the next one.
  }
}

}  // namespace

// A batch on its way to its model's state. What `write` found out is read after the commit.
struct Ingestor::Pending {
  enum class Outcome { kNew, kSettledBefore, kRefused };

  std::shared_ptr<Model> model;
  std::optional<ProducerPosition> position;
  DecodedBatch batch;
  std::string logged;
  std::size_t bytes = 0;
  std::function<void(Settlement)> done;

  Outcome outcome = Outcome::kRefused;
  absl::Status refusal;
  std::int64_t log_id = 0;
  ModelSnapshot::Time time;
  // Before this batch; unset when it changed nothing.
  std::optional<ProducerCursors::Cursor> former_cursor;

  // The one place that decides by the producer's numbering whether a batch is new, and puts
  // it into the order in which it counts. On the storage thread.
  absl::Status Write(Store& store) {
    if (model->deleted()) {
      refusal = ModelNotFoundError(model->declaration().name.ToString());
      return absl::OkStatus();
    }
    if (position.has_value()) {
      const absl::StatusOr<ProducerCursors::Standing> standing =
          model->cursors().Check(*position, batch.content_hash);
      if (!standing.ok()) {
        refusal = standing.status();
        return absl::OkStatus();
      }
      if (*standing == ProducerCursors::Standing::kSettledBefore) {
        outcome = Outcome::kSettledBefore;
        return absl::OkStatus();
      }
    }
    const auto since_epoch = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    time = ModelSnapshot::Time(since_epoch);
    const absl::StatusOr<std::int64_t> id =
        store.AppendBatch(model->id(), since_epoch.count(), logged);
    if (!id.ok()) {
      return id.status();
    }
    log_id = *id;
    outcome = Outcome::kNew;
    if (!position.has_value()) {
      return absl::OkStatus();
    }
    former_cursor = model->cursors().Get(position->producer_id);
    model->cursors().Advance(*position, batch.content_hash);
    return StoreCursor(store, *model, position->producer_id);
  }

  void Undo() {
    if (former_cursor.has_value()) {
      model->cursors().Set(position->producer_id, former_cursor);
    }
  }
};

void Ingestor::Open(const std::shared_ptr<Model>& model, std::string producer_id,
                    std::int64_t epoch, std::function<void(absl::StatusOr<std::int64_t>)> done) {
  struct Opening {
    std::string producer_id;
    bool opened = false;
    std::optional<ProducerCursors::Cursor> former_cursor;
    absl::StatusOr<std::int64_t> next_sequence;
  };
  auto opening = std::make_shared<Opening>();
  opening->producer_id = std::move(producer_id);
  commits_.Post(
      {.write = [model, opening, epoch](Store& store) -> absl::Status {
         if (model->deleted()) {
           opening->next_sequence = ModelNotFoundError(model->declaration().name.ToString());
           return absl::OkStatus();
         }
         opening->former_cursor = model->cursors().Get(opening->producer_id);
         opening->next_sequence = model->cursors().Open(opening->producer_id, epoch);
         opening->opened = opening->next_sequence.ok();
         return opening->opened ? StoreCursor(store, *model, opening->producer_id)
                                : absl::OkStatus();
       },
       .undo =
           [model, opening] {
             if (opening->opened) {
               model->cursors().Set(opening->producer_id, opening->former_cursor);
             }
           },
       .done =
           [model, opening, done = std::move(done)](const absl::Status& status) {
             if (!status.ok()) {
               opening->next_sequence = status;
             }
             model->strand().Post([opening, done] { done(std::move(opening->next_sequence)); });
           }});
}

void Ingestor::Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                      DecodedBatch batch, std::function<void(Settlement)> done) {
  auto pending = std::make_shared<Pending>();
  pending->model = model;
  pending->logged = EncodeLogged(batch, position);
  pending->position = std::move(position);
  pending->batch = std::move(batch);
  pending->bytes = pending->batch.bytes() + pending->logged.size();
  pending->done = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += pending->bytes;
  }
  commits_.Post({.write = [pending](Store& store) { return pending->Write(store); },
                 .undo = [pending] { pending->Undo(); },
                 .done =
                     [this, pending](const absl::Status& status) {
                       pending->model->strand().Post(
                           [this, pending, status] { Settle(pending, status); });
                     }});
}

// What is on disk becomes visible; the acknowledgement follows. On the model's strand, in
// the order of the log.
void Ingestor::Settle(const std::shared_ptr<Pending>& pending, const absl::Status& committed) {
  Model& model = *pending->model;
  const DecodedBatch& batch = pending->batch;
  Settlement settlement{.kind = Settlement::Kind::kRefused, .status = {}, .rows = batch.rows};
  if (!committed.ok()) {
    settlement.status = committed;
  } else if (pending->outcome == Pending::Outcome::kRefused) {
    settlement.status = pending->refusal;
  } else {
    settlement.status = batch.validity;
    settlement.kind = Settlement::Kind::kRejected;
    if (pending->outcome == Pending::Outcome::kSettledBefore) {
      model.CountDuplicate();
      if (batch.validity.ok()) {
        settlement.kind = Settlement::Kind::kDuplicate;
      }
    } else if (batch.validity.ok()) {
      try {
        model.Apply(batch.view(), batch.dropped_rows, pending->time);
      } catch (const std::bad_alloc&) {
        // It is in the log: only a start can count it now.
        commits_.Fail(absl::UnavailableError("out of memory while a batch was counted"));
        return;
      }
      settlement.kind = Settlement::Kind::kAccepted;
    } else {
      model.CountRejected(batch.rows);
    }
    if (pending->outcome == Pending::Outcome::kNew) {
      model.retention().Add(pending->log_id, batch.labels.size());
      if (model.retention().SnapshotDue(LogRetention::Clock::now())) {
        PostSnapshot(pending->model);
      }
    }
    Publish(model);
  }
  Release(pending->bytes);
  pending->done(std::move(settlement));
}

void Ingestor::PostSnapshot(const std::shared_ptr<Model>& model) {
  commits_.Post({.write = [model, log_id = model->retention().last_log_id(),
                           data = model->Save().SerializeAsString(),
                           unneeded = model->retention().TakeUnneeded(LogRetention::Clock::now())](
                              Store& store) -> absl::Status {
                   absl::Status status;
                   if (!model->deleted()) {
                     status = store.PutSnapshot(model->id(), log_id, data);
                   }
                   status.Update(store.DeleteBatches(unneeded));
                   return status;
                 },
                 .undo = nullptr,
                 .done = nullptr});
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
