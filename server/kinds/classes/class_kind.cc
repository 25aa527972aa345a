#include "server/kinds/classes/class_kind.h"

#include <span>
#include <utility>
#include <vector>

#include "calibd/core/binary_predictions.h"
#include "calibd/core/fourier_basis.h"
#include "server/kinds/classes/effect_size.h"
#include "server/watch/dependence_state.h"

namespace calibd::server {
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

void ClassKind::Save(store::v1::MonitorState& out) const { SaveDependence(dependence_, out); }

absl::Status ClassKind::RestoreSums(const store::v1::MonitorState& stored, const Watch& /*watch*/) {
  return RestoreDependence(stored, SerialDependence::Shape::OfClasses(class_count_), dependence_);
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
         (monitoring.reference_rows > 0 ? ReferenceWatch::MaxMemory() : 0) + kDependenceMemory +
         2 * kDeviationMemory + EvidenceProcess::ParallelMemory(class_count) +
         sizeof(ErrorStretch) + class_count * kFrequencyCount * sizeof(double);
}

}  // namespace calibd::server
