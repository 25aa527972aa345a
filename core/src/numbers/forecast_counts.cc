#include "calibd/core/forecast_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "calibd/core/running_reliability.h"
#include "numbers/forecast_processes.h"
#include "numbers/location_scale_fit.h"

namespace calibd {
namespace {

// log of the mean of e^{values}. values: not empty.
double LogMeanExp(std::span<const double> values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(values.size()));
}

// lgamma writes a global variable.
double LogGamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

std::vector<double> LocationScaleLogs(const ForecastCells& cells,
                                      std::span<const std::int64_t> counts) {
  std::vector<double> logs(kLocationScaleCount);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto count = static_cast<double>(counts[c]);
    for (std::size_t j = 0; j < logs.size(); ++j) logs[j] += count * cells.LogBet(j, c);
  }
  return logs;
}

double HistogramLog(const ForecastCells& cells, std::span<const std::int64_t> counts,
                    double kappa) {
  double n = 0;
  double sum = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    const auto count = static_cast<double>(counts[c]);
    const double p = cells.smoothed()[c];
    sum += LogGamma(count + kappa * p) - LogGamma(kappa * p) - count * std::log(p);
    n += count;
  }
  return sum + LogGamma(kappa) - LogGamma(n + kappa) - n * std::log1p(cells.tolerance());
}

// The logarithms of the experts' e-processes, by expert.
std::vector<double> ExpertLogsOf(const ForecastCells& cells, const ForecastCounts& counts) {
  const std::vector<std::int64_t> all = counts.Cells();
  std::vector<double> logs = LocationScaleLogs(cells, all);
  for (const double kappa : kHistogramWeights) logs.push_back(HistogramLog(cells, all, kappa));
  std::vector<double> mixtures;
  for (const StratumKind kind : {StratumKind::kScale, StratumKind::kLocation}) {
    for (const double kappa : kStratumHistogramWeights) {
      double log = 0;
      for (std::size_t stratum = 0; stratum < kForecastStrata; ++stratum) {
        log += HistogramLog(cells, counts.Of(kind, stratum), kappa);
      }
      logs.push_back(log);
    }
    double log = 0;
    for (std::size_t stratum = 0; stratum < kForecastStrata; ++stratum) {
      log += LogMeanExp(LocationScaleLogs(cells, counts.Of(kind, stratum)));
    }
    mixtures.push_back(log);
  }
  logs.insert(logs.end(), mixtures.begin(), mixtures.end());
  return logs;
}

// The family of an expert.
std::size_t FamilyOfExpert(std::size_t expert) {
  constexpr std::size_t kFirst = kLocationScaleCount;
  if (expert < kFirst) return 0;
  if (expert < kFirst + kHistogramWeights.size()) return 1;
  if (expert >= kFirst + kForecastHistogramCount) {
    return 2 + expert - kFirst - kForecastHistogramCount;
  }
  return 2 + (expert - kFirst - kHistogramWeights.size()) / kStratumHistogramWeights.size();
}

}  // namespace

void ForecastCounts::Add(const ForecastRow& row) noexcept {
  const std::size_t cells = cell_count();
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    ++strata[(kind * kForecastStrata + row.strata[kind]) * cells + row.cell];
  }
  for (std::size_t k = row.cell; k < std::size_t{row.cell} + row.ties; ++k) ++equal[k];
  crps += row.crps;
  log_score += row.log_score;
  // The sums of t and of its square agree, so that the variance of t is not negative.
  const double bounded = std::clamp(row.t, -kMostResidual, kMostResidual);
  t += bounded;
  t_square += bounded * bounded;
}

void ForecastCounts::Merge(const ForecastCounts& other) noexcept {
  for (std::size_t i = 0; i < strata.size(); ++i) strata[i] += other.strata[i];
  for (std::size_t k = 0; k < equal.size(); ++k) equal[k] += other.equal[k];
  crps += other.crps;
  log_score += other.log_score;
  t += other.t;
  t_square += other.t_square;
}

void ForecastCounts::Subtract(const ForecastCounts& earlier) noexcept {
  for (std::size_t i = 0; i < strata.size(); ++i) strata[i] -= earlier.strata[i];
  for (std::size_t k = 0; k < equal.size(); ++k) equal[k] -= earlier.equal[k];
  crps -= earlier.crps;
  log_score -= earlier.log_score;
  t -= earlier.t;
  t_square -= earlier.t_square;
}

std::span<const std::int64_t> ForecastCounts::Of(StratumKind kind, std::size_t stratum) const {
  const std::size_t line = static_cast<std::size_t>(kind) * kForecastStrata + stratum;
  return std::span(strata).subspan(line * cell_count(), cell_count());
}

std::vector<std::int64_t> ForecastCounts::Cells() const {
  std::vector<std::int64_t> sums(cell_count());
  for (std::size_t stratum = 0; stratum < kForecastStrata; ++stratum) {
    const std::span<const std::int64_t> own = Of(StratumKind::kScale, stratum);
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += own[c];
  }
  return sums;
}

