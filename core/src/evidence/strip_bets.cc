#include "evidence/strip_bets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/disabled_targets.h"
#include "calibd/core/fourier_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence/strip_bets.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

#ifndef CALIBD_CORE_SRC_STRIP_BETS_ONCE_
#define CALIBD_CORE_SRC_STRIP_BETS_ONCE_
namespace calibd {

// Below this value the witness is treated as constant.
inline constexpr double kFlatWitness = 1e-12;
// No e-value is smaller, so that the product of kStripRows of them is a normal number. This adds at
// most this much to the mean of an e-value.
inline constexpr double kLeastEValue = 1e-37;

// The lower edges of bins 1..23 of the log odds, as probabilities.
using BinEdges = std::array<double, kBinCount - 1>;
const BinEdges& Edges() noexcept;

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_STRIP_BETS_ONCE_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kStripRows>;
using V = hn::Vec<D>;
using F = hn::Rebind<float, D>;

// Tilts and powers are distributions q ~ f that a bet may choose freely, from any f > 0. So f is an
// approximation of e^{eta F} or p^beta to about 1e-6. The e-value q_y / p_y of a label divides the
// approximation of f_y by the double-precision sum of the same approximations over all classes, and
// therefore is an e-value up to the rounding of doubles. The two must be computed by the same
// function, so that they have the same bits.

// About e^x for x <= 0, and about 0 below -708. The relative error of the series is below 6e-9.
HWY_INLINE V Exp(V x) {
  const D d;
  return Exp2<7>(d, hn::Mul(x, hn::Set(d, 1.442695040888963407360)));
}

// About log x for an x in the range of float, to 2e-7 + 1e-7 |log x|. log 1 is 0.
HWY_INLINE V Log(V x) {
  const D d;
  const F f;
  const hn::RebindToSigned<F> di;
  // log(1 + x) / x for 1 + x in [sqrt(1/2), sqrt(2)], by Chebyshev interpolation.
  constexpr float kCoefficients[] = {0.99999994F, -0.50000364F, 0.33335114F, -0.24970068F,
                                     0.19898544F, -0.17247051F, 0.16234381F, -0.10134179F};
  constexpr std::int32_t kRootOfHalf = 0x3f3504f3;
  constexpr int kMantissaBits = 23;
  const auto bits = hn::BitCast(di, hn::DemoteTo(f, x));
  const auto exponent = hn::ShiftRight<kMantissaBits>(hn::Sub(bits, hn::Set(di, kRootOfHalf)));
  const auto mantissa = hn::BitCast(f, hn::Sub(bits, hn::ShiftLeft<kMantissaBits>(exponent)));
  const auto rest = hn::Sub(mantissa, hn::Set(f, 1.0F));
  auto series = hn::Set(f, kCoefficients[7]);
  for (int k = 6; k >= 0; --k) series = hn::MulAdd(series, rest, hn::Set(f, kCoefficients[k]));
  const auto log =
      hn::MulAdd(hn::ConvertTo(f, exponent), hn::Set(f, 0.693147181F), hn::Mul(series, rest));
  return hn::PromoteTo(d, log);
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
// least 1e-9 is distributed over fewer than 1e7 classes. Therefore x is above -.21, and the omitted
// terms are below 4e-9.
HWY_INLINE V SmallestRoot(V log_p) {
  const D d;
  constexpr double kEven[] = {1.0 / 2, 1.0 / 24, 1.0 / 720};
  constexpr double kOdd[] = {1.0 / 6, 1.0 / 120};
  const V one = hn::Set(d, 1);
  const V x = hn::Mul(log_p, hn::Set(d, 1.0 / kSmallestRoot));
  const V square = hn::Mul(x, x);
  // Two series, because each step of a series depends on the previous one.
  V even = hn::Set(d, kEven[2]);
  for (int k = 1; k >= 0; --k) even = hn::MulAdd(even, square, hn::Set(d, kEven[k]));
  V odd = hn::MulAdd(hn::Set(d, kOdd[1]), square, hn::Set(d, kOdd[0]));
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

// The number of edges that are less than or equal to each value.
HWY_INLINE V BinOf(V given, const double* HWY_RESTRICT edges, bool many_classes) {
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
    if (many_classes && hn::AllFalse(d, hn::Ge(given, hn::Set(d, edges[first])))) break;
    HWY_UNROLL(8)
    for (std::size_t b = first; b < first + kAtOnce; ++b) {
      if (b + 1 == kBinCount) break;
      V& value = count[b % kCounts];
      value = hn::Add(value, hn::IfThenElseZero(hn::Ge(given, hn::Set(d, edges[b])), one));
    }
  }
  return hn::Add(hn::Add(count[0], count[1]), hn::Add(count[2], count[3]));
}

// Smooths kLanes rows, and returns the factor 1 / (max(1, sum g) + m eps) of all e-values.
HWY_INLINE V SmoothRows(const StripTask& task, std::size_t lane) {
  const D d;
  const hn::Rebind<std::int32_t, D> d32;
  const hn::Rebind<std::uint8_t, D> d8;
  const std::size_t m = task.class_count;
  const double* HWY_RESTRICT given = task.given + lane;
  // Several sums, because each addition depends on the previous one.
  constexpr std::size_t kSums = 4;
  V sums[kSums];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t k = 0; k < m; ++k) {
    sums[k % kSums] = hn::Add(sums[k % kSums], hn::Load(d, given + k * kStripRows));
  }
  const V total = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  const V one = hn::Set(d, 1);
  const V tolerance = hn::Set(d, task.tolerance);
  const V eps = hn::Set(d, task.tolerance / static_cast<double>(m));
  const V scale = hn::Div(one, hn::Add(total, tolerance));
  const double* const edges = Edges().data();
  for (std::size_t k = 0; k < m; ++k) {
    const V value = hn::Load(d, given + k * kStripRows);
    hn::Store(hn::Mul(hn::Add(value, eps), scale), d, task.smoothed + k * kStripRows + lane);
    const auto bin = hn::DemoteTo(d32, BinOf(value, edges, m >= 64));
    hn::StoreU(hn::DemoteTo(d8, bin), d8, task.bins + k * kStripRows + lane);
  }
  return hn::Div(one, hn::Add(hn::Max(one, total), tolerance));
}

constexpr auto kPowerIndices = std::make_index_sequence<kPowers.size()>();
constexpr auto kRootIndices = std::make_index_sequence<kRoots.size()>();

// sum_k p_k^beta.
template <std::size_t... kIndices>
HWY_INLINE void SumPowers(const StripTask& task, std::size_t lane, V* sums,
                          std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  ((sums[kIndices] = hn::Zero(d)), ...);
  for (std::size_t k = 0; k < task.class_count; ++k) {
    const V p = hn::Load(d, task.smoothed + k * kStripRows + lane);
    V roots[kRoots.size()];
    Roots(Log(p), roots, kRootIndices);
    ((sums[kIndices] = hn::Add(sums[kIndices], Power<kIndices>(p, roots))), ...);
  }
}

template <std::size_t... kIndices>
HWY_INLINE void PowersOf(V p, V* powers, std::index_sequence<kIndices...> /*unused*/) {
  V roots[kRoots.size()];
  Roots(Log(p), roots, kRootIndices);
  ((powers[kIndices] = Power<kIndices>(p, roots)), ...);
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

// F of line k.
HWY_INLINE V LoadWitness(const float* HWY_RESTRICT witness, std::size_t k) {
  return hn::PromoteTo(D(), hn::Load(F(), witness + k * kWitnessRows));
}

// Reductions of F that the experts need.
struct WitnessTerms {
  V min;
  V max;
  // 1 / (10 + M).
  V scale;
  // L = <p, F> - min as sum_k p_k (F_k - min), which avoids cancellation if F is almost constant.
  V largest_loss;
  // sum_k p_k e^{eta (F_k - max) / (10 + M)}.
  V tilt_sums[kTiltRates.size()];
};

constexpr auto kTiltIndices = std::make_index_sequence<kTiltRates.size()>();

template <std::size_t... kIndices>
HWY_INLINE WitnessTerms ReduceWitness(const StripTask& task, const float* HWY_RESTRICT witness,
                                      std::size_t lane,
                                      std::index_sequence<kIndices...> /*unused*/) {
  const D d;
  const std::size_t m = task.class_count;
  WitnessTerms out;
  hn::Vec<F> min = hn::Load(F(), witness);
  hn::Vec<F> max = min;
  for (std::size_t k = 1; k < m; ++k) {
    const auto value = hn::Load(F(), witness + k * kWitnessRows);
    min = hn::Min(min, value);
    max = hn::Max(max, value);
  }
  out.min = hn::PromoteTo(d, min);
  out.max = hn::PromoteTo(d, max);
  const V match = hn::Max(hn::Zero(d), LoadWitness(witness, m));
  out.scale = hn::Div(hn::Set(d, 1), hn::Add(hn::Set(d, 10), match));
  V loss = hn::Zero(d);
  V sums[sizeof...(kIndices)];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t k = 0; k < m; ++k) {
    const V p = hn::Load(d, task.smoothed + k * kStripRows + lane);
    const V value = LoadWitness(witness, k);
    loss = hn::MulAdd(p, hn::Sub(value, out.min), loss);
    const V x = hn::Mul(hn::Sub(value, out.max), out.scale);
    V power = x;
    ((power = TiltPower<kIndices>(x, power), sums[kIndices] = hn::MulAdd(p, power, sums[kIndices])),
     ...);
  }
  out.largest_loss = loss;
  ((out.tilt_sums[kIndices] = sums[kIndices]), ...);
  return out;
}

// <F, d>, the square of |d| and the variance for kLanes rows. The variance is computed from F - max
// to avoid cancellation.
HWY_INLINE void Project(const StripTask& task, V max, V at_label, V given_at_label,
                        std::size_t lane, StripBets& out) {
  const D d;
  const float* HWY_RESTRICT witness = task.witness[kAll] + lane;
  V sum = hn::Zero(d);
  V square = hn::Zero(d);
  V mean = hn::Zero(d);
  V second = hn::Zero(d);
  for (std::size_t k = 0; k < task.class_count; ++k) {
    const V g = hn::Load(d, task.given + k * kStripRows + lane);
    const V value = hn::Sub(LoadWitness(witness, k), max);
    const V weighted = hn::Mul(g, value);
    sum = hn::Add(sum, g);
    square = hn::MulAdd(g, g, square);
    mean = hn::Add(mean, weighted);
    second = hn::MulAdd(weighted, value, second);
  }
  const V one = hn::Set(d, 1);
  // <g, F> = mean + max sum_k g_k, and F_k - <g, F> = (F_k - max) - centre.
  const V centre = hn::MulAdd(max, hn::Sub(sum, one), mean);
  hn::Store(hn::Sub(hn::Sub(at_label, max), centre), d, &out.product[lane]);
  const V twice = hn::Add(given_at_label, given_at_label);
  hn::Store(hn::Add(hn::Sub(square, twice), one), d, &out.square[lane]);
  const V cross = hn::NegMulAdd(centre, sum, hn::Add(mean, mean));
  hn::Store(hn::NegMulAdd(centre, cross, second), d, &out.variance[lane]);
}

// sum_k p_k r^theta for the histograms: by class and bin, and by bin.
void SumHistograms(const StripTask& task, std::size_t row, double* by_cell, double* by_bin) {
  const hn::CappedTag<double, kRatioValues> d;
  constexpr std::size_t kVectors =
      kRatioValues / hn::MaxLanes(hn::CappedTag<double, kRatioValues>());
  constexpr std::size_t kSums = 2;
  hn::Vec<decltype(d)> cells[kSums][kVectors];
  hn::Vec<decltype(d)> bins[kSums][kVectors];
  for (std::size_t v = 0; v < kSums * kVectors; ++v) {
    cells[v / kVectors][v % kVectors] = bins[v / kVectors][v % kVectors] = hn::Zero(d);
  }
  for (std::size_t k = 0; k < task.class_count; ++k) {
    const std::size_t bin = task.bins[k * kStripRows + row];
    const auto p = hn::Set(d, task.smoothed[k * kStripRows + row]);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = v * hn::Lanes(d);
      auto& cell = cells[k % kSums][v];
      cell = hn::MulAdd(p, hn::Load(d, task.counts->OfCell(bin, k) + at), cell);
      auto& of_bin = bins[k % kSums][v];
      of_bin = hn::MulAdd(p, hn::Load(d, task.counts->OfBin(bin) + at), of_bin);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(hn::Add(cells[0][v], cells[1][v]), d, by_cell + v * hn::Lanes(d));
    hn::StoreU(hn::Add(bins[0][v], bins[1][v]), d, by_bin + v * hn::Lanes(d));
  }
}

// What the experts need at the label, and the sums of the histograms, for each row: values of all
// rows are adjacent.
struct alignas(64) LabelTerms {
  using OfRows = std::array<double, kStripRows>;
  OfRows given;
  OfRows smoothed;
  OfPasts<OfRows> witness;
  OfPasts<OfRows> share;
  // By class and bin, by bin, and by class.
  struct Histogram {
    std::array<OfRows, kRatioValues> at_label;
    std::array<OfRows, kRatioValues> sums;
  };
  Histogram by_cell;
  Histogram by_bin;
  Histogram by_class;
};

void CollectLabelTerms(const StripTask& task, LabelTerms& out) {
  for (std::size_t row = task.first; row < task.last; ++row) {
    const auto label = static_cast<std::size_t>(task.labels[row]);
    const std::size_t at = label * kStripRows + row;
    const std::size_t bin = task.bins[at];
    out.given[row] = task.given[at];
    out.smoothed[row] = task.smoothed[at];
    for (std::size_t past = 0; past < kPasts; ++past) {
      const float witness = task.witness[past][label * kWitnessRows + row];
      out.witness[past][row] = static_cast<double>(witness);
      out.share[past][row] = task.counts->ShareOf(label)[past];
    }
    HWY_ALIGN double by_cell[kRatioValues];
    HWY_ALIGN double by_bin[kRatioValues];
    SumHistograms(task, row, by_cell, by_bin);
    for (std::size_t i = 0; i < kRatioValues; ++i) {
      out.by_cell.sums[i][row] = by_cell[i];
      out.by_bin.sums[i][row] = by_bin[i];
      out.by_cell.at_label[i][row] = task.counts->OfCell(bin, label)[i];
      out.by_bin.at_label[i][row] = task.counts->OfBin(bin)[i];
      out.by_class.at_label[i][row] = task.counts->OfClass(label)[i];
    }
  }
}

// sum_k p_k r^theta for the ratios of the classes.
HWY_INLINE void SumClassRatios(const StripTask& task, std::size_t lane,
                               LabelTerms::Histogram& out) {
  const D d;
  V sums[kRatioValues];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t k = 0; k < task.class_count; ++k) {
    const V p = hn::Load(d, task.smoothed + k * kStripRows + lane);
    const double* const ratios = task.counts->OfClass(k);
    for (std::size_t i = 0; i < kRatioValues; ++i) {
      sums[i] = hn::MulAdd(p, hn::Set(d, ratios[i]), sums[i]);
    }
  }
  for (std::size_t i = 0; i < kRatioValues; ++i) hn::Store(sums[i], d, &out.sums[i][lane]);
}

