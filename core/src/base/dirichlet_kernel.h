#ifndef CALIBD_CORE_SRC_BASE_DIRICHLET_KERNEL_H_
#define CALIBD_CORE_SRC_BASE_DIRICHLET_KERNEL_H_

#include <Eigen/Core>

#include "base/matrix_view.h"

namespace calibd {

// The kernel of a density on the simplex, with the centre c and the bandwidth h: the density at x
// of the Dirichlet distribution with the parameters c / h + 1,
//   ln k(x; c) = sum_k c_k ln(x_k) / h - ln B(c).
// For two classes it is the density of a Beta distribution. Source: Popordanoska, Sayer & Blaschko,
// NeurIPS 2022.

// Probabilities of classes: predictions, or (p, 1 - p) for each row p of one column.
[[nodiscard]] RowMatrix SimplexRows(const MatrixView& predictions);

// Probabilities below this are this in LogProbabilities.
inline constexpr double kLeastDensityProbability = 1e-300;
[[nodiscard]] RowMatrix LogProbabilities(const RowMatrix& classes);

// ln B(c) for each row c. Cost: O(n m).
[[nodiscard]] Eigen::ArrayXd LogNormalizers(const RowMatrix& classes, double bandwidth);
// The derivatives of ln B(c) with respect to the values of c, n x m. Cost: O(n m).
[[nodiscard]] RowMatrix NormalizerSlopes(const RowMatrix& classes, double bandwidth);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_DIRICHLET_KERNEL_H_
