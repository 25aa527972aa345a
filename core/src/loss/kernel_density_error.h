#ifndef CALIBD_CORE_SRC_LOSS_KERNEL_DENSITY_ERROR_H_
#define CALIBD_CORE_SRC_LOSS_KERNEL_DENSITY_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/matrix_view.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The bandwidths of which one is chosen, ascending: those of the authors' code.
[[nodiscard]] std::vector<double> DensityBandwidths();

// The error of calibration in which a kernel density estimate takes the place of the calibration
// function,
//   1/n sum_j sum_k |r_jk - q_jk|^p with r_j = sum_{i != j} k(q_j; q_i) e_{y_i} / sum_{i != j}
//   k(q_j; q_i),
// with the Dirichlet kernel of dirichlet_kernel.h. Source: Popordanoska, Sayer & Blaschko, NeurIPS
// 2022, Eq. 9. Results do not depend on the threads.
class KernelDensityError {
 public:
  // predictions: n x columns, row-major, n >= 2. One column has the probabilities of an event: its
  // kernel is that of a Beta distribution, and the sum over k has one term. labels: n, the class of
  // each row; for one column 0 if the event happened, else 1.
  KernelDensityError(std::span<const double> predictions, std::size_t columns,
                     std::vector<std::size_t> labels);

  // For each bandwidth the sum over rows of the logarithm of the density that the other rows give.
  // Errors: Cancelled. Cost: O(n^2 (m + bandwidths)).
  [[nodiscard]] absl::StatusOr<std::vector<double>> LogLikelihoods(
      std::span<const double> bandwidths, const RunControl& control) const;

  // norm: p, 1 or 2. gradient: n x columns, set; or empty. The derivative of |x| at 0 is set to 0.
  // Errors: Cancelled. Cost: O(n^2 m) time, O(n m) memory.
  [[nodiscard]] absl::StatusOr<double> Compute(double bandwidth, int norm,
                                               std::span<double> gradient,
                                               const RunControl& control) const;

 private:
  // How the error depends on the estimate of one row.
  struct Rows;

  void EstimateRows(Eigen::Index first, double bandwidth, int norm,
                    const Eigen::ArrayXd& normalizers, Rows& rows) const;
  void AddCenters(Eigen::Index first, double bandwidth, const Eigen::ArrayXd& normalizers,
                  const RowMatrix& slopes, Rows& rows) const;

  std::size_t columns_;
  std::vector<std::size_t> labels_;
  // n x m, m >= 2.
  RowMatrix classes_;
  RowMatrix logs_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_KERNEL_DENSITY_ERROR_H_
