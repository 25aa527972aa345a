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

std::int32_t PendingOf(const ForecastCode& code) {
  return code.cell * kCellFactor + code.strata[0] * kStratumFactor + code.strata[1];
}

ForecastCode CodeOf(std::int32_t pending) {
  return {.cell = static_cast<std::uint8_t>(pending / kCellFactor),
          .strata = {static_cast<std::uint8_t>(pending / kStratumFactor % kStratumFactor),
                     static_cast<std::uint8_t>(pending % kStratumFactor)}};
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

// Subtracts the pending rows. Returns false if there are rows that the counts lack.
bool SubtractPending(const std::vector<std::int32_t>& pending, std::size_t cell_count,
                     std::vector<std::int64_t>& strata) {
  for (const std::int32_t one : pending) {
    const auto most = static_cast<std::int32_t>(cell_count) * kCellFactor;
    if (one < 0 || one >= most) return false;
    const ForecastCode code = CodeOf(one);
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

bool HasPresentExperts(const ForecastEvidenceState& state) {
  return std::ranges::equal(state.location_scale_ids, kLocationScaleIds) &&
         std::ranges::equal(state.histogram_weights, kHistogramWeights) &&
         std::ranges::equal(state.stratum_histogram_weights, kStratumHistogramWeights);
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
    // Returns true if the maximum has grown.
    bool Add(const ForecastProcess& process, std::int64_t count) noexcept {
      if (process.sum <= least_sum) return false;
      const double log_now = process.LogMixture() + log_offset;
      if (log_now <= maximum.log_value) return false;
      maximum = {log_now, count};
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
    processes.Fold();
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
    processes_->Advance({.cell = row.cell, .strata = row.strata}, marks_);
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
  reading.evidence = MixExperts(logs);
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

void ForecastEvidence::RestartDrift(double log_threshold) noexcept {
  Processes& p = *processes_;
  marks_.log_shiryaev_roberts = log_threshold;
  p.processes.Fold();
  p.processes.r1.log.fill(0);
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
  state.log_e_value = MixExperts(logs).log10_e_value * std::numbers::ln10 + state.log_offset;
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
  if (!FitsCells(state, cells_->cell_count()) ||
      !SubtractPending(state.pending, cells_->cell_count(), before.strata)) {
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

std::size_t ForecastEvidence::MaxMemory(std::size_t cell_count) noexcept {
  return sizeof(ForecastEvidence) + sizeof(Processes) + ForecastProcesses::Memory(cell_count) +
         kStratumKinds * kForecastStrata * cell_count * sizeof(std::int64_t);
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
  reading.evidence = EvidenceOf(cells, reading.counts);
  reading.maximum.Add(reading.evidence.log10_e_value * std::numbers::ln10, reading.count);
  // If all parts are 1, their average must be 1 despite rounding.
  reading.drift.log10_now = std::max(0.0, AverageLog10EValue(shiryaev_roberts));
  reading.drift.maximum.Add(reading.drift.log10_now * std::numbers::ln10, reading.count);
  return reading;
}

}  // namespace calibd
