#include "calibd/core/binned_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/labelled_rows.h"
#include "support/draw.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RelativeDifference;

using Bins = std::set<std::vector<std::size_t>>;

Bins ToSets(const Partition& partition) {
  Bins bins;
  for (std::size_t b = 0; b < partition.bins(); ++b) {
    bins.insert({partition.bin(b).begin(), partition.bin(b).end()});
  }
  return bins;
}

TEST(BinnedErrorTest, MatchesTheSmallCases) {
  constexpr double kTolerance = 1e-12;
  for (const auto& small : testing::SmallCases()) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const PredictionSet set = testing::ToPredictionSet(small);
    const std::size_t bins = small.at("nbins");
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      for (std::size_t k = 0; k < set.class_count; ++k) {
        EXPECT_EQ(UniformBinIndex(set.view().row(i)[k], bins),
                  small.at("bin_index").at(i).at(k).get<std::size_t>());
      }
    }
    const auto uniform = EstimateBinnedError(set.view(), UniformBins{bins});
    EXPECT_LE(RelativeDifference(uniform->ece, small.at("ECE_uniform")), kTolerance);
    EXPECT_LE(RelativeDifference(uniform->mce, small.at("MCE_uniform")), kTolerance);
    const auto top = EstimateBinnedError(set.view(), TopLabelBins{});
    EXPECT_LE(RelativeDifference(top->ece, small.at("ECE_top15")), kTolerance);
    EXPECT_LE(RelativeDifference(top->mce, small.at("MCE_top15")), kTolerance);

    if (small.at("mv_tie_ambiguous").get<bool>()) continue;
    const std::size_t min_size = small.at("mv_minsize");
    const auto median_variance = EstimateBinnedError(set.view(), MedianVarianceBins{min_size});
    EXPECT_LE(RelativeDifference(median_variance->ece, small.at("ECE_mv")), kTolerance);
    EXPECT_LE(RelativeDifference(median_variance->mce, small.at("MCE_mv")), kTolerance);
    EXPECT_EQ(ToSets(*PartitionByMedianVariance(set.view(), min_size)),
              small.at("mv_bins").get<Bins>());
    const auto three = EstimateBinnedError(set.view(), MedianVarianceBins{min_size, 3});
    EXPECT_LE(RelativeDifference(three->ece, small.at("ECE_mv_maxbins3")), kTolerance);
    EXPECT_EQ(three->bins, small.at("mv_maxbins3_n").get<std::size_t>());
  }
}

class BinnedErrorCifar10Test : public ::testing::TestWithParam<const char*> {};

