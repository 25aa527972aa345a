#include "numbers/forecast_processes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "base/disabled_targets.h"
#include "calibd/core/evidence_state.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numbers/forecast_processes.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "evidence/process_lanes-inl.h"

#ifndef CALIBD_CORE_SRC_FORECAST_PROCESSES_ONCE_
#define CALIBD_CORE_SRC_FORECAST_PROCESSES_ONCE_
namespace calibd {

// By lane of kLateLanes: kappa of the histograms.
inline constexpr std::array<double, kForecastHistogramCount> kKappas = {
    kHistogramWeights[0],        kHistogramWeights[1],        kHistogramWeights[2],
    kStratumHistogramWeights[0], kStratumHistogramWeights[1], kStratumHistogramWeights[0],
    kStratumHistogramWeights[1]};

// Log prior of each lane. A lane without a prior never contributes to the mixture.
struct alignas(64) ForecastLogPriors {
  ForecastLogPriors() noexcept {
    values.fill(std::numeric_limits<double>::lowest() / 4);
    for (std::size_t i = 0; i < kForecastExpertCount; ++i) {
      values[LaneOf(i)] = std::log(ForecastPrior(i));
    }
  }
  ForecastLanes values;
};
const ForecastLogPriors& LogPriorsOfForecasts() noexcept;

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_FORECAST_PROCESSES_ONCE_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

// Multiplies the weights of a stratum by the bets on a cell. Returns the growth of their sum, the
// e-value of their mixture.
HWY_INLINE double AdvanceWeights(const double* HWY_RESTRICT bets, double* HWY_RESTRICT weights,
                                 double& sum) {
  const D d;
  V total = hn::Zero(d);
  for (std::size_t at = 0; at < kConstantLanes; at += hn::Lanes(d)) {
    const V weight = hn::Mul(hn::Load(d, weights + at), hn::Load(d, bets + at));
    hn::Store(weight, d, weights + at);
    total = hn::Add(total, weight);
  }
  const double before = sum;
  sum = Sum(total);
  return sum / before;
}

// The bets of the histograms on a cell. unit: the weight of an observation if it were the newest
// one of the past.
HWY_INLINE void BetOnCell(const ForecastProcesses& p, std::size_t cell, const ForecastCode& code,
                          double unit, const ForecastPast& past, double* HWY_RESTRICT out) {
  const double probability = p.cells->smoothed()[cell];
  double observed[kForecastHistogramCount];
  double totals[kForecastHistogramCount];
  for (std::size_t i = 0; i < kHistogramWeights.size(); ++i) {
    observed[i] = past.cells[cell];
    totals[i] = past.total;
  }
  std::size_t at = kHistogramWeights.size();
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    const std::size_t stratum = code.strata[kind];
    const std::size_t line = kind * kForecastStrata + stratum;
    for (std::size_t i = 0; i < kStratumHistogramWeights.size(); ++i, ++at) {
      observed[at] = past.strata[line * p.cell_count + cell];
      totals[at] = past.stratum_totals[kind][stratum];
    }
  }
  const double divisor = probability * (1 + p.cells->tolerance());
  for (std::size_t i = 0; i < kForecastHistogramCount; ++i) {
    const double kappa = kKappas[i] * unit;
    out[i] = (observed[i] + kappa * probability) / ((totals[i] + kappa) * divisor);
  }
}

// Adds a row to the counts of a past: to each cell that it fits its share.
HWY_INLINE void CountInCells(const ForecastProcesses& p, const ForecastCode& code, double next,
                             ForecastPast& past) {
  const std::size_t end = std::size_t{code.cell} + code.ties + 1;
  const std::span<const double> probabilities = p.cells->smoothed();
  double fitting = 0;
  for (std::size_t c = code.cell; c < end; ++c) fitting += probabilities[c];
  for (std::size_t c = code.cell; c < end; ++c) {
    // Without ties it is `next` itself.
    const double share = next * (probabilities[c] / fitting);
    for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
      const std::size_t line = kind * kForecastStrata + code.strata[kind];
      past.strata[line * p.cell_count + c] += share;
    }
    past.cells[c] += share;
  }
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    past.stratum_totals[kind][code.strata[kind]] += next;
  }
  past.total += next;
}

