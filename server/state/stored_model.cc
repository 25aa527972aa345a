// Conversion of the state of a model to and from the messages of the store.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/state/strand_state.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

RunningLens::State FromProto(const store::v1::LensState& stored) {
  RunningLens::State state;
  for (const store::v1::BlockState& block : stored.blocks()) {
    state.blocks.push_back(
        {.moments = GetMoments(block.moments()),
         .pending_probabilities = {block.pending_probabilities().begin(),
                                   block.pending_probabilities().end()},
         .pending_labels = {block.pending_labels().begin(), block.pending_labels().end()}});
  }
  state.null_squares = GetMoments(stored.null_squares());
  state.previous_probabilities.assign(stored.previous_probabilities().begin(),
                                      stored.previous_probabilities().end());
  return state;
}

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

void ToProto(const RunningComparison::Score& score, store::v1::Comparison::Score& out) {
  PutMoments(score.model, *out.mutable_model());
  PutMoments(score.baseline, *out.mutable_baseline());
  PutMoments(score.difference, *out.mutable_difference());
}

RunningComparison::Score FromProto(const store::v1::Comparison::Score& stored) {
  return {.model = GetMoments(stored.model()),
          .baseline = GetMoments(stored.baseline()),
          .difference = GetMoments(stored.difference())};
}

void ToProto(const RunningComparison& comparison, store::v1::Comparison& out) {
  ToProto(comparison.log_loss, *out.mutable_log_loss());
  ToProto(comparison.brier, *out.mutable_brier());
  PutSums(comparison.model_top_label, *out.mutable_model_top_label());
  PutSums(comparison.baseline_top_label, *out.mutable_baseline_top_label());
}

// Returns nothing unless all parts have as many observations as the model.
std::optional<RunningComparison> FromProto(const store::v1::Comparison& stored,
                                           std::int64_t observations) {
  RunningComparison comparison{.log_loss = FromProto(stored.log_loss()),
                               .brier = FromProto(stored.brier()),
                               .model_top_label = {},
                               .baseline_top_label = {}};
  bool valid = GetSums(stored.model_top_label(), comparison.model_top_label) &&
               GetSums(stored.baseline_top_label(), comparison.baseline_top_label) &&
               comparison.model_top_label.Total().count == observations &&
               comparison.baseline_top_label.Total().count == observations;
  for (const RunningComparison::Score& score : {comparison.log_loss, comparison.brier}) {
    for (const RunningMoments& moments : {score.model, score.baseline, score.difference}) {
      valid = valid && moments.count == observations && moments.m2 >= 0;
    }
  }
  return valid ? std::optional(comparison) : std::nullopt;
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
  if (state_.comparison.has_value()) ToProto(*state_.comparison, *state.mutable_comparison());
  UseMonitor([&](const auto& monitor) { monitor.Save(*state.mutable_monitor()); });
  if (history_.started()) history_.Save(*state.mutable_history());
  if (!updated_.paths().empty()) {
    const DeclarationUpdate update = UpdateTo(*state_.declaration, updated_);
    *state.mutable_declaration_update()->mutable_model() = update.model;
    *state.mutable_declaration_update()->mutable_mask() = update.mask;
  }
  state.mutable_updates()->Add(state_.updates->begin(), state_.updates->end());
  for (const LensState& lens : lenses_) {
    store::v1::LensState& out = *state.add_lenses();
    out.set_bandwidth_error(lens.bandwidth_error);
    if (!lens.running.has_value()) continue;
    if (const auto* const kernel = std::get_if<Kernel>(&*lens.kernel)) {
      out.set_bandwidth(kernel->bandwidth());
    }
    const RunningLens::State running = lens.running->Save();
    for (const RunningBlockSkce::State& block : running.blocks) {
      store::v1::BlockState& stored = *out.add_blocks();
      PutMoments(block.moments, *stored.mutable_moments());
      stored.mutable_pending_probabilities()->Add(block.pending_probabilities.begin(),
                                                  block.pending_probabilities.end());
      stored.mutable_pending_labels()->Add(block.pending_labels.begin(),
                                           block.pending_labels.end());
    }
    PutMoments(running.null_squares, *out.mutable_null_squares());
    out.mutable_previous_probabilities()->Add(running.previous_probabilities.begin(),
                                              running.previous_probabilities.end());
  }
  return state;
}

