#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/calibration_loss.h"
#include "check.h"
#include "marx.h"

namespace calibd::reproduce {
namespace {

constexpr std::size_t kRows = 40;
constexpr int kReplicates = 99;
constexpr double kLevel = .05;

// Normal forecasts of a number, with one feature each.
struct NumberRows {
  std::vector<double> forecasts;
  std::vector<double> features;
  std::vector<double> outcomes;

  [[nodiscard]] ForecastBatch view() const {
    return {ForecastKind::kNormal, forecasts, 2, {}, outcomes};
  }
};

// From a feature and a standard normal variable to (outcome - mean) / standard deviation.
using Residual = double (*)(double feature, double normal);

NumberRows DrawRows(Residual residual, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(.5, 1.5);
  NumberRows rows;
  for (std::size_t i = 0; i < kRows; ++i) {
    const double feature = normal(random);
    const double mean = .3 * feature + .5 * normal(random);
    const double sd = uniform(random);
    rows.features.push_back(feature);
    rows.forecasts.push_back(mean);
    rows.forecasts.push_back(sd);
    rows.outcomes.push_back(mean + sd * residual(feature, normal(random)));
  }
  return rows;
}

using Statistic = std::function<double(const NumberRows&)>;

// MMD^2 with this kernel of the outcomes, given nothing, the forecast, or the feature.
enum class Given { kNothing, kForecast, kFeature };
Statistic Discrepancy(const OutcomeKernel& kernel, Given given, bool biased = false) {
  return [=](const NumberRows& rows) {
    LossOptions options{.lens = Lens::Canonical(),
                        .outcome_kernel = kernel,
                        .condition = NoCondition(),
                        .biased = biased,
                        .mmd_weight = {},
                        .gradient = false};
    if (given == Given::kForecast) {
      options.condition = ForecastCondition{.bandwidth = {}, .gamma = .5};
    }
    if (given == Given::kFeature) options.condition = FeatureCondition{rows.features, .5};
    return ComputeLoss(rows.view(), options)->mmd_squared;
  };
}

// The exact p-value: outcomes that are drawn from the forecasts replace those of the rows.
double PValue(NumberRows rows, const Statistic& statistic, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const double measured = statistic(rows);
  int exceedances = 0;
  for (int r = 0; r < kReplicates; ++r) {
    for (std::size_t i = 0; i < kRows; ++i) {
      rows.outcomes[i] = rows.forecasts[2 * i] + rows.forecasts[2 * i + 1] * normal(random);
    }
    if (statistic(rows) >= measured) ++exceedances;
  }
  return (1.0 + exceedances) / (1 + kReplicates);
}

// The share of runs with p <= kLevel.
double RejectedShare(Residual residual, const Statistic& statistic, std::size_t runs) {
  std::vector<double> rejected(runs);
  OnAllProcessors(runs, [&](std::size_t run) {
    std::mt19937_64 random(run);
    const NumberRows rows = DrawRows(residual, random);
    rejected[run] = PValue(rows, statistic, random) <= kLevel ? 1 : 0;
  });
  return MeanOf(rejected).mean;
}

}  // namespace

void ReproducePower() {
  struct Alternative {
    const char* name;
    Residual residual;
  };
  const std::array<Alternative, 3> alternatives = {
      {{"sd x 1.5", [](double, double z) { return 1.5 * z; }},
       {"bias .5 sd", [](double, double z) { return z + .5; }},
       {"bias .7 sd sign(x)",
        [](double x, double z) { return std::copysign(.7, x) + std::sqrt(.51) * z; }}}};
  struct Form {
    const char* name;
    Statistic statistic;
    std::array<double, 3> expected;
  };
  const Form forms[] = {
      {"distribution", Discrepancy(RbfKernel{.5}, Given::kForecast), {.45, .68, .17}},
      {"individual", Discrepancy(RbfKernel{.5}, Given::kFeature), {.42, .62, .74}},
      {"pit_min", Discrepancy(PitMinKernel(), Given::kNothing, true), {.28, .82, .07}},
      {"energy", Discrepancy(EnergyKernel(), Given::kNothing), {.36, .81, .12}},
      {"threshold", Discrepancy(ThresholdKernel{.2}, Given::kNothing), {.05, .64, .06}}};
  for (std::size_t a = 0; a < alternatives.size(); ++a) {
    for (const Form& form : forms) {
      Near(absl::StrFormat("F2 %s, share of p <= .05 by %s", alternatives[a].name, form.name),
           RejectedShare(alternatives[a].residual, form.statistic, 400), form.expected[a], .1);
    }
  }
}

}  // namespace calibd::reproduce
