// Above 600 lines: all kernels of the evidence are compiled together, once for each instruction
// set. A second source would repeat Highway's scaffolding, the vector types, Exp and Sum.
#include "evidence_simd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "calibd/core/random_features.h"
#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence_simd.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "exp2-inl.h"
#include "hwy/contrib/math/math-inl.h"

#ifndef CALIBD_CORE_SRC_EVIDENCE_SIMD_ONCE_
#define CALIBD_CORE_SRC_EVIDENCE_SIMD_ONCE_
namespace calibd {

// The logarithm of a padded class: its powers are practically 0, and no intermediate result
// underflows.
inline constexpr double kLogNothing = -600;

// Log prior of each expert; padded experts never contribute to the mixture.
struct alignas(64) ExpertRow {
  double values[kPaddedExperts];
};
const ExpertRow& LogPriors() noexcept;

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_EVIDENCE_SIMD_ONCE_

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

// Processes kRows rows from `first` on.
template <std::size_t kRows>
HWY_INLINE void PhaseRows(const PhaseTask& task, std::size_t first) {
  const D d;
  constexpr std::size_t kAtOnce = 4;
  const std::size_t lanes = hn::Lanes(d);
  const double* HWY_RESTRICT g = task.probabilities + first * task.class_count;
  double* HWY_RESTRICT phases = task.phases + first * kFeatureCount;
  for (std::size_t r = 0; r < kFrequencyCount; r += kAtOnce * lanes) {
    V sum[kRows][kAtOnce];
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        sum[row][v] = hn::LoadU(d, phases + row * kFeatureCount + r + v * lanes);
      }
    }
    for (std::size_t k = 0; k < task.count; ++k) {
      V value[kRows];
      for (std::size_t row = 0; row < kRows; ++row) {
        value[row] = hn::Set(d, g[row * task.class_count + k]);
      }
      const double* const frequencies = task.frequencies + k * kFrequencyCount + r;
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        const V frequency = hn::LoadU(d, frequencies + v * lanes);
        for (std::size_t row = 0; row < kRows; ++row) {
          sum[row][v] = hn::MulAdd(value[row], frequency, sum[row][v]);
        }
      }
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        hn::StoreU(sum[row][v], d, phases + row * kFeatureCount + r + v * lanes);
      }
    }
  }
}

void Phases(const PhaseTask& task) {
  constexpr std::size_t kRows = 4;
  std::size_t row = 0;
  for (; row + kRows <= task.rows; row += kRows) PhaseRows<kRows>(task, row);
  for (; row < task.rows; ++row) PhaseRows<1>(task, row);
}

// Coefficients of the series of sin and cos. For
// x
// <= pi / 4 the first omitted term is below 1e-17.
constexpr double kSinCoefficients[] = {
    -1.0 / 6,        1.0 / 120,         -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000.};
constexpr double kCosCoefficients[] = {
    -1.0 / 2,       1.0 / 24,        -1.0 / 720,          1.0 / 40320,
    -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200., 1.0 / 20922789888000.};

void Features(double* HWY_RESTRICT features) {
  const D d;
  // 1 / sqrt(64).
  static_assert(kFrequencyCount == 64);
  const V scale = hn::Set(d, 0.125);
  for (std::size_t r = 0; r < kFrequencyCount; r += hn::Lanes(d)) {
    const V turns = hn::LoadU(d, features + r);
    // Removes whole and quarter turns, which leaves
    // x
    // <= pi / 4.
    const V part = hn::Sub(turns, hn::Round(turns));
    const V quarters = hn::Round(hn::Mul(part, hn::Set(d, 4)));
    const V x = hn::Mul(hn::Set(d, 6.283185307179586476925),
                        hn::NegMulAdd(quarters, hn::Set(d, 0.25), part));
    const V square = hn::Mul(x, x);
    V sin = hn::Set(d, kSinCoefficients[6]);
    for (int k = 5; k >= 0; --k) sin = hn::MulAdd(sin, square, hn::Set(d, kSinCoefficients[k]));
    sin = hn::MulAdd(hn::Mul(sin, square), x, x);
    V cos = hn::Set(d, kCosCoefficients[7]);
    for (int k = 6; k >= 0; --k) cos = hn::MulAdd(cos, square, hn::Set(d, kCosCoefficients[k]));
    cos = hn::MulAdd(cos, square, hn::Set(d, 1));
    // quarters is in -2..2. An odd number swaps sin and cos; the signs change accordingly.
    const V size = hn::Abs(quarters);
    const auto odd = hn::Eq(size, hn::Set(d, 1));
    const auto half = hn::Eq(size, hn::Set(d, 2));
    const V sign = hn::CopySign(scale, quarters);
    const V turned = hn::IfThenElse(half, hn::Neg(scale), scale);
    hn::StoreU(hn::IfThenElse(odd, hn::Neg(hn::Mul(sign, sin)), hn::Mul(turned, cos)), d,
               features + r);
    hn::StoreU(hn::IfThenElse(odd, hn::Mul(sign, cos), hn::Mul(turned, sin)), d,
               features + kFrequencyCount + r);
  }
}

