#include "numbers/discrepancy_simd.h"

#include "base/disabled_targets.h"
#include "calibd/core/fourier_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numbers/discrepancy_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;

void Damped(std::size_t rows, const double* HWY_RESTRICT variances,
            const double* HWY_RESTRICT squares, const double* HWY_RESTRICT means,
            double* HWY_RESTRICT terms) {
  const D d;
  constexpr double kLog2E = 1.442695040888963407360;
  for (std::size_t row = 0; row < rows; ++row, means += kFourierCount, terms += kFourierCount) {
    const V scale = hn::Set(d, -kLog2E * variances[row]);
    for (std::size_t r = 0; r < kFrequencyCount; r += hn::Lanes(d)) {
      const V factor = Exp2(d, hn::Mul(scale, hn::Load(d, squares + r)));
      for (const std::size_t at : {r, kFrequencyCount + r}) {
        const V term = hn::Load(d, terms + at);
        hn::Store(hn::NegMulAdd(factor, hn::Load(d, means + at), term), d, terms + at);
      }
    }
  }
}

void Scaled(std::size_t rows, const double* HWY_RESTRICT terms, double scale,
            double* HWY_RESTRICT out) {
  const D d;
  const V factor = hn::Set(d, scale);
  for (std::size_t at = 0; at < kFourierCount; at += hn::Lanes(d)) {
    V sum = hn::Zero(d);
    for (std::size_t row = 0; row < rows; ++row) {
      sum = hn::Add(sum, hn::Load(d, terms + row * kFourierCount + at));
    }
    hn::Store(hn::NegMulAdd(factor, sum, hn::Load(d, out + at)), d, out + at);
  }
}

SumsGrowth Growth(const double* HWY_RESTRICT residual, double* HWY_RESTRICT sums) {
  const D d;
  V product = hn::Zero(d);
  V residual_square = hn::Zero(d);
  V square = hn::Zero(d);
  for (std::size_t at = 0; at < kFourierCount; at += hn::Lanes(d)) {
    const V psi = hn::Load(d, residual + at);
    const V sum = hn::Load(d, sums + at);
    product = hn::MulAdd(psi, sum, product);
    residual_square = hn::MulAdd(psi, psi, residual_square);
    square = hn::MulAdd(sum, sum, square);
    hn::Store(hn::Add(sum, psi), d, sums + at);
  }
  return {.product = hn::GetLane(hn::SumOfLanes(d, product)),
          .residual_square = hn::GetLane(hn::SumOfLanes(d, residual_square)),
          .square = hn::GetLane(hn::SumOfLanes(d, square))};
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Damped);
HWY_EXPORT(Scaled);
HWY_EXPORT(Growth);

void SubtractDamped(std::size_t rows, const double* variances, const double* squares,
                    const double* means, double* terms) noexcept {
  HWY_DYNAMIC_DISPATCH(Damped)(rows, variances, squares, means, terms);
}
void SubtractScaled(std::size_t rows, const double* terms, double scale, double* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Scaled)(rows, terms, scale, out);
}
SumsGrowth AddResidual(const double* residual, double* sums) noexcept {
  return HWY_DYNAMIC_DISPATCH(Growth)(residual, sums);
}

}  // namespace calibd
#endif  // HWY_ONCE
