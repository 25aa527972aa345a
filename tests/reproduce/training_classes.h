#ifndef CALIBD_TESTS_REPRODUCE_TRAINING_CLASSES_H_
#define CALIBD_TESTS_REPRODUCE_TRAINING_CLASSES_H_

#include "calibd/core/prediction_batch.h"
#include "training.h"

namespace calibd::reproduce {

// Trains by the log loss and the weighted discrepancy given the features. best_epoch: whether the
// weights of the epoch whose log loss of the validation rows is smallest are kept.
[[nodiscard]] Network TrainClassifier(const TrainingStart& start, const TrainingPlan& plan,
                                      double weight, bool best_epoch);

// Probabilities of the classes, the softmax of the outputs.
[[nodiscard]] PredictionSet Predict(const Network& network, const DataPart& part);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_TRAINING_CLASSES_H_
