#include "server/kinds/numbers/number_answer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "calibd/core/forecast_blocks.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/core/p_value.h"
#include "server/base/proto_time.h"
#include "server/kinds/numbers/coverage_measure.h"
#include "server/kinds/numbers/number_kind.h"
#include "server/model/forecast_spec.h"

namespace calibd::server {
namespace {

struct Residuals {
  double mean = 0;
  double standard_deviation = 0;
};

// Unset unless the forecasts are Normal and have observations.
std::optional<Residuals> ResidualsOf(const ForecastCells& cells, const ForecastCounts& counts) {
  const auto n = static_cast<double>(counts.count());
  if (!std::holds_alternative<NormalForecasts>(cells.kind()) || n == 0) return std::nullopt;
  const double mean = counts.t / n;
  return Residuals{
      .mean = mean,
      .standard_deviation = std::sqrt(std::max(0.0, counts.t_square / n - mean * mean))};
}

template <typename Message>
void SetResiduals(const ForecastCells& cells, const ForecastCounts& counts, Message& proto) {
  const std::optional<Residuals> residuals = ResidualsOf(cells, counts);
  if (!residuals.has_value()) return;
  proto.set_residual_mean(residuals->mean);
  proto.set_residual_standard_deviation(residuals->standard_deviation);
}

void DescribeScores(const ForecastCells& cells, const ForecastCounts& counts,
                    v1::ForecastScores& proto) {
  const auto n = static_cast<double>(counts.count());
  proto.set_observations(counts.count());
  proto.set_crps(counts.crps / n);
  if (std::holds_alternative<NormalForecasts>(cells.kind())) {
    proto.set_log_score(counts.log_score / n);
  }
  SetResiduals(cells, counts, proto);
  const auto coverage = CoverageOf(cells, counts, {});
  if (coverage.has_value()) convert::SetCoverage(*coverage, proto);
}

void DescribeDirection(const ForecastCells& cells, const ForecastCounts& counts,
                       v1::ForecastDirection& proto) {
  // The cells of outcomes that equal quantiles are not known.
  const ForecastDirection direction =
      counts.has_ties() ? ForecastDirection() : DirectionOf(cells, counts.Cells());
  proto.set_shift(direction.best.shift);
  proto.set_scale(direction.best.scale);
  SetResiduals(cells, counts, proto);
}

v1::DecisionLoss DescribeLoss(const ThresholdDecision& declared, const DecisionReading& reading) {
  v1::DecisionLoss out;
  *out.mutable_decision() = ToProto(declared);
  out.set_observations(reading.count);
  out.set_actions(reading.actions);
  out.set_realised_loss(reading.realised_loss);
  out.set_expected_loss(reading.expected_loss);
  out.set_gap_lower_bound(reading.gap_lower);
  out.set_gap_upper_bound(reading.gap_upper);
  return out;
}

void DescribeDiscrepancy(const ForecastWatchDetails& watch, v1::Watch& proto) {
  // It takes an outcome that equals a quantile for one below it.
  if (!watch.discrepancy.has_value() || watch.reading.counts.has_ties()) return;
  v1::Discrepancy& out = *proto.mutable_discrepancy();
  if (watch.discrepancy->unbiased.has_value()) out.set_mmd_squared(*watch.discrepancy->unbiased);
  if (watch.discrepancy->interval.has_value()) {
    out.set_mmd_lower_bound(watch.discrepancy->interval->lower);
    out.set_mmd_upper_bound(watch.discrepancy->interval->upper);
  }
  const RunningMoments& blocks = watch.discrepancy->blocks;
  out.set_block_count(blocks.count);
  out.set_block_size(static_cast<std::int32_t>(ForecastBlocks::kBlockSize));
  if (blocks.count > 0) out.set_block_mmd_squared(blocks.mean);
  if (blocks.count > 1) {
    out.set_block_standard_error(std::sqrt(blocks.Variance() / static_cast<double>(blocks.count)));
  }
  if (const std::optional<BlockTest> test = TestBlocks(blocks)) {
    out.set_block_one_look_p_value(test->p_value);
  }
}

void DescribeCells(const ForecastWatchDetails& watch, v1::Whereabouts& proto) {
  if (watch.reading.counts.has_ties()) return;
  for (const CellDeviation& cell : CellDeviations(*watch.cells, watch.reading.counts.Cells())) {
    *proto.add_cells() = convert::ToProto(cell);
  }
}

// sums: CoverageSums or a CoverageStretch. coverage: unset without observations.
template <typename Sums>
void DescribeCoverage(const ForecastCells& cells, const Sums& sums,
                      const std::optional<ForecastCoverage>& coverage,
                      v1::ErrorMeasurement& proto) {
  proto.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) *proto.mutable_start_time() = ToTimestamp(*sums.start_time);
  if (!coverage.has_value()) return;
  proto.set_observations(coverage->count);
  *proto.mutable_coverage() = convert::ToProto(IntervalOf(*coverage));
  convert::SetCoverage(*coverage, proto);
  DescribeDirection(cells, sums.counts, *proto.mutable_direction());
}

// What the decisions of the forecasts cost.
void DescribeDecisions(const HistoryBucket& bucket, const ThresholdDecision& decision,
                       v1::HistoryBucket& out) {
  const std::optional<DecisionReading> reading =
      ReadDecisions(decision, bucket.decisions, kSingleErrorLevels.total());
  if (reading.has_value()) *out.mutable_decision() = DescribeLoss(decision, *reading);
}

}  // namespace

