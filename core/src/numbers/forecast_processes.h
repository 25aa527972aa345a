#ifndef CALIBD_CORE_SRC_NUMBERS_FORECAST_PROCESSES_H_
#define CALIBD_CORE_SRC_NUMBERS_FORECAST_PROCESSES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_experts.h"
#include "calibd/core/line_vector.h"
#include "evidence/evidence_layout.h"
#include "numbers/level_processes.h"

namespace calibd {

// The lanes of the experts: the location-scale experts with padding; then the histograms, the two
// mixtures within strata, and padding.
inline constexpr std::size_t kConstantLanes = ForecastCells::kPaddedBets;
inline constexpr std::size_t kLateLanes = 16;
inline constexpr std::size_t kForecastLanes = kConstantLanes + kLateLanes;
static_assert(kForecastHistogramCount + kStratumKinds <= kLateLanes);
static_assert(kConstantLanes % kGroup == 0 && kLocationScaleCount <= kConstantLanes);
// expert: below kForecastExpertCount.
[[nodiscard]] constexpr std::size_t LaneOf(std::size_t expert) noexcept {
  return expert < kLocationScaleCount ? expert : expert + kConstantLanes - kLocationScaleCount;
}
[[nodiscard]] constexpr double ForecastPrior(std::size_t expert) noexcept {
  constexpr double kFamily = 1.0 / kCellFamilyCount;
  constexpr std::size_t kOfStrata = kStratumHistogramWeights.size() + 1;
  if (expert < kLocationScaleCount) return kFamily / kLocationScaleCount;
  return kFamily / (expert < kLocationScaleCount + kHistogramWeights.size()
                        ? kHistogramWeights.size()
                        : kOfStrata);
}

// The prior of ForecastFamily::kLevels once it has begun; the families of cells share the rest.
inline constexpr double kLevelsPrior = 0.5;

// An observation, as the processes see it: see ForecastRow.
struct ForecastCode {
  std::uint8_t cell;
  std::array<std::uint8_t, kStratumKinds> strata;
  std::uint8_t ties;
};

using ForecastLanes = std::array<double, kForecastLanes>;
// W or 1 + R of each expert: its logarithm at the last fold, and its growth since.
struct alignas(64) ForecastProcess {
  ForecastLanes log{};
  ForecastLanes growth{};
  // At the last fold: the share in the mixture, relative to the largest one, whose logarithm with
  // the prior is `largest`; and 1 relative to the process.
  ForecastLanes share{};
  ForecastLanes floor{};
  double largest = 0;
  // sum_j share_j growth_j, with the experts on levels.
  double sum = 1;

  // The logarithm of the mixture.
  [[nodiscard]] double LogMixture() const noexcept;
  // The logarithm of the process of an expert, below kForecastExpertCount.
  [[nodiscard]] double LogOf(std::size_t expert) const noexcept;
};

// The counts of one past, the whole one or the recent one, and what the experts derive from them.
struct ForecastPast {
  explicit ForecastPast(std::size_t cell_count);

  // By stratum kind, stratum and cell: kStratumKinds x kForecastStrata x K. A tied outcome adds a
  // share to each cell that it fits, in proportion to their probabilities. Counts of the recent
  // past are relative to their weight at the last fold.
  LineVector strata;
  // K.
  LineVector cells;
  std::array<std::array<double, kForecastStrata>, kStratumKinds> stratum_totals{};
  double total = 0;
  // The location-scale processes within each stratum, relative to the largest at the last fold, and
  // their sums: kStratumKinds x kForecastStrata x kConstantLanes.
  LineVector weights;
  std::array<std::array<double, kForecastStrata>, kStratumKinds> weight_sums{};
};

// All processes of a ForecastEvidence. They are advanced in linear space; a fold brings them back
// to logarithms.
struct ForecastProcesses {
  // of_cells: must outlive this object.
  explicit ForecastProcesses(const ForecastCells& of_cells);

  // The bets, smoothed probabilities and tolerance of the cells.
  const ForecastCells* cells;
  std::size_t cell_count;
  std::array<ForecastPast, kPasts> pasts;
  ForecastProcess e;
  ForecastProcess r1;
  // The experts on levels take part once `tied`: since the fold after the first tied outcome.
  LevelProcesses levels;
  bool tied = false;
  // The newest row is the first tied one: Fold must be called.
  bool first_tie = false;
  // What the tied outcomes until the last fold add to the logarithms of the location-scale
  // processes of each stratum, beside their shares in the counts: kStratumKinds x kForecastStrata x
  // kConstantLanes. Empty if outcomes are never tied.
  LineVector tied_logs;
  // The counts of the whole past at the last fold. Empty if outcomes are never tied.
  LineVector folded_all;
  // The counts of the recent past at the last fold.
  LineVector folded_recent;
  // Rows since the last fold, and (1 - 1 / kMemory)^-rows.
  std::size_t rows = 0;
  double growth_of_weight = 1;
  // Bounds of all growths since the last fold.
  double least_growth = 1;
  double most_growth = 1;

  // Restores the state after a fold from `log` of the processes and `strata` of the pasts.
  void Begin() noexcept;
  // Advances by one row.
  void Advance(const ForecastCode& code) noexcept;
  // True if Fold must be called before the next row.
  [[nodiscard]] bool MustFold() const noexcept;
  // codes: of the rows since the last fold.
  void Fold(std::span<const ForecastCode> codes) noexcept;

  // Upper bound of the bytes that an object allocates. quantiles: whether the cells are of these.
  [[nodiscard]] static std::size_t Memory(std::size_t cell_count, bool quantiles) noexcept;
};

inline constexpr std::size_t kForecastFoldRows = 64;

// The mixture of the experts. logs: ln W of all kForecastExpertCount experts on cells. levels: of
// the experts on levels, or empty if they take no part.
[[nodiscard]] MixedForecastEvidence MixExperts(std::span<const double> logs,
                                               std::span<const double> levels);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_FORECAST_PROCESSES_H_