// The bets of the experts that depend on a past, which then includes the row. bets: of the
// location-scale experts. unit: see BetOnCell. next: the weight of this row.
HWY_INLINE void BetFromPast(const ForecastProcesses& p, const ForecastCode& code,
                            const double* HWY_RESTRICT bets, double unit, double next,
                            ForecastPast& past, double* HWY_RESTRICT out) {
  BetOnCell(p, code.cell, code, unit, past, out);
  for (std::size_t tie = 1; tie <= code.ties; ++tie) {
    double others[kForecastHistogramCount];
    BetOnCell(p, code.cell + tie, code, unit, past, others);
    for (std::size_t i = 0; i < kForecastHistogramCount; ++i) out[i] = std::min(out[i], others[i]);
  }
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    const std::size_t stratum = code.strata[kind];
    const std::size_t line = kind * kForecastStrata + stratum;
    out[kForecastHistogramCount + kind] = AdvanceWeights(
        bets, past.weights.data() + line * kConstantLanes, past.weight_sums[kind][stratum]);
  }
  CountInCells(p, code, next, past);
}

// The smallest bets, or logarithms of bets, on the cells that a row fits. lines: of all cells.
// Returns a line of them, or `least`.
HWY_INLINE const double* LeastOfCells(const double* HWY_RESTRICT lines, const ForecastCode& code,
                                      double* HWY_RESTRICT least) {
  const double* const first = lines + code.cell * kConstantLanes;
  if (code.ties == 0) return first;
  const D d;
  for (std::size_t at = 0; at < kConstantLanes; at += hn::Lanes(d)) {
    V smallest = hn::Load(d, first + at);
    for (std::size_t tie = 1; tie <= code.ties; ++tie) {
      smallest = hn::Min(smallest, hn::Load(d, first + tie * kConstantLanes + at));
    }
    hn::Store(smallest, d, least + at);
  }
  return least;
}

// Advances a process by a row. step(growth, e, floor): the new growth.
template <typename Step>
HWY_INLINE void AdvanceProcess(const double* HWY_RESTRICT bets, const double* HWY_RESTRICT late,
                               ForecastProcess& process, const Step& step) {
  const D d;
  V sum = hn::Zero(d);
  const auto advance = [&](const double* HWY_RESTRICT e_values, std::size_t first,
                           std::size_t count) HWY_ATTR {
    for (std::size_t at = 0; at < count; at += hn::Lanes(d)) {
      double* const growths = process.growth.data() + first + at;
      const V growth = step(hn::Load(d, growths), hn::Load(d, e_values + at),
                            hn::Load(d, process.floor.data() + first + at));
      hn::Store(growth, d, growths);
      sum = hn::MulAdd(hn::Load(d, process.share.data() + first + at), growth, sum);
    }
  };
  advance(bets, 0, kConstantLanes);
  advance(late, kConstantLanes, kLateLanes);
  process.sum = Sum(sum);
}

void AdvanceForecast(const ForecastCode& code, ForecastProcesses& p) {
  const D d;
  alignas(64) std::array<double, kLateLanes> late[kPasts];
  for (auto& lanes : late) lanes.fill(1);
  alignas(64) double least_bets[kConstantLanes];
  const double* const bets = LeastOfCells(p.cells->bets(), code, least_bets);
  BetFromPast(p, code, bets, 1, 1, p.pasts[kAll], late[kAll].data());
  // Later rows get larger weights instead of decaying the earlier ones.
  const double next = p.growth_of_weight / (1 - 1 / kMemory);
  BetFromPast(p, code, bets, p.growth_of_weight, next, p.pasts[kRecent], late[kRecent].data());
  p.growth_of_weight = next;
  AdvanceProcess(bets, late[kAll].data(), p.e,
                 [](V growth, V e_value, V /*floor*/) { return hn::Mul(growth, e_value); });
  AdvanceProcess(bets, late[kRecent].data(), p.r1,
                 [](V growth, V e_value, V floor) { return hn::MulAdd(growth, e_value, floor); });
  V least = hn::Set(d, 1);
  V most = hn::Set(d, 1);
  const auto bound = [&](const double* HWY_RESTRICT e_values, std::size_t count) HWY_ATTR {
    for (std::size_t at = 0; at < count; at += hn::Lanes(d)) {
      least = hn::Min(least, hn::Load(d, e_values + at));
      most = hn::Max(most, hn::Load(d, e_values + at));
    }
  };
  bound(bets, kConstantLanes);
  for (const auto& lanes : late) bound(lanes.data(), kLateLanes);
  p.least_growth *= hn::GetLane(hn::MinOfLanes(d, least));
  p.most_growth *= hn::GetLane(hn::MaxOfLanes(d, most));
  ++p.rows;
}