// Writes the e-values of the experts one after the other, in the order of kExperts.
class EValues {
 public:
  EValues(V factor, std::size_t past, std::size_t lane, StripBets& out)
      : factor_(factor), past_(past), lane_(lane), out_(out) {}

  HWY_INLINE void Add(V e_value) {
    const D d;
    HWY_ALIGN double values[kStripRows];
    hn::Store(hn::Max(hn::Mul(e_value, factor_), hn::Set(d, kLeastEValue)), d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
      out_.e_values[lane_ + i][past_][count_] = values[i];
    }
    ++count_;
  }
  // The means, which do not bet from the recent past, and the padding.
  void Finish() {
    for (; count_ < kPaddedExperts; ++count_) {
      for (std::size_t i = 0; i < hn::Lanes(D()); ++i) {
        out_.e_values[lane_ + i][past_][count_] = past_ == kRecent && count_ < kExpertCount ? 0 : 1;
      }
    }
  }

 private:
  V factor_;
  std::size_t past_;
  std::size_t lane_;
  StripBets& out_;
  std::size_t count_ = 0;
};

template <std::size_t... kIndices>
HWY_INLINE void AddTilts(const WitnessTerms& terms, V at_label, EValues& out,
                         std::index_sequence<kIndices...> /*unused*/) {
  const V x = hn::Mul(hn::Sub(at_label, terms.max), terms.scale);
  V power = x;
  ((power = TiltPower<kIndices>(x, power), out.Add(hn::Div(power, terms.tilt_sums[kIndices]))),
   ...);
}

