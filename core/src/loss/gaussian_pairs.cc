#include "loss/gaussian_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loss/gaussian_pairs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

#ifndef CALIBD_CORE_SRC_GAUSSIAN_PAIRS_ROWS_
#define CALIBD_CORE_SRC_GAUSSIAN_PAIRS_ROWS_
namespace calibd {

// The arguments of one row of pairs; pointers are to the first column.
struct PointRow {
  const double* own;
  const double* columns;
  std::size_t stride;
  std::size_t width;
  double gamma;
};
struct ForecastPairRow {
  double gamma;
  double condition_gamma;
  double mean;
  double deviation;
  double outcome;
  double spread;
  double inverse;
  double root;
  const double* means;
  const double* deviations;
  const double* outcomes;
  const double* spreads;
  const double* inverses;
  const double* roots;
};
struct GradientSums {
  double mean;
  double deviation;
};

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_GAUSSIAN_PAIRS_ROWS_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;
constexpr double kLog2E = 1.442695040888963407360;

HWY_INLINE V Square(V x) { return hn::Mul(x, x); }

HWY_INLINE void StoreSome(V value, double* HWY_RESTRICT out, std::size_t lanes) {
  const D d;
  if (HWY_LIKELY(lanes == hn::Lanes(d))) {
    hn::StoreU(value, d, out);
    return;
  }
  HWY_ALIGN double last[8];
  hn::Store(value, d, last);
  std::copy_n(last, lanes, out);
}

// Reads kReadAhead columns after the last one at most.
void PointKernel(const PointRow& row, double* HWY_RESTRICT kernel, std::size_t count) {
  const D d;
  constexpr std::size_t kVectors = 4;
  const std::size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, -row.gamma * kLog2E);
  for (std::size_t j = 0; j < count; j += kVectors * lanes) {
    V sums[kVectors] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (std::size_t k = 0; k < row.width; ++k) {
      const V own = hn::Set(d, row.own[k * row.stride]);
      const double* HWY_RESTRICT column = row.columns + k * row.stride + j;
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) {
        const V difference = hn::Sub(own, hn::LoadU(d, column + v * lanes));
        sums[v] = hn::MulAdd(difference, difference, sums[v]);
      }
    }
    for (V& sum : sums) sum = hn::Mul(scale, sum);
    Exp2(d, sums);
    for (std::size_t v = 0; v < kVectors && j + v * lanes < count; ++v) {
      StoreSome(sums[v], kernel + j + v * lanes, std::min(lanes, count - j - v * lanes));
    }
  }
}

template <bool kGradient>
HWY_INLINE GradientSums ForecastTermsOf(const ForecastPairRow& row, const double* weights,
                                        double* HWY_RESTRICT terms, std::size_t count) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V one = hn::Set(d, 1);
  const V scale = hn::Set(d, -row.gamma * kLog2E);
  const V mean = hn::Set(d, row.mean);
  const V outcome = hn::Set(d, row.outcome);
  const V own_q = hn::Set(d, 1 + row.spread);
  const V own_inverse = hn::Set(d, row.inverse);
  const V own_root = hn::Set(d, row.root);
  V mean_sum = hn::Zero(d);
  V deviation_sum = hn::Zero(d);
  for (std::size_t j = 0; j < count; j += lanes) {
    const V other_mean = hn::LoadU(d, row.means + j);
    const V other_outcome = hn::LoadU(d, row.outcomes + j);
    const V inverse = hn::Div(one, hn::Add(own_q, hn::LoadU(d, row.spreads + j)));
    const V of_means = hn::Mul(Square(hn::Sub(other_mean, mean)), inverse);
    const V of_own = hn::Mul(Square(hn::Sub(other_outcome, mean)), own_inverse);
    const V of_other =
        hn::Mul(Square(hn::Sub(other_mean, outcome)), hn::LoadU(d, row.inverses + j));
    V kappas[4] = {hn::Mul(scale, Square(hn::Sub(other_outcome, outcome))),
                   hn::Mul(scale, of_means), hn::Mul(scale, of_own), hn::Mul(scale, of_other)};
    Exp2(d, kappas);
    const V both = hn::Mul(kappas[1], hn::Sqrt(inverse));
    const V own = hn::Mul(kappas[2], own_root);
    const V other = hn::Mul(kappas[3], hn::LoadU(d, row.roots + j));
    const std::size_t some = std::min(lanes, count - j);
    StoreSome(hn::Add(hn::Sub(kappas[0], own), hn::Sub(both, other)), terms + j, some);
    if constexpr (kGradient) {
      HWY_ALIGN double padded[8] = {};
      std::copy_n(weights + j, some, padded);
      const V weight = hn::Load(d, padded);
      const V both_slope = hn::Mul(inverse, both);
      const V own_slope = hn::Mul(own_inverse, own);
      const V d_mean = hn::Sub(hn::Mul(hn::Sub(other_mean, mean), both_slope),
                               hn::Mul(hn::Sub(other_outcome, mean), own_slope));
      mean_sum = hn::MulAdd(weight, d_mean, mean_sum);
      // d kappa / d s2 = gamma / q (2 gamma (a - b)^2 / q - 1) kappa.
      const V two_gamma = hn::Set(d, 2 * row.gamma);
      const V d_deviation = hn::Sub(hn::Mul(hn::Sub(hn::Mul(two_gamma, of_means), one), both_slope),
                                    hn::Mul(hn::Sub(hn::Mul(two_gamma, of_own), one), own_slope));
      deviation_sum = hn::MulAdd(weight, d_deviation, deviation_sum);
    }
  }
  return {.mean = hn::GetLane(hn::SumOfLanes(d, mean_sum)),
          .deviation = hn::GetLane(hn::SumOfLanes(d, deviation_sum))};
}

