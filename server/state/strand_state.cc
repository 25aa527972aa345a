#include "server/state/strand_state.h"

#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/lens_kernel.h"

namespace calibd::server {
namespace {

// For each so many classes of its rows, one more thread helps to count a batch. Waking it up and
// waiting for it takes some tens of microseconds.
constexpr std::size_t kHelperWork = 4096;
// For each so many classes, one more thread helps with the evidence of a chunk of rows, which the
// threads compute in two steps.
constexpr std::size_t kChunkHelperClasses = 256;
// Some work for each row does not depend on the number of its classes, and takes as long as that
// for this many.
constexpr std::size_t kRowWork = 24;

// Clients may report any count; the sum must not overflow.
void AddSaturating(std::int64_t& total, std::int64_t amount) noexcept {
  total = amount > std::numeric_limits<std::int64_t>::max() - total
              ? std::numeric_limits<std::int64_t>::max()
              : total + amount;
}

}  // namespace

StrandState::StrandState(std::shared_ptr<const ModelDeclaration> declaration, ThreadPool* helpers)
    : helpers_(helpers),
      window_(
          {.width = declaration->row_width(),
           .capacity = declaration->window,
           .chunk_rows = WindowChunkRows(
               declaration->row_width() + declaration->feature_names.size(), declaration->window),
           .keeps_ids = declaration->max_pending > 0,
           .has_outcomes = declaration->numbers() != nullptr,
           .feature_count = declaration->feature_names.size(),
           .keeps_groups = declaration->keeps_groups()}),
      retention_(declaration->window, SnapshotRows(*declaration)) {
  if (declaration->max_pending > 0) {
    state_.label_arrivals.emplace();
    class_arrivals_.resize(declaration->counted_classes());
    class_arrivals_changed_ = true;
  }
  if (declaration->has_baseline()) state_.comparison.emplace();
  if (declaration->numbers() != nullptr) {
    // Equal in all replicas of the model.
    const std::uint64_t seed = HashId(declaration->name.ToString()).low;
    forecast_cells_ =
        *ForecastCells::Create(declaration->numbers()->forecast, {}, seed, kDefaultTolerance);
    if (!declaration->monitoring.disabled) {
      forecast_monitor_.emplace(declaration->monitoring, forecast_cells_, seed,
                                declaration->numbers()->decision);
    }
    state_.declaration = std::move(declaration);
    return;
  }
  if (!declaration->monitoring.disabled) {
    monitor_.emplace(declaration->monitoring, declaration->class_count(), declaration->window);
  }
  state_.declaration = std::move(declaration);
  if (state_.declaration->warmup == 0) {
    lenses_ = CreateLenses({});
    if (monitor_.has_value()) {
      monitor_->Begin(PrepareWatch(lenses_), {});
    }
    return;
  }
  for (const Lens& lens : state_.declaration->lenses()) {
    const KernelSpec spec = KernelOfLens(lens, state_.declaration->classes()->kernel);
    if (spec.matrix != nullptr || !spec.rule.bandwidth.needs_predictions()) {
      early_lenses_.push_back(CreateLens(lens, {}));
    }
  }
}

StrandState::LensState StrandState::CreateLens(const Lens& lens,
                                               const PredictionSet& warmup) const {
  LensState state;
  state.lens = lens;
  const auto fail = [&state](const absl::Status& status) {
    state.bandwidth_error =
        absl::StrCat(status.message(),
                     ": create the model with a fixed bandwidth, or with a warm-up whose "
                     "predictions differ more");
    return std::move(state);
  };
  const KernelSpec spec = KernelOfLens(lens, state_.declaration->classes()->kernel);
  absl::StatusOr<LensBatch> seen = LensBatch{};
  std::span<const double> predictions;
  if (spec.matrix == nullptr && spec.rule.bandwidth.needs_predictions()) {
    seen = ApplyLens(warmup.view(), lens);
    if (!seen.ok()) return fail(seen.status());
    predictions = seen->parts.front().probabilities;
  }
  const std::size_t class_count = state_.declaration->class_count();
  const absl::StatusOr<RunningKernel> kernel =
      MakeKernel(spec, predictions, lens.reduced_class_count(class_count));
  if (!kernel.ok()) return fail(kernel.status());
  absl::StatusOr<RunningLens> running =
      RunningLens::Create(lens, class_count, *kernel, state_.declaration->classes()->block_sizes);
  if (!running.ok()) return fail(running.status());
  state.kernel = *kernel;
  state.running = *std::move(running);
  return state;
}

std::vector<StrandState::LensState> StrandState::CreateLenses(const PredictionSet& warmup) const {
  std::vector<LensState> lenses;
  lenses.reserve(state_.declaration->lenses().size());
  for (const Lens& lens : state_.declaration->lenses()) lenses.push_back(CreateLens(lens, warmup));
  return lenses;
}

std::unique_ptr<EvidenceWatch> StrandState::PrepareWatch(
    const std::vector<LensState>& lenses) const {
  const std::optional<RunningKernel>& kernel = lenses.front().kernel;
  return kernel.has_value() ? monitor_->Prepare(*kernel, 1) : nullptr;
}

void StrandState::Count(LensState& lens, const PredictionBatch& batch) {
  if (!lens.running.has_value()) return;
  const bool canonical = &lens == &lenses_.front();
  // A copy, because another thread may write to the same cache line.
  RunningMoments pairs = history_.pairs();
  lens.running->Add(batch, canonical ? &pairs : nullptr);
  if (canonical) history_.pairs() = pairs;
}

void StrandState::CountEarly(const PredictionBatch& batch) {
  for (LensState& lens : early_lenses_) {
    if (lens.running.has_value()) lens.running->Add(batch, nullptr);
  }
}

std::optional<WatchMark> StrandState::watch_mark() const {
  std::optional<EvidenceReading> reading;
  UseMonitor([&](const auto& monitor) { reading = monitor.Read(); });
  if (!reading.has_value()) return std::nullopt;
  return WatchMark{.log10_e_value = reading->evidence.log10_e_value,
                   .max_log10_e_value = std::max(reading->maximum.log_value / std::numbers::ln10,
                                                 reading->evidence.log10_e_value),
                   .drift_log10_statistic = reading->drift.log10_now};
}

void StrandState::Apply(const LogRow& row, std::int64_t log_id, std::chrono::microseconds time) {
  Append(row, log_id, time);
  ApplyAppended();
}

void StrandState::Append(const LogRow& row, std::int64_t log_id, std::chrono::microseconds time) {
  // If this throws, the caller may free the rows, so none may stay behind.
  std::vector<AppendedRow> rows = std::exchange(appended_, {});
  rows.push_back({.row = &row, .log_id = log_id, .time = ModelSnapshot::Time(time)});
  appended_ = std::move(rows);
}

void StrandState::ApplyAppended() {
  const std::vector<AppendedRow> appended = std::exchange(appended_, {});
  const auto raised = raised_alarms();
  for (std::span<const AppendedRow> rest(appended); !rest.empty();) {
    const AppendedRow& first = rest.front();
    if (history_.EndsMinute(first.time)) history_.Advance(first.time, watch_mark());
    const std::span<const AppendedRow> rows = rest.first(RowsTogether(rest));
    if (rows.size() > 1) {
      CountTogether(rows);
    } else {
      std::visit([&](const auto& kind) { ApplyRow(kind, first.time); }, first.row->kind);
    }
    for (const AppendedRow& one : rows) {
      CountRejected(one.row->skipped.rows);
      if (one.row->tracked()) {
        retention_.AddTracked(one.log_id, one.row->tracked_ids().size());
      } else {
        retention_.Add(one.log_id, one.row->counted_rows());
      }
    }
    rest = rest.subspan(rows.size());
  }
  // Another version bets differently, and another kind of CPU rounds differently. A replay by them
  // may raise the alarm later or not at all.
  if (raised_alarms() != raised) retention_.HastenSnapshot();
}

std::array<std::int64_t, 3> StrandState::raised_alarms() const noexcept {
  std::array<std::int64_t, 3> raised{};
  UseMonitor([&raised](const auto& monitor) { raised = monitor.raised(); });
  return raised;
}

std::size_t StrandState::RowsTogether(std::span<const AppendedRow> rows) const {
  // Groups have alarms of their own, and rows with times of their own have a decision for each
  // minute.
  const auto* const first = rows.front().row->As<ObservationsRow>();
  if (first == nullptr || state_.declaration->numbers() != nullptr || warming_up() ||
      !state_.declaration->monitoring.group_tag.empty() ||
      !state_.declaration->feature_names.empty()) {
    return 1;
  }
  const auto end = std::ranges::find_if_not(rows, [&](const AppendedRow& one) {
    const auto* const row = one.row->As<ObservationsRow>();
    return row != nullptr && row->values.times_s.empty() &&
           row->values.single_precision == first->values.single_precision &&
           !history_.EndsMinute(one.time);
  });
  return std::max<std::size_t>(1, static_cast<std::size_t>(end - rows.begin()));
}

void StrandState::CountTogether(std::span<const AppendedRow> rows) {
  PredictionSet set;
  set.class_count = state_.declaration->class_count();
  std::size_t values = 0;
  for (const AppendedRow& one : rows) values += one.row->counted()->probabilities.size();
  set.probabilities.reserve(values);
  std::vector<ModelMonitor::RowEnd> ends;
  for (const AppendedRow& one : rows) {
    const RowValues& row = *one.row->counted();
    set.probabilities.insert(set.probabilities.end(), row.probabilities.begin(),
                             row.probabilities.end());
    set.labels.insert(set.labels.end(), row.labels.begin(), row.labels.end());
    ends.push_back({.end = set.labels.size(), .time = one.time});
    Compare(row);
    CountAccepted(one.row->As<ObservationsRow>()->dropped_rows, one.time);
  }
  ends.pop_back();
  Observe(set.view(), {}, rows.front().row->counted()->single_precision, ends);
  Decide(rows.back().time);
  if (monitor_.has_value()) monitor_->SetCountedTime(rows.back().time);
}

void StrandState::Refill(const LogRow& row, std::int64_t log_id) {
  if (row.tracked()) {
    retention_.AddOldTracked(log_id);
  } else {
    retention_.AddOld(log_id, row.counted_rows());
  }
  if (row.counted_rows() > 0) RestoreWindow(*row.counted());
}

void StrandState::ApplyRow(const RejectedRow& row, ModelSnapshot::Time /*time*/) noexcept {
  AddSaturating(state_.dropped_rows, row.dropped_rows);
  // Otherwise the batch has only dropped rows, or skipped ones.
  if (row.rows > 0 || row.dropped_rows == 0) ++state_.rejected_batches;
  if (!row.labels) CountRejected(row.rows);
}

void StrandState::CountRejected(std::int64_t rows) noexcept {
  AddSaturating(state_.rejected_rows, rows);
  if (rows > 0) history_.CountRejected(rows);
}

void StrandState::ApplyRow(const ObservationsRow& row, ModelSnapshot::Time time) {
  Count(row.values, time);
  CountAccepted(row.dropped_rows, time);
}

void StrandState::ApplyRow(const PredictionsRow& row, ModelSnapshot::Time time) noexcept {
  LabelArrivals& arrivals = *state_.label_arrivals;
  const auto taken = static_cast<std::int64_t>(row.predicted_classes.size());
  const bool labelled = row.values.labelled() > 0;
  arrivals.predictions += taken;
  arrivals.labelled += labelled ? taken : 0;
  arrivals.duplicate_predictions += row.duplicates;
  for (const std::int32_t predicted : row.predicted_classes) {
    PendingCounts& pending = ArrivalsOf(predicted).pending;
    ++pending.all;
    pending.labelled += labelled ? 1 : 0;
  }
  class_arrivals_changed_ = true;
  CountAccepted(row.dropped_rows, time);
}

void StrandState::ApplyRow(const LabelsRow& row, ModelSnapshot::Time /*time*/) noexcept {
  LabelArrivals& arrivals = *state_.label_arrivals;
  arrivals.labelled += row.counts.matched;
  arrivals.labels += row.counts;
  for (const std::int32_t predicted : row.classes.matched) ++ArrivalsOf(predicted).pending.labelled;
  for (const std::int32_t predicted : row.classes.conflicting) ++ArrivalsOf(predicted).conflicting;
  for (const std::int32_t predicted : row.classes.late) ++ArrivalsOf(predicted).late;
  class_arrivals_changed_ = true;
}

void StrandState::ApplyRow(const MaturedRow& row, ModelSnapshot::Time time) {
  const std::size_t labelled = row.values.labelled();
  const bool forecasts = state_.declaration->numbers() != nullptr;
  if (labelled > 0) Count(row.values, time);
  for (std::size_t i = 0; i < labelled; ++i) {
    ClassArrivals& one = class_arrivals_[forecasts ? 0 : PredictedClass(row.values.view().row(i))];
    --one.pending.all;
    --one.pending.labelled;
    ++one.matured;
  }
  for (const std::int32_t predicted : row.missing_predicted_classes) {
    ClassArrivals& one = ArrivalsOf(predicted);
    --one.pending.all;
    ++one.matured;
    ++one.missing;
  }
  class_arrivals_changed_ = true;
  const auto missing = static_cast<std::int64_t>(row.missing_predicted_classes.size());
  state_.label_arrivals->matured += static_cast<std::int64_t>(labelled) + missing;
  state_.label_arrivals->missing += missing;
  history_.CountMissing(missing);
}

void StrandState::ApplyRow(const AcknowledgedRow& row, ModelSnapshot::Time time) {
  UseMonitor([&](auto& monitor) {
    monitor.Acknowledge(row.alarm_id, row.note, time, state_.observations);
  });
}

void StrandState::ApplyRow(const UpdatedRow& row, ModelSnapshot::Time time) {
  absl::StatusOr<ModelDeclaration> updated = UpdateDeclaration(*state_.declaration, row.update);
  v1::ModelUpdate update = DescribeUpdate(*state_.declaration, *updated);
  update.set_observations(state_.observations);
  *update.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
  UseMonitor(
      [&](auto& monitor) { monitor.Update(updated->monitoring, time, state_.observations); });
  SetDeclaration(*std::move(updated), row.update.mask);
  auto updates = std::make_shared<std::vector<v1::ModelUpdate>>(*state_.updates);
  updates->push_back(std::move(update));
  if (updates->size() > kMostUpdates) updates->erase(updates->begin());
  state_.updates = std::move(updates);
}

void StrandState::SetDeclaration(ModelDeclaration declaration,
                                 const google::protobuf::FieldMask& updated) {
  state_.declaration = std::make_shared<const ModelDeclaration>(std::move(declaration));
  google::protobuf::util::FieldMaskUtil::Union(google::protobuf::FieldMask(updated_), updated,
                                               &updated_);
}

void StrandState::CountAccepted(std::int64_t dropped_rows, ModelSnapshot::Time time) noexcept {
  ++state_.accepted_batches;
  AddSaturating(state_.dropped_rows, dropped_rows);
  state_.last_observation_time = time;
}

ClassArrivals& StrandState::ArrivalsOf(std::int32_t predicted_class) noexcept {
  return class_arrivals_[static_cast<std::size_t>(predicted_class)];
}

void StrandState::Observe(const PredictionBatch& batch, const RowExtras& extras,
                          bool single_precision, std::span<const ModelMonitor::RowEnd> row_ends) {
  const GroupValues& groups = extras.groups;
  // The rows that belong to the warm-up. The window is at least as long as the warm-up, so it holds
  // all of them until the bandwidth is known.
  const std::size_t missing =
      warming_up() ? state_.declaration->warmup - static_cast<std::size_t>(state_.observations) : 0;
  const std::size_t head = std::min(missing, batch.size());
  const std::size_t rest = batch.size() - head;
  const std::size_t kept_rest = std::min(rest, state_.declaration->window);
  const bool completes_warmup = missing > 0 && head == missing;

  window_.Reserve(head + kept_rest, single_precision);
  if (monitor_.has_value() && missing > 0) monitor_->KeepWarmup(groups.rows(0, head), head);
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
    if (monitor_.has_value()) watch = PrepareWatch(lenses);
  }

