#include "loss/energy_pairs.h"

#include <algorithm>
#include <iterator>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loss/energy_pairs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/exp2-inl.h"

#ifndef CALIBD_CORE_SRC_ENERGY_PAIRS_ROW_
#define CALIBD_CORE_SRC_ENERGY_PAIRS_ROW_
namespace calibd {

// The arguments of one row of pairs; pointers are to the first column.
struct EnergyPairRow {
  double condition_gamma;
  double mean;
  double deviation;
  double outcome;
  const double* means;
  const double* deviations;
  const double* outcomes;
};

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_ENERGY_PAIRS_ROW_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;

HWY_INLINE V AbsoluteDifference(V a, V b) { return hn::Abs(hn::Sub(a, b)); }

// Beyond it, r is below 3e-20.
constexpr double kMostArgument = 9;
// r(a) = exp(-a^2 / 2) sum_k c_k t^k with t = (a - 4) / (a + 4): the polynomial whose largest error
// of r on [0, 9] is smallest, 3.2e-17.
constexpr double kTailCoefficients[] = {
    4.25994303871933475e-02,  -1.47388488439537030e-01, 2.20759241277441176e-01,
    -2.00615543267738006e-01, 1.26125267058874002e-01,  -5.28565602005352450e-02,
    1.10187674806639206e-02,  1.84410136788735936e-03,  -1.77867071853634565e-03,
    6.55968944118803067e-05,  1.80536541236808539e-04,  -9.59213548138267895e-05,
    -8.92904748132335922e-05, -2.51416708756368007e-05, -2.67742039483043709e-06,
};
constexpr std::size_t kTailDegree = std::size(kTailCoefficients) - 1;

// The polynomial of r at three arguments, whose computations take turns.
HWY_INLINE void TailPolynomials(const V (&arguments)[3], V (&out)[3]) {
  const D d;
  const V four = hn::Set(d, 4);
  V t[3];
  for (std::size_t k = 0; k < 3; ++k) {
    t[k] = hn::Div(hn::Sub(arguments[k], four), hn::Add(arguments[k], four));
    out[k] = hn::Set(d, kTailCoefficients[kTailDegree]);
  }
  HWY_UNROLL(14)
  for (std::size_t power = kTailDegree; power-- > 0;) {
    const V coefficient = hn::Set(d, kTailCoefficients[power]);
    for (std::size_t k = 0; k < 3; ++k) out[k] = hn::MulAdd(out[k], t[k], coefficient);
  }
}

double EnergyProducts(const EnergyPairRow& row, double* HWY_RESTRICT products, std::size_t count) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr double kLog2E = 1.442695040888963407360;
  const V condition_scale = hn::Set(d, -row.condition_gamma * kLog2E);
  const V argument_scale = hn::Set(d, -0.5 * kLog2E);
  const V most = hn::Set(d, kMostArgument);
  const V mean = hn::Set(d, row.mean);
  const V outcome = hn::Set(d, row.outcome);
  const V own = hn::Set(d, row.deviation);
  V sum = hn::Zero(d);
  for (std::size_t j = 0; j < count; j += lanes) {
    const V other_mean = hn::LoadU(d, row.means + j);
    const V other_outcome = hn::LoadU(d, row.outcomes + j);
    const V other = hn::LoadU(d, row.deviations + j);
    // Both squares may underflow to 0.
    const V both = hn::Max(hn::Sqrt(hn::MulAdd(own, own, hn::Mul(other, other))),
                           hn::Set(d, kMinStandardDeviation));
    const V of_own = AbsoluteDifference(mean, other_outcome);
    const V of_other = AbsoluteDifference(other_mean, outcome);
    const V of_both = AbsoluteDifference(mean, other_mean);
    const V arguments[3] = {hn::Min(hn::Div(of_own, own), most),
                            hn::Min(hn::Div(of_other, other), most),
                            hn::Min(hn::Div(of_both, both), most)};
    V tails[3];
    TailPolynomials(arguments, tails);
    V powers[4];
    for (std::size_t k = 0; k < 3; ++k) {
      powers[k] = hn::Mul(argument_scale, hn::Mul(arguments[k], arguments[k]));
    }
    const V of_deviations = hn::Sub(own, other);
    powers[3] = hn::Mul(condition_scale,
                        hn::MulAdd(of_both, of_both, hn::Mul(of_deviations, of_deviations)));
    Exp2(d, powers);
    for (std::size_t k = 0; k < 3; ++k) tails[k] = hn::Mul(tails[k], powers[k]);
    const V sizes = hn::Add(hn::Sub(of_own, AbsoluteDifference(outcome, other_outcome)),
                            hn::Sub(of_other, of_both));
    const V spreads =
        hn::NegMulAdd(both, tails[2], hn::MulAdd(own, tails[0], hn::Mul(other, tails[1])));
    const std::size_t some = std::min(lanes, count - j);
    const V terms = hn::IfThenElseZero(
        hn::FirstN(d, some), hn::Mul(hn::Mul(hn::Set(d, 0.5), powers[3]), hn::Add(sizes, spreads)));
    sum = hn::Add(sum, terms);
    if (some == lanes) {
      hn::StoreU(terms, d, products + j);
    } else {
      HWY_ALIGN double last[8];
      hn::Store(terms, d, last);
      std::copy_n(last, some, products + j);
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(EnergyProducts);

EnergyForecasts::EnergyForecasts(const ForecastBatch& batch, double condition_gamma)
    : condition_gamma_(condition_gamma), outcomes_(batch.outcomes.begin(), batch.outcomes.end()) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    means_.push_back(batch.row(i)[0]);
    deviations_.push_back(batch.row(i)[1]);
  }
  // Columns that a call may read after the last one.
  constexpr std::size_t kReadAhead = 8;
  for (auto* const values : {&means_, &deviations_, &outcomes_}) {
    values->resize(batch.size() + kReadAhead, 1.0);
  }
}

double EnergyForecasts::ComputeProducts(std::size_t i, std::size_t first,
                                        std::span<double> products) const noexcept {
  const EnergyPairRow row{.condition_gamma = condition_gamma_,
                          .mean = means_[i],
                          .deviation = deviations_[i],
                          .outcome = outcomes_[i],
                          .means = &means_[first],
                          .deviations = &deviations_[first],
                          .outcomes = &outcomes_[first]};
  return HWY_DYNAMIC_DISPATCH(EnergyProducts)(row, products.data(), products.size());
}

}  // namespace calibd
#endif  // HWY_ONCE
