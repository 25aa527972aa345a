#include "server/ingest/ingestor.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"
#include "server/ingest/logged_batch.h"

namespace calibd::server {
namespace {

// Opens a producer. Returns the number expected next and, unless the log knows it open so
// already, the row of the log that says so.
struct Opened {
  std::int64_t next_sequence = 0;
  std::string encoded;
};
absl::StatusOr<Opened> OpenProducer(Model& model, const std::string& producer_id,
                                    std::int64_t epoch, std::chrono::microseconds elapsed) {
  const std::optional<ProducerCursors::Cursor> former = model.cursors().Get(producer_id);
  const absl::StatusOr<std::int64_t> next = model.cursors().Open(producer_id, epoch);
  if (!next.ok()) {
    return next.status();
  }
  Opened opened{.next_sequence = *next, .encoded = {}};
  if (!former.has_value() || former->epoch < epoch) {
    LoggedBatch logged;
    logged.kind = LoggedBatch::Kind::kOpened;
    opened.encoded =
        EncodeLogged(logged, ProducerPosition{.producer_id = producer_id, .epoch = epoch});
    AppendElapsed(elapsed, opened.encoded);
  }
  return opened;
}

// The buckets of the history that wait, as the store holds them.
std::vector<Store::StoredBucket> EncodeHistory(const Model& model) {
  std::vector<Store::StoredBucket> buckets;
  buckets.reserve(model.history().waiting().size());
  for (const History::Entry& entry : model.history().waiting()) {
    buckets.push_back({.model_id = model.id(),
                       .resolution = static_cast<std::int64_t>(entry.resolution),
                       .start_s = entry.start.time_since_epoch().count(),
                       .data = EncodeHistoryBucket(entry.bucket)});
  }
  return buckets;
}

// And deletes what is older than it is kept.
absl::Status StoreHistory(Store& store, const std::vector<Store::StoredBucket>& buckets) {
  absl::Status status;
  for (const Store::StoredBucket& bucket : buckets) {
    const auto kept = RetentionOf(static_cast<HistoryResolution>(bucket.resolution));
    status.Update(store.PutHistory(bucket));
    status.Update(
        store.DeleteHistory(bucket.model_id, bucket.resolution, bucket.start_s - kept.count()));
  }
  return status;
}

// With the cursors that moved: those of batches that the snapshot holds are told by nothing else
// once their rows are gone.
absl::Status WriteSnapshot(Model& model, std::int64_t log_id, std::int64_t window_log_id,
                           std::string_view data, const std::vector<Store::StoredBucket>& history,
                           Store& store) {
  if (model.deleted()) {
    return absl::OkStatus();
  }
  Store::Snapshot snapshot{
      .model_id = model.id(), .log_id = log_id, .data = data, .first_log_id = window_log_id};
  if (const PredictionTracker* const tracker = model.tracker()) {
    snapshot.first_log_id = std::min(window_log_id, tracker->first_log_id());
    snapshot.matured_log_id = tracker->matured_log_id();
  }
  absl::Status status = store.PutSnapshot(snapshot);
  status.Update(StoreHistory(store, history));
  model.cursors().VisitMoved(
      [&](const std::string& producer_id, const ProducerCursors::Cursor& cursor) {
        const std::string contents = EncodeContents(cursor);
        status.Update(store.PutCursor({.model_id = model.id(),
                                       .producer_id = producer_id,
                                       .epoch = cursor.epoch,
                                       .last_sequence = cursor.last_sequence,
                                       .contents = contents}));
      });
  Failpoint("snapshot");
  return status;
}

void Publish(Model& model) {
  try {
    model.Publish();
  } catch (const std::bad_alloc&) {
    // The batch counts; readers see it with the next one.
  }
}

}  // namespace

// A batch on its way to its model's state. What `Write` found out is read after the commit.
struct Ingestor::Pending {
  enum class Outcome { kNew, kSettledBefore, kRefused };

  std::shared_ptr<Model> model;
  std::optional<ProducerPosition> position;
  // Whether it is also what opens its producer.
  bool opens = false;
  LoggedBatch logged;
  std::string encoded;
  std::size_t bytes = 0;
  std::function<void(Settlement)> done;

