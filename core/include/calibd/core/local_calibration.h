#ifndef CALIBD_CORE_LOCAL_CALIBRATION_H_
#define CALIBD_CORE_LOCAL_CALIBRATION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/condition.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Where are forecasts of a number wrong? The local calibration error (LocalCalibrationError) at
// some of the rows. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Sec. 6.4.
struct LocalPlace {
  // The row at whose features the error is measured.
  std::size_t row = 0;
  // The error, and its mean for calibrated forecasts: mean over the levels of level (1 - level),
  // divided by effective_rows.
  double error = 0;
  double expected_error = 0;
  // (sum_i k_i)^2 / sum_i k_i^2 with the weights k_i of the rows, in [1, n].
  double effective_rows = 0;
  // The weighted shares of the outcomes that are at most the median of their forecast, and in the
  // central intervals of 50 and 90 %.
  double below_median = 0;
  double inside_50 = 0;
  double inside_90 = 0;
  // error / expected_error is compared with the largest such ratio of each replicate, so that all
  // places may be looked at together. The test is exact, see TestPit.
  double p_value = 1;
};

struct LocalCalibration {
  // The mean of the errors over the places, tested with uniform transforms.
  SimulatedStatistic mean_error;
  // The number of places: at most 100, and fewer for more than 20000 rows, but at least 10. They
  // are rows at equal distances.
  std::size_t place_count = 0;
  // The places with the largest ratio of error and expected error, that one first: at most
  // kMostLocalPlaces, without those whose weight at one with a larger ratio exceeds 1/2.
  std::vector<LocalPlace> worst;
};
inline constexpr std::size_t kMostLocalPlaces = 5;

// pit: in [0, 1], n >= 1, see ProbabilityIntegralTransforms. condition: n rows of features, with a
// gamma. resampling.null must be kForecast. Errors: InvalidArgument (replicates, null); Cancelled.
// Cost: O(n P d) for P places and d features, and O(n P) for each replicate; memory O(n P).
[[nodiscard]] absl::StatusOr<LocalCalibration> TestLocalCalibration(
    std::span<const double> pit, const FeatureCondition& condition,
    const BootstrapOptions& resampling, const RunControl& control = {});

// The number of places for n rows.
[[nodiscard]] std::size_t LocalPlaceCount(std::size_t n) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_LOCAL_CALIBRATION_H_
