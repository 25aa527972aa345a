#ifndef CALIBD_TESTS_REPRODUCE_NETWORK_H_
#define CALIBD_TESTS_REPRODUCE_NETWORK_H_

#include <Eigen/Dense>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace calibd::reproduce {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Dense layers with rectified linear units between them, trained by Adam.
class Network {
 public:
  // widths: the numbers of inputs, of units of each hidden layer and of outputs. The weights are
  // Normal with the variance 2 / inputs of He et al. 2015, those of the last layer a tenth of it in
  // size; biases are 0.
  Network(std::span<const Eigen::Index> widths, std::mt19937_64& random);

  // A row for each row of the inputs.
  [[nodiscard]] Matrix Evaluate(const Matrix& inputs) const;

  // One step of Adam (Kingma & Ba 2015, with its default moments). gradient_of: maps the outputs of
  // these rows to the gradient of the loss with respect to each of them. most_norm: a gradient of
  // all parameters whose Euclidean norm exceeds it is scaled to it.
  void Step(const Matrix& inputs, const std::function<Matrix(const Matrix&)>& gradient_of,
            double rate, double most_norm);

 private:
  // A parameter with the moments of its gradient.
  struct Parameter {
    Matrix value;
    Matrix mean;
    Matrix square;
  };
  struct Layer {
    Parameter weights;
    Parameter bias;
  };

  void Update(Parameter& parameter, const Matrix& gradient, double rate) const;

  std::vector<Layer> layers_;
  int steps_ = 0;
};

// Trains for a number of epochs, each of which visits the rows of the inputs in a new order.
struct TrainingPlan {
  int epochs = 0;
  double rate = 0;
  // See Network::Step.
  double most_norm = std::numeric_limits<double>::infinity();
  std::size_t batch_size = 64;
};

// gradient_of: see Network::Step; it also gets the numbers of the rows. after_epoch may be unset.
void Train(Network& network, const Matrix& inputs, const TrainingPlan& plan,
           const std::function<Matrix(const std::vector<std::size_t>&, const Matrix&)>& gradient_of,
           const std::function<void(const Network&)>& after_epoch, std::mt19937_64& random);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_NETWORK_H_
