// Conversion of the state of a model to and from the messages of the store.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/state/strand_state.h"
#include "server/state/update_declaration.h"
#include "server/watch/state_fields.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

struct StoredArrivals {
  LabelArrivals all;
  std::vector<ClassArrivals> classes;
};

void ArrivalsFields(StateFields& fields, StoredArrivals& state) {
  using Stored = store::v1::LabelArrivals;
  fields(Stored::kPredictionsFieldNumber, state.all.predictions);
  fields(Stored::kDuplicatePredictionsFieldNumber, state.all.duplicate_predictions);
  fields(Stored::kLabelledFieldNumber, state.all.labelled);
  fields(Stored::kMatchedLabelsFieldNumber, state.all.labels.matched);
  fields(Stored::kRepeatedLabelsFieldNumber, state.all.labels.repeated);
  fields(Stored::kConflictingLabelsFieldNumber, state.all.labels.conflicting);
  fields(Stored::kLateLabelsFieldNumber, state.all.labels.late);
  fields(Stored::kUnknownLabelsFieldNumber, state.all.labels.unknown);
  fields(Stored::kWaitingLabelsFieldNumber, state.all.labels.waiting);
  fields(Stored::kEndedWaitingLogIdFieldNumber, state.all.ended_waiting_log_id);
  fields.Column(Stored::kMaturedFieldNumber, state.classes, &ClassArrivals::matured);
  fields.Column(Stored::kMissingFieldNumber, state.classes, &ClassArrivals::missing);
  fields.Column(Stored::kLateFieldNumber, state.classes, &ClassArrivals::late);
  fields.Column(Stored::kConflictingFieldNumber, state.classes, &ClassArrivals::conflicting);
}

void CountFields(StateFields& fields, ModelCounts& counts) {
  using Stored = store::v1::ModelState;
  fields(Stored::kObservationsFieldNumber, counts.observations);
  fields(Stored::kAcceptedBatchesFieldNumber, counts.accepted_batches);
  fields(Stored::kRejectedBatchesFieldNumber, counts.rejected_batches);
  fields(Stored::kRejectedRowsFieldNumber, counts.rejected_rows);
  fields(Stored::kDroppedRowsFieldNumber, counts.dropped_rows);
  fields(Stored::kDroppedLabelsFieldNumber, counts.dropped_labels);
  fields(Stored::kLastObservationTimeUsFieldNumber, counts.last_observation_time);
}

absl::Status Damaged(const ModelDeclaration& declaration, absl::string_view reason) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                   absl::StrCat("the snapshot of ", declaration.name.ToString(), " ", reason));
}

}  // namespace

store::v1::ModelState StrandState::Save() const {
  store::v1::ModelState state;
  const ModelCounts& counts = state_;
  SaveFields(counts, state, CountFields);
  if (state_.label_arrivals.has_value()) {
    SaveFields(StoredArrivals{.all = *state_.label_arrivals, .classes = class_arrivals_},
               *state.mutable_label_arrivals(), ArrivalsFields);
  }
  kind_->Save(state);
  if (history_.started()) history_.Save(*state.mutable_history());
  if (!updated_.paths().empty()) {
    const DeclarationUpdate update = UpdateTo(*state_.declaration, updated_);
    *state.mutable_declaration_update()->mutable_model() = update.model;
    *state.mutable_declaration_update()->mutable_mask() = update.mask;
  }
  state.mutable_updates()->Add(state_.updates->begin(), state_.updates->end());
  return state;
}

absl::Status StrandState::Restore(const store::v1::ModelState& state) {
  if (absl::Status status = CheckStoredNumbers(state); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  ModelCounts counts;
  if (absl::Status status = RestoreFields(state, counts, CountFields); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  if (state.has_declaration_update()) {
    const store::v1::ModelUpdate& update = state.declaration_update();
    absl::StatusOr<ModelDeclaration> updated = absl::InvalidArgumentError("");
    if (CheckUpdateMask(update.mask()).ok()) {
      updated =
          UpdateDeclaration(*state_.declaration, {.model = update.model(), .mask = update.mask()});
    }
    if (!updated.ok()) return Damaged(*state_.declaration, "has an invalid update");
    if (AnyMonitor* const monitor = kind_->monitor()) {
      monitor->Update(updated->monitoring, {}, 0);
    }
    SetDeclaration(*std::move(updated), update.mask());
  }
  StoredArrivals arrivals;
  arrivals.classes.resize(class_arrivals_.size());
  if (state_.label_arrivals.has_value()) {
    const absl::Status status = RestoreFields(state.label_arrivals(), arrivals, ArrivalsFields);
    if (!status.ok()) return Damaged(*state_.declaration, status.message());
    for (const ClassArrivals& one : arrivals.classes) {
      arrivals.all.matured += one.matured;
      arrivals.all.missing += one.missing;
    }
  }
  if (absl::Status status = kind_->Restore(state); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  const auto fits = [this](const HistoryBucket& bucket) { return kind_->Fits(bucket); };
  if (absl::Status status = history_.Restore(state.history(), fits); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  class_arrivals_ = std::move(arrivals.classes);
  class_arrivals_changed_ = state_.label_arrivals.has_value();
  if (state_.label_arrivals.has_value()) state_.label_arrivals = std::move(arrivals.all);
  state_.updates = std::make_shared<std::vector<v1::ModelUpdate>>(state.updates().begin(),
                                                                  state.updates().end());
  static_cast<ModelCounts&>(state_) = counts;
  return absl::OkStatus();
}

void StrandState::RestorePending(std::span<const PendingCounts> pending) noexcept {
  for (std::size_t i = 0; i < pending.size(); ++i) class_arrivals_[i].pending = pending[i];
  class_arrivals_changed_ = true;
}

void StrandState::RestoreWindow(const RowValues& values) {
  const RowView rows = values.rows();
  const std::size_t kept = std::min(rows.size(), state_.declaration->window);
  const RowView newest = rows.rows(rows.size() - kept, kept);
  window_.Reserve(kept, values.single_precision);
  window_.Append(newest);
  kind_->Refill(rows, newest);
}

}  // namespace calibd::server
