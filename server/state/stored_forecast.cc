// Conversion of the state of a model of forecasts to and from the messages of the store.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/status_macros.h"
#include "server/watch/forecast_monitor.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

using StoredReals = google::protobuf::RepeatedField<double>;

void PutForecastCounts(const ForecastCounts& counts, store::v1::ForecastCounts& out) {
  out.mutable_strata()->Add(counts.strata.begin(), counts.strata.end());
  out.set_crps(counts.crps);
  out.set_log_score(counts.log_score);
  out.set_t(counts.t);
  out.set_t_square(counts.t_square);
}

ForecastCounts GetForecastCounts(const store::v1::ForecastCounts& stored) {
  ForecastCounts counts;
  counts.strata.assign(stored.strata().begin(), stored.strata().end());
  counts.crps = stored.crps();
  counts.log_score = stored.log_score();
  counts.t = stored.t();
  counts.t_square = stored.t_square();
  return counts;
}

void PutMaximum(const RunningMaximum& maximum, store::v1::RunningMaximum& out) {
  out.set_log_value(maximum.log_value);
  out.set_at(maximum.at);
}

RunningMaximum GetMaximum(const store::v1::RunningMaximum& stored) {
  return {.log_value = stored.log_value(), .at = stored.at()};
}

std::vector<double> GetReals(const StoredReals& stored) { return {stored.begin(), stored.end()}; }

void PutEvidence(const ForecastEvidenceState& state, store::v1::ForecastState& out) {
  PutForecastCounts(state.counts, *out.mutable_counts());
  PutMaximum(state.maximum, *out.mutable_maximum());
  PutMaximum(state.shiryaev_roberts_maximum, *out.mutable_shiryaev_roberts_maximum());
  out.set_evidence_reached_at(state.evidence_reached_at);
  out.set_drift_reached_at(state.drift_reached_at);
  const auto put = [](const std::vector<double>& values, StoredReals& to) {
    to.Add(values.begin(), values.end());
  };
  put(state.log_histograms, *out.mutable_log_histograms());
  put(state.log_shiryaev_roberts, *out.mutable_log_shiryaev_roberts());
  put(state.recent, *out.mutable_recent());
  out.mutable_pending()->Add(state.pending.begin(), state.pending.end());
}

ForecastEvidenceState GetEvidence(const store::v1::ForecastState& stored) {
  return {.counts = GetForecastCounts(stored.counts()),
          .maximum = GetMaximum(stored.maximum()),
          .shiryaev_roberts_maximum = GetMaximum(stored.shiryaev_roberts_maximum()),
          .evidence_reached_at = stored.evidence_reached_at(),
          .drift_reached_at = stored.drift_reached_at(),
          .log_histograms = GetReals(stored.log_histograms()),
          .log_shiryaev_roberts = GetReals(stored.log_shiryaev_roberts()),
          .recent = GetReals(stored.recent()),
          .pending = {stored.pending().begin(), stored.pending().end()}};
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

void PutCoverage(const CoverageSums& sums, store::v1::ErrorState::Sums& out) {
  out.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) out.set_start_time_us(ToMicroseconds(*sums.start_time));
  PutForecastCounts(sums.counts, *out.mutable_forecasts());
}

bool GetCoverage(const store::v1::ErrorState::Sums& stored, CoverageSums& out) {
  const std::size_t cells = out.counts.cell_count();
  out.first_observation = stored.first_observation();
  out.start_time.reset();
  if (stored.has_start_time_us()) out.start_time = ToTime(stored.start_time_us());
  out.counts = GetForecastCounts(stored.forecasts());
  return out.counts.cell_count() == cells && out.counts.IsValid() && out.first_observation >= 1;
}

// spacing: the number of observations between two marks. cells: the counts of the watch.
bool GetMark(const store::v1::ErrorState::ForecastMark& stored, std::int64_t spacing,
             std::span<const std::int64_t> cells, CoverageMark& out) {
  out.first_observation = stored.first_observation();
  if (stored.has_start_time_us()) out.start_time = ToTime(stored.start_time_us());
  if (out.first_observation < 1 || !GetSums(stored.sums(), out.sums) ||
      out.sums.cells.size() != cells.size()) {
    return false;
  }
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (out.sums.cells[c] > cells[c]) return false;
  }
  out.index = out.sums.count / spacing;
  return out.index >= 1 && out.sums.count % spacing == 0;
}

}  // namespace

