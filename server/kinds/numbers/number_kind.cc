#include "server/kinds/numbers/number_kind.h"

#include <algorithm>
#include <variant>

#include "calibd/core/status_macros.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

// The parts of a reading that do not depend on what a model predicts.
EvidenceReading ToEvidenceReading(const ForecastEvidenceReading& forecasts) {
  static_assert(kForecastFamilyCount <= kFamilyCount);
  EvidenceReading reading;
  reading.count = forecasts.count;
  reading.evidence.log10_e_value = forecasts.evidence.log10_e_value;
  std::ranges::copy(forecasts.evidence.family_log10_e_value,
                    reading.evidence.family_log10_e_value.begin());
  std::ranges::copy(forecasts.evidence.family_share, reading.evidence.family_share.begin());
  reading.maximum = forecasts.maximum;
  reading.drift = forecasts.drift;
  reading.evidence_reached_at = forecasts.evidence_reached_at;
  reading.drift_reached_at = forecasts.drift_reached_at;
  return reading;
}

void TiesFields(StateFields& fields, TiedForecastState& ties) {
  using Stored = store::v1::ForecastState::Ties;
  fields(Stored::kCellsFieldNumber, ties.cells);
  fields(Stored::kLogBetsFieldNumber, ties.log_bets);
  fields(Stored::kLevelBetsFieldNumber, ties.level_bets);
  fields(Stored::kLogLevelsFieldNumber, ties.log_levels);
  fields(Stored::kLogLevelShiryaevRobertsFieldNumber, ties.log_level_shiryaev_roberts);
}

void ForecastEvidenceFields(StateFields& fields, ForecastEvidenceState& state) {
  using Stored = store::v1::ForecastState;
  fields(Stored::kCountsFieldNumber, state.counts, CountsFields);
  fields(Stored::kMaximumFieldNumber, state.maximum, MaximumFields);
  fields(Stored::kShiryaevRobertsMaximumFieldNumber, state.shiryaev_roberts_maximum, MaximumFields);
  fields(Stored::kEvidenceReachedAtFieldNumber, state.evidence_reached_at);
  fields(Stored::kDriftReachedAtFieldNumber, state.drift_reached_at);
  fields(Stored::kLocationScaleIdsFieldNumber, state.location_scale_ids);
  // A state that names no such expert has the present ones.
  if (fields.restoring() && state.location_scale_ids.empty()) {
    state.location_scale_ids.assign(kLocationScaleIds.begin(), kLocationScaleIds.end());
  }
  fields(Stored::kHistogramWeightsFieldNumber, state.histogram_weights);
  fields(Stored::kStratumHistogramWeightsFieldNumber, state.stratum_histogram_weights);
  fields(Stored::kLogOffsetFieldNumber, state.log_offset);
  fields(Stored::kLogEValueFieldNumber, state.log_e_value);
  fields(Stored::kLogHistogramsFieldNumber, state.log_histograms);
  fields(Stored::kLogShiryaevRobertsFieldNumber, state.log_shiryaev_roberts);
  fields(Stored::kRecentFieldNumber, state.recent);
  fields(Stored::kPendingFieldNumber, state.pending);
  fields(Stored::kTiesFieldNumber, state.ties, TiesFields);
}

struct ForecastWatchState {
  std::int64_t first_observation = 1;
  ForecastEvidenceState evidence;
};

void ForecastWatchFields(StateFields& fields, ForecastWatchState& state) {
  using Stored = store::v1::WatchState;
  fields(Stored::kFirstObservationFieldNumber, state.first_observation);
  fields(Stored::kForecastFieldNumber, state.evidence, ForecastEvidenceFields);
}

struct DiscrepancyState {
  DiscrepancyKernel kernel;
  ForecastDiscrepancy::State sums;
};

