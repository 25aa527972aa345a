#include <gtest/gtest.h>

#include "calibd/core/generator.h"
#include "calibd/core/p_value.h"
#include "client/offline/classes.h"
#include "client/offline/threads.h"
#include "support/test_data.h"

namespace calibd::offline {
namespace {

using calibd::testing::RelativeDifference;
using nlohmann::json;

// The reference computes in double too, but sums in a different order.
constexpr double kTolerance = 1e-10;

void ExpectEqual(double actual, const json& expected, const char* key,
                 double tolerance = kTolerance) {
  EXPECT_LE(RelativeDifference(actual, expected.at(key).get<double>()), tolerance) << key;
}

void ExpectQuadratic(const v1::QuadraticTestResult& actual, const json& expected) {
  ExpectEqual(actual.skce_biased(), expected, "SKCE_b");
  ExpectEqual(actual.skce_unbiased(), expected, "SKCE_uq");
  ExpectEqual(actual.p_value_upper_bound_biased(), expected, "p_free_b");
  ExpectEqual(actual.p_value_upper_bound_unbiased(), expected, "p_free_uq");
}

void ExpectLinear(const v1::BlockEstimate& actual, const json& expected) {
  ExpectEqual(actual.skce(), expected, "SKCE_ul");
  ExpectEqual(actual.p_value_upper_bound(), expected, "p_free_ul");
  if (expected.contains("h_pairs_sd")) {
    ExpectEqual(actual.standard_deviation(), expected, "h_pairs_sd");
  }
  EXPECT_EQ(actual.has_p_value(), actual.has_z());
  EXPECT_EQ(actual.has_skce_lower_bound(), actual.has_z());
  if (actual.block_count() < kMinTestedBlocks) {
    EXPECT_FALSE(actual.has_z());
  } else {
    ExpectEqual(actual.z(), expected, "z_ul");
    ExpectEqual(actual.p_value(), expected, "p_ul");
  }
}

TEST(EvaluateOfflineTest, ReproducesTheSmallCases) {
  for (const json& small_case : calibd::testing::SmallCases()) {
    SCOPED_TRACE(small_case.at("name").get<std::string>());
    const PredictionSet set = calibd::testing::ToPredictionSet(small_case);
    OfflineOptions options;
    options.bandwidth.set_fixed(small_case.at("nu_used").get<double>());
    options.block_sizes = {2, 3};
    options.request.set_replicates(0);
    options.threads = 2;
    const auto evaluation = EvaluateOffline(set.view(), options, ControlOf(2, {}, nullptr));
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    ExpectQuadratic(evaluation->lenses(0).result(), small_case);
    ExpectLinear(evaluation->estimates(0), small_case);
    if (small_case.contains("block3")) {
      const v1::BlockEstimate& block = evaluation->estimates(1);
      const json& expected = small_case.at("block3");
      ExpectEqual(block.skce(), expected, "estimate");
      EXPECT_FALSE(block.has_p_value());
      ExpectEqual(block.p_value_upper_bound(), expected, "p_free");
    }
  }
}

class EvaluateCifar10Test : public ::testing::TestWithParam<const char*> {};

TEST_P(EvaluateCifar10Test, ReproducesTheReference) {
  const auto set = calibd::testing::ReadCifar10(GetParam());
  if (!set.has_value()) GTEST_SKIP() << "no data in " << calibd::testing::Cifar10Dir();
  const json expected =
      calibd::testing::ReadJson(calibd::testing::Cifar10Dir() / "expected.json").at(GetParam());
  OfflineOptions options;
  options.request.set_null(v1::QuadraticTestResult::FORM);
  options.request.set_replicates(99);
  options.request.set_seed(1);
  options.threads = 2;
  const auto evaluation = EvaluateOffline(set->view(), options, ControlOf(2, {}, nullptr));
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  const v1::QuadraticTestResult& canonical = evaluation->lenses(0).result();
  ExpectEqual(canonical.provenance().bandwidth(), expected, "nu", 1e-12);
  ExpectQuadratic(canonical, expected);
  ExpectEqual(canonical.statistic(), expected, "bootstrap_statistic", 1e-9);
  ExpectLinear(evaluation->estimates(0), expected);
  for (const int k : {1, 2}) {
    const v1::BlockEstimate& block = evaluation->estimates(k);
    const json& wanted = expected.at(k == 1 ? "block10" : "block100");
    EXPECT_EQ(block.block_count(), wanted.at("nblocks").get<std::int64_t>());
    ExpectEqual(block.skce(), wanted, "estimate");
    ExpectEqual(block.standard_deviation(), wanted, "sd");
    ExpectEqual(block.z(), wanted, "z");
    ExpectEqual(block.p_value(), wanted, "p");
  }
}

TEST_P(EvaluateCifar10Test, ReproducesScoresBinnedErrorsAndMmce) {
  const auto set = calibd::testing::ReadCifar10(GetParam());
  if (!set.has_value()) GTEST_SKIP() << "no data in " << calibd::testing::Cifar10Dir();
  const json expected =
      calibd::testing::ReadJson(calibd::testing::Cifar10Dir() / "expected.json").at(GetParam());
  OfflineOptions options;
  options.bandwidth.mutable_median_off_diagonal();
  options.request.set_replicates(0);
  options.request.add_lenses()->mutable_top_label();
  const auto evaluation = EvaluateOffline(set->view(), options, {});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ExpectEqual(evaluation->lenses(0).result().provenance().bandwidth(), expected, "nu_offdiag",
              1e-12);
  ExpectEqual(evaluation->scores().brier(), expected, "brier");
  ExpectEqual(evaluation->scores().log_loss(), expected, "nll");
  ExpectEqual(evaluation->scores().accuracy(), expected, "accuracy");
  const v1::QuadraticTestResult& top_label = evaluation->lenses(1).result();
  ExpectEqual(top_label.skce_biased(), expected, "MMCE2_biased");
  ExpectEqual(top_label.skce_unbiased(), expected, "MMCE2_unbiased");
  ASSERT_EQ(evaluation->binned_errors_size(), 4);
  ExpectEqual(evaluation->binned_errors(0).ece(), expected, "ECE_toplabel15");
  ExpectEqual(evaluation->binned_errors(0).mce(), expected, "MCE_toplabel15");
  ExpectEqual(evaluation->binned_errors(2).ece(), expected, "ECE_uniform10");
  ExpectEqual(evaluation->binned_errors(2).mce(), expected, "MCE_uniform10");
  EXPECT_EQ(evaluation->binned_errors(2).bins(), expected.at("ECE_uniform10_nbins"));
  ExpectEqual(evaluation->binned_errors(3).ece(), expected, "ECE_medianvariance100");
  ExpectEqual(evaluation->binned_errors(3).mce(), expected, "MCE_medianvariance100");
  EXPECT_EQ(evaluation->binned_errors(3).bins(), expected.at("ECE_medianvariance100_nbins"));
}

INSTANTIATE_TEST_SUITE_P(Networks, EvaluateCifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"));

TEST(EvaluateOfflineTest, EqualPredictionsHaveTheBandwidth1) {
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 6; ++i) {
    set.probabilities.insert(set.probabilities.end(), {0.5, 0.5});
    set.labels.push_back(i % 2);
  }
  const absl::StatusOr<v1::Evaluation> evaluation = EvaluateOffline(set.view(), {}, {});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  const v1::Provenance& provenance = evaluation->lenses(0).result().provenance();
  EXPECT_EQ(provenance.bandwidth(), 1);
  EXPECT_EQ(provenance.bandwidth_rule().fixed(), 1);
}

TEST(EvaluateOfflineTest, StopsOnRequest) {
  auto generator = Generator::Create(GeneratorSpec::M1(), 1);
  ASSERT_TRUE(generator.ok()) << generator.status();
  PredictionSet set;
  generator->Draw(2000, set);
  std::stop_source source;
  OfflineOptions options;
  const RunControl control =
      ControlOf(1, source.get_token(), [&](double) { source.request_stop(); });
  EXPECT_TRUE(absl::IsCancelled(EvaluateOffline(set.view(), options, control).status()));
}

}  // namespace
}  // namespace calibd::offline
