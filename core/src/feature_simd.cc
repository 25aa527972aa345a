#include "feature_simd.h"

#include "calibd/core/random_features.h"
#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "feature_simd.cc"
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
  double* HWY_RESTRICT phases = task.phases + first * kFeatureCount;
  for (std::size_t r = 0; r < kFrequencyCount; r += kAtOnce * lanes) {
    V sum[kRows][kAtOnce];
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        sum[row][v] = hn::LoadU(d, phases + row * kFeatureCount + r + v * lanes);
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
        hn::StoreU(sum[row][v], d, phases + row * kFeatureCount + r + v * lanes);
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

void Features(double* HWY_RESTRICT features) {
  const D d;
  // 1 / sqrt(64).
  static_assert(kFrequencyCount == 64);
  const V scale = hn::Set(d, 0.125);
  for (std::size_t r = 0; r < kFrequencyCount; r += hn::Lanes(d)) {
    const V turns = hn::LoadU(d, features + r);
    // Removes whole and quarter turns, which leaves an angle of at most pi / 4 in absolute value.
    const V part = hn::Sub(turns, hn::Round(turns));
    const V quarters = hn::Round(hn::Mul(part, hn::Set(d, 4)));
    const V x = hn::Mul(hn::Set(d, 6.283185307179586476925),
                        hn::NegMulAdd(quarters, hn::Set(d, 0.25), part));
    const V square = hn::Mul(x, x);
    V sin = hn::Set(d, kSinCoefficients[6]);
    for (int k = 5; k >= 0; --k) sin = hn::MulAdd(sin, square, hn::Set(d, kSinCoefficients[k]));
    sin = hn::MulAdd(hn::Mul(sin, square), x, x);
    V cos = hn::Set(d, kCosCoefficients[7]);
    for (int k = 6; k >= 0; --k) cos = hn::MulAdd(cos, square, hn::Set(d, kCosCoefficients[k]));
    cos = hn::MulAdd(cos, square, hn::Set(d, 1));
    // quarters is in -2..2. An odd number swaps sin and cos; the signs change accordingly.
    const V size = hn::Abs(quarters);
    const auto odd = hn::Eq(size, hn::Set(d, 1));
    const auto half = hn::Eq(size, hn::Set(d, 2));
    const V sign = hn::CopySign(scale, quarters);
    const V turned = hn::IfThenElse(half, hn::Neg(scale), scale);
    hn::StoreU(hn::IfThenElse(odd, hn::Neg(hn::Mul(sign, sin)), hn::Mul(turned, cos)), d,
               features + r);
    hn::StoreU(hn::IfThenElse(odd, hn::Mul(sign, cos), hn::Mul(turned, sin)), d,
               features + kFrequencyCount + r);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Phases);
HWY_EXPORT(Features);

void AddPhases(const PhaseTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Phases)(task); }
void PhasesToFeatures(double* features) noexcept { HWY_DYNAMIC_DISPATCH(Features)(features); }

}  // namespace calibd
#endif  // HWY_ONCE
