#include "kernels/tile_micro.h"

#include <algorithm>

#include "base/disabled_targets.h"
#include "calibd/core/simd_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_micro.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

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

// Subtracts the products of kRows rows and kVectors vectors of columns from the residuals of the
// rows at the labels of the columns. `labels`: of the columns, ascending. Each run of equal labels
// needs one residual of each row.
template <class D, std::size_t kRows, std::size_t kVectors, class V = hn::Vec<D>,
          typename T = hn::TFromD<D>>
HWY_INLINE void SubtractFromResiduals(D d, const T* const (&rows)[kRows],
                                      const std::size_t (&labels_of_rows)[kRows],
                                      const std::int32_t* HWY_RESTRICT labels,
                                      V (&product)[kRows][kVectors]) {
  const std::size_t columns = kVectors * hn::Lanes(d);
  const auto residual = [&](std::size_t r, std::int32_t label) {
    const auto k = static_cast<std::size_t>(label);
    return hn::Set(d, (k == labels_of_rows[r] ? T{1} : T{0}) - rows[r][k * kPanelWidth<T>]);
  };
  if (labels[0] == labels[columns - 1]) {
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      const V at_label = residual(r, labels[0]);
      HWY_UNROLL(4)
      for (V& x : product[r]) x = hn::Sub(at_label, x);
    }
    return;
  }
  for (std::size_t begin = 0; begin < columns;) {
    const std::int32_t label = labels[begin];
    std::size_t end = begin + 1;
    while (end < columns && labels[end] == label) ++end;
    V at_label[kRows];
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) at_label[r] = residual(r, label);
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const V column = hn::Iota(d, static_cast<T>(v * hn::Lanes(d)));
      const auto in_run = hn::And(hn::Ge(column, hn::Set(d, static_cast<T>(begin))),
                                  hn::Lt(column, hn::Set(d, static_cast<T>(end))));
      HWY_UNROLL(4)
      for (std::size_t r = 0; r < kRows; ++r) {
        V& x = product[r][v];
        x = hn::IfThenElse(in_run, hn::Sub(at_label[r], x), x);
      }
    }
    begin = end;
  }
}

// kRows rows from `first_row` against kVectors vectors of the panel's columns from `first_column`.
template <class D, Distance kDistance, bool kProduct, std::size_t kRows, std::size_t kVectors,
          typename T = hn::TFromD<D>>
