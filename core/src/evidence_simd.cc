#include "evidence_simd.h"

#include <cmath>
#include <limits>
#include <utility>

#include "calibd/core/random_features.h"
#include "disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, for each target.
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

HWY_INLINE double Sum(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

void Phases(const double* HWY_RESTRICT g, std::size_t count, const double* HWY_RESTRICT frequencies,
            double* HWY_RESTRICT phases) {
  const D d;
  constexpr std::size_t kAtOnce = 4;
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

double Product(const double* HWY_RESTRICT x, const double* HWY_RESTRICT z) {
  const D d;
  V sum0 = hn::Zero(d);
  V sum1 = hn::Zero(d);
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t j = 0; j < kFeatureCount; j += 2 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, x + j), hn::LoadU(d, z + j), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, x + j + lanes), hn::LoadU(d, z + j + lanes), sum1);
  }
  return Sum(hn::Add(sum0, sum1));
}

void Witness(const WitnessTask& task) {
  const D d;
  for (std::size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    double* const sums = task.sums + lane;
    for (std::size_t row = 0; row < task.rows; ++row) {
      const double* HWY_RESTRICT features = task.features + row * kFeatureCount;
      const V residual = hn::Mul(hn::LoadU(d, task.residuals + row * task.stride + lane),
                                 hn::Set(d, task.after[row]));
      // Four sums, as each addition waits for the one before it.
      V out[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (std::size_t j = 0; j < kFeatureCount; j += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
          double* const at = sums + (j + i) * kGroup;
          const V feature = hn::Set(d, features[j + i]);
          const V sum = hn::Load(d, at);
          out[i] = hn::MulAdd(feature, sum, out[i]);
          hn::Store(hn::MulAdd(feature, residual, sum), d, at);
        }
      }
      const V total = hn::Add(hn::Add(out[0], out[1]), hn::Add(out[2], out[3]));
      hn::StoreU(hn::Mul(total, hn::Set(d, 1 / task.before[row])), d,
                 task.out + row * task.stride + lane);
    }
  }
}

// p^beta, where log_p is the logarithm of p.
template <std::size_t kIndex>
HWY_INLINE V Power(V p, V log_p) {
  const D d;
  constexpr double kBeta = kPowers[kIndex];
  if constexpr (kBeta == .5) {
    return hn::Sqrt(p);
  } else if constexpr (kBeta == 1.5) {
    return hn::Mul(p, hn::Sqrt(p));
  } else if constexpr (kBeta == 2) {
    return hn::Mul(p, p);
  } else if constexpr (kBeta == 3) {
    return hn::Mul(p, hn::Mul(p, p));
  } else {
    return hn::Exp(d, hn::Mul(hn::Set(d, kBeta), log_p));
  }
}

template <std::size_t... kIndices>
HWY_INLINE void SumPowers(const PredictionTerms& terms, double* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  V sum[sizeof...(kIndices)];
  for (V& value : sum) value = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const V p = hn::LoadU(d, terms.p + k);
    const V log_p = hn::LoadU(d, terms.log_p + k);
    ((sum[kIndices] = hn::Add(sum[kIndices], Power<kIndices>(p, log_p))), ...);
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
  alignas(64) double bins[kGroup];
  for (std::size_t k = 0; k < terms.size; k += lanes) {
    const V given = hn::LoadU(d, terms.p + k);
    const V p = hn::Mul(hn::Add(given, shift), scale);
    V bin = hn::Zero(d);
    for (std::size_t b = 0; b + 1 < kBinCount; ++b) {
      bin = hn::Add(bin, hn::IfThenElseZero(hn::Ge(given, hn::Set(d, edges[b])), one));
    }
    hn::StoreU(p, d, terms.p + k);
    hn::StoreU(hn::Log(d, p), d, terms.log_p + k);
    hn::Store(bin, d, bins);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      terms.bins[k + lane] = static_cast<std::uint8_t>(bins[lane]);
      terms.cells[k + lane] =
          static_cast<std::int64_t>(bins[lane]) * static_cast<std::int64_t>(terms.size) +
          static_cast<std::int64_t>(k + lane);
    }
  }
  for (std::size_t k = m; k < terms.size; ++k) {
    terms.p[k] = 0;
    terms.log_p[k] = kLogNothing;
  }
  // Classes in turn add to four tables: most are in the same bin, and an addition would
  // wait for the one before it.
  double given[4][kBinCount] = {};
  double smoothed[4][kBinCount] = {};
  for (std::size_t k = 0; k < m; ++k) {
    given[k % 4][terms.bins[k]] += g[k];
    smoothed[k % 4][terms.bins[k]] += terms.p[k];
  }
  for (std::size_t b = 0; b < kBinCount; ++b) {
    terms.given_in_bin[b] = (given[0][b] + given[1][b]) + (given[2][b] + given[3][b]);
    terms.p_in_bin[b] = (smoothed[0][b] + smoothed[1][b]) + (smoothed[2][b] + smoothed[3][b]);
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
    return hn::Exp(d, hn::Mul(hn::Set(d, kRate), x));
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

template <std::size_t kIndex>
HWY_INLINE V RatioPower(V ratio) {
  const D d;
  constexpr double kTheta = kHistogramPowers[kIndex];
  if constexpr (kTheta == 1) {
    return ratio;
  } else if constexpr (kTheta == .5) {
    return hn::Sqrt(ratio);
  } else {
    return hn::Exp(d, hn::Mul(hn::Set(d, kTheta), hn::Log(d, ratio)));
  }
}

template <std::size_t... kIndices>
HWY_INLINE void AddRatios(V p, V observed, V expected, V prior, V* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  const V ratio = hn::Div(hn::Add(observed, prior), hn::Add(expected, prior));
  ((sums[kIndices] = hn::MulAdd(p, RatioPower<kIndices>(ratio), sums[kIndices])), ...);
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

HistogramSums ClassHistogram(const PredictionTerms& terms, const double* HWY_RESTRICT observed,
                             const double* HWY_RESTRICT expected, double weight) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V prior = hn::Set(d, 3 * weight);
  V sums[kHistogramPowers.size()];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t k = 0; k < terms.size; k += hn::Lanes(d)) {
    const auto cells = hn::LoadU(di, terms.cells + k);
    AddRatios(hn::LoadU(d, terms.p + k), hn::GatherIndex(d, observed, cells),
              hn::GatherIndex(d, expected, cells), prior, sums, kHistogramIndices);
  }
  HistogramSums out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Sum(sums[i]);
  return out;
}