// log_values[j] = sum_c counts[c] log_bets[c][j].
HWY_INLINE void SumLogBets(const ForecastCells& cells, const double* HWY_RESTRICT counts,
                           double* HWY_RESTRICT log_values) {
  const D d;
  // So many that the sums stay in registers, and do not wait for each other.
  constexpr std::size_t kVectors = 9;
  static_assert(kConstantLanes / kGroup % kVectors == 0);
  for (std::size_t first = 0; first < kConstantLanes; first += kVectors * hn::Lanes(d)) {
    V sums[kVectors];
    for (V& sum : sums) sum = hn::Zero(d);
    for (std::size_t c = 0; c < cells.cell_count(); ++c) {
      if (counts[c] == 0) continue;
      const V count = hn::Set(d, counts[c]);
      const double* const line = cells.log_bets() + c * kConstantLanes + first;
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[v] = hn::MulAdd(count, hn::Load(d, line + v * hn::Lanes(d)), sums[v]);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(sums[v], d, log_values + first + v * hn::Lanes(d));
    }
  }
}

// Computes the weights within a stratum from its counts. log_values: the logarithms of the
// location-scale processes. Returns the logarithm of their mean.
HWY_INLINE double BeginWeights(const double* HWY_RESTRICT log_values, double* HWY_RESTRICT weights,
                               double& sum) {
  const D d;
  // The padding, with the logarithm 0, may be larger than all others.
  const V end = hn::Set(d, static_cast<double>(kLocationScaleCount));
  const auto is_expert = [&](std::size_t at)
                             HWY_ATTR { return hn::Lt(hn::Iota(d, static_cast<double>(at)), end); };
  V most = hn::Load(d, log_values);
  for (std::size_t at = 0; at < kConstantLanes; at += hn::Lanes(d)) {
    most = hn::Max(most, hn::IfThenElse(is_expert(at), hn::Load(d, log_values + at), most));
  }
  most = hn::MaxOfLanes(d, most);
  V total = hn::Zero(d);
  for (std::size_t at = 0; at < kConstantLanes; at += hn::Lanes(d)) {
    const V below = hn::Min(hn::Zero(d), hn::Sub(hn::Load(d, log_values + at), most));
    const V weight = hn::IfThenElseZero(is_expert(at), Exp(below));
    hn::Store(weight, d, weights + at);
    total = hn::Add(total, weight);
  }
  sum = Sum(total);
  return hn::GetLane(most) + std::log(sum / kLocationScaleCount);
}

// Computes the totals and the weights of a past from its counts by strata. tied_logs: added to the
// logarithms that follow from the counts, or null. log_constant: receives the logarithms of the
// location-scale processes. log_mixtures: those of their mixtures within the strata of each kind.
HWY_INLINE void BeginPast(const ForecastProcesses& p, ForecastPast& past, const double* tied_logs,
                          double* HWY_RESTRICT log_constant, double* HWY_RESTRICT log_mixtures) {
  const D d;
  std::fill(past.cells.begin(), past.cells.end(), 0.0);
  std::fill_n(log_constant, kConstantLanes, 0.0);
  past.total = 0;
  alignas(64) double log_values[kConstantLanes];
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    log_mixtures[kind] = 0;
    for (std::size_t stratum = 0; stratum < kForecastStrata; ++stratum) {
      const std::size_t line = kind * kForecastStrata + stratum;
      const double* const counts = past.strata.data() + line * p.cell_count;
      double& total = past.stratum_totals[kind][stratum];
      total = 0;
      for (std::size_t c = 0; c < p.cell_count; ++c) total += counts[c];
      SumLogBets(*p.cells, counts, log_values);
      if (tied_logs != nullptr) {
        for (std::size_t j = 0; j < kConstantLanes; ++j) {
          log_values[j] += tied_logs[line * kConstantLanes + j];
        }
      }
      log_mixtures[kind] += BeginWeights(log_values, past.weights.data() + line * kConstantLanes,
                                         past.weight_sums[kind][stratum]);
      if (kind != 0) continue;
      past.total += total;
      for (std::size_t c = 0; c < p.cell_count; ++c) past.cells[c] += counts[c];
      for (std::size_t at = 0; at < kConstantLanes; at += hn::Lanes(d)) {
        hn::Store(hn::Add(hn::Load(d, log_constant + at), hn::Load(d, log_values + at)), d,
                  log_constant + at);
      }
    }
  }
}

