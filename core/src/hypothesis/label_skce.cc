#include "hypothesis/label_skce.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "calibd/core/fourier_basis.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/status_macros.h"
#include "kernels/tile_walk.h"

namespace calibd {
namespace {

// Added to the diagonal of a kernel matrix, which is singular if predictions are equal. Its
// contribution to |S|^2 is subtracted with the diagonal, so that the result is exact.
constexpr double kRidge = 1e-6;

}  // namespace

absl::Status FactorForm::AddTerm(const PredictionBatch& part, const Kernel& kernel,
                                 std::span<const double> factor, const RunControl& control) {
  const auto n = static_cast<Eigen::Index>(part.size());
  const auto m = static_cast<Eigen::Index>(part.class_count);
  Term& term = terms_.emplace_back();
  if (exact_) {
    RowMatrix kernels = RowMatrix::Zero(n, n);
    ParallelFor(control, part.size(), [&](std::size_t i) {
      if (control.IsCancelled()) return;
      const auto row = static_cast<Eigen::Index>(i);
      for (Eigen::Index j = 0; j < row; ++j) {
        kernels(row, j) = kernel(part.row(i), part.row(static_cast<std::size_t>(j)));
      }
      kernels(row, row) = 1 + kRidge;
    });
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    // In place: only the lower triangle is read and written.
    const Eigen::LLT<Eigen::Ref<RowMatrix>> cholesky(kernels);
    if (cholesky.info() != Eigen::Success) {
      return absl::InternalError("the kernel matrix has no Cholesky factor");
    }
    term.factor = std::move(kernels);
  } else {
    CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<const FourierBasis> map,
                            FourierBasis::Create(kernel, part.class_count));
    term.factor.resize(n, kFourierCount);
    ParallelFor(control, part.size(), [&](std::size_t i) {
      map->Map(part.row(i),
               std::span(term.factor.row(static_cast<Eigen::Index>(i)).data(), kFourierCount));
    });
  }
  const Eigen::Map<const RowMatrix> g(part.probabilities.data(), n, m);
  term.centre = g.transpose() * term.factor;
  // |F'(e_y - g)|^2 = |F'e_y|^2 - 2 (F'e_y)'(F'g) + |F'g|^2, with k(x, x) = 1.
  RowMatrix mean = g;
  Eigen::RowVectorXd norms = Eigen::RowVectorXd::Ones(m);
  Eigen::VectorXd squares = g.rowwise().squaredNorm();
  if (!factor.empty()) {
    const Eigen::Map<const RowMatrix> f(factor.data(), m,
                                        static_cast<Eigen::Index>(factor.size()) / m);
    term.projection = f.transpose();
    const RowMatrix projected = g * f;
    mean = projected * f.transpose();
    norms = f.rowwise().squaredNorm().transpose();
    squares = projected.rowwise().squaredNorm();
  }
  const double diagonal = exact_ ? 1 + kRidge : 1;
  diagonal_ += diagonal * (((-2 * mean).rowwise() + norms).colwise() + squares);
  return absl::OkStatus();
}

absl::StatusOr<FactorForm> FactorForm::Create(const PredictionBatch& part,
                                              const RunningKernel& kernel,
                                              const RunControl& control) {
  FactorForm form;
  form.exact_ = part.size() <= kMaxExactRows;
  form.diagonal_ = RowMatrix::Zero(static_cast<Eigen::Index>(part.size()),
                                   static_cast<Eigen::Index>(part.class_count));
  if (const auto* const scalar = std::get_if<Kernel>(&kernel)) {
    CALIBD_RETURN_IF_ERROR(form.AddTerm(part, *scalar, {}, control));
    return form;
  }
  for (const MatrixKernel::Factor& factor : MatrixOf(kernel)->factors()) {
    CALIBD_RETURN_IF_ERROR(form.AddTerm(part, factor.kernel, factor.matrix, control));
  }
  return form;
}

double FactorForm::SumAboveDiagonal(std::span<const std::int32_t> labels) const {
  double sum = 0;
  for (const Term& term : terms_) {
    RowMatrix s = -term.centre;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      const Eigen::Index width = exact_ ? row + 1 : static_cast<Eigen::Index>(kFourierCount);
      s.row(labels[i]).head(width) += term.factor.row(row).head(width);
    }
    sum += term.projection.size() == 0 ? s.squaredNorm() : (term.projection * s).squaredNorm();
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    sum -= diagonal_(static_cast<Eigen::Index>(i), labels[i]);
  }
  return sum / 2;
}

absl::StatusOr<LabelSkce> LabelSkce::Create(const LensBatch& seen, const RunningKernel& kernel,
                                            const RunControl& control) {
  LabelSkce skce;
  skce.weight_ = seen.weight;
  for (const PredictionBatch& part : seen.views()) {
    const auto* const scalar = std::get_if<Kernel>(&kernel);
    std::optional<LineSkce> line;
    if (scalar != nullptr) line = LineSkce::Of(part, *scalar);
    if (line.has_value()) {
      skce.parts_.emplace_back(*std::move(line));
      continue;
    }
    CALIBD_ASSIGN_OR_RETURN(FactorForm form, FactorForm::Create(part, kernel, control));
    skce.parts_.emplace_back(std::move(form));
  }
  return skce;
}

double LabelSkce::operator()(const LabelledRows& rows) const {
  double sum = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const auto first_class = static_cast<std::int32_t>(k);
    if (const auto* const line = std::get_if<LineSkce>(&parts_[k])) {
      sum += line->SumAboveDiagonal(rows.labels(), first_class);
      continue;
    }
    std::vector<std::int32_t> labels(rows.labels().begin(), rows.labels().end());
    if (parts_.size() > 1) {
      for (std::int32_t& label : labels) label = label == first_class ? 0 : 1;
    }
    sum += std::get<FactorForm>(parts_[k]).SumAboveDiagonal(labels);
  }
  const auto n = static_cast<double>(rows.size());
  return 2 * weight_ * sum / (n * (n - 1));
}

}  // namespace calibd
