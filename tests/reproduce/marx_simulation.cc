#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/consistency_resampling.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/forecast_forms.h"
#include "calibd/core/forecast_metrics.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/local_calibration.h"
#include "check.h"
#include "marx.h"

namespace calibd::reproduce {
namespace {

constexpr std::size_t kRows = 40;
constexpr std::int32_t kReplicates = 99;

// Normal forecasts of a number, with one feature each.
struct NumberRows {
  std::vector<double> forecasts;
  std::vector<double> features;
  std::vector<double> outcomes;

  [[nodiscard]] ForecastBatch view() const {
    return {ForecastKind::kNormal, forecasts, 2, {}, outcomes};
  }
};

// Maps a feature and a standard normal variable to (outcome - mean) / standard deviation.
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

// The p-value of an exact test of core.
using Test = std::function<double(const NumberRows&, std::uint64_t seed)>;

BootstrapOptions Resampling(std::uint64_t seed) {
  return {.replicates = kReplicates, .seed = seed, .null = NullHypothesis::kForecast};
}

double TestBatch(const ForecastBatch& batch, const OutcomeKernel& kernel,
                 const Condition& condition, std::uint64_t seed) {
  return TestForecasts(batch, {kernel, condition, Resampling(seed)})->p_value;
}

// A test with this kernel of the outcomes, given nothing, the forecast, the feature, or its sign.
enum class Given { kNothing, kForecast, kFeature, kGroup };
Test Discrepancy(const OutcomeKernel& kernel, Given given) {
  return [=](const NumberRows& rows, std::uint64_t seed) {
    Condition condition = NoCondition();
    if (given == Given::kForecast) condition = ForecastCondition{.bandwidth = {}, .gamma = .5};
    if (given == Given::kFeature) condition = FeatureCondition{rows.features, .5};
    if (given == Given::kGroup) {
      GroupCondition groups;
      for (const double feature : rows.features) groups.groups.push_back(feature > 0 ? 1 : 0);
      condition = std::move(groups);
    }
    return TestBatch(rows.view(), kernel, condition, seed);
  };
}

Test OfPit(SimulatedStatistic PitTests::*metric) {
  return [=](const NumberRows& rows, std::uint64_t seed) {
    const std::vector<double> pit = ProbabilityIntegralTransforms(rows.view(), seed);
    return ((*TestPit(pit, Resampling(seed))).*metric).test.p_value;
  };
}

LocalCalibration LocalOf(const NumberRows& rows, std::uint64_t seed) {
  const std::vector<double> pit = ProbabilityIntegralTransforms(rows.view(), seed);
  return *TestLocalCalibration(pit, FeatureCondition{rows.features, .5}, Resampling(seed));
}

// The mean local calibration error, and the largest one.
double TestLocalError(const NumberRows& rows, std::uint64_t seed) {
  return LocalOf(rows, seed).mean_error.test.p_value;
}
double TestLargestLocalError(const NumberRows& rows, std::uint64_t seed) {
  return LocalOf(rows, seed).worst.front().p_value;
}

double TestDecision(const NumberRows& rows, std::uint64_t seed) {
  return TestThreshold(rows.view(), ThresholdDecision{.2}, Resampling(seed))->given_action.p_value;
}

// Given the quantiles of these forecasts at the levels .1, .5 and .9.
double TestQuantiles(const NumberRows& rows, std::uint64_t seed) {
  std::vector<double> quantiles;
  for (std::size_t i = 0; i < rows.outcomes.size(); ++i) {
    for (const double z : {-1.2815515655446004, 0.0, 1.2815515655446004}) {
      quantiles.push_back(rows.forecasts[2 * i] + z * rows.forecasts[2 * i + 1]);
    }
  }
  return TestBatch({ForecastKind::kQuantiles, quantiles, 3, {}, rows.outcomes},
                   LevelsKernel{{.1, .5, .9}}, ForecastCondition{.bandwidth = {}, .gamma = .5},
                   seed);
}

// The share of runs with p <= .05. p_value: returns the p-value of a run from its generator.
double RejectedShare(std::size_t runs,
                     const std::function<double(std::mt19937_64& random)>& p_value) {
  std::vector<double> rejected(runs);
  OnAllProcessors(runs, [&](std::size_t run) {
    std::mt19937_64 random(run);
    rejected[run] = p_value(random) <= .05 ? 1 : 0;
  });
  return MeanOf(rejected).mean;
}

double RejectedShare(std::size_t runs, Residual residual, const Test& test) {
  return RejectedShare(runs, [&](std::mt19937_64& random) {
    const NumberRows rows = DrawRows(residual, random);
    return test(rows, random());
  });
}

// The p-value of exchanging the outcome with draws from its forecast, of calibrated samples.
double ExchangeTest(std::mt19937_64& random) {
  constexpr std::size_t kDraws = 5;
  std::normal_distribution<double> normal;
  std::vector<double> draws;
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < kRows; ++i) {
    const double mean = normal(random);
    for (std::size_t s = 0; s < kDraws; ++s) draws.push_back(mean + normal(random));
    outcomes.push_back(mean + normal(random));
  }
  return TestBatch({ForecastKind::kSamples, draws, kDraws, {}, outcomes}, RbfKernel{.5},
                   ForecastCondition{.bandwidth = {}, .gamma = .5}, random());
}

// Predictions of three classes whose labels are drawn from them.
PredictionSet DrawClasses(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  PredictionSet set{{}, {}, 3};
  for (std::size_t i = 0; i < kRows; ++i) {
    std::array<double, 3> row;
    for (double& value : row) value = std::exp(normal(random));
    const double sum = row[0] + row[1] + row[2];
    for (double& value : row) set.probabilities.push_back(value / sum);
    std::discrete_distribution<std::int32_t> label(row.begin(), row.end());
    set.labels.push_back(label(random));
  }
  return set;
}

using ClassTest = std::function<double(const PredictionBatch&, std::uint64_t seed)>;

ClassTest OfLens(const Lens& lens) {
  return [=](const PredictionBatch& batch, std::uint64_t seed) {
    const LensTestOptions options{.kernel = KernelOfLens(lens, {}),
                                  .replicates = kReplicates,
                                  .seed = seed,
                                  .null = NullHypothesis::kForecast};
    return TestLens(batch, lens, options)->test.p_value;
  };
}

double TestBinnedError(const PredictionBatch& batch, std::uint64_t seed) {
  return ConsistencyTest(batch, TopLabelBins{10}, Resampling(seed))->p_value;
}

// The estimate of the squared calibration error after its parameter was tuned.
double TestSelection(const PredictionBatch& batch, std::uint64_t seed) {
  SelectionOptions options;
  options.estimators = {{EstimatorKind::kBins, {2, 5, 10}}};
  options.seed = seed;
  options.replicates = kReplicates;
  return SelectEstimator(batch, options)->simulation->p_value;
}

}  // namespace