TEST_P(BinnedErrorCifar10Test, MatchesTheReference) {
  const auto set = testing::ReadCifar10(GetParam());
  if (!set) GTEST_SKIP() << "no predictions in " << testing::Cifar10Dir();
  const auto expected = testing::ReadJson(testing::Cifar10Dir() / "expected.json").at(GetParam());
  constexpr double kTolerance = 1e-10;

  const auto uniform = EstimateBinnedError(set->view(), UniformBins{10});
  EXPECT_LE(RelativeDifference(uniform->ece, expected.at("ECE_uniform10")), kTolerance);
  EXPECT_LE(RelativeDifference(uniform->mce, expected.at("MCE_uniform10")), kTolerance);
  EXPECT_EQ(uniform->bins, expected.at("ECE_uniform10_nbins").get<std::size_t>());

  const auto split = EstimateBinnedError(set->view(), MedianVarianceBins{100});
  EXPECT_LE(RelativeDifference(split->ece, expected.at("ECE_medianvariance100")), kTolerance);
  EXPECT_LE(RelativeDifference(split->mce, expected.at("MCE_medianvariance100")), kTolerance);
  EXPECT_EQ(split->bins, expected.at("ECE_medianvariance100_nbins").get<std::size_t>());
  EXPECT_EQ((std::vector{split->smallest_bin, split->largest_bin}),
            expected.at("ECE_medianvariance100_binsizes_minmax").get<std::vector<std::size_t>>());

  const auto top = EstimateBinnedError(set->view(), TopLabelBins{15});
  EXPECT_LE(RelativeDifference(top->ece, expected.at("ECE_toplabel15")), kTolerance);
  EXPECT_LE(RelativeDifference(top->mce, expected.at("MCE_toplabel15")), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Networks, BinnedErrorCifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"),
                         [](const auto& network) { return std::string(network.param); });

TEST(BinnedErrorTest, SupportsEveryDistance) {
  // One bin with mean prediction (.5, .3, .2) and label frequencies (0, 1, 0).
  const PredictionSet set{{0.5, 0.3, 0.2, 0.5, 0.3, 0.2}, {1, 1}, 3};
  const auto ece = [&](Distance distance) {
    return EstimateBinnedError(set.view(), UniformBins{10, distance})->ece;
  };
  EXPECT_DOUBLE_EQ(ece(Distance::kTotalVariation), 0.7);
  EXPECT_DOUBLE_EQ(ece(Distance::kCityblock), 1.4);
  EXPECT_DOUBLE_EQ(ece(Distance::kSquaredEuclidean), 0.25 + 0.49 + 0.04);
  EXPECT_DOUBLE_EQ(ece(Distance::kEuclidean), std::sqrt(0.78));
}

TEST(BinnedErrorTest, AnEdgeBelongsToTheBinBelow) {
  EXPECT_EQ(UniformBinIndex(0, 10), 1u);
  EXPECT_EQ(UniformBinIndex(5e-324, 10), 1u);
  EXPECT_EQ(UniformBinIndex(0.5, 10), 5u);
  EXPECT_EQ(UniformBinIndex(std::nextafter(0.5, 1), 10), 6u);
  EXPECT_EQ(UniformBinIndex(1, 10), 10u);
  EXPECT_EQ(UniformBinIndex(1, kMaxBinsPerClass), kMaxBinsPerClass);
}

TEST(BinnedErrorTest, CountsEveryObservationOnceInNonEmptyBins) {
  const PredictionSet set = Draw(GeneratorSpec::M1(5), 333, 11);
  for (const auto& partition :
       {*PartitionUniformly(set.view(), 4), *PartitionByMedianVariance(set.view(), 7)}) {
    std::vector<std::size_t> rows;
    for (std::size_t b = 0; b < partition.bins(); ++b) {
      EXPECT_FALSE(partition.bin(b).empty());
      EXPECT_TRUE(std::is_sorted(partition.bin(b).begin(), partition.bin(b).end()));
      rows.insert(rows.end(), partition.bin(b).begin(), partition.bin(b).end());
    }
    std::sort(rows.begin(), rows.end());
    ASSERT_EQ(rows.size(), 333u);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i], i);
    }
  }
}

TEST(BinnedErrorTest, UniformBinsAreThoseOfEqualTuples) {
  const PredictionSet set = Draw(GeneratorSpec::M1(4), 500, 11);
  std::set<std::vector<std::size_t>> tuples;
  for (std::size_t i = 0; i < 500; ++i) {
    std::vector<std::size_t> tuple;
    for (const double p : set.view().row(i)) tuple.push_back(UniformBinIndex(p, 7));
    tuples.insert(tuple);
  }
  EXPECT_EQ(PartitionUniformly(set.view(), 7)->bins(), tuples.size());
}

TEST(BinnedErrorTest, BinsOfAScalarAscendAndAreNotEmpty) {
  const BinaryPredictions predictions{{0.95, 0, 0.31, 0.4, 1, 0.39}, {1, 0, 0, 1, 1, 0}};
  const auto partition = PartitionUniformly(predictions, 10);
  ASSERT_EQ(partition->bins(), 3u);
  EXPECT_THAT(partition->bin(0), ElementsAre(1));
  EXPECT_THAT(partition->bin(1), ElementsAre(2, 3, 5));
  EXPECT_THAT(partition->bin(2), ElementsAre(0, 4));
  EXPECT_FALSE(PartitionUniformly(predictions, 0).ok());
  EXPECT_FALSE(PartitionUniformly(BinaryPredictions{}, 10).ok());
}

TEST(BinnedErrorTest, ExtractsTopLabelAndClassFromABatch) {
  const PredictionSet set{{0.4, 0.4, 0.2, 0.1, 0.2, 0.7}, {1, 2}, 3};
  const BinaryPredictions top = TopLabelPredictions(set.view());
  EXPECT_THAT(top.probabilities, ElementsAre(0.4, 0.7));
  // The first of the most probable classes is the predicted one.
  EXPECT_THAT(top.outcomes, ElementsAre(0, 1));
  const auto second = ClassPredictions(set.view(), 1);
  EXPECT_THAT(second->probabilities, ElementsAre(0.4, 0.2));
  EXPECT_THAT(second->outcomes, ElementsAre(1, 0));
  EXPECT_THAT(std::string(ClassPredictions(set.view(), 3).status().message()),
              HasSubstr("class is 3, expected [0, 3)"));
}

