#ifndef CALIBD_CORE_FORECAST_GENERATOR_H_
#define CALIBD_CORE_FORECAST_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_coverage.h"

namespace calibd {

// Forecasts of a number with known errors: row i states N(mu_i, sigma_i^2), with mu_i ~ N(0, 1) and
// sigma_i = e^{.35 Z_i}, as its mean and standard deviation, by its quantiles, or by independent
// draws; the outcome is mu_i + sigma_i (shift + scale Z'_i). All Z are independent and N(0, 1).
struct ForecastGeneratorSpec {
  NumberForecastKind kind;
  // The errors, as in LocationScale: calibrated forecasts have 0 and 1. In [-100, 100] and
  // [0.01, 100].
  LocationScale errors{};
  // The first row with these errors, from 1; the rows before it are calibrated. At least 1.
  std::int64_t drift_at = 1;
};

// Draws from a ForecastGeneratorSpec. The sequence depends only on the seed, and not on how it is
// split into calls.
class ForecastGenerator {
 public:
  // Errors: those of CheckForecastKind; InvalidArgument naming the field and the value.
  [[nodiscard]] static absl::StatusOr<ForecastGenerator> Create(ForecastGeneratorSpec spec,
                                                                std::uint64_t seed);

  // Appends the next n rows: n x ForecastWidth values, row-major, and n outcomes.
  void Draw(std::size_t n, std::vector<double>& forecasts, std::vector<double>& outcomes);

 private:
  ForecastGenerator(ForecastGeneratorSpec spec, std::uint64_t seed);

  ForecastGeneratorSpec spec_;
  std::uint64_t seed_;
  std::int64_t drawn_ = 0;
  // Phi^-1 of the levels of quantiles.
  std::vector<double> normal_levels_;
};

// The limits of the estimates of CoverageOf on rows with the errors: those of its coverage error
// and of the coverages of the central intervals. Their intervals mean nothing here. By the exact
// probabilities of the cells,
//   Phi((Z_{c+1} - shift) / scale) - Phi((Z_c - shift) / scale),  Z_c = Phi^-1 of the edges.
// Rounded to 2^-50. Unset for samples with errors, which have no closed form. spec: valid.
[[nodiscard]] std::optional<ForecastCoverage> ExpectedCoverage(const ForecastGeneratorSpec& spec);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_GENERATOR_H_
