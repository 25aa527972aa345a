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
// After highway.h, for each target.
#include "exp2-inl.h"
#include "hwy/contrib/math/math-inl.h"

#ifndef CALIBD_CORE_SRC_EVIDENCE_SIMD_ONCE_
#define CALIBD_CORE_SRC_EVIDENCE_SIMD_ONCE_
namespace calibd {

// The log of a padded class: e^{beta log} is 0 for all beta in use.
inline constexpr double kLogNothing = -1e4;

// Log prior of each expert; padded ones weigh nothing whatever the others' values.
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

void Phases(const double* HWY_RESTRICT g, std::size_t count, const double* HWY_RESTRICT frequencies,
            double* HWY_RESTRICT phases) {
  const D d;
  constexpr std::size_t kAtOnce = 8;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < kFrequencyCount; r += kAtOnce * lanes) {
    V sum[kAtOnce];
    for (std::size_t v = 0; v < kAtOnce; ++v) sum[v] = hn::LoadU(d, phases + r + v * lanes);
    for (std::size_t k = 0; k < count; ++k) {
      const V value = hn::Set(d, g[k]);
      const double* const row = frequencies + k * kFrequencyCount + r;
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        sum[v] = hn::MulAdd(value, hn::LoadU(d, row + v * lanes), sum[v]);
      }
    }
    for (std::size_t v = 0; v < kAtOnce; ++v) hn::StoreU(sum[v], d, phases + r + v * lanes);
  }
}

