#include "base/matrix_product.h"

#include <algorithm>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/matrix_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Number of rows of C that are summed in registers at a time, two vectors each.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr std::size_t kRows = 12;
#else
constexpr std::size_t kRows = 6;
#endif
// Number of rows of B that are packed at a time: two vectors of each fit into the first-level
// cache.
constexpr std::size_t kDepth = 256;

// The destination of a block of kRows rows and two vectors of columns of C.
template <typename T>
struct Target {
  T* c;
  std::size_t stride;
  T weight;
  T keep;
};

// The product of packed rows of A and packed columns of B, over `depth` entries.
template <class D, typename T = hn::TFromD<D>, class V = hn::Vec<D>>
HWY_INLINE void MultiplyBlock(D d, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                              std::size_t depth, const Target<T>& target) {
  const std::size_t lanes = hn::Lanes(d);
  V left[kRows];
  V right[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    left[r] = hn::Zero(d);
    right[r] = hn::Zero(d);
    // C is not in the cache, and not needed before the sums are ready.
    hwy::Prefetch(target.c + r * target.stride);
    hwy::Prefetch(target.c + r * target.stride + lanes);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const V b_left = hn::Load(d, b + 2 * k * lanes);
    const V b_right = hn::Load(d, b + (2 * k + 1) * lanes);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V factor = hn::Set(d, a[k * kRows + r]);
      left[r] = hn::MulAdd(factor, b_left, left[r]);
      right[r] = hn::MulAdd(factor, b_right, right[r]);
    }
  }
  const V weight = hn::Set(d, target.weight);
  const V keep = hn::Set(d, target.keep);
  for (std::size_t r = 0; r < kRows; ++r) {
    T* const c = target.c + r * target.stride;
    V out_left = hn::Mul(weight, left[r]);
    V out_right = hn::Mul(weight, right[r]);
    if (target.keep != 0) {
      out_left = hn::MulAdd(keep, hn::LoadU(d, c), out_left);
      out_right = hn::MulAdd(keep, hn::LoadU(d, c + lanes), out_right);
    }
    hn::StoreU(out_left, d, c);
    hn::StoreU(out_right, d, c + lanes);
  }
}

// Packs columns begin .. begin + depth - 1 of A, kRows rows at a time, entry by entry; missing rows
// are zero.
template <typename T>
HWY_INLINE void PackRows(const MatrixProduct<T>& product, std::size_t begin, std::size_t depth,
                         T* packed) {
  for (std::size_t row = 0; row < product.rows; row += kRows, packed += depth * kRows) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const bool beyond = row + r >= product.rows;
      const T* from = beyond ? nullptr : product.a + (row + r) * product.a_stride + begin;
      for (std::size_t k = 0; k < depth; ++k) packed[k * kRows + r] = beyond ? T{0} : from[k];
    }
  }
}

// Packs columns first .. first + width - 1 of B, rows begin .. begin + depth - 1; missing columns
// are zero.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void PackColumns(D d, const MatrixProduct<T>& product, std::size_t begin,
                            std::size_t depth, std::size_t first, std::size_t width, T* packed) {
  const std::size_t lanes = hn::Lanes(d);
  const T* const start =
      product.b_piece_stride == 0
          ? product.b + first * product.b_column_stride
          : product.b + first / kPieceColumns * product.b_piece_stride + first % kPieceColumns;
  for (std::size_t k = 0; k < depth; ++k) {
    const T* from = start + (begin + k) * product.b_row_stride;
    T* to = packed + 2 * k * lanes;
    if (product.b_column_stride == 1 && width == 2 * lanes) {
      hn::Store(hn::LoadU(d, from), d, to);
      hn::Store(hn::LoadU(d, from + lanes), d, to + lanes);
      continue;
    }
    for (std::size_t j = 0; j < 2 * lanes; ++j) {
      to[j] = j < width ? from[j * product.b_column_stride] : T{0};
    }
  }
}

template <typename T>
HWY_INLINE void Product(const MatrixProduct<T>& product, std::vector<T>& scratch) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const std::size_t panel = 2 * hn::Lanes(d);
  HWY_ALIGN T packed[kDepth * 2 * (64 / sizeof(T))];
  HWY_ALIGN T edge[kRows * 2 * (64 / sizeof(T))];
  const std::size_t blocks = (product.rows + kRows - 1) / kRows;
  scratch.resize(std::max(scratch.size(), blocks * kRows * std::min(kDepth, product.depth)));
  for (std::size_t begin = 0; begin < product.depth; begin += kDepth) {
    const std::size_t depth = std::min(kDepth, product.depth - begin);
    const T keep = begin == 0 ? product.keep : T{1};
    PackRows(product, begin, depth, scratch.data());
    for (std::size_t first = 0; first < product.columns; first += panel) {
      const std::size_t width = std::min(panel, product.columns - first);
      PackColumns(d, product, begin, depth, first, width, packed);
      for (std::size_t row = 0; row < product.rows; row += kRows) {
        const std::size_t count = std::min(kRows, product.rows - row);
        T* const c = product.c + row * product.c_stride + first;
        const T* const a = &scratch[row * depth];
        if (count == kRows && width == panel) {
          MultiplyBlock(d, a, packed, depth, Target<T>{c, product.c_stride, product.weight, keep});
          continue;
        }
        // At the edges, the result goes through a complete block.
        MultiplyBlock(d, a, packed, depth, Target<T>{edge, panel, product.weight, T{0}});
        for (std::size_t r = 0; r < count; ++r) {
          T* const out = c + r * product.c_stride;
          for (std::size_t j = 0; j < width; ++j) {
            out[j] = edge[r * panel + j] + (keep == 0 ? T{0} : keep * out[j]);
          }
        }
      }
    }
  }
}

void ProductFloat(const MatrixProduct<float>& product, std::vector<float>& scratch) {
  Product(product, scratch);
}
void ProductDouble(const MatrixProduct<double>& product, std::vector<double>& scratch) {
  Product(product, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(ProductFloat);
HWY_EXPORT(ProductDouble);

void Multiply(const MatrixProduct<float>& product, std::vector<float>& scratch) {
  HWY_DYNAMIC_DISPATCH(ProductFloat)(product, scratch);
}
void Multiply(const MatrixProduct<double>& product, std::vector<double>& scratch) {
  HWY_DYNAMIC_DISPATCH(ProductDouble)(product, scratch);
}

}  // namespace calibd
#endif  // HWY_ONCE
