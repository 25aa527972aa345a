#ifndef CALIBD_CORE_FORECAST_EXPERTS_H_
#define CALIBD_CORE_FORECAST_EXPERTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "calibd/core/forecast_cells.h"

namespace calibd {

// The families of experts. The first four have the prior 1/4 each, which its experts share equally.
// On an outcome that fits several cells, their bet is the smallest of those on these cells: one of
// them is the cell that has the probabilities pi under the null hypothesis, so its mean is at
// most 1. Once an outcome was tied, the four have the prior 1/8 each and kLevels has 1/2.
enum class ForecastFamily : std::uint8_t {
  // The outcome is Normal with another mean and standard deviation: 69 experts.
  kLocationScale,
  // Each cell as often as in the past: (O_c + kappa p_c) / ((n + kappa) p_c), kappa 4, 24, 100.
  kHistogram,
  // Within the strata of one kind: two such histograms, kappa 24 and 100, and the product over
  // strata of the mean of the 69 location-scale processes of each stratum.
  kByScale,
  kByLocation,
  // Bets on each level tau, which keep their force where the outcome has large atoms. For each
  // lambda of kLevelBets, those of the first kind are
  //   1 + (lambda / tau) ([y < q] - tau),
  // those of the second kind
  //   1 + (lambda / (1 - tau)) (tau - [y <= q]).
  // Their means are at most 1 if P(y < q) <= tau and P(y <= q) >= tau. tau is larger by the
  // tolerance in the first kind, and smaller in the second one, so that they hold for probabilities
  // that differ by it. They begin after the first tied outcome, each with the wealth of the
  // mixture at that time, so the e-value does not jump, and with R = 0. The other families keep
  // one half of the mixture.
  kLevels,
};
inline constexpr std::size_t kForecastFamilyCount = 5;
// The families that bet on cells.
inline constexpr std::size_t kCellFamilyCount = 4;
inline constexpr std::array kHistogramWeights = {4., 24., 100.};
inline constexpr std::array kStratumHistogramWeights = {24., 100.};
// Name the location-scale experts in saved states. Another expert gets an id that was never used.
inline constexpr auto kLocationScaleIds = [] {
  std::array<std::int32_t, kLocationScaleCount> ids{};
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}();

// The mixture of the experts' e-processes, with the priors of ForecastFamily.
struct MixedForecastEvidence {
  double log10_e_value = 0;
  // By ForecastFamily: the family's own mixture, and its share of the whole, with sum 1. Those of
  // kLevels are 0 before it begins.
  std::array<double, kForecastFamilyCount> family_log10_e_value{};
  std::array<double, kForecastFamilyCount> family_share{};
};
inline constexpr std::size_t kForecastHistogramCount =
    kHistogramWeights.size() + kStratumKinds * kStratumHistogramWeights.size();
inline constexpr std::size_t kForecastExpertCount =
    kLocationScaleCount + kForecastHistogramCount + kStratumKinds;

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_EXPERTS_H_