void Features(double* HWY_RESTRICT features) {
  const D d;
  // 1 / sqrt(64).
  static_assert(kFrequencyCount == 64);
  const V scale = hn::Set(d, 0.125);
  const V two_pi = hn::Set(d, 6.283185307179586476925);
  for (std::size_t r = 0; r < kFrequencyCount; r += hn::Lanes(d)) {
    const V turns = hn::LoadU(d, features + r);
    // Whole turns go first: the polynomials reduce small angles only.
    const V angle = hn::Mul(two_pi, hn::Sub(turns, hn::Round(turns)));
    hn::StoreU(hn::Mul(scale, hn::Cos(d, angle)), d, features + r);
    hn::StoreU(hn::Mul(scale, hn::Sin(d, angle)), d, features + kFrequencyCount + r);
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

// kRows rows pass the sums of one vector of classes at once: the sums are read and written
// once for all of them. The bits are those of one row after the other.
template <std::size_t kRows>
HWY_INLINE void WitnessRows(const WitnessTask& task, std::size_t lane, std::size_t first) {
  const D d;
  double* HWY_RESTRICT sums = task.sums + lane;
  const double* HWY_RESTRICT features = task.features + first * kFeatureCount;
  // Four sums a row, as each addition waits for the one before it.
  V out[kRows][4];
  V residual[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (V& sum : out[r]) sum = hn::Zero(d);
    residual[r] = hn::Mul(hn::LoadU(d, task.residuals + (first + r) * task.stride + lane),
                          hn::Set(d, task.after[first + r]));
  }
  for (std::size_t j = 0; j < kFeatureCount; j += 4) {
    for (std::size_t i = 0; i < 4; ++i) {
      V sum = hn::Load(d, sums + (j + i) * kGroup);
      for (std::size_t r = 0; r < kRows; ++r) {
        const V feature = hn::Set(d, features[r * kFeatureCount + j + i]);
        out[r][i] = hn::MulAdd(feature, sum, out[r][i]);
        sum = hn::MulAdd(feature, residual[r], sum);
      }
      hn::Store(sum, d, sums + (j + i) * kGroup);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    const V total = hn::Add(hn::Add(out[r][0], out[r][1]), hn::Add(out[r][2], out[r][3]));
    hn::StoreU(hn::Mul(total, hn::Set(d, task.inverse_before[first + r])), d,
               task.out + (first + r) * task.stride + lane);
  }
}

void Witness(const WitnessTask& task) {
  constexpr std::size_t kRows = 2;
  // The next classes' sums come into the cache meanwhile.
  constexpr std::size_t kLine = 64 / sizeof(double);
  constexpr std::size_t kSums = kFeatureCount * kGroup;
  std::size_t prefetched = task.has_next ? 0 : kSums;
  const std::size_t step = kSums / ((task.rows + kRows - 1) / kRows);
  for (std::size_t row = 0; row < task.rows; row += kRows) {
    for (const std::size_t end = std::min(kSums, prefetched + step); prefetched < end;
         prefetched += kLine) {
      hwy::Prefetch(task.sums + kSums + prefetched);
    }
    for (std::size_t lane = 0; lane < kGroup; lane += hn::Lanes(D())) {
      if (row + kRows <= task.rows) {
        WitnessRows<kRows>(task, lane, row);
      } else {
        WitnessRows<1>(task, lane, row);
      }
    }
  }
}

// Index of a power in kPowers, or kPowers.size().
constexpr std::size_t PowerIndex(double beta) {
  std::size_t index = 0;
  while (index < kPowers.size() && kPowers[index] != beta) ++index;
  return index;
}

// p^beta, where log_p is the logarithm of p and `powers` those of the betas before this one,
// of which it is made where that is less work.
template <std::size_t kIndex>
HWY_INLINE V Power(V p, V log_p, const V* powers) {
  const D d;
  constexpr double kBeta = kPowers[kIndex];
  constexpr std::size_t kHalf = PowerIndex(kBeta / 2);
  constexpr std::size_t kOneLess = PowerIndex(kBeta - 1);
  if constexpr (kBeta == 2) {
    return hn::Mul(p, p);
  } else if constexpr (kOneLess < kIndex) {
    return hn::Mul(p, powers[kOneLess]);
  } else if constexpr (kHalf < kIndex) {
    return hn::Mul(powers[kHalf], powers[kHalf]);
  } else {
    return Exp(hn::Mul(hn::Set(d, kBeta), log_p));
  }
}

template <std::size_t... kIndices>
HWY_INLINE void SumPowers(const PredictionTerms& terms, double* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  V sum[sizeof...(kIndices)];
  V power[sizeof...(kIndices)];
  for (V& value : sum) value = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const V p = hn::LoadU(d, terms.p + k);
    const V log_p = hn::LoadU(d, terms.log_p + k);
    ((power[kIndices] = Power<kIndices>(p, log_p, power),
      sum[kIndices] = hn::Add(sum[kIndices], power[kIndices])),
     ...);
  }
  ((sums[kIndices] = Sum(sum[kIndices])), ...);
}

void SmoothRow(const double* HWY_RESTRICT g, double eps, const double* HWY_RESTRICT edges,
               PredictionTerms& terms) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t m = terms.class_count;
  for (std::size_t k = 0; k < m; ++k) terms.p[k] = g[k];
  for (std::size_t k = m; k < terms.size; ++k) terms.p[k] = 0;
  V total = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += lanes) {
    total = hn::Add(total, hn::LoadU(d, terms.p + k));
  }
  terms.total = Sum(total);
  const V one = hn::Set(d, 1);
  const V shift = hn::Set(d, eps);
  const V scale = hn::Set(d, 1 / (terms.total + static_cast<double>(m) * eps));
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::int32_t, D> d32;
  for (std::size_t k = 0; k < terms.size; k += lanes) {
    const V given = hn::LoadU(d, terms.p + k);
    const V p = hn::Mul(hn::Add(given, shift), scale);
    V bin = hn::Zero(d);
    HWY_UNROLL(23)
    for (std::size_t b = 0; b + 1 < kBinCount; ++b) {
      bin = hn::Add(bin, hn::IfThenElseZero(hn::Ge(given, hn::Set(d, edges[b])), one));
    }
    hn::StoreU(p, d, terms.p + k);
    hn::StoreU(hn::Log(d, p), d, terms.log_p + k);
    const V cell = hn::MulAdd(bin, hn::Set(d, static_cast<double>(terms.size)),
                              hn::Iota(d, static_cast<double>(k)));
    const V index = hn::Add(cell, cell);
    hn::StoreU(hn::ConvertTo(di, index), di, terms.cells + k);
    hn::StoreU(hn::DemoteTo(d32, bin), d32, terms.bins + k);
  }
  for (std::size_t k = m; k < terms.size; ++k) {
    terms.p[k] = 0;
    terms.log_p[k] = kLogNothing;
  }
  // Many classes add to four tables in turn: most are in the same bin, and an addition would
  // wait for the one before it.
  double given[4][kBinCount] = {};
  double smoothed[4][kBinCount] = {};
  const std::size_t mask = m < 64 ? 0 : 3;
  for (std::size_t k = 0; k < m; ++k) {
    const auto bin = static_cast<std::size_t>(terms.bins[k]);
    given[k & mask][bin] += g[k];
    smoothed[k & mask][bin] += terms.p[k];
  }
  for (std::size_t b = 0; b < kBinCount; ++b) {
    terms.given_in_bin[b] = given[0][b];
    terms.p_in_bin[b] = smoothed[0][b];
    for (std::size_t table = 1; table <= mask; ++table) {
      terms.given_in_bin[b] += given[table][b];
      terms.p_in_bin[b] += smoothed[table][b];
    }
  }
  SumPowers(terms, terms.power_sums.data(), std::make_index_sequence<kPowers.size()>());
}

