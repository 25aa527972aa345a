#include "calibd/core/class_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/disabled_targets.h"
#include "evidence/evidence_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence/class_evidence.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef CALIBD_CORE_SRC_CLASS_EVIDENCE_ONCE_
#define CALIBD_CORE_SRC_CLASS_EVIDENCE_ONCE_
namespace calibd {

inline constexpr std::size_t kRatios = kClassOddsRatios.size();
// Rows that are applied to the products of a group in one call.
inline constexpr std::size_t kClassRowsAtOnce = 16;

// The bets on kGroup classes.
struct ClassBetsTask {
  // kClassBets x kGroup.
  double* inverses;
  std::size_t rows;
  // rows x stride, beginning at these classes.
  const double* g;
  std::size_t stride;
  double eps;
  // For each row, the distance between g and the lower end of the null interval.
  const double* below;
  // The label of each row, and the first of these classes.
  const std::int32_t* labels;
  std::int32_t first;
};

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_CLASS_EVIDENCE_ONCE_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kGroup>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

// One row of one side: inverses *= 1 + h (r - 1), and then /= r at the label, where it is among
// these classes. Products and sums are not fused, so that the bits are the same on every CPU.
HWY_INLINE void BetOnSide(V upper, V lower, bool has_label, Mask is_label, V* inverses) {
  const D d;
  const V one = hn::Set(d, 1.0);
  for (std::size_t j = 0; j < kRatios; ++j) {
    const double slope = kClassOddsRatios[j] - 1;
    const V change = hn::Mul(slope > 0 ? upper : lower, hn::Set(d, slope));
    inverses[j] = hn::Mul(inverses[j], hn::Add(one, change));
  }
  if (!has_label) return;
  for (std::size_t j = 0; j < kRatios; ++j) {
    const V ratio = hn::IfThenElse(is_label, hn::Set(d, kClassOddsRatios[j]), one);
    inverses[j] = hn::Div(inverses[j], ratio);
  }
}

void ClassBets(const ClassBetsTask& task) {
  const D d;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1.0);
  const V half = hn::Set(d, 0.5);
  const V eps = hn::Set(d, task.eps);
  for (std::size_t lane = 0; lane < kGroup; lane += hn::Lanes(d)) {
    double* const upper_side = task.inverses + kRatios * kGroup + lane;
    V inverses[kRatios];
    for (std::size_t j = 0; j < kRatios; ++j) {
      inverses[j] = hn::LoadU(d, task.inverses + j * kGroup + lane);
    }
    for (std::size_t row = 0; row < task.rows; ++row) {
      const V g = hn::LoadU(d, task.g + row * task.stride + lane);
      const Mask is_lower = hn::Le(g, half);
      // An upper end of 0 makes no bet.
      const V upper = hn::Add(g, eps);
      const V lower = hn::Max(zero, hn::Sub(g, hn::Set(d, task.below[row])));
      const std::int32_t label = task.labels[row] - task.first;
      const bool has_label = label >= 0 && label < static_cast<std::int32_t>(kGroup);
      const Mask is_label =
          hn::Eq(hn::Iota(d, static_cast<double>(lane)), hn::Set(d, static_cast<double>(label)));
      BetOnSide(hn::IfThenElseZero(is_lower, upper), hn::IfThenElseZero(is_lower, lower), has_label,
                hn::And(is_label, is_lower), inverses);
      if (hn::AllTrue(d, is_lower)) continue;
      V others[kRatios];
      for (std::size_t j = 0; j < kRatios; ++j) others[j] = hn::LoadU(d, upper_side + j * kGroup);
      BetOnSide(hn::IfThenZeroElse(is_lower, hn::Min(one, upper)),
                hn::IfThenZeroElse(is_lower, lower), has_label, hn::AndNot(is_lower, is_label),
                others);
      for (std::size_t j = 0; j < kRatios; ++j) hn::StoreU(others[j], d, upper_side + j * kGroup);
    }
    for (std::size_t j = 0; j < kRatios; ++j) {
      hn::StoreU(inverses[j], d, task.inverses + j * kGroup + lane);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {
namespace {

HWY_EXPORT(ClassBets);

// Products are clamped after this many predictions: one changes a product by a factor of at most 3.
constexpr std::int64_t kPeriod = 256;
constexpr double kMostInverse = 1e150;
constexpr double kMostWealth = 1e300;

// Sums in an order that is the same on every CPU.
double Sum(std::span<const double> g) noexcept {
  std::array<double, kGroup> sums{};
  std::size_t k = 0;
  for (; k + kGroup <= g.size(); k += kGroup) {
    for (std::size_t lane = 0; lane < kGroup; ++lane) sums[lane] += g[k + lane];
  }
  for (; k < g.size(); ++k) sums[k % kGroup] += g[k];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// Sums the products of one side. LeastInverse returns the inverse of the largest product.
double SumProducts(const double* inverses) noexcept {
  double sum = 0;
  for (std::size_t j = 0; j < kRatios; ++j) sum += 1 / inverses[j * kGroup];
  return sum;
}
double LeastInverse(const double* inverses) noexcept {
  double least = inverses[0];
  for (std::size_t j = 1; j < kRatios; ++j) least = std::min(least, inverses[j * kGroup]);
  return least;
}

}  // namespace

ClassEvidence::ClassEvidence(std::size_t class_count, double tolerance)
    : class_count_(class_count),
      tolerance_(tolerance),
      inverses_(kClassBets * Padded(class_count), 1.0) {}

const double* ClassEvidence::InversesOf(std::size_t k, std::size_t side) const noexcept {
  return &inverses_[(k / kGroup * kClassBets + side * kRatios) * kGroup + k % kGroup];
}
double* ClassEvidence::InversesOf(std::size_t k, std::size_t side) noexcept {
  return &inverses_[(k / kGroup * kClassBets + side * kRatios) * kGroup + k % kGroup];
}

void ClassEvidence::Add(const PredictionBatch& batch) noexcept {
  for (std::size_t first = 0; first < batch.size();) {
    const auto left = static_cast<std::size_t>(kPeriod - count_ % kPeriod);
    const std::size_t rows = std::min({batch.size() - first, kClassRowsAtOnce, left});
    AddSome(batch.rows(first, rows));
    first += rows;
    if (count_ % kPeriod == 0) {
      for (double& value : inverses_) value = std::clamp(value, 1 / kMostInverse, kMostInverse);
    }
  }
}

void ClassEvidence::AddSome(const PredictionBatch& batch) noexcept {
  const double eps = tolerance_ / static_cast<double>(class_count_);
  std::array<double, kClassRowsAtOnce> below;
  for (std::size_t row = 0; row < batch.size(); ++row) {
    below[row] = std::max(0.0, Sum(batch.row(row)) - 1) + tolerance_;
  }
  std::array<double, kClassRowsAtOnce * kGroup> rest{};
  for (std::size_t k = 0; k < class_count_; k += kGroup) {
    const double* g = &batch.probabilities[k];
    std::size_t stride = class_count_;
    if (k + kGroup > class_count_) {
      // ClassBets reads whole vectors, so the last classes are copied to a padded buffer.
      for (std::size_t row = 0; row < batch.size(); ++row) {
        const std::span<const double> tail = batch.row(row).subspan(k);
        std::copy(tail.begin(), tail.end(), &rest[row * kGroup]);
      }
      g = rest.data();
      stride = kGroup;
    }
    HWY_DYNAMIC_DISPATCH(ClassBets)
    ({.inverses = InversesOf(k, 0),
      .rows = batch.size(),
      .g = g,
      .stride = stride,
      .eps = eps,
      .below = below.data(),
      .labels = batch.labels.data(),
      .first = static_cast<std::int32_t>(k)});
  }
  count_ += static_cast<std::int64_t>(batch.size());
}

double ClassEvidence::Log10EValue(std::size_t k) const noexcept {
  const auto ratios = static_cast<double>(kRatios);
  return std::log10(SumProducts(InversesOf(k, 0)) / ratios) +
         std::log10(SumProducts(InversesOf(k, 1)) / ratios);
}

double ClassEvidence::LogMean() const noexcept {
  // In an order that is the same on every CPU.
  std::array<double, kGroup> total{};
  for (std::size_t k = 0; k < class_count_; k += kGroup) {
    const double* const inverses = InversesOf(k, 0);
    std::array<std::array<double, kGroup>, kClassSides> sums{};
    for (std::size_t bet = 0; bet < kClassBets; ++bet) {
      for (std::size_t lane = 0; lane < kGroup; ++lane) {
        sums[bet / kRatios][lane] += 1 / inverses[bet * kGroup + lane];
      }
    }
    const std::size_t lanes = std::min(kGroup, class_count_ - k);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      // A supermartingale that is capped is still one, by Jensen's inequality.
      total[lane] += std::min(sums[0][lane] * sums[1][lane], kMostWealth);
    }
  }
  const double sum = std::accumulate(total.begin(), total.end(), 0.0);
  return std::log(sum / static_cast<double>(kRatios * kRatios * class_count_));
}

std::vector<double> ClassEvidence::Log10EValues(double least) const {
  std::vector<double> values(class_count_, -std::numeric_limits<double>::infinity());
  // The largest product of each side is at least the mean of the side's products.
  const double most_inverse = std::pow(10, -least);
  for (std::size_t k = 0; k < class_count_; ++k) {
    if (LeastInverse(InversesOf(k, 0)) * LeastInverse(InversesOf(k, 1)) <= most_inverse) {
      values[k] = Log10EValue(k);
    }
  }
  return values;
}

ClassEvidence::State ClassEvidence::Save() const {
  State state{.count = count_, .inverses = {}};
  state.inverses.reserve(kClassBets * class_count_);
  for (std::size_t bet = 0; bet < kClassBets; ++bet) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      state.inverses.push_back(InversesOf(k, 0)[bet * kGroup]);
    }
  }
  return state;
}

bool ClassEvidence::Restore(const State& state) {
  if (state.count < 0 || state.inverses.size() != kClassBets * class_count_ ||
      !std::all_of(state.inverses.begin(), state.inverses.end(),
                   [](double value) { return value > 0 && std::isfinite(value); })) {
    return false;
  }
  count_ = state.count;
  for (std::size_t bet = 0; bet < kClassBets; ++bet) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      InversesOf(k, 0)[bet * kGroup] = state.inverses[bet * class_count_ + k];
    }
  }
  return true;
}

std::size_t ClassEvidence::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(ClassEvidence) + kClassBets * Padded(class_count) * sizeof(double);
}

}  // namespace calibd
#endif  // HWY_ONCE
