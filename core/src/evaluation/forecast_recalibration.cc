#include "calibd/core/forecast_recalibration.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
#include "base/normal_quantile.h"
#include "calibd/core/evidence.h"
#include "calibd/core/forecast_counts.h"
#include "calibd/core/moments.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// The normal quantile of a two-sided 95 % interval.
constexpr double kTwoSided95 = 1.959963984540054;
constexpr double kLeastLevel = 1e-300;
constexpr double kMostLevel = 1 - 0x1p-53;
// The levels that a fitted curve keeps.
constexpr std::size_t kKnots = 500;
constexpr std::size_t kRowsUntilCheck = 256;

double InsideLevels(double level) { return std::clamp(level, kLeastLevel, kMostLevel); }

double WithinRange(double value) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::clamp(value, -kMost, kMost);
}

// The level at which the curve has this share.
double Invert(const LevelCurve& curve, double share) {
  const auto next = std::ranges::lower_bound(curve.shares, share);
  const auto i = static_cast<std::size_t>(next - curve.shares.begin());
  const bool is_last = next == curve.shares.end();
  const double lower_share = i == 0 ? 0 : curve.shares[i - 1];
  const double lower = i == 0 ? 0 : curve.levels[i - 1];
  const double upper = is_last ? 1 : curve.levels[i];
  const double part = (share - lower_share) / ((is_last ? 1 : curve.shares[i]) - lower_share);
  return InsideLevels(lower + part * (upper - lower));
}

// The distribution functions of forecasts of one kind.
class Distributions {
 public:
  explicit Distributions(const NumberForecastKind& kind)
      : normal_(std::holds_alternative<NormalForecasts>(kind)), width_(ForecastWidth(kind)) {
    if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
      for (const double level : quantiles->levels) scores_.push_back(NormalQuantile(level));
    } else if (!normal_) {
      for (std::size_t j = 1; j <= width_; ++j) {
        scores_.push_back(NormalQuantile(static_cast<double>(j) / static_cast<double>(width_ + 1)));
      }
    }
  }

  [[nodiscard]] std::size_t width() const noexcept { return width_; }

  // The forecast that the other functions describe. row: width() values.
  void Set(std::span<const double> row) {
    row_.assign(row.begin(), row.end());
    if (normal_) return;
    std::ranges::sort(row_);
    const double range = scores_.back() - scores_.front();
    slope_ = range > 0 ? WithinRange(row_.back() / range - row_.front() / range) : 0;
  }

  // The largest level whose quantile is at most y.
  [[nodiscard]] double LevelOf(double y) const {
    return InsideLevels(NormalCdf(normal_ ? (y - row_[0]) / row_[1] : ScoreOf(y)));
  }

  // score: the normal quantile of the level.
  [[nodiscard]] double QuantileAt(double score) const {
    if (normal_) return WithinRange(row_[0] + row_[1] * score);
    if (score <= scores_.front()) {
      return WithinRange(row_.front() + slope_ * (score - scores_.front()));
    }
    if (score >= scores_.back()) {
      return WithinRange(row_.back() + slope_ * (score - scores_.back()));
    }
    const auto i =
        static_cast<std::size_t>(std::ranges::upper_bound(scores_, score) - scores_.begin());
    const double part = (score - scores_[i - 1]) / (scores_[i] - scores_[i - 1]);
    return (1 - part) * row_[i - 1] + part * row_[i];
  }

 private:
  [[nodiscard]] double ScoreOf(double y) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (y < row_.front()) {
      return slope_ > 0 ? scores_.front() + (y - row_.front()) / slope_ : -kInfinity;
    }
    if (y >= row_.back()) {
      if (slope_ > 0) return scores_.back() + (y - row_.back()) / slope_;
      return y > row_.back() ? kInfinity : scores_.back();
    }
    const auto i = static_cast<std::size_t>(std::ranges::upper_bound(row_, y) - row_.begin());
    // Halves do not overflow.
    const double part = (y / 2 - row_[i - 1] / 2) / (row_[i] / 2 - row_[i - 1] / 2);
    return scores_[i - 1] + part * (scores_[i] - scores_[i - 1]);
  }

  bool normal_;
  std::size_t width_;
  // The normal quantiles of the levels, ascending; empty for Normal forecasts.
  std::vector<double> scores_;
  // The values of the forecast, ascending unless it is Normal.
  std::vector<double> row_;
  // The slope of its quantile function beyond the outer values, in the normal quantile of the
  // level.
  double slope_ = 0;
};

std::span<const double> RowOf(std::span<const double> values, std::size_t i, std::size_t width) {
  return values.subspan(i * width, width);
}

// Rows of a batch that own their memory.
struct OwnedForecasts {
  std::vector<double> forecasts;
  std::vector<double> outcomes;

  void Add(const NumberForecastBatch& batch, std::size_t i, std::size_t width) {
    const std::span<const double> row = RowOf(batch.forecasts, i, width);
    forecasts.insert(forecasts.end(), row.begin(), row.end());
    outcomes.push_back(batch.outcomes[i]);
  }
  [[nodiscard]] NumberForecastBatch view() const noexcept { return {forecasts, outcomes}; }
};

