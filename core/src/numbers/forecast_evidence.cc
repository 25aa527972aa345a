#include "calibd/core/forecast_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/flush_subnormals.h"
#include "numbers/forecast_processes.h"

namespace calibd {
namespace {

constexpr std::size_t kDescribedRows = 64;
constexpr std::int32_t kStratumFactor = kForecastStrata;
constexpr std::int32_t kCellFactor = kStratumFactor * kStratumFactor;
constexpr std::int32_t kCodedCells = 64;
constexpr std::int32_t kTiesFactor = kCellFactor * kCodedCells;

std::int32_t PendingOf(const ForecastCode& code) {
  return code.ties * kTiesFactor + code.cell * kCellFactor + code.strata[0] * kStratumFactor +
         code.strata[1];
}

ForecastCode CodeOf(std::int32_t pending) {
  return {.cell = static_cast<std::uint8_t>(pending / kCellFactor % kCodedCells),
          .strata = {static_cast<std::uint8_t>(pending / kStratumFactor % kStratumFactor),
                     static_cast<std::uint8_t>(pending % kStratumFactor)},
          .ties = static_cast<std::uint8_t>(pending / kTiesFactor)};
}

bool IsMaximumOf(const RunningMaximum& maximum, std::int64_t count) {
  return std::isfinite(maximum.log_value) && maximum.log_value >= 0 && maximum.at >= 0 &&
         maximum.at <= count;
}

bool AreLogs(const std::vector<double>& values, std::size_t size, double least) {
  // Far above the logarithm of any wealth, and so small that sums of these values are finite.
  constexpr double kMost = 1e300;
  return values.size() == size && std::all_of(values.begin(), values.end(), [least](double value) {
           return value >= least && value <= kMost;
         });
}

// Subtracts the pending rows. may_tie: whether these may be tied. Returns false if there are rows
// that the counts lack.
bool SubtractPending(const std::vector<std::int32_t>& pending, std::size_t cell_count, bool may_tie,
                     std::vector<std::int64_t>& strata) {
  for (const std::int32_t one : pending) {
    if (one < 0 || one >= (may_tie ? kCodedCells : 1) * kTiesFactor) return false;
    const ForecastCode code = CodeOf(one);
    if (std::size_t{code.cell} + code.ties >= cell_count) return false;
    for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
      if (--strata[(kind * kForecastStrata + code.strata[kind]) * cell_count + code.cell] < 0) {
        return false;
      }
    }
  }
  return true;
}

std::size_t HistogramsOf(const ForecastEvidenceState& state) {
  return state.histogram_weights.size() + kStratumKinds * state.stratum_histogram_weights.size();
}

// True if the ids or weights can name experts.
template <typename Name>
bool AreNames(std::vector<Name> names) {
  if (!std::ranges::all_of(names, [](Name name) { return name > 0 && name < 1e300; })) return false;
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) == names.end();
}

// The values of the present histograms: that of the stored histogram of the same weight, or 0 for a
// new one, whose bets begin now. values: of the stored histograms.
std::array<double, kForecastHistogramCount> ByWeight(const ForecastEvidenceState& state,
                                                     std::span<const double> values) {
  std::array<double, kForecastHistogramCount> out{};
  std::size_t to = 0;
  std::size_t begin = 0;
  const auto take = [&](const std::vector<double>& stored, const auto& present) {
    for (const double weight : present) {
      const auto found = std::ranges::find(stored, weight);
      if (found != stored.end()) {
        out[to] = values[begin + static_cast<std::size_t>(found - stored.begin())];
      }
      ++to;
    }
    begin += stored.size();
  };
  take(state.histogram_weights, kHistogramWeights);
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    take(state.stratum_histogram_weights, kStratumHistogramWeights);
  }
  return out;
}

bool HasPresentLevelBets(const TiedForecastState& ties) {
  return std::ranges::equal(ties.level_bets, kLevelBets);
}

bool HasPresentExperts(const ForecastEvidenceState& state) {
  if (state.ties.has_value() && !HasPresentLevelBets(*state.ties)) return false;
  return std::ranges::equal(state.location_scale_ids, kLocationScaleIds) &&
         std::ranges::equal(state.histogram_weights, kHistogramWeights) &&
         std::ranges::equal(state.stratum_histogram_weights, kStratumHistogramWeights);
}

