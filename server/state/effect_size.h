#ifndef CALIBD_SERVER_STATE_EFFECT_SIZE_H_
#define CALIBD_SERVER_STATE_EFFECT_SIZE_H_

#include <optional>

#include "server/state/model.h"

namespace calibd::server {

// See v1.EffectSize.
struct EffectSize {
  std::optional<double> skce;
  std::optional<double> skce_lower_bound;
  std::optional<double> skce_upper_bound;
  std::optional<double> noise_floor;
};

// lens: the canonical one, when the watch is that of all its observations; or null, and then
// there is no upper bound. Cost: O(1), some microseconds.
[[nodiscard]] EffectSize ReckonEffectSize(const WatchSnapshot& watch, const LensSnapshot* lens,
                                          double significance_level);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_EFFECT_SIZE_H_
