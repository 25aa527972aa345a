#include "witness_simd.h"

#include "calibd/core/random_features.h"
#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "witness_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kGroup>;
using V = hn::Vec<D>;

// AVX-512 has 32 registers, other instruction sets at most half as many.
constexpr bool kManyRegisters = hn::MaxLanes(D()) == 8;

// F of kLines lines and of kRows rows.
template <std::size_t kLines, std::size_t kRows>
HWY_INLINE void WitnessTile(const WitnessTask& task, std::size_t line, std::size_t row) {
  const hn::CappedTag<double, HWY_MIN(kRows, kGroup)> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  constexpr std::size_t kVectors = kRows / kLanes;
  const double* HWY_RESTRICT features[kVectors];
  double* out[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t strip = (row + v * kLanes) / kStripRows;
    const std::size_t lane = (row + v * kLanes) % kStripRows;
    features[v] = task.features + strip * kFeatureCount * kStripRows + lane;
    out[v] = task.out + (strip * task.lines + line) * kStripRows + lane;
  }
  hn::Vec<decltype(d)> sum[kLines][kVectors];
  for (auto& of_line : sum) {
    for (auto& value : of_line) value = hn::Zero(d);
  }
  const double* HWY_RESTRICT sums = task.sums + line * kFeatureCount;
  for (std::size_t j = 0; j < kFeatureCount; ++j) {
    hn::Vec<decltype(d)> feature[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      feature[v] = hn::Load(d, features[v] + j * kStripRows);
    }
    for (std::size_t l = 0; l < kLines; ++l) {
      const auto factor = hn::Set(d, sums[l * kFeatureCount + j]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum[l][v] = hn::MulAdd(factor, feature[v], sum[l][v]);
      }
    }
  }
  for (std::size_t l = 0; l < kLines; ++l) {
    for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sum[l][v], d, out[v] + l * kStripRows);
  }
}

// All lines from `line` on, kLines at a time, and half as many at the end.
template <std::size_t kLines, std::size_t kRows>
HWY_INLINE void WitnessLines(const WitnessTask& task, std::size_t line, std::size_t row) {
  for (; line + kLines <= task.lines; line += kLines) WitnessTile<kLines, kRows>(task, line, row);
  if constexpr (kLines > 1) WitnessLines<kLines / 2, kRows>(task, line, row);
}

void Witness(const WitnessTask& task) {
  constexpr std::size_t kHalf = kStripRows / 2;
  if (task.first < kHalf && task.last > kStripRows) {
    WitnessLines<kManyRegisters ? 10 : 3, 2 * kStripRows>(task, 0, 0);
    return;
  }
  // A few rows cost less with shorter vectors.
  for (std::size_t row = task.first / kHalf * kHalf; row < task.last; row += kHalf) {
    WitnessLines<kManyRegisters ? 10 : 8, kHalf>(task, 0, row);
  }
}

// kLines lines and kVectors vectors of features, beginning at `line` and `feature`.
template <std::size_t kLines, std::size_t kVectors>
HWY_INLINE void ChunkTile(const ChunkTask& task, std::size_t line, std::size_t feature) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kLines][kVectors];
  for (auto& of_line : sum) {
    for (V& value : of_line) value = hn::Zero(d);
  }
  for (std::size_t first = 0; first < task.rows; first += kStripRows) {
    const double* const negated = task.negated + first * task.lines + line * kStripRows;
    const std::size_t rows = HWY_MIN(kStripRows, task.rows - first);
    for (std::size_t r = 0; r < rows; ++r) {
      V features[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) {
        features[v] =
            hn::Load(d, task.features + (first + r) * kFeatureCount + feature + v * lanes);
      }
      for (std::size_t l = 0; l < kLines; ++l) {
        const V factor = hn::Set(d, negated[l * kStripRows + r]);
        for (std::size_t v = 0; v < kVectors; ++v) {
          sum[l][v] = hn::MulAdd(factor, features[v], sum[l][v]);
        }
      }
    }
  }
  const V retention = hn::Set(d, task.retention);
  for (std::size_t l = 0; l < kLines; ++l) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = (line + l) * kFeatureCount + feature + v * lanes;
      double* const all = task.sums[kAll] + at;
      double* const recent = task.sums[kRecent] + at;
      hn::Store(hn::Sub(hn::Load(d, all), sum[l][v]), d, all);
      hn::Store(hn::MulSub(retention, hn::Load(d, recent), sum[l][v]), d, recent);
    }
  }
}

