#include "calibd/core/calibration_risk.h"

#include <Eigen/Core>
#include <cmath>

#include "base/matrix_view.h"
#include "calibd/core/status_macros.h"

namespace calibd {

absl::StatusOr<CalibrationRisk> ComputeCalibrationRisk(const ResidualSample& rows,
                                                       const FunctionValues& values,
                                                       const RunControl& control) {
  const MatrixView residuals = ViewRows(rows.residuals, rows.columns);
  const MatrixView left = ViewRows(values.left, values.width);
  const MatrixView right = ViewRows(values.right_or_left(), values.width);
  const auto n = static_cast<double>(rows.size());

  const Eigen::ArrayXd norms = residuals.rowwise().squaredNorm();
  const double all = (residuals.transpose() * residuals).squaredNorm();
  const double risk_of_zero = (all - norms.square().sum()) / (n * (n - 1));

  // Sums over all j, then without j = i.
  const RowMatrix transposed = left.transpose();
  CALIBD_ASSIGN_OR_RETURN(const RowMatrix gram, ProductOf(transposed, left, control));
  const Eigen::MatrixXd cross = residuals.transpose() * left;
  const Eigen::ArrayXd diagonal = left.cwiseProduct(right).rowwise().sum();
  CALIBD_ASSIGN_OR_RETURN(const RowMatrix products, ProductOf(right, gram, control));
  Eigen::ArrayXd sums = products.cwiseProduct(right).rowwise().sum();
  sums -= 2 * (residuals * cross).cwiseProduct(right).rowwise().sum().array();
  sums -= diagonal.square() - 2 * norms * diagonal;
  sums /= n - 1;

  CalibrationRisk result;
  result.row_excess.assign(sums.begin(), sums.end());
  result.excess = sums.mean();
  result.standard_error = PairStandardError(result.row_excess);
  result.risk = risk_of_zero + result.excess;
  return result;
}

double SquaredCalibrationError(const FunctionValues& values) {
  const MatrixView left = ViewRows(values.left, values.width);
  return left.cwiseProduct(ViewRows(values.right_or_left(), values.width)).sum() /
         static_cast<double>(left.rows());
}

double PairStandardError(std::span<const double> row_means) {
  const auto n = static_cast<double>(row_means.size());
  const Eigen::Map<const Eigen::ArrayXd> means(row_means.data(),
                                               static_cast<Eigen::Index>(row_means.size()));
  return 2 * std::sqrt((means - means.mean()).square().sum() / (n - 1) / n);
}

}  // namespace calibd
