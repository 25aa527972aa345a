#ifndef CALIBD_TESTS_REPRODUCE_TRAINING_NUMBERS_H_
#define CALIBD_TESTS_REPRODUCE_TRAINING_NUMBERS_H_

#include <functional>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "training.h"

namespace calibd::reproduce {

// The mean of a forecast is mean + sd o_1 and the standard deviation sd e^{o_2}, with the outputs o
// of the network; o_2 is kept in [least_log, 3].
struct OutputScale {
  double mean = 0;
  double sd = 1;
  double least_log = 0;
};
// With the mean and the standard deviation of the outcomes.
[[nodiscard]] OutputScale ScaleOf(const std::vector<double>& outcomes);

// How Normal forecasts of a number are trained.
struct NumberTraining {
  TrainingPlan plan;
  OutputScale scale;
  // The outcome kernel and the weight of the discrepancy; the condition is set for each batch.
  LossOptions loss;
  // The condition of a batch, from the features of its rows.
  std::function<FeatureCondition(const Matrix&)> condition;
};

// Forecasts of the rows that were not trained on, as ForecastKind::kNormal.
struct HeldOutForecasts {
  std::vector<double> validation;
  std::vector<double> test;
};
// By the weights of the epoch whose log likelihood of the validation rows is largest.
[[nodiscard]] HeldOutForecasts TrainNormalForecasts(const TrainingStart& start,
                                                    const NumberTraining& training);

[[nodiscard]] ForecastBatch NormalBatch(const std::vector<double>& forecasts, const DataPart& part);
// The mean negative log likelihood, in nats.
[[nodiscard]] double LogScore(const ForecastBatch& batch);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_TRAINING_NUMBERS_H_
