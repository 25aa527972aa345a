#include "server/ingest/pending_batch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"

namespace calibd::server {

absl::StatusOr<OpenedProducer> OpenProducer(Model& model, const std::string& producer_id,
                                            std::int64_t epoch, std::chrono::microseconds elapsed) {
  const std::optional<ProducerCursors::Cursor> former = model.cursors().Get(producer_id);
  const absl::StatusOr<std::int64_t> next = model.cursors().Open(producer_id, epoch);
  if (!next.ok()) {
    return next.status();
  }
  OpenedProducer opened{.next_sequence = *next, .encoded = {}};
  if (!former.has_value() || former->epoch < epoch) {
    LoggedBatch logged;
    logged.kind = LoggedBatch::Kind::kOpened;
    opened.encoded =
        EncodeLogged(logged, ProducerPosition{.producer_id = producer_id, .epoch = epoch});
    AppendElapsed(elapsed, opened.encoded);
  }
  return opened;
}

absl::Status PendingBatch::Write(Store& store, const LogClock& clock) {
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
      absl::StatusOr<OpenedProducer> open =
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

void PendingBatch::Undo() {
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

void PendingBatch::WriteOpened(Store& store, std::string opened) {
  if (!opened.empty()) {
    opened_log_id = store.AppendBatch(model->id(), time_us, std::move(opened));
  }
}

absl::Status PendingBatch::Admit() {
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

absl::Status PendingBatch::PendingFullError(std::size_t rows) const {
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

void PendingBatch::Resolve() {
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

void PendingBatch::Track() {
  const DecodedBatch& batch = logged.batch;
  if (logged.kind == LoggedBatch::Kind::kPredictions) {
    model->tracker()->Add(log_id, logged.elapsed, time_us, batch.ids, logged.predicted_classes,
                          batch.labels);
  } else {
    model->tracker()->KeepLabels(log_id, batch.ids);
  }
  tracked = true;
}

}  // namespace calibd::server
