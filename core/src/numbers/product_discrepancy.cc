#include "numbers/product_discrepancy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <unordered_map>
#include <variant>

#include "base/normal_mean.h"
#include "base/rng.h"
#include "calibd/core/fourier_size.h"
#include "kernels/fourier_simd.h"

namespace calibd {
namespace {

constexpr std::size_t kConditionTerms = 2 * kFrequencyCount;
// The frequencies are the same for all tests.
constexpr std::uint64_t kConditionSeed = 0x636f6e646974696fULL;

// What is compared by k_z = exp(-gamma |x - x'|^2): n x width.
struct ConditionPoints {
  std::vector<double> values;
  double gamma = 0;
};

ConditionPoints PointsOf(const ForecastBatch& batch, const Condition& condition) {
  if (const auto* const features = std::get_if<FeatureCondition>(&condition)) {
    return {features->values, features->gamma.value()};
  }
  ConditionPoints points{{}, std::get<ForecastCondition>(condition).gamma.value()};
  points.values.assign(batch.values.begin(), batch.values.end());
  // W^2 of quantiles is a mean over the levels.
  if (batch.kind == ForecastKind::kQuantiles) points.gamma /= static_cast<double>(batch.width);
  return points;
}

// E phi(Y') of a Normal forecast.
void ExpectNormal(const OutcomeKernel& kernel, double mean, double deviation,
                  std::span<double> expected) {
  if (const auto* const moments = std::get_if<MomentsKernel>(&kernel)) {
    const double mu = (mean - moments->center) / moments->scale;
    const double sd = deviation / moments->scale;
    expected[0] = mu;
    expected[1] = mu * mu + sd * sd;
  } else if (const auto* const threshold = std::get_if<ThresholdKernel>(&kernel)) {
    expected[0] = 2 * NormalCdf((mean - threshold->threshold) / deviation) - 1;
  } else {
    const auto& tanh = std::get<TanhKernel>(kernel);
    expected[0] = MeanTanh((mean - tanh.threshold) / tanh.width, deviation / tanh.width).value;
  }
}

}  // namespace

std::unique_ptr<const ProductDiscrepancy> ProductDiscrepancy::Create(const ForecastBatch& batch,
                                                                     const OutcomeKernel& kernel,
                                                                     const Condition& condition) {
  std::unique_ptr<ProductDiscrepancy> made(new ProductDiscrepancy(kernel));
  if (const auto* const levels = std::get_if<LevelsKernel>(&kernel)) {
    made->dimensions_ = levels->levels.size();
  } else if (std::holds_alternative<MomentsKernel>(kernel)) {
    made->dimensions_ = 2;
  } else if (!std::holds_alternative<ThresholdKernel>(kernel) &&
             !std::holds_alternative<TanhKernel>(kernel)) {
    return nullptr;
  }
  made->SetExpectations(batch);
  made->SetCondition(batch, condition);
  return made;
}

void ProductDiscrepancy::Map(double y, std::span<const double> row,
                             std::span<double> mapped) const noexcept {
  if (std::holds_alternative<LevelsKernel>(kernel_)) {
    for (std::size_t k = 0; k < mapped.size(); ++k) mapped[k] = y <= row[k] ? 1 : 0;
  } else if (const auto* const moments = std::get_if<MomentsKernel>(&kernel_)) {
    mapped[0] = (y - moments->center) / moments->scale;
    mapped[1] = mapped[0] * mapped[0];
  } else if (const auto* const threshold = std::get_if<ThresholdKernel>(&kernel_)) {
    mapped[0] = y >= threshold->threshold ? 1 : -1;
  } else if (const auto* const tanh = std::get_if<TanhKernel>(&kernel_)) {
    mapped[0] = std::tanh((y - tanh->threshold) / tanh->width);
  }
}

void ProductDiscrepancy::SetExpectations(const ForecastBatch& batch) {
  expectations_.resize(batch.size() * dimensions_);
  std::vector<double> mapped(dimensions_);
  const double draws = static_cast<double>(batch.width);
  if (batch.kind == ForecastKind::kSamples) factor_ = 1 + 1 / draws;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<double> expected =
        std::span(expectations_).subspan(i * dimensions_, dimensions_);
    if (const auto* const levels = std::get_if<LevelsKernel>(&kernel_)) {
      std::ranges::copy(levels->levels, expected.begin());
    } else if (batch.kind == ForecastKind::kNormal) {
      ExpectNormal(kernel_, batch.row(i)[0], batch.row(i)[1], expected);
    } else {
      const auto add = [&](double x) {
        Map(x, {}, mapped);
        for (std::size_t k = 0; k < dimensions_; ++k) expected[k] += mapped[k] / draws;
      };
      for (const double draw : batch.row(i)) add(draw);
      add(batch.outcomes[i]);
    }
  }
}

void ProductDiscrepancy::SetCondition(const ForecastBatch& batch, const Condition& condition) {
  if (std::holds_alternative<NoCondition>(condition)) return;
  if (const auto* const groups = std::get_if<GroupCondition>(&condition)) {
    std::unordered_map<std::int32_t, std::size_t> numbers;
    for (const std::int32_t group : groups->groups) {
      groups_.push_back(numbers.try_emplace(group, numbers.size()).first->second);
    }
    group_count_ = numbers.size();
    return;
  }
  const std::size_t n = batch.size();
  const ConditionPoints points = PointsOf(batch, condition);
  const std::size_t width = points.values.size() / n;
  std::vector<double> frequencies;
  Rng rng(kConditionSeed, 0);
  for (std::size_t k = 0; k < width * kFrequencyCount; ++k) {
    frequencies.push_back(std::sqrt(2 * points.gamma) * StandardNormal(rng) /
                          (2 * std::numbers::pi));
  }
  condition_.resize(n * kConditionTerms);
  for (std::size_t i = 0; i < n; ++i) {
    std::array<double, kFrequencyCount> phases{};
    for (std::size_t k = 0; k < width; ++k) {
      for (std::size_t r = 0; r < kFrequencyCount; ++r) {
        phases[r] += points.values[i * width + k] * frequencies[k * kFrequencyCount + r];
      }
    }
    PhasesToFourier(1, phases.data(), &condition_[i * kConditionTerms]);
  }
}

double ProductDiscrepancy::Unbiased(const ForecastBatch& batch) const {
  const std::size_t n = batch.size();
  const std::size_t terms = condition_.empty() ? 1 : kConditionTerms;
  std::vector<double> sums(group_count_ * dimensions_ * terms);
  std::vector<double> f(dimensions_);
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Map(batch.outcomes[i], batch.row(i), f);
    double* sum = &sums[(groups_.empty() ? 0 : groups_[i]) * dimensions_ * terms];
    for (std::size_t k = 0; k < dimensions_; ++k, sum += terms) {
      f[k] = factor_ * f[k] - expectations_[i * dimensions_ + k];
      squares += f[k] * f[k];
      if (condition_.empty()) {
        sum[0] += f[k];
        continue;
      }
      // Their squares have the sum 1.
      const double* const shown = &condition_[i * kConditionTerms];
      for (std::size_t r = 0; r < kConditionTerms; ++r) sum[r] += f[k] * shown[r];
    }
  }
  double square_of_sums = 0;
  for (const double sum : sums) square_of_sums += sum * sum;
  // The product of the levels is a mean over them.
  const double scale =
      std::holds_alternative<LevelsKernel>(kernel_) ? 1 / static_cast<double>(dimensions_) : 1;
  return scale * (square_of_sums - squares) / static_cast<double>(n) / static_cast<double>(n - 1);
}

}  // namespace calibd