double Match(const double* HWY_RESTRICT features, double weight, double* HWY_RESTRICT sums) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, weight);
  V product[2] = {hn::Zero(d), hn::Zero(d)};
  for (std::size_t j = 0; j < kFeatureCount; j += 2 * lanes) {
    for (std::size_t i = 0; i < 2; ++i) {
      const V feature = hn::LoadU(d, features + j + i * lanes);
      const V sum = hn::LoadU(d, sums + j + i * lanes);
      product[i] = hn::MulAdd(feature, sum, product[i]);
      hn::StoreU(hn::MulAdd(feature, scale, sum), d, sums + j + i * lanes);
    }
  }
  return Sum(hn::Add(product[0], product[1]));
}

// kRows rows update the sums of kVectors vectors of classes at once, so that the sums are read and
// written once for all rows. The bits are the same as for one row after another. at: position of
// the vectors among the sums; across: among the residuals. next: sums that are prefetched
// meanwhile, one line at a time, so that the requests do not wait for each other.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void WitnessRows(const WitnessTask& task, const std::size_t* at,
                            const std::size_t* across, std::size_t first, const double* next) {
  constexpr std::size_t kLine = 64 / sizeof(double);
  // Several sums per row and vector, because each addition depends on the previous one.
  constexpr std::size_t kSums = 2;
  const D d;
  const double* HWY_RESTRICT features = task.features + first * kFeatureCount;
  double* sums[kVectors];
  V out[kVectors][kRows][kSums];
  V residual[kVectors][kRows];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sums[v] = task.sums + at[v];
    for (std::size_t r = 0; r < kRows; ++r) {
      for (V& sum : out[v][r]) sum = hn::Zero(d);
      residual[v][r] = hn::Mul(hn::LoadU(d, task.residuals + (first + r) * task.stride + across[v]),
                               hn::Set(d, task.after[first + r]));
    }
  }
  for (std::size_t j = 0; j < kFeatureCount; j += 2 * kSums) {
    hwy::Prefetch(next);
    next += kLine;
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < 2 * kSums; ++i) {
      V sum[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) sum[v] = hn::Load(d, sums[v] + (j + i) * kGroup);
      for (std::size_t r = 0; r < kRows; ++r) {
        const V feature = hn::Set(d, features[r * kFeatureCount + j + i]);
        for (std::size_t v = 0; v < kVectors; ++v) {
          out[v][r][i % kSums] = hn::MulAdd(feature, sum[v], out[v][r][i % kSums]);
          sum[v] = hn::MulAdd(feature, residual[v][r], sum[v]);
        }
      }
      for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sum[v], d, sums[v] + (j + i) * kGroup);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const V total = hn::Add(out[v][r][0], out[v][r][1]);
      hn::StoreU(hn::Mul(total, hn::Set(d, task.inverse_before[first + r])), d,
                 task.out + (first + r) * task.stride + across[v]);
    }
  }
}

// All rows, for kVectors vectors of classes beginning at `vector`.
template <std::size_t kVectors>
HWY_INLINE void WitnessVectors(const WitnessTask& task, std::size_t vector) {
  constexpr std::size_t kRows = 4;
  // The part of the next sums that each pass over the rows prefetches.
  constexpr std::size_t kBrought = kFeatureCount / 4 * (64 / sizeof(double));
  const std::size_t lanes = hn::Lanes(D());
  std::size_t at[kVectors];
  std::size_t across[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    across[v] = (vector + v) * lanes;
    at[v] = across[v] / kGroup * kGroup * kFeatureCount + across[v] % kGroup;
  }
  const std::size_t all = task.stride * kFeatureCount;
  std::size_t next = (vector + kVectors) * lanes * kFeatureCount;
  for (std::size_t row = 0; row < task.rows;) {
    if (next + kBrought > all) next = 0;
    if (row + kRows <= task.rows) {
      WitnessRows<kRows, kVectors>(task, at, across, row, task.sums + next);
      row += kRows;
    } else {
      WitnessRows<1, kVectors>(task, at, across, row, task.sums + next);
      ++row;
    }
    next += kBrought;
  }
}

