#include "marx_post_hoc.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/forecast_metrics.h"
#include "calibd/core/forecast_recalibration.h"
#include "calibd/core/moments.h"
#include "marx.h"
#include "published_metrics.h"

namespace calibd::reproduce {
namespace {

constexpr const char* kQuantileMetric = "post-hoc QCE, rounded bins";
constexpr const char* kDecisionMetric = "post-hoc DCE of batches";
constexpr const char* kLogMetric = "post-hoc NLL";
constexpr std::size_t kRepetitions = 400;

// R: linear between the levels, with the shares 0 and 1 at the ends.
struct LevelMap {
  std::vector<double> levels;
  std::vector<double> shares;

  [[nodiscard]] double At(double level) const {
    const auto next = std::ranges::lower_bound(levels, level);
    if (next == levels.begin()) return 0;
    if (next == levels.end()) return 1;
    const auto i = static_cast<std::size_t>(next - levels.begin());
    const double part = (level - levels[i - 1]) / (levels[i] - levels[i - 1]);
    return shares[i - 1] + part * (shares[i] - shares[i - 1]);
  }

  [[nodiscard]] std::vector<double> Of(std::vector<double> values) const {
    for (double& value : values) value = At(value);
    return values;
  }
};

LevelMap MapOf(const LevelCurve& curve) {
  LevelMap map{{0}, {0}};
  map.levels.insert(map.levels.end(), curve.levels.begin(), curve.levels.end());
  map.shares.insert(map.shares.end(), curve.shares.begin(), curve.shares.end());
  map.levels.push_back(1);
  map.shares.push_back(1);
  return map;
}

// The map in the source of the paper goes through every validation row, and ends at the mean
// distance of neighbouring rows from the outer ones.
LevelMap PublishedMap(std::vector<double> stated) {
  std::ranges::sort(stated);
  const auto n = static_cast<double>(stated.size());
  const double distance = (stated.back() - stated.front()) / (n - 1);
  LevelMap map{{stated.front() - distance}, {0}};
  for (std::size_t i = 0; i < stated.size(); ++i) {
    map.levels.push_back(stated[i]);
    map.shares.push_back(static_cast<double>(i + 1) / (n + 1));
  }
  map.levels.push_back(stated.back() + distance);
  map.shares.push_back(1);
  return map;
}

// The stated probabilities of values up to the outcomes.
std::vector<double> LevelsOf(const std::vector<double>& forecasts,
                             const std::vector<double>& outcomes) {
  return ProbabilityIntegralTransforms({ForecastKind::kNormal, forecasts, 2, {}, outcomes}, 1);
}

std::vector<double> Shifted(std::vector<double> outcomes, double distance) {
  for (double& outcome : outcomes) outcome += distance;
  return outcomes;
}

// The number of outcomes that RepairForecasts puts between other levels than the map does.
double Disagreements(const LevelCurve& curve, const LevelMap& map,
                     const std::vector<double>& forecasts, const std::vector<double>& outcomes) {
  constexpr double kRounding = 1e-6;
  std::vector<double> levels;
  for (int k = 1; k < 40; ++k) levels.push_back(k / 40.0);
  const std::vector<double> quantiles =
      RepairForecasts(curve, NormalForecasts{}, forecasts, levels);
  const std::vector<double> shares = map.Of(LevelsOf(forecasts, outcomes));
  double count = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto row = std::span(quantiles).subspan(i * levels.size(), levels.size());
    const auto below =
        static_cast<std::size_t>(std::ranges::lower_bound(row, outcomes[i]) - row.begin());
    const double lower = below == 0 ? 0 : levels[below - 1];
    const double upper = below == levels.size() ? 1 : levels[below];
    count += shares[i] < lower - kRounding || shares[i] > upper + kRounding ? 1 : 0;
  }
  return count;
}

// What a map of levels makes of calibrated forecasts.
struct CalibratedForecasts {
  // By the published metric. If the validation and the test rows have one distribution, the stated
  // probability of a test row has any rank among those of the validation rows with the same
  // probability, whatever the forecasts are. So these are the errors of any forecasts.
  RunningMoments quantile_errors;
  // By how much the log score rises with the published map.
  RunningMoments costs;
};

CalibratedForecasts RecalibrateCalibrated(std::size_t validation, std::size_t test) {
  std::vector<double> errors(kRepetitions);
  std::vector<double> costs(kRepetitions);
  OnAllProcessors(kRepetitions, [&](std::size_t repetition) {
    std::mt19937_64 random(repetition);
    std::normal_distribution<double> normal;
    const auto draw = [&](std::size_t count) {
      std::vector<double> outcomes(count);
      for (double& outcome : outcomes) outcome = normal(random);
      return outcomes;
    };
    const auto standard = [](std::size_t count) {
      std::vector<double> forecasts(2 * count);
      for (std::size_t i = 0; i < count; ++i) forecasts[2 * i + 1] = 1;
      return forecasts;
    };
    const std::vector<double> fitted = draw(validation);
    const std::vector<double> outcomes = draw(test);
    const std::vector<double> at = LevelsOf(standard(test), outcomes);
    const std::vector<double> beyond = LevelsOf(standard(test), Shifted(outcomes, kPublishedStep));
    const LevelMap published = PublishedMap(LevelsOf(standard(validation), fitted));
    const LevelMap map = MapOf(FitLevelCurve(NormalForecasts{}, {standard(validation), fitted}));
    errors[repetition] = PublishedQce(map.Of(at));
    costs[repetition] =
        PublishedLogScore(published.Of(at), published.Of(beyond)) - PublishedLogScore(at, beyond);
  });
  return {MomentsOf(errors), MomentsOf(costs)};
}

// In standard deviations of one division of the rows, which is the same for all seeds.
double DeviationOf(double value, const RunningMoments& errors) {
  return (value - errors.mean) / std::sqrt(errors.Variance());
}

}  // namespace