HWY_INLINE void AddHistogram(const LabelTerms::Histogram& histogram, std::size_t past,
                             std::size_t lane, EValues& out) {
  const D d;
  static_assert(kHistogramPowers == std::array{.5, 1.});
  for (const std::size_t i : {kRoot + past, kRatio + past}) {
    out.Add(
        hn::Div(hn::Load(d, &histogram.at_label[i][lane]), hn::Load(d, &histogram.sums[i][lane])));
  }
}

// parametric: the e-values of powers and uniform shares, which do not depend on the past.
HWY_INLINE void AddExperts(const WitnessTerms& terms, const LabelTerms& label, const V* parametric,
                           std::size_t past, std::size_t lane, EValues& out) {
  const D d;
  const V one = hn::Set(d, 1);
  const V at_label = hn::Load(d, &label.witness[past][lane]);
  // 1 + c v / L with v = (F - min) - L.
  const V win = hn::Sub(hn::Div(hn::Sub(at_label, terms.min), terms.largest_loss), one);
  const auto is_flat = hn::Le(terms.largest_loss, hn::Set(d, kFlatWitness));
  for (const double c : kWitnessBets) {
    out.Add(hn::IfThenElse(is_flat, one, hn::MulAdd(hn::Set(d, c), win, one)));
  }
  AddTilts(terms, at_label, out, kTiltIndices);
  AddHistogram(label.by_bin, past, lane, out);
  AddHistogram(label.by_cell, past, lane, out);
  for (std::size_t i = 0; i < kPowers.size() + kUniformShares.size(); ++i) out.Add(parametric[i]);
  const V share =
      hn::Div(hn::Load(d, &label.share[past][lane]), hn::Load(d, &label.smoothed[lane]));
  for (const double pi : kLabelShares) {
    out.Add(hn::MulAdd(hn::Set(d, pi), share, hn::Set(d, 1 - pi)));
  }
  AddHistogram(label.by_class, past, lane, out);
  out.Finish();
}