void Witness(const WitnessTask& task) {
  constexpr std::size_t kVectors = 2;
  const std::size_t vectors = task.stride / hn::Lanes(D());
  std::size_t vector = 0;
  for (; vector + kVectors <= vectors; vector += kVectors) WitnessVectors<kVectors>(task, vector);
  for (; vector < vectors; ++vector) WitnessVectors<1>(task, vector);
}

// p^beta = p^whole (p^root)^times: one exponential, p^{1/180}, serves all roots and powers.
struct PowerParts {
  int whole = 0;
  std::size_t root = 0;
  int times = 0;
};
constexpr int kSmallestRoot = 180;
constexpr std::array kRoots = {4, 9, 10};

// Fails to compile if beta is not a multiple of these roots: such a power needs another root.
constexpr PowerParts PartsOf(double beta) {
  for (int whole = 0; whole <= 3; ++whole) {
    for (std::size_t root = 0; root < kRoots.size(); ++root) {
      for (int times = 0; times < 10; ++times) {
        const double off = whole + times / static_cast<double>(kRoots[root]) - beta;
        if (off < 1e-12 && off > -1e-12) return {whole, root, times};
      }
    }
  }
  throw beta;
}

template <int kTimes>
HWY_INLINE V Times(V x) {
  if constexpr (kTimes == 1) {
    return x;
  } else if constexpr (kTimes % 2 == 0) {
    const V half = Times<kTimes / 2>(x);
    return hn::Mul(half, half);
  } else {
    return hn::Mul(Times<kTimes - 1>(x), x);
  }
}

// roots: p^{1/r} for each r of kRoots.
template <std::size_t kIndex>
HWY_INLINE V Power(V p, const V* roots) {
  constexpr PowerParts kParts = PartsOf(kPowers[kIndex]);
  if constexpr (kParts.times == 0) {
    return Times<kParts.whole>(p);
  } else if constexpr (kParts.whole == 0) {
    return Times<kParts.times>(roots[kParts.root]);
  } else {
    return hn::Mul(Times<kParts.whole>(p), Times<kParts.times>(roots[kParts.root]));
  }
}

// p^{1/180} by the series of the exponential function. p is above 1e-16, because a tolerance of at
// least 1e-9 is distributed over fewer than 1e7 classes. Therefore
// x
// < .21, and the omitted terms are below 1e-15.
HWY_INLINE V SmallestRoot(V log_p) {
  const D d;
  constexpr double kEven[] = {1.0 / 2, 1.0 / 24, 1.0 / 720, 1.0 / 40320, 1.0 / 3628800};
  constexpr double kOdd[] = {1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880};
  const V one = hn::Set(d, 1);
  const V x = hn::Mul(log_p, hn::Set(d, 1.0 / kSmallestRoot));
  const V square = hn::Mul(x, x);
  // Two series, because each step of a series depends on the previous one.
  V even = hn::Set(d, kEven[4]);
  V odd = hn::Set(d, kOdd[3]);
  for (int k = 3; k >= 0; --k) even = hn::MulAdd(even, square, hn::Set(d, kEven[k]));
  for (int k = 2; k >= 0; --k) odd = hn::MulAdd(odd, square, hn::Set(d, kOdd[k]));
  even = hn::MulAdd(even, square, one);
  odd = hn::MulAdd(odd, square, one);
  return hn::MulAdd(odd, x, even);
}

template <std::size_t... kIndices>
HWY_INLINE void Roots(V log_p, V* roots, std::index_sequence<kIndices...> /*unused*/) {
  static_assert(((kSmallestRoot % kRoots[kIndices] == 0) && ...));
  const V smallest = SmallestRoot(log_p);
  ((roots[kIndices] = Times<kSmallestRoot / kRoots[kIndices]>(smallest)), ...);
}

