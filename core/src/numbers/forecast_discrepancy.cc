#include "calibd/core/forecast_discrepancy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "base/sample_moments.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/status_macros.h"
#include "kernels/fourier_simd.h"
#include "numbers/discrepancy_simd.h"

namespace calibd {
namespace {

// Never change this seed: stored sums depend on the frequencies.
constexpr std::uint64_t kDiscrepancySeed = 0x63616c69626422ULL;
// The numbers that a phase depends on: y, m and s; or the quantiles, which follow them in the order
// of the random streams, and then the signs of the levels.
constexpr std::size_t kInputs = 3;
constexpr std::size_t kForecastsAtOnce = 16;
constexpr std::size_t kDrawsAtOnce = 16;
// Beyond it, a phase is arbitrary. Products with frequencies are finite.
constexpr double kMostInput = 1e290;
// |psi|^2 <= (1 + |E phi|)^2 for Normal forecasts and samples.
constexpr double kLargestSquare = 4;
// Below this share of sum |psi|^2 the sum is a rounding error and is treated as zero.
constexpr double kNoSum = 1e-9;

using PhaseInputs = std::array<double, kInputs>;
using Phases = std::array<double, kForecastsAtOnce * kFrequencyCount>;

// For lengths of 1: the frequencies in turns, kInputs x kFrequencyCount, and w_y^2 / 2.
struct Frequencies {
  Frequencies() : turns(kInputs * kFrequencyCount) {
    for (std::size_t input = 0; input < kInputs; ++input) {
      Rng rng(kDiscrepancySeed, input);
      for (std::size_t r = 0; r < kFrequencyCount; ++r) {
        const double normal = StandardNormal(rng);
        turns[input * kFrequencyCount + r] = normal / (2 * std::numbers::pi);
        if (input == 0) half_squares[r] = 0.5 * normal * normal;
      }
    }
  }
  LineVector turns;
  alignas(64) std::array<double, kFrequencyCount> half_squares;
};

const Frequencies& SharedFrequencies() {
  static const Frequencies frequencies;
  return frequencies;
}

// For quantiles, drawn when they are first needed.
struct LevelFrequencies {
  LevelFrequencies() : turns(kMaxQuantileLevels * kFrequencyCount) {
    for (std::size_t k = 0; k < kMaxQuantileLevels; ++k) {
      Rng rng(kDiscrepancySeed, kInputs + k);
      Rng sign(kDiscrepancySeed, kInputs + kMaxQuantileLevels + k);
      for (std::size_t r = 0; r < kFrequencyCount; ++r) {
        turns[k * kFrequencyCount + r] = StandardNormal(rng) / (2 * std::numbers::pi);
        sums[k + 1][r] = sums[k][r] + (sign.Next() >> 63 != 0 ? 1 : -1);
      }
    }
  }
  // For lengths of sqrt(K) / K: kMaxQuantileLevels x kFrequencyCount, in turns.
  LineVector turns;
  // sums[k] is that of the signs of the first k levels.
  std::array<std::array<double, kFrequencyCount>, kMaxQuantileLevels + 1> sums{};
};

const LevelFrequencies& SharedLevelFrequencies() {
  static const LevelFrequencies frequencies;
  return frequencies;
}

using SignedLevels = std::array<double, kFrequencyCount>;

// sum_k e_rk ([y <= q_k] - l_k) / sqrt(K) of an outcome above `below` quantiles of K. lowest: sum_k
// e_rk (1 - l_k), that of an outcome below all of them, times sqrt(K).
SignedLevels SignLevels(std::span<const double> lowest, std::size_t below, std::size_t levels) {
  const SignedLevels& sums = SharedLevelFrequencies().sums[below];
  const double scale = 1 / std::sqrt(static_cast<double>(levels));
  SignedLevels signs;
  for (std::size_t r = 0; r < kFrequencyCount; ++r) signs[r] = (lowest[r] - sums[r]) * scale;
  return signs;
}

// The maximum of |psi|^2 over the cells of an outcome.
double LargestSquare(std::span<const double> lowest, std::size_t levels) {
  double largest = 0;
  for (std::size_t below = 0; below <= levels; ++below) {
    double square = 0;
    for (const double sign : SignLevels(lowest, below, levels)) square += sign * sign;
    largest = std::max(largest, square / static_cast<double>(kFrequencyCount));
  }
  return largest;
}

double Bounded(double value) { return std::clamp(value, -kMostInput, kMostInput); }

// value: y, m or a draw. The other arguments are m and s.
PhaseInputs InputsOf(const DiscrepancyKernel& kernel, double value, double mean, double deviation) {
  const double outcome = Bounded((value - kernel.center) / kernel.outcome_length);
  if (kernel.forecast_length == 0) return {outcome, 0, 0};
  return {outcome, Bounded((mean - kernel.center) / kernel.forecast_length),
          Bounded(deviation / kernel.forecast_length)};
}

void ComputeTerms(std::span<const PhaseInputs> inputs, double* terms) {
  Phases phases;
  std::fill_n(phases.begin(), inputs.size() * kFrequencyCount, 0.0);
  AddPhases({.rows = inputs.size(),
             .probabilities = inputs.front().data(),
             .class_count = kInputs,
             .count = kInputs,
             .frequencies = SharedFrequencies().turns.data(),
             .phases = phases.data()});
  PhasesToFourier(inputs.size(), phases.data(), terms);
}

absl::Status CheckLength(const char* name, double length, bool may_be_zero) {
  if (std::isfinite(length) && (length > 0 || (may_be_zero && length == 0))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", Exact(length), ", expected a finite number ", may_be_zero ? ">= 0" : "> 0"));
}

}  // namespace

absl::StatusOr<ForecastDiscrepancy> ForecastDiscrepancy::Create(NumberForecastKind kind,
                                                                const DiscrepancyKernel& kernel) {
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(kind));
  CALIBD_RETURN_IF_ERROR(CheckLength("outcome_length", kernel.outcome_length, false));
  CALIBD_RETURN_IF_ERROR(CheckLength("forecast_length", kernel.forecast_length, true));
  if (!std::isfinite(kernel.center)) {
    return absl::InvalidArgumentError(
        absl::StrCat("center is ", Exact(kernel.center), ", expected a finite number"));
  }
  return ForecastDiscrepancy(std::move(kind), kernel);
}

ForecastDiscrepancy::ForecastDiscrepancy(NumberForecastKind kind, const DiscrepancyKernel& kernel)
    : kind_(std::move(kind)),
      kernel_(kernel),
      largest_square_(kLargestSquare),
      blocks_(kind_, kernel),
      sums_(kFourierCount),
      residuals_(kForecastsAtOnce * kFourierCount),
      buffer_(std::max(kForecastsAtOnce, kDrawsAtOnce) * kFourierCount) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind_);
  if (quantiles == nullptr) return;
  const auto& sums = SharedLevelFrequencies().sums;
  lowest_signs_.resize(kFrequencyCount);
  for (std::size_t k = 0; k < quantiles->levels.size(); ++k) {
    for (std::size_t r = 0; r < kFrequencyCount; ++r) {
      lowest_signs_[r] += (sums[k + 1][r] - sums[k][r]) * (1 - quantiles->levels[k]);
    }
  }
  largest_square_ = LargestSquare(lowest_signs_, quantiles->levels.size());
}

