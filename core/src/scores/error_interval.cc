#include "calibd/core/error_interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "scores/binned_ends.h"

namespace calibd {
namespace {

constexpr double kRho = 10;
// Its inverse bounds how much better a rate chosen in hindsight is than the mixture:
// log(10) / 2 - 1 / 120.03 - log P(10, 10) for the regularised incomplete gamma function P,
// rounded down.
constexpr double kLogNormaliser = 1.755;
// Newton's method doubles the number of correct digits: a step below this is the last one.
constexpr double kLastStep = 1e-8;
constexpr int kMostNewtonSteps = 10;

constexpr double kMostWealth = 1e300;
// No wealth grows by a larger factor with an observation: 1 + the largest rate, and rounding.
constexpr double kMostWealthGrowth = 1.71;

// For one look, the number of visited bins for which lambda is best.
constexpr double kDesignBins = 7;
// V_0 = kVarianceFactor sum c (1 - c) + 1: a little more than a calibrated model has, since a rate
// that is too small costs less than one that is too large.
constexpr double kVarianceFactor = 1.2;
// psi_E is infinite at 1.
constexpr double kLargestRate = 0.9;
// How much narrower the boundary by V has to be for a calibrated model.
constexpr double kLeastGain = 0.95;
// Halves an interval until its length is a rounding error.
constexpr int kBisections = 32;

// To a few ulps of 1, in half the time of std::tanh.
double Tanh(double z) {
  const double power = std::exp(-2 * std::abs(z));
  return std::copysign((1 - power) / (1 + power), z);
}

// The K at which MixtureBoundary is `sum`. sum > 0; square_sum >= 0.
double LogMixture(double sum, double square_sum) {
  const double a = square_sum + kRho;
  const double r = sum - a * std::log1p(sum / a);
  return r + std::log(-std::expm1(-r)) - std::log(a) / 2 + kLogNormaliser;
}

}  // namespace

double MixtureBoundary(double square_sum, double log_inverse_level) noexcept {
  const double a = square_sum + kRho;
  const double exponent = log_inverse_level + std::log(a) / 2 - kLogNormaliser;
  // log(1 + exp(exponent)) without overflow.
  const double r = std::max(exponent, 0.0) + std::log1p(std::exp(-std::abs(exponent)));
  double s = std::sqrt(2 * a * r) + r;
  for (int i = 0; i < kMostNewtonSteps; ++i) {
    const double step = (s - a * std::log1p(s / a) - r) * (s + a) / s;
    s -= step;
    if (std::abs(step) < kLastStep * s) break;
  }
  return s;
}

FixedRateBoundary::FixedRateBoundary(double count, std::optional<double> variance,
                                     double design) noexcept
    : rate_(std::sqrt(8 * design / count)), constant_(design) {
  if (!variance.has_value()) return;
  const double v0 = kVarianceFactor * *variance + 1;
  const double q = std::sqrt(2 * design / v0);
  const double rate = std::min(q / (1 + q / 1.5), kLargestRate);
  const double weight = -std::log1p(-rate) - rate;
  if ((design + weight * v0) / rate >= kLeastGain * std::sqrt(count * design / 2)) return;
  rate_ = rate;
  square_weight_ = weight;
  constant_ = 0;
}

OneLookBoundary::OneLookBoundary(double count, std::optional<double> variance, double design,
                                 double all_times) noexcept
    : all_times_(all_times), fixed_(count, variance, design - std::log1p(-all_times)) {}

double OneLookBoundary::operator()(double square_sum, double log_inverse_level) const noexcept {
  const double log_fixed = std::log1p(-all_times_);
  const double log_all = std::log(all_times_);
  // The mean of the two is at most the larger one, so the boundary is at least the smaller one.
  double low = std::min(fixed_(square_sum, log_inverse_level),
                        MixtureBoundary(square_sum, log_inverse_level));
  double high = std::min(fixed_(square_sum, log_inverse_level - log_fixed),
                         MixtureBoundary(square_sum, log_inverse_level - log_all));
  for (int i = 0; i < kBisections; ++i) {
    const double middle = low + (high - low) / 2;
    const double fixed = log_fixed + fixed_.LogProduct(middle, square_sum);
    const double all = log_all + LogMixture(middle, square_sum);
    const double log_mean = std::max(fixed, all) + std::log1p(std::exp(-std::abs(fixed - all)));
    (log_mean >= log_inverse_level ? high : low) = middle;
  }
  return high;
}

std::optional<ErrorInterval> BinnedErrorInterval(const ReliabilitySums& sums,
                                                 const ErrorLevels& levels) noexcept {
  std::array<WeightedBin, kReliabilityBinCount> bins;
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    const ReliabilitySums::Bin& bin = sums.bins[b];
    bins[b] = {.count = static_cast<double>(bin.count),
               .stated = bin.confidence,
               .deviation = bin.confidence - static_cast<double>(bin.correct),
               .variance = bin.variance};
  }
  std::optional<ErrorInterval> interval = BinnedErrorInterval(bins, sums.square_sum, levels);
  if (interval.has_value()) {
    const ReliabilitySums::Bin total = sums.Total();
    interval->stated = total.confidence / static_cast<double>(total.count);
  }
  return interval;
}