  if (missing > 0 && !completes_warmup) CountEarly(batch);
  if (completes_warmup) {
    early_lenses_.clear();
    lenses_ = std::move(lenses);
    for (LensState& lens : lenses_) Count(lens, warmup.view());
    if (monitor_.has_value()) monitor_->Begin(std::move(watch), warmup.view());
  }
  window_.Append(batch.rows(0, head), extras.rows(0, head));
  ModelMonitor::Addition addition;
  addition.row_ends = row_ends;
  if (monitor_.has_value()) {
    monitor_->BeginAdd(batch.rows(head, rest), groups.rows(head, rest), addition);
  }
  // No part uses what another one changes, except that the evidence waits for the statistics. They
  // come first, so that their thread does not wait.
  enum Part : std::size_t { kStatistics, kEvidence, kRows, kLenses };
  const std::size_t chunk_helpers = state_.declaration->class_count() / kChunkHelperClasses;
  ParallelLoop evidence_loop;
  if (chunk_helpers > 0) {
    evidence_loop = [&](std::size_t count, const std::function<void(std::size_t)>& part) {
      RunParts(count, chunk_helpers, part);
    };
  }
  const auto count_part = [&](std::size_t part) {
    if (part >= kLenses) return Count(lenses_[part - kLenses], batch.rows(head, rest));
    if (part < kRows && !monitor_.has_value()) return;
    if (part == kStatistics) return monitor_->AddStatistics(addition);
    if (part == kEvidence) {
      return monitor_->AddEvidence(state_.observations, evidence_loop, addition);
    }
    window_.Append(batch.rows(batch.size() - kept_rest, kept_rest),
                   extras.rows(batch.size() - kept_rest, kept_rest));
    history_.Count(batch);
    if (!monitor_.has_value()) return;
    monitor_->Measure(batch, state_.observations, addition);
    monitor_->Screen(batch);
  };
  // Without the monitor, the rows take so little time that sharing them gains nothing.
  const std::size_t row_work =
      monitor_.has_value() ? state_.declaration->class_count() + kRowWork : 0;
  RunParts(kLenses + lenses_.size(), rest * row_work / kHelperWork, std::ref(count_part));
  if (monitor_.has_value()) monitor_->EndAdd(addition);
  state_.observations += static_cast<std::int64_t>(batch.size());
}