bool FitsTies(const ForecastEvidenceState& state, std::size_t level_experts) {
  if (!state.ties.has_value()) return true;
  const TiedForecastState& ties = *state.ties;
  constexpr double kMost = 1e300;
  const auto count = static_cast<double>(state.counts.count());
  const std::size_t lines = kStratumKinds * kForecastStrata;
  const std::size_t of_stored = level_experts / kLevelBets.size() * ties.level_bets.size();
  return level_experts > 0 && AreNames(ties.level_bets) &&
         ties.cells.size() == state.counts.strata.size() &&
         std::ranges::all_of(ties.cells,
                             [count](double value) { return value >= 0 && value <= count; }) &&
         AreLogs(ties.log_bets, lines * state.location_scale_ids.size(), -kMost) &&
         AreLogs(ties.log_levels, of_stored, -kMost) &&
         AreLogs(ties.log_level_shiryaev_roberts, of_stored, 0);
}

bool FitsCells(const ForecastEvidenceState& state, std::size_t cell_count) {
  if (state.counts.cell_count() != cell_count || !state.counts.IsValid()) return false;
  const std::int64_t count = state.counts.count();
  const auto is_time = [count](std::int64_t at) { return at >= 0 && at <= count; };
  constexpr double kLeast = -1e300;
  const std::size_t experts = state.location_scale_ids.size() + HistogramsOf(state) + kStratumKinds;
  return IsMaximumOf(state.maximum, count) && IsMaximumOf(state.shiryaev_roberts_maximum, count) &&
         is_time(state.evidence_reached_at) && is_time(state.drift_reached_at) &&
         AreNames(state.location_scale_ids) && AreNames(state.histogram_weights) &&
         AreNames(state.stratum_histogram_weights) && std::abs(state.log_offset) <= -kLeast &&
         std::abs(state.log_e_value) <= -kLeast &&
         AreLogs(state.log_histograms, HistogramsOf(state), kLeast) &&
         AreLogs(state.log_shiryaev_roberts, experts, 0) &&
         state.recent.size() == state.counts.strata.size() &&
         std::all_of(
             state.recent.begin(), state.recent.end(),
             [count](double value) { return value >= 0 && value <= static_cast<double>(count); }) &&
         state.pending.size() < kForecastFoldRows;
}

TiedForecastState SaveTies(const ForecastProcesses& p) {
  TiedForecastState ties;
  ties.cells.assign(p.folded_all.begin(), p.folded_all.end());
  for (std::size_t line = 0; line < kStratumKinds * kForecastStrata; ++line) {
    const double* const sums = p.tied_logs.data() + line * kConstantLanes;
    ties.log_bets.insert(ties.log_bets.end(), sums, sums + kLocationScaleCount);
  }
  ties.level_bets.assign(kLevelBets.begin(), kLevelBets.end());
  ties.log_levels = p.levels.e.log;
  ties.log_level_shiryaev_roberts = p.levels.r1.log;
  return ties;
}

// Restores what SaveTies saves. state: fits the cells, and has ties. A new location-scale expert
// begins with the shares of tied outcomes alone. If the experts on levels are others, the present
// ones begin as the stored mixture.
void RestoreTies(const ForecastEvidenceState& state, ForecastProcesses& p) {
  const TiedForecastState& ties = *state.ties;
  p.tied = true;
  std::ranges::copy(ties.cells, p.pasts[kAll].strata.begin());
  const std::vector<std::int32_t>& ids = state.location_scale_ids;
  for (std::size_t j = 0; j < kLocationScaleCount; ++j) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(ids, kLocationScaleIds[j]) - ids.begin());
    if (at == ids.size()) continue;
    for (std::size_t line = 0; line < kStratumKinds * kForecastStrata; ++line) {
      p.tied_logs[line * kConstantLanes + j] = ties.log_bets[line * ids.size() + at];
    }
  }
  if (HasPresentLevelBets(ties)) {
    p.levels.e.log = ties.log_levels;
    p.levels.r1.log = ties.log_level_shiryaev_roberts;
  } else {
    std::ranges::fill(p.levels.e.log, state.log_e_value - state.log_offset);
  }
}

}  // namespace

struct ForecastEvidence::Processes {
  // A running maximum of a process, whose logarithm is only computed where it may be larger.
  struct TrackedMaximum {
    RunningMaximum maximum;
    // Added to the logarithm of the process.
    double log_offset = 0;
    // A sum of the process that is not larger than this gives no new maximum.
    double least_sum = 0;

