#include "tile_micro.h"

#include <bit>

#include "calibd/core/simd_target.h"
#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile_micro.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, Distance kDistance, class V = hn::Vec<D>>
HWY_INLINE V FinishDistance(D d, V sum, V row_sum, V column_sum) {
  const V zero = hn::Zero(d);
  const V two = hn::Set(d, 2);
  const V half = hn::Set(d, static_cast<hn::TFromD<D>>(0.5));
  // Equal rows give exactly 0; for others, rounding may give a negative value.
  if constexpr (kDistance == Distance::kTotalVariation) {
    return hn::Max(zero, hn::Sub(hn::Mul(half, hn::Add(row_sum, column_sum)), sum));
  } else if constexpr (kDistance == Distance::kCityblock) {
    return hn::Max(zero, hn::Sub(hn::Add(row_sum, column_sum), hn::Mul(two, sum)));
  } else if constexpr (kDistance == Distance::kEuclidean) {
    return hn::Sqrt(sum);
  } else {
    return sum;
  }
}

// kRows rows from `first_row`, within one group, against two vectors of the panel's
// columns from `first_column`.
template <class D, Distance kDistance, bool kProduct, std::size_t kRows, typename T = hn::TFromD<D>>
HWY_INLINE double MicroBlock(D d, const MicroTask<T>& task, std::size_t first_row,
                             std::size_t first_column) {
  using V = hn::Vec<D>;
  constexpr std::size_t kWidth = kPanelBytes / sizeof(T);
  constexpr std::size_t kVectors = 2;
  const std::size_t lanes = hn::Lanes(d);
  V distance[kRows][kVectors];
  V product[kRows][kVectors];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      distance[r][v] = hn::Zero(d);
      product[r][v] = hn::Zero(d);
    }
  }
  const T* const group = task.rows + first_row / kGroupRows * task.class_count * 2 * kGroupRows +
                         first_row % kGroupRows;
  const T* HWY_RESTRICT rows = group;
  const T* HWY_RESTRICT panel = task.panel + first_column;
  const V one = hn::Set(d, 1);
  for (std::size_t k = 0; k < task.class_count; ++k) {
    const V column0 = hn::Load(d, panel);
    const V column1 = hn::Load(d, panel + lanes);
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      const V g = hn::Set(d, rows[r]);
      if constexpr (kDistance == Distance::kTotalVariation || kDistance == Distance::kCityblock) {
        distance[r][0] = hn::Add(distance[r][0], hn::Min(g, column0));
        distance[r][1] = hn::MulAdd(one, hn::Min(g, column1), distance[r][1]);
      } else {
        const V difference0 = hn::Sub(g, column0);
        const V difference1 = hn::Sub(g, column1);
        distance[r][0] = hn::MulAdd(difference0, difference0, distance[r][0]);
        distance[r][1] = hn::MulAdd(difference1, difference1, distance[r][1]);
      }
      if constexpr (kProduct) {
        const V residual = hn::Set(d, rows[kGroupRows + r]);
        product[r][0] = hn::MulAdd(residual, column0, product[r][0]);
        product[r][1] = hn::MulAdd(residual, column1, product[r][1]);
      }
    }
    rows += 2 * kGroupRows;
    panel += kWidth;
  }

  const hn::RebindToSigned<D> di;
  using TI = hn::TFromD<decltype(di)>;
  V total = hn::Zero(d);
  const std::ptrdiff_t last_row = task.row_ahead + static_cast<std::ptrdiff_t>(first_row + kRows);
  const bool masked = last_row > 0 || task.column_count < kWidth;
  for (std::size_t r = 0; r < kRows && first_row + r < task.row_count; ++r) {
    const T* residuals = group + kGroupRows + r;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t column = first_column + v * lanes;
      T* out = task.out + (first_row + r) * task.stride + column;
      V value =
          FinishDistance<D, kDistance>(d, distance[r][v], hn::Set(d, task.row_sums[first_row + r]),
                                       hn::LoadU(d, task.panel_sums + column));
      if (task.output == MicroOutput::kDistances) {
        hn::StoreU(value, d, out);
        continue;
      }
      value = Exp2(d, hn::Mul(value, hn::Set(d, task.scale)));
      if constexpr (!kProduct) {
        hn::StoreU(value, d, out);
        continue;
      }
      V at_label;
      if (task.one_label) {
        at_label = hn::Set(
            d, residuals[static_cast<std::size_t>(task.panel_labels[column]) * 2 * kGroupRows]);
      } else {
        HWY_ALIGN T gathered[HWY_MAX_BYTES / sizeof(T)];
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          gathered[lane] = residuals[static_cast<std::size_t>(task.panel_labels[column + lane]) *
                                     2 * kGroupRows];
        }
        at_label = hn::Load(d, gathered);
      }
      value = hn::Mul(value, hn::Sub(at_label, product[r][v]));
      if (task.output == MicroOutput::kTerms) {
        hn::StoreU(value, d, out);
        continue;
      }
      if (masked) {
        const auto columns = hn::Iota(di, static_cast<TI>(column));
        const auto after = hn::Set(
            di, static_cast<TI>(task.row_ahead + static_cast<std::ptrdiff_t>(first_row + r)));
        const auto counted =
            hn::And(hn::Gt(columns, after),
                    hn::Lt(columns, hn::Set(di, static_cast<TI>(task.column_count))));
        value = hn::IfThenElseZero(hn::RebindMask(d, counted), value);
      }
      total = hn::Add(total, value);
    }
  }
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
}

