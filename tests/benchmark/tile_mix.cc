#include "benchmark/tile_mix.h"

#include <benchmark/benchmark.h>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmark/tile_mix.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::size_t TileMix(std::size_t class_count, std::size_t pairs) {
  const hn::CappedTag<double, 8> d;
  using V = hn::Vec<decltype(d)>;
  // The block that the tile engine holds in registers.
  constexpr bool kManyRegisters = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON;
  constexpr std::size_t kRows = kManyRegisters ? 3 : 2;
  constexpr std::size_t kVectors = kManyRegisters ? 4 : 2;
  const std::size_t block = kRows * kVectors * hn::Lanes(d);
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1);
  const V half = hn::Set(d, 0.5);
  const V column = hn::Set(d, 0.01);
  V total = zero;
  for (std::size_t done = 0; done < pairs; done += block) {
    V distance[kRows][kVectors];
    V product[kRows][kVectors];
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        // Distinct, because a compiler would compute equal values once.
        product[r][v] = hn::Add(total, hn::Set(d, static_cast<double>(kVectors * r + v)));
        distance[r][v] = product[r][v];
      }
    }
    for (std::size_t k = 0; k < class_count; ++k) {
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < kRows; ++r) {
        HWY_UNROLL(4)
        for (std::size_t v = 0; v < kVectors; ++v) {
          // The minima depend on the products, so that no compiler moves them out of the loop.
          const V minimum = hn::Min(product[r][v], column);
          distance[r][v] = v % 2 == 0 ? hn::Add(distance[r][v], minimum)
                                      : hn::MulAdd(one, minimum, distance[r][v]);
          product[r][v] = hn::MulAdd(column, half, product[r][v]);
        }
      }
    }
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      V value[kVectors];
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) {
        const V sum = hn::Mul(half, hn::Add(column, one));
        value[v] = hn::Mul(hn::Max(zero, hn::Sub(sum, distance[r][v])), hn::Neg(half));
      }
      Exp2(d, value);
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) {
        total = hn::Add(total, hn::Mul(value[v], hn::Sub(column, product[r][v])));
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