    void Begin(const ForecastProcess& process) noexcept {
      // The margin exceeds the rounding errors of both functions.
      least_sum = std::exp(maximum.log_value - log_offset - process.largest) * (1 - 1e-9);
    }
    // Returns true if the maximum has grown. observation: the number of the newest one.
    bool Add(const ForecastProcess& process, std::int64_t observation) noexcept {
      if (process.sum <= least_sum) return false;
      const double log_now = process.LogMixture() + log_offset;
      if (log_now <= maximum.log_value) return false;
      maximum = {log_now, observation};
      Begin(process);
      return true;
    }
  };

  explicit Processes(const ForecastCells& cells) : counts(cells.cell_count()), processes(cells) {
    BeginMaxima();
  }

  void BeginMaxima() noexcept {
    maximum.Begin(processes.e);
    shiryaev_roberts.Begin(processes.r1);
  }

  void Fold() noexcept {
    processes.Fold(std::span(pending).first(processes.rows));
    BeginMaxima();
  }

  void Advance(const ForecastCode& code, const EvidenceMarks& marks) noexcept {
    pending[processes.rows] = code;
    processes.Advance(code);
    ++count;
    if (maximum.Add(processes.e, count) && reached_at == 0 &&
        maximum.maximum.log_value >= marks.log_e) {
      reached_at = count;
    }
    if (shiryaev_roberts.Add(processes.r1, count) && drift_reached_at == 0 &&
        shiryaev_roberts.maximum.log_value >= marks.log_shiryaev_roberts) {
      drift_reached_at = count;
    }
    if (processes.MustFold()) Fold();
  }

  ForecastCounts counts;
  std::int64_t count = 0;
  TrackedMaximum maximum;
  TrackedMaximum shiryaev_roberts;
  std::int64_t reached_at = 0;
  std::int64_t drift_reached_at = 0;
  ForecastProcesses processes;
  // The observations since the last fold.
  std::array<ForecastCode, kForecastFoldRows> pending;
};

ForecastEvidence::ForecastEvidence(std::shared_ptr<const ForecastCells> cells,
                                   const EvidenceMarks& marks)
    : cells_(std::move(cells)), marks_(marks), processes_(std::make_unique<Processes>(*cells_)) {}

ForecastEvidence::ForecastEvidence(const ForecastEvidence& other)
    : cells_(other.cells_),
      marks_(other.marks_),
      processes_(std::make_unique<Processes>(*other.processes_)) {}

ForecastEvidence& ForecastEvidence::operator=(const ForecastEvidence& other) {
  if (this != &other) *this = ForecastEvidence(other);
  return *this;
}

ForecastEvidence::ForecastEvidence(ForecastEvidence&& other) noexcept = default;
ForecastEvidence& ForecastEvidence::operator=(ForecastEvidence&& other) noexcept = default;
ForecastEvidence::~ForecastEvidence() = default;

void ForecastEvidence::Add(std::span<const ForecastRow> rows) noexcept {
  // An expert that is far from the data has the least normal number as its weight.
  const FlushSubnormals flush;
  for (const ForecastRow& row : rows) {
    processes_->counts.Add(row);
    processes_->Advance({.cell = row.cell, .strata = row.strata, .ties = row.ties}, marks_);
  }
}

void ForecastEvidence::Add(const NumberForecastBatch& batch,
                           std::int64_t first_observation) noexcept {
  std::array<ForecastRow, kDescribedRows> rows;
  const std::size_t width = cells_->width();
  for (std::size_t first = 0; first < batch.size(); first += kDescribedRows) {
    const std::size_t count = std::min(kDescribedRows, batch.size() - first);
    cells_->Describe({.forecasts = batch.forecasts.subspan(first * width, count * width),
                      .outcomes = batch.outcomes.subspan(first, count)},
                     first_observation + static_cast<std::int64_t>(first), rows);
    Add(std::span(rows).first(count));
  }
}

double ForecastEvidence::LogEValue() const noexcept {
  return processes_->processes.e.LogMixture() + processes_->maximum.log_offset;
}
std::int64_t ForecastEvidence::count() const noexcept { return processes_->count; }
const ForecastCounts& ForecastEvidence::counts() const noexcept { return processes_->counts; }

