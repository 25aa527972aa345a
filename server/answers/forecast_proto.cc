#include "server/answers/forecast_proto.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/forecast.h"
#include "calibd/core/forecast_blocks.h"
#include "calibd/core/p_value.h"
#include "server/base/errors.h"

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

}  // namespace

void DescribeScores(const ForecastCells& cells, const ForecastCounts& counts,
                    v1::ForecastScores& proto) {
  const auto n = static_cast<double>(counts.count());
  proto.set_observations(counts.count());
  proto.set_crps(counts.crps / n);
  if (std::holds_alternative<NormalForecasts>(cells.kind())) {
    proto.set_log_score(counts.log_score / n);
  }
  SetResiduals(cells, counts, proto);
  if (const auto coverage = CoverageOf(cells, counts, {})) {
    *proto.mutable_central_coverage() = convert::ToProto(*coverage);
  }
}

void DescribeDirection(const ForecastCells& cells, const ForecastCounts& counts,
                       v1::ForecastDirection& proto) {
  const ForecastDirection direction = DirectionOf(cells, counts.Cells());
  proto.set_shift(direction.best.shift);
  proto.set_scale(direction.best.scale);
  SetResiduals(cells, counts, proto);
}

v1::DecisionLoss ToProto(const ThresholdDecision& declared, const DecisionReading& reading) {
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
  if (!watch.discrepancy.has_value()) return;
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
  for (const CellDeviation& cell : CellDeviations(*watch.cells, watch.reading.counts.Cells())) {
    *proto.add_cells() = convert::ToProto(cell);
  }
}

const char* FamilyName(ForecastFamily family) noexcept {
  switch (family) {
    case ForecastFamily::kLocationScale:
      return "location_scale";
    case ForecastFamily::kHistogram:
      return "histogram";
    case ForecastFamily::kByScale:
      return "by_scale";
    case ForecastFamily::kByLocation:
      return "by_location";
  }
  return "";
}

absl::Status CheckPredictsClasses(const ModelDeclaration& declaration, const char* what) {
  if (declaration.numbers() == nullptr) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "FORECAST_MODEL",
      absl::StrCat(
          what, " needs a model of classes, and ", declaration.name.ToString(),
          " forecasts a number: its verdict, coverage and scores are in GetCalibration "
          "(calibctl show) and GetHistory (calibctl history), exact tests of its window in "
          "Evaluate (calibctl evaluate-forecasts)"));
}

}  // namespace calibd::server
