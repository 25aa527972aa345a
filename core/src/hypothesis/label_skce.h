#ifndef CALIBD_CORE_SRC_HYPOTHESIS_LABEL_SKCE_H_
#define CALIBD_CORE_SRC_HYPOTHESIS_LABEL_SKCE_H_

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/run_control.h"
#include "kernels/line_skce.h"

namespace calibd {

// Up to this many observations LabelSkce uses the kernel itself, above it Fourier terms.
inline constexpr std::size_t kMaxExactRows = 2000;

// sum_{i<j} h_ij of fixed predictions as a function of their labels. For a map phi with
// k(g_i, g_j) = phi_i'phi_j and a kernel k I,
//   sum_ij h_ij = |S|^2,  S = sum_i phi_i (e_{y_i} - g_i)',
// so that only one row of S changes with a label. Up to kMaxExactRows observations the phi_i are
// the rows of a Cholesky factor of the kernel matrix, which is exact; above, they are
// those of a FourierBasis. A term k_l A_l of a matrix-valued kernel has |F_l'S_l|^2.
class FactorForm {
 public:
  // part: valid. Errors: those of FourierBasis; Cancelled.
  [[nodiscard]] static absl::StatusOr<FactorForm> Create(const PredictionBatch& part,
                                                         const RunningKernel& kernel,
                                                         const RunControl& control);

  // labels: one for each observation of the part.
  [[nodiscard]] double SumAboveDiagonal(std::span<const std::int32_t> labels) const;

 private:
  using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  struct Term {
    // n x D. If the kernel is exact, row i has only i + 1 values that are not 0.
    RowMatrix factor;
    // sum_i g_i phi_i': m x D.
    RowMatrix centre;
    // F': rank x m; empty for the identity.
    RowMatrix projection;
  };

  FactorForm() = default;
  absl::Status AddTerm(const PredictionBatch& part, const Kernel& kernel,
                       std::span<const double> factor, const RunControl& control);

  bool exact_ = false;
  std::vector<Term> terms_;
  // h_ii for each label: n x m.
  RowMatrix diagonal_;
};

// SKCE_uq of a sample that was reduced by a lens, as a function of its labels, for SimulateTest.
// Two-class parts with an exponential kernel are exact in O(n). Immutable, thread-safe.
class LabelSkce {
 public:
  // seen: n >= 2. Errors: those of FactorForm.
  [[nodiscard]] static absl::StatusOr<LabelSkce> Create(const LensBatch& seen,
                                                        const RunningKernel& kernel,
                                                        const RunControl& control);

  // rows: in the order of the sample. Their labels are those of the part if there is one part,
  // else of the classes, each of which is a part: class_wise.
  [[nodiscard]] double operator()(const LabelledRows& rows) const;

 private:
  LabelSkce() = default;

  double weight_ = 1;
  std::vector<std::variant<LineSkce, FactorForm>> parts_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_HYPOTHESIS_LABEL_SKCE_H_
