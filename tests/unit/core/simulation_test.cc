// Tests whose replicates are labels drawn from the predictions (NullHypothesis::kForecast).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "calibd/core/cme.h"
#include "calibd/core/consistency_resampling.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/generator.h"
#include "calibd/core/lens_evaluation.h"
#include "hypothesis/label_skce.h"
#include "hypothesis/replicates.h"
#include "support/draw.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

KernelSpec Fixed(Distance distance, double bandwidth) {
  KernelSpec spec;
  spec.rule.distance = distance;
  spec.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
  spec.rule.bandwidth.fixed = bandwidth;
  return spec;
}

// A matrix with 1 on the diagonal and rho elsewhere.
std::vector<double> Coupled(std::size_t m, double rho) {
  std::vector<double> matrix(m * m, rho);
  for (std::size_t k = 0; k < m; ++k) matrix[k * m + k] = 1;
  return matrix;
}

KernelSpec MatrixValued(std::size_t m) {
  return {.rule = {},
          .matrix = std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
              {{*Kernel::ExponentialTotalVariation(0.5), Coupled(m, 0.3)},
               {*Kernel::Over(Distance::kSquaredEuclidean, 2), Coupled(m, 0)}},
              m))};
}

struct LensCase {
  Lens lens;
  KernelSpec kernel;
};

std::vector<LensCase> LensCases(std::size_t m) {
  const KernelSpec line = Fixed(Distance::kTotalVariation, 0.4);
  const KernelSpec gaussian = Fixed(Distance::kSquaredEuclidean, 4);
  std::vector<LensCase> cases = {{Lens::Canonical(), line}, {Lens::Canonical(), gaussian},
                                 {Lens::TopLabel(), line},  {Lens::TopLabel(), gaussian},
                                 {Lens::ClassWise(), line}, {Lens::ClassWise(), gaussian},
                                 {Lens::OneClass(1), line}, {Lens::Canonical(), MatrixValued(m)}};
  if (m > 2) cases.push_back({Lens::TopK(2), line});
  return cases;
}

LensTestOptions Simulated(const KernelSpec& kernel, std::int32_t replicates,
                          std::uint64_t seed = 3) {
  return {.kernel = kernel,
          .precision = Precision::kFloat64,
          .replicates = replicates,
          .seed = seed,
          .null = NullHypothesis::kForecast};
}

TEST(SimulationTest, TheStatisticIsTheUnbiasedEstimateOfTheLabels) {
  for (const std::size_t m : {2U, 4U}) {
    PredictionSet set = Draw(GeneratorSpec::M2(m), 40, 5);
    for (const auto& [lens, kernel] : LensCases(m)) {
      SCOPED_TRACE(lens.name());
      const auto result = TestLens(set.view(), lens, Simulated(kernel, 99));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_NEAR(result->test.statistic, result->test.skce.unbiased, 1e-13);
    }
  }
}

// The probability that labels drawn from the predictions reach the statistic, over all labels.
double ExactPValue(const PredictionSet& set, const Lens& lens, const KernelSpec& kernel) {
  const std::size_t n = set.labels.size();
  LensTestOptions options = Simulated(kernel, 0);
  const double observed = TestLens(set.view(), lens, options)->test.skce.unbiased;
  PredictionSet other = set;
  std::fill(other.labels.begin(), other.labels.end(), 0);
  double p = 0;
  while (true) {
    double probability = 1;
    for (std::size_t i = 0; i < n; ++i) {
      probability *= set.view().row(i)[static_cast<std::size_t>(other.labels[i])];
    }
    if (TestLens(other.view(), lens, options)->test.skce.unbiased >= observed - 1e-12) {
      p += probability;
    }
    std::size_t i = 0;
    while (i < n && ++other.labels[i] == static_cast<std::int32_t>(set.class_count)) {
      other.labels[i++] = 0;
    }
    if (i == n) return p;
  }
}

TEST(SimulationTest, AgreesWithTheEnumerationOfAllLabels) {
  constexpr std::int32_t kReplicates = 4999;
  PredictionSet set{{0.7, 0.2, 0.1, 0.1, 0.8, 0.1, 0.3, 0.3, 0.4, 0, 0.5, 0.5, 0.7, 0.2, 0.1},
                    {1, 1, 2, 2, 0},
                    3};
  for (const auto& [lens, kernel] : LensCases(3)) {
    SCOPED_TRACE(lens.name());
    const double exact = ExactPValue(set, lens, kernel);
    const auto result = TestLens(set.view(), lens, Simulated(kernel, kReplicates));
    // A binomial share, 5 standard deviations, and 1 / replicates for the 1 that is added.
    EXPECT_NEAR(result->test.p_value, exact,
                5 * std::sqrt(exact * (1 - exact) / kReplicates) + 1.0 / kReplicates);
    EXPECT_EQ(result->test.p_value, (1.0 + result->test.exceedances) / (1.0 + kReplicates));
    // E h_ij = 0.
    EXPECT_NEAR(result->test.replicate_mean, 0,
                5 * result->test.replicate_standard_deviation / std::sqrt(kReplicates));
  }
}

