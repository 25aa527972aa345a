#include "calibd/core/forecast_cells.h"

#include <algorithm>
#include <array>
#include <boost/sort/pdqsort/pdqsort.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
#include "base/normal_quantile.h"
#include "base/rng.h"
#include "base/sample_moments.h"
#include "calibd/core/evidence.h"
#include "calibd/core/quantile_order.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

constexpr std::size_t kMostCells = 64;
constexpr double kLargest = std::numeric_limits<double>::max();

constexpr std::array kNormalTailEdges = {.001, .01};
// The lower half of the edges by which many ranks are grouped, without multiples of 1/40.
constexpr std::array kRankTailEdges = {.001, .0025, .005, .01, .015, .02};
constexpr int kRankSteps = 40;

// The number of values below x in ascending values.
template <typename Values>
std::size_t CountBelow(const Values& values, double x) {
  return static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), x) -
                                  values.begin());
}

// Phi(b) - Phi(a) for a <= b, which may be infinite, without cancellation in either tail.
double NormalMass(double a, double b) {
  return a > 0 ? NormalCdf(-a) - NormalCdf(-b) : NormalCdf(b) - NormalCdf(a);
}

std::vector<double> NormalEdges() {
  std::vector<double> edges(kNormalTailEdges.begin(), kNormalTailEdges.end());
  for (int i = 1; i < 20; ++i) edges.push_back(i / 20.0);
  for (std::size_t i = kNormalTailEdges.size(); i-- > 0;) edges.push_back(1 - kNormalTailEdges[i]);
  return edges;
}

// The first ranks of all cells but the first, increasing.
std::vector<std::size_t> RankEdges(std::size_t ranks) {
  std::vector<std::size_t> edges;
  if (ranks <= kMostCells) {
    for (std::size_t rank = 1; rank < ranks; ++rank) edges.push_back(rank);
    return edges;
  }
  const auto add = [&](double edge) {
    const auto below = static_cast<std::size_t>(std::lround(edge * static_cast<double>(ranks)));
    edges.push_back(below);
    edges.push_back(ranks - below);
  };
  for (const double edge : kRankTailEdges) add(edge);
  for (int i = 1; i <= kRankSteps / 2; ++i) add(static_cast<double>(i) / kRankSteps);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::erase(edges, 0U);
  std::erase(edges, ranks);
  return edges;
}

absl::Status CheckStrata(const ForecastStrata& strata) {
  for (const StratumEdges& edges : strata.edges) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (std::isfinite(edges[i]) && (i == 0 || edges[i - 1] <= edges[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("edge ", i, " of the strata is ", Exact(edges[i]),
                       ", expected finite numbers that do not decrease"));
    }
  }
  return absl::OkStatus();
}

std::string NotFinite(double value) {
  return absl::StrCat("is ", Exact(value), ", expected a finite number");
}

// The index of the level nearest 1/2, the lower of two.
std::size_t MiddleOf(const std::vector<double>& levels) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < levels.size(); ++k) {
    if (std::abs(levels[k] - 0.5) < std::abs(levels[best] - 0.5)) best = k;
  }
  return best;
}

double Quantile(std::span<const double> sorted, std::size_t k, std::size_t parts) {
  const std::size_t scaled = (sorted.size() - 1) * k;
  const std::size_t below = scaled / parts;
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above],
                   static_cast<double>(scaled % parts) / static_cast<double>(parts));
}

// Scores that are not finite have overflowed.
double Score(double value) {
  return value < kMostScore ? std::max(value, -kMostScore) : kMostScore;
}

double NormalCrps(double t, double sd) {
  constexpr double kInverseRootPi = std::numbers::inv_sqrtpi;
  return sd * (t * std::erf(t / std::numbers::sqrt2) + 2 * NormalDensity(t) - kInverseRootPi);
}

double QuantileScore(const std::vector<double>& levels, std::span<const double> row, double y) {
  double sum = 0;
  for (std::size_t k = 0; k < row.size(); ++k) {
    const double above = y - row[k];
    sum += above > 0 ? levels[k] * above : (levels[k] - 1) * above;
  }
  return 2 * sum / static_cast<double>(row.size());
}

double SampleCrps(std::span<const double> draws, double y) {
  std::array<double, kMaxDraws> buffer;
  const std::size_t r = draws.size();
  for (std::size_t s = 0; s < r; ++s) buffer[s] = draws[s] - y;
  // Half the time of std::sort.
  boost::sort::pdqsort_branchless(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(r));
  const auto count = static_cast<double>(r);
  double distance = 0;
  double spread = 0;
  for (std::size_t k = 0; k < r; ++k) {
    distance += std::abs(buffer[k]);
    spread += (2 * static_cast<double>(k) - (count - 1)) * buffer[k];
  }
  return distance / count - spread / (count * (count - 1));
}

}  // namespace

