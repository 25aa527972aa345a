#ifndef CALIBD_SERVER_WATCH_OUTCOME_PROBABILITY_H_
#define CALIBD_SERVER_WATCH_OUTCOME_PROBABILITY_H_

#include <span>

#include "calibd/core/forecast_cells.h"

namespace calibd::server {

// The largest power of ten of which a number is a multiple, such as 0.1 for 2.5 and 100 for 1200:
// the unit to which it was rounded, or a larger one. Infinite for 0, and 0 for a number with more
// than six significant digits. A number in single precision has the unit of its decimal form.
[[nodiscard]] double DecimalUnit(double value) noexcept;

// The probability, by the forecast, of an outcome that is rounded to this one with its DecimalUnit.
// It is 1 for the outcome 0. Between the outer quantiles the distribution function is linear; an
// outcome beyond them has the probability of all that is beyond. Of r draws, (k + 1) / (r + 1) with
// k of them rounded to the outcome. row: a valid forecast of the kind. Cost: O(width).
[[nodiscard]] double ProbabilityOfOutcome(const NumberForecastKind& kind,
                                          std::span<const double> row, double outcome) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_OUTCOME_PROBABILITY_H_