TEST(SimulationTest, MatchesTheSmallCases) {
  const std::filesystem::path path =
      std::filesystem::path(CALIBD_TEST_DATA) / "small_cases_34.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;
  const auto cases = testing::ReadJson(path);
  int tested = 0;
  for (const auto& small : cases) {
    if (small.at("kind") != "classification") continue;
    ++tested;
    SCOPED_TRACE(small.at("name").get<std::string>());
    const PredictionSet set = testing::ToPredictionSet(small);
    const double gamma = small.at("gamma_z");
    const auto expect = [&](const Lens& lens, const KernelSpec& kernel, double factor,
                            const char* field) {
      const auto result = TestLens(set.view(), lens, Simulated(kernel, 99));
      ASSERT_TRUE(result.ok()) << result.status();
      const double expected = factor * small.at(field).get<double>();
      EXPECT_NEAR(result->test.statistic, expected, 1e-9 * std::abs(expected) + 1e-12) << field;
    };
    const KernelSpec rbf = Fixed(Distance::kSquaredEuclidean, 1 / gamma);
    const double nu = small.at("tv_bandwidth");
    expect(Lens::Canonical(), Fixed(Distance::kTotalVariation, nu), 1,
           "mmd_canonical_tv_identity_unbiased");
    expect(Lens::Canonical(), rbf, 1, "mmd_canonical_identity_unbiased");
    // A scalar lens has pairs (c, 1 - c), whose squared distance is 2 (c - c')^2, and s = 1.
    const KernelSpec scalar = Fixed(Distance::kSquaredEuclidean, 2 / gamma);
    expect(Lens::TopLabel(), scalar, 0.5, "mmd_top_label_identity_unbiased");
    expect(Lens::ClassWise(), scalar, 0.5, "mmd_marginal_sum_identity_unbiased");
    // G = rho + (1 - rho) I.
    const double rho = std::exp(-2 * small.at("gamma_y").get<double>());
    const std::size_t m = set.class_count;
    const KernelSpec matrix{
        .rule = {},
        .matrix = std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
            {{*Kernel::Over(Distance::kSquaredEuclidean, 1 / gamma), Coupled(m, rho)}}, m))};
    expect(Lens::Canonical(), matrix, 1, "mmd_canonical_rbf_unbiased");
  }
  EXPECT_GE(tested, 4);
}

TEST(SimulationTest, ManyObservationsHaveTheKernelOfFourierTerms) {
  constexpr std::size_t kM = 3;
  constexpr std::size_t kN = kMaxExactRows + 1;
  const PredictionSet set = Draw(GeneratorSpec::M2(kM), kN, 5);
  const PredictionBatch batch = set.view();
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const auto basis = FourierBasis::Create(kernel, kM);
  std::vector<double> mapped(kN * kFourierCount);
  (*basis)->Map(set.probabilities, kN, mapped);
  double sum = 0;
  for (std::size_t i = 0; i < kN; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double approximation = 0;
      for (std::size_t d = 0; d < kFourierCount; ++d) {
        approximation += mapped[i * kFourierCount + d] * mapped[j * kFourierCount + d];
      }
      double product = 0;
      for (std::size_t k = 0; k < kM; ++k) {
        const auto label = static_cast<std::int32_t>(k);
        product += ((set.labels[i] == label ? 1 : 0) - batch.row(i)[k]) *
                   ((set.labels[j] == label ? 1 : 0) - batch.row(j)[k]);
      }
      sum += approximation * product;
    }
  }
  const auto result =
      TestLens(batch, Lens::Canonical(), Simulated(Fixed(Distance::kTotalVariation, 0.5), 99));
  EXPECT_NEAR(result->test.statistic, 2 * sum / (static_cast<double>(kN) * (kN - 1.0)), 1e-12);
}

