#ifndef CALIBD_CORE_MATRIX_KERNEL_H_
#define CALIBD_CORE_MATRIX_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"

namespace calibd {

// A matrix-valued kernel k(s, t) = sum_l k_l(s, t) A_l with symmetric positive semi-definite m x m
// matrices A_l, which define how residuals of different classes are combined; k I is the case of
// one term with the identity. Source: Widmann, Lindsten & Zachariah, NeurIPS 2019, Example D.1.
class MatrixKernel {
 public:
  struct Term {
    Kernel kernel;
    // A_l, m x m.
    std::vector<double> matrix;

    friend bool operator==(const Term&, const Term&) = default;
  };

  // Errors: InvalidArgument naming the term, if there is no term, or if a matrix is not m x m, not
  // finite, not symmetric (1e-12 relative to its largest entry), has an eigenvalue below -1e-12
  // times its largest, or a largest eigenvalue that is neither 0 nor in [1e-6, 1e6]. Cost: O(m^3)
  // per term.
  [[nodiscard]] static absl::StatusOr<MatrixKernel> Create(std::vector<Term> terms,
                                                           std::size_t class_count);

  [[nodiscard]] std::size_t class_count() const noexcept { return class_count_; }
  // True iff sum_l A_l is positive definite: then the KCE is zero only for a calibrated
  // model (Lemma D.3, Theorem E.1).
  [[nodiscard]] bool universal() const noexcept { return universal_; }
  // B = 2 sum_l sup|k_l| |A_l|_2 (Lemma H.1): |h_ij| <= B.
  [[nodiscard]] double DistributionFreeBound() const noexcept { return bound_; }

  // E h_ii and E h_ij^2 of labels drawn from the predictions, tr(S K(g, g)) and
  // tr(S_i K S_j K) with K = k(g_i, g_j) and S = diag(g) - g g'. Cost: O(m^2) a term, and
  // O(m^2) memory.
  [[nodiscard]] double NullDiagonal(std::span<const double> g) const;
  [[nodiscard]] double NullSquare(std::span<const double> g_i, std::span<const double> g_j) const;

  friend bool operator==(const MatrixKernel&, const MatrixKernel&) = default;

  // A_l = F_l F_l' with F_l of m x rank, row-major, so that d' A_l d' = (F_l' d)'(F_l' d').
  struct Factor {
    Kernel kernel;
    std::size_t rank;
    std::vector<double> matrix;

    friend bool operator==(const Factor&, const Factor&) = default;
  };
  [[nodiscard]] std::span<const Factor> factors() const noexcept { return factors_; }
  // The sum of the ranks.
  [[nodiscard]] std::size_t rank() const noexcept;
  // F_l' (e_y - g) of all terms, concatenated: rank() values. Cost: O(m rank).
  void Project(std::span<const double> g, std::int32_t y, std::span<double> out) const noexcept;
  // The terms as given, without those whose matrix is zero.
  [[nodiscard]] std::span<const Term> terms() const noexcept { return terms_; }

 private:
  MatrixKernel() = default;

  std::size_t class_count_ = 0;
  bool universal_ = false;
  double bound_ = 0;
  std::vector<Term> terms_;
  std::vector<Factor> factors_;
};

// The kernel of a running estimator: k I for a real-valued kernel k, or a matrix-valued kernel.
using RunningKernel = std::variant<Kernel, std::shared_ptr<const MatrixKernel>>;

// The kernel if it is matrix-valued, else null.
[[nodiscard]] inline const MatrixKernel* MatrixOf(const RunningKernel& kernel) noexcept {
  const auto* const shared = std::get_if<std::shared_ptr<const MatrixKernel>>(&kernel);
  return shared == nullptr ? nullptr : shared->get();
}

// Errors: InvalidArgument unless class_count is in [kMinClassCount, kMaxClassCount] and that of a
// matrix-valued kernel.
[[nodiscard]] absl::Status CheckClassCount(std::size_t class_count, const RunningKernel& kernel);

// Upper bound B of |h_ij|, see Kernel::DistributionFreeBound.
[[nodiscard]] double DistributionFreeBound(const RunningKernel& kernel) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_MATRIX_KERNEL_H_