// e^{eta x}; `before` is that of the rate before this one.
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
  V min = hn::Set(d, witness[0]);
  V max = min;
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const V value = hn::LoadU(d, witness + k);
    min = hn::Min(min, value);
    max = hn::Max(max, value);
  }
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
  for (std::size_t k = 0; k < size; k += hn::Lanes(d)) {
    product = hn::MulAdd(hn::LoadU(d, residual + k), hn::LoadU(d, witness + k), product);
  }
  Projection out;
  out.product = Sum(product);
  const V mean = hn::Set(d, at_label - out.product);
  V variance = hn::Zero(d);
  for (std::size_t k = 0; k < size; k += hn::Lanes(d)) {
    const V centred = hn::Sub(hn::LoadU(d, witness + k), mean);
    variance = hn::NegMulAdd(hn::LoadU(d, residual + k), hn::Mul(centred, centred), variance);
  }
  out.variance = Sum(variance) + out.product * out.product;
  return out;
}

// 1 / sqrt(x) for x that a float can hold: square roots and quotients of doubles would take
// longer than all else about a histogram.
HWY_INLINE V ReciprocalSqrt(V x) {
  const D d;
  const hn::Rebind<float, D> df;
  const V half = hn::Mul(x, hn::Set(d, 0.5));
  V y = hn::PromoteTo(d, hn::ApproximateReciprocalSqrt(hn::DemoteTo(df, x)));
  // Newton's steps double the digits, of which there are 11 bits or more.
  for (int step = 0; step < 3; ++step) {
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
                        const double* HWY_RESTRICT expected, double weight) {
  const D d;
  const V prior = hn::Set(d, 3 * weight);
  V sums[kHistogramPowers.size()];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t b = 0; b < kBinCount; b += hn::Lanes(d)) {
    AddRatios(hn::LoadU(d, p + b), hn::LoadU(d, observed + b), hn::LoadU(d, expected + b), prior,
              sums, kHistogramIndices);
  }
  HistogramSums out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Sum(sums[i]);
  return out;
}

HistogramSums ClassHistogram(const PredictionTerms& terms, const double* HWY_RESTRICT counts,
                             double weight) {
  const D d;
  const V prior = hn::Set(d, 3 * weight);
  V sums[kHistogramPowers.size()];
  for (V& sum : sums) sum = hn::Zero(d);
  // One by one into a short row: where gathers are slowed down against attacks they take
  // several times as long.
  constexpr std::size_t kAtOnce = 64;
  HWY_ALIGN double observed[kAtOnce];
  HWY_ALIGN double expected[kAtOnce];
  for (std::size_t first = 0; first < terms.size; first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, terms.size - first);
    for (std::size_t k = 0; k < count; ++k) {
      const double* const cell = counts + terms.cells[first + k];
      observed[k] = cell[0];
      expected[k] = cell[1];
    }
    for (std::size_t k = 0; k < count; k += hn::Lanes(d)) {
      AddRatios(hn::LoadU(d, terms.p + first + k), hn::Load(d, observed + k),
                hn::Load(d, expected + k), prior, sums, kHistogramIndices);
    }
  }
  HistogramSums out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Sum(sums[i]);
  return out;
}

constexpr std::size_t kExpertVectors = kPaddedExperts / hn::MaxLanes(D());

// A value of each expert. What is done to them goes step by step, each for all of them: the
// steps of one take long, those of several run side by side.
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

