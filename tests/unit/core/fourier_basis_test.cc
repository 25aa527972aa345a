#include "calibd/core/fourier_basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/matrix_kernel.h"
#include "support/draw.h"

namespace calibd {
namespace {

double Product(const std::vector<double>& phi, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t d = 0; d < kFourierCount; ++d) {
    sum += phi[i * kFourierCount + d] * phi[j * kFourierCount + d];
  }
  return sum;
}

TEST(FourierBasisTest, ProductsApproximateEachKernel) {
  constexpr std::size_t kRows = 40;
  for (const std::size_t m : {2u, 10u, 150u}) {
    const PredictionSet set = Draw(GeneratorSpec::M1(m), kRows, 3);
    for (const Kernel& kernel :
         {*Kernel::ExponentialTotalVariation(0.8), *Kernel::Over(Distance::kCityblock, 1.6),
          *Kernel::Over(Distance::kEuclidean, 0.9),
          *Kernel::Over(Distance::kSquaredEuclidean, 1 / 1.5)}) {
      const auto basis = FourierBasis::Create(kernel, m);
      ASSERT_TRUE(basis.ok());
      std::vector<double> phi(kRows * kFourierCount);
      (*basis)->Map(set.probabilities, kRows, phi);
      double squared = 0;
      for (std::size_t i = 0; i < kRows; ++i) {
        EXPECT_NEAR(Product(phi, i, i), 1, 1e-14);
        for (std::size_t j = 0; j < kRows; ++j) {
          const double k = kernel.OfDistance(
              DistanceOf(kernel.distance(), set.view().row(i), set.view().row(j)));
          squared += std::pow(Product(phi, i, j) - k, 2);
        }
      }
      // The mean of 64 cosines has a standard deviation of at most 1/8. Frequencies that are wrong
      // by a factor of 2 would change the kernel by .2 to .3.
      EXPECT_LE(std::sqrt(squared / (kRows * kRows)), 0.125)
          << "m=" << m << " distance " << static_cast<int>(kernel.distance());
    }
  }
}

TEST(FourierBasisTest, RowsTogetherEqualSingleRowsBitForBit) {
  const std::size_t m = 150;
  const PredictionSet set = Draw(GeneratorSpec::M1(m), 20, 3);
  const auto basis = *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.8), m);
  std::vector<double> together(20 * kFourierCount);
  basis->Map(set.probabilities, 20, together);
  for (std::size_t i = 0; i < 20; ++i) {
    std::vector<double> alone(kFourierCount);
    basis->Map(set.view().row(i), alone);
    const std::span<const double> row(&together[i * kFourierCount], kFourierCount);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), row.begin()));
  }
}

TEST(FourierBasisTest, FrequenciesOfAClassDoNotDependOnTheOthers) {
  const Kernel kernel = *Kernel::Over(Distance::kSquaredEuclidean, 1 / 2.0);
  const auto few = *FourierBasis::Create(kernel, 3);
  const auto many = *FourierBasis::Create(kernel, 30);
  EXPECT_TRUE(std::equal(few->frequencies().begin(), few->frequencies().end(),
                         many->frequencies().begin()));
  EXPECT_EQ(*few, **FourierBasis::Create(kernel, 3));
}

TEST(FourierBasisTest, AMatrixValuedKernelGivesItsAverageScalarFactor) {
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const auto one_term =
      std::make_shared<const MatrixKernel>(*MatrixKernel::Create({{kernel, {2, 1, 1, 2}}}, 2));
  const auto scalar = *FourierBasis::Create(kernel, 2);
  const auto matrix = FourierBasis::Create(RunningKernel(one_term), 2);
  ASSERT_TRUE(matrix.ok());
  EXPECT_EQ(**matrix, *scalar);
}

TEST(FourierBasisTest, AnyBandwidthGivesFiniteTerms) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 5, 3);
  for (const double bandwidth : {1e-300, 1e-9, 1e9, 1e300}) {
    for (const Distance distance : {Distance::kTotalVariation, Distance::kCityblock,
                                    Distance::kEuclidean, Distance::kSquaredEuclidean}) {
      const auto basis = *FourierBasis::Create(*Kernel::Over(distance, bandwidth), 3);
      std::vector<double> phi(5 * kFourierCount);
      basis->Map(set.probabilities, 5, phi);
      for (const double value : phi) {
        EXPECT_LE(std::abs(value), 0.125 + 1e-15);
      }
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(Product(phi, i, i), 1, 1e-14);
      }
    }
  }
}

TEST(FourierBasisTest, RejectsClassCountsOutOfRange) {
  for (const std::size_t m : {0u, 1u, 100001u}) {
    EXPECT_EQ(FourierBasis::Create(*Kernel::Over(Distance::kSquaredEuclidean, 1 / 1.0), m)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto matrix = std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
      {{*Kernel::Over(Distance::kSquaredEuclidean, 1 / 1.0), {1, 0, 0, 1}}}, 2));
  EXPECT_EQ(FourierBasis::Create(RunningKernel(matrix), 3).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace calibd