void Bets(const StripTask& task, StripBets& out) {
  const D d;
  LabelTerms label{};
  V factors[kStripRows / hn::MaxLanes(D())];
  const auto is_needed = [&](std::size_t lane) {
    return lane < task.last && lane + hn::Lanes(d) > task.first;
  };
  for (std::size_t lane = 0; lane < kStripRows; lane += hn::Lanes(d)) {
    if (!is_needed(lane)) continue;
    factors[lane / hn::Lanes(d)] = SmoothRows(task, lane);
    SumClassRatios(task, lane, label.by_class);
  }
  CollectLabelTerms(task, label);
  for (std::size_t lane = 0; lane < kStripRows; lane += hn::Lanes(d)) {
    if (!is_needed(lane)) continue;
    const V p = hn::Load(d, &label.smoothed[lane]);
    V sums[kPowers.size()];
    V parametric[kPowers.size() + kUniformShares.size()];
    SumPowers(task, lane, sums, kPowerIndices);
    PowersOf(p, parametric, kPowerIndices);
    for (std::size_t i = 0; i < kPowers.size(); ++i) {
      parametric[i] = hn::Div(parametric[i], hn::Mul(p, sums[i]));
    }
    const V uniform = hn::Div(hn::Set(d, 1 / static_cast<double>(task.class_count)), p);
    for (std::size_t i = 0; i < kUniformShares.size(); ++i) {
      parametric[kPowers.size() + i] =
          hn::MulAdd(hn::Set(d, kUniformShares[i]), uniform, hn::Set(d, 1 - kUniformShares[i]));
    }
    for (std::size_t past = 0; past < kPasts; ++past) {
      const WitnessTerms terms = ReduceWitness(task, task.witness[past] + lane, lane, kTiltIndices);
      EValues e_values(factors[lane / hn::Lanes(d)], past, lane, out);
      AddExperts(terms, label, parametric, past, lane, e_values);
      if (past == kAll) {
        Project(task, terms.max, hn::Load(d, &label.witness[kAll][lane]),
                hn::Load(d, &label.given[lane]), lane, out);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {
namespace {

HWY_EXPORT(Bets);

BinEdges MakeEdges() noexcept {
  BinEdges edges;
  for (std::size_t b = 0; b < edges.size(); ++b) {
    edges[b] = 1 / (1 + std::exp(kBinCount / 2.0 - static_cast<double>(b + 1)));
  }
  return edges;
}

}  // namespace

const BinEdges& Edges() noexcept {
  static const BinEdges edges = MakeEdges();
  return edges;
}

void ComputeBets(const StripTask& task, StripBets& out) noexcept {
  HWY_DYNAMIC_DISPATCH(Bets)(task, out);
}

}  // namespace calibd
#endif  // HWY_ONCE
