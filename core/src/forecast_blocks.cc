#include "calibd/core/forecast_blocks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "distribution_matching.h"
#include "number_pairs.h"

namespace calibd {
namespace {

constexpr double kLargestTerm = 4;

// A difference of two forecasts may exceed the range of double, and the state is stored.
constexpr double kMostValue = 1e290;

double Bounded(double value) { return std::clamp(value, -kMostValue, kMostValue); }

double GammaOf(double length) { return 0.5 / length / length; }

}  // namespace

ForecastBlocks::ForecastBlocks(const DiscrepancyKernel& kernel) : kernel_(kernel) {
  state_.forecasts.reserve(2 * kBlockSize);
  state_.outcomes.reserve(kBlockSize);
}

void ForecastBlocks::Add(const NumberForecastBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    state_.forecasts.push_back(Bounded(batch.forecasts[2 * i] - kernel_.center));
    state_.forecasts.push_back(Bounded(batch.forecasts[2 * i + 1]));
    state_.outcomes.push_back(Bounded(batch.outcomes[i] - kernel_.center));
    if (state_.outcomes.size() == kBlockSize) CloseBlock();
  }
}

void ForecastBlocks::CloseBlock() {
  std::optional<OutcomeKernel> outcome = RbfKernel{GammaOf(kernel_.outcome_length)};
  Condition condition = NoCondition();
  if (kernel_.forecast_length > 0) {
    condition = ForecastCondition{.distance = Distance::kTotalVariation,
                                  .bandwidth = {},
                                  .gamma = GammaOf(kernel_.forecast_length)};
  }
  const ForecastBatch batch{ForecastKind::kNormal, state_.forecasts, 2, {}, state_.outcomes};
  const absl::StatusOr<NumberPairs> pairs = MakeNumberPairs(batch, {}, outcome, condition);
  // Both gammas are given, and nothing is cancelled.
  const absl::StatusOr<PairSums> sums =
      pairs.ok() ? SumPairs(kBlockSize, *pairs->products, 1, {}) : pairs.status();
  const auto size = static_cast<double>(kBlockSize);
  const double estimate = sums.ok() ? sums->off_diagonal / (size * (size - 1)) : 0;
  // Rounding of extreme values must not leave the range of the kernel.
  state_.blocks.Add(std::isnan(estimate) ? 0 : std::clamp(estimate, -kLargestTerm, kLargestTerm));
  state_.forecasts.clear();
  state_.outcomes.clear();
}

absl::Status ForecastBlocks::Restore(State state) {
  const auto finite = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  };
  const RunningMoments& blocks = state.blocks;
  const bool valid = state.outcomes.size() < kBlockSize &&
                     state.forecasts.size() == 2 * state.outcomes.size() && blocks.count >= 0 &&
                     std::abs(blocks.mean) <= kLargestTerm && blocks.m2 >= 0 &&
                     std::isfinite(blocks.m2) && finite(state.forecasts) && finite(state.outcomes);
  if (!valid) return absl::InvalidArgumentError("the blocks of forecasts are impossible");
  state_ = std::move(state);
  state_.forecasts.reserve(2 * kBlockSize);
  state_.outcomes.reserve(kBlockSize);
  return absl::OkStatus();
}

std::size_t ForecastBlocks::MaxMemory() noexcept {
  // The pairs copy the block and derive six values of each forecast.
  return sizeof(ForecastBlocks) + 32 * kBlockSize * sizeof(double);
}

}  // namespace calibd
