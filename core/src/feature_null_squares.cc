#include "calibd/core/feature_null_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "pair_terms.h"

namespace calibd {
namespace {

constexpr std::int64_t kAllPairs = 4096;
// The distance in predictions between consecutive pairs after these.
constexpr std::int64_t kStride = 16;
constexpr std::int64_t kPairsPerStride = kStride / 2;

// True if the prediction after `count` others belongs to a pair.
bool IsOfPair(std::int64_t count) noexcept { return count < kAllPairs || count % kStride < 2; }

}  // namespace

FeatureNullSquares::FeatureNullSquares(std::shared_ptr<const RandomFeatures> features)
    : features_(std::move(features)), mapped_(2 * kFeatureCount) {
  state_.previous.reserve(features_->class_count());
}

void FeatureNullSquares::Add(const PredictionBatch& batch) noexcept {
  const std::span<double> first(mapped_.data(), kFeatureCount);
  const std::span<double> second(mapped_.data() + kFeatureCount, kFeatureCount);
  for (std::size_t i = 0; i < batch.size(); ++i, ++state_.count) {
    if (!IsOfPair(state_.count)) continue;
    const std::span<const double> g = batch.row(i);
    if (state_.count % 2 == 0) {
      state_.previous.assign(g.begin(), g.end());
      continue;
    }
    features_->Map(state_.previous, first);
    features_->Map(g, second);
    double kernel = 0;
    for (std::size_t j = 0; j < kFeatureCount; ++j) kernel += first[j] * second[j];
    const double square = kernel * kernel * NullTrace(state_.previous, g);
    const std::int64_t stands_for = state_.count < kAllPairs ? 1 : kPairsPerStride;
    state_.moments.Merge({.count = stands_for, .mean = square, .m2 = 0});
    state_.previous.clear();
  }
}

bool FeatureNullSquares::Restore(State state) {
  const bool waits = state.count % 2 == 1 && IsOfPair(state.count);
  // The weight of the newest pair may include pairs that have not arrived yet.
  const std::int64_t most = state.count / 2 + (state.count > kAllPairs ? kPairsPerStride : 0);
  if (state.count < 0 || state.moments.count < 0 || state.moments.count > most ||
      !std::isfinite(state.moments.mean) || !(state.moments.mean >= 0) ||
      !std::isfinite(state.moments.m2) || !(state.moments.m2 >= 0) ||
      state.previous.size() != (waits ? features_->class_count() : 0) ||
      !std::all_of(state.previous.begin(), state.previous.end(),
                   [](double value) { return value >= 0 && value <= 1; })) {
    return false;
  }
  state_ = std::move(state);
  state_.previous.reserve(features_->class_count());
  return true;
}

}  // namespace calibd
