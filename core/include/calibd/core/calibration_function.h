#ifndef CALIBD_CORE_CALIBRATION_FUNCTION_H_
#define CALIBD_CORE_CALIBRATION_FUNCTION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/lens.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Estimators of the calibration function c(p) = p - P(Y | prediction p), or of the product
// h*(p, p') = <c(p), c(p')>. They are fitted on one part of the data and evaluated on another; the
// mean of h(p, p) estimates the squared calibration error. Source: Gruber & Bach, "Optimizing
// Estimators of Squared Calibration Errors in Classification", 2025. All results are finite, also
// for probabilities of 0 and 1, ties, a single class and identical rows.

// Predictions through a lens and their residuals, n x columns, row-major. Canonical lens: p and
// p - e_y, columns = m. Scalar lenses: c and c - b, columns = 1.
struct ResidualSample {
  std::size_t columns = 1;
  std::vector<double> predictions;
  std::vector<double> residuals;

  [[nodiscard]] std::size_t size() const noexcept { return predictions.size() / columns; }
};

// True for canonical, top_label, class_wise and one_class.
[[nodiscard]] bool HasEstimators(const Lens& lens);

// One sample for each part of the lens: m for class_wise, else one. batch: valid. Errors:
// InvalidArgument if the lens does not fit or has no estimators. Cost: O(n m).
[[nodiscard]] absl::StatusOr<std::vector<ResidualSample>> ReduceToParts(
    const PredictionBatch& batch, const Lens& lens);
// The same for a lens of one part.
[[nodiscard]] absl::StatusOr<ResidualSample> ReduceToResiduals(const PredictionBatch& batch,
                                                               const Lens& lens);

// h(p_i, p_j) = <left_i, right_j> for n evaluated rows; both n x width, row-major. right is empty
// if it equals left: h is then the product of two values of an estimate of c.
struct FunctionValues {
  std::size_t width = 1;
  std::vector<double> left;
  std::vector<double> right;

  [[nodiscard]] std::span<const double> right_or_left() const noexcept {
    return right.empty() ? left : right;
  }
};

// Eq. 10 and 23: the mean residual of each of `bins` bins (b/M, (b+1)/M]; p = 0 is in the first
// one. An empty bin has the mean over all fitted rows. fit: at least one row of one column. Cost:
// O(n).
[[nodiscard]] FunctionValues EvaluateBins(const ResidualSample& fit, const ResidualSample& rows,
                                          std::size_t bins);

// Bins with equal numbers of fitted rows, between which an edge is the middle of two neighbours; an
// edge belongs to the bin below it. With the mean residual c_b, the frequency f_b and the size n_b
// of a bin, h(p, p') is c_b c_b' for different bins, and c_b^2 - f_b (1 - f_b) / (n_b - 1) within
// one: the mean residual without the bias that the noise of the frequency adds to its square. A bin
// of fewer than 2 rows has h = 0. Source: Kumar, Liang & Ma, NeurIPS 2019, Sec. 5.
// fit: at least one row of one column. bins: >= 1. width is 1 + the number of bins. Cost: O(n log n
// + n' bins).
[[nodiscard]] FunctionValues EvaluateDebiasedBins(const ResidualSample& fit,
                                                  const ResidualSample& rows, std::size_t bins);

// Eq. 11 and 25: kernel density estimates with Dirichlet kernels, for each bandwidth > 0; the
// two classes (c, 1 - c) for one column. fit: at least one row. Errors: Cancelled. Cost: O(n n'
// (columns + bandwidths)) time, O(n + n') memory.
[[nodiscard]] absl::StatusOr<std::vector<FunctionValues>> EvaluateKernelDensity(
    const ResidualSample& fit, const ResidualSample& rows, std::span<const double> bandwidths,
    const RunControl& control);

// The kernel ridge estimators with k(x, x') = exp(-|x - x'|^2 / 2) (Eq. 28 to 34), for every
// strength of the penalty from one factorisation. A pivoted Cholesky factorisation K ~ LL' of rank
// r takes the place of the n x n kernel matrix. It ends when all residuals of the diagonal are at
// most 1e-12, or at rank kMaxRank: the fit is then restricted to the functions spanned by the
// pivots.
class KernelRidge {
 public:
  static constexpr std::size_t kMaxRank = 1024;

  // fit: at least one row. Errors: Cancelled. Cost: O(n r (columns + r) + r^3) time, O(n r) memory.
  [[nodiscard]] static absl::StatusOr<KernelRidge> Fit(const ResidualSample& fit,
                                                       const RunControl& control);

  [[nodiscard]] std::size_t rank() const noexcept { return eigenvalues_.size(); }
  // The fit's n^1.5 and n^0.75, with which `regularization` is multiplied: the powers of the
  // paper's code. Its appendix has others.
  [[nodiscard]] double product_scale() const noexcept { return product_scale_; }
  [[nodiscard]] double function_scale() const noexcept { return function_scale_; }
  // False if rounding could change EvaluateProduct by more than a thousandth.
  [[nodiscard]] bool IsStable(double regularization) const noexcept;

  // The eigenfunctions U(p) of the rows: n x rank, row-major. Errors: Cancelled. Cost: O(n r
  // (columns + r)).
  [[nodiscard]] absl::StatusOr<std::vector<double>> Eigenfunctions(const ResidualSample& rows,
                                                                   const RunControl& control) const;
  // KKR, Eq. 28 to 31: regression of the products of residuals on pairs of predictions. h(p, p) may
  // be negative. Errors: Cancelled. Cost: O(n r^2).
  [[nodiscard]] absl::StatusOr<FunctionValues> EvaluateProduct(
      std::span<const double> eigenfunctions, double regularization,
      const RunControl& control) const;
  // UKKR, Eq. 34: regression of the residuals on the predictions. Cost: O(n r columns).
  [[nodiscard]] FunctionValues EvaluateFunction(std::span<const double> eigenfunctions,
                                                double regularization) const;

 private:
  KernelRidge() = default;

  std::size_t columns_ = 1;
  double product_scale_ = 1;
  double function_scale_ = 1;
  // Pivots x columns, and pivots x pivots: the predictions of the pivots, and their rows of L.
  std::vector<double> pivots_;
  std::vector<double> pivot_factor_;
  // Pivots x rank: maps rows of L to eigenfunctions.
  std::vector<double> map_;
  std::vector<double> eigenvalues_;
  // rank x columns: the residuals in coordinates of the eigenvectors.
  std::vector<double> coefficients_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_CALIBRATION_FUNCTION_H_
