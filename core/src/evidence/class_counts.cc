#include "evidence/class_counts.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/disabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evidence/class_counts.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef CALIBD_CORE_SRC_CLASS_COUNTS_ONCE_
#define CALIBD_CORE_SRC_CLASS_COUNTS_ONCE_
namespace calibd {

// A cell: the observed and the expected number of labels, for each past.
inline constexpr std::size_t kObserved = 0;
inline constexpr std::size_t kExpected = kPasts;
inline constexpr std::size_t kCellSize = 2 * kPasts;

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_CLASS_COUNTS_ONCE_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kGroup>;
using V = hn::Vec<D>;

// 1 / sqrt(x) for an x in the range of float: square roots and quotients of doubles take several
// times as long.
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

HWY_INLINE V Root(V observed, V expected) {
  const V prior = hn::Set(D(), 3);
  observed = hn::Add(observed, prior);
  expected = hn::Add(expected, prior);
  return hn::Mul(observed, ReciprocalSqrt(hn::Mul(observed, expected)));
}

// The ratios of the cells of a vector.
HWY_INLINE void VectorRatios(const double* HWY_RESTRICT cells, double* HWY_RESTRICT ratios) {
  const D d;
  V observed[kPasts];
  V expected[kPasts];
  hn::LoadInterleaved4(d, cells, observed[kAll], observed[kRecent], expected[kAll],
                       expected[kRecent]);
  const V all = Root(observed[kAll], expected[kAll]);
  const V recent = Root(observed[kRecent], expected[kRecent]);
  hn::StoreInterleaved4(all, recent, hn::Mul(all, all), hn::Mul(recent, recent), d, ratios);
}

// The ratios of `count` cells.
void Ratios(const double* HWY_RESTRICT cells, std::size_t count, double* HWY_RESTRICT ratios) {
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    VectorRatios(cells + i * kCellSize, ratios + i * kRatioValues);
  }
  if (i == count) return;
  double last_cells[kGroup * kCellSize] = {};
  double last_ratios[kGroup * kRatioValues];
  std::copy(cells + i * kCellSize, cells + count * kCellSize, last_cells);
  VectorRatios(last_cells, last_ratios);
  std::copy_n(last_ratios, (count - i) * kRatioValues, ratios + i * kRatioValues);
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {
namespace {

HWY_EXPORT(Ratios);

void ComputeRatios(const double* cells, std::size_t count, double* ratios) noexcept {
  HWY_DYNAMIC_DISPATCH(Ratios)(cells, count, ratios);
}

}  // namespace

ClassCounts::ClassCounts(std::size_t class_count)
    : class_count_(class_count),
      size_(Padded(class_count)),
      cells_(kBinCount * size_ * kCellSize),
      ratios_(kBinCount * size_ * kRatioValues),
      class_cells_(size_ * kCellSize),
      class_ratios_(size_ * kRatioValues),
      bin_cells_(kBinCount * kCellSize),
      bin_ratios_(kBinCount * kRatioValues),
      shares_(class_count) {
  RefreshAll();
}

void ClassCounts::Add(const ChunkRows& chunk, double retention, std::size_t first,
                      std::size_t last) noexcept {
  // The lines of the chunk and the cells of this many classes fit into the fastest cache.
  constexpr std::size_t kClassesAtOnce = 32;
  // Threads add different classes at the same time. It makes no difference whether cells that are
  // still 0 are multiplied.
  const std::atomic_ref<std::uint32_t> used_bins(used_bins_);
  const std::uint32_t former = used_bins.load(std::memory_order_relaxed);
  std::uint32_t seen = 0;
  for (; first < last; first += kClassesAtOnce) {
    seen |= AddSome(chunk, retention, former, first, std::min(first + kClassesAtOnce, last));
  }
  used_bins.fetch_or(seen, std::memory_order_relaxed);
}

std::uint32_t ClassCounts::AddSome(const ChunkRows& chunk, double retention,
                                   std::uint32_t used_bins, std::size_t first,
                                   std::size_t last) noexcept {
  for (std::uint32_t bins = used_bins; bins != 0; bins &= bins - 1) {
    const auto b = static_cast<std::size_t>(std::countr_zero(bins));
    for (std::size_t k = first; k < last; ++k) {
      double* const cell = &cells_[kCellSize * (b * size_ + k)];
      cell[kObserved + kRecent] *= retention;
      cell[kExpected + kRecent] *= retention;
    }
  }
  std::uint32_t seen = 0;
  // Row by row: the cells of a row are different ones, so that no addition waits for another.
  for (std::size_t row = 0; row < chunk.rows; ++row) {
    const std::size_t strip = row / kStripRows;
    const double* const given = chunk.given + strip * chunk.lines * kStripRows + row % kStripRows;
    const std::uint8_t* const bins =
        chunk.bins + strip * class_count_ * kStripRows + row % kStripRows;
    for (std::size_t k = first; k < last; ++k) {
      const std::uint8_t b = bins[k * kStripRows];
      seen |= 1U << b;
      double* const expected = &cells_[kCellSize * (b * size_ + k) + kExpected];
      expected[kAll] += given[k * kStripRows];
      expected[kRecent] += given[k * kStripRows];
    }
    const auto label = static_cast<std::size_t>(chunk.labels[row]);
    if (label < first || label >= last) continue;
    double* const observed = &cells_[kCellSize * (bins[label * kStripRows] * size_ + label)];
    observed[kAll] += 1;
    observed[kRecent] += 1;
  }
  // While the cells are in this thread's cache.
  for (std::uint32_t bins = used_bins | seen; bins != 0; bins &= bins - 1) {
    const std::size_t cell = static_cast<std::size_t>(std::countr_zero(bins)) * size_ + first;
    ComputeRatios(&cells_[kCellSize * cell], last - first, &ratios_[kRatioValues * cell]);
  }
  return seen;
}

void ClassCounts::RefreshAll() noexcept {
  ComputeRatios(cells_.data(), kBinCount * size_, ratios_.data());
  Refresh();
}

void ClassCounts::Refresh() noexcept {
  std::fill(class_cells_.begin(), class_cells_.end(), 0.0);
  for (std::uint32_t bins = used_bins_; bins != 0; bins &= bins - 1) {
    const auto b = static_cast<std::size_t>(std::countr_zero(bins));
    const double* const cells = &cells_[kCellSize * b * size_];
    std::array<double, kCellSize> sums{};
    for (std::size_t k = 0; k < class_count_; ++k) {
      for (std::size_t i = 0; i < kCellSize; ++i) {
        sums[i] += cells[k * kCellSize + i];
        class_cells_[k * kCellSize + i] += cells[k * kCellSize + i];
      }
    }
    std::copy(sums.begin(), sums.end(), &bin_cells_[b * kCellSize]);
  }
  OfPasts<double> counts{};
  for (std::size_t b = 0; b < kBinCount; ++b) {
    for (std::size_t past = 0; past < kPasts; ++past) {
      counts[past] += bin_cells_[b * kCellSize + kObserved + past];
    }
  }
  for (std::size_t k = 0; k < class_count_; ++k) {
    for (std::size_t past = 0; past < kPasts; ++past) {
      shares_[k][past] = (class_cells_[k * kCellSize + kObserved + past] + 0.5) /
                         (counts[past] + static_cast<double>(class_count_) / 2);
    }
  }
  ComputeRatios(class_cells_.data(), size_, class_ratios_.data());
  ComputeRatios(bin_cells_.data(), kBinCount, bin_ratios_.data());
}

void ClassCounts::Save(PastState& all, PastState& recent) const {
  const OfPasts<PastState*> states = {&all, &recent};
  for (std::size_t b = 0; b < kBinCount; ++b) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      const double* const cell = &cells_[kCellSize * (b * size_ + k)];
      for (std::size_t past = 0; past < kPasts; ++past) {
        states[past]->class_observed.push_back(cell[kObserved + past]);
        states[past]->class_expected.push_back(cell[kExpected + past]);
      }
    }
  }
}

void ClassCounts::Restore(const PastState& all, const PastState& recent) {
  const OfPasts<const PastState*> states = {&all, &recent};
  for (std::size_t b = 0; b < kBinCount; ++b) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      double* const cell = &cells_[kCellSize * (b * size_ + k)];
      for (std::size_t past = 0; past < kPasts; ++past) {
        const PastState& state = *states[past];
        cell[kObserved + past] = state.class_observed[b * class_count_ + k] / state.weight;
        cell[kExpected + past] = state.class_expected[b * class_count_ + k] / state.weight;
        if (cell[kObserved + past] > 0 || cell[kExpected + past] > 0) used_bins_ |= 1U << b;
      }
    }
  }
  RefreshAll();
}

std::size_t ClassCounts::Memory(std::size_t class_count) noexcept {
  return sizeof(ClassCounts) + class_count * sizeof(OfPasts<double>) +
         ((kBinCount + 1) * Padded(class_count) + kBinCount) * (kCellSize + kRatioValues) *
             sizeof(double);
}

}  // namespace calibd
#endif  // HWY_ONCE
