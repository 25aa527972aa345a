#include "server/state/model.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/lens_kernel.h"

namespace calibd::server {
namespace {

// A client may claim any count; the sum must not overflow.
void AddSaturating(std::int64_t& total, std::int64_t amount) noexcept {
  total = amount > std::numeric_limits<std::int64_t>::max() - total
              ? std::numeric_limits<std::int64_t>::max()
              : total + amount;
}

}  // namespace

Model::Model(std::int64_t id, ModelDeclaration declaration, ModelSnapshot::Time create_time,
             std::size_t max_producers, ThreadPool& writers, std::shared_ptr<void> reservation)
    : id_(id),
      declaration_(std::move(declaration)),
      create_time_(create_time),
      reservation_(std::move(reservation)),
      strand_(writers),
      cursors_(max_producers),
      window_(declaration_.class_count, declaration_.window,
              WindowChunkRows(declaration_.class_count, declaration_.window)),
      retention_(declaration_.window, SnapshotRows(declaration_)) {
  if (declaration_.max_pending > 0) {
    tracker_.emplace(declaration_.label_grace, declaration_.max_pending);
    state_.label_coverage.emplace();
    class_coverage_.resize(declaration_.class_count);
    class_coverage_changed_ = true;
  }
  if (!declaration_.monitoring.disabled) {
    monitor_.emplace(declaration_.monitoring, declaration_.class_count, declaration_.window);
  }
  if (declaration_.warmup == 0) {
    lenses_ = CreateLenses({});
    if (monitor_.has_value()) {
      monitor_->Begin(PrepareWatch(lenses_), {});
    }
  }
  Publish();
}

std::shared_ptr<const ModelSnapshot> Model::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

const LensSnapshot* ModelSnapshot::Find(const Lens& lens) const noexcept {
  const auto found = std::find_if(lenses.begin(), lenses.end(),
                                  [&lens](const LensSnapshot& one) { return one.lens == lens; });
  return found == lenses.end() ? nullptr : &*found;
}

Model::LensState Model::CreateLens(const Lens& lens, const PredictionSet& warmup) const {
  LensState state;
  state.lens = lens;
  const auto fail = [&state](const absl::Status& status) {
    state.bandwidth_error =
        absl::StrCat(status.message(),
                     ": create the model with a fixed bandwidth, or with a warm-up whose "
                     "predictions differ more");
    return std::move(state);
  };
  const KernelSpec spec = KernelOfLens(lens, declaration_.kernel);
  absl::StatusOr<LensBatch> seen = LensBatch{};
  std::span<const double> predictions;
  if (spec.matrix == nullptr && spec.rule.bandwidth.needs_predictions()) {
    seen = ApplyLens(warmup.view(), lens);
    if (!seen.ok()) {
      return fail(seen.status());
    }
    predictions = seen->parts.front().probabilities;
  }
  const std::size_t class_count = declaration_.class_count;
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, predictions, lens.reduced_class_count(class_count));
  if (!kernel.ok()) {
    return fail(kernel.status());
  }
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, declaration_.block_sizes);
  if (!running.ok()) {
    return fail(running.status());
  }
  state.kernel = *kernel;
  state.running = *std::move(running);
  return state;
}

std::vector<Model::LensState> Model::CreateLenses(const PredictionSet& warmup) const {
  std::vector<LensState> lenses;
  lenses.reserve(declaration_.lenses.size());
  for (const Lens& lens : declaration_.lenses) {
    lenses.push_back(CreateLens(lens, warmup));
  }
  return lenses;
}

std::unique_ptr<EvidenceWatch> Model::PrepareWatch(const std::vector<LensState>& lenses) const {
  const std::optional<RunningKernel>& kernel = lenses.front().kernel;
  return kernel.has_value() ? monitor_->Prepare(*kernel, 1) : nullptr;
}

void Model::Count(const PredictionBatch& batch) noexcept {
  for (LensState& lens : lenses_) {
    if (lens.running.has_value()) {
      const bool canonical = &lens == &lenses_.front();
      lens.running->Add(batch, canonical ? &history_.pairs() : nullptr);
    }
  }
}

std::optional<WatchMark> Model::watch_mark() const {
  const std::optional<EvidenceReading> reading =
      monitor_.has_value() ? monitor_->Read() : std::nullopt;
  if (!reading.has_value()) {
    return std::nullopt;
  }
  return WatchMark{.log10_e_value = reading->evidence.log10_e_value,
                   .max_log10_e_value = reading->maximum.log_value / std::numbers::ln10,
                   .drift_log10_statistic = reading->drift.shiryaev_roberts.log10_now};
}

void Model::BeginRow(ModelSnapshot::Time time) {
  if (history_.EndsMinute(time)) {
    history_.Advance(time, watch_mark());
  }
}

