// Compares with values of independent references: the small cases always, the networks of Widmann
// et al. 2019 if their predictions are available.
#include <gtest/gtest.h>

#include <string>

#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/p_value.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using testing::RelativeDifference;

RunningBlockSkce RunBlocks(std::size_t b, const PredictionBatch& batch, const Kernel& kernel) {
  RunningBlockSkce running = *RunningBlockSkce::Create(b, batch.class_count, kernel);
  for (std::size_t i = 0; i < batch.size(); ++i) running.Add(batch.row(i), batch.labels[i]);
  return running;
}

// The reference has +-inf if all values are equal; the test is unset then.
void ExpectTest(const std::optional<NormalTest>& test, const nlohmann::json& z,
                const nlohmann::json& p_value, double tolerance) {
  ASSERT_EQ(test.has_value(), !z.is_string());
  if (!test.has_value()) return;
  EXPECT_LE(RelativeDifference(test->z, z), tolerance);
  EXPECT_LE(RelativeDifference(test->p_value, p_value), tolerance);
}

TEST(SmallCasesTest, MatchTheReference) {
  constexpr double kTolerance = 1e-12;
  for (const auto& small : testing::SmallCases()) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const PredictionSet set = testing::ToPredictionSet(small);
    const std::size_t n = set.labels.size();
    const double bound = Kernel::DistributionFreeBound();

    const auto median = MedianBandwidth(set.probabilities, set.class_count);
    if (small.at("median_full").get<double>() > 0) {
      EXPECT_LE(RelativeDifference(*median, small.at("median_full")), kTolerance);
    } else {
      EXPECT_FALSE(median.ok());
    }
    const Kernel kernel = *Kernel::ExponentialTotalVariation(small.at("nu_used"));
    const auto quadratic = EstimateQuadraticSkce(set.view(), kernel);
    EXPECT_LE(RelativeDifference(quadratic->biased, small.at("SKCE_b")), kTolerance);
    EXPECT_LE(RelativeDifference(quadratic->unbiased, small.at("SKCE_uq")), kTolerance);
    EXPECT_LE(RelativeDifference(quadratic->mean_diagonal, small.at("brier")), kTolerance);
    const RunningMoments pairs = RunBlocks(2, set.view(), kernel).moments();
    EXPECT_LE(RelativeDifference(pairs.mean, small.at("SKCE_ul")), kTolerance);
    EXPECT_LE(RelativeDifference(BiasedPValueUpperBound(quadratic->biased, n, bound),
                                 small.at("p_free_b")),
              kTolerance);
    EXPECT_LE(RelativeDifference(UnbiasedPValueUpperBound(quadratic->unbiased, n, bound),
                                 small.at("p_free_uq")),
              kTolerance);
    EXPECT_LE(
        RelativeDifference(UnbiasedPValueUpperBound(pairs.mean, n, bound), small.at("p_free_ul")),
        kTolerance);
    std::size_t pair = 0;
    for (const auto& h : small.at("h_pairs")) {
      const double term = SkceTerm(set.view().row(2 * pair), set.labels[2 * pair],
                                   set.view().row(2 * pair + 1), set.labels[2 * pair + 1], kernel);
      EXPECT_LE(RelativeDifference(term, h), kTolerance);
      ++pair;
    }
    if (small.contains("z_ul")) {
      ExpectTest(TestMeanIsPositive(pairs), small.at("z_ul"), small.at("p_ul"), kTolerance);
    }
    if (small.contains("block3")) {
      const auto& block = small.at("block3");
      const RunningMoments blocks = RunBlocks(3, set.view(), kernel).moments();
      EXPECT_LE(RelativeDifference(blocks.mean, block.at("estimate")), kTolerance);
      ExpectTest(TestMeanIsPositive(blocks), block.at("z"), block.at("p"), kTolerance);
      EXPECT_LE(RelativeDifference(BlockPValueUpperBound(blocks.mean, blocks.count, 3, bound),
                                   block.at("p_free")),
                kTolerance);
    }
    if (small.contains("bootstrap")) {
      const auto result = BootstrapTest(set.view(), kernel, {.replicates = 99});
      EXPECT_LE(RelativeDifference(result->statistic, small.at("bootstrap").at("statistic")),
                kTolerance);
    }
  }
}

class Cifar10Test : public ::testing::TestWithParam<const char*> {};

TEST_P(Cifar10Test, MatchesTheReference) {
  const auto set = testing::ReadCifar10(GetParam());
  if (!set) GTEST_SKIP() << "no predictions in " << testing::Cifar10Dir();
  const auto expected = testing::ReadJson(testing::Cifar10Dir() / "expected.json").at(GetParam());
  constexpr double kTolerance = 1e-10;
  const double bound = Kernel::DistributionFreeBound();
  const std::size_t n = set->labels.size();

  const double nu = *MedianBandwidth(set->probabilities, 10);
  EXPECT_LE(RelativeDifference(nu, expected.at("nu")), 1e-12);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(nu);
  const auto quadratic = EstimateQuadraticSkce(set->view(), kernel);
  EXPECT_LE(RelativeDifference(quadratic->biased, expected.at("SKCE_b")), kTolerance);
  EXPECT_LE(RelativeDifference(quadratic->unbiased, expected.at("SKCE_uq")), kTolerance);
  EXPECT_LE(RelativeDifference(quadratic->mean_diagonal, expected.at("mean_h_diag")), kTolerance);
  EXPECT_LE(RelativeDifference(BiasedPValueUpperBound(quadratic->biased, n, bound),
                               expected.at("p_free_b")),
            kTolerance);
  EXPECT_LE(RelativeDifference(UnbiasedPValueUpperBound(quadratic->unbiased, n, bound),
                               expected.at("p_free_uq")),
            kTolerance);

  const RunningMoments pairs = RunBlocks(2, set->view(), kernel).moments();
  const auto linear = TestMeanIsPositive(pairs);
  EXPECT_LE(RelativeDifference(pairs.mean, expected.at("SKCE_ul")), kTolerance);
  EXPECT_LE(RelativeDifference(linear->standard_deviation, expected.at("h_pairs_sd")), kTolerance);
  EXPECT_LE(RelativeDifference(linear->z, expected.at("z_ul")), kTolerance);
  EXPECT_LE(RelativeDifference(linear->p_value, expected.at("p_ul")), kTolerance);
  EXPECT_LE(
      RelativeDifference(UnbiasedPValueUpperBound(pairs.mean, n, bound), expected.at("p_free_ul")),
      kTolerance);

  for (const std::size_t b : {10u, 100u}) {
    const auto& block = expected.at("block" + std::to_string(b));
    const RunningMoments blocks = RunBlocks(b, set->view(), kernel).moments();
    const auto test = TestMeanIsPositive(blocks);
    EXPECT_EQ(blocks.count, block.at("nblocks").get<std::int64_t>());
    EXPECT_LE(RelativeDifference(blocks.mean, block.at("estimate")), kTolerance);
    EXPECT_LE(RelativeDifference(test->standard_deviation, block.at("sd")), kTolerance);
    EXPECT_LE(RelativeDifference(test->z, block.at("z")), kTolerance);
    EXPECT_LE(RelativeDifference(test->p_value, block.at("p")), kTolerance);
    for (std::size_t first = 0; first < 3; ++first) {
      EXPECT_LE(RelativeDifference(
                    EstimateQuadraticSkce(set->view().rows(first * b, b), kernel)->unbiased,
                    block.at("first3").at(first)),
                kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Cifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"),
                         [](const auto& network) { return std::string(network.param); });

}  // namespace
}  // namespace calibd
