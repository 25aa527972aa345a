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
    const RowVector a = hn::LoadU(d, row(0) + k);
    const RowVector b = hn::LoadU(d, row(1) + k);
    const RowVector c = hn::LoadU(d, row(2) + k);
    const RowVector e = hn::LoadU(d, row(3) + k);
    // Classes 0 and 2, and classes 1 and 3.
    const RowVector even_ab = hn::InterleaveLower(d, a, b);
    const RowVector even_ce = hn::InterleaveLower(d, c, e);
    const RowVector odd_ab = hn::InterleaveUpper(d, a, b);
    const RowVector odd_ce = hn::InterleaveUpper(d, c, e);
    out[0] = hn::ConcatLowerLower(d, even_ce, even_ab);
    out[1] = hn::ConcatLowerLower(d, odd_ce, odd_ab);
    out[2] = hn::ConcatUpperUpper(d, even_ce, even_ab);
    out[3] = hn::ConcatUpperUpper(d, odd_ce, odd_ab);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#endif  // CALIBD_CORE_SRC_BASE_ROW_LANES_INL_H_