void ForecastWatchDetails::Describe(const WatchSnapshot& /*watch*/, double /*significance_level*/,
                                    v1::Watch& out) const {
  if (decision.has_value()) {
    *out.mutable_decision() = DescribeLoss(decision->declared, decision->reading);
  }
  DescribeDiscrepancy(*this, out);
}

void ForecastWatchDetails::DescribeVerdict(const ModelDeclaration& /*declaration*/,
                                           const WatchSnapshot& /*watch*/, v1::Verdict& out) const {
  DescribeDirection(*cells, reading.counts, *out.mutable_direction()->mutable_forecast());
  DescribeCells(*this, *out.mutable_whereabouts());
}

void ForecastWatchDetails::DescribeGroup(const WatchSnapshot& /*watch*/,
                                         v1::GroupWatch& out) const {
  DescribeDirection(*cells, reading.counts, *out.mutable_direction()->mutable_forecast());
  if (reading.count > 0) DescribeScores(*cells, reading.counts, *out.mutable_forecast());
}

void MeasuredCoverage::DescribeEvent(std::size_t place, v1::DatedChange& out) const {
  out.set_event(v1::DatedChange::CENTRAL_INTERVAL);
  out.set_promised(CentralOf(*cells)[place].promised);
}

void MeasuredCoverage::Describe(const ErrorSnapshot& error, const ErrorReading& /*reading*/,
                                v1::CalibrationError& out) const {
  DescribeCoverage(*cells, since_start, SinceStart(), *out.mutable_since_start());
  if (error.first_observation != error.start_observation) {
    DescribeCoverage(*cells, sums, Now(), *out.mutable_since_acknowledgement());
  }
  if (const std::optional<CoverageStretch> newest = Newest(error)) {
    DescribeCoverage(*cells, *newest, newest->coverage, *out.mutable_newest());
  }
}

void MeasuredCoverage::DescribeIntervals(const ErrorStretch& stretch,
                                         v1::ErrorMeasurement& out) const {
  *out.mutable_coverage() = convert::ToProto(*stretch.intervals[0]);
}

void DescribeNumbers(const DescribedModel& model, v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = model.declaration;
  const KindSnapshot& snapshot = model.snapshot;
  if (snapshot.forecasts.count > 0) {
    DescribeScores(*snapshot.forecast_cells, snapshot.forecasts.ToCounts(),
                   *response.mutable_forecast());
  }
  const auto warmup = static_cast<std::int64_t>(declaration.warmup);
  if (model.observations > 0 && model.observations >= warmup) return;
  auto& insufficient = *response.mutable_insufficient_data();
  insufficient.set_observations(model.observations);
  insufficient.set_needed(std::max<std::int64_t>(1, warmup) - model.observations);
  insufficient.set_reason(
      warmup > 0 ? absl::StrCat("the strata of the forecasts are chosen from the first ", warmup,
                                " observations")
                 : "there is no observation yet");
}

void DescribeNumberBucket(const NumbersSpec& spec, const ForecastCells& cells,
                          const HistoryBucket& bucket, v1::HistoryBucket& out) {
  // The discrepancy takes an outcome that equals a quantile for one below it.
  const RunningMoments blocks = bucket.forecasts.equal.empty() ? bucket.pairs : RunningMoments();
  out.set_discrepancy_blocks(blocks.count);
  if (blocks.count > 0) out.set_mmd_squared(blocks.mean);
  if (blocks.count > 1) {
    out.set_mmd_squared_standard_error(
        std::sqrt(blocks.Variance() / static_cast<double>(blocks.count)));
  }
  // A damaged bucket may have another number of cells.
  if (bucket.forecasts.cells.size() != cells.cell_count() || bucket.forecasts.count == 0) return;
  const ForecastCounts counts = bucket.forecasts.ToCounts();
  out.set_observations(bucket.forecasts.count);
  DescribeScores(cells, counts, *out.mutable_forecast());
  if (!counts.has_ties()) DescribeDirection(cells, counts, *out.mutable_direction());
  const double level = kSingleErrorLevels.total();
  const auto coverage = CoverageOf(cells, counts, {.error = level / 2, .central = level / 2});
  *out.mutable_error() = convert::ToProto(IntervalOf(*coverage));
  if (spec.decision.has_value()) DescribeDecisions(bucket, *spec.decision, out);
}

}  // namespace calibd::server