// Computes shares and floors from the logarithms. The growths become 1. levels: the same processes
// of the experts on levels, or null if they take no part.
HWY_INLINE void BeginProcess(ForecastProcess& process, LevelProcess* levels) {
  const D d;
  const ForecastLogPriors& priors = LogPriorsOfForecasts();
  V most =
      hn::Set(d, levels == nullptr ? std::numeric_limits<double>::lowest() : levels->LogLargest());
  for (std::size_t at = 0; at < kForecastLanes; at += hn::Lanes(d)) {
    most = hn::Max(most, hn::Add(hn::Load(d, process.log.data() + at),
                                 hn::Load(d, priors.values.data() + at)));
  }
  most = hn::MaxOfLanes(d, most);
  process.largest = hn::GetLane(most);
  V sum = hn::Zero(d);
  for (std::size_t at = 0; at < kForecastLanes; at += hn::Lanes(d)) {
    const V log = hn::Load(d, process.log.data() + at);
    const V share = Exp(hn::Sub(hn::Add(log, hn::Load(d, priors.values.data() + at)), most));
    hn::Store(share, d, process.share.data() + at);
    hn::Store(Exp(hn::Min(hn::Zero(d), hn::Neg(log))), d, process.floor.data() + at);
    hn::Store(hn::Set(d, 1), d, process.growth.data() + at);
    sum = hn::Add(sum, share);
  }
  process.sum = Sum(sum);
  if (levels == nullptr) return;
  process.sum += levels->Begin(process.largest);
  // Both halves of the mixture count equally.
  static_assert(kLevelsPrior == 0.5);
  process.largest -= std::numbers::ln2;
}

void BeginForecast(ForecastProcesses& p) {
  alignas(64) double unused[kConstantLanes];
  double* const mixtures = p.e.log.data() + LaneOf(kLocationScaleCount + kForecastHistogramCount);
  BeginPast(p, p.pasts[kAll], p.tied ? p.tied_logs.data() : nullptr, p.e.log.data(), mixtures);
  double recent_mixtures[kStratumKinds];
  BeginPast(p, p.pasts[kRecent], nullptr, unused, recent_mixtures);
  BeginProcess(p.e, p.tied ? &p.levels.e : nullptr);
  BeginProcess(p.r1, p.tied ? &p.levels.r1 : nullptr);
  p.rows = 0;
  p.growth_of_weight = 1;
  p.least_growth = 1;
  p.most_growth = 1;
}

// Adds to tied_logs what the smallest bets on the cells of tied rows are below those that their
// shares in the counts stand for.
HWY_INLINE void AddTiedLogs(std::span<const ForecastCode> rows, ForecastProcesses& p) {
  alignas(64) double buffer[kConstantLanes];
  const std::span<const double> probabilities = p.cells->smoothed();
  for (const ForecastCode& code : rows) {
    if (code.ties == 0) continue;
    const double* const least = LeastOfCells(p.cells->log_bets(), code, buffer);
    const std::size_t end = std::size_t{code.cell} + code.ties + 1;
    double fitting = 0;
    for (std::size_t c = code.cell; c < end; ++c) fitting += probabilities[c];
    for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
      const std::size_t line = kind * kForecastStrata + code.strata[kind];
      double* const sums = p.tied_logs.data() + line * kConstantLanes;
      for (std::size_t j = 0; j < kConstantLanes; ++j) sums[j] += least[j];
      for (std::size_t c = code.cell; c < end; ++c) {
        const double share = probabilities[c] / fitting;
        const double* const log_bets = p.cells->log_bets() + c * kConstantLanes;
        for (std::size_t j = 0; j < kConstantLanes; ++j) sums[j] -= share * log_bets[j];
      }
    }
  }
}

