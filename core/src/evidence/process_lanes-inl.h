// What processes of experts in vectors share, compiled for each instruction set that includes it.
#if defined(CALIBD_CORE_SRC_EVIDENCE_PROCESS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALIBD_CORE_SRC_EVIDENCE_PROCESS_LANES_INL_H_
#undef CALIBD_CORE_SRC_EVIDENCE_PROCESS_LANES_INL_H_
#else
#define CALIBD_CORE_SRC_EVIDENCE_PROCESS_LANES_INL_H_
#endif

#include "base/exp2-inl.h"
#include "evidence/evidence_layout.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kGroup>;
using V = hn::Vec<D>;

// e^x for x <= 0, to |x| ulps; about 0 below -708. Half the instructions of Highway's.
HWY_INLINE V Exp(V x) {
  const D d;
  return Exp2(d, hn::Mul(x, hn::Set(d, 1.442695040888963407360)));
}

HWY_INLINE double Sum(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// The logarithm of a process after its growth, at least `least`.
HWY_INLINE V Folded(V log, V growth, V least) {
  return hn::Max(least, hn::Add(log, hn::Log(D(), growth)));
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#endif  // CALIBD_CORE_SRC_EVIDENCE_PROCESS_LANES_INL_H_
