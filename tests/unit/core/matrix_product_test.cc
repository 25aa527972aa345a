#include "base/matrix_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace calibd {
namespace {

template <typename T>
void ExpectProductsAreRight(double tolerance) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<T> entry(-1, 1);
  const auto fill = [&](std::size_t size) {
    std::vector<T> values(size);
    for (T& value : values) value = entry(random);
    return values;
  };
  std::vector<T> scratch;
  for (const std::size_t rows : {1U, 6U, 13U, 256U}) {
    for (const std::size_t columns : {1U, 16U, 33U, 100U}) {
      for (const std::size_t depth : {1U, 7U, 256U, 600U}) {
        for (const bool transposed : {false, true}) {
          for (const double keep : {0.0, 0.5}) {
            const std::vector<T> a = fill(rows * depth);
            const std::vector<T> b = fill(columns * depth);
            std::vector<T> c = fill(rows * columns);
            const std::vector<T> before = c;
            // It is not read if nothing of it is kept.
            if (keep == 0) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
            MatrixProduct<T> product;
            product.rows = rows;
            product.columns = columns;
            product.depth = depth;
            product.a = a.data();
            product.a_stride = depth;
            product.b = b.data();
            product.b_row_stride = transposed ? 1 : columns;
            product.b_column_stride = transposed ? depth : 1;
            product.c = c.data();
            product.c_stride = columns;
            product.weight = 2;
            product.keep = static_cast<T>(keep);
            Multiply(product, scratch);
            for (std::size_t i = 0; i < rows; ++i) {
              for (std::size_t j = 0; j < columns; ++j) {
                double sum = keep == 0 ? 0 : keep * static_cast<double>(before[i * columns + j]);
                for (std::size_t k = 0; k < depth; ++k) {
                  const T factor = transposed ? b[j * depth + k] : b[k * columns + j];
                  sum += 2 * static_cast<double>(a[i * depth + k]) * static_cast<double>(factor);
                }
                ASSERT_NEAR(static_cast<double>(c[i * columns + j]), sum,
                            tolerance * std::sqrt(static_cast<double>(depth)));
              }
            }
          }
        }
      }
    }
  }
}

TEST(MatrixProductTest, EqualsTheSumsInSinglePrecision) { ExpectProductsAreRight<float>(1e-5); }

TEST(MatrixProductTest, EqualsTheSumsInDoublePrecision) { ExpectProductsAreRight<double>(1e-14); }

}  // namespace
}  // namespace calibd
