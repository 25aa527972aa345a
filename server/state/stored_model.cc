// Conversion of the state of a model to and from the messages of the store.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/state/strand_state.h"
#include "server/state/update_declaration.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

void ToProto(const LabelArrivals& coverage, const std::vector<ClassArrivals>& classes,
             store::v1::LabelArrivals& out) {
  out.set_predictions(coverage.predictions);
  out.set_duplicate_predictions(coverage.duplicate_predictions);
  out.set_labelled(coverage.labelled);
  out.set_matched_labels(coverage.labels.matched);
  out.set_repeated_labels(coverage.labels.repeated);
  out.set_conflicting_labels(coverage.labels.conflicting);
  out.set_late_labels(coverage.labels.late);
  out.set_unknown_labels(coverage.labels.unknown);
  for (const ClassArrivals& one : classes) {
    out.add_matured(one.matured);
    out.add_missing(one.missing);
    out.add_late(one.late);
    out.add_conflicting(one.conflicting);
  }
}

// Fills in the counts. Returns nothing if their number differs from that of the classes.
std::optional<LabelArrivals> FromProto(const store::v1::LabelArrivals& stored,
                                       std::vector<ClassArrivals>& classes) {
  const auto m = static_cast<int>(classes.size());
  if (stored.matured_size() != m || stored.missing_size() != m || stored.late_size() != m ||
      stored.conflicting_size() != m) {
    return std::nullopt;
  }
  LabelArrivals coverage;
  coverage.predictions = stored.predictions();
  coverage.duplicate_predictions = stored.duplicate_predictions();
  coverage.labelled = stored.labelled();
  coverage.labels = {.matched = stored.matched_labels(),
                     .repeated = stored.repeated_labels(),
                     .conflicting = stored.conflicting_labels(),
                     .late = stored.late_labels(),
                     .unknown = stored.unknown_labels()};
  for (int i = 0; i < m; ++i) {
    classes[static_cast<std::size_t>(i)] = {
        .pending = {},
        .matured = stored.matured(i),
        .missing = stored.missing(i),
        .late = stored.late(i),
        .conflicting = stored.conflicting(i),
    };
    coverage.matured += stored.matured(i);
    coverage.missing += stored.missing(i);
  }
  return coverage;
}

absl::Status Damaged(const ModelDeclaration& declaration, absl::string_view reason) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                   absl::StrCat("the snapshot of ", declaration.name.ToString(), " ", reason));
}

}  // namespace

store::v1::ModelState StrandState::Save() const {
  store::v1::ModelState state;
  state.set_observations(state_.observations);
  state.set_accepted_batches(state_.accepted_batches);
  state.set_rejected_batches(state_.rejected_batches);
  state.set_rejected_rows(state_.rejected_rows);
  state.set_dropped_rows(state_.dropped_rows);
  if (state_.last_observation_time.has_value()) {
    state.set_last_observation_time_us(std::chrono::duration_cast<std::chrono::microseconds>(
                                           state_.last_observation_time->time_since_epoch())
                                           .count());
  }
  if (state_.label_arrivals.has_value()) {
    ToProto(*state_.label_arrivals, class_arrivals_, *state.mutable_label_arrivals());
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
  std::optional<LabelArrivals> coverage;
  std::vector<ClassArrivals> classes(class_arrivals_.size());
  if (state_.label_arrivals.has_value()) {
    coverage = FromProto(state.label_arrivals(), classes);
    if (!coverage.has_value()) {
      return Damaged(*state_.declaration, "has a label arrivals that does not match its classes");
    }
  }
  if (absl::Status status = kind_->Restore(state); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  const auto fits = [this](const HistoryBucket& bucket) { return kind_->Fits(bucket); };
  if (absl::Status status = history_.Restore(state.history(), fits); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  state_.label_arrivals = std::move(coverage);
  class_arrivals_ = std::move(classes);
  class_arrivals_changed_ = state_.label_arrivals.has_value();
  state_.updates = std::make_shared<std::vector<v1::ModelUpdate>>(state.updates().begin(),
                                                                  state.updates().end());
  state_.observations = state.observations();
  state_.accepted_batches = state.accepted_batches();
  state_.rejected_batches = state.rejected_batches();
  state_.rejected_rows = state.rejected_rows();
  state_.dropped_rows = state.dropped_rows();
  if (state.last_observation_time_us() != 0) {
    state_.last_observation_time =
        ModelSnapshot::Time(std::chrono::microseconds(state.last_observation_time_us()));
  }
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