TEST(BinnedErrorTest, MedianVarianceBinsHoldAtLeastMinSizeAndAtMostMaxBins) {
  const PredictionSet set = Draw(GeneratorSpec::M1(), 1000, 11);
  for (const std::size_t min_size : {1u, 10u, 333u, 501u, 1000u}) {
    const auto error = EstimateBinnedError(set.view(), MedianVarianceBins{min_size});
    EXPECT_GE(error->smallest_bin, min_size);
    EXPECT_EQ(error->bins == 1, min_size > 500);
    EXPECT_LE(EstimateBinnedError(set.view(), MedianVarianceBins{min_size, 5})->bins, 5u);
  }
}

// The bins of a set of rows by the definition, with a sort in place of a selection.
void SplitByDefinition(const PredictionBatch& batch, std::vector<std::size_t> set,
                       std::size_t min_size, Bins& bins) {
  const auto value = [&](std::size_t i, std::size_t k) { return batch.row(i)[k]; };
  const auto size = static_cast<double>(set.size());
  std::vector<double> variances;
  for (std::size_t k = 0; k < batch.class_count; ++k) {
    double mean = 0;
    for (const std::size_t i : set) mean += value(i, k) / size;
    double variance = 0;
    for (const std::size_t i : set) variance += (value(i, k) - mean) * (value(i, k) - mean);
    variances.push_back(variance);
  }
  const double largest = std::ranges::max(variances);
  const auto k = static_cast<std::size_t>(
      std::ranges::find_if(variances, [&](double v) { return v >= largest * (1 - 1e-12); }) -
      variances.begin());
  std::vector<double> sorted;
  for (const std::size_t i : set) sorted.push_back(value(i, k));
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  std::vector<std::size_t> lower;
  std::vector<std::size_t> upper;
  for (const std::size_t i : set) (value(i, k) < median ? lower : upper).push_back(i);
  if (lower.size() < min_size || upper.size() < min_size) {
    bins.insert(set);
    return;
  }
  SplitByDefinition(batch, lower, min_size, bins);
  SplitByDefinition(batch, upper, min_size, bins);
}