void CoverageWatch::Save(store::v1::ErrorState& out) const {
  PutCoverage(since_start_, *out.mutable_since_start());
  PutCoverage(sums_, *out.mutable_sums());
  if (acknowledged_limit_.has_value()) out.set_acknowledged_limit(*acknowledged_limit_);
  out.set_over(over_);
  out.set_over_recent(over_recent_);
  out.set_next_decision(next_decision_);
  if (marks_ == nullptr) return;
  for (std::size_t m = 0; m < marks_->size(); ++m) {
    const CoverageMark& mark = (*marks_)[m];
    store::v1::ErrorState::ForecastMark& to = *out.add_forecast_marks();
    to.set_first_observation(mark.first_observation);
    if (mark.start_time.has_value()) to.set_start_time_us(ToMicroseconds(*mark.start_time));
    PutSums(mark.sums, *to.mutable_sums());
    to.set_next_decision(next_checks_[m]);
  }
  PutSums(since_mark_, *out.mutable_forecasts_since_mark());
}

absl::Status CoverageWatch::Restore(const store::v1::ErrorState& stored) {
  if (!GetCoverage(stored.since_start(), since_start_) || !GetCoverage(stored.sums(), sums_)) {
    return absl::InvalidArgumentError("the counts of the coverage are impossible");
  }
  auto marks = std::make_shared<std::vector<CoverageMark>>();
  const std::vector<std::int64_t> cells = sums_.counts.Cells();
  std::int64_t before = 0;
  for (const store::v1::ErrorState::ForecastMark& mark : stored.forecast_marks()) {
    if (marks_ == nullptr || !GetMark(mark, kMarkSpacing, cells, marks->emplace_back()) ||
        marks->back().index <= before) {
      return absl::InvalidArgumentError("the marks of the coverage are impossible");
    }
    before = marks->back().index;
    next_checks_.push_back(mark.next_decision());
  }
  if (!GetSums(stored.forecasts_since_mark(), since_mark_) || !since_mark_.cells.empty()) {
    return absl::InvalidArgumentError("the scores of the coverage are impossible");
  }
  if (marks_ != nullptr) marks_ = std::move(marks);
  count_ = sums_.counts.count();
  if (stored.has_acknowledged_limit()) acknowledged_limit_ = stored.acknowledged_limit();
  over_ = stored.over();
  over_recent_ = stored.over_recent();
  next_decision_ = stored.next_decision();
  return absl::OkStatus();
}

void ForecastMonitor::Save(store::v1::MonitorState& out) const {
  const auto save = [](const Watch& watch, store::v1::WatchState& to) {
    to.set_first_observation(watch.first_observation);
    PutEvidence(watch.evidence.Save(), *to.mutable_forecast());
  };
  if (watch_.has_value()) {
    for (const StratumEdges& edges : cells_->strata().edges) {
      out.mutable_stratum_edges()->Add(edges.begin(), edges.end());
    }
    save(*watch_, *out.mutable_watch());
  }
  if (discrepancy_.has_value()) {
    store::v1::MonitorState::Discrepancy& stored = *out.mutable_discrepancy();
    stored.set_outcome_length(kernel_->outcome_length);
    stored.set_forecast_length(kernel_->forecast_length);
    stored.set_center(kernel_->center);
    const ForecastDiscrepancy::State state = discrepancy_->Save();
    stored.mutable_sums()->Add(state.sums.begin(), state.sums.end());
    stored.set_square_sum(state.square_sum);
    PutMoments(state.projections, *stored.mutable_projections());
    const ForecastBlocks::State& blocks = state.blocks;
    PutMoments(blocks.blocks, *stored.mutable_blocks());
    stored.mutable_block_forecasts()->Add(blocks.forecasts.begin(), blocks.forecasts.end());
    stored.mutable_block_outcomes()->Add(blocks.outcomes.begin(), blocks.outcomes.end());
    stored.set_block_residuals(static_cast<std::int64_t>(blocks.residuals));
    stored.mutable_block_sums()->Add(blocks.sums.begin(), blocks.sums.end());
    stored.set_block_square_sum(blocks.square_sum);
  }
  if (decision_.has_value() && watch_.has_value()) {
    PutDecisions(decisions_, *out.mutable_decision());
  }
  error_.Save(*out.mutable_error());
  for (const Group& group : groups_) {
    store::v1::GroupState& stored = *out.add_groups();
    stored.set_value(group.id.value);
    stored.set_overflow(group.id.overflow);
    save(group.watch, *stored.mutable_watch());
    group.error.Save(*stored.mutable_error());
  }
  alarms_.Save(out);
  if (last_counted_time_.has_value()) {
    out.set_last_counted_time_us(ToMicroseconds(*last_counted_time_));
  }
}

