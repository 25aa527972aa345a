#include "published_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>

#include "calibd/core/binned_error.h"

namespace calibd::reproduce {
namespace {

constexpr std::size_t kClassRows = 8;
constexpr std::size_t kNumberRows = 128;
constexpr int kDraws = 10;
constexpr std::size_t kQuantileBins = 20;

// Counts of outcomes by their sign.
struct Signs {
  double negative = 0;
  double positive = 0;
  double count = 0;

  void Add(double value) {
    negative += value < 0 ? 1 : 0;
    positive += value > 0 ? 1 : 0;
    ++count;
  }
};

}  // namespace

double PublishedEce(const PredictionBatch& batch) {
  const std::size_t batches = batch.size() / kClassRows;
  double sum = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    sum += EstimateBinnedError(batch.rows(b * kClassRows, kClassRows), TopLabelBins{20})->ece;
  }
  return sum / static_cast<double>(batches);
}

double PublishedDce(std::span<const double> outcomes, std::span<const double> below_zero,
                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  double sum = 0;
  for (std::size_t first = 0; first + kNumberRows <= outcomes.size(); first += kNumberRows) {
    Signs observed;
    Signs draws;
    for (std::size_t i = first; i < first + kNumberRows; ++i) {
      observed.Add(outcomes[i]);
      for (int k = 0; k < kDraws; ++k) draws.Add(uniform(random) < below_zero[i] ? -1 : 1);
    }
    const double negative = observed.negative / observed.count - draws.negative / draws.count;
    const double positive = observed.positive / observed.count - draws.positive / draws.count;
    sum += negative * negative + positive * positive;
  }
  return std::sqrt(sum);
}

double LeastPublishedDce(std::span<const double> outcomes) {
  // With the share z of outcomes 0, forecasts that are negative with the probability q leave
  // q^2 + (z - q)^2, which is smallest for q = z / 2.
  double sum = 0;
  for (std::size_t first = 0; first + kNumberRows <= outcomes.size(); first += kNumberRows) {
    const auto batch = outcomes.subspan(first, kNumberRows);
    const double share =
        static_cast<double>(std::count(batch.begin(), batch.end(), 0.0)) / kNumberRows;
    sum += share * share / 2;
  }
  return std::sqrt(sum);
}

double PublishedQce(std::span<const double> pit) {
  std::array<double, kQuantileBins> counts{};
  for (const double u : pit) {
    const auto bin = static_cast<std::size_t>(std::nearbyint(u * kQuantileBins));
    ++counts[std::min(bin, kQuantileBins - 1)];
  }
  double sum = 0;
  for (const double count : counts) {
    sum += std::abs(count / static_cast<double>(pit.size()) - 1.0 / kQuantileBins);
  }
  return sum / 2;
}

double PublishedLogScore(std::span<const double> at, std::span<const double> beyond) {
  double sum = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    sum -= std::log((beyond[i] - at[i] + 1e-10) / kPublishedStep);
  }
  return sum / static_cast<double>(at.size());
}

}  // namespace calibd::reproduce