template <std::size_t... kIndices>
HWY_INLINE void SumPowers(const PredictionTerms& terms, double* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  V sum[sizeof...(kIndices)];
  for (V& value : sum) value = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const V p = hn::LoadU(d, terms.p + k);
    V roots[kRoots.size()];
    Roots(hn::LoadU(d, terms.log_p + k), roots, std::make_index_sequence<kRoots.size()>());
    ((sum[kIndices] = hn::Add(sum[kIndices], Power<kIndices>(p, roots))), ...);
  }
  ((sums[kIndices] = Sum(sum[kIndices])), ...);
}

// The number of edges that are less than or equal to each value.
HWY_INLINE V BinOf(V given, const double* HWY_RESTRICT edges, bool many) {
  const D d;
  const V one = hn::Set(d, 1);
  // Several counts, because each addition depends on the previous one.
  constexpr std::size_t kCounts = 4;
  V count[kCounts];
  for (V& value : count) value = hn::Zero(d);
  // With many classes, most values are in the lower bins, so the upper bins are skipped.
  constexpr std::size_t kAtOnce = 8;
  static_assert(kBinCount % kAtOnce == 0);
  for (std::size_t first = 0; first < kBinCount; first += kAtOnce) {
    if (many && hn::AllFalse(d, hn::Ge(given, hn::Set(d, edges[first])))) break;
    HWY_UNROLL(8)
    for (std::size_t b = first; b < first + kAtOnce; ++b) {
      if (b + 1 == kBinCount) break;
      V& value = count[b % kCounts];
      value = hn::Add(value, hn::IfThenElseZero(hn::Ge(given, hn::Set(d, edges[b])), one));
    }
  }
  return hn::Add(hn::Add(count[0], count[1]), hn::Add(count[2], count[3]));
}

// The sums of the predictions in each bin, before and after smoothing.
void SumBins(const double* HWY_RESTRICT g, PredictionTerms& terms) {
  // With many classes, four tables are used in turn: most classes are in the same bin, and an
  // addition would wait for the previous one.
  constexpr std::size_t kTables = 4;
  const std::size_t mask = terms.class_count < 64 ? 0 : kTables - 1;
  double sums[kTables][kBinCount][2];
  std::fill_n(&sums[0][0][0], (mask + 1) * kBinCount * 2, 0.0);
  for (std::size_t k = 0; k < terms.class_count; ++k) {
    // Adjacent in memory, so that one vector addition updates both.
    double* const sum = sums[k & mask][static_cast<std::size_t>(terms.bins[k])];
    sum[0] += g[k];
    sum[1] += terms.p[k];
  }
  for (std::size_t b = 0; b < kBinCount; ++b) {
    terms.given_in_bin[b] = sums[0][b][0];
    terms.p_in_bin[b] = sums[0][b][1];
    for (std::size_t table = 1; table <= mask; ++table) {
      terms.given_in_bin[b] += sums[table][b][0];
      terms.p_in_bin[b] += sums[table][b][1];
    }
  }
}

void SmoothRow(const double* HWY_RESTRICT g, double eps, const double* HWY_RESTRICT edges,
               PredictionTerms& terms) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t m = terms.class_count;
  // Whole vectors are read, so the last one is padded with zeros.
  HWY_ALIGN double rest[kGroup] = {};
  const std::size_t whole = m / kGroup * kGroup;
  for (std::size_t k = whole; k < m; ++k) rest[k - whole] = g[k];
  const auto load = [&](std::size_t k) {
    return k < whole ? hn::LoadU(d, g + k) : hn::Load(d, rest + (k - whole));
  };
  V total = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += lanes) total = hn::Add(total, load(k));
  terms.total = Sum(total);
  const V shift = hn::Set(d, eps);
  const V scale = hn::Set(d, 1 / (terms.total + static_cast<double>(m) * eps));
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::int32_t, D> d32;
  for (std::size_t k = 0; k < terms.size; k += lanes) {
    const V given = load(k);
    const V p = hn::Mul(hn::Add(given, shift), scale);
    const V bin = BinOf(given, edges, m >= 64);
    hn::StoreU(p, d, terms.p + k);
    hn::StoreU(hn::Log(d, p), d, terms.log_p + k);
    const V cell = hn::MulAdd(bin, hn::Set(d, static_cast<double>(terms.size)),
                              hn::Iota(d, static_cast<double>(k)));
    const V index = hn::Mul(cell, hn::Set(d, kCellSize));
    hn::StoreU(hn::ConvertTo(di, index), di, terms.cells + k);
    hn::StoreU(hn::DemoteTo(d32, bin), d32, terms.bins + k);
  }
  for (std::size_t k = m; k < terms.size; ++k) {
    terms.p[k] = 0;
    terms.log_p[k] = kLogNothing;
  }
  SumBins(g, terms);
  SumPowers(terms, terms.power_sums.data(), std::make_index_sequence<kPowers.size()>());
}

