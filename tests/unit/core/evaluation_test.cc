#include "calibd/core/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/individual_calibration.h"
#include "calibd/core/running_reliability.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

EvaluationOptions::LensAndKernel WithItsKernel(const Lens& lens) {
  return {.lens = lens, .kernel = KernelOfLens(lens, {})};
}

EvaluationOptions Options() {
  EvaluationOptions options;
  options.lenses.push_back(WithItsKernel(Lens::TopLabel()));
  options.replicates = 99;
  options.consistency_replicates = 99;
  options.cme_test_locations = 3;
  options.reliability_classes = {4};
  return options;
}

TEST(EvaluateTest, ProgressNeverDecreasesAndReachesOne) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 300, 3);
  std::vector<double> told;
  std::vector<std::string> stages;
  RunControl control;
  control.progress = [&told](double fraction) { told.push_back(fraction); };
  const auto evaluation =
      Evaluate(set.view(), Options(), control,
               [&stages](const std::string& stage) { stages.push_back(stage); });
  ASSERT_TRUE(evaluation.ok());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
  EXPECT_EQ(stages.front(), "canonical");
  EXPECT_EQ(stages.back(), "CME test");
}

TEST(EvaluateTest, MeasuresTheErrorOfTheTopLabel) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 300, 3);
  const auto evaluation = Evaluate(set.view(), Options());
  ASSERT_TRUE(evaluation.ok());
  ReliabilitySums sums;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const std::span<const double> row = set.view().row(i);
    const auto top = std::max_element(row.begin(), row.end());
    sums.Add(*top, top - row.begin() == set.labels[i]);
  }
  const ErrorInterval expected = *BinnedErrorInterval(sums, kOneLookErrorLevels);
  EXPECT_DOUBLE_EQ(evaluation->error.top_label.estimate, expected.estimate);
  EXPECT_DOUBLE_EQ(evaluation->error.top_label.lower, expected.lower);
  EXPECT_DOUBLE_EQ(evaluation->error.top_label.upper, expected.upper);
  EXPECT_GT(expected.lower, 0);
  // If predictions may follow labels, the variance is not used.
  EvaluationOptions follow = Options();
  follow.error_levels.looks = Looks::kOneInOrder;
  const ErrorInterval in_order = Evaluate(set.view(), follow)->error.top_label;
  EXPECT_LE(in_order.gap_upper - in_order.gap, std::sqrt(std::log(160) / 600) + 1e-12);
  ErrorLevels levels = kOneLookErrorLevels;
  levels.looks = Looks::kOneInOrder;
  EXPECT_DOUBLE_EQ(in_order.gap_upper, BinnedErrorInterval(sums, levels)->gap_upper);
  EXPECT_FALSE(evaluation->error.class_1.has_value());
}

TEST(EvaluateTest, StopsInEveryStage) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 300, 3);
  std::vector<std::string> stages;
  const auto note = [&stages](const std::string& stage) { stages.push_back(stage); };
  ASSERT_TRUE(Evaluate(set.view(), Options(), {}, note).ok());
  // The last stage, the CME test, is a single step.
  for (std::size_t stop_at = 0; stop_at + 1 < stages.size(); ++stop_at) {
    std::size_t begun = 0;
    RunControl control;
    control.cancelled = [&begun, stop_at] { return begun > stop_at; };
    const auto evaluation =
        Evaluate(set.view(), Options(), control, [&begun](const std::string&) { ++begun; });
    EXPECT_TRUE(absl::IsCancelled(evaluation.status())) << stages[stop_at];
    EXPECT_EQ(begun, stop_at + 1);
  }
}

TEST(EvaluateTest, TheResultDoesNotDependOnTheThreads) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 600, 3);
  RunControl backwards;
  backwards.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = count; i-- > 0;) body(i);
  };
  const auto forth = Evaluate(set.view(), Options());
  const auto back = Evaluate(set.view(), Options(), backwards);
  ASSERT_TRUE(forth.ok() && back.ok());
  EXPECT_EQ(forth->lenses[0].result->test.skce.unbiased,
            back->lenses[0].result->test.skce.unbiased);
  EXPECT_EQ(forth->lenses[0].result->test.p_value, back->lenses[0].result->test.p_value);
  EXPECT_EQ(forth->consistency->replicate_mean, back->consistency->replicate_mean);
  EXPECT_EQ(forth->reliability[0].corp.band[0].consistency.upper,
            back->reliability[0].corp.band[0].consistency.upper);
}

