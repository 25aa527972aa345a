#include "server/kinds/classes/effect_size.h"

#include <algorithm>

#include "calibd/core/kernel.h"

namespace calibd::server {

EffectSize ComputeEffectSize(const EvidenceReading& reading, const NullMoments& null_moments,
                             double significance_level) {
  const auto square = [](std::optional<double> kce) -> std::optional<double> {
    if (!kce.has_value()) return std::nullopt;
    const double positive = std::max(0.0, *kce);
    // The square of sqrt 2, the largest KCE, is rounded to a value above 2.
    return std::min(positive * positive, Kernel::DistributionFreeBound());
  };
  // Each bound gets half of the error probability of the interval.
  const double level = significance_level / 2;
  EffectSize effect;
  effect.skce = reading.skce_unbiased;
  effect.skce_lower_bound =
      square(LowerConfidenceSequence(reading.projections, kProjectionBound, level));
  effect.skce_upper_bound = square(KceUpperConfidenceSequence(reading.witness_norm, level));
  if (reading.count >= 2) {
    effect.noise_floor = std::max(0.0, null_moments.Unbiased().upper_quantile);
  }
  effect.one_look = TestProjections(reading.projections, reading.projection_variance);
  return effect;
}

}  // namespace calibd::server