  Outcome outcome = Outcome::kRefused;
  absl::Status refusal;
  // 0: there is no row of it.
  std::int64_t log_id = 0;
  std::int64_t time_us = 0;
  // Of the row that says that its producer was opened, if the batch has none that says it.
  std::int64_t opened_log_id = 0;
  Settlement settlement;
  // What there is to undo. The cursor is the one before this batch, unset for a new producer.
  bool moved_cursor = false;
  std::optional<ProducerCursors::Cursor> former_cursor;
  bool labelled = false;
  bool tracked = false;

  // The one place that decides by the producer's numbering whether a batch is new, by the
  // ids what it does to predictions that wait, and puts it into the order in which it
  // counts. On the storage thread.
  absl::Status Write(Store& store, const LogClock& clock) {
    if (model->deleted()) {
      refusal = ModelNotFoundError(model->declaration().name.ToString());
      return absl::OkStatus();
    }
    time_us = clock.wall_us();
    logged.elapsed = clock.elapsed();
    std::string opened;
    if (position.has_value()) {
      former_cursor = model->cursors().Get(position->producer_id);
      if (opens) {
        absl::StatusOr<Opened> open =
            OpenProducer(*model, position->producer_id, position->epoch, logged.elapsed);
        refusal = open.status();
        if (!refusal.ok()) {
          return absl::OkStatus();
        }
        opened = std::move(open->encoded);
        moved_cursor = true;
      }
      const absl::StatusOr<ProducerCursors::Standing> standing =
          model->cursors().Check(*position, logged.batch.content_hash);
      refusal = standing.status();
      if (standing.ok() && *standing == ProducerCursors::Standing::kSettledBefore) {
        outcome = Outcome::kSettledBefore;
      }
      if (!standing.ok() || outcome == Outcome::kSettledBefore) {
        WriteOpened(store, std::move(opened));
        return absl::OkStatus();
      }
    }
    if (logged.kind == LoggedBatch::Kind::kPredictions) {
      refusal = Admit();
      if (!refusal.ok()) {
        WriteOpened(store, std::move(opened));
        return absl::OkStatus();
      }
    } else if (logged.kind == LoggedBatch::Kind::kLabels) {
      Resolve();
    }
    AppendElapsed(logged.elapsed, encoded);
    log_id = store.AppendBatch(model->id(), time_us, std::move(encoded));
    Failpoint("append");
    outcome = Outcome::kNew;
    if (logged.tracked()) {
      Track();
    }
    if (position.has_value()) {
      moved_cursor = true;
      model->cursors().Advance(*position, logged.batch.content_hash);
    }
    return absl::OkStatus();
  }

  void WriteOpened(Store& store, std::string opened) {
    if (!opened.empty()) {
      opened_log_id = store.AppendBatch(model->id(), time_us, std::move(opened));
    }
  }

  // Leaves out the predictions whose ids are known. An error when the rest is too many.
  absl::Status Admit() {
    DecodedBatch& batch = logged.batch;
    const PredictionTracker& tracker = *model->tracker();
    const std::vector<std::uint32_t> found = tracker.FindNew(batch.ids);
    if (tracker.pending() + found.size() > tracker.max_pending()) {
      return PendingFullError(found.size());
    }
    if (found.size() == batch.ids.size()) {
      return absl::OkStatus();
    }
    logged.duplicate_predictions = static_cast<std::int64_t>(batch.ids.size() - found.size());
    const std::size_t m = batch.class_count;
    for (std::size_t to = 0; to < found.size(); ++to) {
      const std::size_t from = found[to];
      batch.ids[to] = batch.ids[from];
      std::copy_n(batch.probabilities.data() + from * m, m, batch.probabilities.data() + to * m);
      logged.predicted_classes[to] = logged.predicted_classes[from];
      if (!batch.labels.empty()) {
        batch.labels[to] = batch.labels[from];
      }
      if (batch.group_values.size() > 1) {
        batch.group_values[to] = batch.group_values[from];
      }
    }
    if (batch.group_values.size() > 1) {
      batch.group_values.resize(found.size());
    }
    batch.ids.resize(found.size());
    logged.predicted_classes.resize(found.size());
    batch.probabilities.resize(found.size() * m);
    batch.labels.resize(batch.labels.empty() ? 0 : found.size());
    encoded = EncodeLogged(logged, position);
    return absl::OkStatus();
  }