void DiscrepancyFields(StateFields& fields, DiscrepancyState& state) {
  using Stored = store::v1::MonitorState::Discrepancy;
  fields(Stored::kOutcomeLengthFieldNumber, state.kernel.outcome_length);
  fields(Stored::kForecastLengthFieldNumber, state.kernel.forecast_length);
  fields(Stored::kCenterFieldNumber, state.kernel.center);
  fields(Stored::kSumsFieldNumber, state.sums.sums);
  fields(Stored::kSquareSumFieldNumber, state.sums.square_sum);
  fields(Stored::kProjectionsFieldNumber, state.sums.projections, MomentsFields);
  ForecastBlocks::State& blocks = state.sums.blocks;
  fields(Stored::kBlocksFieldNumber, blocks.blocks, MomentsFields);
  fields(Stored::kBlockForecastsFieldNumber, blocks.forecasts);
  fields(Stored::kBlockOutcomesFieldNumber, blocks.outcomes);
  fields(Stored::kBlockResidualsFieldNumber, blocks.residuals);
  fields(Stored::kBlockSumsFieldNumber, blocks.sums);
  fields(Stored::kBlockSquareSumFieldNumber, blocks.square_sum);
}

// What NumberKind::Choose chose; unset before.
using ChosenEdges = std::optional<decltype(ForecastStrata::edges)>;

void EdgesFields(StateFields& fields, ChosenEdges& edges) {
  fields(store::v1::MonitorState::kStratumEdgesFieldNumber, edges);
}

struct NumberSums {
  std::optional<DiscrepancyState> discrepancy;
  std::optional<DecisionTotals> decisions;
};

void NumberSumsFields(StateFields& fields, NumberSums& sums) {
  using Stored = store::v1::MonitorState;
  fields(Stored::kDiscrepancyFieldNumber, sums.discrepancy, DiscrepancyFields);
  fields(Stored::kDecisionFieldNumber, sums.decisions, DecisionFields);
}

}  // namespace

EvidenceReading ForecastWatch::Read() const { return ToEvidenceReading(evidence_.Read()); }

void ForecastWatch::Save(store::v1::WatchState& out) const {
  SaveFields(
      ForecastWatchState{.first_observation = first_observation_, .evidence = evidence_.Save()},
      out, ForecastWatchFields);
}

absl::Status ForecastWatch::Restore(const store::v1::WatchState& stored) {
  ForecastWatchState state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, ForecastWatchFields));
  first_observation_ = state.first_observation;
  return evidence_.Restore(state.evidence);
}

void NumberKind::SetCells(const ForecastStrata& strata) {
  cells_ = *ForecastCells::Create(cells_->kind(), strata, seed_, tolerance_);
  chosen_ = true;
}

void NumberKind::BeginDiscrepancy() {
  discrepancy_.reset();
  if (!kernel_.has_value()) return;
  absl::StatusOr<ForecastDiscrepancy> discrepancy =
      ForecastDiscrepancy::Create(cells_->kind(), *kernel_);
  if (discrepancy.ok()) discrepancy_ = *std::move(discrepancy);
}

void NumberKind::Choose(std::span<const double> forecasts) {
  SetCells(StrataOfForecasts(cells_->kind(), forecasts));
  const absl::StatusOr<DiscrepancyKernel> kernel =
      ChooseDiscrepancyKernel(cells_->kind(), forecasts);
  if (kernel.ok()) kernel_ = *kernel;
  BeginDiscrepancy();
}

void NumberKind::AddStatistics(const Watch& /*watch*/, const Batch& batch) {
  AddToSeries(*cells_, batch.values, batch.described, dependence_);
  if (discrepancy_.has_value()) discrepancy_->Add(batch.values, batch.blocks);
  if (!decision_.has_value()) return;
  AddDecisions(WithKind(cells_->kind(), batch.values), *decision_, decisions_);
}

void NumberKind::Describe(const Watch& watch, const Stop& /*stop*/,
                          const EvidenceReading& /*reading*/, const Monitoring& /*monitoring*/,
                          Alarm& alarm) const {
  const auto coverage = CoverageOf(*cells_, watch.ReadForecasts().counts, {});
  if (coverage.has_value()) alarm.gap = IntervalOf(*coverage).gap;
}

WatchSnapshot NumberKind::SnapshotOf(const Watch& watch, bool is_model,
                                     const Monitoring& monitoring) const {
  auto details = std::make_shared<ForecastWatchDetails>();
  details->cells = cells_;
  details->reading = watch.ReadForecasts();
  if (decision_.has_value() && is_model) {
    const std::optional<DecisionReading> reading =
        ReadDecisions(*decision_, decisions_, monitoring.significance_level);
    if (reading.has_value()) details->decision = {.declared = *decision_, .reading = *reading};
  }
  if (discrepancy_.has_value() && is_model) {
    details->discrepancy = {.kernel = *kernel_,
                            .unbiased = discrepancy_->Unbiased(),
                            .interval = discrepancy_->Interval(monitoring.significance_level),
                            .blocks = discrepancy_->blocks().moments()};
  }
  WatchSnapshot snapshot;
  snapshot.first_observation = watch.first_observation();
  snapshot.reading = ToEvidenceReading(details->reading);
  snapshot.details = std::move(details);
  return snapshot;
}