ForecastEvidenceReading ForecastEvidence::Read() const {
  const Processes& p = *processes_;
  ForecastEvidenceReading reading;
  reading.count = p.count;
  std::array<double, kForecastExpertCount> logs;
  for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = p.processes.e.LogOf(i);
  std::vector<double> levels;
  if (p.processes.tied) {
    const LevelProcess& of_levels = p.processes.levels.e;
    for (std::size_t i = 0; i < of_levels.log.size(); ++i) levels.push_back(of_levels.LogOf(i));
  }
  reading.evidence = MixExperts(logs, levels);
  reading.evidence.log10_e_value += p.maximum.log_offset / std::numbers::ln10;
  reading.maximum = p.maximum.maximum;
  // The two may differ in their last digits.
  if (reading.maximum.at == p.count) {
    reading.maximum.log_value =
        std::max(reading.maximum.log_value, reading.evidence.log10_e_value * std::numbers::ln10);
  }
  reading.drift = {.log10_now = std::max(0.0, p.processes.r1.LogMixture()) / std::numbers::ln10,
                   .maximum = p.shiryaev_roberts.maximum};
  reading.evidence_reached_at = p.reached_at;
  reading.drift_reached_at = p.drift_reached_at;
  reading.counts = p.counts;
  return reading;
}

EvidenceMarks ForecastEvidence::maxima() const noexcept {
  return {.log_e = processes_->maximum.maximum.log_value,
          .log_shiryaev_roberts = processes_->shiryaev_roberts.maximum.log_value};
}

void ForecastEvidence::RestartDrift(double log_threshold) noexcept {
  Processes& p = *processes_;
  marks_.log_shiryaev_roberts = log_threshold;
  p.Fold();
  p.processes.r1.log.fill(0);
  std::ranges::fill(p.processes.levels.r1.log, 0.0);
  p.processes.Begin();
  p.shiryaev_roberts.maximum = {0, p.count};
  p.drift_reached_at = 0;
  p.BeginMaxima();
}

ForecastEvidence::State ForecastEvidence::Save() const {
  const Processes& p = *processes_;
  State state;
  state.counts = p.counts;
  state.maximum = p.maximum.maximum;
  state.shiryaev_roberts_maximum = p.shiryaev_roberts.maximum;
  state.evidence_reached_at = p.reached_at;
  state.drift_reached_at = p.drift_reached_at;
  state.location_scale_ids.assign(kLocationScaleIds.begin(), kLocationScaleIds.end());
  state.histogram_weights.assign(kHistogramWeights.begin(), kHistogramWeights.end());
  state.stratum_histogram_weights.assign(kStratumHistogramWeights.begin(),
                                         kStratumHistogramWeights.end());
  state.log_offset = p.maximum.log_offset;
  std::array<double, kForecastExpertCount> logs;
  for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = p.processes.e.log[LaneOf(i)];
  std::span<const double> levels;
  if (p.processes.tied) {
    levels = p.processes.levels.e.log;
    state.ties = SaveTies(p.processes);
  }
  state.log_e_value =
      MixExperts(logs, levels).log10_e_value * std::numbers::ln10 + state.log_offset;
  for (std::size_t i = 0; i < kForecastHistogramCount; ++i) {
    state.log_histograms.push_back(p.processes.e.log[LaneOf(kLocationScaleCount + i)]);
  }
  for (std::size_t i = 0; i < kForecastExpertCount; ++i) {
    state.log_shiryaev_roberts.push_back(p.processes.r1.log[LaneOf(i)]);
  }
  const LineVector& recent = p.processes.folded_recent;
  state.recent.assign(recent.begin(), recent.end());
  for (std::size_t i = 0; i < p.processes.rows; ++i) {
    state.pending.push_back(PendingOf(p.pending[i]));
  }
  return state;
}

