#include "kernels/fourier_simd.h"

#include "base/disabled_targets.h"
#include "calibd/core/fourier_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fourier_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;

// Processes kRows rows from `first` on.
template <std::size_t kRows>
HWY_INLINE void PhaseRows(const PhaseTask& task, std::size_t first) {
  const D d;
  constexpr std::size_t kAtOnce = 4;
  const std::size_t lanes = hn::Lanes(d);
  const double* HWY_RESTRICT g = task.probabilities + first * task.class_count;
  double* HWY_RESTRICT phases = task.phases + first * kFrequencyCount;
  for (std::size_t r = 0; r < kFrequencyCount; r += kAtOnce * lanes) {
    V sum[kRows][kAtOnce];
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        sum[row][v] = hn::LoadU(d, phases + row * kFrequencyCount + r + v * lanes);
      }
    }
    for (std::size_t k = 0; k < task.count; ++k) {
      V value[kRows];
      for (std::size_t row = 0; row < kRows; ++row) {
        value[row] = hn::Set(d, g[row * task.class_count + k]);
      }
      const double* const frequencies = task.frequencies + k * kFrequencyCount + r;
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        const V frequency = hn::LoadU(d, frequencies + v * lanes);
        for (std::size_t row = 0; row < kRows; ++row) {
          sum[row][v] = hn::MulAdd(value[row], frequency, sum[row][v]);
        }
      }
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        hn::StoreU(sum[row][v], d, phases + row * kFrequencyCount + r + v * lanes);
      }
    }
  }
}

void Phases(const PhaseTask& task) {
  std::size_t row = 0;
  for (; row + 4 <= task.rows; row += 4) PhaseRows<4>(task, row);
  switch (task.rows - row) {
    case 3:
      return PhaseRows<3>(task, row);
    case 2:
      return PhaseRows<2>(task, row);
    case 1:
      return PhaseRows<1>(task, row);
  }
}

// Coefficients of the series of sin and cos. If the absolute value of x is at most pi / 4, the
// first omitted term is below 1e-17.
constexpr double kSinCoefficients[] = {
    -1.0 / 6,        1.0 / 120,         -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000.};
constexpr double kCosCoefficients[] = {
    -1.0 / 2,       1.0 / 24,        -1.0 / 720,          1.0 / 40320,
    -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200., 1.0 / 20922789888000.};

template <typename T>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> Narrow(V x) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return x;
  } else {
    return hn::DemoteTo(hn::Rebind<T, D>(), x);
  }
}

// c_0 + c_1 x^2 + c_2 x^4 + ... with kTerms coefficients.
template <std::size_t kTerms, class DT, class VT = hn::Vec<DT>>
HWY_INLINE VT Series(DT d, VT square, const double* coefficients) {
  using T = hn::TFromD<DT>;
  VT sum = hn::Set(d, static_cast<T>(coefficients[kTerms - 1]));
  for (std::size_t k = kTerms - 1; k > 0; --k) {
    sum = hn::MulAdd(sum, square, hn::Set(d, static_cast<T>(coefficients[k - 1])));
  }
  return sum;
}

template <typename T>
HWY_INLINE void RowTerms(const double* HWY_RESTRICT phases, T* HWY_RESTRICT terms) {
  const D d;
  const hn::Rebind<T, D> dt;
  // With four terms, the first omitted term is below 3e-8, half an ulp of a float at 1.
  constexpr bool kFloat = sizeof(T) == sizeof(float);
  // 1 / sqrt(64).
  static_assert(kFrequencyCount == 64);
  const auto scale = hn::Set(dt, T{0.125});
  for (std::size_t r = 0; r < kFrequencyCount; r += hn::Lanes(d)) {
    const V turns = hn::LoadU(d, phases + r);
    // Removes whole and quarter turns, which leaves an angle of at most pi / 4 in absolute value.
    const V part = hn::Sub(turns, hn::Round(turns));
    const V all_quarters = hn::Round(hn::Mul(part, hn::Set(d, 4)));
    const auto x = Narrow<T>(hn::Mul(hn::Set(d, 6.283185307179586476925),
                                     hn::NegMulAdd(all_quarters, hn::Set(d, 0.25), part)));
    const auto square = hn::Mul(x, x);
    const auto sin_terms = Series < kFloat ? 4 : 7 > (dt, square, kSinCoefficients);
    const auto cos_terms = Series < kFloat ? 4 : 8 > (dt, square, kCosCoefficients);
    const auto sin = hn::MulAdd(hn::Mul(sin_terms, square), x, x);
    const auto cos = hn::MulAdd(cos_terms, square, hn::Set(dt, T{1}));
    // quarters is in -2..2. An odd number swaps sin and cos; the signs change accordingly.
    const auto quarters = Narrow<T>(all_quarters);
    const auto size = hn::Abs(quarters);
    const auto odd = hn::Eq(size, hn::Set(dt, T{1}));
    const auto half = hn::Eq(size, hn::Set(dt, T{2}));
    const auto sign = hn::CopySign(scale, quarters);
    const auto turned = hn::IfThenElse(half, hn::Neg(scale), scale);
    hn::StoreU(hn::IfThenElse(odd, hn::Neg(hn::Mul(sign, sin)), hn::Mul(turned, cos)), dt,
               terms + r);
    hn::StoreU(hn::IfThenElse(odd, hn::Mul(sign, cos), hn::Mul(turned, sin)), dt,
               terms + kFrequencyCount + r);
  }
}

template <typename T>
HWY_INLINE void AllTerms(std::size_t rows, const double* phases, T* terms) {
  for (std::size_t row = 0; row < rows; ++row) {
    RowTerms(phases + row * kFrequencyCount, terms + row * kFourierCount);
  }
}

void DoubleTerms(std::size_t rows, const double* phases, double* terms) {
  AllTerms(rows, phases, terms);
}
void FloatTerms(std::size_t rows, const double* phases, float* terms) {
  AllTerms(rows, phases, terms);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Phases);
HWY_EXPORT(DoubleTerms);
HWY_EXPORT(FloatTerms);

void AddPhases(const PhaseTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Phases)(task); }
void PhasesToFourier(std::size_t rows, const double* phases, double* terms) noexcept {
  HWY_DYNAMIC_DISPATCH(DoubleTerms)(rows, phases, terms);
}
void PhasesToFourier(std::size_t rows, const double* phases, float* terms) noexcept {
  HWY_DYNAMIC_DISPATCH(FloatTerms)(rows, phases, terms);
}

}  // namespace calibd
#endif  // HWY_ONCE
