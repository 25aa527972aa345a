#include "calibd/core/label_errors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace calibd {
namespace {

// Adds a row, by its labels through add(k, stated, holds), and returns the square of its mean
// error.
template <typename AddLabel>
double AddRow(const MultilabelBatch& batch, std::size_t row, const AddLabel& add) noexcept {
  double absolute_sum = 0;
  for (std::size_t k = 0; k < batch.label_count; ++k) {
    const std::int8_t truth = batch.truths[row * batch.label_count + k];
    if (truth == kMissingTruth) continue;
    const double stated = batch.probabilities[row * batch.label_count + k];
    add(k, stated, truth == 1);
    absolute_sum += std::abs(stated - static_cast<double>(truth));
  }
  const double mean = absolute_sum / static_cast<double>(batch.label_count);
  return mean * mean;
}

}  // namespace

void LabelTotals::Add(const MultilabelBatch& batch) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    row_square_sum += AddRow(batch, i, [this](std::size_t /*k*/, double stated, bool holds) {
      sums.Add(stated, holds);
    });
  }
  rows += static_cast<std::int64_t>(batch.size());
}

void LabelTotals::Merge(const LabelTotals& other) noexcept {
  rows += other.rows;
  sums.Merge(other.sums);
  row_square_sum += other.row_square_sum;
}

void LabelTotals::Subtract(const LabelTotals& earlier) noexcept {
  rows -= earlier.rows;
  sums.Subtract(earlier.sums);
  // Rounding must not make a sum negative.
  row_square_sum = std::max(0.0, row_square_sum - earlier.row_square_sum);
}

double LabelTotals::Brier() const noexcept {
  const std::int64_t known = sums.Total().count;
  return known == 0 ? 0 : sums.square_sum / static_cast<double>(known);
}

std::optional<ErrorInterval> LabelTotals::Interval(std::size_t label_count,
                                                   const ErrorLevels& levels) const noexcept {
  const auto k = static_cast<double>(label_count);
  const ReliabilitySums::Bin total = sums.Total();
  const auto known = static_cast<double>(std::max<std::int64_t>(total.count, 1));
  const double mean_variance = total.variance / known;
  const double share = known / (k * static_cast<double>(std::max<std::int64_t>(rows, 1)));
  const double design = std::sqrt(4 * share * mean_variance + (1 - 4 * mean_variance) / k);
  std::array<WeightedBin, kReliabilityBinCount> bins{};
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    const ReliabilitySums::Bin& sum = sums.bins[b];
    bins[b] = {.count = static_cast<double>(sum.count) / k,
               .stated = sum.confidence / k,
               .deviation = (sum.confidence - static_cast<double>(sum.correct)) / k,
               .variance = design * sum.variance / k};
  }
  return BinnedErrorInterval(bins, row_square_sum, levels);
}

void LabelErrors::Add(const MultilabelBatch& batch) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    row_square_sum += AddRow(batch, i, [this](std::size_t k, double stated, bool holds) {
      labels[k].Add(stated, holds);
    });
  }
  rows += static_cast<std::int64_t>(batch.size());
}

LabelTotals LabelErrors::Totals() const noexcept {
  LabelTotals totals{.rows = rows, .sums = {}, .row_square_sum = row_square_sum};
  for (const ReliabilitySums& label : labels) totals.sums.Merge(label);
  return totals;
}

}  // namespace calibd