absl::StatusOr<StrandState::LensState> StrandState::RestoreLens(
    const Lens& lens, const store::v1::LensState& stored) const {
  LensState state;
  state.lens = lens;
  state.bandwidth_error = stored.bandwidth_error();
  if (!state.bandwidth_error.empty()) return state;
  KernelSpec spec = KernelOfLens(lens, state_.declaration->classes()->kernel);
  if (spec.matrix == nullptr) {
    spec.rule.bandwidth = {
        .kind = BandwidthRule::Kind::kFixed, .fixed = stored.bandwidth(), .alpha = {}};
  }
  const std::size_t class_count = state_.declaration->class_count();
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, {}, lens.reduced_class_count(class_count));
  if (!kernel.ok()) return Damaged(*state_.declaration, kernel.status().message());
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, state_.declaration->classes()->block_sizes);
  absl::Status status = running.status();
  if (status.ok()) status = running->Restore(FromProto(stored));
  if (!status.ok()) return Damaged(*state_.declaration, status.message());
  state.kernel = *kernel;
  state.running = *std::move(running);
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
    UseMonitor([&](auto& monitor) { monitor.Update(updated->monitoring, {}, 0); });
    SetDeclaration(*std::move(updated), update.mask());
  }
  const auto warmup = static_cast<std::int64_t>(state_.declaration->warmup);
  const bool warming = state.observations() < warmup;
  const std::size_t lenses = warming ? 0 : state_.declaration->lenses().size();
  if (static_cast<std::size_t>(state.lenses_size()) != lenses) {
    return Damaged(*state_.declaration, absl::StrCat("has ", state.lenses_size(), " lenses after ",
                                                     state.observations(), " observations"));
  }
  std::vector<LensState> restored;
  for (std::size_t i = 0; i < lenses; ++i) {
    CALIBD_ASSIGN_OR_RETURN(
        restored.emplace_back(),
        RestoreLens(state_.declaration->lenses()[i], state.lenses(static_cast<int>(i))));
  }
  std::optional<LabelArrivals> coverage;
  std::vector<ClassArrivals> classes(class_arrivals_.size());
  if (state_.label_arrivals.has_value()) {
    coverage = FromProto(state.label_arrivals(), classes);
    if (!coverage.has_value()) {
      return Damaged(*state_.declaration, "has a label arrivals that does not match its classes");
    }
  }
  std::optional<RunningComparison> comparison;
  if (state_.comparison.has_value()) {
    comparison = FromProto(state.comparison(), state.observations());
    if (!comparison.has_value()) {
      return Damaged(*state_.declaration, "has a comparison that does not match its observations");
    }
  }
  if (monitor_.has_value()) {
    const std::optional<RunningKernel> kernel =
        restored.empty() ? std::nullopt : restored.front().kernel;
    if (absl::Status status = monitor_->Restore(state.monitor(), kernel, state.observations());
        !status.ok()) {
      return Damaged(*state_.declaration, status.message());
    }
  }
  if (forecast_monitor_.has_value()) {
    absl::Status status = forecast_monitor_->Restore(state.monitor());
    if (status.ok() && forecast_monitor_->begun() == warming) {
      status = absl::InvalidArgumentError("has strata that do not match its observations");
    }
    if (!status.ok()) return Damaged(*state_.declaration, status.message());
  }
  const std::size_t cells = forecast_cells_ != nullptr ? forecast_cells_->cell_count() : 0;
  if (absl::Status status = history_.Restore(state.history(), cells); !status.ok()) {
    return Damaged(*state_.declaration, status.message());
  }
  state_.label_arrivals = std::move(coverage);
  state_.comparison = comparison;
  class_arrivals_ = std::move(classes);
  class_arrivals_changed_ = state_.label_arrivals.has_value();
  lenses_ = std::move(restored);
  if (!warming) early_lenses_.clear();
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
  if (state_.declaration->numbers() != nullptr) {
    const std::size_t size = values.labelled();
    const std::size_t kept = std::min(size, state_.declaration->window);
    window_.Reserve(kept, values.single_precision);
    const std::size_t skipped = size - kept;
    window_.Append(
        {.forecasts = std::span(values.probabilities).subspan(skipped * values.class_count),
         .outcomes = std::span(values.outcomes).subspan(skipped)},
        values.extras().rows(skipped, kept));
    if (forecast_monitor_.has_value() && !forecast_monitor_->begun()) {
      forecast_monitor_->KeepWarmup(values.groups(), size);
    }
    return;
  }
  const PredictionBatch batch = values.view();
  const std::size_t kept = std::min(batch.size(), state_.declaration->window);
  window_.Reserve(kept, values.single_precision);
  window_.Append(batch.rows(batch.size() - kept, kept),
                 values.extras().rows(batch.size() - kept, kept));
  if (warming_up()) CountEarly(batch);
  if (monitor_.has_value()) {
    monitor_->Screen(batch.rows(batch.size() - kept, kept));
    if (warming_up()) monitor_->KeepWarmup(values.groups(), batch.size());
  }
}

}  // namespace calibd::server
