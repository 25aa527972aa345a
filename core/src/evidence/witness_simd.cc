#include "evidence/witness_simd.h"

#include "base/disabled_targets.h"
#include "calibd/core/fourier_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence/witness_simd.cc"
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
  const hn::CappedTag<float, kRows> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  constexpr std::size_t kVectors = kRows / kLanes;
  hn::Vec<decltype(d)> sum[kLines][kVectors];
  for (auto& of_line : sum) {
    for (auto& value : of_line) value = hn::Zero(d);
  }
  const float* HWY_RESTRICT sums = task.sums + line * kFourierCount;
  const float* HWY_RESTRICT fourier = task.fourier + row;
  for (std::size_t j = 0; j < kFourierCount; ++j) {
    hn::Vec<decltype(d)> terms[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      terms[v] = hn::Load(d, fourier + j * kWitnessRows + v * kLanes);
    }
    for (std::size_t l = 0; l < kLines; ++l) {
      const auto factor = hn::Set(d, sums[l * kFourierCount + j]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum[l][v] = hn::MulAdd(factor, terms[v], sum[l][v]);
      }
    }
  }
  float* const out = task.out + line * kWitnessRows + row;
  for (std::size_t l = 0; l < kLines; ++l) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(sum[l][v], d, out + l * kWitnessRows + v * kLanes);
    }
  }
}

// All lines from `line` on: kLines at a time, and the rest together.
template <std::size_t kLines, std::size_t kRows>
HWY_INLINE void WitnessLines(const WitnessTask& task, std::size_t line, std::size_t row) {
  for (; line + kLines <= task.lines; line += kLines) WitnessTile<kLines, kRows>(task, line, row);
  if constexpr (kLines > 1) WitnessLines<kLines - 1, kRows>(task, line, row);
}

void Witness(const WitnessTask& task) {
  if (task.last - task.first > kWitnessRows / 2) {
    WitnessLines<kManyRegisters ? 11 : 6, kWitnessRows>(task, 0, 0);
    return;
  }
  // A few rows cost less with shorter vectors.
  constexpr std::size_t kRows = kWitnessRows / 4;
  for (std::size_t row = task.first / kRows * kRows; row < task.last; row += kRows) {
    WitnessLines<11, kRows>(task, 0, row);
  }
}

void Transpose(const float* HWY_RESTRICT in, std::size_t first, std::size_t last,
               float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t row = first; row < last; ++row) {
    for (std::size_t j = 0; j < kFourierCount; ++j) {
      out[j * kWitnessRows + row] = in[row * kFourierCount + j];
    }
  }
#else
  constexpr std::size_t kSize = 4;
  const hn::FixedTag<float, kSize> d;
  for (std::size_t row = first / kSize * kSize; row < last; row += kSize) {
    for (std::size_t j = 0; j < kFourierCount; j += kSize) {
      const auto row0 = hn::Load(d, in + row * kFourierCount + j);
      const auto row1 = hn::Load(d, in + (row + 1) * kFourierCount + j);
      const auto row2 = hn::Load(d, in + (row + 2) * kFourierCount + j);
      const auto row3 = hn::Load(d, in + (row + 3) * kFourierCount + j);
      const auto lower02 = hn::InterleaveLower(d, row0, row2);
      const auto lower13 = hn::InterleaveLower(d, row1, row3);
      const auto upper02 = hn::InterleaveUpper(d, row0, row2);
      const auto upper13 = hn::InterleaveUpper(d, row1, row3);
      float* const to = out + j * kWitnessRows + row;
      hn::Store(hn::InterleaveLower(d, lower02, lower13), d, to);
      hn::Store(hn::InterleaveUpper(d, lower02, lower13), d, to + kWitnessRows);
      hn::Store(hn::InterleaveLower(d, upper02, upper13), d, to + 2 * kWitnessRows);
      hn::Store(hn::InterleaveUpper(d, upper02, upper13), d, to + 3 * kWitnessRows);
    }
  }
#endif
}

// Subtracts the product of a chunk from `count` sums.
HWY_INLINE void Subtract(const float* HWY_RESTRICT product, std::size_t at, std::size_t count,
                         const ChunkTask& task) {
  const D d;
  const hn::Rebind<float, D> df;
  const auto retention = hn::Set(df, static_cast<float>(task.retention));
  double* const sums = task.sums + at;
  float* const all = task.witness[kAll] + at;
  float* const recent = task.witness[kRecent] + at;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto change = hn::Load(df, product + i);
    const V sum = hn::Sub(hn::Load(d, sums + i), hn::PromoteTo(d, change));
    hn::Store(sum, d, sums + i);
    hn::Store(hn::DemoteTo(df, sum), df, all + i);
    hn::Store(hn::MulSub(retention, hn::Load(df, recent + i), change), df, recent + i);
  }
}

