#include "numbers/fourier_discrepancy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <unordered_map>
#include <variant>

#include "base/normal_mean.h"
#include "base/rng.h"
#include "calibd/core/fourier_size.h"
#include "kernels/fourier_simd.h"

namespace calibd {
namespace {

constexpr std::size_t kTerms = 2 * kFrequencyCount;
// The frequencies are the same for all tests.
constexpr std::uint64_t kTestSeed = 0x666f726563617374ULL;
// Rows whose phases are computed together.
constexpr std::size_t kRowsAtOnce = 16;

// Frequencies of exp(-gamma x^2), in turns. dimension: which of the random streams.
void AddFrequencies(double gamma, std::size_t dimension, std::vector<double>& frequencies) {
  for (std::size_t r = 0; r < kFrequencyCount; ++r) {
    Rng rng(kTestSeed, dimension * kFrequencyCount + r);
    frequencies.push_back(std::sqrt(2 * gamma) * StandardNormal(rng) / (2 * std::numbers::pi));
  }
}

}  // namespace

bool FourierDiscrepancy::Has(const OutcomeKernel& kernel) noexcept {
  return std::holds_alternative<RbfKernel>(kernel) || std::holds_alternative<PitRbfKernel>(kernel);
}

std::unique_ptr<const FourierDiscrepancy> FourierDiscrepancy::Create(const ForecastBatch& batch,
                                                                     const OutcomeKernel& kernel,
                                                                     const Condition& condition) {
  if (!Has(kernel)) return nullptr;
  std::unique_ptr<FourierDiscrepancy> made(new FourierDiscrepancy());
  made->of_pit_ = std::holds_alternative<PitRbfKernel>(kernel);
  AddFrequencies(made->of_pit_ ? std::get<PitRbfKernel>(kernel).gamma
                               : std::get<RbfKernel>(kernel).gamma.value(),
                 0, made->outcome_frequencies_);
  if (const auto* const forecast = std::get_if<ForecastCondition>(&condition)) {
    made->on_forecast_ = true;
    for (std::size_t k = 1; k <= 2; ++k) {
      AddFrequencies(forecast->gamma.value(), k, made->condition_frequencies_);
    }
  } else if (const auto* const shown = std::get_if<FeatureCondition>(&condition)) {
    made->points_ = shown->values;
    for (std::size_t k = 1; k <= shown->values.size() / batch.size(); ++k) {
      AddFrequencies(shown->gamma.value(), k, made->condition_frequencies_);
    }
  } else if (const auto* const groups = std::get_if<GroupCondition>(&condition)) {
    std::unordered_map<std::int32_t, std::size_t> numbers;
    for (const std::int32_t group : groups->groups) {
      made->groups_.push_back(numbers.try_emplace(group, numbers.size()).first->second);
    }
    made->group_count_ = numbers.size();
  }
  made->ComputeExpectations(batch);
  return made;
}

double FourierDiscrepancy::Shown(const ForecastBatch& batch, std::size_t i) const noexcept {
  if (!of_pit_) return batch.outcomes[i];
  return NormalCdf((batch.outcomes[i] - batch.row(i)[0]) / batch.row(i)[1]);
}

void FourierDiscrepancy::SetConditionPhases(const ForecastBatch& batch, std::size_t i,
                                            std::span<double> phases) const noexcept {
  std::ranges::fill(phases, 0.0);
  const auto add = [&](std::size_t dimension, double value) {
    const double* const frequencies = &condition_frequencies_[dimension * kFrequencyCount];
    for (std::size_t r = 0; r < kFrequencyCount; ++r) phases[r] += value * frequencies[r];
  };
  if (on_forecast_) {
    for (std::size_t k = 0; k < 2; ++k) add(k, batch.row(i)[k]);
    return;
  }
  const std::size_t dimensions = points_.size() / batch.size();
  for (std::size_t k = 0; k < dimensions; ++k) add(k, points_[i * dimensions + k]);
}

void FourierDiscrepancy::ComputeExpectations(const ForecastBatch& batch) {
  expectations_.resize(batch.size() * kTerms);
  std::array<double, kFrequencyCount> phases;
  std::array<double, kTerms> terms;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<double> out = std::span(expectations_).subspan(i * kTerms, kTerms);
    if (batch.kind == ForecastKind::kSamples) {
      const auto add = [&](double x) {
        for (std::size_t r = 0; r < kFrequencyCount; ++r) phases[r] = x * outcome_frequencies_[r];
        PhasesToFourier(1, phases.data(), terms.data());
        for (std::size_t k = 0; k < kTerms; ++k) out[k] += terms[k];
      };
      for (const double draw : batch.row(i)) add(draw);
      add(batch.outcomes[i]);
      continue;
    }
    // Both laws are symmetric about their center, where their expected phase is: E F is F there,
    // times the characteristic function of the distance from it.
    const double center = of_pit_ ? 0.5 : batch.row(i)[0];
    SetConditionPhases(batch, i, phases);
    for (std::size_t r = 0; r < kFrequencyCount; ++r) phases[r] += center * outcome_frequencies_[r];
    PhasesToFourier(1, phases.data(), out.data());
    for (std::size_t r = 0; r < kFrequencyCount; ++r) {
      const double w = 2 * std::numbers::pi * outcome_frequencies_[r];
      const double spread = w * batch.row(i)[1];
      const double factor = !of_pit_ ? std::exp(-0.5 * spread * spread)
                            : w == 0 ? 1
                                     : std::sin(0.5 * w) / (0.5 * w);
      out[r] *= factor;
      out[kFrequencyCount + r] *= factor;
    }
  }
}

