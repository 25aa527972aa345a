#include "evidence/expert_processes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence/expert_processes.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "evidence/process_lanes-inl.h"

#ifndef CALIBD_CORE_SRC_EXPERT_PROCESSES_ONCE_
#define CALIBD_CORE_SRC_EXPERT_PROCESSES_ONCE_
namespace calibd {

// Log prior of each expert. An expert without a prior never contributes to the mixture.
struct alignas(64) LogPriors {
  explicit LogPriors(std::size_t experts) noexcept {
    for (std::size_t j = 0; j < kPaddedExperts; ++j) {
      values[j] = j < experts ? std::log(kPriors[j]) : std::numeric_limits<double>::lowest() / 4;
    }
  }
  double values[kPaddedExperts];
};
const LogPriors& PriorsOfBettors() noexcept;
const LogPriors& PriorsOfAll() noexcept;

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_EXPERT_PROCESSES_ONCE_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

constexpr std::size_t kExpertVectors = kPaddedExperts / hn::MaxLanes(D());

// The share of each expert in the mixture at its last logarithm, relative to the largest share.
struct Shares {
  Shares(const double* HWY_RESTRICT log, const LogPriors& priors) {
    const D d;
    V most = hn::Set(d, std::numeric_limits<double>::lowest());
    for (std::size_t v = 0; v < kExpertVectors; ++v) {
      const std::size_t at = v * hn::Lanes(d);
      values[v] = hn::Add(hn::LoadU(d, log + at), hn::Load(d, priors.values + at));
      most = hn::Max(most, values[v]);
    }
    most = hn::MaxOfLanes(d, most);
    max = hn::GetLane(most);
    for (V& value : values) value = Exp(hn::Sub(value, most));
  }

  V values[kExpertVectors];
  double max;
};

// Advances one process by rows. step(growth, e, floor): the new growth, where floor is the process
// that is 1, relative to its last logarithm. sums: the mixture after each row.
template <typename Step>
HWY_INLINE void AdvanceOne(const StripBets& bets, std::size_t past, std::size_t first,
                           std::size_t last, const ProcessArrays& process, const Shares& shares,
                           V* HWY_RESTRICT sums, const Step& step) {
  const D d;
  for (std::size_t row = first; row < last; ++row) sums[row] = hn::Zero(d);
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    const std::size_t at = v * hn::Lanes(d);
    V growth = hn::LoadU(d, process.growth + at);
    const V floor = Exp(hn::Neg(hn::LoadU(d, process.log + at)));
    for (std::size_t row = first; row < last; ++row) {
      growth = step(growth, hn::Load(d, &bets.e_values[row][past][at]), floor);
      sums[row] = hn::MulAdd(shares.values[v], growth, sums[row]);
    }
    hn::StoreU(growth, d, process.growth + at);
  }
}

// The logarithms of the mixtures.
HWY_INLINE void LogSums(const V* HWY_RESTRICT sums, std::size_t first, std::size_t last, double max,
                        std::array<double, kStripRows>& out) {
  const D d;
  out.fill(1);
  for (std::size_t row = first; row < last; ++row) out[row] = Sum(sums[row]);
  for (std::size_t row = 0; row < kStripRows; row += hn::Lanes(d)) {
    const V log = hn::Log(d, hn::Load(d, &out[row]));
    hn::Store(hn::Add(hn::Set(d, max), log), d, &out[row]);
  }
}

// The mixture of a process relative to its largest share.
HWY_INLINE double MixtureOf(const ProcessArrays& process, const Shares& shares) {
  const D d;
  V sum = hn::Zero(d);
  for (std::size_t v = 0; v < kExpertVectors; ++v) {
    sum = hn::MulAdd(shares.values[v], hn::LoadU(d, process.growth + v * hn::Lanes(d)), sum);
  }
  return Sum(sum);
}

double Mixture(const ExpertProcesses& processes) {
  const Shares e(processes.e.log, PriorsOfAll());
  return e.max + std::log(MixtureOf(processes.e, e));
}

void Advance(const StripBets& bets, std::size_t first, std::size_t last,
             const ExpertProcesses& processes, ProcessMixtures& out) {
  V sums[kStripRows];
  const Shares e(processes.e.log, PriorsOfBettors());
  out.log_e_before = e.max + std::log(MixtureOf(processes.e, e));
  AdvanceOne(bets, kAll, first, last, processes.e, e, sums,
             [](V growth, V e_value, V /*floor*/) { return hn::Mul(growth, e_value); });
  LogSums(sums, first, last, e.max, out.log_e);
  const Shares r1(processes.r1.log, PriorsOfAll());
  AdvanceOne(bets, kRecent, first, last, processes.r1, r1, sums,
             [](V growth, V e_value, V floor) { return hn::MulAdd(growth, e_value, floor); });
  LogSums(sums, first, last, r1.max, out.log_r1);
}

void Fold(const ExpertProcesses& processes) {
  const D d;
  const V one = hn::Set(d, 1);
  for (std::size_t at = 0; at < kPaddedExperts; at += hn::Lanes(d)) {
    const auto fold = [&](const ProcessArrays& process, V least) {
      const V growth = hn::LoadU(d, process.growth + at);
      const V log = hn::LoadU(d, process.log + at);
      hn::StoreU(Folded(log, growth, least), d, process.log + at);
      hn::StoreU(one, d, process.growth + at);
    };
    fold(processes.e, hn::Set(d, std::numeric_limits<double>::lowest()));
    fold(processes.r1, hn::Zero(d));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(Advance);
HWY_EXPORT(Fold);
HWY_EXPORT(Mixture);

const LogPriors& PriorsOfBettors() noexcept {
  static const LogPriors priors(kBettorCount);
  return priors;
}
const LogPriors& PriorsOfAll() noexcept {
  static const LogPriors priors(kExpertCount);
  return priors;
}

void AdvanceProcesses(const StripBets& bets, std::size_t first, std::size_t last,
                      const ExpertProcesses& processes, ProcessMixtures& out) noexcept {
  HWY_DYNAMIC_DISPATCH(Advance)(bets, first, last, processes, out);
}
double LogMixture(const ExpertProcesses& processes) noexcept {
  return HWY_DYNAMIC_DISPATCH(Mixture)(processes);
}
void FoldGrowth(const ExpertProcesses& processes) noexcept {
  HWY_DYNAMIC_DISPATCH(Fold)(processes);
}

}  // namespace calibd
#endif  // HWY_ONCE