void ForecastTermsOnly(const ForecastPairRow& row, double* terms, std::size_t count) {
  ForecastTermsOf<false>(row, nullptr, terms, count);
}
GradientSums ForecastTermsAndSums(const ForecastPairRow& row, const double* weights, double* terms,
                                  std::size_t count) {
  return ForecastTermsOf<true>(row, weights, terms, count);
}

// The kernel of the forecasts multiplies each of the four terms in its exponent, so that it needs
// no exponential of its own.
double ForecastProducts(const ForecastPairRow& row, double* HWY_RESTRICT products,
                        std::size_t count) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, -row.gamma * kLog2E);
  const V own_scale = hn::Set(d, -row.gamma * kLog2E * row.inverse);
  const V condition_scale = hn::Set(d, -row.condition_gamma * kLog2E);
  const V mean = hn::Set(d, row.mean);
  const V deviation = hn::Set(d, row.deviation);
  const V outcome = hn::Set(d, row.outcome);
  const V own_q = hn::Set(d, 1 + row.spread);
  const V own_root = hn::Set(d, row.root);
  V sum = hn::Zero(d);
  for (std::size_t j = 0; j < count; j += lanes) {
    const V other_mean = hn::LoadU(d, row.means + j);
    const V other_outcome = hn::LoadU(d, row.outcomes + j);
    const V of_means = Square(hn::Sub(other_mean, mean));
    const V of_deviations = Square(hn::Sub(hn::LoadU(d, row.deviations + j), deviation));
    const V condition = hn::Mul(condition_scale, hn::Add(of_means, of_deviations));
    const V inverse = hn::Div(hn::Set(d, 1), hn::Add(own_q, hn::LoadU(d, row.spreads + j)));
    const V of_other = hn::Mul(scale, Square(hn::Sub(other_mean, outcome)));
    V kappas[4] = {hn::MulAdd(scale, Square(hn::Sub(other_outcome, outcome)), condition),
                   hn::MulAdd(hn::Mul(scale, of_means), inverse, condition),
                   hn::MulAdd(own_scale, Square(hn::Sub(other_outcome, mean)), condition),
                   hn::MulAdd(of_other, hn::LoadU(d, row.inverses + j), condition)};
    Exp2(d, kappas);
    const V own = hn::NegMulAdd(own_root, kappas[2], kappas[0]);
    const V other = hn::NegMulAdd(hn::LoadU(d, row.roots + j), kappas[3],
                                  hn::Mul(hn::Sqrt(inverse), kappas[1]));
    const std::size_t some = std::min(lanes, count - j);
    const V terms = hn::IfThenElseZero(hn::FirstN(d, some), hn::Add(own, other));
    sum = hn::Add(sum, terms);
    StoreSome(terms, products + j, some);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(PointKernel);
HWY_EXPORT(ForecastTermsOnly);
HWY_EXPORT(ForecastTermsAndSums);
HWY_EXPORT(ForecastProducts);

namespace {

// Columns that a call may read after the last one.
constexpr std::size_t kReadAhead = 32;

}  // namespace

GaussianPoints::GaussianPoints(std::span<const double> values, std::size_t width, double gamma)
    : width_(width),
      stride_(values.size() / width),
      gamma_(gamma),
      columns_(values.size() + kReadAhead) {
  for (std::size_t i = 0; i < stride_; ++i) {
    for (std::size_t k = 0; k < width; ++k) columns_[k * stride_ + i] = values[i * width + k];
  }
}

void GaussianPoints::Compute(std::size_t i, std::size_t first,
                             std::span<double> kernel) const noexcept {
  const PointRow row{.own = &columns_[i],
                     .columns = &columns_[first],
                     .stride = stride_,
                     .width = width_,
                     .gamma = gamma_};
  HWY_DYNAMIC_DISPATCH(PointKernel)(row, kernel.data(), kernel.size());
}

void GaussianPoints::AddDifferences(std::size_t i, std::size_t first,
                                    std::span<const double> weights, double factor,
                                    std::span<double> sums) const noexcept {
  for (std::size_t k = 0; k < width_; ++k) {
    const double* const column = &columns_[k * stride_];
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      sum += weights[j] * (column[i] - column[first + j]);
    }
    sums[k] += factor * sum;
  }
}

