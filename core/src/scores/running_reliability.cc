#include "calibd/core/running_reliability.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "scores/row_scores.h"

namespace calibd {
namespace {

double Standardised(std::int64_t observed, double expected, double variance) noexcept {
  return variance > 0 ? (static_cast<double>(observed) - expected) / std::sqrt(variance) : 0;
}

}  // namespace

bool StandsOut(double deviation, double variance, std::size_t places) noexcept {
  const double t = std::abs(deviation);
  // False for NaN, and if only rounding deviates.
  if (!(t > 0 && variance > 0)) return false;
  const double exponent = (variance + t) * std::log1p(t / variance) - t;
  return exponent >= std::log(2 * static_cast<double>(places) / kStandOutLevel);
}

double ReliabilitySums::Bin::Z() const noexcept {
  return Standardised(correct, confidence, variance);
}

bool ReliabilitySums::Bin::StandsOut(std::size_t places) const noexcept {
  return count >= kLeastStandOut &&
         calibd::StandsOut(static_cast<double>(correct) - confidence, variance, places);
}

void RunningReliability::Add(const PredictionBatch& batch) noexcept {
  RowScores scores;
  double brier_sum = brier;
  double log_loss_sum = log_loss;
  for (std::size_t begin = 0; begin < batch.size(); begin += kMaxScoredRows) {
    const PredictionBatch rows = batch.rows(begin, std::min(kMaxScoredRows, batch.size() - begin));
    ComputeRowScores(rows, scores);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      // The sum of a row may exceed 1 by the tolerance, and so may a probability.
      const double c = std::min(scores.confidence[i], 1.0);
      ReliabilitySums::Add(c, scores.predicted_class[i] == static_cast<double>(rows.labels[i]));
      brier_sum += scores.brier[i];
      log_loss_sum += scores.log_loss[i];
    }
  }
  brier = brier_sum;
  log_loss = log_loss_sum;
}

void ReliabilitySums::AddClass(const PredictionBatch& batch, std::size_t k) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    // A probability may exceed 1 by the tolerance of the row sum.
    Add(std::min(batch.row(i)[k], 1.0), batch.labels[i] == static_cast<std::int32_t>(k));
  }
}

void ReliabilitySums::Merge(const ReliabilitySums& other) noexcept {
  for (std::size_t b = 0; b < bins.size(); ++b) {
    bins[b].count += other.bins[b].count;
    bins[b].correct += other.bins[b].correct;
    bins[b].confidence += other.bins[b].confidence;
    bins[b].variance += other.bins[b].variance;
  }
  square_sum += other.square_sum;
}

void ReliabilitySums::Subtract(const ReliabilitySums& earlier) noexcept {
  for (std::size_t b = 0; b < bins.size(); ++b) {
    bins[b].count -= earlier.bins[b].count;
    bins[b].correct -= earlier.bins[b].correct;
    // Rounding must not make a sum negative.
    bins[b].confidence = std::max(0.0, bins[b].confidence - earlier.bins[b].confidence);
    bins[b].variance = std::max(0.0, bins[b].variance - earlier.bins[b].variance);
  }
  square_sum = std::max(0.0, square_sum - earlier.square_sum);
}

double ReliabilitySums::MaxSquareSum() const noexcept {
  constexpr double kBins = kReliabilityBinCount;
  double sum = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const double lower = static_cast<double>(b) / kBins;
    const double upper = static_cast<double>(b + 1) / kBins;
    const auto correct = static_cast<double>(bins[b].correct);
    sum += correct * (1 - lower) * (1 - lower) +
           (static_cast<double>(bins[b].count) - correct) * upper * upper;
  }
  return sum;
}

void RunningReliability::Merge(const RunningReliability& other) noexcept {
  ReliabilitySums::Merge(other);
  brier += other.brier;
  log_loss += other.log_loss;
}

ReliabilitySums::Bin ReliabilitySums::Total() const noexcept {
  Bin total;
  for (const Bin& bin : bins) {
    total.count += bin.count;
    total.correct += bin.correct;
    total.confidence += bin.confidence;
    total.variance += bin.variance;
  }
  return total;
}

double ReliabilitySums::ExpectedCalibrationError() const noexcept {
  double sum = 0;
  std::int64_t count = 0;
  for (const Bin& bin : bins) {
    sum += std::abs(bin.confidence - static_cast<double>(bin.correct));
    count += bin.count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double RunningClassFrequencies::Class::Z() const noexcept {
  return Standardised(labels, predicted, variance);
}

bool RunningClassFrequencies::Class::StandsOut(std::size_t places) const noexcept {
  return calibd::StandsOut(static_cast<double>(labels) - predicted, variance, places);
}

void RunningClassFrequencies::Add(const PredictionBatch& batch) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    for (std::size_t k = 0; k < g.size(); ++k) {
      classes_[k].predicted += g[k];
      classes_[k].variance += g[k] * (1 - g[k]);
    }
    ++classes_[static_cast<std::size_t>(batch.labels[i])].labels;
  }
}

std::vector<std::size_t> RunningClassFrequencies::MostDeviating(std::size_t count) const {
  std::vector<std::size_t> order(classes_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> size;
  size.reserve(classes_.size());
  for (const Class& one : classes_) size.push_back(std::abs(one.Z()));
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return size[a] != size[b] ? size[a] > size[b] : a < b;
  });
  order.erase(std::find_if(order.begin(), end, [&](std::size_t k) { return size[k] == 0; }),
              order.end());
  return order;
}

}  // namespace calibd