// Returns e^{eta x}; `before` is the power for the previous rate.
template <std::size_t kIndex>
HWY_INLINE V TiltPower(V x, V before) {
  const D d;
  constexpr double kRate = kTiltRates[kIndex];
  constexpr double kBefore = kIndex == 0 ? 0 : kTiltRates[kIndex == 0 ? 0 : kIndex - 1];
  if constexpr (kRate == 2 * kBefore) {
    return hn::Mul(before, before);
  } else {
    return Exp(hn::Mul(hn::Set(d, kRate), x));
  }
}

template <std::size_t... kIndices>
HWY_INLINE void SumTilts(const PredictionTerms& terms, const double* HWY_RESTRICT witness,
                         WitnessTerms& out, double scale,
                         std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  const V min = hn::Set(d, out.min);
  const V max = hn::Set(d, out.max);
  V loss = hn::Zero(d);
  V sum[sizeof...(kIndices)];
  for (V& value : sum) value = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const V p = hn::LoadU(d, terms.p + k);
    const V value = hn::LoadU(d, witness + k);
    loss = hn::MulAdd(p, hn::Sub(value, min), loss);
    const V x = hn::Mul(hn::Sub(value, max), hn::Set(d, scale));
    V power = p;
    ((power = TiltPower<kIndices>(x, power), sum[kIndices] = hn::MulAdd(p, power, sum[kIndices])),
     ...);
  }
  out.largest_loss = Sum(loss);
  ((out.tilt_sums[kIndices] = Sum(sum[kIndices])), ...);
}

WitnessTerms Reduce(const PredictionTerms& terms, double* HWY_RESTRICT witness, double match) {
  const D d;
  for (std::size_t k = terms.class_count; k < terms.size; ++k) witness[k] = witness[0];
  const std::size_t lanes = hn::Lanes(d);
  V min = hn::Set(d, witness[0]);
  V max = min;
  V min_of_odd = min;
  V max_of_odd = min;
  for (std::size_t k = 0; k < terms.size; k += 2 * lanes) {
    const V value = hn::LoadU(d, witness + k);
    min = hn::Min(min, value);
    max = hn::Max(max, value);
    if (k + lanes == terms.size) break;
    const V odd = hn::LoadU(d, witness + k + lanes);
    min_of_odd = hn::Min(min_of_odd, odd);
    max_of_odd = hn::Max(max_of_odd, odd);
  }
  min = hn::Min(min, min_of_odd);
  max = hn::Max(max, max_of_odd);
  WitnessTerms out;
  out.min = hn::GetLane(hn::MinOfLanes(d, min));
  out.max = hn::GetLane(hn::MaxOfLanes(d, max));
  SumTilts(terms, witness, out, 1 / (10 + match), std::make_index_sequence<kTiltRates.size()>());
  return out;
}

Projection Project(const double* HWY_RESTRICT residual, const double* HWY_RESTRICT witness,
                   double at_label, std::size_t size) {
  const D d;
  V product = hn::Zero(d);
  V square = hn::Zero(d);
  for (std::size_t k = 0; k < size; k += hn::Lanes(d)) {
    const V value = hn::LoadU(d, residual + k);
    product = hn::MulAdd(value, hn::LoadU(d, witness + k), product);
    square = hn::MulAdd(value, value, square);
  }
  Projection out;
  out.product = Sum(product);
  out.square = Sum(square);
  const V mean = hn::Set(d, at_label - out.product);
  V variance = hn::Zero(d);
  for (std::size_t k = 0; k < size; k += hn::Lanes(d)) {
    const V centred = hn::Sub(hn::LoadU(d, witness + k), mean);
    variance = hn::NegMulAdd(hn::LoadU(d, residual + k), hn::Mul(centred, centred), variance);
  }
  out.variance = Sum(variance) + out.product * out.product;
  return out;
}