void FoldForecast(std::span<const ForecastCode> rows, ForecastProcesses& p) {
  const D d;
  if (p.tied) AddTiedLogs(rows, p);
  const V retention = hn::Set(d, 1 / p.growth_of_weight);
  LineVector& recent = p.pasts[kRecent].strata;
  for (std::size_t at = 0; at < recent.size(); at += hn::Lanes(d)) {
    hn::Store(hn::Mul(hn::Load(d, recent.data() + at), retention), d, recent.data() + at);
  }
  for (std::size_t at = 0; at < kForecastLanes; at += hn::Lanes(d)) {
    const auto fold = [&](ForecastProcess& process, V least) HWY_ATTR {
      const V growth = hn::Load(d, process.growth.data() + at);
      const V log = hn::Load(d, process.log.data() + at);
      hn::Store(Folded(log, growth, least), d, process.log.data() + at);
    };
    fold(p.e, hn::Set(d, std::numeric_limits<double>::lowest()));
    fold(p.r1, hn::Zero(d));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {
namespace {

// A row multiplies no growth by less than 1e-37, nor by more than 1e11.
constexpr double kLeastGrowth = 1e-200;
constexpr double kMostGrowth = 1e200;

}  // namespace

HWY_EXPORT(AdvanceForecast);
HWY_EXPORT(BeginForecast);
HWY_EXPORT(FoldForecast);

const ForecastLogPriors& LogPriorsOfForecasts() noexcept {
  static const ForecastLogPriors priors;
  return priors;
}

double ForecastProcess::LogMixture() const noexcept { return largest + std::log(sum); }
double ForecastProcess::LogOf(std::size_t expert) const noexcept {
  return log[LaneOf(expert)] + std::log(growth[LaneOf(expert)]);
}

ForecastPast::ForecastPast(std::size_t cell_count)
    : strata(kStratumKinds * kForecastStrata * cell_count),
      cells(cell_count),
      weights(kStratumKinds * kForecastStrata * kConstantLanes) {}

ForecastProcesses::ForecastProcesses(const ForecastCells& of_cells)
    : cells(&of_cells),
      cell_count(of_cells.cell_count()),
      pasts{ForecastPast(cell_count), ForecastPast(cell_count)},
      levels(of_cells.level_wins()) {
  if (!of_cells.level_wins().empty()) {
    tied_logs.resize(kStratumKinds * kForecastStrata * kConstantLanes);
    folded_all.resize(pasts[kAll].strata.size());
  }
  Begin();
}

void ForecastProcesses::Begin() noexcept {
  folded_recent = pasts[kRecent].strata;
  if (tied) folded_all = pasts[kAll].strata;
  first_tie = false;
  HWY_DYNAMIC_DISPATCH(BeginForecast)(*this);
}
void ForecastProcesses::Advance(const ForecastCode& code) noexcept {
  HWY_DYNAMIC_DISPATCH(AdvanceForecast)(code, *this);
  if (tied) {
    const LevelProcesses::Step step = levels.Advance(code.cell, code.ties);
    e.sum += step.e_sum;
    r1.sum += step.r1_sum;
    least_growth *= step.least_bet;
    most_growth *= step.most_bet;
  }
  first_tie = !tied && code.ties > 0;
}
bool ForecastProcesses::MustFold() const noexcept {
  return rows >= kForecastFoldRows || least_growth < kLeastGrowth || most_growth > kMostGrowth ||
         first_tie;
}
void ForecastProcesses::Fold(std::span<const ForecastCode> codes) noexcept {
  if (first_tie) {
    std::ranges::fill(levels.e.log, e.LogMixture());
    std::ranges::fill(levels.r1.log, 0.0);
    tied = true;
  } else if (tied) {
    levels.e.Fold(std::numeric_limits<double>::lowest());
    levels.r1.Fold(0);
  }
  HWY_DYNAMIC_DISPATCH(FoldForecast)(codes, *this);
  Begin();
}

std::size_t ForecastProcesses::Memory(std::size_t cell_count, bool quantiles) noexcept {
  const std::size_t lines = kStratumKinds * kForecastStrata;
  const std::size_t of_past = lines * (cell_count + kConstantLanes) + cell_count;
  // Two processes of four values for each expert on levels.
  const std::size_t of_levels = kLevelBets.size() * 2 * 2 * 4 * (cell_count - 1);
  const std::size_t of_ties = quantiles ? lines * (kConstantLanes + cell_count) + of_levels : 0;
  return (kPasts * of_past + lines * cell_count + of_ties) * sizeof(double);
}

}  // namespace calibd
#endif  // HWY_ONCE
