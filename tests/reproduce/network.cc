#include "network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace calibd::reproduce {
namespace {

constexpr double kMeanDecay = 0.9;
constexpr double kSquareDecay = 0.999;
constexpr double kAdamEpsilon = 1e-8;

}  // namespace

Network::Network(std::span<const Eigen::Index> widths, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    const Eigen::Index in = widths[l];
    const Eigen::Index out = widths[l + 1];
    const double size = l + 2 == widths.size() ? 0.1 : 1;
    const double sd = size * std::sqrt(2 / static_cast<double>(in));
    const auto zeros = [](Eigen::Index rows, Eigen::Index columns) {
      const Matrix zero = Matrix::Zero(rows, columns);
      return Parameter{zero, zero, zero};
    };
    Layer layer{zeros(in, out), zeros(1, out)};
    for (double& weight : layer.weights.value.reshaped()) weight = sd * normal(random);
    layers_.push_back(std::move(layer));
  }
}

Matrix Network::Evaluate(const Matrix& inputs) const {
  Matrix values = inputs;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    values = (values * layers_[l].weights.value).rowwise() + layers_[l].bias.value.row(0);
    if (l + 1 < layers_.size()) values = values.cwiseMax(0.0);
  }
  return values;
}

void Network::Step(const Matrix& inputs, const std::function<Matrix(const Matrix&)>& gradient_of,
                   double rate, double most_norm) {
  std::vector<Matrix> activations = {inputs};
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Matrix values =
        (activations[l] * layers_[l].weights.value).rowwise() + layers_[l].bias.value.row(0);
    if (l + 1 < layers_.size()) values = values.cwiseMax(0.0);
    activations.push_back(std::move(values));
  }
  std::vector<Matrix> weight_gradients(layers_.size());
  std::vector<Matrix> bias_gradients(layers_.size());
  double squares = 0;
  Matrix gradient = gradient_of(activations.back());
  for (std::size_t l = layers_.size(); l-- > 0;) {
    weight_gradients[l] = activations[l].transpose() * gradient;
    bias_gradients[l] = gradient.colwise().sum();
    squares += weight_gradients[l].squaredNorm() + bias_gradients[l].squaredNorm();
    if (l > 0) {
      const Matrix before = gradient * layers_[l].weights.value.transpose();
      gradient = (activations[l].array() > 0).select(before, 0.0);
    }
  }
  const double norm = std::sqrt(squares);
  const double scale = norm > most_norm ? most_norm / norm : 1;
  ++steps_;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Update(layers_[l].weights, scale * weight_gradients[l], rate);
    Update(layers_[l].bias, scale * bias_gradients[l], rate);
  }
}

void Network::Update(Parameter& parameter, const Matrix& gradient, double rate) const {
  parameter.mean = kMeanDecay * parameter.mean + (1 - kMeanDecay) * gradient;
  parameter.square =
      kSquareDecay * parameter.square + (1 - kSquareDecay) * gradient.cwiseProduct(gradient);
  const double mean_scale = 1 - std::pow(kMeanDecay, steps_);
  const double square_scale = 1 - std::pow(kSquareDecay, steps_);
  parameter.value.array() -= rate / mean_scale * parameter.mean.array() /
                             ((parameter.square.array() / square_scale).sqrt() + kAdamEpsilon);
}

void Train(Network& network, const Matrix& inputs, const TrainingPlan& plan,
           const std::function<Matrix(const std::vector<std::size_t>&, const Matrix&)>& gradient_of,
           const std::function<void(const Network&)>& after_epoch, std::mt19937_64& random) {
  std::vector<std::size_t> order(static_cast<std::size_t>(inputs.rows()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int epoch = 0; epoch < plan.epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t first = 0; first < order.size(); first += plan.batch_size) {
      const std::size_t last = std::min(order.size(), first + plan.batch_size);
      const std::vector<std::size_t> rows(order.begin() + static_cast<std::ptrdiff_t>(first),
                                          order.begin() + static_cast<std::ptrdiff_t>(last));
      network.Step(
          inputs(rows, Eigen::all),
          [&](const Matrix& outputs) { return gradient_of(rows, outputs); }, plan.rate,
          plan.most_norm);
    }
    if (after_epoch) after_epoch(network);
  }
}

}  // namespace calibd::reproduce