void Model::Apply(const PredictionBatch& batch, const GroupValues& groups) {
  // The rows that belong to the warm-up. The window is at least as large, so
  // that it holds all of them until the bandwidth is known.
  const std::size_t missing =
      warming_up() ? declaration_.warmup - static_cast<std::size_t>(state_.observations) : 0;
  const std::size_t head = std::min(missing, batch.size());
  const std::size_t rest = batch.size() - head;
  const std::size_t kept_rest = std::min(rest, declaration_.window);
  const bool completes_warmup = missing > 0 && head == missing;

  window_.Reserve(head + kept_rest);
  if (monitor_.has_value() && missing > 0) {
    monitor_->KeepWarmup(groups.rows(0, head), head);
  }
  PredictionSet warmup;
  std::vector<LensState> lenses;
  std::unique_ptr<EvidenceWatch> watch;
  if (completes_warmup) {
    warmup = window_.View().CopyNewest(window_.size());
    const PredictionBatch rows = batch.rows(0, head);
    warmup.probabilities.insert(warmup.probabilities.end(), rows.probabilities.begin(),
                                rows.probabilities.end());
    warmup.labels.insert(warmup.labels.end(), rows.labels.begin(), rows.labels.end());
    lenses = CreateLenses(warmup);
    if (monitor_.has_value()) {
      watch = PrepareWatch(lenses);
    }
  }

  if (completes_warmup) {
    lenses_ = std::move(lenses);
    Count(warmup.view());
    if (monitor_.has_value()) {
      monitor_->Begin(std::move(watch), warmup.view());
    }
  }
  window_.Append(batch.rows(0, head));
  Count(batch.rows(head, rest));
  if (monitor_.has_value()) {
    monitor_->Add(batch.rows(head, rest), groups.rows(head, rest));
  }
  window_.Append(batch.rows(batch.size() - kept_rest, kept_rest));
  state_.observations += static_cast<std::int64_t>(batch.size());
  history_.Count(batch);
  if (monitor_.has_value()) {
    monitor_->Screen(batch);
  }
}

void Model::ApplyMatured(const PredictionBatch& labelled, const GroupValues& groups,
                         std::span<const std::int32_t> missing_predicted_classes) {
  if (labelled.size() > 0) {
    Apply(labelled, groups);
  }
  for (std::size_t i = 0; i < labelled.size(); ++i) {
    ClassCoverage& one = class_coverage_[PredictedClass(labelled.row(i))];
    --one.pending.all;
    --one.pending.labelled;
    ++one.matured;
  }
  for (const std::int32_t predicted : missing_predicted_classes) {
    ClassCoverage& one = class_coverage_[static_cast<std::size_t>(predicted)];
    --one.pending.all;
    ++one.matured;
    ++one.missing;
  }
  class_coverage_changed_ = true;
  LabelCoverage& coverage = *state_.label_coverage;
  coverage.matured += static_cast<std::int64_t>(labelled.size() + missing_predicted_classes.size());
  coverage.missing += static_cast<std::int64_t>(missing_predicted_classes.size());
  history_.CountMissing(static_cast<std::int64_t>(missing_predicted_classes.size()));
}

void Model::Decide(ModelSnapshot::Time time) {
  if (monitor_.has_value()) {
    monitor_->Decide(time, state_.observations);
  }
}

void Model::Acknowledge(std::int64_t alarm_id, const std::string& note, ModelSnapshot::Time time) {
  if (monitor_.has_value()) {
    monitor_->Acknowledge(alarm_id, note, time, state_.observations);
  }
}

void Model::CountAccepted(std::int64_t dropped_rows, ModelSnapshot::Time time) noexcept {
  ++state_.accepted_batches;
  AddSaturating(state_.dropped_rows, dropped_rows);
  state_.last_observation_time = time;
}

void Model::CountPredictions(std::span<const std::int32_t> predicted_classes, bool labelled,
                             std::int64_t duplicates) noexcept {
  LabelCoverage& coverage = *state_.label_coverage;
  const auto taken = static_cast<std::int64_t>(predicted_classes.size());
  coverage.predictions += taken;
  coverage.labelled += labelled ? taken : 0;
  coverage.duplicate_predictions += duplicates;
  for (const std::int32_t predicted : predicted_classes) {
    PendingCounts& pending = class_coverage_[static_cast<std::size_t>(predicted)].pending;
    ++pending.all;
    pending.labelled += labelled ? 1 : 0;
  }
  class_coverage_changed_ = true;
}

void Model::CountLabels(const LabelCounts& counts, const LabelClasses& classes) noexcept {
  LabelCoverage& coverage = *state_.label_coverage;
  coverage.labelled += counts.matched;
  coverage.labels += counts;
  const auto of = [this](std::int32_t predicted) -> ClassCoverage& {
    return class_coverage_[static_cast<std::size_t>(predicted)];
  };
  for (const std::int32_t predicted : classes.matched) {
    ++of(predicted).pending.labelled;
  }
  for (const std::int32_t predicted : classes.conflicting) {
    ++of(predicted).conflicting;
  }
  for (const std::int32_t predicted : classes.late) {
    ++of(predicted).late;
  }
  class_coverage_changed_ = true;
}

void Model::CountRejected(std::int64_t rows) noexcept {
  ++state_.rejected_batches;
  AddSaturating(state_.rejected_rows, rows);
  history_.CountRejected(rows);
}

void Model::Publish() {
  if (class_coverage_changed_) {
    // m of them: copied once for all batches that are published together.
    state_.label_coverage->classes =
        std::make_shared<const std::vector<ClassCoverage>>(class_coverage_);
    class_coverage_changed_ = false;
  }
  auto snapshot = std::make_shared<ModelSnapshot>(state_);
  snapshot->lenses.reserve(lenses_.size());
  for (const LensState& lens : lenses_) {
    LensSnapshot& out = snapshot->lenses.emplace_back();
    out.lens = lens.lens;
    out.kernel = lens.kernel;
    out.bandwidth_error = lens.bandwidth_error;
    if (lens.running.has_value()) {
      out.blocks = lens.running->Blocks();
    }
  }
  if (monitor_.has_value()) {
    snapshot->monitor = monitor_->Snapshot();
  }
  snapshot->window = window_.View();
  snapshot->reliability = history_.AllTime();
  std::shared_ptr<const ModelSnapshot> published = std::move(snapshot);
  const std::lock_guard lock(snapshot_mutex_);
  // The older one is freed after the lock is released, by its last holder.
  snapshot_.swap(published);
}

}  // namespace calibd::server
