#ifndef CALIBD_CORE_SRC_KERNELS_LINE_SKCE_H_
#define CALIBD_CORE_SRC_KERNELS_LINE_SKCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// The estimators for two classes. Two-class predictions lie on a line, on which the exponential
// kernel is a product over the gaps between neighbours. With the observations sorted, sum_{i<j} r_i
// r_j exp(-(c_j - c_i) / nu) is one recursion, exact in O(n) after an O(n log n) sort. With r = [y
// = 0] - g_0 a term is h_ij = 2 r_i r_j k(g_i, g_j).
class LineSkce {
 public:
  // Unset unless m = 2, every row sums to 1 up to rounding (otherwise the predictions are not on a
  // line), and the kernel is exponential.
  static std::optional<LineSkce> Of(const PredictionBatch& batch, const Kernel& kernel);

  [[nodiscard]] double SumAboveDiagonal() const noexcept;
  // The sum with other labels, in the order of the batch: an observation is of the first class if
  // its label is `first_class`.
  [[nodiscard]] double SumAboveDiagonal(std::span<const std::int32_t> labels,
                                        std::int32_t first_class) const noexcept;
  [[nodiscard]] double SumOfDiagonal() const noexcept;

  // sum_{i<j} E h_ij^2 and sum_i E h_ii with the labels drawn from the predictions:
  // E r_i^2 = v_i = g_i0 g_i1, so that E h_ij^2 = 4 v_i v_j k(g_i, g_j)^2.
  [[nodiscard]] double NullSumOfSquares() const noexcept;
  [[nodiscard]] double NullSumOfDiagonal() const noexcept;

  // h_ii and R_i = sum_j h_ij of the observations, in the order of the batch.
  struct Rows {
    std::vector<double> diagonal;
    std::vector<double> sums;
  };
  [[nodiscard]] Rows RowSums() const;

  // C'HC for counts C, in the order of the batch.
  [[nodiscard]] double QuadraticForm(std::span<const std::uint32_t> counts) const noexcept;

 private:
  LineSkce() = default;

  // By ascending position: the row in the batch, the position g_0, the residual, and the kernel
  // between this observation and the previous one.
  std::vector<std::uint32_t> order_;
  std::vector<double> positions_;
  std::vector<double> residuals_;
  std::vector<double> decay_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_LINE_SKCE_H_