absl::Status CheckForecastKind(const NumberForecastKind& kind) {
  if (const auto* const samples = std::get_if<SampleForecasts>(&kind)) {
    if (samples->draws >= 2 && samples->draws <= kMaxDraws) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("draws is ", samples->draws, ", expected 2..", kMaxDraws));
  }
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles == nullptr) return absl::OkStatus();
  const std::vector<double>& levels = quantiles->levels;
  if (levels.empty() || levels.size() > kMaxQuantileLevels) {
    return absl::InvalidArgumentError(
        absl::StrCat("levels has ", levels.size(), " values, expected 1..", kMaxQuantileLevels));
  }
  for (std::size_t k = 0; k < levels.size(); ++k) {
    if (levels[k] > 0 && levels[k] < 1 && (k == 0 || levels[k - 1] < levels[k])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("levels[", k, "] is ", Exact(levels[k]),
                     ", expected increasing numbers strictly between 0 and 1"));
  }
  return absl::OkStatus();
}

std::size_t ForecastWidth(const NumberForecastKind& kind) noexcept {
  if (const auto* const samples = std::get_if<SampleForecasts>(&kind)) return samples->draws;
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  return quantiles != nullptr ? quantiles->levels.size() : 2;
}

ForecastBatch WithKind(const NumberForecastKind& kind, const NumberForecastBatch& batch) noexcept {
  // In the order of the alternatives.
  constexpr std::array kKinds = {ForecastKind::kNormal, ForecastKind::kQuantiles,
                                 ForecastKind::kSamples};
  return {.kind = kKinds[kind.index()],
          .values = batch.forecasts,
          .width = ForecastWidth(kind),
          .labels = {},
          .outcomes = batch.outcomes};
}

std::optional<Violation> FindForecastViolation(const NumberForecastKind& kind,
                                               std::span<const double> row) {
  const bool normal = std::holds_alternative<NormalForecasts>(kind);
  const bool quantiles = std::holds_alternative<QuantileForecasts>(kind);
  for (std::size_t k = 0; k < row.size(); ++k) {
    const auto violation = [&](std::string description) {
      if (!normal) return Violation{"forecasts", std::move(description), std::nullopt, k};
      return Violation{k == 0 ? "mean" : "standard_deviation", std::move(description)};
    };
    if (!std::isfinite(row[k])) return violation(NotFinite(row[k]));
    if (normal && k == 1 && row[k] < kMinStandardDeviation) {
      return violation(
          absl::StrCat("is ", Exact(row[k]), ", expected at least ", kMinStandardDeviation));
    }
    if (quantiles && k > 0 && row[k] < row[k - 1]) {
      return violation(DescribeCrossing(row[k], row[k - 1]));
    }
  }
  return std::nullopt;
}

std::optional<Violation> FindOutcomeViolation(const NumberForecastKind& kind,
                                              std::span<const double> row, double outcome) {
  if (!std::isfinite(outcome)) return Violation{"outcome", NotFinite(outcome)};
  if (std::holds_alternative<NormalForecasts>(kind) &&
      !std::isfinite((outcome - row[0]) / row[1])) {
    return Violation{"outcome",
                     absl::StrCat("is ", Exact(outcome),
                                  ", expected a finite (outcome - mean) / standard_deviation")};
  }
  return std::nullopt;
}

double ForecastScale(const NumberForecastKind& kind, std::span<const double> row) noexcept {
  if (std::holds_alternative<NormalForecasts>(kind)) return row[1];
  if (std::holds_alternative<QuantileForecasts>(kind)) {
    return std::min(row.back() - row.front(), kLargest);
  }
  return SampleDeviation(row, SampleMean(row));
}

double ForecastLocation(const NumberForecastKind& kind, std::span<const double> row) noexcept {
  if (std::holds_alternative<NormalForecasts>(kind)) return row[0];
  if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    return row[MiddleOf(quantiles->levels)];
  }
  return SampleMean(row);
}

ForecastStrata StrataOfForecasts(const NumberForecastKind& kind,
                                 std::span<const double> forecasts) {
  const std::size_t width = ForecastWidth(kind);
  std::array<std::vector<double>, kStratumKinds> values;
  for (std::size_t at = 0; at + width <= forecasts.size(); at += width) {
    values[0].push_back(ForecastScale(kind, forecasts.subspan(at, width)));
    values[1].push_back(ForecastLocation(kind, forecasts.subspan(at, width)));
  }
  ForecastStrata strata;
  for (std::size_t i = 0; i < kStratumKinds; ++i) {
    std::sort(values[i].begin(), values[i].end());
    for (std::size_t k = 1; k < kForecastStrata; ++k) {
      strata.edges[i][k - 1] = Quantile(values[i], k, kForecastStrata);
    }
  }
  return strata;
}

