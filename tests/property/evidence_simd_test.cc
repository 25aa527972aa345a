// Every instruction set of this CPU gives the same evidence as scalar code, and sums over a long
// stream do not drift.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "calibd/core/simd_target.h"
#include "support/evidence_reference.h"

namespace calibd {
namespace {

EvidenceState Compute(const PredictionSet& set, const Kernel& kernel) {
  auto process = *EvidenceProcess::Create(*FourierBasis::Create(kernel, set.class_count));
  process.Add(set.view());
  return process.Save();
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << what << "[" << i << "]";
  }
}

TEST(EvidenceSimdTest, EveryTargetAgreesWithScalarCode) {
  for (const std::size_t m : {2u, 7u, 10u, 70u, 101u}) {
    PredictionSet set;
    Generator::Create(GeneratorSpec::M2(m), m)->Draw(150, set);
    for (const Kernel& kernel : {*Kernel::ExponentialTotalVariation(0.8),
                                 *Kernel::Over(Distance::kSquaredEuclidean, 1 / 2.0)}) {
      hwy::SetSupportedTargetsForTest(HWY_BASELINE_SCALAR);
      ASSERT_STREQ(SimdTarget(), hwy::TargetName(HWY_BASELINE_SCALAR));
      const EvidenceState scalar = Compute(set, kernel);
      hwy::SetSupportedTargetsForTest(0);
      std::int64_t targets = hwy::SupportedTargets();
      while (targets != 0) {
        const std::int64_t target = targets & -targets;
        targets &= targets - 1;
        hwy::SetSupportedTargetsForTest(target);
        const EvidenceState simd = Compute(set, kernel);
        const ExpertLogs simd_logs = LogsOf(simd);
        const ExpertLogs scalar_logs = LogsOf(scalar);
        // Sums of products of floats: instructions that fuse them round less often.
        ExpectNear(simd_logs.e, scalar_logs.e, 1e-4, "log W");
        ExpectNear(simd_logs.shiryaev_roberts, scalar_logs.shiryaev_roberts, 1e-4, "log R");
        ExpectNear(simd.all.witness, scalar.all.witness, 1e-4, "A");
        ExpectNear(simd.recent.class_expected, scalar.recent.class_expected, 1e-12, "E");
        EXPECT_EQ(simd.all.class_observed, scalar.all.class_observed);
        EXPECT_NEAR(simd.maximum.log_value, scalar.maximum.log_value, 1e-4);
        EXPECT_NEAR(simd.projections.mean, scalar.projections.mean, 1e-6);
        EXPECT_NEAR(simd.projection_variance, scalar.projection_variance, 1e-5);
        EXPECT_NEAR(simd.pending_product, scalar.pending_product, 1e-4);
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(EvidencePrecisionTest, AMillionPredictionsDoNotDrift) {
  constexpr std::size_t kDistinct = 5000;
  constexpr std::size_t kTimes = 200;
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(2), 6)->Draw(kDistinct, set);
  const auto basis = *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.8), 2);
  auto process = *EvidenceProcess::Create(basis);
  for (std::size_t i = 0; i < kTimes; ++i) process.Add(set.view());
  const EvidenceState state = process.Save();

  // The sums that one pass adds, in long double.
  testing::ReferenceExperts reference(*basis, kDefaultTolerance);
  std::vector<long double> log_w(kBettorCount);
  long double square_sum = 0;
  for (std::size_t i = 0; i < kDistinct; ++i) {
    const auto g = set.view().row(i);
    const auto y = static_cast<std::size_t>(set.labels[i]);
    const auto log_e = reference.LogE(g, y);
    for (std::size_t j = 0; j < kBettorCount; ++j) log_w[j] += log_e[j];
    for (std::size_t k = 0; k < 2; ++k) square_sum += std::pow((k == y ? 1 : 0) - g[k], 2);
    reference.Join(g, y);
  }
  reference.Flush();
  const auto expect_all = [&](const std::vector<double>& sums, const std::vector<long double>& pass,
                              double tolerance) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(sums[i], static_cast<double>(kTimes * pass[i]), tolerance) << i;
    }
  };
  // If all errors of the terms, at most 3e-8 of 1/8, and of the partial sums of chunks, at most 64
  // times as large, have the same sign, their sum is .24. In fact most cancel.
  constexpr double kFloatErrors = 0.24;
  expect_all(state.all.fourier_sums, reference.fourier_sums(), kFloatErrors);
  expect_all(state.all.witness, reference.witness(), kFloatErrors);
  // A million roundings of sums of up to a million.
  expect_all(state.all.class_expected, reference.class_expected(), 1e-6);
  EXPECT_NEAR(state.square_sum / static_cast<double>(kTimes * square_sum), 1, 1e-11);
  EXPECT_EQ(state.count, static_cast<std::int64_t>(kDistinct * kTimes));
  // Experts whose bets do not depend on the past: the sum of a million logarithms.
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    const ExpertKind kind = kExperts[j].kind;
    if (kind != ExpertKind::kPower && kind != ExpertKind::kUniformShare) continue;
    const double tolerance = kind == ExpertKind::kPower ? 1e-5 : 1e-10;
    EXPECT_NEAR(LogsOf(state).e[j] / static_cast<double>(kTimes * log_w[j]), 1, tolerance) << j;
  }
  // The estimate follows from the sums.
  long double norm2 = 0;
  for (const double value : state.all.witness) norm2 += static_cast<long double>(value) * value;
  const long double n = kDistinct * kTimes;
  const auto skce = static_cast<double>((norm2 - state.square_sum) / (n * (n - 1)));
  EXPECT_NEAR(*process.Read().skce_unbiased, skce, 1e-13);
}

}  // namespace
}  // namespace calibd
