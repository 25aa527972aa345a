#include "calibd/core/label_errors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace calibd {

void LabelErrors::Add(const MultilabelBatch& batch) noexcept {
  const std::size_t label_count = labels.size();
  const std::size_t count = batch.size();
  for (std::size_t i = 0; i < count; ++i) {
    double absolute_sum = 0;
    for (std::size_t k = 0; k < label_count; ++k) {
      const std::int8_t truth = batch.truths[i * label_count + k];
      if (truth == kMissingTruth) continue;
      const double stated = batch.probabilities[i * label_count + k];
      labels[k].Add(stated, truth == 1);
      absolute_sum += truth == 1 ? 1 - stated : stated;
    }
    const double mean = absolute_sum / static_cast<double>(label_count);
    row_square_sum += mean * mean;
  }
  rows += static_cast<std::int64_t>(count);
}

void LabelErrors::Merge(const LabelErrors& other) noexcept {
  rows += other.rows;
  row_square_sum += other.row_square_sum;
  for (std::size_t k = 0; k < labels.size(); ++k) labels[k].Merge(other.labels[k]);
}

void LabelErrors::Subtract(const LabelErrors& earlier) noexcept {
  rows -= earlier.rows;
  row_square_sum = std::max(0.0, row_square_sum - earlier.row_square_sum);
  for (std::size_t k = 0; k < labels.size(); ++k) labels[k].Subtract(earlier.labels[k]);
}

std::int64_t LabelErrors::KnownTruths() const noexcept {
  std::int64_t known = 0;
  for (const ReliabilitySums& sums : labels) known += sums.Total().count;
  return known;
}

double LabelErrors::Brier() const noexcept {
  double sum = 0;
  for (const ReliabilitySums& sums : labels) sum += sums.square_sum;
  const std::int64_t known = KnownTruths();
  return known == 0 ? 0 : sum / static_cast<double>(known);
}

std::optional<ErrorInterval> LabelErrors::IntervalOfAll(const ErrorLevels& levels) const {
  const auto label_count = static_cast<double>(labels.size());
  std::array<WeightedBin, kReliabilityBinCount> bins{};
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    ReliabilitySums::Bin sum;
    for (const ReliabilitySums& label : labels) {
      sum.count += label.bins[b].count;
      sum.correct += label.bins[b].correct;
      sum.confidence += label.bins[b].confidence;
    }
    bins[b] = {.count = static_cast<double>(sum.count) / label_count,
               .stated = sum.confidence / label_count,
               .deviation = (sum.confidence - static_cast<double>(sum.correct)) / label_count};
  }
  return BinnedErrorInterval(bins, row_square_sum, levels);
}

bool LabelErrors::IsValid() const noexcept {
  const auto is_valid = [this](const ReliabilitySums& sums) {
    for (const ReliabilitySums::Bin& bin : sums.bins) {
      // Written so that NaN fails the checks too.
      const auto n = static_cast<double>(bin.count);
      if (bin.count < 0 || bin.count > rows || bin.correct < 0 || bin.correct > bin.count ||
          !(bin.confidence >= 0 && bin.confidence <= n + 1) ||
          !(bin.variance >= 0 && bin.variance <= n + 1)) {
        return false;
      }
    }
    return sums.square_sum >= 0 && sums.square_sum <= static_cast<double>(rows) + 1;
  };
  return rows >= 0 && row_square_sum >= 0 && row_square_sum <= static_cast<double>(rows) + 1 &&
         std::ranges::all_of(labels, is_valid);
}

}  // namespace calibd
