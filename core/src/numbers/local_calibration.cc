#include "calibd/core/local_calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "base/rng.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"
#include "numbers/pit_levels.h"

namespace calibd {
namespace {

// Replicates that are smaller only by rounding are ties, as in the other tests of the transforms.
constexpr double kLocalTie = 1e-12;

// The weights of the rows at each place.
class Weights {
 public:
  Weights(const FeatureCondition& condition, std::size_t n, std::size_t places)
      : rows_(n), places_(places), values_(n * places), totals_(places), squares_(places) {
    const std::size_t d = condition.values.size() / n;
    for (std::size_t i = 0; i < n; ++i) {
      const double* const x = &condition.values[i * d];
      for (std::size_t p = 0; p < places; ++p) {
        const double* const at = &condition.values[row(p) * d];
        double square = 0;
        for (std::size_t k = 0; k < d; ++k) square += (x[k] - at[k]) * (x[k] - at[k]);
        const auto weight = static_cast<float>(std::exp(-*condition.gamma * square));
        values_[i * places + p] = weight;
        totals_[p] += static_cast<double>(weight);
        squares_[p] += static_cast<double>(weight) * static_cast<double>(weight);
      }
    }
  }

  // The row of a place.
  [[nodiscard]] std::size_t row(std::size_t place) const noexcept {
    return (2 * place + 1) * rows_ / (2 * places_);
  }
  [[nodiscard]] std::size_t places() const noexcept { return places_; }
  // The weight of the row of the place is 1, so the total is at least 1.
  [[nodiscard]] double total(std::size_t place) const noexcept { return totals_[place]; }
  [[nodiscard]] double effective_rows(std::size_t place) const noexcept {
    return totals_[place] * totals_[place] / squares_[place];
  }

  // The weight of the row of one place at the other.
  [[nodiscard]] double between(std::size_t place, std::size_t other) const noexcept {
    return static_cast<double>(values_[row(place) * places_ + other]);
  }

  // The weights between the levels at each place; level_of(i) is FirstLevel of the transform of row
  // i.
  template <typename LevelOf>
  [[nodiscard]] std::vector<PitShares> Shares(const LevelOf& level_of) const {
    std::vector<double> by_level(PitShares().size() * places_);
    for (std::size_t i = 0; i < rows_; ++i) {
      double* const sums = &by_level[level_of(i) * places_];
      const float* const weights = &values_[i * places_];
      for (std::size_t p = 0; p < places_; ++p) sums[p] += static_cast<double>(weights[p]);
    }
    std::vector<PitShares> shares(places_);
    for (std::size_t level = 0; level < shares[0].size(); ++level) {
      for (std::size_t p = 0; p < places_; ++p) shares[p][level] = by_level[level * places_ + p];
    }
    return shares;
  }

 private:
  std::size_t rows_;
  std::size_t places_;
  // n x places.
  std::vector<float> values_;
  std::vector<double> totals_;
  std::vector<double> squares_;
};

// The variance of the share of uniform transforms up to a level, averaged over the levels.
double MeanVariance() {
  double sum = 0;
  for (std::size_t level = 1; level <= kLevels; ++level) {
    const double share = static_cast<double>(level) / kQuantileBins;
    sum += share * (1 - share);
  }
  return sum / kLevels;
}

LocalPlace Describe(const Weights& weights, std::size_t p, const PitShares& shares) {
  LocalPlace place;
  place.row = weights.row(p);
  place.error = PitLevelError(shares, weights.total(p));
  place.effective_rows = weights.effective_rows(p);
  place.expected_error = MeanVariance() / place.effective_rows;
  const auto share = [&](std::size_t from, std::size_t to) {
    return std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(from),
                           shares.begin() + static_cast<std::ptrdiff_t>(to), 0.0) /
           weights.total(p);
  };
  place.below_median = share(0, kQuantileBins / 2);
  place.inside_50 = share(kQuantileBins / 4, 3 * kQuantileBins / 4);
  place.inside_90 = share(1, kQuantileBins - 1);
  return place;
}

double RatioOf(const LocalPlace& place) { return place.error / place.expected_error; }

struct Summary {
  double mean = 0;
  double largest_ratio = 0;
};

Summary Summarize(const std::vector<LocalPlace>& places) {
  Summary summary;
  for (const LocalPlace& place : places) {
    summary.mean += place.error / static_cast<double>(places.size());
    summary.largest_ratio = std::max(summary.largest_ratio, RatioOf(place));
  }
  return summary;
}

std::vector<LocalPlace> DescribeAll(const Weights& weights, const std::vector<PitShares>& shares) {
  std::vector<LocalPlace> places;
  for (std::size_t p = 0; p < weights.places(); ++p) {
    places.push_back(Describe(weights, p, shares[p]));
  }
  return places;
}

// The places with the largest ratios, without those that are near one with a larger ratio.
std::vector<LocalPlace> FindWorst(const Weights& weights, const std::vector<LocalPlace>& places) {
  constexpr double kNear = 0.5;
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t p) { return RatioOf(places[p]); });
  std::vector<std::size_t> kept;
  for (const std::size_t p : order) {
    if (kept.size() == kMostLocalPlaces) break;
    const bool is_near = std::ranges::any_of(
        kept, [&](std::size_t other) { return weights.between(p, other) > kNear; });
    if (!is_near) kept.push_back(p);
  }
  std::vector<LocalPlace> worst;
  worst.reserve(kept.size());
  for (const std::size_t p : kept) worst.push_back(places[p]);
  return worst;
}

}  // namespace

std::size_t LocalPlaceCount(std::size_t n) noexcept {
  return std::min(n, std::clamp<std::size_t>(2000000 / std::max<std::size_t>(n, 1), 10, 100));
}

absl::StatusOr<LocalCalibration> TestLocalCalibration(std::span<const double> pit,
                                                      const FeatureCondition& condition,
                                                      const BootstrapOptions& resampling,
                                                      const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(resampling));
  if (resampling.null != NullHypothesis::kForecast) {
    return absl::InvalidArgumentError("null is form, expected forecast: the test is exact");
  }
  const Weights weights(condition, pit.size(), LocalPlaceCount(pit.size()));
  const std::vector<LocalPlace> places =
      DescribeAll(weights, weights.Shares([&](std::size_t i) { return FirstLevel(pit[i]); }));
  const Summary observed = Summarize(places);

  const auto count = static_cast<std::size_t>(resampling.replicates);
  std::vector<double> means(count);
  std::vector<double> ratios(count);
  CALIBD_RETURN_IF_ERROR(RunReplicates(count, control, [&](std::size_t r) {
    Rng rng(resampling.seed, r);
    const Summary drawn = Summarize(DescribeAll(
        weights, weights.Shares([&](std::size_t /*i*/) { return FirstLevel(rng.Uniform()); })));
    means[r] = drawn.mean;
    ratios[r] = drawn.largest_ratio;
  }));

  LocalCalibration result;
  result.mean_error = {observed.mean,
                       CompareWithReplicates(observed.mean - kLocalTie, means, resampling)};
  result.place_count = places.size();
  result.worst = FindWorst(weights, places);
  for (LocalPlace& place : result.worst) {
    place.p_value = CompareWithReplicates(RatioOf(place) - kLocalTie, ratios, resampling).p_value;
  }
  return result;
}

}  // namespace calibd