template <class D, Distance kDistance, typename T = hn::TFromD<D>>
HWY_INLINE double MicroPanel(D d, const MicroTask<T>& task) {
  // The sums of four rows and their operands fit into 32 registers, those of two rows into 16.
  constexpr std::size_t kRows = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON ? 4 : 2;
  const std::size_t step = 2 * hn::Lanes(d);
  const bool product = task.output == MicroOutput::kSum || task.output == MicroOutput::kTerms;
  double sum = 0;
  for (std::size_t row = 0; row < task.row_count; row += kRows) {
    // All further rows come after all columns.
    if (task.output == MicroOutput::kSum &&
        task.row_ahead + static_cast<std::ptrdiff_t>(row) >=
            static_cast<std::ptrdiff_t>(kPanelBytes / sizeof(T))) {
      break;
    }
    for (std::size_t column = 0; column < kPanelBytes / sizeof(T); column += step) {
      sum += product ? MicroBlock<D, kDistance, true, kRows>(d, task, row, column)
                     : MicroBlock<D, kDistance, false, kRows>(d, task, row, column);
    }
  }
  return sum;
}

template <typename T>
HWY_INLINE double Micro(const MicroTask<T>& task) {
  const hn::CappedTag<T, kPanelBytes / sizeof(T) / 2> d;
  using D = decltype(d);
  switch (task.distance) {
    case Distance::kTotalVariation:
      return MicroPanel<D, Distance::kTotalVariation>(d, task);
    case Distance::kCityblock:
      return MicroPanel<D, Distance::kCityblock>(d, task);
    case Distance::kEuclidean:
      return MicroPanel<D, Distance::kEuclidean>(d, task);
    case Distance::kSquaredEuclidean:
      return MicroPanel<D, Distance::kSquaredEuclidean>(d, task);
  }
  return 0;
}

double MicroFloat(const MicroTask<float>& task) { return Micro(task); }
double MicroDouble(const MicroTask<double>& task) { return Micro(task); }
const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(MicroFloat);
HWY_EXPORT(MicroDouble);
HWY_EXPORT(Target);

double RunMicro(const MicroTask<float>& task) { return HWY_DYNAMIC_DISPATCH(MicroFloat)(task); }
double RunMicro(const MicroTask<double>& task) { return HWY_DYNAMIC_DISPATCH(MicroDouble)(task); }
const char* SimdTarget() { return HWY_DYNAMIC_DISPATCH(Target)(); }

}  // namespace calibd
#endif  // HWY_ONCE
