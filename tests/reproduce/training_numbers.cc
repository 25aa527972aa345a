#include "training_numbers.h"

#include <algorithm>
#include <cmath>

namespace calibd::reproduce {
namespace {

// The log likelihood of a batch is computed over pieces, because ComputeLoss looks at all pairs.
constexpr std::size_t kPiece = 256;
constexpr double kMostLog = 3;

std::vector<double> Forecasts(const OutputScale& scale, const Matrix& outputs) {
  std::vector<double> values;
  for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
    values.push_back(scale.mean + scale.sd * outputs(i, 0));
    values.push_back(scale.sd * std::exp(std::clamp(outputs(i, 1), scale.least_log, kMostLog)));
  }
  return values;
}

// Converts the gradient of the loss in the forecasts to its gradient in the outputs.
Matrix ToOutputs(const OutputScale& scale, const Matrix& outputs,
                 const std::vector<double>& gradient) {
  Matrix result = RowsOf(gradient, 2);
  for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
    const double log = outputs(i, 1);
    result(i, 0) *= scale.sd;
    result(i, 1) *= log >= scale.least_log && log <= kMostLog ? scale.sd * std::exp(log) : 0;
  }
  return result;
}

}  // namespace

OutputScale ScaleOf(const std::vector<double>& outcomes) {
  const Eigen::Map<const Eigen::ArrayXd> values(outcomes.data(),
                                                static_cast<Eigen::Index>(outcomes.size()));
  const double mean = values.mean();
  return {.mean = mean, .sd = std::sqrt((values - mean).square().mean()), .least_log = -4};
}

ForecastBatch NormalBatch(const std::vector<double>& forecasts, const DataPart& part) {
  return {ForecastKind::kNormal, forecasts, 2, {}, part.targets};
}

double LogScore(const ForecastBatch& batch) {
  LossOptions options;
  options.outcome_kernel = PitMinKernel();
  options.condition = NoCondition();
  options.biased = true;
  options.penalty_weight = 0;
  options.gradient = false;
  double sum = 0;
  for (std::size_t first = 0; first < batch.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, batch.size() - first);
    const ForecastBatch piece{batch.kind,
                              batch.values.subspan(first * batch.width, count * batch.width),
                              batch.width,
                              {},
                              batch.outcomes.subspan(first, count)};
    sum += *Compute(piece, options).negative_log_likelihood * static_cast<double>(count);
  }
  return sum / static_cast<double>(batch.size());
}

HeldOutForecasts TrainNormalForecasts(const TrainingStart& start, const NumberTraining& training) {
  const DataSplit& split = *start.split;
  const OutputScale& scale = training.scale;
  LossOptions options = training.loss;
  const auto gradient_of = [&](const std::vector<std::size_t>& rows, const Matrix& outputs) {
    const std::vector<double> forecasts = Forecasts(scale, outputs);
    std::vector<double> outcomes;
    for (const std::size_t row : rows) outcomes.push_back(split.train.targets[row]);
    options.condition = training.condition(split.train.features(rows, Eigen::all));
    return ToOutputs(
        scale, outputs,
        Compute({ForecastKind::kNormal, forecasts, 2, {}, outcomes}, options).gradient);
  };
  const Network best = start.Train(training.plan, gradient_of, [&](const Network& network) {
    const std::vector<double> forecasts =
        Forecasts(scale, network.Evaluate(split.validation.features));
    return LogScore(NormalBatch(forecasts, split.validation));
  });
  return {.validation = Forecasts(scale, best.Evaluate(split.validation.features)),
          .test = Forecasts(scale, best.Evaluate(split.test.features))};
}

}  // namespace calibd::reproduce
