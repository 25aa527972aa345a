#ifndef CALIBD_CORE_CONDITION_H_
#define CALIBD_CORE_CONDITION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "calibd/core/distance.h"

namespace calibd {

// What the outcomes are conditioned on: the kernel k_z(z, z').

// k_z = 1.
struct NoCondition {};
// The forecast. For classes: exp(-distance / bandwidth) over the part of the prediction that the
// lens shows; over a single probability, the distance is |c - c'| (or its square for
// kSquaredEuclidean). For numbers: exp(-gamma W^2) with the Wasserstein distance W, W^2 = (mu -
// mu')^2 + (sd - sd')^2 for Normal forecasts, and the mean square of the differences of the sorted
// draws for samples and of the quantiles.
struct ForecastCondition {
  Distance distance = Distance::kTotalVariation;
  // For classes; finite and > 0. If unset: the median of MedianBandwidth; over a single probability
  // kScalarBandwidth, squared for kSquaredEuclidean.
  std::optional<double> bandwidth;
  // For numbers; finite and > 0. If unset: 1 / (2 l^2) with l the median of W over the pairs of
  // different forecasts.
  std::optional<double> gamma;
};
// exp(-gamma |x - x'|^2) of features. values: n x d, row-major, finite, d >= 1.
struct FeatureCondition {
  std::vector<double> values;
  // Finite and > 0. If unset: 1 / (2 l^2) with l the median of |x - x'| over the pairs of different
  // rows.
  std::optional<double> gamma;
};
// [g = g'] of n groups.
struct GroupCondition {
  std::vector<std::int32_t> groups;
};
using Condition = std::variant<ForecastCondition, NoCondition, FeatureCondition, GroupCondition>;

// A parameter of a test that is not given is chosen from this many rows, the first ones.
inline constexpr std::size_t kParameterRows = 1000;

}  // namespace calibd

#endif  // CALIBD_CORE_CONDITION_H_