void NumberKind::Updated(const Monitoring& monitoring) {
  const double former = std::exchange(tolerance_, monitoring.tolerance);
  if (chosen_ && former != tolerance_) SetCells(cells_->strata());
}

void NumberKind::Restarted() {
  BeginDiscrepancy();
  decisions_ = {};
  dependence_ = {};
}

void NumberKind::Save(store::v1::MonitorState& out) const {
  if (!chosen_) return;
  SaveDependence(dependence_, out);
  SaveFields(ChosenEdges(cells_->strata().edges), out, EdgesFields);
  NumberSums sums;
  if (discrepancy_.has_value()) {
    sums.discrepancy = {.kernel = *kernel_, .sums = discrepancy_->Save()};
  }
  if (decision_.has_value()) sums.decisions = decisions_;
  SaveFields(std::move(sums), out, NumberSumsFields);
}

absl::Status NumberKind::Restore(const store::v1::MonitorState& stored) {
  ChosenEdges edges;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, edges, EdgesFields));
  if (!edges.has_value()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(
      cells_, ForecastCells::Create(cells_->kind(), {.edges = *edges}, seed_, tolerance_));
  chosen_ = true;
  return absl::OkStatus();
}

absl::Status NumberKind::RestoreSums(const store::v1::MonitorState& stored, const Watch& watch) {
  CALIBD_RETURN_IF_ERROR(
      RestoreDependence(stored, SerialDependence::Shape::OfForecasts(), dependence_));
  NumberSums sums;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, sums, NumberSumsFields));
  if (sums.discrepancy.has_value()) {
    kernel_ = sums.discrepancy->kernel;
    BeginDiscrepancy();
    if (!discrepancy_.has_value() || sums.discrepancy->sums.projections.count != watch.count()) {
      return absl::InvalidArgumentError("has a discrepancy that cannot be");
    }
    CALIBD_RETURN_IF_ERROR(discrepancy_->Restore(sums.discrepancy->sums));
  }
  if (sums.decisions.has_value() != decision_.has_value()) {
    return absl::InvalidArgumentError("has a decision that cannot be, or none");
  }
  if (!decision_.has_value()) return absl::OkStatus();
  if (sums.decisions->gaps.count != watch.count()) {
    return absl::InvalidArgumentError("has a decision that cannot be");
  }
  decisions_ = *sums.decisions;
  return absl::OkStatus();
}

std::size_t NumberKind::MaxMemory(const Monitoring& monitoring,
                                  const NumberForecastKind& kind) noexcept {
  if (monitoring.disabled) return 0;
  // One watch for the model, one per group, and one for the overflow group.
  const std::size_t watches = monitoring.group_tag.empty() ? 1 : monitoring.max_groups + 2;
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  const auto* const samples = std::get_if<SampleForecasts>(&kind);
  constexpr std::size_t kMostCells = 64;
  constexpr std::size_t kNormalCells = 24;
  const std::size_t cells = quantiles != nullptr ? quantiles->levels.size() + 1
                            : samples != nullptr ? kMostCells
                                                 : kNormalCells;
  // A snapshot has counts of its own.
  const std::size_t counts = (kStratumKinds * kForecastStrata + 1) * cells * sizeof(std::int64_t);
  return watches * (ForecastEvidence::MaxMemory(cells, quantiles != nullptr) +
                    2 * (counts + sizeof(ForecastWatchDetails))) +
         CoverageMeasure::MaxMemory(CoverageMeasure::Of::kModel, cells, quantiles != nullptr) +
         (watches - 1) *
             CoverageMeasure::MaxMemory(CoverageMeasure::Of::kGroup, cells, quantiles != nullptr) +
         kDependenceMemory + kCentralProbabilities.size() * kDeviationMemory +
         sizeof(ErrorStretch) + 2 * ForecastCells::MaxMemory() +
         ForecastDiscrepancy::MaxMemory(kind);
}

}  // namespace calibd::server
