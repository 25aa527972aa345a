#include "server/ingest/ingestor.h"

#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/ingest/maturing_predictions.h"
#include "server/ingest/pending_batch.h"
#include "server/ingest/snapshots.h"

namespace calibd::server {
namespace {

void Publish(Model& model) {
  try {
    model.Publish();
  } catch (const std::bad_alloc&) {
    // The batch counts; readers see it with the next one.
  }
}

}  // namespace

Ingestor::Ingestor(CommitQueue& commits, const LogClock& clock, std::size_t queue_bytes)
    : commits_(commits), clock_(clock), queue_bytes_(queue_bytes) {
  commits_.SetSettle([this] { Settle(); });
}

void Ingestor::Open(const std::shared_ptr<Model>& model, std::string producer_id,
                    std::int64_t epoch, std::function<void(absl::StatusOr<std::int64_t>)> done) {
  struct Opening {
    std::string producer_id;
    bool opened = false;
    std::optional<ProducerCursors::Cursor> former_cursor;
    absl::StatusOr<std::int64_t> next_sequence;
    std::int64_t log_id = 0;
  };
  auto opening = std::make_shared<Opening>();
  opening->producer_id = std::move(producer_id);
  commits_.Post(
      {.append = [this, model, opening, epoch](Store& store) -> absl::Status {
         if (model->deleted()) {
           opening->next_sequence = ModelNotFoundError(model->declaration().name.ToString());
           return absl::OkStatus();
         }
         opening->former_cursor = model->cursors().Get(opening->producer_id);
         absl::StatusOr<OpenedProducer> opened =
             OpenProducer(*model, opening->producer_id, epoch, clock_.elapsed());
         opening->opened = opened.ok();
         if (!opened.ok()) {
           opening->next_sequence = opened.status();
           return absl::OkStatus();
         }
         opening->next_sequence = opened->next_sequence;
         if (!opened->encoded.empty()) {
           opening->log_id =
               store.AppendBatch(model->id(), clock_.wall_us(), std::move(opened->encoded));
         }
         return absl::OkStatus();
       },
       .write = nullptr,
       .undo =
           [model, opening] {
             if (opening->opened) {
               model->cursors().Set(opening->producer_id, opening->former_cursor);
             }
           },
       .done =
           [this, model, opening, done = std::move(done)](const absl::Status& status) {
             if (!status.ok()) {
               opening->next_sequence = status;
             }
             AddSettling(model,
                         {.count =
                              [model, opening, written = status.ok()] {
                                if (written && opening->log_id != 0) {
                                  model->retention().Add(opening->log_id, 0);
                                }
                                return true;
                              },
                          .answer = [opening, done] { done(std::move(opening->next_sequence)); }});
           }});
}

void Ingestor::Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                      DecodedBatch batch, std::function<void(Settlement)> done) {
  Post(model, std::move(position), false, std::move(batch), std::move(done));
}

void Ingestor::OpenAndSubmit(const std::shared_ptr<Model>& model,
                             std::optional<ProducerPosition> position, DecodedBatch batch,
                             std::function<void(Settlement)> done) {
  Post(model, std::move(position), true, std::move(batch), std::move(done));
}

void Ingestor::Post(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                    bool opens, DecodedBatch batch, std::function<void(Settlement)> done) {
  auto pending = std::make_shared<PendingBatch>();
  pending->model = model;
  pending->logged = MakeLoggedBatch(std::move(batch));
  // Labels are encoded when it is known what becomes of them, in about as much.
  std::size_t encoded_bytes = pending->logged.batch.bytes();
  if (pending->logged.kind != LoggedBatch::Kind::kLabels) {
    pending->encoded = EncodeLogged(pending->logged, position);
    encoded_bytes = pending->encoded.size();
  }
  pending->position = std::move(position);
  pending->opens = opens;
  pending->bytes = pending->logged.batch.bytes() + encoded_bytes +
                   pending->logged.predicted_classes.size() * sizeof(std::int32_t);
  pending->done = std::move(done);
  // Counted before the storage thread can give it back.
  const std::size_t bytes = pending->bytes;
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += bytes;
  }
  try {
    commits_.Post(
        {.append = [this, pending](Store& store) { return pending->Write(store, clock_); },
         .write = nullptr,
         .undo = [pending] { pending->Undo(); },
         .done =
             [this, pending](const absl::Status& status) {
               AddSettling(pending->model,
                           {.count = [this, pending, status] { return Settle(*pending, status); },
                            .answer =
                                [this, pending] {
                                  Release(pending->bytes);
                                  pending->done(std::move(pending->settlement));
                                }});
             }});
  } catch (...) {
    Release(bytes);
    throw;
  }
}

void Ingestor::AddSettling(const std::shared_ptr<Model>& model, Settling settling) {
  const auto [place, is_new] = settling_of_.try_emplace(model.get(), settling_.size());
  if (is_new) {
    settling_.emplace_back(model, std::vector<Settling>());
  }
  settling_[place->second].second.push_back(std::move(settling));
}

// What is on disk becomes visible; the acknowledgements follow. On the models' strands, in
// the order of the log.
void Ingestor::Settle() {
  for (auto& [model, settling] : settling_) {
    model->strand().Post([this, model = model, settling = std::move(settling)] {
      for (const Settling& one : settling) {
        if (!one.count()) {
          return;
        }
      }
      if (model->history().waiting().size() > History::kMostWaiting) {
        model->retention().HastenSnapshot();
      }
      PostSnapshotIfDue(model, commits_, clock_);
      Publish(*model);
      for (const Settling& one : settling) {
        one.answer();
      }
    });
  }
  settling_.clear();
  settling_of_.clear();
}