void ReproduceExactness() {
  constexpr std::size_t kRuns = 1000;
  const auto check = [](const std::string& what, double share, double least, double most) {
    Verdict(absl::StrFormat("F1 calibrated %s, share of p <= .05: %.4f, expected %.3f to %.3f",
                            what, share, least, most),
            share >= least && share <= most);
  };
  const Residual calibrated = [](double, double normal) { return normal; };
  const std::pair<const char*, Test> tests[] = {
      {"distribution", Discrepancy(RbfKernel{.5}, Given::kForecast)},
      {"individual", Discrepancy(RbfKernel{.5}, Given::kFeature)},
      {"marginal, energy", Discrepancy(EnergyKernel(), Given::kNothing)},
      {"group", Discrepancy(RbfKernel{.5}, Given::kGroup)},
      {"moments given the forecast", Discrepancy(MomentsKernel(), Given::kForecast)},
      {"decision, threshold", Discrepancy(ThresholdKernel{.2}, Given::kNothing)},
      {"decision given the action", TestDecision},
      {"decision, tanh", Discrepancy(TanhKernel{.2, 1}, Given::kForecast)},
      {"quantile, pit_rbf", Discrepancy(PitRbfKernel{2}, Given::kNothing)},
      {"QCE", OfPit(&PitTests::quantile_calibration_error)},
      {"levels", OfPit(&PitTests::quantile_level_error)},
      {"Cramer-von Mises", OfPit(&PitTests::cramer_von_mises)},
      {"LCE", TestLocalError},
      {"largest LCE", TestLargestLocalError},
      {"quantiles, levels", TestQuantiles}};
  for (const auto& [name, test] : tests) {
    check(std::string("forecasts, ") + name, RejectedShare(kRuns, calibrated, test), .022, .078);
  }
  const std::pair<const char*, ClassTest> class_tests[] = {
      {"canonical", OfLens(Lens::Canonical())},
      {"top_label", OfLens(Lens::TopLabel())},
      {"class_wise", OfLens(Lens::ClassWise())},
      {"ECE", TestBinnedError},
      {"tuned bins", TestSelection}};
  for (const auto& entry : class_tests) {
    const double share = RejectedShare(kRuns, [&](std::mt19937_64& random) {
      const PredictionSet set = DrawClasses(random);
      return entry.second(set.view(), random());
    });
    check(std::string("classes, ") + entry.first, share, .022, .078);
  }
  check("samples, distribution", RejectedShare(2000, ExchangeTest), .03, .07);
}

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
    Test test;
    std::array<double, 3> expected;
  };
  const Form forms[] = {
      {"distribution", Discrepancy(RbfKernel{.5}, Given::kForecast), {.45, .68, .17}},
      {"individual", Discrepancy(RbfKernel{.5}, Given::kFeature), {.42, .62, .74}},
      {"pit_min", OfPit(&PitTests::cramer_von_mises), {.28, .82, .07}},
      {"energy", Discrepancy(EnergyKernel(), Given::kNothing), {.36, .81, .12}},
      {"threshold", Discrepancy(ThresholdKernel{.2}, Given::kNothing), {.05, .64, .06}}};
  for (std::size_t a = 0; a < alternatives.size(); ++a) {
    for (const Form& form : forms) {
      Near(absl::StrFormat("F2 %s, share of p <= .05 by %s", alternatives[a].name, form.name),
           RejectedShare(400, alternatives[a].residual, form.test), form.expected[a], .1);
    }
  }
}

}  // namespace calibd::reproduce
