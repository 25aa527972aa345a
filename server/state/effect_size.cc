#include "server/state/effect_size.h"

#include <algorithm>
#include <variant>

#include "calibd/core/confidence_sequence.h"

namespace calibd::server {
namespace {

// Of the values after the first ones of a sequence. Chan, Golub & LeVeque's update, backwards.
RunningMoments After(const RunningMoments& all, const RunningMoments& first) {
  if (first.count == 0) {
    return all;
  }
  RunningMoments rest{.count = all.count - first.count, .mean = 0, .m2 = 0};
  if (rest.count < 1) {
    return {};
  }
  const auto n = static_cast<double>(all.count);
  const auto n_first = static_cast<double>(first.count);
  const auto n_rest = static_cast<double>(rest.count);
  rest.mean = (n * all.mean - n_first * first.mean) / n_rest;
  const double apart = rest.mean - first.mean;
  rest.m2 = std::max(0.0, all.m2 - first.m2 - apart * apart * n_first * n_rest / n);
  return rest;
}

// From whichever block estimator says most; they share the error of the interval's upper half.
std::optional<double> SkceUpperBound(const LensSnapshot& lens, const WatchStart& start,
                                     double significance_level) {
  if (!lens.kernel.has_value() || !std::holds_alternative<Kernel>(*lens.kernel)) {
    // What a matrix-valued kernel weighs differently has another scale.
    return std::nullopt;
  }
  std::optional<double> least;
  // The value of a block is a mean of terms.
  const double range = DistributionFreeBound(*lens.kernel);
  const double level = significance_level / 2 / static_cast<double>(lens.blocks.size());
  for (std::size_t i = 0; i < lens.blocks.size(); ++i) {
    const RunningMoments first = i < start.blocks.size() ? start.blocks[i] : RunningMoments{};
    const auto bound = UpperConfidenceSequence(After(lens.blocks[i].moments, first), range, level);
    if (bound.has_value() && (!least.has_value() || *bound < *least)) {
      least = std::max(0.0, *bound);
    }
  }
  return least;
}

}  // namespace

EffectSize ReckonEffectSize(const WatchSnapshot& watch, const LensSnapshot* lens,
                            double significance_level) {
  EffectSize effect;
  effect.skce = watch.reading.skce_unbiased;
  effect.skce_lower_bound = SkceLowerBound(watch.reading, significance_level);
  if (lens != nullptr) {
    effect.skce_upper_bound = SkceUpperBound(*lens, watch.start, significance_level);
  }
  if (watch.reading.count >= 2) {
    effect.noise_floor = std::max(0.0, watch.null_moments.Unbiased().upper_quantile);
  }
  return effect;
}

}  // namespace calibd::server
