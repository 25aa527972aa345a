#ifndef CALIBD_SERVER_KINDS_CLASSES_EFFECT_SIZE_H_
#define CALIBD_SERVER_KINDS_CLASSES_EFFECT_SIZE_H_

#include <optional>

#include "calibd/core/confidence_sequence.h"
#include "calibd/core/evidence.h"
#include "calibd/core/noise_floor.h"

namespace calibd::server {

// The values of v1.EffectSize.
struct EffectSize {
  std::optional<double> skce;
  std::optional<double> skce_lower_bound;
  std::optional<double> skce_upper_bound;
  std::optional<double> noise_floor;
  // The Z test of the projections.
  std::optional<NormalTest> one_look;
};

// null_moments: those of the SKCE of the reading. Cost: O(1), some microseconds.
[[nodiscard]] EffectSize ComputeEffectSize(const EvidenceReading& reading,
                                           const NullMoments& null_moments,
                                           double significance_level);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_EFFECT_SIZE_H_
