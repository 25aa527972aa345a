#include "calibd/core/matrix_kernel.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"

namespace calibd {
namespace {

constexpr double kTolerance = 1e-12;
// Limits of the largest eigenvalue of each term. The bootstrap computes terms in float32, and their
// squares must neither overflow nor vanish.
constexpr double kLeastEigenvalue = 1e-6;
constexpr double kGreatestEigenvalue = 1e6;

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

absl::Status CheckSymmetric(const Matrix& matrix, std::size_t term) {
  if (!matrix.allFinite()) {
    return absl::InvalidArgumentError(
        absl::StrCat("terms[", term, "].matrix holds a number that is not finite"));
  }
  const double asymmetry = (matrix - matrix.transpose()).cwiseAbs().maxCoeff();
  if (asymmetry > kTolerance * matrix.cwiseAbs().maxCoeff()) {
    return absl::InvalidArgumentError(absl::StrCat("terms[", term, "].matrix is off symmetry by ",
                                                   asymmetry, ", expected a symmetric matrix"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MatrixKernel> MatrixKernel::Create(std::vector<Term> terms,
                                                  std::size_t class_count) {
  if (terms.empty()) return absl::InvalidArgumentError("terms is empty, expected at least 1 term");
  // Checked before memory of m x m is allocated.
  for (std::size_t l = 0; l < terms.size(); ++l) {
    if (terms[l].matrix.size() != class_count * class_count) {
      return absl::InvalidArgumentError(absl::StrCat("terms[", l, "].matrix has ",
                                                     terms[l].matrix.size(), " values, expected ",
                                                     class_count, " x ", class_count));
    }
  }
  const auto m = static_cast<Eigen::Index>(class_count);
  MatrixKernel kernel;
  kernel.class_count_ = class_count;
  Matrix total = Matrix::Zero(m, m);
  for (std::size_t l = 0; l < terms.size(); ++l) {
    const Term& term = terms[l];
    const Eigen::Map<const Matrix> matrix(term.matrix.data(), m, m);
    CALIBD_RETURN_IF_ERROR(CheckSymmetric(matrix, l));
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver{Eigen::MatrixXd(matrix)};
    const Eigen::VectorXd& values = solver.eigenvalues();  // ascending
    const double largest = values(m - 1);
    if (values(0) < -kTolerance * std::max(largest, 0.0)) {
      return absl::InvalidArgumentError(absl::StrCat("terms[", l, "].matrix has the eigenvalue ",
                                                     values(0),
                                                     ", expected a positive semi-definite matrix"));
    }
    if (!(largest > 0)) continue;  // the zero matrix contributes nothing
    if (largest < kLeastEigenvalue || largest > kGreatestEigenvalue) {
      return absl::InvalidArgumentError(
          absl::StrCat("terms[", l, "].matrix has the largest eigenvalue ", largest, ", expected ",
                       kLeastEigenvalue, "..", kGreatestEigenvalue));
    }
    Factor factor{term.kernel, 0, {}};
    const double negligible = kTolerance * largest;
    const auto first = std::find_if(values.begin(), values.end(),
                                    [negligible](double value) { return value > negligible; });
    const Eigen::Index rank = values.end() - first;
    const Matrix root =
        solver.eigenvectors().rightCols(rank) * values.tail(rank).cwiseSqrt().asDiagonal();
    factor.rank = static_cast<std::size_t>(rank);
    factor.matrix.assign(root.data(), root.data() + root.size());
    kernel.factors_.push_back(std::move(factor));
    kernel.terms_.push_back(term);
    kernel.bound_ += 2 * largest;
    total += matrix;
  }
  if (kernel.factors_.empty()) return absl::InvalidArgumentError("terms hold only zero matrices");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(Eigen::MatrixXd(total),
                                                              Eigen::EigenvaluesOnly);
  kernel.universal_ = solver.eigenvalues()(0) > kTolerance * solver.eigenvalues()(m - 1);
  return kernel;
}

double MatrixKernel::NullDiagonal(std::span<const double> g) const {
  double sum = 0;
  for (const Term& term : terms_) {
    const double factor = term.kernel(g, g);
    for (std::size_t k = 0; k < class_count_; ++k) {
      double product = 0;  // (A g)_k
      for (std::size_t l = 0; l < class_count_; ++l) {
        product += term.matrix[k * class_count_ + l] * g[l];
      }
      sum += factor * g[k] * (term.matrix[k * class_count_ + k] - product);
    }
  }
  return sum;
}

double MatrixKernel::NullSquare(std::span<const double> g_i, std::span<const double> g_j) const {
  const auto m = static_cast<Eigen::Index>(class_count_);
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(m, m);
  for (const Term& term : terms_) {
    sum += term.kernel(g_i, g_j) * Eigen::Map<const Matrix>(term.matrix.data(), m, m);
  }
  const Eigen::Map<const Eigen::VectorXd> x(g_i.data(), m);
  const Eigen::Map<const Eigen::VectorXd> z(g_j.data(), m);
  // S K = diag(g) K - g (g' K).
  const Eigen::RowVectorXd left = x.transpose() * sum;
  const Eigen::RowVectorXd right = z.transpose() * sum;
  const Eigen::MatrixXd at_i = (sum.array().rowwise() - left.array()).colwise() * x.array();
  const Eigen::MatrixXd at_j = (sum.array().rowwise() - right.array()).colwise() * z.array();
  return std::max(0.0, at_i.cwiseProduct(at_j.transpose()).sum());
}

std::size_t MatrixKernel::rank() const noexcept {
  std::size_t sum = 0;
  for (const Factor& factor : factors_) sum += factor.rank;
  return sum;
}

void MatrixKernel::Project(std::span<const double> g, std::int32_t y,
                           std::span<double> out) const noexcept {
  std::fill(out.begin(), out.end(), 0.0);
  for (const Factor& factor : factors_) {
    for (std::size_t k = 0; k < class_count_; ++k) {
      const double residual = (static_cast<std::size_t>(y) == k ? 1 : 0) - g[k];
      const double* const row = &factor.matrix[k * factor.rank];
      for (std::size_t column = 0; column < factor.rank; ++column) {
        out[column] += row[column] * residual;
      }
    }
    out = out.subspan(factor.rank);
  }
}

absl::Status CheckClassCount(std::size_t class_count, const RunningKernel& kernel) {
  if (class_count < kMinClassCount || class_count > kMaxClassCount) {
    return absl::InvalidArgumentError(absl::StrCat("class_count is ", class_count, ", expected ",
                                                   kMinClassCount, "..", kMaxClassCount));
  }
  const MatrixKernel* const matrix = MatrixOf(kernel);
  if (matrix == nullptr || matrix->class_count() == class_count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("class_count is ", class_count, ", expected ",
                                                 matrix->class_count(), ", the kernel's"));
}

double DistributionFreeBound(const RunningKernel& kernel) noexcept {
  const MatrixKernel* const matrix = MatrixOf(kernel);
  return matrix != nullptr ? matrix->DistributionFreeBound() : Kernel::DistributionFreeBound();
}

}  // namespace calibd
