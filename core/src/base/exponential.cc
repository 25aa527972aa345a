#include "base/exponential.h"

#include <algorithm>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/exponential.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kVectors = 4;
constexpr std::size_t kMaxLanes = 8;

template <class D>
HWY_INLINE void ExponentiateBlock(D d, double* x) {
  const auto log2_e = hn::Set(d, 1.442695040888963407360);
  hn::Vec<D> vectors[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto exponent = hn::Min(hn::LoadU(d, x + v * hn::Lanes(d)), hn::Zero(d));
    vectors[v] = hn::Mul(log2_e, exponent);
  }
  Exp2(d, vectors);
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(vectors[v], d, x + v * hn::Lanes(d));
}

void ExponentiateAll(double* values, std::size_t count) {
  const hn::CappedTag<double, kMaxLanes> d;
  const std::size_t size = kVectors * hn::Lanes(d);
  const std::size_t whole = count / size * size;
  for (std::size_t i = 0; i < whole; i += size) ExponentiateBlock(d, values + i);
  double rest[kVectors * kMaxLanes] = {};
  std::copy(values + whole, values + count, rest);
  ExponentiateBlock(d, rest);
  std::copy_n(rest, count - whole, values + whole);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(ExponentiateAll);

void Exponentiate(double* values, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(ExponentiateAll)(values, count);
}

}  // namespace calibd
#endif  // HWY_ONCE
