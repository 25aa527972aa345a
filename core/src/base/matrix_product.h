#ifndef CALIBD_CORE_SRC_BASE_MATRIX_PRODUCT_H_
#define CALIBD_CORE_SRC_BASE_MATRIX_PRODUCT_H_

#include <cstddef>
#include <vector>

namespace calibd {

// Columns of a piece of B, a multiple of the columns of one register block.
inline constexpr std::size_t kPieceColumns = 32;

// C <- weight A B + keep C. This is own code, because the libraries in Debian either share buffers
// between threads without locks (the single-threaded OpenBLAS), start threads, or are half as fast.
// Concurrent calls are safe if each has its own scratch.
template <typename T>
struct MatrixProduct {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t depth = 0;
  // rows x depth, row-major.
  const T* a = nullptr;
  std::size_t a_stride = 0;
  // depth x columns, with the distances in memory from one row to the next and from one column to
  // the next.
  const T* b = nullptr;
  std::size_t b_row_stride = 0;
  std::size_t b_column_stride = 1;
  // If not 0, B is divided into pieces of kPieceColumns columns, which are this far apart.
  std::size_t b_piece_stride = 0;
  // rows x columns, row-major. Not read when keep is 0.
  T* c = nullptr;
  std::size_t c_stride = 0;
  T weight = 1;
  T keep = 0;
};

// Cost: rows x columns x depth multiplications; 32 KiB of stack. scratch: grows to about 256 x rows
// values; must not be shared between concurrent calls.
void Multiply(const MatrixProduct<float>& product, std::vector<float>& scratch);
void Multiply(const MatrixProduct<double>& product, std::vector<double>& scratch);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_MATRIX_PRODUCT_H_