void Chunk(const ChunkTask& task, std::size_t first, std::size_t last) {
  constexpr std::size_t kLines = 4;
  constexpr std::size_t kVectors = kManyRegisters ? 4 : 2;
  const std::size_t width = kVectors * hn::Lanes(D());
  std::size_t line = first;
  for (; line + kLines <= last; line += kLines) {
    for (std::size_t j = 0; j < kFeatureCount; j += width)
      ChunkTile<kLines, kVectors>(task, line, j);
  }
  for (; line < last; ++line) {
    for (std::size_t j = 0; j < kFeatureCount; j += width) ChunkTile<1, kVectors>(task, line, j);
  }
}

double Squares(const double* HWY_RESTRICT values, std::size_t count) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  // Several sums, because each addition depends on the previous one.
  constexpr std::size_t kSums = 2;
  V sum[kSums] = {hn::Zero(d), hn::Zero(d)};
  for (std::size_t i = 0; i < count; i += kSums * lanes) {
    for (std::size_t s = 0; s < kSums; ++s) {
      const V value = hn::Load(d, values + i + s * lanes);
      sum[s] = hn::MulAdd(value, value, sum[s]);
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum[0], sum[1])));
}

double Growth(const GrowthTask& task) {
  const D d;
  const auto given = [&](std::size_t row, std::size_t k) {
    return task.given + (row / kStripRows * task.lines + k) * kStripRows + row % kStripRows;
  };
  const auto label = [&](std::size_t row) { return static_cast<std::size_t>(task.labels[row]); };
  const double* const own = given(task.row, 0);
  HWY_ALIGN double products[kStripRows];
  double sum = 0;
  for (std::size_t row = 0; row <= task.row; ++row) {
    if (row % kStripRows == 0) {
      for (std::size_t lane = 0; lane < kStripRows; lane += hn::Lanes(d)) {
        V product = hn::Zero(d);
        for (std::size_t k = 0; k < task.class_count; ++k) {
          const V others = hn::Load(d, given(row, k) + lane);
          product = hn::MulAdd(hn::Set(d, own[k * kStripRows]), others, product);
        }
        hn::Store(product, d, products + lane);
      }
    }
    const double residuals = products[row % kStripRows] - *given(row, label(task.row)) -
                             *given(task.row, label(row)) + (label(row) == label(task.row) ? 1 : 0);
    V similarity[2] = {hn::Zero(d), hn::Zero(d)};
    for (std::size_t j = 0; j < kFeatureCount; j += 2 * hn::Lanes(d)) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t at = j + i * hn::Lanes(d);
        similarity[i] =
            hn::MulAdd(hn::Load(d, task.features + row * kFeatureCount + at),
                       hn::Load(d, task.features + task.row * kFeatureCount + at), similarity[i]);
      }
    }
    const double product =
        residuals * hn::GetLane(hn::SumOfLanes(d, hn::Add(similarity[0], similarity[1])));
    sum += row < task.row ? 2 * product : product;
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Witness);
HWY_EXPORT(Chunk);
HWY_EXPORT(Squares);
HWY_EXPORT(Growth);

void ComputeWitness(const WitnessTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Witness)(task); }
void AddChunk(const ChunkTask& task, std::size_t first, std::size_t last) noexcept {
  HWY_DYNAMIC_DISPATCH(Chunk)(task, first, last);
}
double SumOfSquares(const double* values, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(Squares)(values, count);
}
double SquareGrowth(const GrowthTask& task) noexcept { return HWY_DYNAMIC_DISPATCH(Growth)(task); }

}  // namespace calibd
#endif  // HWY_ONCE
