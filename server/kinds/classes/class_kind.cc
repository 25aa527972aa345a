#include "server/kinds/classes/class_kind.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/binary_predictions.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/status_macros.h"
#include "server/kinds/classes/effect_size.h"
#include "server/watch/state_fields.h"

namespace calibd::server {
namespace {

void DependenceFields(StateFields& fields, SerialDependence::State& state) {
  using Stored = store::v1::MonitorState::SerialDependence;
  using Row = SerialDependence::Row;
  fields(Stored::kRowsFieldNumber, state.rows);
  std::vector<std::int32_t> labels;
  for (const Row& row : state.pool) labels.push_back(row.label);
  fields(Stored::kPoolLabelsFieldNumber, labels);
  fields.Require(labels.size() <= SerialDependence::kMostPool && (state.rows > 0 || labels.empty()),
                 "has too many rows for a pool");
  if (!fields.ok()) return;
  state.pool.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) state.pool[i].label = labels[i];
  fields.Column(Stored::kPoolXFieldNumber, state.pool, &Row::x);
  if (fields.restoring() && state.rows == 0) return;
  fields.Column(Stored::kUnfinishedLabelsFieldNumber, state.unfinished, &Row::label);
  fields.Column(Stored::kUnfinishedXFieldNumber, state.unfinished, &Row::x);
  fields.Column(Stored::kSumsFieldNumber, state.sums);
  fields.Column(Stored::kSquaresFieldNumber, state.squares);
  fields(Stored::kReachedAtFieldNumber, state.reached_at);
  fields.Require(std::ranges::min(state.squares) >= 0 && state.reached_at <= state.rows,
                 "has evidence of serial dependence that cannot be");
}

}  // namespace

ClassKind::Gathered::Gathered(const Batch& batch, std::size_t rows)
    : class_count(batch.class_count) {
  probabilities.reserve(rows * batch.class_count);
  labels.reserve(rows);
}

void ClassKind::Gathered::Add(const Batch& batch, std::size_t row) {
  const std::span<const double> g = batch.row(row);
  probabilities.insert(probabilities.end(), g.begin(), g.end());
  labels.push_back(batch.labels[row]);
}

void ClassKind::SetKernel(const RunningKernel& kernel) {
  absl::StatusOr<std::shared_ptr<const FourierBasis>> basis =
      FourierBasis::Create(kernel, class_count_);
  if (basis.ok()) basis_ = *std::move(basis);
}

std::unique_ptr<EvidenceWatch> ClassKind::NewWatch(std::int64_t first_observation,
                                                   const Monitoring& monitoring,
                                                   const EvidenceMarks& marks) const {
  return basis_ == nullptr ? nullptr
                           : std::make_unique<EvidenceWatch>(basis_, monitoring.tolerance, marks,
                                                             first_observation);
}

void ClassKind::AddStatistics(Watch& watch, const Batch& batch) {
  watch.AddStatistics(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    dependence_.Add(g, batch.labels[i], PredictedClass(g));
  }
}

void ClassKind::Save(store::v1::MonitorState& out) const {
  if (dependence_.state().rows == 0) return;
  SaveFields(dependence_.state(), *out.mutable_serial_dependence(), DependenceFields);
}

absl::Status ClassKind::RestoreSums(const store::v1::MonitorState& stored, const Watch& /*watch*/) {
  SerialDependence::State state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored.serial_dependence(), state, DependenceFields));
  const auto is_class = [this](const SerialDependence::Row& row) {
    return row.label >= 0 && static_cast<std::size_t>(row.label) < class_count_;
  };
  if (!std::ranges::all_of(state.pool, is_class) ||
      !std::ranges::all_of(state.unfinished, is_class)) {
    return absl::InvalidArgumentError("has evidence of serial dependence that cannot be");
  }
  dependence_ = SerialDependence(std::move(state));
  return absl::OkStatus();
}

void ClassKind::Describe(const Watch& /*watch*/, const Stop& stop, const EvidenceReading& reading,
                         const Monitoring& monitoring, Alarm& alarm) {
  const EffectSize effect = ComputeEffectSize(reading, {}, monitoring.significance_level);
  alarm.skce = effect.skce;
  alarm.skce_lower_bound = effect.skce_lower_bound;
  alarm.gap = (stop.total.confidence - static_cast<double>(stop.total.correct)) /
              static_cast<double>(stop.total.count);
}

std::size_t ClassKind::MaxMemory(const Monitoring& monitoring, std::size_t class_count) noexcept {
  if (monitoring.disabled) return 0;
  // One process for the model, one per group, and one for the overflow group.
  const std::size_t processes = monitoring.group_tag.empty() ? 1 : monitoring.max_groups + 2;
  return processes * (EvidenceWatch::MaxMemory(class_count) + ClassMeasure::MaxMemory()) +
         2 * SerialDependence::kMostPool * sizeof(SerialDependence::Row) + 2 * kDeviationMemory +
         EvidenceProcess::ParallelMemory(class_count) +
         class_count * kFrequencyCount * sizeof(double);
}

}  // namespace calibd::server
