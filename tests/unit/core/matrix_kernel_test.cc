#include "calibd/core/matrix_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibd/core/bootstrap.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

std::vector<double> Identity(std::size_t m) {
  std::vector<double> matrix(m * m);
  for (std::size_t k = 0; k < m; ++k) matrix[k * m + k] = 1;
  return matrix;
}

TEST(MatrixKernelTest, IdentityIsTheRealValuedKernel) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 400, 1);
  const auto kernel = MatrixKernel::Create({{MakeKernel(0.4), Identity(5)}}, 5);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(kernel->universal());
  EXPECT_NEAR(kernel->DistributionFreeBound(), Kernel::DistributionFreeBound(), 1e-15);
  const BootstrapOptions options{.replicates = 300, .seed = 4};
  const auto matrix = BootstrapTest(set.view(), *kernel, options);
  const auto real = BootstrapTest(set.view(), MakeKernel(0.4), options);
  EXPECT_NEAR(matrix->skce.biased, real->skce.biased, 1e-15);
  EXPECT_NEAR(matrix->skce.unbiased, real->skce.unbiased, 1e-15);
  EXPECT_NEAR(matrix->replicate_mean, real->replicate_mean,
              1e-3 * real->replicate_standard_deviation);
  EXPECT_EQ(matrix->exceedances, real->exceedances);
}

TEST(MatrixKernelTest, EqualsTheDefinition) {
  const std::size_t n = 300;
  const PredictionSet set = Draw(GeneratorSpec::M2(3), n, 2);
  // Positive semi-definite of rank 2 and of rank 1.
  const std::vector<double> a = {2, 1, 0, 1, 2, 0, 0, 0, 0};
  const std::vector<double> b = {1, -1, 1, -1, 1, -1, 1, -1, 1};
  const Kernel gaussian = *Kernel::Over(Distance::kSquaredEuclidean, 1 / 3.0);
  const auto kernel = MatrixKernel::Create({{MakeKernel(0.4), a}, {gaussian, b}}, 3);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto g = set.view().row(i);
      const auto f = set.view().row(j);
      for (std::size_t k = 0; k < 3; ++k) {
        for (std::size_t l = 0; l < 3; ++l) {
          const double d = (static_cast<std::size_t>(set.labels[i]) == k ? 1 : 0) - g[k];
          const double e = (static_cast<std::size_t>(set.labels[j]) == l ? 1 : 0) - f[l];
          sum += d * e * (MakeKernel(0.4)(g, f) * a[3 * k + l] + gaussian(g, f) * b[3 * k + l]);
        }
      }
    }
  }
  const auto estimate = EstimateQuadraticSkce(set.view(), *kernel);
  EXPECT_NEAR(estimate->unbiased, 2 * sum / (300.0 * 299), 1e-14);
  // Eigenvalues of a: 0, 1, 3; of b: 0, 0, 3.
  EXPECT_NEAR(kernel->DistributionFreeBound(), 12, 1e-12);
}

TEST(MatrixKernelTest, RunningBlocksAreTheMeansOfTheirPairs) {
  constexpr std::size_t kBlock = 4;
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 10 * kBlock + 3, 7);
  const std::vector<double> a = {2, 1, 0, 1, 2, 0, 0, 0, 0};
  const std::vector<double> b = {1, -1, 1, -1, 1, -1, 1, -1, 1};
  const auto kernel = std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
      {{MakeKernel(0.4), a}, {*Kernel::Over(Distance::kSquaredEuclidean, 1 / 3.0), b}}, 3));
  EXPECT_EQ(kernel->rank(), 3);
  auto running = RunningBlockSkce::Create(kBlock, 3, kernel);
  RunningMoments expected;
  double sum = 0;
  for (std::size_t i = 0; i < set.view().size(); ++i) {
    running->Add(set.view().row(i), set.labels[i]);
    for (std::size_t j = i / kBlock * kBlock; j < i; ++j) {
      sum += SkceTerm(set.view().row(i), set.labels[i], set.view().row(j), set.labels[j], *kernel);
    }
    if (i % kBlock == kBlock - 1) {
      expected.Add(sum / 6);
      sum = 0;
    }
  }
  EXPECT_EQ(running->moments().count, 10);
  EXPECT_NEAR(running->moments().mean, expected.mean, 1e-15);
  EXPECT_NEAR(running->moments().m2, expected.m2, 1e-14);
}

TEST(MatrixKernelTest, ReportsUniversality) {
  const std::vector<double> first = {1, 0, 0, 0};
  const std::vector<double> second = {0, 0, 0, 1};
  EXPECT_FALSE(MatrixKernel::Create({{MakeKernel(1), first}}, 2)->universal());
  EXPECT_TRUE(
      MatrixKernel::Create({{MakeKernel(1), first}, {MakeKernel(2), second}}, 2)->universal());
}

TEST(MatrixKernelTest, ErrorsNameTheInvalidValue) {
  const auto error = [](std::vector<double> matrix) {
    return std::string(
        MatrixKernel::Create({{MakeKernel(1), std::move(matrix)}}, 2).status().message());
  };
  EXPECT_THAT(error({1, 0, 0}), HasSubstr("terms[0].matrix has 3 values, expected 2 x 2"));
  EXPECT_THAT(error({1, 0.5, 0, 1}), HasSubstr("off symmetry by 0.5"));
  EXPECT_THAT(error({1, 2, 2, 1}), HasSubstr("eigenvalue -1, expected a positive semi-definite"));
  EXPECT_THAT(error({-1, 0, 0, -1}), HasSubstr("eigenvalue -1"));
  EXPECT_THAT(error({1, 0, 0, std::nan("")}), HasSubstr("not finite"));
  EXPECT_THAT(error({0, 0, 0, 0}), HasSubstr("only zero matrices"));
  EXPECT_EQ(MatrixKernel::Create({}, 2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MatrixKernelTest, RejectsABatchOfOtherClasses) {
  const auto kernel = MatrixKernel::Create({{MakeKernel(1), Identity(3)}}, 3);
  EXPECT_EQ(
      EstimateQuadraticSkce(Draw(GeneratorSpec::M2(2), 10, 1).view(), *kernel).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace calibd