TEST(SimulationTest, DependsOnTheSeedAndNotOnThreads) {
  RunControl threads;
  threads.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::thread odd([&] {
      for (std::size_t i = 1; i < count; i += 2) body(i);
    });
    for (std::size_t i = 0; i < count; i += 2) body(i);
    odd.join();
  };
  double last = 0;
  threads.progress = [&](double fraction) {
    EXPECT_GT(fraction, last);
    last = fraction;
  };
  for (const std::size_t n : {std::size_t{60}, kMaxExactRows + 1}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(3), n, 5);
    const KernelSpec kernel = Fixed(Distance::kTotalVariation, 0.5);
    last = 0;
    const auto shared = TestLens(set.view(), Lens::Canonical(), Simulated(kernel, 150), threads);
    EXPECT_EQ(last, 1);
    const auto alone = TestLens(set.view(), Lens::Canonical(), Simulated(kernel, 150));
    EXPECT_EQ(alone->test.replicate_mean, shared->test.replicate_mean);
    EXPECT_EQ(alone->test.exceedances, shared->test.exceedances);
    EXPECT_EQ(alone->test.seed, 3u);
    const auto other = TestLens(set.view(), Lens::Canonical(), Simulated(kernel, 150, 4));
    EXPECT_NE(alone->test.replicate_mean, other->test.replicate_mean);
  }
}

TEST(SimulationTest, TheQuantileIsThatOfTheReplicates) {
  std::vector<double> replicates(999);
  for (std::size_t r = 0; r < replicates.size(); ++r) replicates[r] = static_cast<double>(998 - r);
  // 950 of 999 values are at most 949.
  EXPECT_EQ(CompareWithReplicates(0, replicates, {}).replicate_upper_quantile, 949);
  EXPECT_EQ(CompareWithReplicates(949, replicates, {}).exceedances, 50);
}

TEST(SimulationTest, CertainPredictionsLeaveNothingToDraw) {
  const PredictionSet right{{1, 0, 0, 1, 1, 0}, {0, 1, 0}, 2};
  const PredictionSet wrong{{1, 0, 0, 1, 1, 0}, {1, 1, 0}, 2};
  const PredictionSet one_class{{1, 0, 0, 1, 0, 0, 1, 0, 0}, {0, 0, 0}, 3};
  for (const auto& [lens, kernel] : LensCases(2)) {
    SCOPED_TRACE(lens.name());
    const auto tie = TestLens(right.view(), lens, Simulated(kernel, 99));
    EXPECT_EQ(tie->test.p_value, 1);
    EXPECT_EQ(tie->test.replicate_standard_deviation, 0);
  }
  EXPECT_EQ(TestLens(one_class.view(), Lens::Canonical(),
                     Simulated(Fixed(Distance::kTotalVariation, 0.5), 99))
                ->test.p_value,
            1);
  // A single wrong label has no pair: h = 0, as with right labels.
  const PredictionSet all_wrong{{1, 0, 1, 0}, {1, 1}, 2};
  for (const KernelSpec& kernel :
       {Fixed(Distance::kTotalVariation, 0.5), Fixed(Distance::kSquaredEuclidean, 2)}) {
    EXPECT_EQ(TestLens(wrong.view(), Lens::Canonical(), Simulated(kernel, 99))->test.p_value, 1);
    EXPECT_EQ(TestLens(all_wrong.view(), Lens::Canonical(), Simulated(kernel, 99))->test.p_value,
              0.01);
  }
}

TEST(SimulationTest, TwoObservationsAreEnough) {
  const PredictionSet two{{0.25, 0.75, 0.5, 0.5}, {0, 1}, 2};
  for (const auto& [lens, kernel] : LensCases(2)) {
    SCOPED_TRACE(lens.name());
    const auto result = TestLens(two.view(), lens, Simulated(kernel, 4999));
    const double exact = ExactPValue(two, lens, kernel);
    EXPECT_NEAR(result->test.p_value, exact,
                5 * std::sqrt(exact * (1 - exact) / 4999) + 1.0 / 4999);
  }
}

TEST(SimulationTest, TheEceKeepsTheRowsOfTheBatch) {
  // The rows (1/2, 1/2), (1, 0): the ECE in one bin per row is |1/2 - [y = 0]| / 2 = 1/4 for every
  // label. Rows that are drawn with replacement have others.
  const PredictionSet set{{0.5, 0.5, 1, 0}, {0, 0}, 2};
  const BootstrapOptions kept{.replicates = 199, .seed = 1, .null = NullHypothesis::kForecast};
  const auto exact = ConsistencyTest(set.view(), TopLabelBins{10}, kept);
  EXPECT_EQ(exact->replicate_standard_deviation, 0);
  EXPECT_EQ(exact->replicate_mean, 0.25);
  EXPECT_EQ(exact->p_value, 1);
  EXPECT_EQ(exact->null, NullHypothesis::kForecast);
  const auto drawn = ConsistencyTest(set.view(), TopLabelBins{10}, {.replicates = 199, .seed = 1});
  EXPECT_GT(drawn->replicate_standard_deviation, 0);
}