TEST(BinnedErrorTest, MedianVarianceBinsAreThoseOfTheDefinition) {
  // Rows with few different values have ties at the medians.
  for (const std::size_t class_count : {2u, 3u, 10u, 21u}) {
    for (const bool rounded : {false, true}) {
      GeneratorSpec spec{.alpha = std::vector<double>(class_count, 0.5), .pi = 0, .beta = {}};
      spec.beta.assign(class_count, 1.0 / static_cast<double>(class_count));
      PredictionSet set = Draw(spec, 357, 5);
      if (rounded) {
        for (double& p : set.probabilities) p = std::round(p * 4) / 4;
      }
      for (const std::size_t min_size : {1u, 5u, 40u}) {
        std::vector<std::size_t> all(set.labels.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
        Bins expected;
        SplitByDefinition(set.view(), all, min_size, expected);
        EXPECT_EQ(ToSets(*PartitionByMedianVariance(set.view(), min_size)), expected)
            << class_count << " classes, min_size " << min_size << ", rounded " << rounded;
      }
    }
  }
}

TEST(BinnedErrorTest, ASelectionHasTheErrorOfItsRows) {
  const PredictionSet set = Draw(GeneratorSpec::M2(), 60, 3);
  // Some rows are selected several times, and some not at all.
  std::vector<std::size_t> picked;
  PredictionSet copy{{}, {}, set.class_count};
  for (std::size_t i = 0; i < 100; ++i) {
    picked.push_back((i * i + 7) % set.labels.size());
    const auto row = set.view().row(picked.back());
    copy.probabilities.insert(copy.probabilities.end(), row.begin(), row.end());
    copy.labels.push_back(static_cast<std::int32_t>(i % set.class_count));
  }
  const LabelledRows rows(set.view(), picked, copy.labels);
  for (const BinnedErrorSpec& spec :
       {BinnedErrorSpec{UniformBins{}}, BinnedErrorSpec{MedianVarianceBins{}},
        BinnedErrorSpec{TopLabelBins{}}, BinnedErrorSpec{ClassWiseBins{}}}) {
    const BinnedError error = BinnedErrorOfSelection(set.view(), spec)(rows);
    const auto expected = EstimateBinnedError(copy.view(), spec);
    EXPECT_EQ(error.ece, expected->ece);
    EXPECT_EQ(error.mce, expected->mce);
    EXPECT_EQ(error.bins, expected->bins);
    EXPECT_EQ(error.smallest_bin, expected->smallest_bin);
    EXPECT_EQ(error.largest_bin, expected->largest_bin);
  }
}

TEST(BinnedErrorTest, DoesNotDependOnTheOrderOfRows) {
  const PredictionSet set = Draw(GeneratorSpec::M2(), 300, 11);
  PredictionSet reversed{{}, {}, set.class_count};
  for (std::size_t i = set.labels.size(); i-- > 0;) {
    const auto row = set.view().row(i);
    reversed.probabilities.insert(reversed.probabilities.end(), row.begin(), row.end());
    reversed.labels.push_back(set.labels[i]);
  }
  for (const BinnedErrorSpec& spec :
       {BinnedErrorSpec{UniformBins{}}, BinnedErrorSpec{MedianVarianceBins{}},
        BinnedErrorSpec{TopLabelBins{}}, BinnedErrorSpec{ClassWiseBins{}}}) {
    const auto error = EstimateBinnedError(set.view(), spec);
    const auto other = EstimateBinnedError(reversed.view(), spec);
    EXPECT_NEAR(error->ece, other->ece, 1e-14);
    EXPECT_NEAR(error->mce, other->mce, 1e-14);
    EXPECT_EQ(error->bins, other->bins);
    EXPECT_LE(error->ece, error->mce + 1e-15);
  }
}

TEST(BinnedErrorTest, ClassWiseErrorOfTwoClassesIsTheSameForBoth) {
  // Away from the edges, the bins of p and 1 - p are mirror images.
  const PredictionSet set{{0.91, 0.09, 0.33, 0.67, 0.86, 0.14, 0.31, 0.69}, {0, 0, 1, 1}, 2};
  const auto error = EstimateClassWiseError(set.view(), ClassWiseBins{10});
  ASSERT_EQ(error->size(), 2u);
  // Bins of class 0: {.91}, {.33, .31}, {.86}; |.91 - 1|, |.32 - .5|, |.86 - 0|.
  EXPECT_DOUBLE_EQ((*error)[0].ece, (0.09 + 2 * 0.18 + 0.86) / 4);
  EXPECT_DOUBLE_EQ((*error)[1].ece, (*error)[0].ece);
  EXPECT_DOUBLE_EQ((*error)[0].mce, 0.86);
  EXPECT_EQ((*error)[0].bins, 3u);
  const auto all = EstimateBinnedError(set.view(), ClassWiseBins{10});
  EXPECT_DOUBLE_EQ(all->ece, (*error)[0].ece);
  EXPECT_DOUBLE_EQ(all->mce, 0.86);
  EXPECT_EQ(all->bins, 6u);
}

TEST(BinnedErrorTest, SupportsManyClasses) {
  PredictionSet set{std::vector<double>(2 * 100000, 0), {0, 99999}, 100000};
  set.probabilities[0] = 1;
  set.probabilities[2 * 100000 - 1] = 1;
  for (const BinnedErrorSpec& spec :
       {BinnedErrorSpec{UniformBins{}}, BinnedErrorSpec{MedianVarianceBins{1}},
        BinnedErrorSpec{TopLabelBins{}}, BinnedErrorSpec{ClassWiseBins{}}}) {
    EXPECT_EQ(EstimateBinnedError(set.view(), spec)->ece, 0);
  }
  EXPECT_EQ(PartitionUniformly(set.view(), 10)->bins(), 2u);
}

TEST(BinnedErrorTest, ErrorsNameTheInvalidValue) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 5, 11);
  const auto error = [&](const BinnedErrorSpec& spec) {
    return std::string(EstimateBinnedError(set.view(), spec).status().message());
  };
  EXPECT_THAT(error(UniformBins{0}), HasSubstr("bins_per_class is 0, expected 1..100000"));
  EXPECT_THAT(error(TopLabelBins{100001}), HasSubstr("bins is 100001"));
  EXPECT_THAT(error(ClassWiseBins{0}), HasSubstr("bins is 0"));
  EXPECT_THAT(error(MedianVarianceBins{0}), HasSubstr("min_size is 0"));
  EXPECT_THAT(error(MedianVarianceBins{6}), HasSubstr("has 5 observations, needs at least 6"));
  const PredictionSet none{{}, {}, 3};
  EXPECT_EQ(EstimateBinnedError(none.view(), UniformBins{}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace calibd
