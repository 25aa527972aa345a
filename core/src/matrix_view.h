#ifndef CALIBD_CORE_SRC_MATRIX_VIEW_H_
#define CALIBD_CORE_SRC_MATRIX_VIEW_H_

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

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

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_MATRIX_VIEW_H_
