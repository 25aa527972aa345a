#include "calibd/core/forecast_generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
#include "base/normal_quantile.h"
#include "base/rng.h"
#include "calibd/core/evidence.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// The spread of the logarithm of the standard deviations.
constexpr double kScaleSpread = 0.35;
constexpr double kMostShift = 100;
constexpr double kLeastScale = 0.01;
constexpr double kMostScale = 100;
// The number of observations that stand for probabilities.
constexpr double kExactCount = 0x1p50;

}  // namespace

absl::StatusOr<ForecastGenerator> ForecastGenerator::Create(ForecastGeneratorSpec spec,
                                                            std::uint64_t seed) {
  CALIBD_RETURN_IF_ERROR(CheckForecastKind(spec.kind));
  if (!(std::abs(spec.errors.shift) <= kMostShift)) {
    return absl::InvalidArgumentError(absl::StrCat("shift is ", spec.errors.shift,
                                                   ", expected a number in [", -kMostShift, ", ",
                                                   kMostShift, "]"));
  }
  if (!(spec.errors.scale >= kLeastScale && spec.errors.scale <= kMostScale)) {
    return absl::InvalidArgumentError(absl::StrCat("scale is ", spec.errors.scale,
                                                   ", expected a number in [", kLeastScale, ", ",
                                                   kMostScale, "]"));
  }
  if (spec.drift_at < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("drift_at is ", spec.drift_at, ", expected a row >= 1"));
  }
  return ForecastGenerator(std::move(spec), seed);
}

ForecastGenerator::ForecastGenerator(ForecastGeneratorSpec spec, std::uint64_t seed)
    : spec_(std::move(spec)), seed_(seed) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&spec_.kind);
  if (quantiles == nullptr) return;
  for (const double level : quantiles->levels) normal_levels_.push_back(NormalQuantile(level));
}

void ForecastGenerator::Draw(std::size_t n, std::vector<double>& forecasts,
                             std::vector<double>& outcomes) {
  for (std::size_t i = 0; i < n; ++i) {
    Rng rng(seed_, static_cast<std::uint64_t>(drawn_++));
    const double mean = StandardNormal(rng);
    const double sd = std::exp(kScaleSpread * StandardNormal(rng));
    const double residual = StandardNormal(rng);
    const LocationScale errors = drawn_ < spec_.drift_at ? LocationScale{} : spec_.errors;
    outcomes.push_back(mean + sd * (errors.shift + errors.scale * residual));
    if (std::holds_alternative<NormalForecasts>(spec_.kind)) {
      forecasts.insert(forecasts.end(), {mean, sd});
      continue;
    }
    for (const double z : normal_levels_) forecasts.push_back(mean + sd * z);
    if (const auto* const samples = std::get_if<SampleForecasts>(&spec_.kind)) {
      for (std::size_t k = 0; k < samples->draws; ++k) {
        forecasts.push_back(mean + sd * StandardNormal(rng));
      }
    }
  }
}

std::optional<ForecastCoverage> ExpectedCoverage(const ForecastGeneratorSpec& spec) {
  const bool samples = std::holds_alternative<SampleForecasts>(spec.kind);
  if (samples && spec.errors != LocationScale{}) return std::nullopt;
  const std::shared_ptr<const ForecastCells> cells =
      *ForecastCells::Create(spec.kind, {}, 0, kDefaultTolerance);
  ForecastCounts counts(cells->cell_count());
  double below = 0;
  for (std::size_t c = 0; c < cells->cell_count(); ++c) {
    double probability = cells->probabilities()[c];
    if (!samples) {
      const bool last = c + 1 == cells->cell_count();
      const double up_to = last
                               ? 1
                               : NormalCdf((NormalQuantile(cells->edges()[c]) - spec.errors.shift) /
                                           spec.errors.scale);
      probability = up_to - below;
      below = up_to;
    }
    // In the first stratum of each kind.
    for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
      counts.strata[kind * kForecastStrata * cells->cell_count() + c] =
          std::llround(kExactCount * std::max(0.0, probability));
    }
  }
  return CoverageOf(*cells, counts, {});
}

}  // namespace calibd
