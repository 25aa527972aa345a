#ifndef CALIBD_CORE_SRC_NUMBERS_LOCATION_SCALE_FIT_H_
#define CALIBD_CORE_SRC_NUMBERS_LOCATION_SCALE_FIT_H_

#include <cstdint>
#include <span>

#include "calibd/core/forecast_cells.h"

namespace calibd {

// The Normal distribution, in units in which the forecast is the standard Normal one, that gives
// the counts of its cells the largest likelihood. edges: K - 1 inner edges of the PIT, increasing,
// in (0, 1). counts: of K cells, with sum n >= 1; one more observation is spread over the cells as
// forecast, so that the result is finite. Two cells do not tell the scale, which is then 1. |shift|
// is at most 10, and the scale is in [0.05, 20]. Fisher scoring: Rao, Linear Statistical Inference
// (1973), Sec. 5g. Cost: O(K) for each of at most 50 steps.
[[nodiscard]] LocationScale FitLocationScale(std::span<const double> edges,
                                             std::span<const std::int64_t> counts);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_LOCATION_SCALE_FIT_H_
