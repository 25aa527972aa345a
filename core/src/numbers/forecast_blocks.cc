#include "calibd/core/forecast_blocks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "calibd/core/fourier_size.h"
#include "loss/distribution_matching.h"
#include "loss/number_pairs.h"

namespace calibd {
namespace {

constexpr double kLargestTerm = 4;

// A difference of two forecasts may exceed the range of double, and the state is stored.
constexpr double kMostValue = 1e290;

double WithinRange(double value) { return std::clamp(value, -kMostValue, kMostValue); }

double GammaOf(double length) { return 0.5 / length / length; }

}  // namespace

ForecastBlocks::ForecastBlocks(NumberForecastKind kind, const DiscrepancyKernel& kernel)
    : kind_(std::move(kind)), kernel_(kernel) {
  Reserve();
}

void ForecastBlocks::Reserve() {
  if (std::holds_alternative<SampleForecasts>(kind_)) {
    state_.sums.reserve(kFourierCount);
    return;
  }
  state_.forecasts.reserve(ForecastWidth(kind_) * kBlockSize);
  state_.outcomes.reserve(kBlockSize);
}

void ForecastBlocks::Add(const NumberForecastBatch& batch, RunningMoments* completed) {
  const std::size_t width = ForecastWidth(kind_);
  const bool normal = std::holds_alternative<NormalForecasts>(kind_);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.forecasts.subspan(i * width, width);
    if (normal) {
      state_.forecasts.push_back(WithinRange(row[0] - kernel_.center));
      state_.forecasts.push_back(WithinRange(row[1]));
      state_.outcomes.push_back(WithinRange(batch.outcomes[i] - kernel_.center));
    } else {
      // Rounding could move an outcome to another cell.
      state_.forecasts.insert(state_.forecasts.end(), row.begin(), row.end());
      state_.outcomes.push_back(batch.outcomes[i]);
    }
    if (state_.outcomes.size() == kBlockSize) CloseBlock(completed);
  }
}

void ForecastBlocks::AddResidual(std::span<const double> psi, RunningMoments* completed) noexcept {
  state_.sums.resize(kFourierCount);
  for (std::size_t k = 0; k < kFourierCount; ++k) {
    state_.sums[k] += psi[k];
    state_.square_sum += psi[k] * psi[k];
  }
  if (++state_.residuals < kBlockSize) return;
  double square = 0;
  for (const double sum : state_.sums) square += sum * sum;
  AddEstimate(square - state_.square_sum, completed);
  state_.sums.clear();
  state_.residuals = 0;
  state_.square_sum = 0;
}

void ForecastBlocks::AddEstimate(double estimate, RunningMoments* completed) noexcept {
  const auto size = static_cast<double>(kBlockSize);
  estimate /= size * (size - 1);
  // Rounding of extreme values must not leave the range of the kernel.
  const double bounded =
      std::isnan(estimate) ? 0 : std::clamp(estimate, -kLargestTerm, kLargestTerm);
  state_.blocks.Add(bounded);
  if (completed != nullptr) completed->Add(bounded);
}

void ForecastBlocks::CloseBlock(RunningMoments* completed) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind_);
  std::optional<OutcomeKernel> outcome = RbfKernel{GammaOf(kernel_.outcome_length)};
  if (quantiles != nullptr) outcome = LevelsKernel{quantiles->levels};
  Condition condition = NoCondition();
  if (kernel_.forecast_length > 0) {
    condition = ForecastCondition{.distance = Distance::kTotalVariation,
                                  .bandwidth = {},
                                  .gamma = GammaOf(kernel_.forecast_length)};
  }
  const ForecastBatch batch{quantiles != nullptr ? ForecastKind::kQuantiles : ForecastKind::kNormal,
                            state_.forecasts,
                            ForecastWidth(kind_),
                            {},
                            state_.outcomes};
  const absl::StatusOr<NumberPairs> pairs = MakeNumberPairs(batch, {}, outcome, condition);
  // Both gammas are given, and nothing is cancelled.
  const absl::StatusOr<PairSums> sums =
      pairs.ok() ? SumPairs(kBlockSize, *pairs->products, 1, {}) : pairs.status();
  AddEstimate(sums.ok() ? sums->off_diagonal : 0, completed);
  state_.forecasts.clear();
  state_.outcomes.clear();
}

absl::Status ForecastBlocks::Restore(State state) {
  const auto finite = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  };
  const RunningMoments& blocks = state.blocks;
  const bool samples = std::holds_alternative<SampleForecasts>(kind_);
  const std::size_t sums = state.residuals > 0 ? kFourierCount : 0;
  const bool fits = samples ? state.outcomes.empty() && state.residuals < kBlockSize &&
                                  state.sums.size() == sums && state.square_sum >= 0 &&
                                  std::isfinite(state.square_sum)
                            : state.outcomes.size() < kBlockSize && state.residuals == 0 &&
                                  state.sums.empty() && state.square_sum == 0;
  const bool valid = fits && blocks.count >= 0 && std::abs(blocks.mean) <= kLargestTerm &&
                     blocks.m2 >= 0 && std::isfinite(blocks.m2) &&
                     state.forecasts.size() == ForecastWidth(kind_) * state.outcomes.size() &&
                     finite(state.forecasts) && finite(state.outcomes) && finite(state.sums);
  if (!valid) return absl::InvalidArgumentError("the blocks of forecasts are impossible");
  state_ = std::move(state);
  Reserve();
  return absl::OkStatus();
}

std::size_t ForecastBlocks::MaxMemory(const NumberForecastKind& kind) noexcept {
  if (std::holds_alternative<SampleForecasts>(kind)) {
    return sizeof(ForecastBlocks) + kFourierCount * sizeof(double);
  }
  // The pairs copy the block and derive six values of each Normal forecast, and two of each
  // quantile.
  return sizeof(ForecastBlocks) + 32 * kBlockSize * ForecastWidth(kind) * sizeof(double) / 2;
}

}  // namespace calibd
