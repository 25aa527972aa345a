#include "base/dirichlet_kernel.h"

#include <boost/math/special_functions/digamma.hpp>
#include <cmath>

#include "base/boost_policy.h"

namespace calibd {

RowMatrix SimplexRows(const MatrixView& predictions) {
  if (predictions.cols() > 1) return predictions;
  RowMatrix classes(predictions.rows(), 2);
  classes << predictions, 1 - predictions.array();
  return classes;
}

RowMatrix LogProbabilities(const RowMatrix& classes) {
  return classes.array().max(kLeastDensityProbability).log();
}

Eigen::ArrayXd LogNormalizers(const RowMatrix& classes, double bandwidth) {
  // lgamma writes a global variable.
  int sign = 0;
  Eigen::ArrayXd result(classes.rows());
  for (Eigen::Index j = 0; j < classes.rows(); ++j) {
    double sum = 0;
    for (Eigen::Index k = 0; k < classes.cols(); ++k) {
      sum += ::lgamma_r(classes(j, k) / bandwidth + 1, &sign);
    }
    const double total = classes.row(j).sum() / bandwidth + static_cast<double>(classes.cols());
    result(j) = sum - ::lgamma_r(total, &sign);
  }
  return result;
}

RowMatrix NormalizerSlopes(const RowMatrix& classes, double bandwidth) {
  RowMatrix slopes(classes.rows(), classes.cols());
  for (Eigen::Index j = 0; j < classes.rows(); ++j) {
    const double total = classes.row(j).sum() / bandwidth + static_cast<double>(classes.cols());
    const double all = boost::math::digamma(total, MathPolicy());
    for (Eigen::Index k = 0; k < classes.cols(); ++k) {
      slopes(j, k) =
          (boost::math::digamma(classes(j, k) / bandwidth + 1, MathPolicy()) - all) / bandwidth;
    }
  }
  return slopes;
}

}  // namespace calibd
