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

}  // namespace

FeatureNullSquares::FeatureNullSquares(std::shared_ptr<const RandomFeatures> features)
    : features_(std::move(features)),
      previous_(features_->class_count()),
      mapped_(2 * kFeatureCount) {}

bool FeatureNullSquares::NextIsOfPair() const noexcept {
  return count_ < kAllPairs || count_ % kStride < 2;
}

void FeatureNullSquares::Add(const PredictionBatch& batch) noexcept {
  const std::span<double> first(mapped_.data(), kFeatureCount);
  const std::span<double> second(mapped_.data() + kFeatureCount, kFeatureCount);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    if (NextIsOfPair() && count_ % 2 == 0) {
      std::copy(g.begin(), g.end(), previous_.begin());
    } else if (NextIsOfPair()) {
      features_->Map(previous_, first);
      features_->Map(g, second);
      double kernel = 0;
      for (std::size_t j = 0; j < kFeatureCount; ++j) kernel += first[j] * second[j];
      const double square = kernel * kernel * NullTrace(previous_, g);
      const std::int64_t stands_for = count_ < kAllPairs ? 1 : kPairsPerStride;
      moments_.Merge({.count = stands_for, .mean = square, .m2 = 0});
    }
    ++count_;
  }
}

FeatureNullSquares::State FeatureNullSquares::Save() const {
  State state{.count = count_, .moments = moments_, .previous = {}};
  if (count_ % 2 == 1 && NextIsOfPair()) state.previous = previous_;
  return state;
}

bool FeatureNullSquares::Restore(const State& state) {
  const bool waits = state.count % 2 == 1 && (state.count < kAllPairs || state.count % kStride < 2);
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
  count_ = state.count;
  moments_ = state.moments;
  if (waits) previous_ = state.previous;
  return true;
}

}  // namespace calibd