std::optional<ErrorInterval> BinnedErrorInterval(std::span<const WeightedBin> weighted,
                                                 double square_sum,
                                                 const ErrorLevels& levels) noexcept {
  std::array<VisitedBin, kReliabilityBinCount> bins;
  std::size_t visited = 0;
  double signed_sum = 0;
  double absolute_sum = 0;
  double count = 0;
  double variance = 0;
  for (const WeightedBin& bin : weighted) {
    if (bin.count == 0) continue;
    const double s = bin.deviation;
    bins[visited++] = {.deviation = std::abs(s),
                       .cap = std::max(bin.stated, bin.count - bin.stated)};
    signed_sum += s;
    absolute_sum += std::abs(s);
    count += bin.count;
    variance += bin.variance;
  }
  if (visited == 0) return std::nullopt;
  const std::span all(bins.data(), visited);
  // Returns the boundary of one kind of sums by K. design: the K for which it is best. all_times: a
  // share, which only one look has.
  const auto boundary_for = [&](double design, double all_times) {
    std::optional<OneLookBoundary> one;
    if (levels.looks == Looks::kOne) one.emplace(count, variance, design, all_times);
    if (levels.looks == Looks::kOneInOrder) one.emplace(count, std::nullopt, design, all_times);
    return [one, square_sum](double k) {
      return one.has_value() ? (*one)(square_sum, k) : MixtureBoundary(square_sum, k);
    };
  };

  ErrorInterval result;
  result.estimate = std::min(1.0, absolute_sum / count);
  result.gap = signed_sum / count;
  const double log_gap = std::log(2 / levels.gap);
  const double gap_width = boundary_for(log_gap, kAllTimesShareOfGap)(log_gap);
  result.gap_lower = std::max(-1.0, (signed_sum - gap_width) / count);
  result.gap_upper = std::min(1.0, (signed_sum + gap_width) / count);

  const double log_bins = -std::log(levels.bins);
  const auto boundary =
      boundary_for(log_bins + kDesignBins * std::numbers::ln2, kAllTimesShareOfBins);
  std::array<double, kReliabilityBinCount + 1> boundaries{};
  for (std::size_t k = 1; k <= visited; ++k) {
    boundaries[k] = boundary(log_bins + static_cast<double>(k) * std::numbers::ln2);
  }
  const double lower = std::max(std::abs(signed_sum) - gap_width, LowerSum(all, boundaries));
  const double upper = UpperSum(all, boundaries);
  result.lower = std::min(1.0, lower / count);
  result.upper = std::min(1.0, upper / count);
  return result;
}

std::optional<ErrorIntervals> EventIntervals(const ReliabilitySums& top_label,
                                             const ReliabilitySums& class_1,
                                             const ErrorLevels& levels) noexcept {
  const std::int64_t count = top_label.Total().count;
  if (count == 0) return std::nullopt;
  const bool both = class_1.Total().count == count;
  const ErrorLevels each = levels.SharedBy(both ? 2 : 1);
  ErrorIntervals intervals{.top_label = *BinnedErrorInterval(top_label, each),
                           .class_1 = std::nullopt};
  if (both) intervals.class_1 = BinnedErrorInterval(class_1, each);
  return intervals;
}

void RecentErrorEvidence::Add(std::size_t bin, double x, double limit) noexcept {
  if (limit != limit_) {
    limit_ = limit;
    for (std::size_t j = 0; j < kRates; ++j) discounts_[j] = std::exp(-kKappa[j] * limit);
  }
  const double log_next = std::log(static_cast<double>(++state_.count + 1));
  const double weight =
      1 / (kStartsNorm * static_cast<double>(state_.count + 1) * log_next * log_next);
  const std::array<double, kSigns> signed_x{
      x, -x, x * Tanh(state_.deviation[bin] / std::sqrt(state_.squares[bin] + 1))};
  for (std::size_t s = 0; s < kSigns; ++s) {
    for (std::size_t j = 0; j < kRates; ++j) {
      double& wealth = state_.wealth[s][j];
      wealth =
          std::min(kMostWealth, (wealth + weight) * (1 + kKappa[j] * signed_x[s]) * discounts_[j]);
    }
  }
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    state_.deviation[b] *= kDecay;
    state_.squares[b] *= kDecay;
  }
  state_.deviation[bin] += x;
  state_.squares[bin] += x * x;
  bound_ = (bound_ + weight) * kMostWealthGrowth;
}

bool RecentErrorEvidence::Reaches(double threshold) noexcept {
  if (bound_ >= threshold) bound_ = value();
  return bound_ >= threshold;
}

double RecentErrorEvidence::value() const noexcept {
  double sum = 0;
  for (std::size_t s = 0; s < kSigns; ++s) {
    double of_sign = 0;
    for (const double wealth : state_.wealth[s]) of_sign += wealth / kRates;
    sum += kSignWeights[s] * of_sign;
  }
  return sum;
}

}  // namespace calibd