void StrandState::ObserveForecasts(const RowValues& values, std::size_t first, std::size_t count) {
  const std::size_t width = values.class_count;
  const auto rows = [&](std::size_t begin, std::size_t n) {
    return NumberForecastBatch{
        .forecasts = std::span(values.probabilities).subspan((first + begin) * width, n * width),
        .outcomes = std::span(values.outcomes).subspan(first + begin, n)};
  };
  const auto groups = [&](std::size_t begin, std::size_t n) {
    return values.groups().rows(first + begin, n);
  };
  const auto keep = [&](std::size_t begin, std::size_t n) {
    window_.Append(rows(begin, n), values.extras().rows(first + begin, n));
  };
  // The rows that belong to the warm-up. The window is at least as long as the warm-up, so it holds
  // all of them.
  const bool warms_up = forecast_monitor_.has_value() && !forecast_monitor_->begun();
  const std::size_t missing =
      warms_up ? state_.declaration->warmup - static_cast<std::size_t>(state_.observations) : 0;
  const std::size_t head = std::min(missing, count);
  const std::size_t kept_rest = std::min(count - head, state_.declaration->window);
  window_.Reserve(head + kept_rest, values.single_precision);
  if (head > 0) {
    forecast_monitor_->KeepWarmup(groups(0, head), head);
    keep(0, head);
    CountForecasts(rows(0, head), {});
    if (head == missing) {
      const WindowView::Forecasts warmup = window_.View().CopyNewestForecasts(window_.size());
      forecast_monitor_->Begin({.forecasts = warmup.forecasts, .outcomes = warmup.outcomes},
                               history_.pairs());
    }
  }
  keep(count - kept_rest, kept_rest);
  CountForecasts(rows(head, count - head), groups(head, count - head));
}