// The coverage of quantiles at RepairedLevels, and twice the pinball loss of each row.
struct MeasuredQuantiles {
  ForecastCoverage coverage;
  std::vector<double> losses;
};

absl::StatusOr<MeasuredQuantiles> MeasureQuantiles(std::span<const double> levels,
                                                   std::span<const double> quantiles,
                                                   std::span<const double> outcomes) {
  CALIBD_ASSIGN_OR_RETURN(const auto cells,
                          ForecastCells::Create(QuantileForecasts{{levels.begin(), levels.end()}},
                                                ForecastStrata(), 0, kDefaultTolerance));
  std::vector<ForecastRow> rows(outcomes.size());
  cells->Describe({quantiles, outcomes}, 1, rows);
  ForecastCounts counts(cells->cell_count());
  MeasuredQuantiles measured;
  for (const ForecastRow& row : rows) {
    counts.Add(row);
    measured.losses.push_back(row.crps);
  }
  measured.coverage = CoverageOf(*cells, counts, {.error = 0.05, .central = 0.05, .one_look = true})
                          .value_or(ForecastCoverage());
  return measured;
}

// tested: observations that had no influence on advice.curve.
absl::Status MeasureRepair(const NumberForecastKind& kind, const NumberForecastBatch& tested,
                           ForecastRecalibrationAdvice& advice) {
  const std::vector<double> levels = RepairedLevels(kind);
  const auto measure = [&](const std::optional<LevelCurve>& curve) {
    return MeasureQuantiles(levels, RepairForecasts(curve, kind, tested.forecasts, levels),
                            tested.outcomes);
  };
  CALIBD_ASSIGN_OR_RETURN(MeasuredQuantiles before, measure(std::nullopt));
  CALIBD_ASSIGN_OR_RETURN(MeasuredQuantiles after, measure(advice.curve));
  advice.pinball_loss_before = MomentsOf(before.losses).mean;
  advice.pinball_loss_after = MomentsOf(after.losses).mean;
  for (std::size_t i = 0; i < tested.size(); ++i) before.losses[i] -= after.losses[i];
  const RunningMoments improvement = MomentsOf(before.losses);
  advice.improvement = improvement.mean;
  const double radius = kTwoSided95 * StandardError(improvement);
  advice.improvement_lower = advice.improvement - radius;
  advice.improvement_upper = advice.improvement + radius;
  advice.coverage_before = std::move(before.coverage);
  advice.coverage_after = std::move(after.coverage);
  return absl::OkStatus();
}

// The cells of a kind, and the rows of a batch in them.
struct DescribedForecasts {
  std::shared_ptr<const ForecastCells> cells;
  std::vector<ForecastRow> rows;
};

absl::StatusOr<DescribedForecasts> DescribeForecasts(const NumberForecastKind& kind,
                                                     const NumberForecastBatch& batch) {
  DescribedForecasts described;
  CALIBD_ASSIGN_OR_RETURN(
      described.cells,
      ForecastCells::Create(kind, StrataOfForecasts(kind, batch.forecasts), 0, kDefaultTolerance));
  described.rows.resize(batch.size());
  described.cells->Describe(batch, 1, described.rows);
  return described;
}

}  // namespace

absl::Status CheckLevelCurve(const LevelCurve& curve) {
  const auto inside = [](double value) { return value > 0 && value < 1; };
  const std::size_t count = curve.levels.size();
  if (count >= 1 && count <= kMaxCurveLevels && curve.shares.size() == count &&
      std::ranges::all_of(curve.levels, inside) && std::ranges::all_of(curve.shares, inside) &&
      std::ranges::adjacent_find(curve.levels, std::greater_equal<>()) == curve.levels.end() &&
      std::ranges::is_sorted(curve.shares)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "level_curve has ", count, " levels and ", curve.shares.size(), " shares, expected 1..",
      kMaxCurveLevels, " increasing levels and as many nondecreasing shares, all in (0, 1)"));
}

std::vector<double> RepairedLevels(const NumberForecastKind& kind) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles != nullptr) return quantiles->levels;
  const auto* const samples = std::get_if<SampleForecasts>(&kind);
  std::vector<double> levels;
  for (int k = 1; k < 20; ++k) {
    double level = k / 20.0;
    if (samples != nullptr) {
      const auto ranks = static_cast<double>(samples->draws + 1);
      level = std::clamp(std::round(level * ranks), 1.0, ranks - 1) / ranks;
    }
    if (levels.empty() || level > levels.back()) levels.push_back(level);
  }
  return levels;
}

