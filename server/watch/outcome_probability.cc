#include "server/watch/outcome_probability.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <variant>

namespace calibd::server {
namespace {

// A single-precision number differs from its decimal form by up to 6e-8 of its value.
constexpr double kUnitError = 1e-7;
constexpr int kMostUnitDigits = 6;

double NormalShareBelow(double t) noexcept { return std::erfc(-t / std::numbers::sqrt2) / 2; }

// The share of the forecast up to a value. Beyond the outer quantiles it is only known to be
// between 0 and the first level, or between the last level and 1: `least` says which end is meant,
// and also that of several equal quantiles.
double QuantileShareBelow(std::span<const double> levels, std::span<const double> quantiles,
                          double value, bool least) noexcept {
  const auto bound = least ? std::ranges::lower_bound(quantiles, value)
                           : std::ranges::upper_bound(quantiles, value);
  const auto k = static_cast<std::size_t>(bound - quantiles.begin());
  if (k == 0) return least ? 0 : levels.front();
  if (k == quantiles.size()) return least ? levels.back() : 1;
  const double part = (value - quantiles[k - 1]) / (quantiles[k] - quantiles[k - 1]);
  return std::lerp(levels[k - 1], levels[k], part);
}

struct Probability {
  std::span<const double> row;
  double low;
  double high;

  double operator()(const NormalForecasts& /*kind*/) const noexcept {
    return NormalShareBelow((high - row[0]) / row[1]) - NormalShareBelow((low - row[0]) / row[1]);
  }
  double operator()(const QuantileForecasts& kind) const noexcept {
    return QuantileShareBelow(kind.levels, row, high, /*least=*/false) -
           QuantileShareBelow(kind.levels, row, low, /*least=*/true);
  }
  double operator()(const SampleForecasts& /*kind*/) const noexcept {
    const auto equal =
        std::ranges::count_if(row, [this](double draw) { return draw >= low && draw <= high; });
    return static_cast<double>(equal + 1) / static_cast<double>(row.size() + 1);
  }
};

}  // namespace

double DecimalUnit(double value) noexcept {
  if (value == 0) return std::numeric_limits<double>::infinity();
  const double size = std::abs(value);
  const int exponent = static_cast<int>(std::floor(std::log10(size)));
  for (int e = exponent; e > exponent - kMostUnitDigits; --e) {
    // Powers with a negative exponent are not exact.
    const double scaled = e < 0 ? size * std::pow(10, -e) : size / std::pow(10, e);
    if (std::abs(scaled - std::round(scaled)) <= kUnitError * scaled) return std::pow(10, e);
  }
  return 0;
}

double ProbabilityOfOutcome(const NumberForecastKind& kind, std::span<const double> row,
                            double outcome) noexcept {
  if (outcome == 0) return 1;
  const double half = DecimalUnit(outcome) / 2;
  return std::clamp(std::visit(Probability{row, outcome - half, outcome + half}, kind), 0.0, 1.0);
}

}  // namespace calibd::server