// 1 / sqrt(x) for an x in the range of float: square roots and quotients of doubles would take
// longer than the rest of a histogram.
HWY_INLINE V ReciprocalSqrt(V x) {
  const D d;
  const hn::Rebind<float, D> df;
  const V half = hn::Mul(x, hn::Set(d, 0.5));
  V y = hn::PromoteTo(d, hn::ApproximateReciprocalSqrt(hn::DemoteTo(df, x)));
  // A Newton step doubles the number of correct bits, which is 14 with AVX-512 and otherwise at
  // least 11.
  constexpr int kSteps = HWY_TARGET <= HWY_AVX3 ? 2 : 3;
  for (int step = 0; step < kSteps; ++step) {
    y = hn::Mul(y, hn::NegMulAdd(half, hn::Mul(y, y), hn::Set(d, 1.5)));
  }
  return y;
}

// r^theta for r = root^2.
template <std::size_t kIndex>
HWY_INLINE V RatioPower(V root) {
  const D d;
  constexpr double kTheta = kHistogramPowers[kIndex];
  if constexpr (kTheta == 1) {
    return hn::Mul(root, root);
  } else if constexpr (kTheta == .5) {
    return root;
  } else {
    return hn::Exp(d, hn::Mul(hn::Set(d, 2 * kTheta), hn::Log(d, root)));
  }
}

template <std::size_t... kIndices>
HWY_INLINE void AddRatios(V p, V observed, V expected, V prior, V* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  observed = hn::Add(observed, prior);
  expected = hn::Add(expected, prior);
  const V root = hn::Mul(observed, ReciprocalSqrt(hn::Mul(observed, expected)));
  ((sums[kIndices] = hn::MulAdd(p, RatioPower<kIndices>(root), sums[kIndices])), ...);
}

constexpr auto kHistogramIndices = std::make_index_sequence<kHistogramPowers.size()>();

HistogramSums Histogram(const double* HWY_RESTRICT p, const double* HWY_RESTRICT observed,
                        const double* HWY_RESTRICT expected, std::size_t size, double weight) {
  const D d;
  const V prior = hn::Set(d, 3 * weight);
  V sums[kHistogramPowers.size()];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t b = 0; b < size; b += hn::Lanes(d)) {
    AddRatios(hn::LoadU(d, p + b), hn::LoadU(d, observed + b), hn::LoadU(d, expected + b), prior,
              sums, kHistogramIndices);
  }
  HistogramSums out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Sum(sums[i]);
  return out;
}

OfPasts<HistogramSums> ClassHistograms(const PredictionTerms& terms,
                                       const double* HWY_RESTRICT cells,
                                       const OfPasts<double>& weights) {
  const D d;
  const hn::CappedTag<double, kCellSize> of_cell;
  V priors[kPasts];
  V sums[kPasts][kHistogramPowers.size()];
  for (std::size_t past = 0; past < kPasts; ++past) {
    priors[past] = hn::Set(d, 3 * weights[past]);
    for (V& sum : sums[past]) sum = hn::Zero(d);
  }
  // Copies cell by cell to a short row: gathers take several times as long on CPUs with mitigations
  // against attacks.
  constexpr std::size_t kAtOnce = 64;
  HWY_ALIGN double row[kAtOnce * kCellSize];
  for (std::size_t first = 0; first < terms.size; first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, terms.size - first);
    for (std::size_t k = 0; k < count; ++k) {
      const double* const cell = cells + terms.cells[first + k];
      for (std::size_t i = 0; i < kCellSize; i += hn::Lanes(of_cell)) {
        hn::Store(hn::Load(of_cell, cell + i), of_cell, row + k * kCellSize + i);
      }
    }
    for (std::size_t k = 0; k < count; k += hn::Lanes(d)) {
      V observed[kPasts];
      V expected[kPasts];
      hn::LoadInterleaved4(d, row + k * kCellSize, observed[kAll], observed[kRecent],
                           expected[kAll], expected[kRecent]);
      const V p = hn::LoadU(d, terms.p + first + k);
      for (std::size_t past = 0; past < kPasts; ++past) {
        AddRatios(p, observed[past], expected[past], priors[past], sums[past], kHistogramIndices);
      }
    }
  }
  OfPasts<HistogramSums> out;
  for (std::size_t past = 0; past < kPasts; ++past) {
    for (std::size_t i = 0; i < out[past].size(); ++i) out[past][i] = Sum(sums[past][i]);
  }
  return out;
}

