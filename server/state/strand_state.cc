#include "server/state/strand_state.h"

#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>
#include <variant>

#include "server/kinds/kind_table.h"
#include "server/state/declaration_size.h"
#include "server/state/update_declaration.h"

namespace calibd::server {
namespace {

// Clients may report any count; the sum must not overflow.
void AddSaturating(std::int64_t& total, std::int64_t amount) noexcept {
  total = amount > std::numeric_limits<std::int64_t>::max() - total
              ? std::numeric_limits<std::int64_t>::max()
              : total + amount;
}

}  // namespace

StrandState::StrandState(std::shared_ptr<const ModelDeclaration> declaration, ThreadPool* helpers)
    : helpers_(helpers),
      kind_(KindOf(*declaration).NewState(declaration)),
      window_(
          {.width = declaration->row_width(),
           .capacity = declaration->window,
           .chunk_rows = WindowChunkRows(
               declaration->row_width() + declaration->feature_names.size(), declaration->window),
           .keeps_ids = declaration->max_pending > 0,
           .truths = declaration->truth_shape(),
           .feature_count = declaration->feature_names.size(),
           .keeps_groups = declaration->keeps_groups()}),
      retention_(declaration->window, SnapshotRows(*declaration)) {
  if (declaration->max_pending > 0) {
    state_.label_arrivals.emplace();
    class_arrivals_.resize(declaration->counted_classes());
    class_arrivals_changed_ = true;
  }
  state_.declaration = std::move(declaration);
}

std::optional<WatchMark> StrandState::watch_mark() const {
  const AnyMonitor* const monitor = kind_->monitor();
  const std::optional<EvidenceReading> reading =
      monitor != nullptr ? monitor->Read() : std::nullopt;
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

Alarm::Counts StrandState::raised_alarms() const noexcept {
  const AnyMonitor* const monitor = kind_->monitor();
  return monitor != nullptr ? monitor->raised() : Alarm::Counts{};
}

std::size_t StrandState::RowsTogether(std::span<const AppendedRow> rows) const {
  // Groups have alarms of their own, and rows with times of their own have a decision for each
  // minute.
  const auto* const first = rows.front().row->As<ObservationsRow>();
  if (first == nullptr || kind_->warming_up() ||
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
  WindowView::Rows all;
  all.width = state_.declaration->row_width();
  std::size_t values = 0;
  for (const AppendedRow& one : rows) values += one.row->counted()->values.size();
  all.values.reserve(values);
  std::vector<RowEnd> ends;
  for (const AppendedRow& one : rows) {
    const RowValues& row = *one.row->counted();
    all.values.insert(all.values.end(), row.values.begin(), row.values.end());
    all.truths.Append(row.truths);
    ends.push_back({.end = all.view().size(), .time = one.time});
    kind_->Compare(row);
    CountAccepted(one.row->As<ObservationsRow>()->dropped, one.time);
  }
  ends.pop_back();
  Decide(Observe(all.view(), rows.front().row->counted()->single_precision, ends),
         rows.back().time);
  if (AnyMonitor* const monitor = kind_->monitor()) monitor->SetCountedTime(rows.back().time);
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
  CountDropped(row.dropped);
  // Otherwise the batch has only dropped rows and labels, or skipped rows.
  if (row.rows > 0 || !row.dropped.any()) ++state_.rejected_batches;
  if (!row.labels) CountRejected(row.rows);
}

void StrandState::CountRejected(std::int64_t rows) noexcept {
  AddSaturating(state_.rejected_rows, rows);
  if (rows > 0) history_.CountRejected(rows);
}

void StrandState::ApplyRow(const ObservationsRow& row, ModelSnapshot::Time time) {
  Count(row.values, time);
  CountAccepted(row.dropped, time);
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
  CountAccepted(row.dropped, time);
}

void StrandState::ApplyRow(const LabelsRow& row, ModelSnapshot::Time /*time*/) noexcept {
  LabelArrivals& arrivals = *state_.label_arrivals;
  arrivals.labelled += row.counts.matched;
  arrivals.labels += row.counts;
  arrivals.ended_waiting_log_id = std::max(arrivals.ended_waiting_log_id, row.ended_waiting_log_id);
  for (const std::int32_t predicted : row.classes.matched) ++ArrivalsOf(predicted).pending.labelled;
  for (const std::int32_t predicted : row.classes.conflicting) ++ArrivalsOf(predicted).conflicting;
  for (const std::int32_t predicted : row.classes.late) ++ArrivalsOf(predicted).late;
  class_arrivals_changed_ = true;
}

void StrandState::ApplyRow(const MaturedRow& row, ModelSnapshot::Time time) {
  const std::size_t labelled = row.values.labelled();
  const RowView rows = row.values.rows();
  if (labelled > 0) Count(row.values, time);
  for (std::size_t i = 0; i < labelled; ++i) {
    ClassArrivals& one = class_arrivals_[kind_->PredictedClass(rows.rows(i, 1))];
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
  if (AnyMonitor* const monitor = kind_->monitor()) {
    monitor->Acknowledge(row.alarm_id, row.note, time, state_.observations);
  }
}

void StrandState::ApplyRow(const UpdatedRow& row, ModelSnapshot::Time time) {
  absl::StatusOr<ModelDeclaration> updated = UpdateDeclaration(*state_.declaration, row.update);
  v1::ModelUpdate update = DescribeUpdate(*state_.declaration, *updated);
  update.set_observations(state_.observations);
  *update.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
  if (AnyMonitor* const monitor = kind_->monitor()) {
    monitor->Update(updated->monitoring, time, state_.observations);
  }
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

void StrandState::CountDropped(const Dropped& dropped) noexcept {
  AddSaturating(state_.dropped_rows, dropped.rows);
  AddSaturating(state_.dropped_labels, dropped.labels);
}

void StrandState::CountAccepted(const Dropped& dropped, ModelSnapshot::Time time) noexcept {
  ++state_.accepted_batches;
  CountDropped(dropped);
  state_.last_observation_time = time;
}

ClassArrivals& StrandState::ArrivalsOf(std::int32_t predicted_class) noexcept {
  return class_arrivals_[static_cast<std::size_t>(predicted_class)];
}

KindState::Added StrandState::Observe(const RowView& rows, bool single_precision,
                                      std::span<const RowEnd> row_ends) {
  // The rows that belong to the warm-up. The window is at least as long as the warm-up, so it holds
  // all of them.
  const std::size_t missing =
      kind_->warming_up()
          ? state_.declaration->warmup - static_cast<std::size_t>(state_.observations)
          : 0;
  const std::size_t head = std::min(missing, rows.size());
  const std::size_t size = rows.size() - head;
  const std::size_t kept = std::min(size, state_.declaration->window);
  window_.Reserve(head + kept, single_precision);
  KindState::Added added;
  if (head > 0) {
    const RowView warmup = rows.rows(0, head);
    window_.Append(warmup);
    added = kind_->AddWarmup(warmup, state_.observations, history_.counting());
    state_.observations += static_cast<std::int64_t>(head);
    if (head == missing) {
      const WindowView::Rows all = window_.View().CopyNewestRows(window_.size());
      kind_->EndWarmup(all.view(), history_.counting());
    }
  }
  if (size == 0) return added;
  const RunParts run = [this](std::size_t count, std::size_t helpers,
                              const std::function<void(std::size_t)>& part) {
    Run(count, helpers, part);
  };
  const RowView rest = rows.rows(head, size);
  const std::unique_ptr<KindAdding> adding =
      kind_->BeginAdd(rest, state_.observations, row_ends, run, history_.counting());
  const auto add = [&](std::size_t part) {
    if (part < adding->parts()) return adding->Run(part);
    window_.Append(rest.rows(size - kept, kept));
  };
  Run(adding->parts() + 1, kind_->Helpers(size), add);
  state_.observations += static_cast<std::int64_t>(size);
  return adding->End();
}

void StrandState::Run(std::size_t count, std::size_t helpers,
                      const std::function<void(std::size_t)>& part) {
  if (helpers_ != nullptr && helpers > 0 && !helpers_->HasBacklog()) {
    helpers_->ParallelFor(count, part, helpers);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) part(i);
}

void StrandState::Decide(KindState::Added added, ModelSnapshot::Time time) {
  if (added.has_value()) kind_->monitor()->Decide(*std::move(added), time, state_.observations);
}

void StrandState::Count(const RowValues& values, ModelSnapshot::Time time) {
  using std::chrono::minutes;
  kind_->Compare(values);
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
    KindState::Added added =
        Observe(values.rows().rows(first, end - first), values.single_precision);
    const auto newest = time_of(end - 1);
    Decide(std::move(added), newest == row_time ? time : newest);
    // The decision adds the evidence of classes and groups to that of the model.
    if (history_.counts_earlier()) history_.EndEarlier(watch_mark());
    first = end;
  }
  if (AnyMonitor* const monitor = kind_->monitor()) monitor->SetCountedTime(time);
}

std::shared_ptr<const ModelSnapshot> StrandState::Snapshot() {
  if (class_arrivals_changed_) {
    // m counts, copied once for all batches that are published together.
    state_.label_arrivals->classes =
        std::make_shared<const std::vector<ClassArrivals>>(class_arrivals_);
    class_arrivals_changed_ = false;
  }
  auto snapshot = std::make_shared<ModelSnapshot>(state_);
  kind_->Fill(*snapshot);
  snapshot->window = window_.View();
  snapshot->SetScores(history_.AllTime());
  return snapshot;
}

}  // namespace calibd::server
