#include "loss/scaled_features.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/moments.h"

namespace calibd {

absl::Status CheckFeatures(std::span<const double> features, std::size_t n, std::size_t d) {
  if (features.size() != n * d) {
    return absl::InvalidArgumentError(
        absl::StrCat("features has ", features.size(), " values, expected ", n * d));
  }
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (std::isfinite(features[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("features[", i / d, "][", i % d, "] is ",
                                                   features[i], ", expected a finite number"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeatureCondition> ScaleFeatures(std::span<const double> features, std::size_t d,
                                               std::span<const std::size_t> indices) {
  const std::size_t n = features.size() / d;
  std::vector<std::pair<std::size_t, double>> kept;
  for (const std::size_t k : indices) {
    RunningMoments moments;
    for (std::size_t i = 0; i < n; ++i) moments.Add(features[i * d + k]);
    const double deviation = std::sqrt(moments.m2 / static_cast<double>(n));
    if (!std::isfinite(deviation)) {
      return absl::InvalidArgumentError(
          absl::StrCat("features: the standard deviation of feature ", k,
                       " exceeds the range of double, give it in another unit"));
    }
    if (deviation > 0) kept.emplace_back(k, deviation);
  }
  if (kept.empty()) {
    return absl::InvalidArgumentError(
        "features: each has the same value in all rows, expected one that differs");
  }
  FeatureCondition condition;
  condition.values.reserve(n * kept.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& [k, deviation] : kept) {
      condition.values.push_back(features[i * d + k] / deviation);
    }
  }
  return condition;
}

}  // namespace calibd