HWY_INLINE double MicroBlock(D d, const MicroTask<T>& task, std::size_t first_row,
                             std::size_t first_column) {
  using V = hn::Vec<D>;
  constexpr std::size_t kWidth = kPanelWidth<T>;
  const std::size_t lanes = hn::Lanes(d);
  const auto column_of = [&](std::size_t position) {
    return task.panels + position / kWidth * task.class_count * kWidth + position % kWidth;
  };
  const std::size_t row_begin = task.row_begin + first_row;
  const std::size_t row_count = std::min(kRows, task.row_count - first_row);
  const T* rows[kRows];
  std::size_t labels_of_rows[kRows];
  // The probability of the label minus 1.
  T negative_residuals[kRows];
  V distance[kRows][kVectors];
  V product[kRows][kVectors];
  HWY_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) {
    // Rows that do not exist repeat the last one.
    const std::size_t row = row_begin + std::min(r, row_count - 1);
    rows[r] = column_of(row);
    labels_of_rows[r] = static_cast<std::size_t>(task.labels[row]);
    negative_residuals[r] = rows[r][labels_of_rows[r] * kWidth] - 1;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) distance[r][v] = product[r][v] = hn::Zero(d);
  }
  const T* HWY_RESTRICT panel = column_of(task.column_begin) + first_column;
  const V one = hn::Set(d, 1);
  std::size_t k = 0;
  // A batch has classes. A loop that may be empty would keep the sums in memory.
  do {
    V column[kVectors];
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      column[v] = hn::Load(d, panel + k * kWidth + v * lanes);
    }
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      const V g = hn::Set(d, rows[r][k * kWidth]);
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) {
        V& sum = distance[r][v];
        if constexpr (kDistance == Distance::kTotalVariation || kDistance == Distance::kCityblock) {
          const V minimum = hn::Min(g, column[v]);
          // Additions and multiplications have units of their own, which share the work.
          sum = v % 2 == 0 ? hn::Add(sum, minimum) : hn::MulAdd(one, minimum, sum);
        } else {
          const V difference = hn::Sub(g, column[v]);
          sum = hn::MulAdd(difference, difference, sum);
        }
      }
      if constexpr (kProduct) {
        V negative_residual = g;
        // A branch, because loads limit this loop, and residuals would be further loads.
        if (HWY_UNLIKELY(k == labels_of_rows[r])) {
          negative_residual = hn::Set(d, negative_residuals[r]);
        }
        HWY_UNROLL(4)
        for (std::size_t v = 0; v < kVectors; ++v) {
          product[r][v] = hn::NegMulAdd(negative_residual, column[v], product[r][v]);
        }
      }
    }
  } while (++k < task.class_count);

  const hn::RebindToSigned<D> di;
  using TI = hn::TFromD<decltype(di)>;
  V total = hn::Zero(d);
  // Only pairs with i < j are summed.
  const std::ptrdiff_t row_ahead =
      static_cast<std::ptrdiff_t>(row_begin) - static_cast<std::ptrdiff_t>(task.column_begin);
  const bool masked =
      row_ahead + static_cast<std::ptrdiff_t>(kRows) > 0 || task.column_count < kWidth;
  if constexpr (kProduct) {
    SubtractFromResiduals(d, rows, labels_of_rows, task.labels + task.column_begin + first_column,
                          product);
  }
  HWY_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) {
    if (r == row_count) break;
    V value[kVectors];
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      value[v] = FinishDistance<D, kDistance>(
          d, distance[r][v], hn::Set(d, task.sums[row_begin + r]),
          hn::LoadU(d, task.sums + task.column_begin + first_column + v * lanes));
    }
    if (task.output != MicroOutput::kDistances) {
      for (V& x : value) x = hn::Mul(x, hn::Set(d, task.scale));
      Exp2(d, value);
    }
    if constexpr (kProduct) {
      if (task.kernels != nullptr) {
        T* const kernels = task.kernels + (first_row + r) * task.stride + first_column;
        HWY_UNROLL(4)
        for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(value[v], d, kernels + v * lanes);
      }
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) value[v] = hn::Mul(value[v], product[r][v]);
    }
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t column = first_column + v * lanes;
      if (task.output != MicroOutput::kSum) {
        hn::StoreU(value[v], d, task.out + (first_row + r) * task.stride + column);
        continue;
      }
      if (masked) {
        const auto columns = hn::Iota(di, static_cast<TI>(column));
        const auto after = hn::Set(di, static_cast<TI>(row_ahead + static_cast<std::ptrdiff_t>(r)));
        const auto counted =
            hn::And(hn::Gt(columns, after),
                    hn::Lt(columns, hn::Set(di, static_cast<TI>(task.column_count))));
        value[v] = hn::IfThenElseZero(hn::RebindMask(d, counted), value[v]);
      }
      total = hn::Add(total, value[v]);
    }
  }
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
}

// The sum of a block of two vectors of which at most one has a pair to add. The other one would add
// zeros, so that the sum has the same bits without it.
template <class D, Distance kDistance, std::size_t kRows, typename T = hn::TFromD<D>>
HWY_INLINE double SumOfOne(D d, const MicroTask<T>& task, std::size_t row, std::size_t column) {
  const std::size_t second = column + hn::Lanes(d);
  if (task.row_begin + row + 1 < task.column_begin + second) {
    return MicroBlock<D, kDistance, true, kRows, 1>(d, task, row, column);
  }
  if (second >= task.column_count) return 0;
  return MicroBlock<D, kDistance, true, kRows, 1>(d, task, row, second);
}

template <class D, Distance kDistance, std::size_t kRows, std::size_t kVectors,
          typename T = hn::TFromD<D>>
HWY_INLINE double MicroBlocks(D d, const MicroTask<T>& task) {
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t step = kVectors * lanes;
  const bool product = task.output == MicroOutput::kSum || task.output == MicroOutput::kTerms;
  double sum = 0;
  for (std::size_t column = 0; column < task.column_count; column += step) {
    const std::size_t end = task.column_begin + column + step;
    for (std::size_t row = 0; row < task.row_count; row += kRows) {
      if (task.output == MicroOutput::kSum) {
        // All further rows come after these columns.
        if (task.row_begin + row >= end) break;
        if (kVectors == 2 &&
            (task.row_begin + row + 1 + lanes >= end || column + lanes >= task.column_count)) {
          sum += SumOfOne<D, kDistance, kRows>(d, task, row, column);
          continue;
        }
      }
      sum += product ? MicroBlock<D, kDistance, true, kRows, kVectors>(d, task, row, column)
                     : MicroBlock<D, kDistance, false, kRows, kVectors>(d, task, row, column);
    }
  }
  return sum;
}

template <class D, Distance kDistance, typename T = hn::TFromD<D>>
HWY_INLINE double MicroPanel(D d, const MicroTask<T>& task) {
  // The sums of 12 vectors and their operands fit into 32 registers, those of four into 16.
  if constexpr (HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON) {
    // Wide blocks would compute many pairs that do not count.
    const bool on_diagonal =
        task.output == MicroOutput::kSum && task.row_begin + task.row_count > task.column_begin;
    if (on_diagonal || task.column_count < kPanelWidth<T>) {
      return MicroBlocks<D, kDistance, 4, 2>(d, task);
    }
    return MicroBlocks<D, kDistance, 3, 4>(d, task);
  } else {
    return MicroBlocks<D, kDistance, 2, 2>(d, task);
  }
}