void Finish(const double* HWY_RESTRICT linear, const double* HWY_RESTRICT ratio, double penalty,
            double* HWY_RESTRICT out) {
  const D d;
  for (std::size_t j = 0; j < kPaddedExperts; j += hn::Lanes(d)) {
    const V log_ratio = hn::Log(d, hn::LoadU(d, ratio + j));
    hn::StoreU(hn::Sub(hn::Add(hn::LoadU(d, linear + j), log_ratio), hn::Set(d, penalty)), d,
               out + j);
  }
  for (std::size_t j = kExpertCount; j < kPaddedExperts; ++j) out[j] = 0;
}

void Detect(const double* HWY_RESTRICT log_e, double* HWY_RESTRICT log_r1,
            double* HWY_RESTRICT log_c1) {
  const D d;
  const V zero = hn::Zero(d);
  for (std::size_t j = 0; j < kPaddedExperts; j += hn::Lanes(d)) {
    const V e = hn::LoadU(d, log_e + j);
    const V r = hn::Add(hn::LoadU(d, log_r1 + j), e);
    // log(1 + e^r) without overflow.
    const V softplus = hn::Add(hn::Max(r, zero), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(r)))));
    hn::StoreU(softplus, d, log_r1 + j);
    hn::StoreU(hn::Max(zero, hn::Add(hn::LoadU(d, log_c1 + j), e)), d, log_c1 + j);
  }
}

double Mixture(const double* HWY_RESTRICT values) {
  const D d;
  const double* const priors = LogPriors().values;
  V max = hn::Set(d, values[0] + priors[0]);
  for (std::size_t j = 0; j < kPaddedExperts; j += hn::Lanes(d)) {
    max = hn::Max(max, hn::Add(hn::LoadU(d, values + j), hn::Load(d, priors + j)));
  }
  max = hn::MaxOfLanes(d, max);
  V sum = hn::Zero(d);
  for (std::size_t j = 0; j < kPaddedExperts; j += hn::Lanes(d)) {
    const V log_share = hn::Add(hn::LoadU(d, values + j), hn::Load(d, priors + j));
    sum = hn::Add(sum, hn::Exp(d, hn::Sub(log_share, max)));
  }
  return hn::GetLane(hn::Add(max, hn::Log(d, hn::SumOfLanes(d, sum))));
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
        j < kExpertCount ? std::log(PriorOf(j)) : std::numeric_limits<double>::lowest() / 4;
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
HWY_EXPORT(Product);
HWY_EXPORT(Witness);
HWY_EXPORT(SmoothRow);
HWY_EXPORT(Reduce);
HWY_EXPORT(Project);
HWY_EXPORT(Histogram);
HWY_EXPORT(ClassHistogram);
HWY_EXPORT(Finish);
HWY_EXPORT(Detect);
HWY_EXPORT(Mixture);

void AddPhases(std::span<const double> g, const double* frequencies, double* phases) noexcept {
  HWY_DYNAMIC_DISPATCH(Phases)(g.data(), g.size(), frequencies, phases);
}
void PhasesToFeatures(double* features) noexcept { HWY_DYNAMIC_DISPATCH(Features)(features); }
double FeatureProduct(const double* x, const double* z) noexcept {
  return HWY_DYNAMIC_DISPATCH(Product)(x, z);
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
HistogramSums SumClassHistogram(const PredictionTerms& terms, const double* observed,
                                const double* expected, double weight) noexcept {
  return HWY_DYNAMIC_DISPATCH(ClassHistogram)(terms, observed, expected, weight);
}
void FinishLogs(const double* linear, const double* ratio, double penalty, double* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Finish)(linear, ratio, penalty, out);
}
void AdvanceDetectors(const double* log_e, double* log_r1, double* log_c1) noexcept {
  HWY_DYNAMIC_DISPATCH(Detect)(log_e, log_r1, log_c1);
}
double LogMixture(const double* values) noexcept { return HWY_DYNAMIC_DISPATCH(Mixture)(values); }

}  // namespace calibd
#endif  // HWY_ONCE
