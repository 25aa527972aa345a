// The natural logarithm of vectors, compiled for each instruction set that includes it.
#if defined(CALIBD_CORE_SRC_BASE_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALIBD_CORE_SRC_BASE_LOG_INL_H_
#undef CALIBD_CORE_SRC_BASE_LOG_INL_H_
#else
#define CALIBD_CORE_SRC_BASE_LOG_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ln x for positive normal doubles, within 2 ulp, with the same bits on every CPU: no
// multiplication is fused. ln(2^e f) = e ln 2 + 2 artanh(s) with s = (f - 1) / (f + 1), where f is
// in [sqrt(1/2), sqrt(2)) and therefore |s| < .172. The first omitted term of the series of artanh
// is below 1e-18 of its sum.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  constexpr int kMantissaBits = 52;
  constexpr int kTerms = 11;
  const hn::RebindToSigned<D> di;
  // The bits of x minus the bits of sqrt(1/2); their exponent part is e.
  const auto above = hn::Sub(hn::BitCast(di, x), hn::Set(di, std::int64_t{0x3FE6A09E667F3BCD}));
  const auto exponent_bits =
      hn::And(above, hn::Set(di, static_cast<std::int64_t>(0xFFF0000000000000)));
  const V f = hn::BitCast(d, hn::Sub(hn::BitCast(di, x), exponent_bits));
  // Shifted as an unsigned number after adding an offset that makes it positive. Added to the bits
  // of 2^52, it becomes the mantissa.
  const hn::RebindToUnsigned<D> du;
  constexpr std::int64_t kBias = 1024;
  const auto biased = hn::ShiftRight<kMantissaBits>(
      hn::BitCast(du, hn::Add(exponent_bits, hn::Set(di, kBias << kMantissaBits))));
  const V magic = hn::Set(d, 0x1p52);
  const V exponent = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::BitCast(du, magic))),
                             hn::Set(d, 0x1p52 + static_cast<double>(kBias)));
  const V one = hn::Set(d, 1);
  const V s = hn::Div(hn::Sub(f, one), hn::Add(f, one));
  const V square = hn::Mul(s, s);
  V series = hn::Set(d, 1.0 / (2 * kTerms + 1));
  for (int k = kTerms - 1; k >= 1; --k) {
    series = hn::Add(hn::Mul(series, square), hn::Set(d, 1.0 / (2 * k + 1)));
  }
  const V twice = hn::Add(s, s);
  // ln 2 in two parts. The first has few bits, so that its product with e is exact.
  const V high = hn::Mul(exponent, hn::Set(d, 0x1.62E42FEFA38p-1));
  const V low = hn::Mul(exponent, hn::Set(d, 0x1.EF35793C7673p-45));
  return hn::Add(high, hn::Add(twice, hn::Add(low, hn::Mul(twice, hn::Mul(square, series)))));
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#endif  // CALIBD_CORE_SRC_BASE_LOG_INL_H_