  absl::Status PendingFullError(std::size_t rows) const {
    constexpr std::chrono::milliseconds kLeastDelay{100};
    constexpr std::chrono::milliseconds kMostDelay{60000};
    const PredictionTracker& tracker = *model->tracker();
    if (rows > tracker.max_pending()) {
      return MakeError(
          absl::StatusCode::kResourceExhausted, "PENDING_FULL",
          absl::StrCat("a batch of ", rows, " predictions is larger than max_pending, ",
                       tracker.max_pending(), ": send batches of at most ", tracker.max_pending()));
    }
    absl::Status error =
        MakeError(absl::StatusCode::kResourceExhausted, "PENDING_FULL",
                  absl::StrCat(tracker.pending(), " predictions wait for their labels, and with ",
                               rows, " more they exceed max_pending, ", tracker.max_pending(),
                               ": they are taken when older ones have matured"));
    const auto until_due =
        std::chrono::duration_cast<std::chrono::milliseconds>(tracker.next_due() - logged.elapsed);
    return WithRetryDelay(std::move(error), std::clamp(until_due, kLeastDelay, kMostDelay));
  }

  // Gives the labels to their predictions, and leaves out those that change nothing.
  void Resolve() {
    DecodedBatch& batch = logged.batch;
    PredictionTracker::Labelling labelling =
        model->tracker()->Label(logged.elapsed, batch.ids, batch.labels);
    logged.label_counts = labelling.counts;
    logged.label_classes = std::move(labelling.classes);
    for (std::size_t to = 0; to < labelling.matched.size(); ++to) {
      batch.ids[to] = batch.ids[labelling.matched[to]];
      batch.labels[to] = batch.labels[labelling.matched[to]];
    }
    batch.ids.resize(labelling.matched.size());
    batch.labels.resize(labelling.matched.size());
    labelled = true;
    encoded = EncodeLogged(logged, position);
  }

  void Track() {
    const DecodedBatch& batch = logged.batch;
    if (logged.kind == LoggedBatch::Kind::kPredictions) {
      model->tracker()->Add(log_id, logged.elapsed, time_us, batch.ids, logged.predicted_classes,
                            batch.labels);
    } else {
      model->tracker()->KeepLabels(log_id, batch.ids);
    }
    tracked = true;
  }

  void Undo() {
    if (moved_cursor) {
      model->cursors().Set(position->producer_id, former_cursor);
    }
    if (tracked && logged.kind == LoggedBatch::Kind::kPredictions) {
      model->tracker()->UndoAdd();
    } else if (tracked) {
      model->tracker()->UndoKeepLabels();
    }
    if (labelled) {
      model->tracker()->UndoLabel(logged.batch.ids);
    }
  }
};

// Predictions on their way from the log to their model's state.
struct Ingestor::Maturing {
  std::shared_ptr<Model> model;
  std::function<void(bool)> done;

  PredictionTracker::Matured matured;
  PredictionTracker::Unneeded unneeded;
  LoggedBatch logged;
  std::int64_t log_id = 0;
  std::int64_t time_us = 0;

  absl::Status Write(Store& store, const LogClock& clock) {
    // Of one transaction.
    constexpr std::size_t kMostValues = std::size_t{1} << 17;
    constexpr std::size_t kMostReleased = 1024;
    if (model->deleted()) {
      return absl::OkStatus();
    }
    PredictionTracker& tracker = *model->tracker();
    const std::size_t m = model->declaration().class_count;
    logged.elapsed = clock.elapsed();
    matured = tracker.Mature(logged.elapsed, std::max<std::size_t>(1, kMostValues / m));
    absl::Status status;
    if (!matured.runs.empty()) {
      status = WriteMatured(store, clock);
    }
    if (status.ok()) {
      unneeded = tracker.FindUnneeded(logged.elapsed, kMostReleased);
      store.ReleaseBatches(unneeded.log_ids);
    }
    return status;
  }

