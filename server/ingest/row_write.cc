#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/ingest/model_writes.h"
#include "server/rows/row_codec.h"
#include "server/state/declaration_size.h"

namespace calibd::server {
namespace {

// Changes the content hash of a rejected batch. A batch that is sent again thereby gets the outcome
// that it had, even if it is valid only before or only after an update of the declaration.
constexpr std::uint64_t kRejectedMark = 0x9e3779b97f4a7c15;

}  // namespace

RowWrite::RowWrite(std::shared_ptr<Model> model, CommitQueue& commits, const LogClock& clock,
                   IngestQueue::RoomPtr room, LogRow row, bool opens,
                   std::function<void(Settlement)> done)
    : ModelWrite(std::move(model), commits, clock),
      room_(std::move(room)),
      opens_(opens),
      row_(std::move(row)),
      done_(std::move(done)) {
  if (row_.As<RejectedRow>() != nullptr) row_.content_hash ^= kRejectedMark;
  // Labels are encoded after they were looked up. Their encoded size is about the same, but a
  // missing truth is a negative integer, which takes 10 bytes.
  constexpr std::size_t kMissingTruthBytes = 10;
  std::size_t encoded_bytes = row_.bytes();
  if (const auto* const labels = row_.As<LabelsRow>()) {
    encoded_bytes +=
        kMissingTruthBytes * static_cast<std::size_t>(std::ranges::count_if(
                                 labels->truths.labels, [](auto one) { return one < 0; }));
  } else {
    encoded_ = EncodeRow(row_);
    encoded_bytes = encoded_.size();
  }
  bytes_ = row_.bytes() + encoded_bytes;
  std::size_t late = 0;
  const RowValues* const values = row_.values();
  if (values != nullptr && !values->times_s.empty() && values->labelled() > 0) {
    // A snapshot is posted as soon as many additions to closed buckets wait for it, and only rows
    // that are in the queue by then are applied before it is stored. They therefore bound how many
    // additions there are meanwhile.
    const auto now =
        std::chrono::floor<std::chrono::seconds>(std::chrono::sys_time<std::chrono::microseconds>(
            std::chrono::microseconds(clock_.wall_us())));
    late = LateHistoryMemory(*model_->declaration(), *values, now);
  }
  room_->Resize(bytes_ + late);
}

absl::Status RowWrite::Write(Store& store) {
  if (model_->deleted()) {
    settlement_.status = ModelNotFoundError(model_->declaration()->name.ToString());
    return absl::OkStatus();
  }
  time_ = std::chrono::microseconds(clock_.wall_us());
  row_.elapsed = clock_.elapsed();
  const absl::StatusOr<bool> is_new = CheckPosition();
  settlement_.status = is_new.status();
  const bool appends = is_new.ok() && *is_new;
  if (appends) settlement_.status = Resolve();
  if (appends && settlement_.status.ok()) {
    Append(store);
  } else if (opened_) {
    AppendOpened(store);
  }
  if (log_id_ != 0 || known_) Settle();
  return absl::OkStatus();
}

absl::StatusOr<bool> RowWrite::CheckPosition() {
  if (!row_.position.has_value()) return true;
  const ProducerPosition& position = *row_.position;
  ProducerCursors& cursors = model_->storage_state().cursors;
  if (!position.request) former_cursor_ = cursors.Get(position.producer_id);
  if (opens_) {
    CALIBD_ASSIGN_OR_RETURN(settlement_.next_sequence,
                            cursors.Open(position.producer_id, position.epoch, time_.count()));
    opened_ = !former_cursor_.has_value() || former_cursor_->epoch < position.epoch;
    moved_cursor_ = true;
  }
  if (row_.As<OpenedRow>() != nullptr) return false;
  const bool ends = row_.As<EndedRow>() != nullptr;
  const auto check = [&](std::uint64_t content_hash) {
    return ends ? cursors.CheckEnd(position, time_.count())
                : cursors.Check(position, content_hash, time_.count());
  };
  absl::StatusOr<ProducerCursors::Standing> standing = check(row_.content_hash);
  if (absl::IsAlreadyExists(standing.status())) {
    const auto other = check(row_.content_hash ^ kRejectedMark);
    if (other.ok()) {
      KeepFormerOutcome();
      standing = other;
    }
  }
  if (!standing.ok()) return standing.status();
  known_ = !ends && *standing == ProducerCursors::Standing::kSettledBefore;
  return *standing == ProducerCursors::Standing::kNext;
}

void RowWrite::KeepFormerOutcome() {
  if (row_.validity().ok()) {
    row_.kind = RejectedRow{.rows = row_.rows(),
                            .labels = row_.As<LabelsRow>() != nullptr,
                            .reason = absl::InvalidArgumentError(
                                "the batch was rejected when it was sent before: what is valid has "
                                "changed since; send the rows again under a new number")};
    return;
  }
  accepted_before_ = true;
}

absl::Status RowWrite::Resolve() {
  if (auto* const predictions = row_.As<PredictionsRow>()) return Admit(*predictions);
  if (auto* const labels = row_.As<LabelsRow>()) {
    Match(*labels);
    matched_ = true;
    encoded_ = EncodeRow(row_);
  }
  return absl::OkStatus();
}

absl::Status RowWrite::Admit(PredictionsRow& row) {
  const PredictionTracker& tracker = *model_->storage_state().tracker;
  const std::vector<std::uint32_t> found = tracker.FindNew(row.ids);
  if (tracker.pending() + found.size() > tracker.max_pending()) {
    return PendingFullError(found.size());
  }
  if (found.size() == row.ids.size()) return absl::OkStatus();
  row.duplicates = static_cast<std::int64_t>(row.ids.size() - found.size());
  KeepOnly(found, row.ids);
  KeepOnly(found, row.predicted_classes);
  KeepRows(found, row.values);
  encoded_ = EncodeRow(row_);
  return absl::OkStatus();
}

absl::Status RowWrite::PendingFullError(std::size_t rows) const {
  constexpr std::chrono::milliseconds kLeastDelay{100};
  constexpr std::chrono::milliseconds kMostDelay{60000};
  const PredictionTracker& tracker = *model_->storage_state().tracker;
  if (rows > tracker.max_pending()) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "PENDING_FULL",
        absl::StrCat("a batch of ", rows, " predictions is larger than max_pending, ",
                     tracker.max_pending(), ": send batches of at most ", tracker.max_pending()));
  }
  absl::Status error =
      MakeError(absl::StatusCode::kResourceExhausted, "PENDING_FULL",
                absl::StrCat(tracker.pending(), " predictions are pending, and with ", rows,
                             " more they exceed max_pending, ", tracker.max_pending(),
                             ": they are accepted when older ones have matured"));
  const auto until_due =
      std::chrono::duration_cast<std::chrono::milliseconds>(tracker.next_due() - row_.elapsed);
  return WithRetryDelay(std::move(error), std::clamp(until_due, kLeastDelay, kMostDelay));
}

