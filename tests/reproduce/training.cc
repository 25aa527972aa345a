#include "training.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"

namespace calibd::reproduce {
namespace {

constexpr Eigen::Index kBandwidthRows = 2000;

Network MakeNetwork(Eigen::Index inputs, Eigen::Index outputs, std::mt19937_64& random) {
  return {std::array<Eigen::Index, 5>{inputs, 64, 64, 64, outputs}, random};
}

}  // namespace

double MedianGamma(const Matrix& rows) {
  std::vector<double> squares;
  for (Eigen::Index i = 1; i < std::min(kBandwidthRows, rows.rows()); ++i) {
    const Eigen::VectorXd row = (rows.topRows(i).rowwise() - rows.row(i)).rowwise().squaredNorm();
    squares.insert(squares.end(), row.begin(), row.end());
  }
  return 0.5 / MedianOf(std::move(squares));
}

FeatureCondition ConditionOn(const Matrix& features, double gamma) {
  return {{features.data(), features.data() + features.size()}, gamma};
}

TrainingStart::TrainingStart(SharedSplit divided, Eigen::Index outputs, std::mt19937_64& random)
    : split(std::move(divided)),
      gamma(MedianGamma(split->train.features)),
      network(MakeNetwork(split->train.features.cols(), outputs, random)),
      order_seed(random()) {}

FeatureCondition TrainingStart::Given(const Matrix& features) const {
  return ConditionOn(features, gamma);
}

Network TrainingStart::Train(
    const TrainingPlan& plan,
    const std::function<Matrix(const std::vector<std::size_t>&, const Matrix&)>& gradient_of,
    const std::function<double(const Network&)>& score_of) const {
  Network trained = network;
  Network best = network;
  double best_score = std::numeric_limits<double>::infinity();
  const auto after_epoch = [&](const Network& current) {
    const double score = score_of ? score_of(current) : -std::numeric_limits<double>::infinity();
    if (score_of && score >= best_score) return;
    best_score = score;
    best = current;
  };
  std::mt19937_64 order(order_seed);
  reproduce::Train(trained, split->train.features, plan, gradient_of, after_epoch, order);
  return best;
}

CalibrationLoss Compute(const ForecastBatch& batch, const LossOptions& options) {
  absl::StatusOr<CalibrationLoss> loss = ComputeLoss(batch, options);
  return *std::move(loss);
}

Matrix RowsOf(const std::vector<double>& gradient, Eigen::Index width) {
  return Eigen::Map<const Matrix>(gradient.data(),
                                  static_cast<Eigen::Index>(gradient.size()) / width, width);
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

DivideRows AtRandom(const DataPart& data) {
  return [data](std::mt19937_64& random) {
    return std::make_shared<const DataSplit>(SplitAtRandom(data, random));
  };
}

DivideRows Always(SharedSplit split) {
  return [split](std::mt19937_64&) { return split; };
}

PairedRuns::PairedRuns(const DivideRows& divide, Eigen::Index outputs, std::size_t seeds,
                       std::vector<double> weights,
                       const std::function<Metrics(const TrainingStart&, double)>& train)
    : weights_(std::move(weights)), runs_(seeds) {
  OnAllProcessors(seeds, [&](std::size_t seed) {
    std::mt19937_64 random(seed);
    SharedSplit split = divide(random);
    const TrainingStart start(std::move(split), outputs, random);
    for (const double weight : weights_) runs_[seed].push_back(train(start, weight));
  });
}

std::vector<double> PairedRuns::Of(const std::string& metric, std::size_t weight) const {
  std::vector<double> values;
  for (const auto& run : runs_) values.push_back(run[weight].at(metric));
  return values;
}

std::vector<double> PairedRuns::ChangeOf(const std::string& metric, std::size_t weight) const {
  std::vector<double> values = Of(metric, weight);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= runs_[i].front().at(metric);
  return values;
}

void PairedRuns::Print(const std::string& name) const {
  for (const auto& [metric, unused] : runs_.front().front()) {
    const Mean first = MeanOf(Of(metric, 0));
    std::string line = absl::StrFormat("      %s %s: %.5f +- %.5f without", name, metric,
                                       first.mean, first.standard_error);
    for (std::size_t w = 1; w < weights_.size(); ++w) {
      const Mean change = MeanOf(ChangeOf(metric, w));
      absl::StrAppendFormat(&line, ", %+.5f +- %.5f with weight %g", change.mean,
                            change.standard_error, weights_[w]);
    }
    absl::PrintF("%s\n", line);
  }
}

}  // namespace calibd::reproduce