void ForecastDiscrepancy::NormalResiduals(std::span<const double> forecasts,
                                          std::span<const double> outcomes) noexcept {
  std::array<PhaseInputs, kForecastsAtOnce> of_outcomes;
  std::array<PhaseInputs, kForecastsAtOnce> of_means;
  std::array<double, kForecastsAtOnce> variances;
  const std::size_t rows = outcomes.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const double mean = forecasts[2 * i];
    const double deviation = forecasts[2 * i + 1];
    of_outcomes[i] = InputsOf(kernel_, outcomes[i], mean, deviation);
    of_means[i] = InputsOf(kernel_, mean, mean, deviation);
    const double relative = std::min(deviation / kernel_.outcome_length, 1e150);
    variances[i] = relative * relative;
  }
  ComputeTerms(std::span(of_outcomes).first(rows), residuals_.data());
  ComputeTerms(std::span(of_means).first(rows), buffer_.data());
  SubtractDamped(rows, variances.data(), SharedFrequencies().half_squares.data(), buffer_.data(),
                 residuals_.data());
}

void ForecastDiscrepancy::QuantileResiduals(std::span<const double> forecasts,
                                            std::span<const double> outcomes) noexcept {
  const std::size_t rows = outcomes.size();
  const std::size_t levels = forecasts.size() / rows;
  std::array<double, kForecastsAtOnce * kMaxQuantileLevels> inputs;
  const double length = kernel_.forecast_length * std::sqrt(static_cast<double>(levels));
  for (std::size_t k = 0; k < forecasts.size(); ++k) {
    inputs[k] = length == 0 ? 0 : Bounded((forecasts[k] - kernel_.center) / length);
  }
  Phases phases;
  std::fill_n(phases.begin(), rows * kFrequencyCount, 0.0);
  AddPhases({.rows = rows,
             .probabilities = inputs.data(),
             .class_count = levels,
             .count = levels,
             .frequencies = SharedLevelFrequencies().turns.data(),
             .phases = phases.data()});
  PhasesToFourier(rows, phases.data(), residuals_.data());
  for (std::size_t i = 0; i < rows; ++i) {
    const std::span<const double> row = forecasts.subspan(i * levels, levels);
    const auto below =
        static_cast<std::size_t>(std::ranges::lower_bound(row, outcomes[i]) - row.begin());
    const SignedLevels signs = SignLevels(lowest_signs_, below, levels);
    double* const terms = residuals_.data() + i * kFourierCount;
    for (std::size_t r = 0; r < kFrequencyCount; ++r) {
      terms[r] *= signs[r];
      terms[kFrequencyCount + r] *= signs[r];
    }
  }
}