std::vector<double> RepairForecasts(const std::optional<LevelCurve>& curve,
                                    const NumberForecastKind& kind,
                                    std::span<const double> forecasts,
                                    std::span<const double> levels) {
  std::vector<double> scores;
  for (const double level : levels) {
    scores.push_back(NormalQuantile(curve.has_value() ? Invert(*curve, level) : level));
  }
  Distributions distributions(kind);
  const std::size_t n = forecasts.size() / distributions.width();
  std::vector<double> result;
  result.reserve(n * levels.size());
  for (std::size_t i = 0; i < n; ++i) {
    distributions.Set(RowOf(forecasts, i, distributions.width()));
    double least = -std::numeric_limits<double>::max();
    for (const double score : scores) {
      // Rounding must not make quantiles decrease.
      least = std::max(least, distributions.QuantileAt(score));
      result.push_back(least);
    }
  }
  return result;
}

LevelCurve FitLevelCurve(const NumberForecastKind& kind, const NumberForecastBatch& batch) {
  Distributions distributions(kind);
  std::vector<double> stated;
  stated.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    distributions.Set(RowOf(batch.forecasts, i, distributions.width()));
    stated.push_back(distributions.LevelOf(batch.outcomes[i]));
  }
  std::ranges::sort(stated);
  const std::size_t n = stated.size();
  const std::size_t knots = std::min(n, kKnots);
  LevelCurve curve;
  for (std::size_t k = 1; k <= knots; ++k) {
    std::size_t rank = k * (n + 1) / (knots + 1);
    const double level = stated[rank - 1];
    // All outcomes with this stated probability are at most at this level.
    while (rank < n && stated[rank] == level) ++rank;
    if (!curve.levels.empty() && curve.levels.back() == level) continue;
    curve.levels.push_back(level);
    curve.shares.push_back(static_cast<double>(rank) / static_cast<double>(n + 1));
  }
  return curve;
}

absl::StatusOr<ForecastRecalibrationAdvice> AdviseForecastRecalibration(
    const NumberForecastKind& kind, const NumberForecastBatch& batch, RecalibrationSplit split,
    const RunControl& control, std::size_t older) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles != nullptr && quantiles->levels.size() < 2) {
    return absl::InvalidArgumentError(
        "the forecasts are quantiles of one level, expected two or more levels, between which a "
        "map of levels can be applied");
  }
  const std::size_t n = batch.size() - older;
  if (n < kMinRecalibrationObservations) {
    return absl::FailedPreconditionError(
        absl::StrCat("not enough observations for a recalibration: ", n, ", at least ",
                     kMinRecalibrationObservations, " are needed"));
  }
  ForecastRecalibrationAdvice advice;
  advice.split = split;
  const std::size_t width = ForecastWidth(kind);
  OwnedForecasts fitted;
  OwnedForecasts tested;
  for (OwnedForecasts* const half : {&fitted, &tested}) {
    half->forecasts.reserve((n + 1) / 2 * width);
    half->outcomes.reserve((n + 1) / 2);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (i % kRowsUntilCheck == 0) CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const bool fits = split == RecalibrationSplit::kAlternating ? i % 2 == 0 : i < n / 2;
    (fits ? fitted : tested).Add(batch, older + i, width);
  }
  advice.fit_observations = fitted.outcomes.size();
  advice.test_observations = tested.outcomes.size();
  CALIBD_ASSIGN_OR_RETURN(const DescribedForecasts described, DescribeForecasts(kind, batch));
  SerialDependence series;
  AddToSeries(*described.cells, batch, described.rows, series);
  if (series.reached_at() > 0) {
    advice.obstacle = MapObstacle::kDependentRows;
  } else {
    advice.curve = FitLevelCurve(kind, fitted.view());
  }
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  CALIBD_RETURN_IF_ERROR(MeasureRepair(kind, tested.view(), advice));
  if (control.progress) control.progress(1);
  return advice;
}

std::vector<CentralDeviations> DeviationsOf(const NumberForecastKind& kind,
                                            const NumberForecastBatch& batch) {
  const absl::StatusOr<DescribedForecasts> described = DescribeForecasts(kind, batch);
  if (!described.ok()) return {};
  std::vector<CentralDeviations> events;
  for (const std::optional<CentralInterval>& central : CentralIntervalsOf(*described->cells)) {
    if (!central.has_value()) continue;
    CentralDeviations& event = events.emplace_back();
    event.promised = central->promised;
    for (const ForecastRow& row : described->rows) {
      if (row.ties > 0) return {};
      event.blocks.Add(central->Deviation(row.cell));
    }
  }
  return events;
}

double ForecastRecalibrationMemory(std::size_t n, const NumberForecastKind& kind) {
  const auto width = static_cast<double>(ForecastWidth(kind));
  const auto levels = static_cast<double>(RepairedLevels(kind).size());
  // A copy of the rows, both sets of quantiles of half of them, and the cells of all.
  return static_cast<double>(n) *
         (sizeof(double) * (width + levels + 6) + 2.0 * sizeof(ForecastRow));
}

double ForecastRecalibrationOperations(std::size_t n, const NumberForecastKind& kind) {
  const auto width = static_cast<double>(ForecastWidth(kind));
  const auto levels = static_cast<double>(RepairedLevels(kind).size());
  // Sorting draws, the distribution function and the quantiles of each row.
  return static_cast<double>(n) * (200 + 30 * width + 20 * levels);
}

}  // namespace calibd
