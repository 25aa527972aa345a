#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/exponential.h"
#include "base/matrix_view.h"
#include "calibd/core/calibration_function.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// Largest residual of the diagonal at which the factorisation ends.
constexpr double kResidualTolerance = 1e-12;
// Candidates for pivots that are examined together. A block of columns is then one matrix product,
// which is several times faster than a product for each column.
constexpr std::size_t kBlock = 48;
// A matrix product computes this number of rows together.
constexpr std::size_t kProductRows = 12;
// A candidate becomes a pivot while its residual is at least this share of the block's largest
// one, which keeps the rank near that of a greedy choice.
constexpr double kShareOfLargest = 0.25;
// Rows of the Gram matrix that are computed together.
constexpr Eigen::Index kGramRows = 192;
// Smaller eigenvalues, relative to the largest one, are rounding.
constexpr double kLeastEigenvalueShare = 1e-15;
// Relative to the square of the largest eigenvalue: the smallest constant of EvaluateProduct whose
// result has three correct digits in double precision.
constexpr double kLeastProductConstant = 1e-13;

// exp(-|x - z|^2 / 2) for each row x of a and z of b. The norms take part in the product as two
// more columns.
RowMatrix KernelMatrix(const RowMatrix& a, const RowMatrix& b) {
  RowMatrix left(a.rows(), a.cols() + 2);
  left << a, -0.5 * a.rowwise().squaredNorm(), Eigen::VectorXd::Ones(a.rows());
  RowMatrix right(b.rows(), b.cols() + 2);
  right << b, Eigen::VectorXd::Ones(b.rows()), -0.5 * b.rowwise().squaredNorm();
  RowMatrix kernel(a.rows(), b.rows());
  MultiplyRows(1, left, right.transpose(), 0, kernel);
  Exponentiate(kernel.data(), static_cast<std::size_t>(kernel.size()));
  return kernel;
}

using Indices = std::vector<Eigen::Index>;

struct PivotedFactor {
  RowMatrix columns;  // rank x n: the transpose of L.
  Indices pivots;
};

// Chooses pivots among the candidates and replaces the candidates by them. block: their residual
// matrix. Returns the Cholesky factor of the chosen pivots.
RowMatrix ChoosePivots(const RowMatrix& block, Indices& candidates) {
  Indices chosen;
  Eigen::MatrixXd factor = Eigen::MatrixXd::Zero(block.rows(), block.rows());
  Eigen::VectorXd residuals = block.diagonal();
  const double least = std::max(kResidualTolerance, kShareOfLargest * residuals.maxCoeff());
  Eigen::Index next = 0;
  while (static_cast<Eigen::Index>(chosen.size()) < block.rows() &&
         (residuals.maxCoeff(&next) >= least || chosen.empty())) {
    const auto column = static_cast<Eigen::Index>(chosen.size());
    factor.col(column) =
        (block.col(next) - factor.leftCols(column) * factor.row(next).head(column).transpose()) /
        std::sqrt(residuals(next));
    residuals -= factor.col(column).cwiseAbs2();
    chosen.push_back(next);
    // Never chosen again, whatever the rounding.
    for (const Eigen::Index index : chosen) residuals(index) = -1;
  }
  // A product takes as long for fewer rows.
  if (chosen.size() > kProductRows) chosen.resize(chosen.size() / kProductRows * kProductRows);
  const auto count = static_cast<Eigen::Index>(chosen.size());
  RowMatrix result = factor(chosen, Eigen::seqN(0, count));
  for (Eigen::Index& index : chosen) index = candidates[static_cast<std::size_t>(index)];
  candidates = std::move(chosen);
  return result.triangularView<Eigen::Lower>();
}