void RowWrite::Match(LabelsRow& row) {
  PredictionTracker::Labelling labelling =
      model_->storage_state().tracker->Label(row_.elapsed, row.ids, row.truths);
  row.counts = labelling.counts;
  row.classes = std::move(labelling.classes);
  if (!labelling.waiting.empty()) {
    row.waiting_ids = row.ids;
    row.waiting_truths = row.truths;
    KeepOnly(labelling.waiting, row.waiting_ids);
    KeepOnly(labelling.waiting, row.waiting_truths);
  }
  KeepOnly(labelling.matched, row.ids);
  KeepOnly(labelling.matched, row.truths);
}

void RowWrite::MatchWaiting(Store& store, const PredictionsRow& predictions) {
  PredictionTracker& tracker = *model_->storage_state().tracker;
  waiting_ = tracker.TakeWaiting(predictions.ids);
  if (waiting_.ids.empty()) return;
  waiting_row_.elapsed = row_.elapsed;
  auto& row = waiting_row_.kind.emplace<LabelsRow>();
  row.ids = waiting_.ids;
  row.truths = waiting_.truths;
  Match(row);
  row.counts.waiting = -static_cast<std::int64_t>(waiting_.ids.size());
  std::string encoded = EncodeRow(waiting_row_);
  AppendElapsed(row_.elapsed, encoded);
  waiting_log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
  if (waiting_row_.tracked()) tracker.KeepLabels(waiting_log_id_, row.ids);
}

void RowWrite::Append(Store& store) {
  AppendElapsed(row_.elapsed, encoded_);
  log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded_));
  Failpoint("append");
  if (row_.tracked()) {
    Track();
    if (const auto* const predictions = row_.As<PredictionsRow>()) {
      MatchWaiting(store, *predictions);
      if (model_->declaration()->labels_come_with_predictions) MatureAtOnce(store, *predictions);
    }
  }
  if (row_.position.has_value()) {
    ProducerCursors& cursors = model_->storage_state().cursors;
    moved_cursor_ = true;
    if (row_.As<EndedRow>() != nullptr) {
      cursors.End(*row_.position, time_.count());
    } else {
      cursors.Advance(*row_.position, row_.content_hash, time_.count());
    }
  }
}

