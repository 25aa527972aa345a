#ifndef CALIBD_TESTS_REPRODUCE_TRAINING_H_
#define CALIBD_TESTS_REPRODUCE_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "check.h"
#include "network.h"
#include "uci_data.h"

// Networks with three hidden layers of 64 units that are trained with and without the squared
// maximum mean discrepancy given the features, in batches of 64 rows.
namespace calibd::reproduce {

using SharedSplit = std::shared_ptr<const DataSplit>;

// The number 1 / (2 l^2) with l the median distance of the rows, at most the first 2000.
[[nodiscard]] double MedianGamma(const Matrix& rows);
[[nodiscard]] FeatureCondition ConditionOn(const Matrix& features, double gamma);

// A data set that is divided, the MedianGamma of its training rows, and a network before its
// training.
struct TrainingStart {
  // The weights and the order of the rows are functions of the state of `random`.
  TrainingStart(SharedSplit split, Eigen::Index outputs, std::mt19937_64& random);

  // The condition on the features of these rows.
  [[nodiscard]] FeatureCondition Given(const Matrix& features) const;
  // Trains a copy of the network. score_of: maps the network after each epoch to what has to be
  // small; the weights of the best epoch are kept. If unset, those of the last one.
  [[nodiscard]] Network Train(
      const TrainingPlan& plan,
      const std::function<Matrix(const std::vector<std::size_t>&, const Matrix&)>& gradient_of,
      const std::function<double(const Network&)>& score_of) const;

  SharedSplit split;
  double gamma = 0;
  Network network;
  std::uint64_t order_seed = 0;
};

[[nodiscard]] CalibrationLoss Compute(const ForecastBatch& batch, const LossOptions& options);
// The gradient of n rows as n x width.
[[nodiscard]] Matrix RowsOf(const std::vector<double>& gradient, Eigen::Index width);
[[nodiscard]] double MedianOf(std::vector<double> values);

// What is measured on the test rows.
using Metrics = std::map<std::string, double>;

// Divides the rows for each seed, or once.
using DivideRows = std::function<SharedSplit(std::mt19937_64&)>;
[[nodiscard]] DivideRows AtRandom(const DataPart& data);
[[nodiscard]] DivideRows Always(SharedSplit split);

// The metrics of networks that start from the same weights and see the rows in the same order, for
// each weight of the discrepancy and each seed.
class PairedRuns {
 public:
  // train: maps the start and the weight to the metrics.
  PairedRuns(const DivideRows& divide, Eigen::Index outputs, std::size_t seeds,
             std::vector<double> weights,
             const std::function<Metrics(const TrainingStart&, double)>& train);

  // The values of a metric, and their changes from the first weight to another one.
  [[nodiscard]] std::vector<double> Of(const std::string& metric, std::size_t weight) const;
  [[nodiscard]] std::vector<double> ChangeOf(const std::string& metric, std::size_t weight) const;
  // Prints for each metric its mean with the first weight and the mean changes from it.
  void Print(const std::string& name) const;

 private:
  std::vector<double> weights_;
  // For each seed, the metrics for each weight.
  std::vector<std::vector<Metrics>> runs_;
};

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_TRAINING_H_