void StrandState::CountForecasts(const NumberForecastBatch& batch, const GroupValues& groups) {
  const ForecastCells& cells =
      forecast_monitor_.has_value() ? forecast_monitor_->cells() : *forecast_cells_;
  // Few enough for the cache.
  constexpr std::size_t kRowsAtOnce = 1024;
  std::vector<ForecastRow> described(std::min(batch.size(), kRowsAtOnce));
  for (std::size_t first = 0; first < batch.size(); first += described.size()) {
    const std::size_t count = std::min(described.size(), batch.size() - first);
    const std::span<ForecastRow> rows = std::span(described).first(count);
    const NumberForecastBatch part{
        .forecasts = batch.forecasts.subspan(first * cells.width(), count * cells.width()),
        .outcomes = batch.outcomes.subspan(first, count)};
    cells.Describe(part, state_.observations + 1, rows);
    history_.Count(rows, cells.cell_count());
    if (const auto& decision = state_.declaration->numbers()->decision) {
      AddDecisions(WithKind(cells.kind(), part), *decision, history_.decisions());
    }
    if (forecast_monitor_.has_value()) {
      forecast_monitor_->Add(part, rows, groups.rows(first, count), state_.observations,
                             history_.pairs());
    }
    state_.observations += static_cast<std::int64_t>(count);
  }
}