LocationScale LocationScaleOf(std::size_t j) noexcept {
  // The pair (0, 1), which is left out, is the fifth of the shift 0.
  constexpr std::size_t kLeftOut = 3 * kForecastScales.size() + 4;
  static_assert(kForecastShifts[3] == 0 && kForecastScales[4] == 1);
  const std::size_t at = j < kLeftOut ? j : j + 1;
  return {.shift = kForecastShifts[at / kForecastScales.size()],
          .scale = kForecastScales[at % kForecastScales.size()]};
}

absl::StatusOr<std::shared_ptr<const ForecastCells>> ForecastCells::Create(
    NumberForecastKind kind, const ForecastStrata& strata, std::uint64_t seed, double tolerance) {
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
  CALIBD_RETURN_IF_ERROR(CheckStrata(strata));
  if (!(tolerance >= kMinTolerance && tolerance <= kMaxTolerance)) {
    return absl::InvalidArgumentError(absl::StrCat("tolerance is ", tolerance, ", expected ",
                                                   kMinTolerance, "..", kMaxTolerance));
  }
  return std::shared_ptr<const ForecastCells>(
      new ForecastCells(std::move(kind), strata, seed, tolerance));
}

ForecastCells::ForecastCells(NumberForecastKind kind, const ForecastStrata& strata,
                             std::uint64_t seed, double tolerance)
    : kind_(std::move(kind)),
      strata_(strata),
      seed_(seed),
      tolerance_(tolerance),
      width_(ForecastWidth(kind_)) {
  if (const auto* const samples = std::get_if<SampleForecasts>(&kind_)) {
    const std::size_t ranks = samples->draws + 1;
    const std::vector<std::size_t> rank_edges = RankEdges(ranks);
    std::size_t previous = 0;
    for (const std::size_t edge : rank_edges) {
      edges_.push_back(static_cast<double>(edge) / static_cast<double>(ranks));
      probabilities_.push_back(static_cast<double>(edge - previous) / static_cast<double>(ranks));
      previous = edge;
    }
    probabilities_.push_back(static_cast<double>(ranks - previous) / static_cast<double>(ranks));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      cell_of_rank_.push_back(static_cast<std::uint8_t>(
          std::upper_bound(rank_edges.begin(), rank_edges.end(), rank) - rank_edges.begin()));
    }
  } else {
    const auto* const quantiles = std::get_if<QuantileForecasts>(&kind_);
    edges_ = quantiles != nullptr ? quantiles->levels : NormalEdges();
    double previous = 0;
    for (const double edge : edges_) {
      probabilities_.push_back(edge - previous);
      previous = edge;
    }
    probabilities_.push_back(1 - previous);
  }
  ComputeBets();
}

void ForecastCells::ComputeBets() {
  const std::size_t cells = cell_count();
  for (const double edge : edges_) normal_edges_.push_back(NormalQuantile(edge));
  for (const double pi : probabilities_) {
    smoothed_.push_back((pi + tolerance_ / static_cast<double>(cells)) / (1 + tolerance_));
  }
  log_bets_.assign(cells * kPaddedBets, 0);
  bets_.assign(cells * kPaddedBets, 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < cells; ++c) {
    const double lower = c == 0 ? -kInfinity : normal_edges_[c - 1];
    const double upper = c + 1 == cells ? kInfinity : normal_edges_[c];
    for (std::size_t j = 0; j < kLocationScaleCount; ++j) {
      const LocationScale expert = LocationScaleOf(j);
      const double mass =
          NormalMass((lower - expert.shift) / expert.scale, (upper - expert.shift) / expert.scale);
      const double bet = mass / (smoothed_[c] * (1 + tolerance_));
      const double log_bet = std::log(std::max(kLeastBet, bet));
      log_bets_[c * kPaddedBets + j] = log_bet;
      bets_[c * kPaddedBets + j] = std::exp(log_bet);
    }
  }
  if (!std::holds_alternative<QuantileForecasts>(kind_)) return;
  for (const double lambda : kLevelBets) {
    for (const double level : edges_) {
      const double most = level + tolerance_;
      level_wins_.push_back(1 + lambda * (1 - most) / most);
    }
    for (const double level : edges_) {
      const double least = level - tolerance_;
      level_wins_.push_back(1 + lambda * least / (1 - least));
    }
  }
}

