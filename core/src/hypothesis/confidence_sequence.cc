#include "calibd/core/confidence_sequence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace calibd {
namespace {

constexpr std::size_t kMixtureRates = 32;
constexpr int kMostSteps = 100;

// The rates of a mixture, and psi.
struct BoundedValues {
  static constexpr double kLargestRate = 0.75;
  static double Psi(double rate) noexcept {
    // For a small rate, log1p cancels most digits.
    return rate < 1e-4 ? rate * rate * (0.5 + rate / 3) : -std::log1p(-rate) - rate;
  }
};
struct BoundedVectors {
  static constexpr double kLargestRate = 3;
  static double Psi(double rate) noexcept {
    return rate < 1e-4 ? rate * rate * (0.5 + rate / 6) : std::expm1(rate) - rate;
  }
};

// Solves log sum_j w_j exp(l_j x - psi(l_j) squares) = log_target for x; see the formulas of the
// header.
template <typename Kind>
double SolveMixture(double squares, double log_target) noexcept {
  // The logarithm of each summand is rate x + offset.
  std::array<double, kMixtureRates> rates;
  std::array<double, kMixtureRates> offsets;
  double rate = Kind::kLargestRate;
  double x = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < kMixtureRates; ++j, rate /= 2) {
    const auto place = static_cast<double>(j);
    rates[j] = rate;
    offsets[j] = -std::log((place + 1) * (place + 2)) - Kind::Psi(rate) * squares;
    x = std::min(x, (log_target - offsets[j]) / rate);
  }
  // Starts where a single summand reaches the target. The logarithm of the sum is convex and
  // increasing, so Newton's steps descend to the solution without passing it.
  for (int step = 0; step < kMostSteps; ++step) {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < kMixtureRates; ++j) {
      most = std::max(most, rates[j] * x + offsets[j]);
    }
    double sum = 0;
    double slope = 0;
    for (std::size_t j = 0; j < kMixtureRates; ++j) {
      const double summand = std::exp(rates[j] * x + offsets[j] - most);
      sum += summand;
      slope += rates[j] * summand;
    }
    const double down = (most + std::log(sum) - log_target) * sum / slope;
    if (!(down > 1e-12 * x)) break;
    x -= down;
  }
  return x;
}

// The distance of the bound from the mean.
double Width(const RunningMoments& values, double bound, double alpha) noexcept {
  const auto t = static_cast<double>(values.count);
  const double squares = (values.m2 + t * values.mean * values.mean) / (bound * bound);
  return SolveMixture<BoundedValues>(squares, -std::log(alpha)) * bound / t;
}

}  // namespace

std::optional<double> UpperConfidenceSequence(const RunningMoments& values, double bound,
                                              double alpha) noexcept {
  if (values.count == 0) return std::nullopt;
  return std::min(bound, values.mean + Width(values, bound, alpha));
}

std::optional<double> LowerConfidenceSequence(const RunningMoments& values, double bound,
                                              double alpha) noexcept {
  if (values.count == 0) return std::nullopt;
  return std::max(-bound, values.mean - Width(values, bound, alpha));
}

std::optional<double> NormUpperConfidenceSequence(const WitnessNorm& sum, double largest_square,
                                                  double alpha) noexcept {
  if (sum.count == 0) return std::nullopt;
  constexpr double kShareOfSquares = 0.1;
  const double largest = std::sqrt(largest_square);
  const double c = 2 * largest;
  const auto t = static_cast<double>(sum.count);
  RunningMoments squares{.count = sum.count, .mean = sum.square_sum / t, .m2 = 0};
  squares.m2 = std::max(0.0, largest_square * sum.square_sum - t * squares.mean * squares.mean);
  const double mean_square =
      *UpperConfidenceSequence(squares, largest_square, kShareOfSquares * alpha);
  const double x = SolveMixture<BoundedVectors>(t * mean_square / (c * c),
                                                std::log(2 / ((1 - kShareOfSquares) * alpha)));
  return std::min(largest, (std::sqrt(std::max(0.0, sum.norm2)) + c * x) / t);
}

std::optional<double> KceUpperConfidenceSequence(const WitnessNorm& sum, double alpha) noexcept {
  constexpr double kLargestSquare = 2;
  return NormUpperConfidenceSequence(sum, kLargestSquare, alpha);
}

std::optional<double> AsymptoticConfidenceRadius(const RunningMoments& values,
                                                 double alpha) noexcept {
  if (values.count < 2) return std::nullopt;
  constexpr double kNarrowest = 1000;
  const double level = -2 * std::log(alpha);
  const double square = (level + std::log1p(level)) / kNarrowest;
  const auto n = static_cast<double>(values.count);
  const double scale = n * square + 1;
  return std::sqrt(values.Variance() * 2 * scale / (n * n * square) *
                   std::log(std::sqrt(scale) / alpha));
}

std::optional<NormalTest> TestProjections(const RunningMoments& projections,
                                          double projection_variance) noexcept {
  if (!(projection_variance > 0)) return std::nullopt;
  NormalTest test;
  test.standard_deviation = std::sqrt(projection_variance);
  test.z = projections.mean * static_cast<double>(projections.count) / test.standard_deviation;
  test.p_value = NormalUpperTail(test.z);
  return test;
}

}  // namespace calibd