// The logarithms of the e-values.
HWY_INLINE ExpertVectors LogEValues(const ExpertBets& bets, double penalty) {
  const D d;
  const ExpertVectors linear = LoadExperts(bets.linear.data());
  ExpertVectors log_e = LoadExperts(bets.numerator.data());
  const ExpertVectors denominator = LoadExperts(bets.denominator.data());
  for (std::size_t v = 0; v < kExpertVectors; ++v) log_e[v] = hn::Div(log_e[v], denominator[v]);
  for (V& value : log_e) value = hn::Log(d, value);
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    log_e[v] = hn::Sub(hn::Add(linear[v], log_e[v]), hn::Set(d, penalty));
  }
  return log_e;
}

// log sum_j prior_j e^{values_j}.
HWY_INLINE double LogMixture(const ExpertVectors& values) {
  const D d;
  ExpertVectors shares = LoadExperts(LogPriors().values);
  V max = hn::Set(d, std::numeric_limits<double>::lowest());
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    shares[v] = hn::Add(values[v], shares[v]);
    max = hn::Max(max, shares[v]);
  }
  max = hn::MaxOfLanes(d, max);
  V sum = hn::Zero(d);
  for (V& share : shares) share = Exp(hn::Sub(share, max));
  for (const V& share : shares) sum = hn::Add(sum, share);
  return hn::GetLane(hn::Add(max, hn::Log(d, hn::SumOfLanes(d, sum))));
}

double Mixture(const double* HWY_RESTRICT values) { return LogMixture(LoadExperts(values)); }

double Process(const ExpertBets& bets, double penalty, double* HWY_RESTRICT log_e) {
  ExpertVectors values = LoadExperts(log_e);
  const ExpertVectors factors = LogEValues(bets, penalty);
  for (std::size_t v = 0; v < kExpertVectors; ++v) values[v] = hn::Add(values[v], factors[v]);
  StoreExperts(values, log_e);
  return LogMixture(values);
}

DetectorMixtures Detect(const ExpertBets& bets, double penalty, double* HWY_RESTRICT log_r1,
                        double* HWY_RESTRICT log_c1) {
  const D d;
  const V zero = hn::Zero(d);
  const ExpertVectors e = LogEValues(bets, penalty);
  ExpertVectors r1 = LoadExperts(log_r1);
  ExpertVectors c1 = LoadExperts(log_c1);
  ExpertVectors odds;
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    r1[v] = hn::Add(r1[v], e[v]);
    c1[v] = hn::Max(zero, hn::Add(c1[v], e[v]));
  }
  // log(1 + e^r) = max(r, 0) + log(1 + e^-|r|), without overflow.
  for (std::size_t v = 0; v < kExpertVectors; ++v) odds[v] = Exp(hn::Neg(hn::Abs(r1[v])));
  for (V& value : odds) value = hn::Log(d, hn::Add(hn::Set(d, 1), value));
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    r1[v] = hn::Add(hn::Max(r1[v], zero), odds[v]);
  }
  StoreExperts(r1, log_r1);
  StoreExperts(c1, log_c1);
  return {LogMixture(r1), LogMixture(c1)};
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
HWY_EXPORT(ClassHistogram);
HWY_EXPORT(Mixture);
HWY_EXPORT(Process);
HWY_EXPORT(Detect);

void AddPhases(std::span<const double> g, const double* frequencies, double* phases) noexcept {
  HWY_DYNAMIC_DISPATCH(Phases)(g.data(), g.size(), frequencies, phases);
}
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
                           double weight) noexcept {
  return HWY_DYNAMIC_DISPATCH(Histogram)(p, observed, expected, weight);
}
HistogramSums SumClassHistogram(const PredictionTerms& terms, const double* counts,
                                double weight) noexcept {
  return HWY_DYNAMIC_DISPATCH(ClassHistogram)(terms, counts, weight);
}
double AdvanceProcess(const ExpertBets& bets, double penalty, double* log_e) noexcept {
  return HWY_DYNAMIC_DISPATCH(Process)(bets, penalty, log_e);
}
DetectorMixtures AdvanceDetectors(const ExpertBets& bets, double penalty, double* log_r1,
                                  double* log_c1) noexcept {
  return HWY_DYNAMIC_DISPATCH(Detect)(bets, penalty, log_r1, log_c1);
}
double LogMixture(const double* values) noexcept { return HWY_DYNAMIC_DISPATCH(Mixture)(values); }

}  // namespace calibd
#endif  // HWY_ONCE
