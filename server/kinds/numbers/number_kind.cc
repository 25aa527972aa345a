#include "server/kinds/numbers/number_kind.h"

#include <algorithm>
#include <variant>

#include "calibd/core/status_macros.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

using StoredReals = google::protobuf::RepeatedField<double>;

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

std::vector<double> GetReals(const StoredReals& stored) { return {stored.begin(), stored.end()}; }

void PutReals(const std::vector<double>& values, StoredReals& out) {
  out.Add(values.begin(), values.end());
}

void PutEvidence(const ForecastEvidenceState& state, store::v1::ForecastState& out) {
  PutCounts(state.counts, *out.mutable_counts());
  PutMaximum(state.maximum, *out.mutable_maximum());
  PutMaximum(state.shiryaev_roberts_maximum, *out.mutable_shiryaev_roberts_maximum());
  out.set_evidence_reached_at(state.evidence_reached_at);
  out.set_drift_reached_at(state.drift_reached_at);
  PutReals(state.histogram_weights, *out.mutable_histogram_weights());
  PutReals(state.stratum_histogram_weights, *out.mutable_stratum_histogram_weights());
  out.set_log_offset(state.log_offset);
  PutReals(state.log_histograms, *out.mutable_log_histograms());
  PutReals(state.log_shiryaev_roberts, *out.mutable_log_shiryaev_roberts());
  PutReals(state.recent, *out.mutable_recent());
  out.mutable_pending()->Add(state.pending.begin(), state.pending.end());
}

ForecastEvidenceState GetEvidence(const store::v1::ForecastState& stored) {
  return {.counts = GetCounts(stored.counts()),
          .maximum = GetMaximum(stored.maximum()),
          .shiryaev_roberts_maximum = GetMaximum(stored.shiryaev_roberts_maximum()),
          .evidence_reached_at = stored.evidence_reached_at(),
          .drift_reached_at = stored.drift_reached_at(),
          .histogram_weights = GetReals(stored.histogram_weights()),
          .stratum_histogram_weights = GetReals(stored.stratum_histogram_weights()),
          .log_offset = stored.log_offset(),
          .log_histograms = GetReals(stored.log_histograms()),
          .log_shiryaev_roberts = GetReals(stored.log_shiryaev_roberts()),
          .recent = GetReals(stored.recent()),
          .pending = {stored.pending().begin(), stored.pending().end()}};
}

void PutDiscrepancy(const DiscrepancyKernel& kernel, const ForecastDiscrepancy& discrepancy,
                    store::v1::MonitorState::Discrepancy& out) {
  out.set_outcome_length(kernel.outcome_length);
  out.set_forecast_length(kernel.forecast_length);
  out.set_center(kernel.center);
  const ForecastDiscrepancy::State state = discrepancy.Save();
  PutReals(state.sums, *out.mutable_sums());
  out.set_square_sum(state.square_sum);
  PutMoments(state.projections, *out.mutable_projections());
  const ForecastBlocks::State& blocks = state.blocks;
  PutMoments(blocks.blocks, *out.mutable_blocks());
  PutReals(blocks.forecasts, *out.mutable_block_forecasts());
  PutReals(blocks.outcomes, *out.mutable_block_outcomes());
  out.set_block_residuals(static_cast<std::int64_t>(blocks.residuals));
  PutReals(blocks.sums, *out.mutable_block_sums());
  out.set_block_square_sum(blocks.square_sum);
}

ForecastDiscrepancy::State GetDiscrepancy(const store::v1::MonitorState::Discrepancy& stored) {
  return {.sums = GetReals(stored.sums()),
          .square_sum = stored.square_sum(),
          .projections = GetMoments(stored.projections()),
          .blocks = {.blocks = GetMoments(stored.blocks()),
                     .forecasts = GetReals(stored.block_forecasts()),
                     .outcomes = GetReals(stored.block_outcomes()),
                     .residuals = static_cast<std::size_t>(stored.block_residuals()),
                     .sums = GetReals(stored.block_sums()),
                     .square_sum = stored.block_square_sum()}};
}

}  // namespace

EvidenceReading ForecastWatch::Read() const { return ToEvidenceReading(evidence_.Read()); }

void ForecastWatch::Save(store::v1::WatchState& out) const {
  out.set_first_observation(first_observation_);
  PutEvidence(evidence_.Save(), *out.mutable_forecast());
}

absl::Status ForecastWatch::Restore(const store::v1::WatchState& stored) {
  first_observation_ = stored.first_observation();
  return evidence_.Restore(GetEvidence(stored.forecast()));
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
}

void NumberKind::Save(store::v1::MonitorState& out) const {
  if (!chosen_) return;
  for (const StratumEdges& edges : cells_->strata().edges) {
    out.mutable_stratum_edges()->Add(edges.begin(), edges.end());
  }
  if (discrepancy_.has_value()) PutDiscrepancy(*kernel_, *discrepancy_, *out.mutable_discrepancy());
  if (decision_.has_value()) PutDecisions(decisions_, *out.mutable_decision());
}

absl::Status NumberKind::Restore(const store::v1::MonitorState& stored) {
  if (stored.stratum_edges_size() == 0) return absl::OkStatus();
  constexpr std::size_t kEdges = kForecastStrata - 1;
  ForecastStrata strata;
  if (static_cast<std::size_t>(stored.stratum_edges_size()) != kStratumKinds * kEdges) {
    return absl::InvalidArgumentError("has edges of strata that cannot be");
  }
  for (std::size_t i = 0; i < kStratumKinds * kEdges; ++i) {
    strata.edges[i / kEdges][i % kEdges] = stored.stratum_edges(static_cast<int>(i));
  }
  CALIBD_ASSIGN_OR_RETURN(cells_, ForecastCells::Create(cells_->kind(), strata, seed_, tolerance_));
  chosen_ = true;
  return absl::OkStatus();
}

absl::Status NumberKind::RestoreSums(const store::v1::MonitorState& stored, const Watch& watch) {
  if (stored.has_discrepancy()) {
    const store::v1::MonitorState::Discrepancy& from = stored.discrepancy();
    kernel_ = DiscrepancyKernel{.outcome_length = from.outcome_length(),
                                .forecast_length = from.forecast_length(),
                                .center = from.center()};
    BeginDiscrepancy();
    if (!discrepancy_.has_value() || from.projections().count() != watch.count()) {
      return absl::InvalidArgumentError("has a discrepancy that cannot be");
    }
    CALIBD_RETURN_IF_ERROR(discrepancy_->Restore(GetDiscrepancy(from)));
  }
  if (stored.has_decision() != decision_.has_value()) {
    return absl::InvalidArgumentError("has a decision that cannot be, or none");
  }
  if (stored.has_decision() &&
      (!GetDecisions(stored.decision(), decisions_) || decisions_.gaps.count != watch.count())) {
    return absl::InvalidArgumentError("has a decision that cannot be");
  }
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
  const std::size_t counts = kStratumKinds * kForecastStrata * cells * sizeof(std::int64_t);
  return watches *
             (ForecastEvidence::MaxMemory(cells) + 2 * (counts + sizeof(ForecastWatchDetails))) +
         CoverageMeasure::MaxMemory(CoverageMeasure::Of::kModel, cells) +
         (watches - 1) * CoverageMeasure::MaxMemory(CoverageMeasure::Of::kGroup, cells) +
         2 * ForecastCells::MaxMemory() + ForecastDiscrepancy::MaxMemory(kind);
}

}  // namespace calibd::server
