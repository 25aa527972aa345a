#ifndef CALIBD_SERVER_INGEST_MODEL_WRITES_H_
#define CALIBD_SERVER_INGEST_MODEL_WRITES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/ingest_queue.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/settlement.h"
#include "server/rows/log_row.h"
#include "server/state/model.h"

namespace calibd::server {

// An operation for a model, whose state it changes on the model's strand after the commit. commits
// and clock must outlive it.
class ModelWrite : public Operation {
 public:
  [[nodiscard]] Target target() const noexcept override { return Target::kLog; }
  [[nodiscard]] const Model* model() const noexcept override { return model_.get(); }
  [[nodiscard]] Strand* strand() noexcept override { return &model_->strand(); }
  // Applies the appended rows together, persists a snapshot if one is due, and publishes the state.
  void Publish() override;

 protected:
  ModelWrite(std::shared_ptr<Model> model, CommitQueue& commits, const LogClock& clock)
      : model_(std::move(model)), commits_(commits), clock_(clock) {}

  const std::shared_ptr<Model> model_;
  CommitQueue& commits_;
  const LogClock& clock_;
};

// Appends a row to the log: a batch, an acknowledgement, or the opening or end of a producer.
class RowWrite final : public ModelWrite {
 public:
  // The row must come from Decode, or be an OpenedRow, EndedRow or AcknowledgedRow. opens:
  // whether the producer of the row is opened first. room: of the row in the ingest queue; it is
  // resized now and returned on the strand before done is called, when the row is visible. Encodes
  // the row now, unless its labels must first be looked up in the tracker. May throw bad_alloc.
  RowWrite(std::shared_ptr<Model> model, CommitQueue& commits, const LogClock& clock,
           IngestQueue::RoomPtr room, LogRow row, bool opens, std::function<void(Settlement)> done);

  // Memory that the write holds.
  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }

  // The only place that decides whether a row is new, by its number and by the known ids, and that
  // determines the order of rows.
  [[nodiscard]] absl::Status Write(Store& store) override;
  void Undo() override;
  void Finish(Store& store, const absl::Status& committed) override;
  void Apply() override;
  void Answer() override;

 private:
  // Opens the producer if requested. Returns false if there is nothing to append.
  [[nodiscard]] absl::StatusOr<bool> CheckPosition();
  // The batch was settled before with another outcome than that of this decoding.
  void KeepFormerOutcome();
  // Removes the predictions that the tracker already knows, or looks up the labels. Errors:
  // ResourceExhausted.
  [[nodiscard]] absl::Status Resolve();
  [[nodiscard]] absl::Status Admit(PredictionsRow& row);
  // Looks up labels and keeps in the row what the log holds of them.
  void Match(LabelsRow& row);
  // Appends a row that matches the waiting labels of these predictions, if there are any.
  void MatchWaiting(Store& store, const PredictionsRow& predictions);
  [[nodiscard]] absl::Status PendingFullError(std::size_t rows) const;
  void Append(Store& store);
  void AppendOpened(Store& store);
  void Track();
  // Appends a row that counts the predictions of this one, which have labels.
  void MatureAtOnce(Store& store, const PredictionsRow& predictions);
  // Fills in the response to a new or an already known batch.
  void Settle();

  IngestQueue::RoomPtr room_;
  const bool opens_;
  LogRow row_;
  std::function<void(Settlement)> done_;
  std::string encoded_;
  std::size_t bytes_ = 0;

  Settlement settlement_;
  std::chrono::microseconds time_{};
  // Log id of the row; 0 if the row was not appended.
  std::int64_t log_id_ = 0;
  // The row of MatchWaiting; its log id is 0 if it was not appended.
  LogRow waiting_row_;
  std::int64_t waiting_log_id_ = 0;
  WaitingLabels::Taken waiting_;
  // The row of MatureAtOnce; its log id is 0 if it was not appended.
  LogRow matured_row_;
  std::int64_t matured_log_id_ = 0;
  PredictionTracker::Matured matured_;
  // Log id of a row that only opens the producer; 0 if none was appended.
  std::int64_t opened_log_id_ = 0;
  // True if the batch was settled before.
  bool known_ = false;
  // True if it was accepted before but would be rejected now.
  bool accepted_before_ = false;
  // True if the producer was not open with this epoch.
  bool opened_ = false;
  // State for the undo: the previous cursor, which is unset for a new producer.
  bool moved_cursor_ = false;
  std::optional<ProducerCursors::Cursor> former_cursor_;
  bool matched_ = false;
  bool tracked_ = false;
};

// Ends the time of waiting labels, matures due predictions, and releases rows that the tracker no
// longer needs, as many as fit into one transaction.
class MatureWrite final : public ModelWrite {
 public:
  // done: called on the strand with whether the write was committed.
  MatureWrite(std::shared_ptr<Model> model, CommitQueue& commits, const LogClock& clock,
              std::function<void(bool)> done)
      : ModelWrite(std::move(model), commits, clock), done_(std::move(done)) {}

  [[nodiscard]] absl::Status Write(Store& store) override;
  void Undo() override;
  void Finish(Store& store, const absl::Status& committed) override;
  void Apply() override;
  void Answer() override { done_(committed_); }

 private:
  // Appends a MaturedRow; reads the matured predictions from the log.
  [[nodiscard]] absl::Status Append(Store& store);
  // Adds predictions to the row. run: their labels.
  void Add(const PredictionsRow& predictions, const PredictionTracker::Matured::Run& run,
           MaturedRow& matured) const;

  // Appends a row that ends the time of labels whose predictions did not arrive.
  void EndWaiting(Store& store);

  const std::function<void(bool)> done_;
  WaitingLabels::Ended ended_;
  LogRow ended_row_;
  // Log id of the row of ended_; 0 if it was not appended.
  std::int64_t ended_log_id_ = 0;
  PredictionTracker::Matured matured_;
  PredictionTracker::Unneeded unneeded_;
  LogRow row_;
  // Log id of the row; 0 if the row was not appended.
  std::int64_t log_id_ = 0;
  std::chrono::microseconds time_{};
  bool committed_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_MODEL_WRITES_H_
