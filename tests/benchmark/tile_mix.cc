#include "benchmark/tile_mix.h"

#include <benchmark/benchmark.h>

#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmark/tile_mix.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::size_t TileMix(std::size_t class_count, std::size_t pairs) {
  const hn::CappedTag<double, 8> d;
  using V = hn::Vec<decltype(d)>;
  // As many rows as the tile engine holds in registers.
  constexpr std::size_t kRows = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON ? 4 : 2;
  const std::size_t block = 2 * kRows * hn::Lanes(d);
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1);
  const V half = hn::Set(d, 0.5);
  const V column = hn::Set(d, 0.01);
  V total = zero;
  for (std::size_t done = 0; done < pairs; done += block) {
    V distance[kRows][2];
    V product[kRows][2];
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t v = 0; v < 2; ++v) {
        // Distinct, because a compiler would compute equal values once.
        product[r][v] = hn::Add(total, hn::Set(d, static_cast<double>(2 * r + v)));
        distance[r][v] = product[r][v];
      }
    }
    for (std::size_t k = 0; k < class_count; ++k) {
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < kRows; ++r) {
        // The minima depend on the products, so that no compiler moves them out of the loop.
        distance[r][0] = hn::Add(distance[r][0], hn::Min(product[r][0], column));
        distance[r][1] = hn::MulAdd(one, hn::Min(product[r][1], column), distance[r][1]);
        product[r][0] = hn::MulAdd(column, half, product[r][0]);
        product[r][1] = hn::MulAdd(column, half, product[r][1]);
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t v = 0; v < 2; ++v) {
        const V sum = hn::Mul(half, hn::Add(column, one));
        const V x = hn::Mul(hn::Max(zero, hn::Sub(sum, distance[r][v])), hn::Neg(half));
        total = hn::Add(total, hn::Mul(Exp2(d, x), hn::Sub(column, product[r][v])));
      }
    }
    total = hn::Min(total, one);
  }
  benchmark::DoNotOptimize(hn::GetLane(total));
  return (pairs + block - 1) / block * block;
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(TileMix);

std::size_t testing::RunTileMix(std::size_t class_count, std::size_t pairs) {
  return HWY_DYNAMIC_DISPATCH(TileMix)(class_count, pairs);
}

}  // namespace calibd
#endif  // HWY_ONCE