absl::StatusOr<PivotedFactor> Factorize(const RowMatrix& points, const RunControl& control) {
  const Eigen::Index n = points.rows();
  const auto most = std::min<Eigen::Index>(n, KernelRidge::kMaxRank);
  PivotedFactor factor;
  factor.columns.resize(most, n);
  Eigen::VectorXd residuals = Eigen::VectorXd::Ones(n);
  Indices order(static_cast<std::size_t>(n));
  Eigen::Index rank = 0;
  while (rank < most && residuals.maxCoeff() > kResidualTolerance) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    std::iota(order.begin(), order.end(), 0);
    const auto size = std::min<std::ptrdiff_t>(kBlock, most - rank);
    std::partial_sort(order.begin(), order.begin() + size, order.end(),
                      [&](Eigen::Index a, Eigen::Index b) {
                        return residuals(a) != residuals(b) ? residuals(a) > residuals(b) : a < b;
                      });
    Indices pivots(order.begin(), order.begin() + size);
    const Eigen::MatrixXd rows = factor.columns(Eigen::seqN(0, rank), pivots).transpose();
    const RowMatrix candidates = points(pivots, Eigen::all);
    const RowMatrix chosen =
        ChoosePivots(KernelMatrix(candidates, candidates) - rows * rows.transpose(), pivots);
    const auto count = static_cast<Eigen::Index>(pivots.size());
    auto block = factor.columns.middleRows(rank, count);
    block = KernelMatrix(points(pivots, Eigen::all), points);
    const RowMatrix earlier = factor.columns(Eigen::seqN(0, rank), pivots).transpose();
    MultiplyRows(-1, earlier, factor.columns.topRows(rank), 1, block);
    chosen.triangularView<Eigen::Lower>().solveInPlace(block);
    residuals -= block.colwise().squaredNorm().transpose();
    for (Eigen::Index j = 0; j < count; ++j) {
      const Eigen::Index pivot = pivots[static_cast<std::size_t>(j)];
      residuals(pivot) = 0;
      // Zero but for rounding.
      block.col(pivot).tail(count - j - 1).setZero();
    }
    factor.pivots.insert(factor.pivots.end(), pivots.begin(), pivots.end());
    rank += count;
  }
  factor.columns.conservativeResize(rank, Eigen::NoChange);
  return factor;
}

// The lower triangle of rows rows'; above it, only some entries are computed.
absl::StatusOr<Eigen::MatrixXd> LowerGram(const RowMatrix& rows, const RunControl& control) {
  RowMatrix gram = RowMatrix::Zero(rows.rows(), rows.rows());
  for (Eigen::Index first = 0; first < rows.rows(); first += kGramRows) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const Eigen::Index count = std::min(kGramRows, rows.rows() - first);
    MultiplyRows(1, rows.middleRows(first, count), rows.topRows(first + count).transpose(), 0,
                 gram.block(first, 0, count, first + count));
  }
  return gram;
}

// Replaces each row x of `rows` by the solution z of factor z = x. factor: lower triangular.
void SolveRows(const MatrixView& factor, RowMatrix& rows) {
  // Unknowns that are solved for together.
  constexpr Eigen::Index kUnknowns = 64;
  for (Eigen::Index first = 0; first < rows.cols(); first += kUnknowns) {
    const Eigen::Index count = std::min(kUnknowns, rows.cols() - first);
    auto part = rows.middleCols(first, count);
    MultiplyRows(-1, rows.leftCols(first), factor.block(first, 0, count, first).transpose(), 1,
                 part);
    factor.block(first, first, count, count)
        .transpose()
        .triangularView<Eigen::Upper>()
        .solveInPlace<Eigen::OnTheRight>(part);
  }
}

struct Eigensystem {
  Eigen::ArrayXd values;
  RowMatrix vectors;
};

// The eigenvalues that are not rounding, ascending, and their eigenvectors. Reads the lower
// triangle. The steps of Eigen::SelfAdjointEigenSolver one by one, because the solver cannot be
// cancelled. The longest step that is left takes 0.15 s at the largest rank.
absl::StatusOr<Eigensystem> Decompose(const Eigen::MatrixXd& gram, const RunControl& control) {
  const Eigen::Tridiagonalization<Eigen::MatrixXd> tridiagonal(gram);
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(tridiagonal.diagonal(), tridiagonal.subDiagonal());
  const Eigen::VectorXd& all = solver.eigenvalues();
  const auto least = kLeastEigenvalueShare * all(all.size() - 1);
  const auto rank = static_cast<Eigen::Index>((all.array() > least).count());
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  const RowMatrix reflections = tridiagonal.matrixQ();
  CALIBD_ASSIGN_OR_RETURN(RowMatrix vectors,
                          ProductOf(reflections, solver.eigenvectors().rightCols(rank), control));
  return Eigensystem{all.tail(rank), std::move(vectors)};
}

}  // namespace