bool Ingestor::Settle(PendingBatch& pending, const absl::Status& committed) {
  Model& model = *pending.model;
  const LoggedBatch& logged = pending.logged;
  const DecodedBatch& batch = logged.batch;
  Settlement& settlement = pending.settlement;
  if (!committed.ok()) {
    settlement.status = committed;
    return true;
  }
  if (pending.opened_log_id != 0) {
    model.retention().Add(pending.opened_log_id, 0);
  }
  if (pending.outcome == PendingBatch::Outcome::kRefused) {
    settlement.status = pending.refusal;
    return true;
  }
  settlement.status = batch.validity;
  if (pending.outcome == PendingBatch::Outcome::kSettledBefore) {
    model.CountDuplicate();
    settlement.kind =
        batch.validity.ok() ? Settlement::Kind::kDuplicate : Settlement::Kind::kRejected;
    settlement.rejected_rows = batch.validity.ok() ? 0 : batch.rows;
    settlement.duplicate_rows =
        batch.validity.ok() && logged.kind != LoggedBatch::Kind::kLabels ? batch.rows : 0;
    return true;
  }
  if (!Count(model, logged, pending.log_id, pending.time_us)) {
    return false;
  }
  settlement.kind = Settlement::Kind::kAccepted;
  switch (logged.kind) {
    case LoggedBatch::Kind::kRejected:
      settlement.kind = Settlement::Kind::kRejected;
      settlement.rejected_rows = batch.rows;
      break;
    case LoggedBatch::Kind::kObservations:
      settlement.accepted_rows = batch.rows;
      break;
    case LoggedBatch::Kind::kPredictions:
      settlement.accepted_rows = static_cast<std::int64_t>(batch.ids.size());
      settlement.duplicate_rows = logged.duplicate_predictions;
      break;
    case LoggedBatch::Kind::kLabels:
      settlement.labels = logged.label_counts;
      break;
    case LoggedBatch::Kind::kOpened:
    case LoggedBatch::Kind::kMatured:
    case LoggedBatch::Kind::kAcknowledgement:
      break;
  }
  return true;
}

bool Ingestor::Count(Model& model, const LoggedBatch& logged, std::int64_t log_id,
                     std::int64_t time_us) {
  try {
    Apply(logged, ModelSnapshot::Time(std::chrono::microseconds(time_us)), model);
  } catch (const std::bad_alloc&) {
    // It is in the log: only a start can count it now.
    commits_.Fail(absl::UnavailableError("out of memory while a batch was counted"));
    return false;
  }
  if (logged.tracked()) {
    model.retention().AddTracked(log_id, logged.batch.ids.size());
  } else {
    const bool counted = logged.kind == LoggedBatch::Kind::kObservations ||
                         logged.kind == LoggedBatch::Kind::kMatured;
    model.retention().Add(log_id, counted ? logged.batch.labels.size() : 0);
  }
  return true;
}

void Ingestor::Mature(const std::shared_ptr<Model>& model, std::function<void(bool)> done) {
  auto maturing = std::make_shared<MaturingPredictions>();
  maturing->model = model;
  maturing->done = std::move(done);
  commits_.Post(
      {.append = [this, maturing](Store& store) { return maturing->Write(store, clock_); },
       .write = nullptr,
       .undo = [maturing] { maturing->model->tracker()->UndoMature(maturing->matured); },
       .done =
           [this, maturing](const absl::Status& committed) {
             if (committed.ok()) {
               maturing->model->tracker()->Forget(maturing->unneeded);
             }
             AddSettling(maturing->model,
                         {.count =
                              [this, maturing, ok = committed.ok()] {
                                return !ok || maturing->log_id == 0 ||
                                       Count(*maturing->model, maturing->logged, maturing->log_id,
                                             maturing->time_us);
                              },
                          .answer = [maturing, ok = committed.ok()] { maturing->done(ok); }});
           }});
}

void Ingestor::Acknowledge(const std::shared_ptr<Model>& model, std::int64_t alarm_id,
                           std::string note, std::function<void(absl::Status)> done) {
  struct Acknowledging {
    LoggedBatch logged;
    absl::Status refusal;
    std::int64_t log_id = 0;
    std::int64_t time_us = 0;
  };
  auto row = std::make_shared<Acknowledging>();
  row->logged.kind = LoggedBatch::Kind::kAcknowledgement;
  row->logged.batch.class_count = model->declaration().class_count;
  row->logged.alarm_id = alarm_id;
  row->logged.note = std::move(note);
  commits_.Post({.append = [this, model, row](Store& store) -> absl::Status {
                   if (model->deleted()) {
                     row->refusal = ModelNotFoundError(model->declaration().name.ToString());
                     return absl::OkStatus();
                   }
                   row->time_us = clock_.wall_us();
                   row->logged.elapsed = clock_.elapsed();
                   std::string encoded = EncodeLogged(row->logged, std::nullopt);
                   AppendElapsed(row->logged.elapsed, encoded);
                   row->log_id = store.AppendBatch(model->id(), row->time_us, std::move(encoded));
                   return absl::OkStatus();
                 },
                 .write = nullptr,
                 .undo = nullptr,
                 .done =
                     [this, model, row, done = std::move(done)](const absl::Status& committed) {
                       if (!committed.ok()) {
                         row->refusal = committed;
                       }
                       AddSettling(model, {.count =
                                               [this, model, row] {
                                                 return !row->refusal.ok() ||
                                                        Count(*model, row->logged, row->log_id,
                                                              row->time_us);
                                               },
                                           .answer = [row, done] { done(row->refusal); }});
                     }});
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
