#include "past_sums.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "calibd/core/random_features.h"
#include "witness_simd.h"

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

PastSums::PastSums(std::size_t class_count) : class_count_(class_count), counts_(class_count) {
  for (LineVector& witness : witness_) witness.resize(lines() * kFeatureCount);
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
              .features = chunk.features(),
              .negated = chunk.Negate(first, last),
              .retention = retention,
              .sums = {witness_[kAll].data(), witness_[kRecent].data()}},
             first, last);
  });
  counts_.Refresh();
  norm2_ = SumOfSquares(witness_[kAll].data(), class_count_ * kFeatureCount);
}

void PastSums::Save(PastState& all, PastState& recent) const {
  const OfPasts<PastState*> states = {&all, &recent};
  for (std::size_t past = 0; past < kPasts; ++past) {
    const auto sums = witness_[past].end() - static_cast<std::ptrdiff_t>(kFeatureCount);
    states[past]->feature_sums.assign(sums, witness_[past].end());
    states[past]->witness.resize(kFeatureCount * class_count_);
    for (std::size_t j = 0; j < kFeatureCount; ++j) {
      for (std::size_t k = 0; k < class_count_; ++k) {
        states[past]->witness[j * class_count_ + k] = witness_[past][k * kFeatureCount + j];
      }
    }
  }
  counts_.Save(all, recent);
}

bool PastSums::Fits(const PastState& state, std::size_t class_count) {
  return state.weight >= 1 && std::isfinite(state.weight) &&
         state.feature_sums.size() == kFeatureCount &&
         state.witness.size() == kFeatureCount * class_count &&
         state.class_observed.size() == kBinCount * class_count &&
         state.class_expected.size() == kBinCount * class_count && IsFinite(state.feature_sums) &&
         IsFinite(state.witness) && AreCounts(state.class_observed) &&
         AreCounts(state.class_expected);
}

void PastSums::Restore(const PastState& all, const PastState& recent) {
  const OfPasts<const PastState*> states = {&all, &recent};
  for (std::size_t past = 0; past < kPasts; ++past) {
    const PastState& state = *states[past];
    for (std::size_t j = 0; j < kFeatureCount; ++j) {
      for (std::size_t k = 0; k < class_count_; ++k) {
        witness_[past][k * kFeatureCount + j] = state.witness[j * class_count_ + k] / state.weight;
      }
      witness_[past][class_count_ * kFeatureCount + j] = state.feature_sums[j] / state.weight;
    }
  }
  counts_.Restore(all, recent);
  norm2_ = SumOfSquares(witness_[kAll].data(), class_count_ * kFeatureCount);
}

std::size_t PastSums::Memory(std::size_t class_count) noexcept {
  return sizeof(PastSums) + kPasts * (class_count + 1) * kFeatureCount * sizeof(double) +
         ClassCounts::Memory(class_count);
}

}  // namespace calibd