TEST(SimulationTest, TheCmeTestCountsReplicates) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 100, 5);
  const auto result = CmeTest(set.view(), *Kernel::ExponentialTotalVariation(0.5),
                              DrawTestLocations(5, 3, 2)->view(), {.replicates = 199, .seed = 2});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->simulation.null, NullHypothesis::kForecast);
  EXPECT_EQ(result->simulation.exceedances, 0);
  EXPECT_EQ(result->p_value, 1.0 / 200);
}

TEST(SimulationTest, AnEvaluationTestsEveryLensAgainstTheForecast) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 120, 5);
  EvaluationOptions options;
  options.lenses = {{Lens::Canonical(), {}},
                    {Lens::TopLabel(), KernelOfLens(Lens::TopLabel(), {})},
                    {Lens::ClassWise(), KernelOfLens(Lens::ClassWise(), {})}};
  options.block_sizes = {2, 10, 1000};
  options.replicates = 99;
  options.consistency_replicates = 99;
  options.cme_test_locations = 3;
  options.null = NullHypothesis::kForecast;
  const auto evaluation = Evaluate(set.view(), options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  for (const Evaluation::OneLens& one : evaluation->lenses) {
    EXPECT_EQ(one.result->test.null, NullHypothesis::kForecast);
    EXPECT_EQ(one.result->test.p_value, 0.01) << one.lens.name();
  }
  EXPECT_EQ(evaluation->consistency->null, NullHypothesis::kForecast);
  ASSERT_EQ(evaluation->block_tests.size(), 3U);
  // There is no complete block of 1000.
  EXPECT_EQ(evaluation->block_tests[1].p_value, 0.01);
  EXPECT_EQ(evaluation->block_tests[2].p_value, 1);
  // The CME test is simulated for every null hypothesis, also of a scalar lens.
  options.null = NullHypothesis::kForm;
  const auto form = Evaluate(set.view(), options);
  EXPECT_EQ((*form->lenses[0].cme)->p_value, (*evaluation->lenses[0].cme)->p_value);
  EXPECT_EQ((*form->lenses[1].cme)->simulation.replicates, 99);
  EXPECT_TRUE(form->block_tests.empty());
}

TEST(SimulationTest, StopsWhenCancelledAndNamesInvalidReplicates) {
  RunControl control;
  std::atomic<int> asked = 0;
  control.cancelled = [&] { return ++asked >= 60; };
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 50, 5);
  const KernelSpec kernel = Fixed(Distance::kTotalVariation, 0.5);
  EXPECT_EQ(
      TestLens(set.view(), Lens::Canonical(), Simulated(kernel, 999), control).status().code(),
      absl::StatusCode::kCancelled);
  EXPECT_THAT(
      std::string(
          TestLens(set.view(), Lens::Canonical(), Simulated(kernel, 98)).status().message()),
      HasSubstr("replicates is 98, expected 99..100000"));
}

TEST(SimulationTest, TheCostIsThatOfTheReplicates) {
  const KernelSpec kernel = Fixed(Distance::kTotalVariation, 0.5);
  for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise()}) {
    const auto operations = [&](std::size_t n, std::int32_t replicates) {
      return LensTestOperations(n, 10, lens, Simulated(kernel, replicates));
    };
    EXPECT_GT(operations(10000, 99000), 9 * (operations(10000, 9900) - operations(10000, 99)));
    EXPECT_GT(LensTestMemory(10000, 10, lens, Simulated(kernel, 99), 4),
              LensTestMemory(10000, 10, lens, Simulated(kernel, 0), 4));
  }
  // The Fourier terms make it cheaper than the bootstrap, which visits all pairs.
  LensTestOptions bootstrap = Simulated(kernel, 999);
  bootstrap.null = NullHypothesis::kForm;
  EXPECT_LT(LensTestOperations(10000, 10, Lens::Canonical(), Simulated(kernel, 999)),
            LensTestOperations(10000, 10, Lens::Canonical(), bootstrap) / 4);
}

}  // namespace
}  // namespace calibd