// exp(-0 / nu) is 1 for every bandwidth nu.
TEST(EvaluateTest, ALensThatSeesEqualRowsHasAnyBandwidth) {
  PredictionSet set;
  set.class_count = 3;
  for (int i = 0; i < 20; ++i) {
    // Rows that differ, but have equal sums over the groups.
    const double p = i / 64.0;
    set.probabilities.insert(set.probabilities.end(), {p, 0.5 - p, 0.5});
    set.labels.push_back(i % 3);
  }
  EvaluationOptions options;
  options.replicates = 0;
  options.lenses.push_back(WithItsKernel(Lens::Grouped({0, 0, 1})));
  const auto evaluation = Evaluate(set.view(), options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_FALSE(evaluation->lenses[0].result->is_constant);
  ASSERT_TRUE(evaluation->lenses[1].result.ok()) << evaluation->lenses[1].result.status();
  EXPECT_TRUE(evaluation->lenses[1].result->is_constant);
  // The labels of the groups, 14 and 6 of 20, against 1/2 each: |sum of the residuals|^2 / n^2.
  EXPECT_NEAR(evaluation->lenses[1].result->test.skce.biased, 2 * 4. * 4 / 400, 1e-12);
}

TEST(EvaluateTest, ErrorsNameTheOption) {
  const auto refusal = [](const std::function<void(EvaluationOptions&)>& change) {
    EvaluationOptions options = Options();
    change(options);
    const absl::Status status = CheckEvaluation(options, 5);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_TRUE(CheckEvaluation(Options(), 5).ok());
  EXPECT_THAT(refusal([](auto& o) { o.lenses.clear(); }), HasSubstr("lenses"));
  EXPECT_THAT(refusal([](auto& o) { o.block_sizes = {1}; }), HasSubstr("block_sizes holds 1"));
  EXPECT_THAT(refusal([](auto& o) { o.replicates = 98; }), HasSubstr("replicates is 98"));
  EXPECT_THAT(refusal([](auto& o) { o.consistency_replicates = 1; }),
              HasSubstr("consistency_replicates is 1"));
  EXPECT_THAT(refusal([](auto& o) { o.binned_errors.clear(); }), HasSubstr("binned_errors"));
  EXPECT_THAT(refusal([](auto& o) { o.binned_errors = {UniformBins{0}}; }),
              HasSubstr("binned_errors[0].bins_per_class is 0"));
  EXPECT_THAT(refusal([](auto& o) { o.cme_test_locations = 257; }),
              HasSubstr("cme_test_locations is 257"));
  EXPECT_THAT(refusal([](auto& o) { o.reliability_classes = {5}; }),
              HasSubstr("reliability_classes holds 5"));
  EXPECT_THAT(refusal([](auto& o) {
                o.lenses[0].kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
              }),
              HasSubstr("bandwidth is 0"));
}

TEST(EvaluateTest, TheDiagramsAloneCostAPartOfTheRest) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 300, 3);
  EvaluationOptions options = Options();
  const auto all = Evaluate(set.view(), options);
  options.reliability_only = true;
  double told = 0;
  RunControl control;
  control.progress = [&told](double fraction) { told = fraction; };
  const auto only = Evaluate(set.view(), options, control);
  ASSERT_TRUE(all.ok() && only.ok());
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(only->lenses.empty() && only->binned_errors.empty() && only->blocks.empty());
  ASSERT_EQ(only->reliability.size(), 2U);
  EXPECT_EQ(only->reliability[1].class_index, 4U);
  EXPECT_EQ(only->reliability[1].brier.score, all->reliability[1].brier.score);
  EXPECT_EQ(only->reliability[0].corp.band.back().consistency.lower,
            all->reliability[0].corp.band.back().consistency.lower);
  EvaluationOptions plain;
  plain.replicates = 0;
  EvaluationOptions diagrams = plain;
  diagrams.reliability_only = true;
  EXPECT_LT(20 * EvaluationSeconds(10000, 1000, diagrams), EvaluationSeconds(10000, 1000, plain));
  EXPECT_LT(EvaluationOperations(10000, 1000, diagrams), EvaluationOperations(10000, 1000, plain));
  EXPECT_LT(EvaluationMemory(10000, 1000, diagrams, 2), EvaluationMemory(10000, 1000, plain, 2));
}

TEST(EvaluateTest, TestRowsAreDrawnWithoutReplacement) {
  EXPECT_EQ(DrawTestRows(4, 4, 1), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(DrawTestRows(4, 5, 1), DrawTestRows(4, 4, 2));
  EXPECT_NE(DrawTestRows(1000, 10, 1), DrawTestRows(1000, 10, 2));
  // Each of the ten pairs of five rows has probability 1/10.
  std::map<std::vector<std::size_t>, int> pairs;
  constexpr int kSeeds = 20000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<std::size_t> rows = DrawTestRows(5, 2, seed);
    ASSERT_EQ(rows.size(), 2U);
    ASSERT_LT(rows[0], rows[1]);
    ASSERT_LT(rows[1], 5U);
    ++pairs[rows];
  }
  EXPECT_EQ(pairs.size(), 10U);
  const double deviation = std::sqrt(kSeeds * .1 * .9);
  for (const auto& [rows, count] : pairs) EXPECT_NEAR(count, kSeeds / 10, 4.5 * deviation);
}