void RowWrite::MatureAtOnce(Store& store, const PredictionsRow& predictions) {
  // The older predictions have matured when they were added.
  matured_ = model_->storage_state().tracker->Mature(
      row_.elapsed + model_->storage_state().declaration->label_grace, predictions.ids.size());
  auto& matured = matured_row_.kind.emplace<MaturedRow>();
  matured.through_log_id = log_id_;
  matured.values = predictions.values;
  for (const PredictionId& id : predictions.ids) matured.values.id_hashes.push_back(id.low);
  std::string encoded = EncodeRow(matured_row_);
  AppendElapsed(row_.elapsed, encoded);
  matured_log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
}

void RowWrite::AppendOpened(Store& store) {
  LogRow opened;
  opened.position = row_.position;
  opened.position->sequence = 0;
  std::string encoded = EncodeRow(opened);
  AppendElapsed(row_.elapsed, encoded);
  opened_log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
}

void RowWrite::Track() {
  PredictionTracker& tracker = *model_->storage_state().tracker;
  if (const auto* const predictions = row_.As<PredictionsRow>()) {
    tracker.Add(log_id_, row_.elapsed, time_.count(), predictions->ids,
                predictions->predicted_classes, predictions->values.truths);
  } else {
    tracker.KeepLabels(log_id_, row_.tracked_ids());
  }
  tracked_ = true;
}

void RowWrite::Settle() {
  settlement_.status = accepted_before_ ? absl::OkStatus() : row_.validity();
  settlement_.kind = !settlement_.status.ok() ? Settlement::Kind::kRejected
                     : known_                 ? Settlement::Kind::kDuplicate
                                              : Settlement::Kind::kAccepted;
  if (!settlement_.status.ok()) {
    settlement_.rejected_rows = row_.rows();
  } else if (const auto* const labels = row_.As<LabelsRow>()) {
    settlement_.labels = labels->counts;
  } else {
    settlement_.skipped = row_.skipped;
    settlement_.rejected_rows = row_.skipped.rows;
    (known_ ? settlement_.duplicate_rows : settlement_.accepted_rows) = row_.rows();
    if (const auto* const predictions = row_.As<PredictionsRow>()) {
      settlement_.duplicate_rows += predictions->duplicates;
    }
  }
}

void RowWrite::Undo() {
  if (moved_cursor_) {
    ProducerCursors& cursors = model_->storage_state().cursors;
    if (row_.position->request) {
      cursors.ForgetRequest(row_.position->producer_id);
    } else {
      cursors.Set(row_.position->producer_id, former_cursor_);
    }
  }
  if (matured_log_id_ != 0) model_->storage_state().tracker->UndoMature(matured_);
  if (waiting_log_id_ != 0) {
    PredictionTracker& tracker = *model_->storage_state().tracker;
    if (waiting_row_.tracked()) tracker.UndoKeepLabels();
    tracker.UndoLabel(waiting_row_.tracked_ids());
    tracker.UndoTakeWaiting(waiting_);
  }
  if (tracked_ && row_.As<PredictionsRow>() != nullptr) {
    model_->storage_state().tracker->UndoAdd();
  } else if (tracked_) {
    model_->storage_state().tracker->UndoKeepLabels();
  }
  if (matched_) model_->storage_state().tracker->UndoLabel(row_.tracked_ids());
}

void RowWrite::Finish(Store& /*store*/, const absl::Status& committed) {
  if (!committed.ok()) {
    settlement_ = Settlement();
    settlement_.status = committed;
    log_id_ = 0;
    waiting_log_id_ = 0;
    matured_log_id_ = 0;
    opened_log_id_ = 0;
    known_ = false;
  }
}

void RowWrite::Apply() {
  if (opened_log_id_ != 0) model_->strand_state().Apply(LogRow(), opened_log_id_, time_);
  if (log_id_ != 0) {
    model_->strand_state().Append(row_, log_id_, time_);
    if (waiting_log_id_ != 0) model_->strand_state().Append(waiting_row_, waiting_log_id_, time_);
    if (matured_log_id_ != 0) model_->strand_state().Append(matured_row_, matured_log_id_, time_);
  } else if (known_) {
    model_->strand_state().CountDuplicate();
  }
}

void RowWrite::Answer() {
  room_.reset();
  done_(std::move(settlement_));
}

}  // namespace calibd::server