void ForecastDiscrepancy::SampleResidual(std::span<const double> draws, double outcome) noexcept {
  const MeanAndDeviation pooled = PooledMoments(draws, outcome);
  const PhaseInputs of_outcome = InputsOf(kernel_, outcome, pooled.mean, pooled.deviation);
  ComputeTerms(std::span(&of_outcome, 1), residuals_.data());
  std::array<PhaseInputs, kDrawsAtOnce> inputs;
  for (std::size_t first = 0; first < draws.size(); first += kDrawsAtOnce) {
    const std::size_t count = std::min(kDrawsAtOnce, draws.size() - first);
    for (std::size_t s = 0; s < count; ++s) {
      inputs[s] = InputsOf(kernel_, draws[first + s], pooled.mean, pooled.deviation);
    }
    ComputeTerms(std::span(inputs).first(count), buffer_.data());
    SubtractScaled(count, buffer_.data(), 1 / static_cast<double>(draws.size()), residuals_.data());
  }
}

void ForecastDiscrepancy::Add(const NumberForecastBatch& batch, RunningMoments* completed) {
  const std::size_t width = ForecastWidth(kind_);
  const bool samples = std::holds_alternative<SampleForecasts>(kind_);
  const std::size_t most = samples ? 1 : kForecastsAtOnce;
  const double largest = std::sqrt(largest_square_);
  for (std::size_t first = 0; first < batch.size(); first += most) {
    const std::size_t rows = std::min(most, batch.size() - first);
    const auto forecasts = batch.forecasts.subspan(first * width, rows * width);
    const auto outcomes = batch.outcomes.subspan(first, rows);
    if (samples) {
      SampleResidual(forecasts, outcomes.front());
      blocks_.AddResidual(std::span<const double>(residuals_).first(kFourierCount), completed);
    } else if (std::holds_alternative<QuantileForecasts>(kind_)) {
      QuantileResiduals(forecasts, outcomes);
    } else {
      NormalResiduals(forecasts, outcomes);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      const SumsGrowth growth = AddResidual(residuals_.data() + i * kFourierCount, sums_.data());
      const bool has_sum = growth.square > kNoSum * square_sum_;
      projections_.Add(
          has_sum ? std::clamp(growth.product / std::sqrt(growth.square), -largest, largest) : 0);
      square_sum_ += growth.residual_square;
    }
  }
  if (!samples) blocks_.Add(batch, completed);
}

WitnessNorm ForecastDiscrepancy::norm() const noexcept {
  double norm2 = 0;
  for (const double sum : sums_) norm2 += sum * sum;
  return {.count = projections_.count, .norm2 = norm2, .square_sum = square_sum_};
}

std::optional<double> ForecastDiscrepancy::Unbiased() const noexcept {
  const WitnessNorm sum = norm();
  if (sum.count < 2) return std::nullopt;
  const auto n = static_cast<double>(sum.count);
  return (sum.norm2 - sum.square_sum) / (n * (n - 1));
}

std::optional<DiscrepancyInterval> ForecastDiscrepancy::Interval(double alpha) const noexcept {
  const std::optional<double> lower =
      LowerConfidenceSequence(projections_, std::sqrt(largest_square_), alpha / 2);
  const std::optional<double> upper =
      NormUpperConfidenceSequence(norm(), largest_square_, alpha / 2);
  if (!lower || !upper) return std::nullopt;
  return DiscrepancyInterval{.lower = std::max(0.0, *lower), .upper = *upper};
}

ForecastDiscrepancy::State ForecastDiscrepancy::Save() const {
  return {.sums = {sums_.begin(), sums_.end()},
          .square_sum = square_sum_,
          .projections = projections_,
          .blocks = blocks_.state()};
}

absl::Status ForecastDiscrepancy::Restore(const State& state) {
  const RunningMoments& projections = state.projections;
  if (state.sums.size() != kFourierCount ||
      !std::all_of(state.sums.begin(), state.sums.end(),
                   [](double sum) { return std::isfinite(sum); }) ||
      !std::isfinite(state.square_sum) || state.square_sum < 0 || projections.count < 0 ||
      !std::isfinite(projections.mean) || !std::isfinite(projections.m2) || projections.m2 < 0) {
    return absl::InvalidArgumentError("the state is not of sums of residuals");
  }
  CALIBD_RETURN_IF_ERROR(blocks_.Restore(state.blocks));
  sums_.assign(state.sums.begin(), state.sums.end());
  square_sum_ = state.square_sum;
  projections_ = projections;
  return absl::OkStatus();
}

void ForecastDiscrepancy::Merge(const ForecastDiscrepancy& other) noexcept {
  for (std::size_t k = 0; k < sums_.size(); ++k) sums_[k] += other.sums_[k];
  square_sum_ += other.square_sum_;
  projections_.Merge(other.projections_);
  blocks_.Merge(other.blocks_);
}

std::size_t ForecastDiscrepancy::MaxMemory(const NumberForecastKind& kind) noexcept {
  return sizeof(ForecastDiscrepancy) + (kMaxQuantileLevels + kFrequencyCount) * sizeof(double) +
         (1 + kForecastsAtOnce + std::max(kForecastsAtOnce, kDrawsAtOnce)) * kFourierCount *
             sizeof(double) +
         ForecastBlocks::MaxMemory(kind);
}

}  // namespace calibd
