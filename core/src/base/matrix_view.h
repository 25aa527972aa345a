#ifndef CALIBD_CORE_SRC_BASE_MATRIX_VIEW_H_
#define CALIBD_CORE_SRC_BASE_MATRIX_VIEW_H_

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/matrix_product.h"
#include "calibd/core/run_control.h"
#include "calibd/core/status_macros.h"

namespace calibd {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixView = Eigen::Map<const RowMatrix>;

// values: rows x columns, row-major.
inline MatrixView ViewRows(std::span<const double> values, std::size_t columns) {
  return {values.data(), static_cast<Eigen::Index>(values.size() / columns),
          static_cast<Eigen::Index>(columns)};
}

inline std::vector<double> ToVector(const RowMatrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

// Rows of a product whose packed entries fit into the second-level cache.
inline constexpr Eigen::Index kProductStripRows = 240;

// c <- weight a b + keep c, with the widest vectors of this CPU: Eigen itself is compiled for the
// baseline. a: row-major. c must not overlap a or b.
template <typename A, typename B>
void MultiplyRows(double weight, const A& a, const B& b, double keep, Eigen::Ref<RowMatrix> c) {
  static_assert(A::IsRowMajor);
  std::vector<double> scratch;
  MatrixProduct<double> product;
  product.columns = static_cast<std::size_t>(c.cols());
  product.depth = static_cast<std::size_t>(a.cols());
  product.a_stride = static_cast<std::size_t>(a.outerStride());
  product.b = b.data();
  product.b_row_stride = static_cast<std::size_t>(b.rowStride());
  product.b_column_stride = static_cast<std::size_t>(b.colStride());
  product.c_stride = static_cast<std::size_t>(c.outerStride());
  product.weight = weight;
  product.keep = keep;
  for (Eigen::Index first = 0; first < c.rows(); first += kProductStripRows) {
    product.rows = static_cast<std::size_t>(std::min(kProductStripRows, c.rows() - first));
    product.a = a.data() + first * a.outerStride();
    product.c = c.data() + first * c.outerStride();
    Multiply(product, scratch);
  }
}

// a b. a: row-major. Errors: Cancelled.
template <typename A, typename B>
[[nodiscard]] absl::StatusOr<RowMatrix> ProductOf(const A& a, const B& b,
                                                  const RunControl& control) {
  RowMatrix c(a.rows(), b.cols());
  for (Eigen::Index first = 0; first < a.rows(); first += kProductStripRows) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const Eigen::Index count = std::min(kProductStripRows, a.rows() - first);
    MultiplyRows(1, a.middleRows(first, count), b, 0, c.middleRows(first, count));
  }
  return c;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_MATRIX_VIEW_H_