absl::StatusOr<KernelRidge> KernelRidge::Fit(const ResidualSample& fit, const RunControl& control) {
  const RowMatrix points = ViewRows(fit.predictions, fit.columns);
  CALIBD_ASSIGN_OR_RETURN(const PivotedFactor factor, Factorize(points, control));
  const RowMatrix& columns = factor.columns;
  CALIBD_ASSIGN_OR_RETURN(const Eigen::MatrixXd gram, LowerGram(columns, control));
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  CALIBD_ASSIGN_OR_RETURN(const Eigensystem system, Decompose(gram, control));
  const Eigen::ArrayXd& eigenvalues = system.values;
  const RowMatrix& vectors = system.vectors;

  KernelRidge result;
  result.columns_ = fit.columns;
  const auto n = static_cast<double>(fit.size());
  result.product_scale_ = std::pow(n, 1.5);
  result.function_scale_ = std::pow(n, 0.75);
  result.pivots_ = ToVector(points(factor.pivots, Eigen::all));
  result.pivot_factor_ = ToVector(columns(Eigen::all, factor.pivots).transpose());
  result.map_ = ToVector(vectors * eigenvalues.sqrt().matrix().asDiagonal());
  result.eigenvalues_.assign(eigenvalues.begin(), eigenvalues.end());
  const Eigen::MatrixXd projected = columns * ViewRows(fit.residuals, fit.columns);
  result.coefficients_ =
      ToVector(eigenvalues.rsqrt().matrix().asDiagonal() * (vectors.transpose() * projected));
  return result;
}

bool KernelRidge::IsStable(double regularization) const noexcept {
  const double largest = eigenvalues_.back();
  return regularization * product_scale_ >= kLeastProductConstant * largest * largest;
}

absl::StatusOr<std::vector<double>> KernelRidge::Eigenfunctions(const ResidualSample& rows,
                                                                const RunControl& control) const {
  const MatrixView predictions = ViewRows(rows.predictions, columns_);
  const MatrixView pivots = ViewRows(pivots_, columns_);
  const MatrixView factor = ViewRows(pivot_factor_, static_cast<std::size_t>(pivots.rows()));
  const MatrixView map = ViewRows(map_, rank());
  std::vector<double> values(rows.size() * rank());
  Eigen::Map<RowMatrix> all(values.data(), predictions.rows(), map.cols());
  for (Eigen::Index first = 0; first < predictions.rows(); first += kProductStripRows) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const Eigen::Index count = std::min(kProductStripRows, predictions.rows() - first);
    RowMatrix kernel = KernelMatrix(predictions.middleRows(first, count), pivots);
    SolveRows(factor, kernel);
    MultiplyRows(1, kernel, map, 0, all.middleRows(first, count));
  }
  return values;
}

absl::StatusOr<FunctionValues> KernelRidge::EvaluateProduct(std::span<const double> eigenfunctions,
                                                            double regularization,
                                                            const RunControl& control) const {
  const double constant = regularization * product_scale_;
  const Eigen::Map<const Eigen::VectorXd> eigenvalues(eigenvalues_.data(),
                                                      static_cast<Eigen::Index>(rank()));
  const MatrixView coefficients = ViewRows(coefficients_, columns_);
  const Eigen::MatrixXd weights = (coefficients * coefficients.transpose()).array() /
                                  ((eigenvalues * eigenvalues.transpose()).array() + constant);
  CALIBD_ASSIGN_OR_RETURN(const RowMatrix right,
                          ProductOf(ViewRows(eigenfunctions, rank()), weights, control));
  return FunctionValues{.width = rank(),
                        .left = {eigenfunctions.begin(), eigenfunctions.end()},
                        .right = ToVector(right)};
}

FunctionValues KernelRidge::EvaluateFunction(std::span<const double> eigenfunctions,
                                             double regularization) const {
  const double constant = regularization * function_scale_;
  const Eigen::Map<const Eigen::ArrayXd> eigenvalues(eigenvalues_.data(),
                                                     static_cast<Eigen::Index>(rank()));
  const RowMatrix weights =
      (eigenvalues + constant).inverse().matrix().asDiagonal() * ViewRows(coefficients_, columns_);
  return {
      .width = columns_, .left = ToVector(ViewRows(eigenfunctions, rank()) * weights), .right = {}};
}

}  // namespace calibd
