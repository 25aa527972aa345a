#ifndef CALIBD_CORE_SRC_LOSS_SCALED_FEATURES_H_
#define CALIBD_CORE_SRC_LOSS_SCALED_FEATURES_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/condition.h"

namespace calibd {

// Errors: InvalidArgument unless `features` holds n x feature_count finite values.
[[nodiscard]] absl::Status CheckFeatures(std::span<const double> features, std::size_t n,
                                         std::size_t feature_count);

// The features with these indices, each divided by its standard deviation (divisor n); a constant
// feature is left out. features: n x feature_count, row-major, valid. Errors: InvalidArgument if
// nothing is left, or a standard deviation is not finite.
[[nodiscard]] absl::StatusOr<FeatureCondition> ScaleFeatures(std::span<const double> features,
                                                             std::size_t feature_count,
                                                             std::span<const std::size_t> indices);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_SCALED_FEATURES_H_