void AddExpectations(const PredictionTerms& terms, const double* HWY_RESTRICT g,
                     const OfPasts<double>& weights, double* HWY_RESTRICT cells) {
  const double all = weights[kAll];
  const double recent = weights[kRecent];
  for (std::size_t k = 0; k < terms.class_count; ++k) {
    // Adjacent in memory, so that one vector addition updates both.
    double* const expected = cells + terms.cells[k] + kExpected;
    expected[kAll] += all * g[k];
    expected[kRecent] += recent * g[k];
  }
}

constexpr std::size_t kExpertVectors = kPaddedExperts / hn::MaxLanes(D());

// One value for each expert. Each step is applied to all experts before the next step, so that the
// latencies of independent experts overlap.
using ExpertVectors = std::array<V, kExpertVectors>;

HWY_INLINE ExpertVectors LoadExperts(const double* values) {
  const D d;
  ExpertVectors out;
  for (std::size_t v = 0; v < kExpertVectors; ++v) out[v] = hn::LoadU(d, values + v * hn::Lanes(d));
  return out;
}

HWY_INLINE void StoreExperts(const ExpertVectors& values, double* out) {
  const D d;
  for (std::size_t v = 0; v < kExpertVectors; ++v) hn::StoreU(values[v], d, out + v * hn::Lanes(d));
}

// The quotients of the bets, whose logarithms are taken later.
HWY_INLINE ExpertVectors Quotients(const ExpertBets& bets) {
  ExpertVectors out = LoadExperts(bets.numerator.data());
  const ExpertVectors denominator = LoadExperts(bets.denominator.data());
  for (std::size_t v = 0; v < kExpertVectors; ++v) out[v] = hn::Div(out[v], denominator[v]);
  return out;
}

// Adds the logarithms of the e-values.
HWY_INLINE void AddLogEValues(const ExpertBets& bets, const ExpertVectors& log_quotients,
                              double penalty, ExpertVectors& sums) {
  const ExpertVectors linear = LoadExperts(bets.linear.data());
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    sums[v] =
        hn::Add(sums[v], hn::Sub(hn::Add(linear[v], log_quotients[v]), hn::Set(D(), penalty)));
  }
}

// log sum_j prior_j e^{values_j} for each of the values. One vector logarithm serves all of them.
template <std::size_t kCount>
HWY_INLINE std::array<double, kCount> LogMixtures(
    const std::array<const ExpertVectors*, kCount>& values) {
  static_assert(kCount <= kGroup);
  const D d;
  const ExpertVectors priors = LoadExperts(LogPriors().values);
  ExpertVectors shares[kCount];
  HWY_ALIGN double maxima[kGroup] = {};
  HWY_ALIGN double sums[kGroup];
  std::fill_n(sums, kGroup, 1.0);
  for (std::size_t i = 0; i < kCount; ++i) {
    V max = hn::Set(d, std::numeric_limits<double>::lowest());
    for (std::size_t v = 0; v < kExpertVectors; ++v) {
      shares[i][v] = hn::Add((*values[i])[v], priors[v]);
      max = hn::Max(max, shares[i][v]);
    }
    max = hn::MaxOfLanes(d, max);
    maxima[i] = hn::GetLane(max);
    for (V& share : shares[i]) share = Exp(hn::Sub(share, max));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    V sum = hn::Zero(d);
    for (const V& share : shares[i]) sum = hn::Add(sum, share);
    sums[i] = Sum(sum);
  }
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
    const V log = hn::Add(hn::Load(d, maxima + i), hn::Log(d, hn::Load(d, sums + i)));
    hn::Store(log, d, sums + i);
  }
  std::array<double, kCount> out;
  std::copy_n(sums, kCount, out.begin());
  return out;
}

double Mixture(const double* HWY_RESTRICT values) {
  const ExpertVectors vectors = LoadExperts(values);
  return LogMixtures<1>({&vectors})[0];
}

