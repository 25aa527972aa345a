#include "base/gather_interval.h"

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/gather_interval.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

IntervalCount Gather(std::span<const double> values, double from, double to, double* inside) {
  const hn::CappedTag<double, kGatherSlack> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto lower = hn::Set(d, from);
  const auto upper = hn::Set(d, to);
  IntervalCount count;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto value = hn::LoadU(d, &values[i]);
    const auto below = hn::Lt(value, lower);
    const auto within = hn::AndNot(below, hn::Le(value, upper));
    count.below += hn::CountTrue(d, below);
    if (!hn::AllFalse(d, within)) {
      count.inside += hn::CompressStore(value, within, d, inside + count.inside);
    }
  }
  for (; i < values.size(); ++i) {
    if (values[i] < from) {
      ++count.below;
    } else if (values[i] <= to) {
      inside[count.inside++] = values[i];
    }
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Gather);

IntervalCount GatherInterval(std::span<const double> values, double from, double to,
                             double* inside) {
  return HWY_DYNAMIC_DISPATCH(Gather)(values, from, to, inside);
}

}  // namespace calibd
#endif  // HWY_ONCE
