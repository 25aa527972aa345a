// Loads predictions into vectors, one prediction per lane. Compiled for each instruction set that
// includes it.
#if defined(CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_
#undef CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_
#else
#define CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Wider vectors would need more shuffles per prediction than the additions that they save.
using RowTag = hn::CappedTag<double, 4>;
using RowVector = hn::Vec<RowTag>;

constexpr std::size_t kRowLanes = hn::MaxLanes(RowTag());
static_assert(kRowLanes == 1 || kRowLanes == 2 || kRowLanes == 4);

// Returns a vector of value(lane).
template <typename Value>
HWY_INLINE RowVector OfEachLane(const Value& value) {
  HWY_ALIGN double values[kRowLanes];
  for (std::size_t lane = 0; lane < kRowLanes; ++lane) values[lane] = value(lane);
  return hn::Load(RowTag(), values);
}

#if HWY_TARGET != HWY_SCALAR
// Exchanges the lanes of four vectors of four lanes: lane j of v[i] becomes lane i of v[j].
HWY_INLINE void TransposeFour(RowVector* HWY_RESTRICT v) {
  const RowTag d;
  // Lanes 0 and 2, and lanes 1 and 3.
  const RowVector even_ab = hn::InterleaveLower(d, v[0], v[1]);
  const RowVector even_ce = hn::InterleaveLower(d, v[2], v[3]);
  const RowVector odd_ab = hn::InterleaveUpper(d, v[0], v[1]);
  const RowVector odd_ce = hn::InterleaveUpper(d, v[2], v[3]);
  v[0] = hn::ConcatLowerLower(d, even_ce, even_ab);
  v[1] = hn::ConcatLowerLower(d, odd_ce, odd_ab);
  v[2] = hn::ConcatUpperUpper(d, even_ce, even_ab);
  v[3] = hn::ConcatUpperUpper(d, odd_ce, odd_ab);
}
#endif

// Loads classes k .. k + kRowLanes - 1 of the rows: out[i] contains class k + i of row(lane).
template <typename Row>
HWY_INLINE void LoadClasses(const Row& row, std::size_t k, RowVector* HWY_RESTRICT out) {
  const RowTag d;
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::LoadU(d, row(0) + k);
#else
  if constexpr (kRowLanes == 2) {
    const RowVector a = hn::LoadU(d, row(0) + k);
    const RowVector b = hn::LoadU(d, row(1) + k);
    out[0] = hn::InterleaveLower(d, a, b);
    out[1] = hn::InterleaveUpper(d, a, b);
  } else {
    for (std::size_t lane = 0; lane < 4; ++lane) out[lane] = hn::LoadU(d, row(lane) + k);
    TransposeFour(out);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#endif  // CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_