  absl::Status WriteMatured(Store& store, const LogClock& clock) {
    logged.kind = LoggedBatch::Kind::kMatured;
    logged.through_log_id = matured.runs.back().log_id;
    const std::size_t m = model->declaration().class_count;
    logged.batch.class_count = m;
    for (const PredictionTracker::Matured::Run& run : matured.runs) {
      const absl::StatusOr<std::string> data = store.ReadBatch(run.log_id);
      if (!data.ok()) {
        return data.status();
      }
      const absl::StatusOr<LoggedBatch> predictions = DecodeLogged(*data, m);
      if (!predictions.ok()) {
        return predictions.status();
      }
      if (predictions->batch.ids.size() != run.labels.size()) {
        return MakeError(
            absl::StatusCode::kDataLoss, "STORE_DAMAGED",
            absl::StrCat("batch ", run.log_id, " of the log holds ", predictions->batch.ids.size(),
                         " predictions, expected ", run.labels.size()));
      }
      Take(*predictions, run.labels);
    }
    time_us = clock.wall_us();
    std::string encoded = EncodeLogged(logged, std::nullopt);
    AppendElapsed(logged.elapsed, encoded);
    log_id = store.AppendBatch(model->id(), time_us, std::move(encoded));
    Failpoint("maturity");
    return absl::OkStatus();
  }

  void Take(const LoggedBatch& predictions, const std::vector<std::int32_t>& labels) {
    const std::size_t m = predictions.batch.class_count;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == PredictionTracker::kNoLabel) {
        logged.missing_predicted_classes.push_back(predictions.predicted_classes[i]);
        continue;
      }
      const std::span<const double> row(predictions.batch.probabilities.data() + i * m, m);
      logged.batch.probabilities.insert(logged.batch.probabilities.end(), row.begin(), row.end());
      logged.batch.labels.push_back(labels[i]);
      if (!model->declaration().monitoring.group_tag.empty()) {
        logged.batch.group_values.push_back(predictions.batch.groups()[i]);
      }
    }
  }
};

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
         absl::StatusOr<Opened> opened =
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
  auto pending = std::make_shared<Pending>();
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
      if (model->retention().SnapshotDue(LogRetention::Clock::now())) {
        PostSnapshot(model);
      }
      Publish(*model);
      for (const Settling& one : settling) {
        one.answer();
      }
    });
  }
  settling_.clear();
  settling_of_.clear();
}

bool Ingestor::Settle(Pending& pending, const absl::Status& committed) {
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
  if (pending.outcome == Pending::Outcome::kRefused) {
    settlement.status = pending.refusal;
    return true;
  }
  settlement.status = batch.validity;
  if (pending.outcome == Pending::Outcome::kSettledBefore) {
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
  auto maturing = std::make_shared<Maturing>();
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

void Ingestor::PostSnapshot(const std::shared_ptr<Model>& model) {
  std::string data;
  std::vector<Store::StoredBucket> history;
  try {
    data = model->Save().SerializeAsString();
    history = EncodeHistory(*model);
  } catch (const std::bad_alloc&) {
    return;  // It is due again with the next batch.
  }
  const std::int64_t log_id = model->retention().last_log_id();
  const std::size_t stored_history = history.size();
  std::vector<std::int64_t> unneeded = model->retention().BeginSnapshot(LogRetention::Clock::now());
  commits_.Post({.append = nullptr,
                 .write =
                     [model, log_id, window_log_id = model->retention().first_log_id(),
                      data = std::move(data), history = std::move(history),
                      unneeded = std::move(unneeded)](Store& store) {
                       store.ReleaseBatches(unneeded);
                       return WriteSnapshot(*model, log_id, window_log_id, data, history, store);
                     },
                 .undo = nullptr,
                 .done =
                     [this, model, log_id, stored_history](const absl::Status& committed) {
                       if (committed.ok()) {
                         model->cursors().SetStored();
                         model->set_stored_time_us(clock_.wall_us());
                       }
                       if (committed.ok() && model->tracker() != nullptr) {
                         model->tracker()->SetSnapshot(log_id);
                       }
                       model->strand().Post([model, stored_history, stored = committed.ok()] {
                         model->retention().EndSnapshot(stored);
                         model->DropStoredHistory(stored ? stored_history : 0);
                       });
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
