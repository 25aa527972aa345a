#include "evidence/past_sums.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "calibd/core/fourier_size.h"
#include "evidence/witness_simd.h"

namespace calibd {
namespace {

bool IsFinite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

bool AreCounts(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return std::isfinite(v) && v >= 0; });
}

}  // namespace

PastSums::PastSums(std::size_t class_count)
    : class_count_(class_count), sums_(lines() * kFourierCount), counts_(class_count) {
  for (FloatLineVector& witness : witness_) witness.resize(lines() * kFourierCount);
}

void PastSums::Add(EvidenceChunk& chunk, const ParallelLoop& parallel) {
  const double retention = std::pow(1 - 1 / kMemory, static_cast<double>(chunk.rows()));
  constexpr std::size_t kParts = 6;
  RunLoop(parallel, parallel ? kParts : 1, [&](std::size_t part) {
    const std::size_t parts = parallel ? kParts : 1;
    const std::size_t first = part * lines() / parts;
    const std::size_t last = (part + 1) * lines() / parts;
    // Before the predictions turn into residuals.
    counts_.Add(chunk.All(), retention, first, std::min(last, class_count_));
    AddChunk({.lines = lines(),
              .rows = chunk.rows(),
              .fourier = chunk.fourier(),
              .negated = chunk.Negate(first, last),
              .retention = retention,
              .sums = sums_.data(),
              .witness = {witness_[kAll].data(), witness_[kRecent].data()}},
             first, last);
  });
  counts_.Refresh();
  norm2_ = SumOfSquares(sums_.data(), class_count_ * kFourierCount);
}

void PastSums::Save(PastState& all, PastState& recent) const {
  const auto save = [&](const auto& sums, PastState& state) {
    state.fourier_sums.assign(sums.end() - static_cast<std::ptrdiff_t>(kFourierCount), sums.end());
    state.witness.resize(kFourierCount * class_count_);
    for (std::size_t j = 0; j < kFourierCount; ++j) {
      for (std::size_t k = 0; k < class_count_; ++k) {
        state.witness[j * class_count_ + k] = static_cast<double>(sums[k * kFourierCount + j]);
      }
    }
  };
  save(sums_, all);
  save(witness_[kRecent], recent);
  counts_.Save(all, recent);
}

bool PastSums::Fits(const PastState& state, std::size_t class_count) {
  return state.weight >= 1 && std::isfinite(state.weight) &&
         state.fourier_sums.size() == kFourierCount &&
         state.witness.size() == kFourierCount * class_count &&
         state.class_observed.size() == kBinCount * class_count &&
         state.class_expected.size() == kBinCount * class_count && IsFinite(state.fourier_sums) &&
         IsFinite(state.witness) && AreCounts(state.class_observed) &&
         AreCounts(state.class_expected);
}

void PastSums::Restore(const PastState& all, const PastState& recent) {
  const auto restore = [&](const PastState& state, auto& sums) {
    using T = typename std::decay_t<decltype(sums)>::value_type;
    for (std::size_t j = 0; j < kFourierCount; ++j) {
      for (std::size_t k = 0; k < class_count_; ++k) {
        sums[k * kFourierCount + j] =
            static_cast<T>(state.witness[j * class_count_ + k] / state.weight);
      }
      sums[class_count_ * kFourierCount + j] = static_cast<T>(state.fourier_sums[j] / state.weight);
    }
  };
  restore(all, sums_);
  restore(all, witness_[kAll]);
  restore(recent, witness_[kRecent]);
  counts_.Restore(all, recent);
  norm2_ = SumOfSquares(sums_.data(), class_count_ * kFourierCount);
}

std::size_t PastSums::Memory(std::size_t class_count) noexcept {
  return sizeof(PastSums) +
         (class_count + 1) * kFourierCount * (sizeof(double) + kPasts * sizeof(float)) +
         ClassCounts::Memory(class_count);
}

}  // namespace calibd