double FourierDiscrepancy::Unbiased(const ForecastBatch& batch) const {
  const std::size_t n = batch.size();
  const bool samples = batch.kind == ForecastKind::kSamples;
  const bool conditioned = !condition_frequencies_.empty();
  std::vector<double> sums(group_count_ * kTerms);
  double squares = 0;
  std::array<double, kRowsAtOnce * kFrequencyCount> phases;
  std::array<double, kRowsAtOnce * kTerms> terms;
  std::array<double, kTerms> psi;
  std::array<double, kTerms> rotation;
  for (std::size_t first = 0; first < n; first += kRowsAtOnce) {
    const std::size_t rows = std::min(kRowsAtOnce, n - first);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::span<double> row = std::span(phases).subspan(i * kFrequencyCount, kFrequencyCount);
      // The phases of samples are rotated below.
      if (conditioned && !samples) {
        SetConditionPhases(batch, first + i, row);
      } else {
        std::ranges::fill(row, 0.0);
      }
      const double y = Shown(batch, first + i);
      for (std::size_t r = 0; r < kFrequencyCount; ++r) row[r] += y * outcome_frequencies_[r];
    }
    PhasesToFourier(rows, phases.data(), terms.data());
    for (std::size_t i = 0; i < rows; ++i) {
      const double* const own = &terms[i * kTerms];
      const double* const expected = &expectations_[(first + i) * kTerms];
      const double scale = samples ? 1 / static_cast<double>(batch.width) : 1;
      for (std::size_t k = 0; k < kTerms; ++k) {
        psi[k] = samples ? own[k] - scale * (expected[k] - own[k]) : own[k] - expected[k];
        squares += psi[k] * psi[k];
      }
      if (samples && conditioned) {
        SetConditionPhases(batch, first + i, std::span(phases).first(kFrequencyCount));
        PhasesToFourier(1, phases.data(), rotation.data());
        // F has the length 1 / sqrt(R).
        const double unit = std::sqrt(static_cast<double>(kFrequencyCount));
        for (std::size_t r = 0; r < kFrequencyCount; ++r) {
          const double c = unit * rotation[r];
          const double s = unit * rotation[kFrequencyCount + r];
          const double x = psi[r];
          psi[r] = c * x - s * psi[kFrequencyCount + r];
          psi[kFrequencyCount + r] = s * x + c * psi[kFrequencyCount + r];
        }
      }
      double* const sum = &sums[(groups_.empty() ? 0 : groups_[first + i]) * kTerms];
      for (std::size_t k = 0; k < kTerms; ++k) sum[k] += psi[k];
    }
  }
  double square_of_sums = 0;
  for (const double sum : sums) square_of_sums += sum * sum;
  return (square_of_sums - squares) / static_cast<double>(n) / static_cast<double>(n - 1);
}

}  // namespace calibd