// kLines lines and kVectors vectors of Fourier terms, beginning at `line` and `term`.
template <std::size_t kLines, std::size_t kVectors>
HWY_INLINE void ChunkTile(const ChunkTask& task, std::size_t line, std::size_t term) {
  const hn::CappedTag<float, kWitnessRows> d;
  const hn::CappedTag<double, kStripRows> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  hn::Vec<decltype(d)> sum[kLines][kVectors];
  for (auto& of_line : sum) {
    for (auto& value : of_line) value = hn::Zero(d);
  }
  for (std::size_t first = 0; first < task.rows; first += kStripRows) {
    const double* const negated = task.negated + first * task.lines + line * kStripRows;
    HWY_ALIGN float factors[kLines][kStripRows];
    for (std::size_t l = 0; l < kLines; ++l) {
      for (std::size_t r = 0; r < kStripRows; r += hn::Lanes(d64)) {
        const auto values = hn::Load(d64, negated + l * kStripRows + r);
        hn::Store(hn::DemoteTo(d32, values), d32, &factors[l][r]);
      }
    }
    const std::size_t rows = HWY_MIN(kStripRows, task.rows - first);
    for (std::size_t r = 0; r < rows; ++r) {
      const float* const fourier = task.fourier + (first + r) * kFourierCount + term;
      hn::Vec<decltype(d)> factor[kLines];
      for (std::size_t l = 0; l < kLines; ++l) factor[l] = hn::Set(d, factors[l][r]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        const auto value = hn::Load(d, fourier + v * kLanes);
        for (std::size_t l = 0; l < kLines; ++l) {
          sum[l][v] = hn::MulAdd(factor[l], value, sum[l][v]);
        }
      }
    }
  }
  HWY_ALIGN float product[kVectors * kLanes];
  for (std::size_t l = 0; l < kLines; ++l) {
    for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sum[l][v], d, product + v * kLanes);
    Subtract(product, (line + l) * kFourierCount + term, kVectors * kLanes, task);
  }
}

template <std::size_t kLines>
HWY_INLINE void ChunkLines(const ChunkTask& task, std::size_t line, std::size_t last) {
  constexpr std::size_t kVectors = kManyRegisters ? 8 : 4;
  constexpr std::size_t kWidth = kVectors * hn::MaxLanes(hn::CappedTag<float, kWitnessRows>());
  for (; line + kLines <= last; line += kLines) {
    for (std::size_t j = 0; j < kFourierCount; j += kWidth) {
      ChunkTile<kLines, kVectors>(task, line, j);
    }
  }
  if constexpr (kLines > 1) ChunkLines<kLines - 1>(task, line, last);
}

void Chunk(const ChunkTask& task, std::size_t first, std::size_t last) {
  ChunkLines<3>(task, first, last);
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
  const hn::Rebind<float, D> df;
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
    for (std::size_t j = 0; j < kFourierCount; j += 2 * hn::Lanes(d)) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t at = j + i * hn::Lanes(d);
        const auto term = [&](std::size_t of_row) {
          return hn::PromoteTo(d, hn::Load(df, task.fourier + of_row * kFourierCount + at));
        };
        similarity[i] = hn::MulAdd(term(row), term(task.row), similarity[i]);
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
HWY_EXPORT(Transpose);
HWY_EXPORT(Chunk);
HWY_EXPORT(Squares);
HWY_EXPORT(Growth);

void ComputeWitness(const WitnessTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Witness)(task); }
void TransposeFourier(const float* in, std::size_t first, std::size_t last, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Transpose)(in, first, last, out);
}
void AddChunk(const ChunkTask& task, std::size_t first, std::size_t last) noexcept {
  HWY_DYNAMIC_DISPATCH(Chunk)(task, first, last);
}
double SumOfSquares(const double* values, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(Squares)(values, count);
}
double SquareGrowth(const GrowthTask& task) noexcept { return HWY_DYNAMIC_DISPATCH(Growth)(task); }

}  // namespace calibd
#endif  // HWY_ONCE
