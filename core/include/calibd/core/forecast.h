#ifndef CALIBD_CORE_FORECAST_H_
#define CALIBD_CORE_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/validation.h"

namespace calibd {

// What a row of a ForecastBatch contains.
enum class ForecastKind {
  // m >= 2 probabilities of classes, or their logits.
  kProbabilities,
  kLogits,
  // The mean and the standard deviation of a Normal forecast of a number.
  kNormal,
  // r >= 2 independent draws from a forecast of a number, in any order.
  kSamples,
  // A quantile for each level of a LevelsKernel, not decreasing. No gradient depends on them.
  kQuantiles,
};

// The smallest standard deviation of a Normal forecast, and the largest numbers of draws and of
// quantiles.
inline constexpr double kMinStandardDeviation = 1e-300;
inline constexpr std::size_t kMaxDraws = 1000;
inline constexpr std::size_t kMaxQuantileLevels = 63;

// A non-owning view of n forecasts with what happened: the true classes, or the outcomes.
struct ForecastBatch {
  ForecastKind kind = ForecastKind::kProbabilities;
  // n x width, row-major.
  std::span<const double> values;
  // m, 2, r or the number of levels.
  std::size_t width = 0;
  // n true classes, 0-based; empty unless classes are predicted.
  std::span<const std::int32_t> labels;
  // n outcomes; empty if classes are predicted.
  std::span<const double> outcomes;

  [[nodiscard]] bool predicts_classes() const noexcept {
    return kind == ForecastKind::kProbabilities || kind == ForecastKind::kLogits;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    return predicts_classes() ? labels.size() : outcomes.size();
  }
  [[nodiscard]] std::span<const double> row(std::size_t i) const noexcept {
    return values.subspan(i * width, width);
  }
};

// Checks the shape (n >= 1), that probabilities are valid as FindViolations of a PredictionBatch
// requires, that all other values are finite, that labels are in [0, m), that standard deviations
// are at least kMinStandardDeviation, that (outcome - mean) / standard deviation is finite, and
// that quantiles do not decrease. Returns the violations of the first invalid
// rows, at most kMaxReportedViolations; if the shape is wrong, only this. Cost: O(n width).
[[nodiscard]] std::vector<Violation> FindViolations(const ForecastBatch& batch);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_H_
