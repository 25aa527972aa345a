#ifndef CALIBD_CORE_FORECAST_EXPERTS_H_
#define CALIBD_CORE_FORECAST_EXPERTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "calibd/core/forecast_cells.h"

namespace calibd {

// The families of experts, each with the prior 1/4, which its experts share equally.
enum class ForecastFamily : std::uint8_t {
  // The outcome is Normal with another mean and standard deviation: 69 experts.
  kLocationScale,
  // Each cell as often as in the past: (O_c + kappa p_c) / ((n + kappa) p_c), kappa 4, 24, 100.
  kHistogram,
  // Within the strata of one kind: two such histograms, kappa 24 and 100, and the product over
  // strata of the mean of the 69 location-scale processes of each stratum.
  kByScale,
  kByLocation,
};
inline constexpr std::size_t kForecastFamilyCount = 4;
inline constexpr std::array kHistogramWeights = {4., 24., 100.};
inline constexpr std::array kStratumHistogramWeights = {24., 100.};
// Name the location-scale experts in saved states. Another expert gets an id that was never used.
inline constexpr auto kLocationScaleIds = [] {
  std::array<std::int32_t, kLocationScaleCount> ids{};
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}();

// The mixture of the experts' e-processes, with prior 1/4 for each family.
struct MixedForecastEvidence {
  double log10_e_value = 0;
  // By ForecastFamily: the family's own mixture, and its share of the whole, with sum 1.
  std::array<double, kForecastFamilyCount> family_log10_e_value{};
  std::array<double, kForecastFamilyCount> family_share{};
};
inline constexpr std::size_t kForecastHistogramCount =
    kHistogramWeights.size() + kStratumKinds * kStratumHistogramWeights.size();
inline constexpr std::size_t kForecastExpertCount =
    kLocationScaleCount + kForecastHistogramCount + kStratumKinds;

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_EXPERTS_H_
