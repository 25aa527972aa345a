#ifndef CALIBD_CORE_ERROR_DECISION_H_
#define CALIBD_CORE_ERROR_DECISION_H_

#include <cstdint>
#include <optional>
#include <span>

#include "calibd/core/error_interval.h"
#include "calibd/core/rows_until_decided.h"
#include "calibd/core/running_reliability.h"

namespace calibd {

// After how many further rows the error of stated probabilities is decided against a limit.

// An event whose error is not decided.
struct UndecidedEvent {
  const ReliabilitySums& sums;
  // The recent error over the newest of these rows; null if it is not watched.
  const RecentErrorEvidence::State* recent = nullptr;
};

// A continuation has the error beta_b in bin b at every row. beta_b is drawn from the sums. With
// the notation of error_interval.h, n_b rows in the bin, the frequency p_b of the event, shrunk
// towards the stated probability by one row, and v_b = max(p_b (1 - p_b), .004):
// - a common shift g ~ N(sum_b S_b / t, sum_b n_b v_b / t^2);
// - the deviations of the bins from it, d_b = S_b / n_b - sum_b S_b / t with the squared error e_b
//   = v_b / n_b, have a spread whose square is drawn from N(m, 2 sum_b (n_b e_b / t)^2), m = sum_b
//   n_b (d_b^2 - e_b) / t, the estimate by moments, but at least 1e-7;
// - beta_b = g + k_b d_b + sqrt(k_b e_b) N(0, 1), k_b = spread^2 / (spread^2 + e_b): given d_b ~
//   N(delta, e_b) and delta ~ N(0, spread^2), the density of delta is proportional to exp(-(d_b -
//   delta)^2 / (2 e_b) - delta^2 / (2 spread^2)), which is N(k_b d_b, k_b e_b). beta_b stays within
//   what the stated probabilities allow.
// From row N to N + h, S_b grows by h n_b beta_b / t + sqrt(h n_b v_b / t) N(0, 1); n_b, the sum of
// the stated probabilities and V grow in proportion. The ends at N + h are those of
// BinnedErrorInterval. The wealths of the recent error grow by the factor
//   prod (1 + kappa s_b x) exp(-kappa limit h)
// over as many rows of bin b with and without the event as the growth of S_b says, with the third
// sign s_b as it is on average while the error is beta_b. With two classes, the rows of a bin of
// the probability of class 1 are also rows of a bin of the top label, and the growth of both is the
// same, but for the bin in the middle. N grows from t by steps of 7 %, up to 38 t.
//
// A continuation is decided when the error of an event is over the limit, by the lower end or by
// the recent error, or when the upper ends of all events are at most the limit.
//
// events: one, or the top label and class 1 of two classes, with equally many rows. levels: of each
// event, for kAnyTime. recent_level: the level of the recent error of each event, in (0, 1) if it
// is watched. limit: in (0, 1). least_rows: number of rows before the first decision.
//
// Unset with fewer than 1000 rows; if fewer than 95 continuations are decided within the steps; and
// if the last of the 90 needs more than four times as many rows, counted from the start, as the
// first. The same input has the same result. Cost: some milliseconds.
[[nodiscard]] std::optional<RowsUntilDecided> ForeseeErrorDecision(
    std::span<const UndecidedEvent> events, const ErrorLevels& levels, double recent_level,
    double limit, std::int64_t least_rows);

}  // namespace calibd

#endif  // CALIBD_CORE_ERROR_DECISION_H_