void StrandState::RunParts(std::size_t count, std::size_t helpers,
                           const std::function<void(std::size_t)>& part) {
  if (helpers_ != nullptr && helpers > 0 && !helpers_->HasBacklog()) {
    helpers_->ParallelFor(count, part, helpers);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) part(i);
}

void StrandState::Decide(ModelSnapshot::Time time) {
  UseMonitor([&](auto& monitor) { monitor.Decide(time, state_.observations); });
}

void StrandState::Compare(const RowValues& values) noexcept {
  // A row whose predictions all matured without a label has no probabilities.
  if (!state_.comparison.has_value() || values.baseline_probabilities.empty()) return;
  state_.comparison->Add(values.view(), values.baseline());
}

void StrandState::Count(const RowValues& values, ModelSnapshot::Time time) {
  using std::chrono::minutes;
  Compare(values);
  const auto row_time = std::chrono::floor<std::chrono::seconds>(time);
  // A later time is that of the row.
  const auto time_of = [&](std::size_t i) {
    const std::chrono::sys_seconds own{std::chrono::seconds(values.time_s(i))};
    return values.time_s(i) == RowValues::kNoTime ? row_time : std::min(own, row_time);
  };
  const std::size_t size = values.labelled();
  for (std::size_t first = 0; first < size;) {
    // The observations that follow one another in the same minute.
    const std::chrono::sys_seconds start = time_of(first);
    std::size_t end = values.times_s.size() <= 1 ? size : first + 1;
    while (end < size &&
           std::chrono::floor<minutes>(time_of(end)) == std::chrono::floor<minutes>(start)) {
      ++end;
    }
    // Rows without times of their own count in the open minute, even if the clock was set back.
    if (values.time_s(first) != RowValues::kNoTime) history_.BeginEarlier(start);
    if (state_.declaration->numbers() != nullptr) {
      ObserveForecasts(values, first, end - first);
    } else {
      Observe(values.view().rows(first, end - first), values.extras().rows(first, end - first),
              values.single_precision);
    }
    if (history_.counts_earlier()) history_.EndEarlier(watch_mark());
    const auto newest = time_of(end - 1);
    Decide(newest == row_time ? time : newest);
    first = end;
  }
  UseMonitor([time](auto& monitor) { monitor.SetCountedTime(time); });
}