TEST(EvaluateTest, TestsAPartOfManyRowsAndMeasuresAll) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 600, 3);
  EvaluationOptions options = Options();
  options.null = NullHypothesis::kForecast;
  options.loss = {0, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  const auto all = Evaluate(set.view(), options);
  options.test_rows = 200;
  const auto part = Evaluate(set.view(), options);
  PredictionSet drawn;
  drawn.class_count = 5;
  for (const std::size_t i : DrawTestRows(600, 200, options.seed)) {
    const std::span<const double> row = set.view().row(i);
    drawn.probabilities.insert(drawn.probabilities.end(), row.begin(), row.end());
    drawn.labels.push_back(set.labels[i]);
  }
  const auto alone = Evaluate(drawn.view(), options);
  ASSERT_TRUE(all.ok() && part.ok() && alone.ok());
  EXPECT_EQ(part->n, 600U);
  EXPECT_EQ(part->tested, 200U);
  EXPECT_EQ(all->tested, 600U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(part->lenses[i].result->test.p_value, alone->lenses[i].result->test.p_value);
    EXPECT_EQ(part->lenses[i].result->test.skce.unbiased,
              alone->lenses[i].result->test.skce.unbiased);
    EXPECT_EQ((*part->lenses[i].cme)->statistic, (*alone->lenses[i].cme)->statistic);
  }
  EXPECT_EQ(part->consistency->p_value, alone->consistency->p_value);
  EXPECT_EQ(part->decision->calibration.realised_loss, alone->decision->calibration.realised_loss);
  // All else is of all rows.
  EXPECT_EQ(part->scores.log_loss, all->scores.log_loss);
  EXPECT_EQ(part->error.top_label.upper, all->error.top_label.upper);
  EXPECT_EQ(part->brier.miscalibration, all->brier.miscalibration);
  EXPECT_EQ(part->reliability[1].corp.band.back().consistency.lower,
            all->reliability[1].corp.band.back().consistency.lower);
  for (std::size_t b = 0; b < 4; ++b) {
    EXPECT_EQ(part->binned_errors[b].error.ece, all->binned_errors[b].error.ece);
  }
  EXPECT_EQ(part->blocks[0].moments.count, 300);
  // Their simulation would need all rows again and again.
  EXPECT_TRUE(part->block_tests.empty());
  EXPECT_EQ(all->block_tests.size(), 3U);

  options.test_rows = 1;
  EXPECT_THAT(Evaluate(set.view(), options).status().message(),
              HasSubstr("test_rows is 1, expected at least 2"));
}

TEST(EvaluateTest, TestRowsBoundTheCost) {
  EvaluationOptions options = Options();
  const double all = EvaluationSeconds(1000000, 10, options);
  options.test_rows = 10000;
  EXPECT_GT(all, 100 * EvaluationSeconds(1000000, 10, options));
  EXPECT_LT(EvaluationMemory(1000000, 10, options, 2), 500e6);
  EXPECT_EQ(EvaluationOperations(10000, 10, options), EvaluationOperations(10000, 10, Options()));
}

TEST(EvaluateTest, SimilarCasesAreTestedWithTheTestRows) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 300, 3);
  std::vector<double> features;
  for (std::size_t i = 0; i < 300; ++i) features.push_back(std::sin(static_cast<double>(i)));
  EvaluationOptions options;
  options.replicates = 99;
  options.seed = 5;
  const auto test = [&](std::size_t rows) {
    options.test_rows = rows;
    return EvaluateIndividual(set.view(), features, 1, options)->mmd_squared;
  };
  const BootstrapOptions resampling{.replicates = 99, .seed = 5, .null = NullHypothesis::kForecast};
  EXPECT_EQ(test(300), TestIndividual(set.view(), features, 1, resampling)->mmd_squared);
  PredictionSet drawn;
  drawn.class_count = 3;
  std::vector<double> drawn_features;
  for (const std::size_t i : DrawTestRows(300, 50, 5)) {
    const std::span<const double> row = set.view().row(i);
    drawn.probabilities.insert(drawn.probabilities.end(), row.begin(), row.end());
    drawn.labels.push_back(set.labels[i]);
    drawn_features.push_back(features[i]);
  }
  EXPECT_EQ(test(50), TestIndividual(drawn.view(), drawn_features, 1, resampling)->mmd_squared);
}

TEST(EvaluateTest, CostsGrowWithTheRequest) {
  const EvaluationOptions small = Options();
  EvaluationOptions large = Options();
  large.replicates = 1000;
  large.lenses.push_back(WithItsKernel(Lens::ClassWise()));
  EXPECT_GT(EvaluationOperations(1000, 10, large), EvaluationOperations(1000, 10, small));
  EXPECT_GT(EvaluationMemory(1000, 10, large, 2), EvaluationMemory(1000, 10, small, 2));
  EXPECT_GT(EvaluationOperations(20000, 10, small), 50 * EvaluationOperations(2000, 10, small));
}

}  // namespace
}  // namespace calibd