ProcessMixtures Advance(const ExpertBets& all, const ExpertBets& recent, double penalty,
                        const ExpertProcesses& processes) {
  const D d;
  const V zero = hn::Zero(d);
  ExpertVectors log_all = Quotients(all);
  ExpertVectors log_recent = Quotients(recent);
  for (V& value : log_all) value = hn::Log(d, value);
  for (V& value : log_recent) value = hn::Log(d, value);
  ExpertVectors e = LoadExperts(processes.log_e);
  ExpertVectors r1 = LoadExperts(processes.log_r1);
  ExpertVectors c1 = LoadExperts(processes.log_c1);
  AddLogEValues(all, log_all, penalty, e);
  AddLogEValues(recent, log_recent, penalty, r1);
  AddLogEValues(recent, log_recent, penalty, c1);
  for (V& value : c1) value = hn::Max(zero, value);
  // log(1 + e^r) = max(r, 0) + log(1 + e^-|r|), without overflow.
  ExpertVectors odds;
  for (std::size_t v = 0; v < kExpertVectors; ++v) odds[v] = Exp(hn::Neg(hn::Abs(r1[v])));
  for (V& value : odds) value = hn::Log(d, hn::Add(hn::Set(d, 1), value));
  for (std::size_t v = 0; v < kExpertVectors; ++v) r1[v] = hn::Add(hn::Max(r1[v], zero), odds[v]);
  StoreExperts(e, processes.log_e);
  StoreExperts(r1, processes.log_r1);
  StoreExperts(c1, processes.log_c1);
  const auto [log_e, log_r1, log_c1] = LogMixtures<3>({&e, &r1, &c1});
  return {.log_e = log_e, .log_r1 = log_r1, .log_c1 = log_c1};
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {
namespace {

ExpertRow MakeLogPriors() noexcept {
  ExpertRow row;
  for (std::size_t j = 0; j < kPaddedExperts; ++j) {
    row.values[j] =
        j < kExpertCount ? std::log(kPriors[j]) : std::numeric_limits<double>::lowest() / 4;
  }
  return row;
}

}  // namespace

const ExpertRow& LogPriors() noexcept {
  static const ExpertRow row = MakeLogPriors();
  return row;
}

HWY_EXPORT(Phases);
HWY_EXPORT(Features);
HWY_EXPORT(Match);
HWY_EXPORT(Witness);
HWY_EXPORT(SmoothRow);
HWY_EXPORT(Reduce);
HWY_EXPORT(Project);
HWY_EXPORT(Histogram);
HWY_EXPORT(ClassHistograms);
HWY_EXPORT(AddExpectations);
HWY_EXPORT(Mixture);
HWY_EXPORT(Advance);

void AddPhases(const PhaseTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Phases)(task); }
void PhasesToFeatures(double* features) noexcept { HWY_DYNAMIC_DISPATCH(Features)(features); }
double AdvanceMatch(const double* features, double weight, double* sums) noexcept {
  return HWY_DYNAMIC_DISPATCH(Match)(features, weight, sums);
}
void AdvanceWitness(const WitnessTask& task) noexcept { HWY_DYNAMIC_DISPATCH(Witness)(task); }
void Smooth(const double* g, double eps, const double* edges, PredictionTerms& terms) noexcept {
  HWY_DYNAMIC_DISPATCH(SmoothRow)(g, eps, edges, terms);
}
WitnessTerms ReduceWitness(const PredictionTerms& terms, double* witness, double match) noexcept {
  return HWY_DYNAMIC_DISPATCH(Reduce)(terms, witness, match);
}
Projection ProjectResidual(const double* residual, const double* witness, double at_label,
                           std::size_t size) noexcept {
  return HWY_DYNAMIC_DISPATCH(Project)(residual, witness, at_label, size);
}
HistogramSums SumHistogram(const double* p, const double* observed, const double* expected,
                           std::size_t size, double weight) noexcept {
  return HWY_DYNAMIC_DISPATCH(Histogram)(p, observed, expected, size, weight);
}
OfPasts<HistogramSums> SumClassHistograms(const PredictionTerms& terms, const double* cells,
                                          const OfPasts<double>& weights) noexcept {
  return HWY_DYNAMIC_DISPATCH(ClassHistograms)(terms, cells, weights);
}
void AddClassExpectations(const PredictionTerms& terms, const double* g,
                          const OfPasts<double>& weights, double* cells) noexcept {
  HWY_DYNAMIC_DISPATCH(AddExpectations)(terms, g, weights, cells);
}
ProcessMixtures AdvanceProcesses(const ExpertBets& all, const ExpertBets& recent, double penalty,
                                 const ExpertProcesses& processes) noexcept {
  return HWY_DYNAMIC_DISPATCH(Advance)(all, recent, penalty, processes);
}
double LogMixture(const double* values) noexcept { return HWY_DYNAMIC_DISPATCH(Mixture)(values); }

}  // namespace calibd
#endif  // HWY_ONCE