GaussianForecasts::GaussianForecasts(const ForecastBatch& batch, double gamma,
                                     double condition_gamma)
    : gamma_(gamma), condition_gamma_(condition_gamma) {
  const std::size_t n = batch.size();
  for (auto* const values : {&means_, &deviations_, &outcomes_, &spreads_, &inverses_, &roots_}) {
    values->resize(n + kReadAhead);
  }
  for (std::size_t i = 0; i < n; ++i) {
    means_[i] = batch.row(i)[0];
    deviations_[i] = batch.row(i)[1];
    outcomes_[i] = batch.outcomes[i];
    spreads_[i] = 2 * gamma * batch.row(i)[1] * batch.row(i)[1];
    inverses_[i] = 1 / (1 + spreads_[i]);
    roots_[i] = std::sqrt(inverses_[i]);
  }
}

ForecastPairRow GaussianForecasts::Row(std::size_t i, std::size_t first) const noexcept {
  return {.gamma = gamma_,
          .condition_gamma = condition_gamma_,
          .mean = means_[i],
          .deviation = deviations_[i],
          .outcome = outcomes_[i],
          .spread = spreads_[i],
          .inverse = inverses_[i],
          .root = roots_[i],
          .means = &means_[first],
          .deviations = &deviations_[first],
          .outcomes = &outcomes_[first],
          .spreads = &spreads_[first],
          .inverses = &inverses_[first],
          .roots = &roots_[first]};
}

void GaussianForecasts::Compute(std::size_t i, std::size_t first,
                                std::span<double> terms) const noexcept {
  HWY_DYNAMIC_DISPATCH(ForecastTermsOnly)(Row(i, first), terms.data(), terms.size());
}

void GaussianForecasts::Compute(std::size_t i, std::size_t first, std::span<const double> weights,
                                std::span<double> terms,
                                std::span<double> gradient) const noexcept {
  const GradientSums sums = HWY_DYNAMIC_DISPATCH(ForecastTermsAndSums)(
      Row(i, first), weights.data(), terms.data(), terms.size());
  gradient[0] += 2 * gamma_ * sums.mean;
  gradient[1] += std::sqrt(2 * gamma_ * spreads_[i]) * sums.deviation;
}

double GaussianForecasts::ComputeProducts(std::size_t i, std::size_t first,
                                          std::span<double> products) const noexcept {
  return HWY_DYNAMIC_DISPATCH(ForecastProducts)(Row(i, first), products.data(), products.size());
}

}  // namespace calibd
#endif  // HWY_ONCE