template <typename T>
HWY_INLINE double Micro(const MicroTask<T>& task) {
  const hn::CappedTag<T, kPanelWidth<T> / 4> d;
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

// Converts and stores `classes` classes of a vector of observations, and adds them to their sums.
template <class D, typename T>
HWY_INLINE void PackVector(D d, const double* HWY_RESTRICT columns, std::size_t classes,
                           T* HWY_RESTRICT panel, T* HWY_RESTRICT sums) {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  const hn::Rebind<T, D> dt;
  auto sum = hn::Load(dt, sums);
  for (std::size_t k = 0; k < classes; ++k) {
    const auto g = hn::Load(d, columns + k * kWidth);
    if constexpr (sizeof(T) == sizeof(double)) {
      hn::Store(g, dt, panel + k * kWidth);
      sum = hn::Add(sum, g);
    } else {
      const auto converted = hn::DemoteTo(dt, g);
      hn::Store(converted, dt, panel + k * kWidth);
      sum = hn::Add(sum, converted);
    }
  }
  hn::Store(sum, dt, sums);
}

template <class D>
HWY_INLINE void AddSquares(D d, const double* HWY_RESTRICT columns, std::size_t classes,
                           std::size_t width, double* HWY_RESTRICT squares) {
  auto sum = hn::Load(d, squares);
  for (std::size_t k = 0; k < classes; ++k) {
    const auto g = hn::Load(d, columns + k * width);
    sum = hn::Add(sum, hn::Mul(g, g));
  }
  hn::Store(sum, d, squares);
}

template <typename T>
HWY_INLINE void Pack(const PanelTask<T>& task) {
  constexpr std::size_t kWidth = kPanelWidth<T>;
  // A cache line of each row.
  constexpr std::size_t kClasses = 8;
  const hn::CappedTag<double, kWidth> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN double columns[kClasses * kWidth] = {};
  HWY_ALIGN T sums[kWidth] = {};
  HWY_ALIGN double squares[kWidth] = {};
  std::copy_n(task.squares, task.labels.size(), squares);
  for (std::size_t first = 0; first < task.class_count; first += kClasses) {
    const std::size_t classes = std::min(kClasses, task.class_count - first);
    for (std::size_t i = 0; i < task.rows.size(); ++i) {
      const double* const row = task.rows[i] + first;
      if (classes == kClasses) {
        HWY_UNROLL(8)
        for (std::size_t k = 0; k < kClasses; ++k) columns[k * kWidth + i] = row[k];
      } else {
        for (std::size_t k = 0; k < classes; ++k) columns[k * kWidth + i] = row[k];
      }
    }
    for (std::size_t i = 0; i < kWidth; i += lanes) {
      PackVector(d, columns + i, classes, task.panel + first * kWidth + i, sums + i);
    }
    if (task.labels.empty()) continue;
    for (std::size_t i = 0; i < task.labels.size(); ++i) {
      const std::size_t label = static_cast<std::size_t>(task.labels[i]) - first;
      if (label < classes) columns[label * kWidth + i] = 0;
    }
    for (std::size_t i = 0; i < kWidth; i += lanes) {
      AddSquares(d, columns + i, classes, kWidth, squares + i);
    }
  }
  std::copy_n(sums, task.rows.size(), task.sums);
  std::copy_n(squares, task.labels.size(), task.squares);
}

void PackFloat(const PanelTask<float>& task) { Pack(task); }
void PackDouble(const PanelTask<double>& task) { Pack(task); }
double MicroFloat(const MicroTask<float>& task) { return Micro(task); }
double MicroDouble(const MicroTask<double>& task) { return Micro(task); }
const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(PackFloat);
HWY_EXPORT(PackDouble);
HWY_EXPORT(MicroFloat);
HWY_EXPORT(MicroDouble);
HWY_EXPORT(Target);

void PackPanel(const PanelTask<float>& task) { HWY_DYNAMIC_DISPATCH(PackFloat)(task); }
void PackPanel(const PanelTask<double>& task) { HWY_DYNAMIC_DISPATCH(PackDouble)(task); }
double RunMicro(const MicroTask<float>& task) { return HWY_DYNAMIC_DISPATCH(MicroFloat)(task); }
double RunMicro(const MicroTask<double>& task) { return HWY_DYNAMIC_DISPATCH(MicroDouble)(task); }
const char* SimdTarget() { return HWY_DYNAMIC_DISPATCH(Target)(); }

}  // namespace calibd
#endif  // HWY_ONCE