absl::Status ForecastEvidence::Restore(const State& state) {
  ForecastCounts before = state.counts;
  const std::size_t level_experts = cells_->level_wins().size();
  if (!FitsCells(state, cells_->cell_count()) || !FitsTies(state, level_experts) ||
      !SubtractPending(state.pending, cells_->cell_count(), level_experts > 0, before.strata)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state is not of forecasts with ", cells_->cell_count(), " cells"));
  }
  auto restored = std::make_unique<Processes>(*cells_);
  Processes& p = *restored;
  std::copy(before.strata.begin(), before.strata.end(), p.processes.pasts[kAll].strata.begin());
  std::copy(state.recent.begin(), state.recent.end(), p.processes.pasts[kRecent].strata.begin());
  const auto histograms = ByWeight(state, state.log_histograms);
  for (std::size_t i = 0; i < kForecastHistogramCount; ++i) {
    p.processes.e.log[LaneOf(kLocationScaleCount + i)] = histograms[i];
  }
  const std::span<const double> drift(state.log_shiryaev_roberts);
  ForecastLanes& lanes = p.processes.r1.log;
  const std::vector<std::int32_t>& ids = state.location_scale_ids;
  const auto own = ByWeight(state, drift.subspan(ids.size()));
  for (std::size_t i = 0; i < kLocationScaleCount; ++i) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(ids, kLocationScaleIds[i]) - ids.begin());
    lanes[LaneOf(i)] = at < ids.size() ? drift[at] : 0;
  }
  for (std::size_t i = 0; i < own.size(); ++i) lanes[LaneOf(kLocationScaleCount + i)] = own[i];
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    lanes[LaneOf(kLocationScaleCount + own.size() + kind)] = drift.last(kStratumKinds)[kind];
  }
  if (state.ties.has_value()) RestoreTies(state, p.processes);
  p.processes.Begin();
  p.maximum.log_offset = state.log_offset;
  if (!HasPresentExperts(state)) {
    p.maximum.log_offset = state.log_e_value - p.processes.e.LogMixture();
  }
  p.counts = state.counts;
  p.count = before.count();
  p.maximum.maximum = state.maximum;
  p.shiryaev_roberts.maximum = state.shiryaev_roberts_maximum;
  p.reached_at = state.evidence_reached_at;
  p.drift_reached_at = state.drift_reached_at;
  p.BeginMaxima();
  // The maxima include the pending rows, so that adding these again changes none of them.
  {
    const FlushSubnormals flush;
    for (const std::int32_t one : state.pending) p.Advance(CodeOf(one), marks_);
  }
  processes_ = std::move(restored);
  return absl::OkStatus();
}

void ForecastEvidence::AddLogs(std::span<double> cells, std::span<double> levels) const noexcept {
  const ForecastProcesses& p = processes_->processes;
  const double offset = processes_->maximum.log_offset;
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] += p.e.LogOf(i) + offset;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    levels[i] += p.tied ? p.levels.e.LogOf(i) + offset : LogEValue();
  }
}

std::size_t ForecastEvidence::MaxMemory(std::size_t cell_count, bool quantiles) noexcept {
  return sizeof(ForecastEvidence) + sizeof(Processes) +
         ForecastProcesses::Memory(cell_count, quantiles) +
         (kStratumKinds * kForecastStrata + 1) * cell_count * sizeof(std::int64_t);
}

absl::StatusOr<ForecastEvidenceReading> CombineDisjoint(
    std::span<const ForecastEvidence* const> parts) {
  if (parts.empty()) return absl::InvalidArgumentError("no parts, expected one or more");
  const ForecastCells& cells = *parts.front()->cells();
  ForecastEvidenceReading reading;
  reading.counts = ForecastCounts(cells.cell_count());
  std::vector<double> shiryaev_roberts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->cells()->cell_count() != cells.cell_count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts[", i, "] is not of ", cells.cell_count(), " cells"));
    }
    reading.counts.Merge(parts[i]->counts());
    const ForecastEvidenceReading part = parts[i]->Read();
    shiryaev_roberts.push_back(part.drift.log10_now);
  }
  reading.count = reading.counts.count();
  if (reading.counts.has_ties()) {
    std::array<double, kForecastExpertCount> logs{};
    std::vector<double> levels(cells.level_wins().size());
    for (const ForecastEvidence* const part : parts) part->AddLogs(logs, levels);
    reading.evidence = MixExperts(logs, levels);
  } else {
    reading.evidence = EvidenceOf(cells, reading.counts);
  }
  reading.maximum.Add(reading.evidence.log10_e_value * std::numbers::ln10, reading.count);
  // If all parts are 1, their average must be 1 despite rounding.
  reading.drift.log10_now = std::max(0.0, AverageLog10EValue(shiryaev_roberts));
  reading.drift.maximum.Add(reading.drift.log10_now * std::numbers::ln10, reading.count);
  return reading;
}

}  // namespace calibd
