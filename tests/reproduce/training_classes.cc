#include "training_classes.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "calibd/core/scores.h"
#include "calibd/core/validation.h"

namespace calibd::reproduce {

Network TrainClassifier(const TrainingStart& start, const TrainingPlan& plan, double weight,
                        bool best_epoch) {
  const DataSplit& split = *start.split;
  LossOptions options;
  options.penalty_weight = weight;
  const auto gradient_of = [&](const std::vector<std::size_t>& rows, const Matrix& logits) {
    std::vector<std::int32_t> truth;
    for (const std::size_t row : rows) {
      truth.push_back(static_cast<std::int32_t>(split.train.targets[row]));
    }
    options.condition = start.Given(split.train.features(rows, Eigen::all));
    const auto width = static_cast<std::size_t>(logits.cols());
    const std::span<const double> values(logits.data(), static_cast<std::size_t>(logits.size()));
    return RowsOf(Compute({ForecastKind::kLogits, values, width, truth, {}}, options).gradient,
                  logits.cols());
  };
  std::function<double(const Network&)> score_of;
  if (best_epoch) {
    score_of = [&](const Network& network) {
      return ComputeScores(Predict(network, split.validation).view())->log_loss;
    };
  }
  return start.Train(plan, gradient_of, score_of);
}

PredictionSet Predict(const Network& network, const DataPart& part) {
  const Matrix logits = network.Evaluate(part.features);
  PredictionSet set;
  set.class_count = static_cast<std::size_t>(logits.cols());
  set.probabilities.assign(logits.data(), logits.data() + logits.size());
  (void)SoftmaxRows(set.probabilities, set.class_count);
  set.labels.assign(part.targets.begin(), part.targets.end());
  return set;
}

}  // namespace calibd::reproduce