std::shared_ptr<const ModelSnapshot> StrandState::Snapshot() {
  if (class_arrivals_changed_) {
    // m counts, copied once for all batches that are published together.
    state_.label_arrivals->classes =
        std::make_shared<const std::vector<ClassArrivals>>(class_arrivals_);
    class_arrivals_changed_ = false;
  }
  auto snapshot = std::make_shared<ModelSnapshot>(state_);
  const auto copy = [](const std::vector<LensState>& lenses, std::vector<LensSnapshot>& out) {
    for (const LensState& lens : lenses) {
      out.push_back({.lens = lens.lens,
                     .kernel = lens.kernel,
                     .bandwidth_error = lens.bandwidth_error,
                     .blocks = {}});
      if (lens.running.has_value()) out.back().blocks = lens.running->Blocks();
    }
  };
  copy(lenses_, snapshot->lenses);
  copy(early_lenses_, snapshot->early_lenses);
  UseMonitor([&](auto& monitor) { snapshot->monitor = monitor.Snapshot(); });
  snapshot->window = window_.View();
  snapshot->reliability = history_.AllTime();
  if (state_.declaration->numbers() != nullptr) {
    snapshot->forecasts = history_.AllTimeForecasts();
    snapshot->forecast_cells = forecast_cells_;
  }
  return snapshot;
}

}  // namespace calibd::server
