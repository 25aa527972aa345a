#include "calibd/core/forecast_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/normal_mean.h"
#include "base/rng.h"
#include "numbers/pit_levels.h"

namespace calibd {
std::vector<double> ProbabilityIntegralTransforms(const ForecastBatch& batch, std::uint64_t seed) {
  std::vector<double> pit;
  pit.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.row(i);
    const double y = batch.outcomes[i];
    if (batch.kind == ForecastKind::kNormal) {
      pit.push_back(NormalCdf((y - row[0]) / row[1]));
      continue;
    }
    const auto below =
        static_cast<double>(std::ranges::count_if(row, [y](double s) { return s < y; }));
    const auto equal = static_cast<double>(std::ranges::count(row, y));
    const double v = Rng(seed, i).Uniform();
    pit.push_back((below + v * (equal + 1)) / static_cast<double>(row.size() + 1));
  }
  return pit;
}

double QuantileCalibrationError(std::span<const double> pit) noexcept {
  std::array<std::int64_t, kQuantileBins> counts{};
  for (const double u : pit) {
    ++counts[std::min(static_cast<std::size_t>(u * kQuantileBins), kQuantileBins - 1)];
  }
  double sum = 0;
  for (const std::int64_t count : counts) {
    sum += std::abs(static_cast<double>(count) / static_cast<double>(pit.size()) -
                    1.0 / kQuantileBins);
  }
  return 0.5 * sum;
}

double QuantileLevelError(std::span<const double> pit) noexcept {
  PitShares counts{};
  for (const double u : pit) ++counts[FirstLevel(u)];
  return PitLevelError(counts, static_cast<double>(pit.size()));
}

double CramerVonMises(std::span<const double> pit) {
  std::vector<double> sorted(pit.begin(), pit.end());
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double difference = sorted[i] - (static_cast<double>(i) + 0.5) / n;
    sum += difference * difference;
  }
  return 1 / (12 * n * n) + sum / n;
}

std::optional<double> LocalCalibrationError(std::span<const double> pit,
                                            std::span<const double> features,
                                            std::span<const double> x, double gamma) {
  PitShares weights{};
  double total = 0;
  for (std::size_t i = 0; i < pit.size(); ++i) {
    double square = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double difference = features[i * x.size() + k] - x[k];
      square += difference * difference;
    }
    const double weight = std::exp(-gamma * square);
    weights[FirstLevel(pit[i])] += weight;
    total += weight;
  }
  if (total < 1e-300) return std::nullopt;
  return PitLevelError(weights, total);
}

}  // namespace calibd
