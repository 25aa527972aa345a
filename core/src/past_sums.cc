#include "past_sums.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace calibd {
namespace {

// The position of feature j of class k.
std::size_t WitnessIndex(std::size_t j, std::size_t k) {
  return (k / kGroup * kFeatureCount + j) * kGroup + k % kGroup;
}

bool IsFinite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

bool AreCounts(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return std::isfinite(v) && v >= 0; });
}

}  // namespace

PastSums::PastSums(std::size_t class_count, double retention)
    : class_count_(class_count),
      size_(Padded(class_count)),
      growth_(1 / retention),
      witness_(size_ * kFeatureCount),
      label_counts_(size_),
      label_expected_(size_) {}

void PastSums::AdvanceWitness(std::size_t rows, const double* features, const double* residuals,
                              double* witness, double* match) noexcept {
  std::array<double, kRowsAtOnce> inverse_before;
  std::array<double, kRowsAtOnce> after;
  double weight = weight_;
  for (std::size_t row = 0; row < rows; ++row) {
    inverse_before[row] = 1 / weight;
    weight *= growth_;
    after[row] = weight;
    const double* const phi = features + row * kFeatureCount;
    const double match_sum = AdvanceMatch(phi, weight, feature_sums_.data());
    match[row] = std::max(match_sum * inverse_before[row], 0.0);
  }
  calibd::AdvanceWitness({.sums = witness_.data(),
                          .rows = rows,
                          .features = features,
                          .residuals = residuals,
                          .out = witness,
                          .stride = size_,
                          .inverse_before = inverse_before.data(),
                          .after = after.data()});
}

PastTerms PastSums::Terms(const PredictionTerms& prediction, double* witness, double match,
                          std::size_t label) const noexcept {
  const double prior = 3 * weight_;
  const auto bin = static_cast<std::size_t>(prediction.bins[label]);
  return {
      .witness_at_label = witness[label],
      .match = match,
      .witness = ReduceWitness(prediction, witness, match),
      .pooled_ratio = (pooled_observed_[bin] + prior) / (pooled_expected_[bin] + prior),
      .pooled_sums = SumHistogram(prediction.p_in_bin.data(), pooled_observed_.data(),
                                  pooled_expected_.data(), kBinCount, weight_),
      .label_share = (label_counts_[label] + weight_ / 2) /
                     (count_ + weight_ * static_cast<double>(class_count_) / 2),
      .count_ratio = (label_counts_[label] + prior) / (label_expected_[label] + prior),
      .count_sums =
          SumHistogram(prediction.p, label_counts_.data(), label_expected_.data(), size_, weight_),
  };
}

void PastSums::AddLabel(const PredictionTerms& prediction, const double* g,
                        std::size_t label) noexcept {
  weight_ *= growth_;
  for (std::size_t b = 0; b < kBinCount; ++b) {
    pooled_expected_[b] += weight_ * prediction.given_in_bin[b];
  }
  const auto bin = static_cast<std::size_t>(prediction.bins[label]);
  pooled_observed_[bin] += weight_;
  label_counts_[label] += weight_;
  for (std::size_t k = 0; k < class_count_; ++k) label_expected_[k] += weight_ * g[k];
  count_ += weight_;
}

void PastSums::Rescale() noexcept {
  if (weight_ == 1) return;
  const double scale = 1 / weight_;
  const auto rescale = [scale](auto& values) {
    for (double& value : values) value *= scale;
  };
  rescale(feature_sums_);
  rescale(witness_);
  rescale(pooled_observed_);
  rescale(pooled_expected_);
  rescale(label_counts_);
  rescale(label_expected_);
  count_ *= scale;
  weight_ = 1;
}

PastState PastSums::Save() const {
  PastState state;
  state.weight = weight_;
  state.count = count_;
  state.feature_sums.assign(feature_sums_.begin(), feature_sums_.end());
  state.witness.resize(kFeatureCount * class_count_);
  for (std::size_t j = 0; j < kFeatureCount; ++j) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      state.witness[j * class_count_ + k] = witness_[WitnessIndex(j, k)];
    }
  }
  state.pooled_observed.assign(pooled_observed_.begin(), pooled_observed_.end());
  state.pooled_expected.assign(pooled_expected_.begin(), pooled_expected_.end());
  const auto classes = static_cast<std::ptrdiff_t>(class_count_);
  state.label_counts.assign(label_counts_.begin(), label_counts_.begin() + classes);
  state.label_expected.assign(label_expected_.begin(), label_expected_.begin() + classes);
  return state;
}

bool PastSums::Fits(const PastState& state, std::size_t class_count) {
  return state.weight >= 1 && std::isfinite(state.weight) && state.count >= 0 &&
         std::isfinite(state.count) && state.feature_sums.size() == kFeatureCount &&
         state.witness.size() == kFeatureCount * class_count &&
         state.pooled_observed.size() == kBinCount && state.pooled_expected.size() == kBinCount &&
         state.class_observed.size() == kBinCount * class_count &&
         state.class_expected.size() == kBinCount * class_count &&
         state.label_counts.size() == class_count &&
         (state.label_expected.empty() || state.label_expected.size() == class_count) &&
         IsFinite(state.feature_sums) && IsFinite(state.witness) &&
         AreCounts(state.pooled_observed) && AreCounts(state.pooled_expected) &&
         AreCounts(state.class_observed) && AreCounts(state.class_expected) &&
         AreCounts(state.label_counts) && AreCounts(state.label_expected);
}

void PastSums::Restore(const PastState& state) {
  weight_ = state.weight;
  count_ = state.count;
  std::copy(state.feature_sums.begin(), state.feature_sums.end(), feature_sums_.begin());
  for (std::size_t j = 0; j < kFeatureCount; ++j) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      witness_[WitnessIndex(j, k)] = state.witness[j * class_count_ + k];
    }
  }
  std::copy(state.pooled_observed.begin(), state.pooled_observed.end(), pooled_observed_.begin());
  std::copy(state.pooled_expected.begin(), state.pooled_expected.end(), pooled_expected_.begin());
  std::copy(state.label_counts.begin(), state.label_counts.end(), label_counts_.begin());
  if (!state.label_expected.empty()) {
    std::copy(state.label_expected.begin(), state.label_expected.end(), label_expected_.begin());
    return;
  }
  for (std::size_t k = 0; k < class_count_; ++k) {
    label_expected_[k] = 0;
    for (std::size_t b = 0; b < kBinCount; ++b) {
      label_expected_[k] += state.class_expected[b * class_count_ + k];
    }
  }
}

std::size_t PastSums::Memory(std::size_t class_count) noexcept {
  return sizeof(PastSums) + Padded(class_count) * (kFeatureCount + 2) * sizeof(double);
}

}  // namespace calibd
