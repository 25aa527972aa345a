#include "loss/number_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/pair_median.h"
#include "calibd/core/kernel.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// 1 / (2 l^2) with l the MedianDistance. Returns 0 if all distances are 0, and NaN if they exceed
// the range of double. Errors: Cancelled.
template <typename DistanceOfPair>
absl::StatusOr<double> MedianGamma(std::size_t n, const RunControl& control,
                                   const DistanceOfPair& distance) {
  CALIBD_ASSIGN_OR_RETURN(const double median, MedianDistance(n, control, distance));
  if (median == 0) return 0;
  const double gamma = 0.5 / median / median;
  return gamma > 0 ? gamma : std::numeric_limits<double>::quiet_NaN();
}

absl::Status CheckChosen(const char* field, double gamma) {
  if (gamma > 0 && std::isfinite(gamma)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(field, " cannot be chosen from these rows, give a value"));
}

// Chooses the gamma of a kernel that has none.
absl::Status ChooseGamma(const ForecastBatch& batch, const RunControl& control, RbfKernel& kernel) {
  if (kernel.gamma.has_value()) return absl::OkStatus();
  std::vector<std::pair<double, double>> moments;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.row(i);
    if (batch.kind == ForecastKind::kNormal) {
      moments.emplace_back(row[0], row[1] * row[1]);
      continue;
    }
    const auto r = static_cast<double>(row.size());
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / r;
    double squares = 0;
    for (const double draw : row) squares += (draw - mean) * (draw - mean);
    moments.emplace_back(mean, squares / r);
  }
  CALIBD_ASSIGN_OR_RETURN(
      kernel.gamma, MedianGamma(batch.size(), control, [&](std::size_t i, std::size_t j) {
        const double distance = moments[i].first - moments[j].first;
        return std::sqrt(distance * distance + moments[i].second + moments[j].second);
      }));
  return CheckChosen("outcome_kernel.rbf.gamma", *kernel.gamma);
}

// exp(-gamma |x - x'|^2) of points; chooses gamma if it is unset and the points differ.
absl::StatusOr<ConditionPtr> MakeGaussian(Points points, std::size_t n, double slope,
                                          const char* field, const RunControl& control,
                                          std::optional<double>& gamma) {
  if (!gamma.has_value()) {
    CALIBD_ASSIGN_OR_RETURN(const double chosen,
                            MedianGamma(n, control, [&](std::size_t i, std::size_t j) {
                              return DistanceOf(Distance::kEuclidean, points.row(i), points.row(j));
                            }));
    if (chosen == 0) return MakeNoCondition();
    CALIBD_RETURN_IF_ERROR(CheckChosen(field, chosen));
    gamma = chosen;
  }
  CALIBD_ASSIGN_OR_RETURN(const Kernel kernel,
                          Kernel::Over(Distance::kSquaredEuclidean, 1 / *gamma));
  return MakePointCondition(points, kernel, slope);
}

// The special case of these pairs, or null.
std::unique_ptr<const PairProducts> MakeSpecialProducts(const ForecastBatch& batch,
                                                        const OutcomeKernel& kernel,
                                                        const Condition& condition) {
  if (batch.kind != ForecastKind::kNormal) return nullptr;
  if (const auto* const forecast = std::get_if<ForecastCondition>(&condition)) {
    return MakeNormalProducts(batch, kernel, forecast->gamma.value_or(0));
  }
  if (!std::holds_alternative<NoCondition>(condition)) return nullptr;
  return MakeNormalProducts(batch, kernel, 0);
}

}  // namespace

absl::StatusOr<ConditionPtr> MakeCondition(const ForecastBatch& batch, const RunControl& control,
                                           Condition& condition) {
  const std::size_t n = batch.size();
  if (auto* const groups = std::get_if<GroupCondition>(&condition)) {
    return MakeGroupCondition(std::exchange(groups->groups, {}));
  }
  if (auto* const features = std::get_if<FeatureCondition>(&condition)) {
    const std::size_t width = features->values.size() / n;
    return MakeGaussian({std::exchange(features->values, {}), width}, n, 0,
                        "condition.features.gamma", control, features->gamma);
  }
  auto* const forecast = std::get_if<ForecastCondition>(&condition);
  if (forecast == nullptr) return MakeNoCondition();
  Points points{{batch.values.begin(), batch.values.end()}, batch.width};
  // Draws and quantiles ascend, so that W^2 is the mean of the squares of their differences.
  const double slope =
      batch.kind == ForecastKind::kNormal ? 1 : 1 / std::sqrt(static_cast<double>(batch.width));
  for (double& value : points.values) value *= slope;
  return MakeGaussian(std::move(points), n, slope, "condition.forecast.gamma", control,
                      forecast->gamma);
}

absl::StatusOr<NumberPairs> MakeNumberPairs(const ForecastBatch& batch, const RunControl& control,
                                            std::optional<OutcomeKernel>& kernel,
                                            Condition& condition) {
  if (!kernel.has_value()) kernel = RbfKernel{};
  if (auto* const rbf = std::get_if<RbfKernel>(&*kernel)) {
    CALIBD_RETURN_IF_ERROR(ChooseGamma(batch, control, *rbf));
  }
  NumberPairs pairs;
  if (const auto* const levels = std::get_if<LevelsKernel>(&*kernel)) {
    pairs.terms = MakeLevelTerms(batch, levels->levels);
  } else {
    pairs.terms = batch.kind == ForecastKind::kNormal ? MakeNormalTerms(batch, *kernel)
                                                      : MakeSampleTerms(batch, *kernel);
  }
  CALIBD_ASSIGN_OR_RETURN(pairs.condition, MakeCondition(batch, control, condition));
  pairs.products = MakeSpecialProducts(batch, *kernel, condition);
  if (pairs.products == nullptr) pairs.products = MakeProducts(*pairs.terms, *pairs.condition);
  return pairs;
}

AscendingForecasts::AscendingForecasts(const ForecastBatch& batch) : batch_(batch) {
  if (batch.kind != ForecastKind::kSamples) return;
  const std::size_t r = batch.width;
  order_.resize(batch.values.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(i * r);
    std::stable_sort(
        first, first + static_cast<std::ptrdiff_t>(r),
        [&](std::size_t a, std::size_t b) { return batch.values[a] < batch.values[b]; });
  }
  sorted_.reserve(order_.size());
  for (const std::size_t k : order_) sorted_.push_back(batch.values[k]);
  batch_.values = sorted_;
}

void AscendingForecasts::RestoreOrder(std::vector<double>& values) const {
  if (order_.empty() || values.empty()) return;
  const std::vector<double> ascending = std::exchange(values, std::vector<double>(order_.size()));
  for (std::size_t k = 0; k < order_.size(); ++k) values[order_[k]] = ascending[k];
}

}  // namespace calibd
