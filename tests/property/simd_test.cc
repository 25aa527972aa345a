// Every instruction set of this CPU gives the same estimates as scalar code.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/generator.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/simd_target.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

struct Estimates {
  double median;
  QuadraticSkce float64;
  QuadraticSkce float32;
  // The test has 99 replicates.
  BootstrapTestResult bootstrap;
  NullMoments null_moments;
};

Estimates Compute(const PredictionSet& set, const Kernel& kernel) {
  return {*MedianBandwidth(set.probabilities, set.class_count, {}, kernel.distance()),
          *EstimateQuadraticSkce(set.view(), kernel),
          *EstimateQuadraticSkce(set.view(), kernel, {}, Precision::kFloat32),
          *BootstrapTest(set.view(), kernel, {.replicates = 99, .seed = 1}),
          *EstimateNullMoments(set.view(), kernel)};
}

// Mean |h_ij| over all pairs, by the scalar term.
double MeanAbsoluteTerm(const PredictionBatch& batch, const Kernel& kernel) {
  double sum = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t j = 0; j < batch.size(); ++j) {
      sum +=
          std::abs(SkceTerm(batch.row(i), batch.labels[i], batch.row(j), batch.labels[j], kernel));
    }
  }
  return sum / static_cast<double>(batch.size() * batch.size());
}

TEST(SimdTest, EveryTargetAgreesWithScalarCode) {
  const Kernel kernels[] = {*Kernel::ExponentialTotalVariation(0.3),
                            *Kernel::Over(Distance::kCityblock, 0.7),
                            *Kernel::Over(Distance::kEuclidean, 0.4),
                            *Kernel::Over(Distance::kSquaredEuclidean, 1 / 5.0)};
  for (const std::size_t n : {5u, 67u, 300u}) {
    for (const std::size_t m : {3u, 10u, 101u}) {
      PredictionSet set;
      Generator::Create(GeneratorSpec::M2(m), n + m)->Draw(n, set);
      for (const Kernel& kernel : kernels) {
        const double scale = MeanAbsoluteTerm(set.view(), kernel);
        hwy::SetSupportedTargetsForTest(HWY_BASELINE_SCALAR);
        ASSERT_STREQ(SimdTarget(), hwy::TargetName(HWY_BASELINE_SCALAR));
        const Estimates scalar = Compute(set, kernel);
        hwy::SetSupportedTargetsForTest(0);
        std::int64_t targets = hwy::SupportedTargets();
        while (targets != 0) {
          const std::int64_t target = targets & -targets;
          targets &= targets - 1;
          hwy::SetSupportedTargetsForTest(target);
          const Estimates simd = Compute(set, kernel);
          // Distances have the same bits; products may be fused.
          if (kernel.distance() == Distance::kTotalVariation) {
            EXPECT_EQ(simd.median, scalar.median);
          }
          EXPECT_NEAR(simd.median, scalar.median, 1e-14);
          EXPECT_NEAR(simd.float64.unbiased, scalar.float64.unbiased, 1e-12 * scale);
          EXPECT_NEAR(simd.float64.biased, scalar.float64.biased, 1e-12 * scale);
          EXPECT_NEAR(simd.float32.unbiased, scalar.float32.unbiased, 1e-5 * scale);
          EXPECT_NEAR(simd.float32.biased, scalar.float32.biased, 1e-5 * scale);
          // The draws are equal; H is in single precision.
          const double spread = scalar.bootstrap.replicate_standard_deviation;
          EXPECT_NEAR(simd.bootstrap.statistic, scalar.bootstrap.statistic, 1e-12 * scale);
          EXPECT_NEAR(simd.bootstrap.replicate_mean, scalar.bootstrap.replicate_mean,
                      1e-3 * spread);
          EXPECT_NEAR(simd.bootstrap.replicate_standard_deviation, spread, 1e-3 * spread);
          EXPECT_NEAR(simd.null_moments.mean_square, scalar.null_moments.mean_square,
                      1e-12 * scalar.null_moments.mean_square);
          EXPECT_NEAR(simd.null_moments.mean_diagonal, scalar.null_moments.mean_diagonal,
                      1e-12 * scalar.null_moments.mean_diagonal);
        }
        hwy::SetSupportedTargetsForTest(0);
      }
    }
  }
}

TEST(SimdTest, HostilePredictionsStayFinite) {
  // All rows equal; certain predictions; one class that never occurs; m = 1000 with n = 2; a tiny
  // and a huge bandwidth.
  std::vector<PredictionSet> sets(3);
  for (int i = 0; i < 40; ++i) {
    sets[0].probabilities.insert(sets[0].probabilities.end(), {0.2, 0.3, 0.5});
    const std::vector<double> one_hot =
        i % 2 == 0 ? std::vector<double>{1, 0, 0} : std::vector<double>{0, 1, 0};
    sets[1].probabilities.insert(sets[1].probabilities.end(), one_hot.begin(), one_hot.end());
    sets[0].labels.push_back(i % 2);
    sets[1].labels.push_back(i % 2);
  }
  sets[0].class_count = sets[1].class_count = 3;
  Generator::Create(GeneratorSpec::M3(1000), 1)->Draw(2, sets[2]);
  for (const PredictionSet& set : sets) {
    for (const double bandwidth : {1e-300, 1e-40, 1e-3, 1.0, 1e300}) {
      for (const Precision precision : {Precision::kFloat64, Precision::kFloat32}) {
        const auto estimate = EstimateQuadraticSkce(
            set.view(), *Kernel::ExponentialTotalVariation(bandwidth), {}, precision);
        EXPECT_TRUE(std::isfinite(estimate->unbiased));
        EXPECT_TRUE(std::isfinite(estimate->biased));
        EXPECT_GE(estimate->biased, 0);
      }
    }
  }
}

}  // namespace
}  // namespace calibd
