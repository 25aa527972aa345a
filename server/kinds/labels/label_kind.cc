#include "server/kinds/labels/label_kind.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "calibd/core/status_macros.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/state_fields.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

EvidenceReading ToEvidenceReading(const LabelEvidenceReading& labels) {
  EvidenceReading reading;
  reading.count = labels.count;
  reading.evidence.log10_e_value = labels.log10_e_value;
  reading.maximum = labels.maximum;
  reading.drift.log10_now = labels.log10_drift;
  reading.drift.maximum = labels.drift_maximum;
  reading.evidence_reached_at = labels.evidence_reached_at;
  reading.drift_reached_at = labels.drift_reached_at;
  return reading;
}

// The sum of the drift statistics of each label.
std::vector<double> DriftOfLabels(const LabelEvidenceState& state, std::size_t label_count) {
  std::vector<double> drift(label_count);
  for (std::size_t k = 0; k < label_count; ++k) {
    const auto first = state.shiryaev_roberts.begin() + static_cast<std::ptrdiff_t>(k * kLabelBets);
    drift[k] = std::accumulate(first, first + kLabelBets, 0.0);
  }
  return drift;
}

struct LabelWatchState {
  std::int64_t first_observation = 1;
  LabelEvidenceState evidence;
};

void EvidenceFields(StateFields& fields, LabelEvidenceState& state) {
  using Stored = store::v1::LabelState;
  fields(Stored::kCountFieldNumber, state.count);
  fields(Stored::kOddsRatiosFieldNumber, state.odds_ratios);
  fields(Stored::kInversesFieldNumber, state.inverses);
  fields(Stored::kHistogramFieldNumber, state.histogram);
  fields(Stored::kShiryaevRobertsFieldNumber, state.shiryaev_roberts);
  fields(Stored::kBinCountFieldNumber, state.bin_count);
  fields(Stored::kBinHeldFieldNumber, state.bin_held);
  fields(Stored::kBinStatedFieldNumber, state.bin_stated);
  fields(Stored::kMaximumFieldNumber, state.maximum, MaximumFields);
  fields(Stored::kDriftMaximumFieldNumber, state.drift_maximum, MaximumFields);
  fields(Stored::kEvidenceReachedAtFieldNumber, state.evidence_reached_at);
  fields(Stored::kDriftReachedAtFieldNumber, state.drift_reached_at);
}

void LabelWatchFields(StateFields& fields, LabelWatchState& state) {
  using Stored = store::v1::WatchState;
  fields(Stored::kFirstObservationFieldNumber, state.first_observation);
  fields(Stored::kLabelsFieldNumber, state.evidence, EvidenceFields);
  fields.Require(state.first_observation >= 1, "has evidence of labels that cannot be");
}

}  // namespace

EvidenceReading LabelWatch::Read() const {
  // SnapshotOf reads the evidence of each label.
  const LabelEvidenceState& state = evidence_.Save();
  EvidenceReading reading;
  reading.count = state.count;
  reading.evidence.log10_e_value = evidence_.LogEValue() / std::numbers::ln10;
  reading.drift.log10_now = evidence_.LogDrift() / std::numbers::ln10;
  reading.maximum = state.maximum;
  reading.drift.maximum = state.drift_maximum;
  reading.evidence_reached_at = state.evidence_reached_at;
  reading.drift_reached_at = state.drift_reached_at;
  return reading;
}

void LabelWatch::Save(store::v1::WatchState& out) const {
  SaveFields(LabelWatchState{.first_observation = first_observation_, .evidence = evidence_.Save()},
             out, LabelWatchFields);
}

absl::Status LabelWatch::Restore(const store::v1::WatchState& stored) {
  LabelWatchState state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, LabelWatchFields));
  first_observation_ = state.first_observation;
  return evidence_.Restore(state.evidence)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("has evidence of labels that cannot be");
}

void LabelKind::AddStatistics(const Watch& /*watch*/, const Batch& batch) {
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const MultilabelBatch one = batch.rows(row, 1);
    dependence_.AddLabels(RowDeviation(batch, row), one.probabilities, one.truths);
  }
}

void LabelKind::Screen(std::span<const double> probabilities) noexcept {
  const auto is_certain = [](double p) { return p == 0 || p == 1; };
  for (std::size_t i = 0; i < probabilities.size(); i += label_count_) {
    const bool certain = std::ranges::all_of(probabilities.subspan(i, label_count_), is_certain);
    certain_rows_ = certain ? std::min(certain_rows_ + 1, kMostCertainRows) : 0;
  }
}

void LabelKind::Describe(const Watch& watch, const Stop& /*stop*/,
                         const EvidenceReading& /*reading*/, const Monitoring& /*monitoring*/,
                         Alarm& alarm) {
  const LabelEvidence& evidence = watch.evidence();
  const std::vector<double> values = alarm.kind == Alarm::Kind::kDrift
                                         ? DriftOfLabels(evidence.Save(), evidence.label_count())
                                         : evidence.Read().label_log10_e_values;
  alarm.label = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  // The gap of the label, from the bins of its evidence.
  std::int64_t truths = 0;
  double gap = 0;
  for (std::size_t b = *alarm.label * kLabelBins; b < (*alarm.label + 1) * kLabelBins; ++b) {
    truths += evidence.Save().bin_count[b];
    gap += evidence.Save().bin_stated[b] - static_cast<double>(evidence.Save().bin_held[b]);
  }
  alarm.gap = truths == 0 ? 0 : gap / static_cast<double>(truths);
}

WatchSnapshot LabelKind::SnapshotOf(const Watch& watch, bool /*is_model*/,
                                    const Monitoring& /*monitoring*/) {
  auto details = std::make_shared<LabelWatchDetails>();
  details->reading = watch.evidence().Read();
  WatchSnapshot snapshot;
  snapshot.first_observation = watch.first_observation();
  snapshot.reading = ToEvidenceReading(details->reading);
  snapshot.details = std::move(details);
  return snapshot;
}

std::size_t LabelKind::MaxMemory(const Monitoring& monitoring, std::size_t label_count) noexcept {
  if (monitoring.disabled) return 0;
  return LabelEvidence::MaxMemory(label_count) +
         2 * (sizeof(LabelWatchDetails) + label_count * sizeof(double)) + kDeviationMemory +
         sizeof(ErrorStretch) + kDependenceMemory + (label_count + 1) * LabelMeasure::MaxMemory();
}

}  // namespace calibd::server