absl::Status ForecastMonitor::Restore(const store::v1::MonitorState& stored) {
  const auto restore = [](const store::v1::WatchState& from, Watch& watch) {
    watch.first_observation = from.first_observation();
    return watch.evidence.Restore(GetEvidence(from.forecast()));
  };
  if (stored.stratum_edges_size() > 0) {
    constexpr std::size_t kEdges = kForecastStrata - 1;
    ForecastStrata strata;
    if (static_cast<std::size_t>(stored.stratum_edges_size()) != kStratumKinds * kEdges) {
      return absl::InvalidArgumentError("has edges of strata that cannot be");
    }
    for (std::size_t i = 0; i < kStratumKinds * kEdges; ++i) {
      strata.edges[i / kEdges][i % kEdges] = stored.stratum_edges(static_cast<int>(i));
    }
    CALIBD_ASSIGN_OR_RETURN(
        cells_, ForecastCells::Create(cells_->kind(), strata, seed_, monitoring_.tolerance));
    watch_.emplace(NewWatch(1));
    CALIBD_RETURN_IF_ERROR(restore(stored.watch(), *watch_));
  }
  if (stored.has_discrepancy()) {
    const store::v1::MonitorState::Discrepancy& from = stored.discrepancy();
    kernel_ = DiscrepancyKernel{.outcome_length = from.outcome_length(),
                                .forecast_length = from.forecast_length(),
                                .center = from.center()};
    BeginDiscrepancy();
    if (!watch_.has_value() || !discrepancy_.has_value() ||
        from.projections().count() != watch_->evidence.count()) {
      return absl::InvalidArgumentError("has a discrepancy that cannot be");
    }
    CALIBD_RETURN_IF_ERROR(discrepancy_->Restore(GetDiscrepancy(from)));
  }
  if (stored.has_decision() != (decision_.has_value() && watch_.has_value())) {
    return absl::InvalidArgumentError("has a decision that cannot be, or none");
  }
  if (stored.has_decision() && (!GetDecisions(stored.decision(), decisions_) ||
                                decisions_.gaps.count != watch_->evidence.count())) {
    return absl::InvalidArgumentError("has a decision that cannot be");
  }
  if (stored.groups_size() > 0 &&
      (!watch_.has_value() || monitoring_.group_tag.empty() ||
       static_cast<std::size_t>(stored.groups_size()) > monitoring_.max_groups + 1)) {
    return absl::InvalidArgumentError("has impossible groups");
  }
  for (const store::v1::GroupState& group : stored.groups()) {
    Group& restored =
        groups_.emplace_back(Group{.id = {.value = group.value(), .overflow = group.overflow()},
                                   .watch = NewWatch(1),
                                   .error = NewGroupError(1),
                                   .snapshot = nullptr});
    CALIBD_RETURN_IF_ERROR(restore(group.watch(), restored.watch));
    CALIBD_RETURN_IF_ERROR(restored.error.Restore(group.error()));
  }
  CALIBD_RETURN_IF_ERROR(alarms_.Restore(stored));
  error_ = NewError(1);
  CALIBD_RETURN_IF_ERROR(error_.Restore(stored.error()));
  if (stored.last_counted_time_us() != 0) {
    last_counted_time_ = ToTime(stored.last_counted_time_us());
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