Metrics MeasurePostHoc(const HeldOutForecasts& forecasts, const DataSplit& split) {
  const DataPart& test = split.test;
  const std::vector<double> validation = LevelsOf(forecasts.validation, split.validation.targets);
  const LevelCurve curve =
      FitLevelCurve(NormalForecasts{}, {forecasts.validation, split.validation.targets});
  const LevelMap map = MapOf(curve);
  const LevelMap published = PublishedMap(validation);
  const std::vector<double> at = LevelsOf(forecasts.test, test.targets);
  const std::vector<double> beyond =
      LevelsOf(forecasts.test, Shifted(test.targets, kPublishedStep));
  const std::vector<double> zeros(test.targets.size());
  const std::vector<double> repaired = map.Of(at);
  return {{kLogMetric, PublishedLogScore(published.Of(at), published.Of(beyond))},
          {"post-hoc NLL, 500 levels", PublishedLogScore(repaired, map.Of(beyond))},
          {kQuantileMetric, PublishedQce(repaired)},
          {"post-hoc QCE", QuantileCalibrationError(repaired)},
          {kDecisionMetric, PublishedDce(test.targets, map.Of(LevelsOf(forecasts.test, zeros)), 1)},
          {"post-hoc rows between other quantiles",
           Disagreements(curve, map, forecasts.test, test.targets)}};
}

void CheckPostHocQuantiles(const std::string& name, const PairedRuns& runs,
                           const DataSplit& split) {
  const RunningMoments any =
      RecalibrateCalibrated(split.validation.targets.size(), split.test.targets.size())
          .quantile_errors;
  for (const std::size_t weight : {std::size_t{0}, std::size_t{1}}) {
    const char* const training = weight == 0 ? "without" : "with";
    Near(absl::StrFormat("%s, %s %s the discrepancy, that of any forecast", name, kQuantileMetric,
                         training),
         MeanOf(runs.Of(kQuantileMetric, weight)).mean, any.mean, 4 * std::sqrt(any.Variance()));
    Near(absl::StrFormat("%s, outcomes between other quantiles of RepairForecasts, %s", name,
                         training),
         MeanOf(runs.Of("post-hoc rows between other quantiles", weight)).mean, 0, 0);
  }
}

void CheckPostHoc(const std::string& name, const PairedRuns& runs, const DataSplit& split,
                  const PublishedRow& published) {
  const auto check = [&](const char* metric, const Mean& expected) {
    NearMean(absl::StrFormat("%s, %s", name, metric), runs.Of(metric, 0), expected.mean,
             expected.standard_error);
  };
  check(kLogMetric, published.log_score);
  check(kDecisionMetric, published.decision_error);
  CheckPostHocQuantiles(name, runs, split);
}

void ReproducePostHocErrors() {
  struct Published {
    const char* name;
    std::size_t rows;
    // With the log likelihood, and with the discrepancy added to it.
    double error, error_with;
    // By how much the map changes the log score, without the discrepancy.
    double cost;
  };
  constexpr Published kPublished[] = {{"CRIME", 1993, .154, .105, .329},
                                      {"BLOG", 52397, .053, .042, -.373},
                                      {"MEDICAL-EXPENDITURE", 33005, .059, .045, .273},
                                      {"SUPERCONDUCTIVITY", 21263, .066, .050, .332},
                                      {"FB-COMMENT", 40949, .063, .054, .100}};
  double sum = 0;
  for (const Published& published : kPublished) {
    const std::size_t validation = published.rows / 10;
    const std::size_t test = published.rows - published.rows * 7 / 10 - validation;
    const CalibratedForecasts calibrated = RecalibrateCalibrated(validation, test);
    const RunningMoments& errors = calibrated.quantile_errors;
    const double with = DeviationOf(published.error_with, errors);
    sum += with;
    Near(absl::StrFormat("F12 %s, published QCE of recalibrated forecasts, that of any forecast",
                         published.name),
         published.error, errors.mean, 4 * std::sqrt(errors.Variance()));
    absl::PrintF(
        "      with the discrepancy %.3f, %+.1f standard deviations from it; change of the NLL by "
        "the map %+.3f, for calibrated forecasts %+.3f +- %.3f\n",
        published.error_with, with, published.cost, calibrated.costs.mean,
        std::sqrt(calibrated.costs.Variance()));
  }
  absl::PrintF(
      "      F12, all five with the discrepancy: %+.1f standard deviations from the error of any "
      "forecast\n",
      sum / std::sqrt(5));
}

}  // namespace calibd::reproduce
