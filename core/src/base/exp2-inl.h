// The exponential function of vectors, compiled for each instruction set that includes it.
#if defined(CALIBD_CORE_SRC_BASE_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALIBD_CORE_SRC_BASE_EXP2_INL_H_
#undef CALIBD_CORE_SRC_BASE_EXP2_INL_H_
#else
#define CALIBD_CORE_SRC_BASE_EXP2_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Coefficients of 2^f = sum_k (ln 2)^k / k! f^k. For f <= 1/2 the first omitted term is below half
// an ulp.
constexpr double kExp2Coefficients[] = {
    1.0,
    6.93147180559945309417e-01,
    2.40226506959100712333e-01,
    5.55041086648215799532e-02,
    9.61812910762847716197e-03,
    1.33335581464284434234e-03,
    1.54035303933816099544e-04,
    1.52527338040598402800e-05,
    1.32154867901443094884e-06,
    1.01780860092396997275e-07,
    7.05491162080112332988e-09,
    4.44553827187081149760e-10,
    2.56784359934882051420e-11,
    1.36914888539041288808e-12,
};

// Replaces each x <= 0 by 2^x; about 0 below the smallest normal number. The computations of
// several vectors take turns, because each waits for its previous instruction. kTerms: the degree
// of the series, or 0 for one that is exact to about an ulp.
template <int kTerms = 0, class D, std::size_t kCount, class V = hn::Vec<D>,
          typename T = hn::TFromD<D>>
HWY_INLINE void Exp2(D d, V (&x)[kCount]) {
  constexpr bool kFloat = sizeof(T) == 4;
  constexpr int kMantissaBits = kFloat ? 23 : 52;
  constexpr int kDegree = kTerms > 0 ? kTerms : kFloat ? 7 : 13;
  const hn::RebindToSigned<D> di;
  // Adding this number rounds x to an integer, and leaves the integer in the low bits of the
  // mantissa.
  const V magic = hn::Set(d, kFloat ? static_cast<T>(0x1.8p23) : static_cast<T>(0x1.8p52));
  V shifted[kCount];
  V power[kCount];
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kCount; ++v) {
    x[v] = hn::Max(x[v], hn::Set(d, kFloat ? static_cast<T>(-126) : static_cast<T>(-1022)));
    shifted[v] = hn::Add(x[v], magic);
    x[v] = hn::Sub(x[v], hn::Sub(shifted[v], magic));
    power[v] = hn::Set(d, static_cast<T>(kExp2Coefficients[kDegree]));
  }
  HWY_UNROLL(13)
  for (int k = kDegree - 1; k >= 0; --k) {
    const V coefficient = hn::Set(d, static_cast<T>(kExp2Coefficients[k]));
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kCount; ++v) power[v] = hn::MulAdd(power[v], x[v], coefficient);
  }
  // Multiplies by 2^n by adding n to the exponent. The power is in [0.7, 1.5] and n >= -126, so the
  // exponent stays above 0, or becomes 0, which gives about 0.
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kCount; ++v) {
    const auto exponent = hn::ShiftLeft<kMantissaBits>(hn::BitCast(di, shifted[v]));
    x[v] = hn::BitCast(d, hn::Add(hn::BitCast(di, power[v]), exponent));
  }
}

template <int kTerms = 0, class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  V only[1] = {x};
  Exp2<kTerms>(d, only);
  return only[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#endif  // CALIBD_CORE_SRC_BASE_EXP2_INL_H_
