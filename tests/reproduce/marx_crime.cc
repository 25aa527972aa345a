#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_metrics.h"
#include "marx.h"
#include "training_numbers.h"

namespace calibd::reproduce {
namespace {

double Variance(const std::vector<double>& values) {
  const Eigen::Map<const Eigen::ArrayXd> array(values.data(),
                                               static_cast<Eigen::Index>(values.size()));
  return (array - array.mean()).square().mean();
}

Metrics TrainForecasts(const TrainingStart& start, double weight) {
  const DataSplit& split = *start.split;
  LossOptions options;
  options.outcome_kernel = RbfKernel{0.5 / Variance(split.train.targets)};
  options.penalty_weight = weight;
  const HeldOutForecasts forecasts = TrainNormalForecasts(
      start, {.plan = {.epochs = 60, .rate = 2e-4},
              .scale = ScaleOf(split.train.targets),
              .loss = options,
              .condition = [&](const Matrix& features) { return start.Given(features); }});
  const ForecastBatch test = NormalBatch(forecasts.test, split.test);
  options.condition = start.Given(split.test.features);
  options.gradient = false;
  return {
      {"DCE", std::sqrt(EvaluateThreshold(test, {MedianOf(split.train.targets)})->squared_error)},
      {"individual MMD^2", Compute(test, options).penalty_value},
      {"NLL", LogScore(test)},
      {"QCE", QuantileCalibrationError(ProbabilityIntegralTransforms(test, 1))}};
}

}  // namespace

void ReproduceCrime(const std::filesystem::path& folder) {
  const std::optional<DataPart> data = ReadCrime(folder);
  if (!data.has_value()) {
    absl::PrintF("left out: F4, there is no communities_processed.csv in '%s'\n", folder.string());
    return;
  }
  const PairedRuns runs(AtRandom(*data), 2, 16, {0, 30, 100}, TrainForecasts);
  runs.Print("F4");
  const auto change = [&](const char* metric, std::size_t weight, double expected, double error) {
    NearMean(absl::StrFormat("F4 change of %s with weight %d", metric, weight == 1 ? 30 : 100),
             runs.ChangeOf(metric, weight), expected, error);
  };
  change("DCE", 1, -.017, .005);
  change("DCE", 2, -.019, .006);
  change("individual MMD^2", 1, -.0005, .0002);
  change("individual MMD^2", 2, -.0007, .0002);
  change("QCE", 1, -.006, .004);
  change("NLL", 1, -.001, .029);
  // The expected mean is one over as many seeds. 2.5 % of the outcomes equal the threshold: if both
  // actions are wrong for them, the mean is .051 here.
  const std::vector<double> without = runs.Of("DCE", 0);
  NearMean("F4 DCE without the discrepancy", without, .054, MeanOf(without).standard_error);
  NearMean("F4 QCE without the discrepancy", runs.Of("QCE", 0), .184, .005);
  for (const std::size_t weight : {std::size_t{1}, std::size_t{2}}) {
    const Mean mean = MeanOf(runs.ChangeOf("DCE", weight));
    const double errors = mean.mean / mean.standard_error;
    Verdict(absl::StrFormat("F4 change of DCE with weight %d in standard errors: %.1f, expected "
                            "below -2; the paper: .151 to .042",
                            weight == 1 ? 30 : 100, errors),
            errors < -2);
  }
}

}  // namespace calibd::reproduce