std::int64_t ForecastCounts::count() const noexcept {
  const auto end = strata.begin() + static_cast<std::ptrdiff_t>(strata.size() / kStratumKinds);
  return std::accumulate(strata.begin(), end, std::int64_t{0});
}

bool ForecastCounts::has_ties() const noexcept {
  return std::ranges::any_of(equal, [](std::int64_t count) { return count > 0; });
}

bool ForecastCounts::IsValid() const noexcept {
  const std::size_t cells = cell_count();
  if (strata.size() != kStratumKinds * kForecastStrata * cells) return false;
  if (equal.size() + 1 != cells) return false;
  // Sums of valid counts are exact as doubles.
  constexpr std::int64_t kMostCount = std::int64_t{1} << 52;
  std::int64_t total = 0;
  for (std::size_t c = 0; c < cells; ++c) {
    std::array<std::int64_t, kStratumKinds> sums{};
    for (std::size_t line = 0; line < kStratumKinds * kForecastStrata; ++line) {
      const std::int64_t count = strata[line * cells + c];
      std::int64_t& sum = sums[line / kForecastStrata];
      if (count < 0 || count > kMostCount - sum) return false;
      sum += count;
    }
    if (sums[0] != sums[1] || sums[0] > kMostCount - total) return false;
    total += sums[0];
    // The outcomes that equal the quantile of level c are at most the outcomes that are not above
    // it.
    if (c < equal.size() && (equal[c] < 0 || equal[c] > total)) return false;
  }
  return std::isfinite(crps) && std::isfinite(log_score) && std::isfinite(t) &&
         std::isfinite(t_square) && t_square >= 0;
}

MixedForecastEvidence MixExperts(std::span<const double> logs, std::span<const double> levels) {
  std::array<std::vector<double>, kCellFamilyCount> members;
  for (std::size_t i = 0; i < logs.size(); ++i) members[FamilyOfExpert(i)].push_back(logs[i]);
  std::array<double, kCellFamilyCount> families{};
  for (std::size_t f = 0; f < families.size(); ++f) families[f] = LogMeanExp(members[f]);
  double log_all = LogMeanExp(families);
  // The part of the prior that the families of cells have.
  double part = 1;
  MixedForecastEvidence evidence;
  if (!levels.empty()) {
    constexpr auto kOfLevels = static_cast<std::size_t>(ForecastFamily::kLevels);
    const double log_levels = LogMeanExp(levels);
    static_assert(kLevelsPrior == 0.5);
    const std::array both = {log_all, log_levels};
    log_all = LogMeanExp(both);
    part = 1 - kLevelsPrior;
    evidence.family_log10_e_value[kOfLevels] = log_levels / std::numbers::ln10;
    evidence.family_share[kOfLevels] = std::exp(log_levels - log_all) * kLevelsPrior;
  }
  evidence.log10_e_value = log_all / std::numbers::ln10;
  for (std::size_t f = 0; f < families.size(); ++f) {
    evidence.family_log10_e_value[f] = families[f] / std::numbers::ln10;
    evidence.family_share[f] =
        std::min(1.0, part * std::exp(families[f] - log_all) / kCellFamilyCount);
  }
  return evidence;
}

MixedForecastEvidence EvidenceOf(const ForecastCells& cells, const ForecastCounts& counts) {
  return MixExperts(ExpertLogsOf(cells, counts), {});
}

ForecastDirection DirectionOf(const ForecastCells& cells, std::span<const std::int64_t> counts) {
  ForecastDirection direction;
  if (std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count == 0; })) {
    return direction;
  }
  const std::vector<double> logs = LocationScaleLogs(cells, counts);
  const auto best = std::max_element(logs.begin(), logs.end());
  direction.log_e_value = LogMeanExp(logs);
  // One of the 69 always fits the outcomes of calibrated forecasts best.
  if (direction.log_e_value < kNamedLogEvidence) return direction;
  direction.best = FitLocationScale(cells.edges(), counts);
  direction.share = std::exp(*best - direction.log_e_value) / kLocationScaleCount;
  return direction;
}

std::vector<CellDeviation> CellDeviations(const ForecastCells& cells,
                                          std::span<const std::int64_t> counts) {
  const std::int64_t n = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<CellDeviation> deviations(counts.size());
  for (std::size_t c = 0; c < counts.size(); ++c) {
    CellDeviation& cell = deviations[c];
    cell.cell = c;
    if (c > 0) cell.lower = cells.edges()[c - 1];
    if (c < cells.edges().size()) cell.upper = cells.edges()[c];
    const double pi = cells.probabilities()[c];
    cell.count = counts[c];
    cell.expected = static_cast<double>(n) * pi;
    const double deviation = static_cast<double>(cell.count) - cell.expected;
    const double variance = cell.expected * (1 - pi);
    if (variance > 0) cell.z = deviation / std::sqrt(variance);
    cell.stands_out = n >= kLeastStandOut && StandsOut(deviation, variance, counts.size());
  }
  return deviations;
}

}  // namespace calibd