std::size_t ForecastCells::CellOf(std::span<const double> row, double outcome,
                                  std::int64_t observation) const noexcept {
  if (!cell_of_rank_.empty()) {
    std::uint32_t below = 0;
    std::uint32_t equal = 0;
    for (const double draw : row) {
      below += draw < outcome ? 1 : 0;
      equal += draw == outcome ? 1 : 0;
    }
    if (equal > 0) below += Rng(seed_, static_cast<std::uint64_t>(observation)).Below(equal + 1);
    return cell_of_rank_[below];
  }
  if (std::holds_alternative<QuantileForecasts>(kind_)) return CountBelow(row, outcome);
  return CountBelow(normal_edges_, (outcome - row[0]) / row[1]);
}

void ForecastCells::Describe(const NumberForecastBatch& batch, std::int64_t first_observation,
                             std::span<ForecastRow> out) const noexcept {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind_);
  const bool samples = !cell_of_rank_.empty();
  const double log_root = 0.5 * std::log(2 * std::numbers::pi);
  const std::size_t middle = quantiles != nullptr ? MiddleOf(quantiles->levels) : 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.forecasts.subspan(i * width_, width_);
    const double y = batch.outcomes[i];
    ForecastRow described;
    described.cell =
        static_cast<std::uint8_t>(CellOf(row, y, first_observation + static_cast<std::int64_t>(i)));
    double scale = row[width_ - 1];
    double location = row[middle];
    if (samples) {
      const MeanAndDeviation pooled = PooledMoments(row, y);
      location = pooled.mean;
      scale = pooled.deviation;
      described.crps = Score(SampleCrps(row, y));
    } else if (quantiles != nullptr) {
      scale = std::min(row.back() - row.front(), kLargest);
      described.crps = Score(QuantileScore(quantiles->levels, row, y));
      const auto fits = std::upper_bound(row.begin() + described.cell, row.end(), y) - row.begin();
      described.ties = static_cast<std::uint8_t>(fits - described.cell);
    } else {
      described.t = (y - row[0]) / row[1];
      described.crps = Score(NormalCrps(described.t, row[1]));
      described.log_score = Score(std::log(row[1]) + 0.5 * described.t * described.t + log_root);
    }
    described.strata = {static_cast<std::uint8_t>(CountBelow(strata_.edges[0], scale)),
                        static_cast<std::uint8_t>(CountBelow(strata_.edges[1], location))};
    out[i] = described;
  }
}

std::size_t ForecastCells::MaxMemory() noexcept {
  constexpr std::size_t kLevelExperts = 2 * kLevelBets.size() * kMaxQuantileLevels;
  return sizeof(ForecastCells) +
         (4 * kMostCells + kMaxQuantileLevels + kLevelExperts) * sizeof(double) + kMaxDraws + 1 +
         2 * kMostCells * kPaddedBets * sizeof(double);
}

double RowDeviation(const ForecastRow& row, std::span<const double> edges) noexcept {
  const std::size_t last = static_cast<std::size_t>(row.cell) + row.ties;
  const double lower = row.cell == 0 ? 0 : edges[row.cell - 1U];
  const double upper = last == edges.size() ? 1 : edges[last];
  return 0.5 - (lower + upper) / 2;
}

SerialDependence::Tails ForecastTails(const NumberForecastKind& kind, std::span<const double> row,
                                      double number) noexcept {
  if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    const std::vector<double>& levels = quantiles->levels;
    const auto below =
        static_cast<std::size_t>(std::lower_bound(row.begin(), row.end(), number) - row.begin());
    const auto up_to = static_cast<std::size_t>(
        std::upper_bound(row.begin() + static_cast<std::ptrdiff_t>(below), row.end(), number) -
        row.begin());
    return {.at_most = up_to == 0 ? 0 : levels[up_to - 1],
            .at_least = below == levels.size() ? 0 : 1 - levels[below]};
  }
  if (std::holds_alternative<SampleForecasts>(kind)) {
    SerialDependence::Tails draws;
    for (const double draw : row) {
      draws.at_most += draw <= number ? 1 : 0;
      draws.at_least += draw >= number ? 1 : 0;
    }
    const auto divisor = static_cast<double>(row.size() + 1);
    return {.at_most = draws.at_most / divisor, .at_least = draws.at_least / divisor};
  }
  // Beyond 38 standard deviations, both tails are 0 or 1.
  const double t = std::clamp((number - row[0]) / row[1], -40.0, 40.0);
  return {.at_most = NormalCdf(t), .at_least = NormalCdf(-t)};
}

void AddToSeries(const ForecastCells& cells, const NumberForecastBatch& batch,
                 std::span<const ForecastRow> described, SerialDependence& series) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.forecasts.subspan(i * cells.width(), cells.width());
    const std::optional<double> before = series.pair_outcome();
    series.AddForecast(
        RowDeviation(described[i], cells.edges()), batch.outcomes[i],
        before.has_value() ? ForecastTails(cells.kind(), row, *before) : SerialDependence::Tails());
  }
}

}  // namespace calibd
