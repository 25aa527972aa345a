#ifndef CALIBD_SERVER_STATE_STRAND_STATE_H_
#define CALIBD_SERVER_STATE_STRAND_STATE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/store/v1/store.pb.h"
#include "server/executor/thread_pool.h"
#include "server/kinds/kind_state.h"
#include "server/model/model_declaration.h"
#include "server/rows/group_values.h"
#include "server/rows/log_retention.h"
#include "server/rows/log_row.h"
#include "server/rows/observation_window.h"
#include "server/rows/row_view.h"
#include "server/state/history.h"
#include "server/state/model_snapshot.h"

namespace calibd::server {

// State that follows from the applied log rows of a model: estimators, monitor, window and history.
// Belongs to the model's strand, and during recovery to the recovering thread.
class StrandState {
 public:
  // helpers: threads that help to count large batches; null if there are none.
  explicit StrandState(std::shared_ptr<const ModelDeclaration> declaration,
                       ThreadPool* helpers = nullptr);

  // Applies a row of the log. time: of the row, since 1970. An UpdatedRow must be valid for the
  // declaration. May throw bad_alloc; only a start can then continue with the log.
  void Apply(const LogRow& row, std::int64_t log_id, std::chrono::microseconds time);
  // Apply for several rows, whose observations are counted together: Append each, and then
  // ApplyAppended before anything else. The result is that of Apply for each row. The rows must
  // live until then. May throw like Apply.
  void Append(const LogRow& row, std::int64_t log_id, std::chrono::microseconds time);
  void ApplyAppended();
  // Counts a batch that was sent again. The log does not record this.
  void CountDuplicate() noexcept { state_.duplicate_batches += 1; }
  // A part of Apply: counts valid observations. The rows that complete the warm-up begin the
  // estimators that need it. The result does not depend on how the sequence is divided into
  // batches. single_precision: as RowValues. row_ends: as Monitor::BeginAdd; empty during the
  // warm-up. Returns what Decide requires. May throw like Apply.
  KindState::Added Observe(const RowView& rows, bool single_precision = false,
                           std::span<const RowEnd> row_ends = {});
  // A part of Apply, after observations: raises alarms. May throw like Apply.
  void Decide(KindState::Added added, ModelSnapshot::Time time);
  // A part of Apply: counts the observations of a row by their times, and raises alarms. time: of
  // the row. May throw like Apply.
  void Count(const RowValues& values, ModelSnapshot::Time time);

  // Returns the state for readers. Copies no row of the window. May throw bad_alloc.
  [[nodiscard]] std::shared_ptr<const ModelSnapshot> Snapshot();
  // Decides which rows of the log are needed.
  [[nodiscard]] LogRetention& retention() noexcept { return retention_; }
  [[nodiscard]] History& history() noexcept { return history_; }
  [[nodiscard]] const History& history() const noexcept { return history_; }
  // Unset for a model that is not monitored.
  [[nodiscard]] std::optional<WatchMark> watch_mark() const;
  // The newest updates, ascending.
  [[nodiscard]] const std::vector<v1::ModelUpdate>& updates() const noexcept {
    return *state_.updates;
  }
  // The declaration with all updates so far; never null.
  [[nodiscard]] const std::shared_ptr<const ModelDeclaration>& declaration() const noexcept {
    return state_.declaration;
  }

  // No label of a row up to this row of the log waits for its prediction any more.
  [[nodiscard]] std::int64_t ended_waiting_log_id() const noexcept {
    return state_.label_arrivals.has_value() ? state_.label_arrivals->ended_waiting_log_id : 0;
  }

  // Returns the effect of all rows so far, without the window.
  [[nodiscard]] store::v1::ModelState Save() const;
  // Restores a saved state. Call it before the first row. The same later rows then give the same
  // bits. Errors: DataLoss if it is not a state of a model with this declaration.
  [[nodiscard]] absl::Status Restore(const store::v1::ModelState& state);
  // Fills the window. Call it after Restore and before Apply, for the rows that the restored state
  // covers, in order.
  void Refill(const LogRow& row, std::int64_t log_id);
  // Sets the pending predictions by predicted class, which Save leaves out because the log contains
  // them. Call it after all rows of a start.
  void RestorePending(std::span<const PendingCounts> pending) noexcept;

 private:
  struct AppendedRow {
    const LogRow* row = nullptr;
    std::int64_t log_id = 0;
    ModelSnapshot::Time time;
  };
  // Returns the number of the first rows whose observations can be counted as one batch, at least
  // 1. The first row must not end a minute of the history.
  [[nodiscard]] std::size_t RowsTogether(std::span<const AppendedRow> rows) const;
  // The numbers of alarms raised so far, by kind; 0 for a model that is not monitored.
  [[nodiscard]] Alarm::Counts raised_alarms() const noexcept;
  // Counts the observations of RowsTogether.
  void CountTogether(std::span<const AppendedRow> rows);

  // Apply for each kind of row.
  void ApplyRow(const OpenedRow& /*row*/, ModelSnapshot::Time /*time*/) noexcept {}
  void ApplyRow(const EndedRow& /*row*/, ModelSnapshot::Time /*time*/) noexcept {}
  void ApplyRow(const RejectedRow& row, ModelSnapshot::Time time) noexcept;
  void ApplyRow(const ObservationsRow& row, ModelSnapshot::Time time);
  void ApplyRow(const PredictionsRow& row, ModelSnapshot::Time time) noexcept;
  void ApplyRow(const LabelsRow& row, ModelSnapshot::Time time) noexcept;
  void ApplyRow(const MaturedRow& row, ModelSnapshot::Time time);
  void ApplyRow(const AcknowledgedRow& row, ModelSnapshot::Time time);
  void CountRejected(std::int64_t rows) noexcept;
  void ApplyRow(const UpdatedRow& row, ModelSnapshot::Time time);
  // Sets the declaration that results from all updates, whose fields updated_ names.
  void SetDeclaration(ModelDeclaration declaration, const google::protobuf::FieldMask& updated);
  void CountAccepted(const Dropped& dropped, ModelSnapshot::Time time) noexcept;
  void CountDropped(const Dropped& dropped) noexcept;
  [[nodiscard]] ClassArrivals& ArrivalsOf(std::int32_t predicted_class) noexcept;

  // Runs part(0) .. part(count - 1), which begin in this order: one after another, or on at most
  // `helpers` other threads too if some are idle.
  void Run(std::size_t count, std::size_t helpers, const std::function<void(std::size_t)>& part);
  // Adds observations that the restored state includes to the window.
  void RestoreWindow(const RowValues& values);

  ThreadPool* const helpers_;
  // The declaration and the counters; Snapshot fills in the rest of a copy.
  ModelSnapshot state_;
  // The fields of the declaration that have ever been updated.
  google::protobuf::FieldMask updated_;
  // The classes of the label arrivals, and whether they differ from those in state_.
  std::vector<ClassArrivals> class_arrivals_;
  bool class_arrivals_changed_ = false;
  const std::unique_ptr<KindState> kind_;
  ObservationWindow window_;
  LogRetention retention_;
  History history_;
  std::vector<AppendedRow> appended_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_STRAND_STATE_H_
