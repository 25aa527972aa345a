#ifndef CALIBD_TESTS_REPRODUCE_PUBLISHED_METRICS_H_
#define CALIBD_TESTS_REPRODUCE_PUBLISHED_METRICS_H_

#include <cstdint>
#include <span>

#include "calibd/core/forecast.h"
#include "calibd/core/prediction_batch.h"

// The metrics of the tables of Marx et al. as their source computes them. They differ from those of
// core: some are means over small batches. An incomplete last batch is left out.
namespace calibd::reproduce {

// The mean of the ECE of 20 bins over batches of 8 rows. A batch has so few rows that it is some
// .1 to .2 even for calibrated predictions.
[[nodiscard]] double PublishedEce(const PredictionBatch& batch);

// The root of the sum over batches of 128 rows, and over the actions -1 and 1, of (share of
// outcomes for which the action is wrong - the same of 10 draws from the forecasts)^2. An action is
// right if it is the sign of the outcome; for the outcome 0 both are wrong. It grows with the root
// of the number of batches. below_zero: the probability that each forecast gives to outcomes below
// 0; it gives the other ones a continuous distribution.
[[nodiscard]] double PublishedDce(std::span<const double> outcomes,
                                  std::span<const double> below_zero, std::uint64_t seed);
// What no forecast with a continuous distribution can go below if no outcome is negative.
[[nodiscard]] double LeastPublishedDce(std::span<const double> outcomes);

// 1/2 sum_b |n_b / n - 1/20| with the bin b = min(round(20 u), 19) of each probability integral
// transform u. Calibrated forecasts get .025, because the bins are not equal.
[[nodiscard]] double PublishedQce(std::span<const double> pit);

// The log likelihood of recalibrated forecasts, which the source takes from their distribution
// functions: the mean of -ln((F(y + step) - F(y) + 1e-10) / step). at, beyond: F(y), F(y + step).
inline constexpr double kPublishedStep = 1e-4;
[[nodiscard]] double PublishedLogScore(std::span<const double> at, std::span<const double> beyond);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_PUBLISHED_METRICS_H_
