#include "base/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace calibd {
namespace {

TEST(ExponentialTest, IsThatOfTheStandardLibrary) {
  // All lengths around those of the vectors.
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<double> x(count + 1, 0.5);
    for (std::size_t i = 0; i < count; ++i) {
      const double t = static_cast<double>(i) / 69;
      x[i] = -700 * t * t * t;
    }
    std::vector<double> values = x;
    Exponentiate(values.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const double expected = std::exp(x[i]);
      EXPECT_NEAR(values[i], expected, (1e-15 - 2e-16 * x[i]) * expected) << x[i];
    }
    EXPECT_EQ(values[count], 0.5) << "beyond the end";
  }
}

TEST(ExponentialTest, ValuesOutsideItsRangeAreFinite) {
  std::vector<double> values = {1e-17, 1e300, -709, -1e300, -HUGE_VAL};
  Exponentiate(values.data(), values.size());
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 1);
  for (std::size_t i = 2; i < values.size(); ++i) {
    EXPECT_GE(values[i], 0);
    EXPECT_LE(values[i], 1e-300);
  }
}

}  // namespace
}  // namespace calibd
